// A message centre for tests: npm's `smpp` server on a real socket, which delivers what it has until it is answered, and
// misbehaves on demand.

import { type Attempt, type Json, type SendOutcome, sendKey } from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import smpp, { type PDU, type Server, type Session } from "smpp";
import { onTestFinished } from "vitest";
import sms from "../../../adapters/sms/index.ts";
import { freePort } from "../machine/network.ts";
import { replyTo } from "./providers.ts";

export interface Taken {
  readonly pdu: PDU;
  /** As npm's `smpp` reads it. */
  readonly text: string;
}

export type SmscFault =
  | { readonly status: number; readonly from?: number }
  | "cut-bind"
  | "silent"
  | "cut-submit"
  | "hang-submit"
  | "none";

export interface Smsc {
  readonly port: number;
  /** Every submit_sm that was not refused, in order. */
  readonly taken: readonly Taken[];
  /** Every submit_sm. */
  readonly asked: readonly Taken[];
  /** Names of the binds so far. */
  readonly binds: readonly string[];
  /** The fields of deliver_sm; they come again over the next line until they are answered. */
  deliver(fields: object): void;
  /** Fields of deliveries that were answered, in order. */
  readonly answered: readonly object[];
  /** The statuses of answers to deliveries other than 0. */
  readonly refusals: readonly number[];
  /** How often something was delivered. */
  deliveries(): number;
  /** What becomes of the next lines and texts. Answering a status `from` the n-th text on. */
  fault(fault: SmscFault): void;
  /** True: what we answer to deliveries is lost. */
  deaf(on: boolean): void;
  cut(): void;
  /** Asks the client whether it is there. */
  enquire(): Promise<PDU>;
  /** Takes leave of the client. */
  unbind(): Promise<PDU>;
  /** Answers the texts that `hang-submit` has left unanswered. */
  release(): void;
  refuse(): Promise<void>;
  listen(): Promise<void>;
  close(): Promise<void>;
}

interface Waiting {
  readonly fields: object;
  sent: Session | null;
}

/** It is closed at the end of the test. */
export async function startSmsc(
  options: {
    readonly password?: string;
    readonly key?: string;
    readonly cert?: string;
    readonly idOf?: (n: number) => string;
    /** How many connections of the account may be bound at once. */
    readonly mostBinds?: number;
  } = {},
): Promise<Smsc> {
  const { password = "secret", key, cert, idOf = (n: number) => `m${n}`, mostBinds = 100 } = options;
  const [taken, asked, binds, answered]: [Taken[], Taken[], string[], object[]] = [[], [], [], []];
  const refusals: number[] = [];
  const hanging: (() => void)[] = [];
  const sessions = new Set<Session>();
  const bound = new Set<Session>();
  let receiver: Session | null = null;
  let waiting: Waiting[] = [];
  let fault: SmscFault = "none";
  let count = 0;
  let deaf = false;

  const push = () => {
    const session = receiver;
    if (session === null) return;
    for (const one of waiting.filter(({ sent }) => sent !== session)) {
      one.sent = session;
      count += 1;
      session.deliver_sm(one.fields, (answer) => {
        if (answer.command_status !== 0) refusals.push(answer.command_status);
        if (answer.command_status !== 0 || deaf) return;
        waiting = waiting.filter((other) => other !== one);
        answered.push(one.fields);
      });
    }
  };

  const bind = (session: Session, pdu: PDU) => {
    if (fault === "silent") return;
    if (pdu["password"] !== password) return void session.send(pdu.response({ command_status: 0x0e }));
    if (bound.size >= mostBinds) return void session.send(pdu.response({ command_status: 0x05 }));
    bound.add(session);
    binds.push(pdu.command);
    session.send(pdu.response({ system_id: "centre" }));
    if (pdu.command !== "bind_transceiver") return;
    receiver = session;
    push();
  };

  const submit = (session: Session, pdu: PDU) => {
    const text = String(pdu.short_message.message);
    asked.push({ pdu, text });
    if (fault === "silent") return;
    if (typeof fault === "object" && asked.length >= (fault.from ?? 1))
      return void session.send(pdu.response({ command_status: fault.status }));
    taken.push({ pdu, text });
    const id = idOf(taken.length);
    const answer = () => void session.send(pdu.response({ message_id: id }));
    if (fault === "cut-submit") session.destroy();
    else if (fault === "hang-submit") hanging.push(answer);
    else answer();
  };

  const server: Server = smpp.createServer(key && cert ? { key, cert } : {}, (session) => {
    sessions.add(session);
    session.on("error", () => {});
    // A connection that was accepted just before the end is closed here, because no other code knows it.
    if (!server.listening) return session.destroy();
    session.on("close", () => {
      sessions.delete(session);
      bound.delete(session);
      if (receiver === session) receiver = null;
    });
    if (fault === "cut-bind") return session.destroy();
    for (const name of ["bind_transceiver", "bind_transmitter"]) session.on(name, (pdu) => bind(session, pdu));
    session.on("submit_sm", (pdu) => submit(session, pdu));
    session.on("enquire_link", (pdu) => fault !== "silent" && !deaf && session.send(pdu.response()));
    session.on("unbind", (pdu) => {
      session.send(pdu.response());
      session.close();
    });
  });
  server.on("tlsClientError", () => {});
  const port = await freePort();
  const listen = () => new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
  await listen();
  onTestFinished(() => (server.listening ? stop() : undefined));
  const cut = () => {
    for (const session of sessions) session.destroy();
  };
  const stop = () => {
    const closed = new Promise<void>((done) => server.close(() => done()));
    cut();
    return closed;
  };
  const current = (): Session => {
    if (receiver === null) throw new Error("no client is bound");
    return receiver;
  };

  return {
    port,
    taken,
    asked,
    binds,
    answered,
    refusals,
    deliver(fields) {
      waiting.push({ fields, sent: null });
      push();
    },
    deliveries: () => count,
    fault: (next) => void (fault = next),
    deaf: (on) => void (deaf = on),
    cut,
    enquire: () => new Promise((done) => void current().enquire_link(done)),
    unbind: () => new Promise((done) => void current().unbind(done)),
    release: () => {
      for (const answer of hanging.splice(0)) answer();
    },
    refuse: () => (server.listening ? stop() : Promise.resolve()),
    listen: () => (server.listening ? Promise.resolve() : listen()),
    close: () => (server.listening ? stop() : Promise.resolve()),
  };
}

/** The fields of a person's text in the default alphabet. */
export function spoken(text: string, more: object = {}): object {
  return {
    source_addr: "15550177",
    source_addr_ton: 1,
    source_addr_npi: 1,
    destination_addr: "15550100",
    dest_addr_ton: 1,
    dest_addr_npi: 1,
    data_coding: 0,
    short_message: Buffer.from(text, "latin1"),
    ...more,
  };
}

// The adapter at a message centre, as the core would run it: its `run` kept alive, drafts sent one by one.

const ours = "+15550100";
const person = "+15550177";

export interface SmppFixture extends AsyncDisposable {
  readonly channel: RecordingChannel;
  /** How `run` ended so far. */
  readonly ends: readonly unknown[];
  /** Composes and sends one text; what became of every draft. */
  send(
    text: string,
    options?: { readonly to?: string; readonly signal?: AbortSignal },
  ): Promise<readonly SendOutcome[]>;
  /** Starts `run` after `run: false`. */
  start(): void;
  /** Ends `run`, as a shutdown does. */
  stop(): Promise<void>;
}

/** Starts a message centre, and the adapter, which is bound to it unless `run` is false; both end with the test. */
export async function boundSmpp(smpp: Record<string, unknown> = {}, options: Parameters<typeof openSmpp>[1] = {}) {
  const centre = await startSmsc();
  const fixture = openSmpp({ port: centre.port, ...smpp }, options);
  onTestFinished(() => fixture.stop());
  if (options.run !== false) await bound(fixture);
  return { centre, fixture };
}

let keys = 0;

/** With `run: false` nothing is received. `channel`: what an earlier process has left. */
export function openSmpp(
  smpp: Record<string, unknown>,
  options: { readonly run?: boolean; readonly channel?: RecordingChannel; readonly block?: object } = {},
): SmppFixture {
  const channel = options.channel ?? recordingChannel();
  const config = sms.config.parse({
    provider: "smpp",
    number: ours,
    split: { target: 1600 },
    ...options.block,
    smpp: { host: "127.0.0.1", tls: "none", system_id: "desk", password: "secret", ...smpp },
  });
  const adapter = sms.create(channel, config);
  const abort = new AbortController();
  const ends: unknown[] = [];
  const live = async () => {
    while (!abort.signal.aborted) {
      const end = await adapter.inbound?.run(channel.cursor, abort.signal).then(
        () => null,
        (error: unknown) => error,
      );
      ends.push(end);
    }
  };
  let life = options.run === false ? Promise.resolve() : live();
  const stop = async () => {
    abort.abort();
    // A test that has failed while it held a commit up shall say why, not hang here.
    channel.release();
    await life;
    await adapter.close?.(AbortSignal.timeout(60_000));
  };
  return {
    channel,
    ends,
    async send(text, { to = person, signal = AbortSignal.timeout(60_000) } = {}) {
      const key = sendKey(`k${keys++}`);
      const drafts = adapter.outbound?.compose(replyTo(to, text, { key })) ?? [];
      const outcomes: SendOutcome[] = [];
      for (const draft of drafts) outcomes.push(await outcomeOf(draft, signal));
      return outcomes;
    },
    start: () => void (life = live()),
    stop,
    [Symbol.asyncDispose]: stop,
  };

  async function outcomeOf(draft: Json, signal: AbortSignal): Promise<SendOutcome> {
    let crossed = false;
    const attempt: Attempt = {
      key: sendKey(`k${keys++}`),
      number: 1,
      signal,
      crossing: async () => void (crossed = true),
      read: noFiles,
    };
    try {
      return (await adapter.outbound?.send(draft as never, attempt)) ?? { kind: "unknown", reason: "no outbound" };
    } catch (error) {
      return crossed ? { kind: "unknown", reason: String(error) } : { kind: "deferred", reason: String(error) };
    }
  }
}

/** Resolves when the adapter receives. */
export function bound(fixture: SmppFixture): Promise<void> {
  return fixture.channel.until("ready", ({ statuses }) => statuses.at(-1)?.state === "ready");
}
