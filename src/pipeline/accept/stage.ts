// Stage accept. Input: events from a channel, and the cursor after them. Effect: stores their bytes as blobs and does
// nothing else, so that the provider gets a fast response. Output: events in state `stored` (or reported as duplicates)
// and the cursor, in one transaction. Failure: the call rejects, nothing is stored, and the provider retries. Crash: as
// for a failure.

import { type Accepted, type Cursor, type InboundEvent, unstorableField, wrongFieldText } from "bridgehead/contract";
import type { Scheduler } from "../../engine/scheduler.ts";
import { type CommitPace, failpointOfCommit, type Query } from "../../store/driver.ts";
import { holdOpenWork } from "../../store/restored.ts";
import { isCited } from "../../store/tables/conversations.ts";
import { insertEvents, moveCursor, type ReaderLease, toRow } from "./rows.ts";

export type { ReaderLease, StoredMessage, StoredSession } from "./rows.ts";

/** Stores the events of one channel. Resolves after the commit. Rejects when the reader has lost its
 *  lease, and, with an error for the adapter's author, when an event cannot be stored. `startedAt` is the time, in epoch milliseconds, at which this process began to run the
 *  channel; `knownMs` is explained at `insertEvents`. */
export async function accept(
  scheduler: Scheduler,
  channel: string,
  events: readonly InboundEvent[],
  position: { readonly cursor: Cursor; readonly reader: ReaderLease } | null,
  node: string,
  startedAt = 0,
  knownMs?: number,
): Promise<readonly Accepted[]> {
  for (const event of events) {
    const wrong = unstorableField(event);
    if (wrong === null) continue;
    throw new TypeError(`accepting an event from channel ${channel}: its adapter gave ${wrongFieldText(wrong)}`);
  }
  const pace = paceOf(events);
  const isTraced = events.some((event) => tracedBy(event) !== null);
  return scheduler.commit(async (q) => {
    if (position) await moveCursor(q, channel, position);
    const kept = isTraced ? await withoutExplained(q, channel, events) : events;
    const rows = kept.map((event) => toRow(channel, event, node));
    const stored = await insertEvents(q, rows, knownMs);
    // The store is older than the traces at the provider (it was restored). Work that it still lists as
    // open may have been answered too, so that work is held.
    const isHandled = (event: InboundEvent) => event.kind === "message" && event.handledBefore?.by === "self";
    if (kept.some((event, at) => stored[at] && isHandled(event))) await holdOpenWork(q, { channel, before: startedAt });
    failpointOfCommit(q, "event.commit", { channel, events: events.length });
    return kept.map(({ id }, at) => ({ id, duplicate: !stored[at] }));
  }, pace);
}

/** A call continues at the commit of the caller's utterance. An event of its session is acknowledged. */
function paceOf(events: readonly InboundEvent[]): CommitPace | undefined {
  if (events.some(({ kind }) => kind === "session")) return "hurried";
  const isSaid = (event: InboundEvent) => event.kind === "message" && "session" in event.thread;
  if (!events.some(isSaid)) return undefined;
  return events.every(isSaid) ? "shared" : "hurried";
}

/** Returns the events, without those traces at the provider that are answers which this store knows. */
async function withoutExplained(
  q: Query,
  channel: string,
  events: readonly InboundEvent[],
): Promise<readonly InboundEvent[]> {
  const kept: InboundEvent[] = [];
  for (const event of events) {
    const cited = tracedBy(event);
    kept.push(cited !== null && (await isCited(q, channel, cited)) ? withoutTrace(event) : event);
  }
  return kept;
}

/** Returns the id under which one of our answers may cite the message, when such an answer is the only trace
 *  of an earlier handling; else null. */
export const tracedBy = (event: InboundEvent): string | null =>
  event.kind === "message" && event.handledBefore?.cited ? (event.cited ?? event.id) : null;

/** Removes `handledBefore`. The store knows the cited id, so it explains the answer: the sender has reused the id. */
export function withoutTrace(event: InboundEvent): InboundEvent {
  if (event.kind !== "message") return event;
  const { handledBefore: _, ...rest } = event;
  return rest;
}
