// What jambonz's feature server does with a call, as its source has it: verbs run one after the other, a `redirect` replaces
// or queues them, an idle call waits for commands, a background gather hears the caller and cuts what is spoken.

import { expect } from "vitest";
import type { Frame, Line } from "./adapter.ts";

export interface JambonzCall {
  /** What was spoken to its end, and what was cut, in order. */
  readonly played: readonly string[];
  readonly cut: readonly string[];
  /** The verbs that were carried out, without `say` and `config`. */
  readonly done: readonly Frame[];
  readonly configs: readonly Frame[];
  /** Whether the caller's audio arrives. */
  readonly listening: boolean;
  /** Our messages that wait for their acknowledgement, and acknowledgements without a message. */
  readonly unanswered: number;
  readonly strays: readonly Frame[];
  begin(type?: "session:new" | "session:reconnect"): void;
  speak(transcript: string, language?: string): void;
  partial(transcript: string): void;
  press(digits: string): void;
  /** What came of the dial; the leg's own status is reported before. */
  dialed(status: string): void;
  /** Finishes the current speech. */
  finish(): void;
  hangUp(): void;
}

export interface CallOptions {
  readonly callSid?: string;
  readonly from?: string;
  readonly to?: string;
  readonly direction?: "inbound" | "outbound";
  /** The connection before was lost before the call's beginning was acknowledged. */
  readonly unacknowledged?: boolean;
  /** Speech lasts until `finish` is called; else no time at all. */
  readonly slow?: boolean;
}

const largestFrame = 24 * 1024;
let ids = 0;

export function jambonzCall(line: Line, options: CallOptions = {}): JambonzCall {
  const { callSid = "5f1c6e1e-0a76-4f0e-9a4b-8d8c1d9c0a01", slow = false } = options;
  const info = {
    call_sid: callSid,
    direction: options.direction ?? "inbound",
    from: options.from ?? "+15005550001",
    to: options.to ?? "+15005550006",
    call_id: "f0a8c2@10.0.0.1",
    sip_status: 100,
    sip_reason: "Trying",
    call_status: "trying",
    account_sid: "9351f46a-678c-43f5-b8a6-d4eb58d131af",
    trace_id: "0af7651916cd43dd8448eb211c80319c",
    application_sid: "0dddaabf-0a30-43e3-84e8-426873b1a78b",
    fs_sip_address: "10.0.0.2:5060",
  };
  const played: string[] = [];
  const cut: string[] = [];
  const done: Frame[] = [];
  const configs: Frame[] = [];
  const open = new Map<string, string>();
  const strays: Frame[] = [];
  let tasks: Frame[] = [];
  let current: Frame | null = null;
  let hook: string | null = null;
  let partialHook: string | null = null;
  let notify = false;
  let gone = false;
  let ringing: "rings" | "done" = "rings";

  const send = (type: string, more: Frame = {}, wantsAck = false) => {
    const msgid = `mS8Gv${(ids++).toString(36)}kQ2`;
    if (wantsAck) open.set(msgid, type);
    line.say({ type, msgid, call_sid: callSid, ...more });
  };
  const status = (task: Frame, event: string) => {
    if (notify) send("verb:status", { data: { event, id: task["id"], name: task["verb"] } });
  };
  const over = () => {
    if (gone) return;
    gone = true;
    send("call:status", { data: { ...info, call_status: "completed", sip_status: 200, duration: 12 } });
    line.hangUp();
  };
  const isIdle = () => current === null && !gone;
  const run = () => {
    while (isIdle()) {
      const task = tasks.shift();
      if (task === undefined) return;
      status(task, "starting");
      current = task;
      if (task["verb"] === "say") {
        status(task, "start-playback");
        if (slow) return;
        finish();
      } else if (task["verb"] === "dial") {
        done.push(task);
        return;
      } else {
        carryOut(task);
        current = null;
        status(task, "finished");
      }
    }
  };
  const carryOut = (task: Frame) => {
    if (task["verb"] !== "config") {
      done.push(task);
      if (task["verb"] === "hangup") over();
      return;
    }
    configs.push(task);
    if (task["notifyEvents"] === true) notify = true;
    if (task["bargeIn"] === undefined) return;
    hook = task["bargeIn"].enable ? task["bargeIn"].actionHook : null;
    partialHook = task["bargeIn"].enable ? task["bargeIn"].partialResultHook : null;
  };
  const finish = () => {
    if (current === null) return;
    const task = current;
    played.push(task["text"]);
    status(task, "stop-playback");
    current = null;
    status(task, "finished");
    run();
  };
  const kill = () => {
    if (current === null) return;
    const task = current;
    cut.push(task["text"]);
    status(task, "stop-playback");
    status(task, "kill-playback");
    current = null;
    status(task, "finished");
  };
  line.watch((frame) => {
    expect(JSON.stringify(frame).length, "a frame jambonz does not take").toBeLessThan(largestFrame);
    if (gone) return;
    if (frame["type"] === "ack") {
      const about = open.get(frame["msgid"]);
      if (about === undefined) strays.push(frame);
      open.delete(frame["msgid"]);
      // What comes with an acknowledged reconnection is for a beginning that was never acknowledged.
      if (about === "session:reconnect" && !options.unacknowledged) return;
      if (about === "verb:hook" && current?.["verb"] === "dial" && ringing === "done") current = null;
      if (frame["data"]?.length > 0) tasks = frame["data"];
      else if (about?.startsWith("session:")) over(); // nothing to do: the call is over
      return run();
    }
    expect(frame).toMatchObject({ type: "command", command: "redirect" });
    if (frame["queueCommand"] === true) tasks.push(...frame["data"]);
    else {
      const idle = current === null;
      tasks = [...frame["data"]];
      if (idle && tasks.length === 0) return over();
      kill();
    }
    run();
  });
  const report = (name: string | null, data: Frame) => {
    expect(name, "nobody listens").not.toBeNull();
    send("verb:hook", { hook: name, data: { ...info, ...data } }, true);
  };
  const speech = (transcript: string, final: boolean, language: string) => ({
    speech: {
      language_code: language,
      channel_tag: 1,
      is_final: final,
      alternatives: [{ confidence: 0.98, transcript }],
      vendor: { name: "deepgram", evt: {} },
    },
  });
  const bargeIn = () => {
    tasks = [];
    kill();
  };
  return {
    played,
    cut,
    done,
    configs,
    strays,
    get listening() {
      return hook !== null;
    },
    get unanswered() {
      return open.size;
    },
    begin(type = "session:new") {
      const defaults = { synthesizer: { vendor: "google", language: "en-US", voice: "en-US-Wavenet-C" } };
      send(type, { data: { ...info, defaults, sip: { method: "INVITE", headers: {} } } }, true);
    },
    speak(transcript, language = "en-US") {
      bargeIn();
      report(hook, { ...speech(transcript, true, language), reason: "speechDetected" });
    },
    partial(transcript) {
      report(partialHook, speech(transcript, false, "en-US"));
    },
    press(digits) {
      bargeIn();
      report(hook, { digits, reason: "dtmfDetected" });
    },
    dialed(state) {
      ringing = "done";
      const leg = { ...info, call_sid: "8c0d2f3e-leg", parent_call_sid: callSid, call_status: state };
      send("call:status", { data: leg });
      report(current?.["actionHook"], { dial_call_status: state, dial_sip_status: 200 });
    },
    finish,
    hangUp: over,
  };
}
