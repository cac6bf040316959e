// One bound connection to a message centre: requests, responses and the check that the connection is alive.

import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { type Clock, withTimeout } from "bridgehead/contract";
import PQueue from "p-queue";
import type { SmppConfig } from "./index.ts";
import { classOf, codeOf, encode, framing, isResponse, type Pdu, type PduCommand, type PduFields } from "./pdu.ts";

/** A transceiver receives and sends. A transmitter receives no messages that need a response. */
export type Mode = "bind_transceiver" | "bind_transmitter";

/** The error when the message centre rejects our login. */
export interface BindRefusal extends Error {
  readonly status: number;
}

/** Another connection of the account is bound, such as our own before the message centre has noticed its end. That passes. */
const alreadyBound = 0x05;

export function isLoginRefusal(error: unknown): error is BindRefusal {
  if (!(error instanceof Error && "status" in error) || error.status === alreadyBound) return false;
  return classOf(Number(error.status)) === "login";
}

const unknownCommand = 0x03;
const throttled = 0x58;
/** Maximum number of deliveries in the queue; further ones are deferred. If we stopped reading the
 *  socket, the message centre's responses would also stay unread. */
const mostWaiting = 2000;

/** Connects and binds. Rejects with a `BindRefusal` when the message centre refuses. A connection that
 *  failed is closed. */
export async function openSession(config: SmppConfig, mode: Mode, clock: Clock, signal: AbortSignal): Promise<Session> {
  return withTimeout(clock, signal, config.timeout, async (limit) => {
    const session = new Session(config, clock, await connect(config, limit));
    await session.bind(mode, limit);
    return session;
  });
}

const leave = "the message centre took its leave";

/** Called where nothing waits. */
const asleep = () => undefined;

/** A connection to the message centre. */
export class Session {
  /** Aborted when the connection has ended; the reason is an Error. */
  readonly over: AbortSignal;
  readonly #ended = new AbortController();
  readonly #config: SmppConfig;
  readonly #clock: Clock;
  readonly #socket: net.Socket;
  /** Requests without a response, by sequence number. They are rejected when the connection ends. */
  readonly #requests = new Map<number, PromiseWithResolvers<Pdu>>();
  readonly #deliveries: Pdu[] = [];
  /** The texts in flight; further ones wait in order. */
  readonly #window: PQueue;
  /** Ends the wait for deliveries. */
  #wake: () => void = asleep;
  /** True after the message centre's unbind: no text is sent any more. */
  #isLeft = false;
  #sequence = 0;

  constructor(config: SmppConfig, clock: Clock, socket: net.Socket) {
    this.#config = config;
    this.#clock = clock;
    this.#socket = socket;
    this.#window = new PQueue({ concurrency: config.window });
    this.over = this.#ended.signal;
    socket.on("error", (error) => this.#end(error));
    void this.#read().catch((error: unknown) => this.#end(asError(error)));
  }

  /** Logs in, and starts to check that the connection is alive. Called once. */
  async bind(mode: Mode, signal: AbortSignal): Promise<void> {
    const { system_id, password, system_type } = this.#config;
    try {
      const fields = { system_id, password, system_type, interface_version: 0x34 };
      const answer = await this.#ask(mode, fields, signal);
      if (answer.status !== 0) {
        const why = answer.status === alreadyBound ? " (another connection of the account is bound)" : "";
        const reason = `the message centre refused the login with status ${codeOf(answer.status)}${why}`;
        throw Object.assign(new Error(reason), { status: answer.status }) satisfies BindRefusal;
      }
    } catch (error) {
      this.#end(asError(error));
      throw error;
    }
    void this.#enquire().catch(() => this.#end(new Error("the message centre does not answer any more")));
  }

  /** Resolves with the message centre's response of any status. Rejects when the signal aborts, at the
   *  timeout, and when the connection ends. `crossing` is awaited just before the first octet is sent. At
   *  most `window` texts are in flight at once. */
  submit(fields: PduFields, signal: AbortSignal, crossing?: () => Promise<void>): Promise<Pdu> {
    // When the connection ends, the texts in flight fail, and then those that wait fail as they begin.
    return this.#window.add(() => this.#ask("submit_sm", fields, signal, crossing), { signal });
  }

  /** Returns the deliveries since the last call, at least one. Returns an empty list after `ms` milliseconds, or when
   *  the signal aborts. Rejects when the connection has ended and all deliveries were returned. */
  async delivered(ms: number, signal: AbortSignal): Promise<readonly Pdu[]> {
    if (this.#deliveries.length === 0 && !this.over.aborted && !signal.aborted) {
      const woken = new AbortController();
      // Null instead of a new DOMException, which captures a stack.
      const wake = () => woken.abort(null);
      this.#wake = wake;
      signal.addEventListener("abort", wake, { once: true });
      await this.#clock.sleep(ms, woken.signal);
      signal.removeEventListener("abort", wake);
      this.#wake = asleep;
    }
    const taken = this.#deliveries.splice(0);
    if (taken.length === 0 && !signal.aborted) this.over.throwIfAborted();
    return taken;
  }

  /** Acknowledges a delivery: the message centre is no longer responsible for it. */
  answer(delivery: Pdu): void {
    this.#respond(delivery, 0);
  }

  /** Resolves when the message centre has read everything that was written so far. Rejects when this
   *  cannot be determined. */
  async flushed(signal: AbortSignal): Promise<void> {
    await this.#ask("enquire_link", {}, signal);
  }

  /** Waits for texts in flight, sends unbind, and closes the connection, at the latest when the signal aborts. */
  async close(signal: AbortSignal): Promise<void> {
    const leaving = AbortSignal.any([signal, this.over]);
    await withSignal(this.#window.onIdle(), leaving).catch(() => undefined);
    await this.#ask("unbind", {}, signal).catch(() => undefined);
    this.#end(new Error("the line was closed"));
  }

  #end(error: Error): void {
    this.#ended.abort(error);
    for (const { reject } of this.#requests.values()) reject(this.over.reason);
    this.#wake();
    this.#socket.destroy();
  }

  /** Sends a request and waits for its response. */
  #ask(command: PduCommand, fields: PduFields, until: AbortSignal, crossing?: () => Promise<void>): Promise<Pdu> {
    return withTimeout(this.#clock, until, this.#config.timeout, async (limit) => {
      this.#assertOpen(command, limit);
      if (crossing !== undefined) {
        await crossing();
        this.#assertOpen(command, limit);
      }
      this.#sequence = this.#sequence >= 0x7fffffff ? 1 : this.#sequence + 1;
      const number = this.#sequence;
      const reply = Promise.withResolvers<Pdu>();
      limit.addEventListener("abort", () => reply.reject(limit.reason), { once: true });
      this.#requests.set(number, reply);
      try {
        this.#socket.write(encode(command, number, { fields }));
        return await reply.promise;
      } finally {
        this.#requests.delete(number);
      }
    });
  }

  #assertOpen(command: PduCommand, limit: AbortSignal): void {
    limit.throwIfAborted();
    this.over.throwIfAborted();
    if (this.#isLeft && command === "submit_sm") throw new Error(leave);
  }

  /** Ends the connection after the message centre's unbind, when it has answered the requests in flight or their time is over.
   *  Without the answers their texts would be of unknown outcome. */
  async #leave({ sequence }: Pdu): Promise<void> {
    this.#isLeft = true;
    await Promise.allSettled([...this.#requests.values()].map(({ promise }) => promise));
    if (!this.over.aborted) this.#socket.write(encode("unbind_resp", sequence));
    this.#end(new Error(leave));
  }

  #respond(delivery: Pdu, status: number): void {
    if (!this.over.aborted) this.#socket.write(encode("deliver_sm_resp", delivery.sequence, { status }));
  }

  async #read(): Promise<void> {
    const frames = framing();
    for await (const chunk of this.#socket as AsyncIterable<Buffer>) {
      for (const pdu of frames(chunk)) this.#handle(pdu);
    }
    throw new Error("the message centre ended the line");
  }

  #handle(pdu: Pdu): void {
    const socket = this.#socket;
    if (isResponse(pdu)) this.#requests.get(pdu.sequence)?.resolve(pdu);
    else if (pdu.command === "deliver_sm") {
      if (this.#deliveries.length >= mostWaiting) return this.#respond(pdu, throttled);
      this.#deliveries.push(pdu);
      this.#wake();
    } else if (pdu.command === "enquire_link") socket.write(encode("enquire_link_resp", pdu.sequence));
    else if (pdu.command === "unbind") void this.#leave(pdu);
    else socket.write(encode("generic_nack", pdu.sequence, { status: unknownCommand }));
  }

  /** Sends enquire_link at intervals, because a dead connection looks like an idle one. */
  async #enquire(): Promise<void> {
    while (!this.over.aborted) {
      await this.#clock.sleep(this.#config.enquire, this.over);
      if (!this.over.aborted) await this.#ask("enquire_link", {}, this.over);
    }
  }
}

async function connect(config: SmppConfig, signal: AbortSignal): Promise<net.Socket> {
  signal.throwIfAborted();
  const { host, port, ca } = config;
  const safe = config.tls === "implicit";
  const socket = safe
    ? tls.connect({
        host,
        port,
        ...(net.isIP(host) ? {} : { servername: host }),
        ...(ca === undefined ? {} : { ca }),
      })
    : net.connect({ host, port });
  socket.setNoDelay(true);
  try {
    await once(socket, safe ? "secureConnect" : "connect", { signal });
    return socket;
  } catch (error) {
    socket.on("error", () => undefined);
    socket.destroy();
    throw error;
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Opens the connections, and selects the one over which a text is sent: the receiving one while it is open or being
 *  opened. Without one (another node has it, or it was lost), a separate connection, which only sends: messages received
 *  on it would not be processed. Only one of them is bound at a time, because many accounts may bind only once. */
export class SendLines {
  readonly #open: (mode: Mode, signal: AbortSignal) => Promise<Session>;
  readonly #timeoutMs: number;
  /** The connections that are open or being opened. */
  readonly #lines = new Map<Mode, Promise<Session>>();

  constructor(open: (mode: Mode, signal: AbortSignal) => Promise<Session>, timeoutMs: number) {
    this.#open = open;
    this.#timeoutMs = timeoutMs;
  }

  /** Opens the receiving connection, after the separate one was closed. Texts wait for it. Rejects when it cannot be
   *  opened, and when the signal aborts. */
  receive(signal: AbortSignal): Promise<Session> {
    const left = this.close(AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)]));
    return this.#opening("bind_transceiver", () => left.then(() => this.#open("bind_transceiver", signal)));
  }

  /** Rejects when no connection can be opened, and when the signal aborts. */
  async get(signal: AbortSignal): Promise<Session> {
    const line =
      this.#lines.get("bind_transceiver") ??
      this.#lines.get("bind_transmitter") ??
      this.#opening("bind_transmitter", () => this.#open("bind_transmitter", AbortSignal.timeout(this.#timeoutMs)));
    return await withSignal(line, signal);
  }

  /** Closes the separate connection. */
  async close(signal: AbortSignal): Promise<void> {
    const leaving = this.#lines.get("bind_transmitter");
    this.#lines.delete("bind_transmitter");
    await leaving?.then((line) => line.close(signal)).catch(() => undefined);
  }

  /** Opens one connection for all waiting callers. It is dropped when it fails to open, and when it ends. */
  #opening(mode: Mode, open: () => Promise<Session>): Promise<Session> {
    const line = open();
    this.#lines.set(mode, line);
    const forget = () => {
      if (this.#lines.get(mode) === line) this.#lines.delete(mode);
    };
    line.then(({ over }) => (over.aborted ? forget() : over.addEventListener("abort", forget, { once: true })), forget);
    return line;
  }
}

async function withSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const stopped = Promise.withResolvers<never>();
  const stop = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
