// Serves one socket: authenticates the call from its start event, stores the events, and passes them to the live call.

import { type Channel, type Socket, sessionId } from "bridgehead/contract";
import type { CallEvent, DialectCommand, StartEvent, Translator } from "../dialects/dialect.ts";
import { Call } from "./call.ts";
import type { CallParts, ConnectionEnd } from "./leaving.ts";
import { CallRecord, personOf } from "./record.ts";

export interface ServingParts extends Pick<CallParts, "channel" | "config" | "timing" | "can"> {
  readonly calls: LiveCalls;
}

const [finished, unreadable, forbidden, restarting] = [1000, 1007, 1008, 1012];
const cut: ConnectionEnd = { reason: "socket", hungUp: false };

/** Resolves when the socket is finished. Rejects on an internal error: the socket is then closed with 1011, and the
 *  provider resumes the call over another connection. No utterance of the caller is lost silently. */
export async function serve(parts: ServingParts, socket: Socket, translator: Translator): Promise<void> {
  const events = eventsOf(socket, translator);
  const start = await startOf(events, parts, socket);
  if (start === null || start.ticket === null) return socket.close(forbidden, "no start");
  const person = personOf(start.person, start.call);
  const record = new CallRecord(parts.channel, { ...start, ticket: start.ticket, person });
  const session = sessionId(start.call);
  const before = await parts.channel.session(session);
  // The call was transferred, and the provider missed our end command. Speech after the transfer must not reach this
  // process.
  if (before?.state === "closed" && before.transferring !== null)
    return socket.close(finished, "the call was transferred");
  const opened = await parts.calls.arriving(start.call, async () =>
    (await record.opened(0)) ? { facts: await parts.channel.session(session) } : null,
  );
  if (opened === null) return socket.close(forbidden, "used before");
  // The previous connection was lost in the words before a transfer, or while the targets rang: they are rung (again).
  const ringing = parts.can.transfer === "callback" ? null : (before?.transferring ?? null);
  await live(parts, socket, translator, { start, record, events, ringing, ...opened });
}

interface OpenedCall extends Pick<CallParts, "record" | "facts" | "ringing"> {
  readonly start: StartEvent;
  readonly events: AsyncIterator<CallEvent>;
}

async function live(
  parts: ServingParts,
  socket: Socket,
  translator: Translator,
  { start, record, events, facts, ringing }: OpenedCall,
): Promise<void> {
  const { channel, calls } = parts;
  const ended = new AbortController();
  const over = AbortSignal.any([ended.signal, socket.signal]);
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  const failed = (error: unknown) => {
    if (!over.aborted) failure.reject(error);
  };
  const call = new Call({
    ...parts,
    start,
    record,
    facts,
    ringing,
    over,
    failed,
    write: (command: DialectCommand) => sendAll(socket, translator.write(command)),
    hangUp: () => socket.close(finished),
  });
  const entry = { call, replace: () => socket.close(finished, "replaced") };
  calls.enter(start.call, entry);
  beat(channel, socket, translator, over).catch(failed);
  let ending: ConnectionEnd = cut;
  try {
    await call.begin();
    const talk = converse(events, { call, record, start });
    ending = await Promise.race([talk, drained(call, socket, over), failure.promise]);
  } catch (error) {
    // An error after the connection was lost is expected and ignored.
    if (!socket.signal.aborted) throw error;
  } finally {
    ended.abort("over");
    await call.end(calls.leave(start.call, entry) ? ending : null);
  }
}

/** Yields the events of the socket, until it closes. */
async function* eventsOf(socket: Socket, translator: Translator): AsyncGenerator<CallEvent, void> {
  await sendAll(socket, translator.opening ?? []);
  for await (const data of socket) {
    let reading: ReturnType<Translator["read"]>;
    try {
      reading = translator.read(typeof data === "string" ? data : Buffer.from(data).toString());
    } catch {
      return socket.close(unreadable, "not a frame");
    }
    await sendAll(socket, reading.answers ?? []);
    yield* reading.events;
  }
}

async function startOf(
  events: AsyncIterator<CallEvent>,
  { channel, timing }: ServingParts,
  socket: Socket,
): Promise<StartEvent | null> {
  const waited = new AbortController();
  const wait = AbortSignal.any([waited.signal, socket.signal]);
  const late = channel.clock.sleep(timing.firstFrame, wait).then(() => null);
  const first = events.next().catch(() => null);
  const found = await Promise.race([first, late]);
  waited.abort("over");
  const event = found === null || found.done ? null : found.value;
  return event?.kind === "start" ? event : null;
}

interface Talk {
  readonly call: Call;
  readonly record: CallRecord;
  readonly start: StartEvent;
}

async function converse(events: AsyncIterator<CallEvent>, { call, record, start }: Talk): Promise<ConnectionEnd> {
  let again = 0;
  for (let next = await events.next(); !next.done; next = await events.next()) {
    const event = next.value;
    if (event.kind === "end") return { reason: event.reason, hungUp: true };
    if (event.kind !== "start") await call.handle(event);
    else if (event.call === start.call && event.ticket !== null) await record.opened(++again);
    else break;
  }
  return cut;
}

/** Ends the connection on a drain request. Never resolves when the connection closes first, so that its remaining
 *  events are handled. */
async function drained(call: Call, socket: Socket, over: AbortSignal): Promise<ConnectionEnd> {
  const { draining } = socket;
  await new Promise<void>((resolve) => {
    if (draining.aborted) resolve();
    draining.addEventListener("abort", () => resolve(), { once: true, signal: over });
  });
  await call.drain();
  socket.close(restarting, "restarting");
  return { reason: "restart", hungUp: false };
}

async function beat({ clock }: Channel, socket: Socket, translator: Translator, over: AbortSignal): Promise<void> {
  const { beat } = translator;
  if (beat === undefined) return;
  while (!over.aborted) {
    await socket.send(beat.frame());
    await clock.sleep(beat.everyMs, over);
  }
}

async function sendAll(socket: Socket, frames: readonly string[]): Promise<void> {
  for (const frame of frames) await socket.send(frame);
}

interface CallEntry {
  readonly call: Call;
  /** Called when another connection of the same call has replaced this one. */
  replace(): void;
}

/** Registry of the calls that are connected to this process over sockets. */
export class LiveCalls {
  readonly #entries = new Map<string, CallEntry>();
  /** Number of connections of a call between `arriving` and `enter`. */
  readonly #expected = new Map<string, number>();

  find(call: string): Call | undefined {
    return this.#entries.get(call)?.call;
  }

  /** Runs `stored`, which stores a new connection of the call. Until it returns, the previous connection reports no end,
   *  because that could be mistaken for the end of the new one. */
  async arriving<T>(call: string, stored: () => Promise<T | null>): Promise<T | null> {
    this.#expect(call, 1);
    let arrived = false;
    try {
      const found = await stored();
      arrived = found !== null;
      return found;
    } finally {
      if (!arrived) this.#expect(call, -1);
    }
  }

  /** Registers a connection whose `arriving` returned a value. The previous connection is notified and reports no end any
   *  more. */
  enter(call: string, entry: CallEntry): void {
    this.#expect(call, -1);
    const former = this.#entries.get(call);
    this.#entries.set(call, entry);
    former?.replace();
  }

  /** Removes an entry. Returns false when another connection has replaced it or is being stored. */
  leave(call: string, entry: CallEntry): boolean {
    return this.#entries.get(call) === entry && this.#entries.delete(call) && !this.#expected.has(call);
  }

  #expect(call: string, more: 1 | -1): void {
    const count = (this.#expected.get(call) ?? 0) + more;
    if (count > 0) this.#expected.set(call, count);
    else this.#expected.delete(call);
  }
}
