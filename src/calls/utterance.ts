// Utterances of an open call: stored, routed and queued in one step, when nothing else has to be decided about them. Where
// one process owns the store (SQLite). Every other message of a call takes the usual way: it is stored, and stage route
// decides (`CallSessions.routeMessage`).

import type { InboundEvent, MessageEvent } from "bridgehead/contract";
import { refuse } from "../domain/guards.ts";
import { answerTo, questionContext, questionText } from "../domain/turn.ts";
import { newId } from "../ops/clock.ts";
import { traceOf } from "../ops/hops.ts";
import type { NewEvent } from "../pipeline/accept/rows.ts";
import type { ChannelRuntime } from "../pipeline/channel-runtime.ts";
import type { NewUtterance } from "../pipeline/live-sessions.ts";
import { failpointOfCommit, type Query } from "../store/driver.ts";
import { hashPrefix } from "../store/tables/suppressions.ts";
import { appendTurn } from "../store/tables/turns.ts";

type CallMessage = MessageEvent & { readonly thread: { readonly session: string } };

/** Inserts the event as routed. Inserts nothing for a copy, and nothing when stage route has more to do: the session is not
 *  open, it has a question that is superseded, the caller is a responder, suppressions of erased people may have to be
 *  restored, or our address ($7) was not recorded lately. */
const insertRouted = `
  INSERT INTO events (channel, external_id, kind, state, sender, queue, body, due_at, sent_at, received_at, conversation, turn)
  SELECT $1, $2, 'message', 'routed', $3, $3, $4, now_ms(), $5, now_ms(), sessions.conversation, $6
  FROM sessions WHERE sessions.channel = $1 AND sessions.id = $8 AND sessions.state = 'open'
    AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.conversation = sessions.conversation AND open = 1 AND turns.session = sessions.id)
    AND NOT EXISTS (SELECT 1 FROM notification_targets WHERE notification_targets.channel = $1 AND address = $3)
    AND NOT EXISTS (SELECT 1 FROM suppressions WHERE suppressions.channel = $1
      AND suppressions.address >= '${hashPrefix}' AND suppressions.address < '${hashPrefix}g')
    AND ($7 = '' OR EXISTS (SELECT 1 FROM own_addresses WHERE own_addresses.address = $7 AND own_addresses.channel = $1
      AND own_addresses.received_at > now_ms() - $9))
  ON CONFLICT DO NOTHING RETURNING id, conversation, received_at`;

/** Stores and routes the event, and queues its question. Returns false, with nothing written, when it takes the usual
 *  way. */
export async function routeUtterance(
  q: Query,
  line: ChannelRuntime,
  { event, row }: NewUtterance,
  { now, ownAddressMs }: { readonly now: number; readonly ownAddressMs: number },
): Promise<boolean> {
  const { channel, traits } = line;
  // An event of the channel that is not routed yet comes first.
  const waiting = q.touched.get("events");
  if (q.leases === null || waiting === null || waiting?.has(channel)) return false;
  if (!isUtterance(event) || !isPlain(row) || traits.platform === null) return false;
  if (refuse(event, { ...line.rules, max_age: Number.POSITIVE_INFINITY }, 0) !== null) return false;
  const person = event.from.address.toLowerCase();
  const turn = newId(now);
  const session = event.thread.session;
  const stored = await q.one<{ id: number; conversation: string; received_at: number }>(
    insertRouted,
    channel,
    row.externalId,
    person,
    row.body,
    row.sentAt,
    turn,
    traits.conversations === "person" ? (event.to[0]?.address ?? "") : "",
    session,
    ownAddressMs,
  );
  if (!stored) return false;
  const trace = traceOf(stored.id);
  q.hop({ name: "received", channel, trace, event: stored.id });
  await appendTurn(q, {
    id: turn,
    conversation: stored.conversation,
    channel,
    person,
    event: stored.id,
    trace,
    question: questionText(event, false, []),
    context: questionContext(event),
    address: JSON.stringify(answerTo(event)),
    receivedAt: stored.received_at,
    session,
  });
  failpointOfCommit(q, "route.commit", { channel });
  return true;
}

function isUtterance(event: InboundEvent): event is CallMessage {
  if (event.kind !== "message" || !("session" in event.thread)) return false;
  return event.forHumans === undefined && event.consent === undefined && event.handledBefore === undefined;
}

/** True for an event without anything that has columns or tables of its own. */
const isPlain = ({ fingerprint, cited, subject, raw, attachments }: NewEvent): boolean =>
  fingerprint === null &&
  (cited ?? null) === null &&
  subject === null &&
  raw === null &&
  attachments.length === 0;
