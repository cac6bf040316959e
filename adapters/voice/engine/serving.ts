// Serves one socket: authenticates the call from its start event, stores the events, and passes them to the live call.

import { type Channel, type SessionFacts, type Socket, sessionId } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { CallEvent, Capabilities, Command, StartEvent, Translator } from "../dialects/dialect.ts";
import { personOf } from "../parties.ts";
import { type Ending, type LiveCall, liveCall } from "./call.ts";
import type { LiveCalls } from "./calls.ts";
import { type CallRecord, callRecord } from "./record.ts";

export interface ServingParts {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  readonly can: Capabilities;
  readonly calls: LiveCalls;
}

/** Timeout for the start event of a socket, in milliseconds. */
const firstFrameMs = 5000;
const [finished, unreadable, forbidden, restarting] = [1000, 1007, 1008, 1012];
const cut: Ending = { reason: "socket", hungUp: false };

/** Resolves when the socket is finished. Rejects on an internal error: the socket is then closed with 1011, and the
 *  provider resumes the call over another connection. No utterance of the caller is lost silently. */
export async function serve(parts: ServingParts, socket: Socket, translator: Translator): Promise<void> {
  const events = eventsOf(socket, translator);
  const start = await startOf(events, parts.channel, socket);
  if (start === null || start.ticket === null) return socket.close(forbidden, "no start");
  const person = personOf(start.person, start.call);
  const record = callRecord(parts.channel, { ...start, ticket: start.ticket, person });
  const session = sessionId(start.call);
  const before = await parts.channel.session(session);
  // The call was transferred, and the provider missed our end command. Speech after the transfer must not reach this
  // process.
  if (before?.state === "closed" && before.handingOver !== null) return socket.close(finished, "handed over");
  const opened = await parts.calls.arriving(start.call, async () =>
    (await record.opened(0)) ? { facts: await parts.channel.session(session) } : null,
  );
  if (opened === null) return socket.close(forbidden, "used before");
  // The previous connection was lost during a transfer: the targets are rung again, or still ring.
  const ringing = parts.can.transfer === "dial" ? (before?.handingOver ?? null) : null;
  await live(parts, socket, translator, { start, record, events, ringing, ...opened });
}

interface Opened {
  readonly start: StartEvent;
  readonly record: CallRecord;
  readonly events: AsyncIterator<CallEvent>;
  readonly facts: SessionFacts | null;
  readonly ringing: string | null;
}

async function live(
  parts: ServingParts,
  socket: Socket,
  translator: Translator,
  { start, record, events, facts, ringing }: Opened,
): Promise<void> {
  const { channel, calls } = parts;
  const ended = new AbortController();
  const over = AbortSignal.any([ended.signal, socket.signal]);
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  const failed = (error: unknown) => {
    if (!over.aborted) failure.reject(error);
  };
  const call = liveCall({
    ...parts,
    start,
    record,
    facts,
    ringing,
    over,
    failed,
    write: (command: Command) => sendAll(socket, translator.write(command)),
    hangUp: () => socket.close(finished),
  });
  const entry = { call, replace: () => socket.close(finished, "replaced") };
  calls.enter(start.call, entry);
  beat(channel, socket, translator, over).catch(failed);
  let ending: Ending = cut;
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
  { clock }: Channel,
  socket: Socket,
): Promise<StartEvent | null> {
  const waited = new AbortController();
  const late = clock.sleep(firstFrameMs, AbortSignal.any([waited.signal, socket.signal])).then(() => null);
  const first = events.next().catch(() => null);
  const found = await Promise.race([first, late]);
  waited.abort("over");
  const event = found === null || found.done ? null : found.value;
  return event?.kind === "start" ? event : null;
}

interface Talk {
  readonly call: LiveCall;
  readonly record: CallRecord;
  readonly start: StartEvent;
}

async function converse(events: AsyncIterator<CallEvent>, { call, record, start }: Talk): Promise<Ending> {
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
async function drained(call: LiveCall, socket: Socket, over: AbortSignal): Promise<Ending> {
  const { draining } = socket;
  await new Promise<void>((resolve) => {
    if (draining.aborted) resolve();
    draining.addEventListener("abort", () => resolve(), { once: true, signal: over });
  });
  await call.drain();
  socket.close(restarting, "restarting");
  return { reason: "restart", hungUp: false };
}

async function beat(
  { clock }: Channel,
  socket: Socket,
  translator: Translator,
  over: AbortSignal,
): Promise<void> {
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
