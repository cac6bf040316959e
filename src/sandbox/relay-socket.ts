// Twilio's side of a ConversationRelay websocket: reports caller, speech and DTMF, and receives the text to speak.

import { parsedJson } from "bridgehead/contract";
import { WebSocket } from "ws";
import type { TwimlVerb } from "./call-flow.ts";
import type { PhoneCall } from "./phone.ts";
import { reached, signature } from "./twilio-webhooks.ts";

/** One talk cycle of the agent, or a greeting or sentence that Twilio speaks itself. Times are `performance.now()`. */
export interface Spoken {
  readonly by: "relay" | "greeting" | "say";
  text: string;
  readonly tokens: { readonly text: string; readonly at: number }[];
  readonly at: number;
  /** True after the token with `last` has arrived. */
  done: boolean;
  /** Time of the caller's interruption. */
  interruptedAt: number | null;
}

export interface RelayFrame {
  readonly at: number;
  readonly frame: Readonly<Record<string, unknown>>;
}

/** How a ConversationRelay session ended. */
export type RelayEnd =
  /** We sent `end`. */
  | { readonly how: "ended"; readonly handoffData?: string }
  /** The caller hung up. */
  | { readonly how: "completed" }
  | { readonly how: "failed"; readonly code: 64102 | 64105; readonly reason: string };

export class Relay {
  readonly ended: Promise<RelayEnd>;
  readonly #line: PhoneCall;
  readonly #socket: WebSocket;
  readonly #end: (how: RelayEnd) => void;
  #current: Spoken | null = null;

  constructor(line: PhoneCall, verb: TwimlVerb, sessionId: string) {
    const { url = "", welcomeGreeting } = verb.attributes;
    const { authToken, via } = line.options;
    const { promise, resolve } = Promise.withResolvers<RelayEnd>();
    this.ended = promise;
    this.#end = resolve;
    this.#line = line;
    this.#socket = new WebSocket(reached(url, via), {
      headers: { "x-twilio-signature": signature(authToken, url), "user-agent": "TwilioProxy/1.1" },
      perMessageDeflate: false,
    });
    this.#socket.once("open", () => {
      this.#socket.send(JSON.stringify(line.dialing.first ?? setupFrame(line, verb, sessionId)));
      line.connections += 1;
      line.state = "talking";
      if (welcomeGreeting) line.spoken.push(sentence("greeting", welcomeGreeting));
      line.changed();
    });
    this.#socket.on("message", (data: Buffer) => this.#received(data.toString("utf8")));
    this.#socket.once("error", ({ message: reason }) => resolve({ how: "failed", code: 64102, reason }));
    this.#socket.once("close", (code) => resolve({ how: "failed", code: 64105, reason: `closed with ${code}` }));
  }

  /** Sends a frame, or raw text that is not a valid frame. Ignored when the socket is closed. */
  send(frame: object | string): void {
    if (this.#socket.readyState === WebSocket.OPEN)
      this.#socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  }

  /** Marks the current talk cycle as interrupted and returns it. */
  interrupted(): Spoken | null {
    const cut = this.#current ?? this.#line.spoken.at(-1) ?? null;
    if (cut) cut.interruptedAt = performance.now();
    return cut;
  }

  hangUp(): void {
    this.#end({ how: "completed" });
    this.#socket.close(1000);
  }

  /** Aborts the connection without a close frame. */
  cut(): void {
    this.#end({ how: "failed", code: 64105, reason: "cut" });
    this.#socket.terminate();
  }

  #received(text: string): void {
    const frame = read(text);
    const wrong = frame === null ? "no JSON object" : wrongIn(frame);
    if (frame !== null) this.#line.frames.push({ at: performance.now(), frame });
    if (wrong !== null) this.#line.complain(wrong);
    else if (frame?.["type"] === "text") this.#speak(frame);
    else if (frame?.["type"] === "end") {
      const data = frame["handoffData"];
      this.#end({ how: "ended", ...(typeof data === "string" ? { handoffData: data } : {}) });
      this.#socket.close(1000);
    }
    this.#line.changed();
  }

  #speak(frame: RelayFrame["frame"]): void {
    const text = String(frame["token"]);
    const at = performance.now();
    if (this.#current === null) {
      // An empty last token only closes a cycle that no longer exists.
      if (text === "" && frame["last"] === true) return;
      this.#current = { by: "relay", text: "", tokens: [], at, done: false, interruptedAt: null };
      this.#line.spoken.push(this.#current);
    }
    this.#current.text += text;
    this.#current.tokens.push({ text, at });
    if (frame["last"] !== true) return;
    this.#current.done = true;
    this.#current = null;
  }
}

export const sentence = (by: "greeting" | "say", text: string): Spoken => ({
  by,
  text,
  tokens: [],
  at: performance.now(),
  done: true,
  interruptedAt: null,
});

function setupFrame({ form }: PhoneCall, verb: TwimlVerb, sessionId: string): object {
  const { AccountSid: accountSid, CallSid: callSid, From: from, To: to, Direction: direction } = form;
  const parameters = verb.children.filter(({ name }) => name === "Parameter");
  return {
    type: "setup",
    sessionId,
    accountSid,
    parentCallSid: null,
    callSid,
    from,
    to,
    forwardedFrom: null,
    callerName: null,
    callType: "PSTN",
    direction,
    callStatus: "IN-PROGRESS",
    customParameters: Object.fromEntries(parameters.map(({ attributes }) => [attributes["name"], attributes["value"]])),
  };
}

function read(text: string): RelayFrame["frame"] | null {
  const value = parsedJson(text);
  return typeof value === "object" ? (value as RelayFrame["frame"] | null) : null;
}

const fields: Readonly<Record<string, Readonly<Record<string, "string" | "boolean" | "number" | "object">>>> = {
  text: {
    token: "string",
    last: "boolean",
    lang: "string",
    interruptible: "boolean",
    preemptible: "boolean",
  },
  play: { source: "string", loop: "number", preemptible: "boolean", interruptible: "boolean" },
  sendDigits: { digits: "string" },
  language: { ttsLanguage: "string", transcriptionLanguage: "string" },
  config: {},
  hints: {},
  end: { handoffData: "string" },
};
const needed: Readonly<Record<string, string>> = { text: "token", play: "source", sendDigits: "digits" };

/** Returns why Twilio would reject a frame; null when it is valid. */
function wrongIn(frame: RelayFrame["frame"]): string | null {
  const type = String(frame["type"]);
  const known = fields[type];
  if (!known) return `unknown type ${type}`;
  const need = needed[type];
  if (need !== undefined && frame[need] === undefined) return `${type} without ${need}`;
  for (const [name, kind] of Object.entries(known))
    if (frame[name] !== undefined && typeof frame[name] !== kind) return `${type}: ${name} is no ${kind}`;
  const strange = Object.keys(frame).find((name) => name !== "type" && !(name in known));
  return strange === undefined || type === "config" || type === "hints" ? null : `${type}: ${strange}`;
}
