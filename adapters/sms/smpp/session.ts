// One bound connection to a message centre: requests, responses and the check that the connection is alive.

import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import type { Clock } from "bridgehead/contract";
import type { SmppConfig } from "./config.ts";
import { classOf, codeOf } from "./errors.ts";
import { type Command, encode, type Fields, framing, isResponse, type Pdu } from "./pdu.ts";

/** A transceiver receives and sends. A transmitter receives no messages that need a response. */
export type Mode = "bind_transceiver" | "bind_transmitter";

export interface Session {
  /** Resolves with the message centre's response of any status. Rejects when the signal aborts, at the
   *  timeout, and when the connection ends. `crossing` is awaited just before the first octet is sent. At
   *  most `window` texts are in flight at once. */
  submit(fields: Fields, signal: AbortSignal, crossing?: () => Promise<void>): Promise<Pdu>;
  /** Returns the deliveries since the last call, at least one. Returns an empty list after `ms`
   *  milliseconds, or when the signal aborts. Rejects when the connection has ended and all deliveries
   *  were returned. */
  delivered(ms: number, signal: AbortSignal): Promise<readonly Pdu[]>;
  /** Acknowledges a delivery: the message centre is no longer responsible for it. */
  answer(delivery: Pdu): void;
  /** Resolves when the message centre has read everything that was written so far. Rejects when this
   *  cannot be determined. */
  settled(signal: AbortSignal): Promise<void>;
  /** Aborted when the connection has ended; the reason is an Error. */
  readonly over: AbortSignal;
  /** Waits for texts in flight, sends unbind, and closes the connection, at the latest when the signal
   *  aborts. */
  close(signal: AbortSignal): Promise<void>;
}

/** The error when the message centre rejects our login. */
export interface BindRefusal extends Error {
  readonly status: number;
}

export function isLoginRefusal(error: unknown): error is BindRefusal {
  return error instanceof Error && "status" in error && classOf(Number(error.status)) === "login";
}

const unknownCommand = 0x03;
const throttled = 0x58;
/** Maximum number of deliveries in the queue; further ones are deferred. If we stopped reading the
 *  socket, the message centre's responses would also stay unread. */
const mostWaiting = 2000;

/** Connects and binds. Rejects with a `BindRefusal` when the message centre refuses. A connection that
 *  failed is closed. */
export async function openSession(
  config: SmppConfig,
  mode: Mode,
  clock: Clock,
  signal: AbortSignal,
): Promise<Session> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(config.timeout)]);
  const socket = await connect(config, limit);
  const over = new AbortController();
  const end = (error: Error) => {
    over.abort(error);
    socket.destroy();
  };
  const waiting = new Map<number, (answer: Pdu) => void>();
  const deliveries: Pdu[] = [];
  let wake = Promise.withResolvers<void>();
  let sequence = 0;
  let free = config.window;
  const queue: (() => void)[] = [];

  /** Sends a request and waits for its response. */
  async function ask(
    command: Command,
    fields: Fields,
    until: AbortSignal,
    crossing?: () => Promise<void>,
  ): Promise<Pdu> {
    const own = AbortSignal.any([until, over.signal, AbortSignal.timeout(config.timeout)]);
    own.throwIfAborted();
    if (crossing !== undefined) {
      await crossing();
      own.throwIfAborted();
    }
    sequence = sequence >= 0x7fffffff ? 1 : sequence + 1;
    const number = sequence;
    const reply = Promise.withResolvers<Pdu>();
    const fail = () => reply.reject(over.signal.aborted ? over.signal.reason : own.reason);
    own.addEventListener("abort", fail, { once: true });
    waiting.set(number, reply.resolve);
    try {
      socket.write(encode(command, number, { fields }));
      return await reply.promise;
    } finally {
      waiting.delete(number);
      own.removeEventListener("abort", fail);
    }
  }

  function answer(delivery: Pdu, status: number): void {
    if (!over.signal.aborted) socket.write(encode("deliver_sm_resp", delivery.sequence, { status }));
  }

  async function read(): Promise<void> {
    const frames = framing();
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      for (const pdu of frames(chunk)) hear(pdu);
    }
    throw new Error("the message centre ended the line");
  }

  function hear(pdu: Pdu): void {
    if (isResponse(pdu)) waiting.get(pdu.sequence)?.(pdu);
    else if (pdu.command === "deliver_sm") {
      if (deliveries.length >= mostWaiting) return answer(pdu, throttled);
      deliveries.push(pdu);
      wake.resolve();
    } else if (pdu.command === "enquire_link") socket.write(encode("enquire_link_resp", pdu.sequence));
    else if (pdu.command === "unbind") {
      socket.write(encode("unbind_resp", pdu.sequence));
      end(new Error("the message centre took its leave"));
    } else socket.write(encode("generic_nack", pdu.sequence, { status: unknownCommand }));
  }

  /** Sends enquire_link at intervals, because a dead connection looks like an idle one. */
  async function enquire(): Promise<void> {
    while (!over.signal.aborted) {
      await clock.sleep(config.enquire, over.signal);
      if (!over.signal.aborted) await ask("enquire_link", {}, over.signal);
    }
  }

  socket.on("error", end);
  over.signal.addEventListener("abort", () => wake.resolve(), { once: true });
  void read().catch((error: unknown) => end(asError(error)));
  try {
    const credentials = {
      system_id: config.system_id,
      password: config.password,
      system_type: config.system_type,
    };
    const answer = await ask(mode, { ...credentials, interface_version: 0x34 }, limit);
    if (answer.status !== 0) {
      const reason = `the message centre refused the login with status ${codeOf(answer.status)}`;
      throw Object.assign(new Error(reason), { status: answer.status }) satisfies BindRefusal;
    }
  } catch (error) {
    end(asError(error));
    throw error;
  }
  void enquire().catch(() => end(new Error("the message centre does not answer any more")));

  return {
    over: over.signal,
    async submit(fields, until, crossing) {
      if (free > 0) free -= 1;
      else await turn(queue, AbortSignal.any([until, over.signal]));
      try {
        return await ask("submit_sm", fields, until, crossing);
      } finally {
        // The slot passes to the next text in the queue and is not released, so that no later text
        // overtakes it.
        const next = queue.shift();
        if (next) next();
        else free += 1;
      }
    },
    async delivered(ms, until) {
      if (deliveries.length === 0 && !over.signal.aborted) {
        wake = Promise.withResolvers<void>();
        const done = new AbortController();
        const limits = AbortSignal.any([until, over.signal, done.signal]);
        await Promise.race([wake.promise, clock.sleep(ms, limits)]);
        done.abort();
      }
      const taken = deliveries.splice(0);
      if (taken.length === 0 && !until.aborted) over.signal.throwIfAborted();
      return taken;
    },
    answer: (delivery) => answer(delivery, 0),
    settled: async (until) => void (await ask("enquire_link", {}, until)),
    async close(until) {
      const leaving = AbortSignal.any([until, over.signal]);
      while (free < config.window && !leaving.aborted) await clock.sleep(10, leaving);
      await ask("unbind", {}, until).catch(() => undefined);
      end(new Error("the line was closed"));
    },
  };
}

/** Waits in the queue for a slot. */
async function turn(queue: (() => void)[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = () => {
    const place = queue.indexOf(resolve);
    if (place >= 0) queue.splice(place, 1);
    reject(signal.reason);
  };
  signal.addEventListener("abort", leave, { once: true });
  queue.push(resolve);
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", leave);
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
