// Conversations, their participants, the message ids that belong to them, the outcomes of outbound conversations for
// the command that started them, and the schedule of polls.

import { ManyRows, type Query, touch } from "../driver.ts";
import { type Direction, noteDueLane } from "../lanes.ts";

export interface ConversationRow {
  readonly id: string;
  readonly channel: string;
  readonly agent: string;
  readonly person: string;
  readonly person_name: string | null;
  /** Our address that the customer writes to; null for the channel's default. */
  readonly via: string | null;
  readonly subject: string | null;
  readonly token: string;
  readonly platform_id: string | null;
}

const columns = "id, channel, agent, person, person_name, via, subject, token, platform_id";

export async function readConversation(q: Query, id: string): Promise<ConversationRow> {
  const row = await q.one<ConversationRow>(`SELECT ${columns} FROM conversations WHERE id = $1`, id);
  if (!row) throw new Error(`reading conversation ${id}: there is none`);
  return row;
}

export interface NewConversation
  extends Omit<ConversationRow, "platform_id" | "via">,
    Partial<Pick<ConversationRow, "via">> {
  /** Set when a turn with sequence number 1 is inserted with it: the turn's due time by the database's
   *  clock (epoch milliseconds); a past time means now. */
  readonly firstDue?: number;
}

const conversationRows = new ManyRows<NewConversation>(
  "INSERT INTO conversations (id, channel, agent, person, person_name, subject, token, via, opened_at, seen_at) VALUES",
  "(:id, :channel, :agent, :person, :person_name, :subject, :token, :via, now_ms(), now_ms())",
);
const laneRows = new ManyRows(
  "INSERT INTO lanes (id, conversation, channel, direction, sender, next_seq, due_at) VALUES",
  "(:id, :conversation, :channel, :direction, :sender, :seq, CASE WHEN :due < now_ms() THEN now_ms() ELSE :due END)",
  "RETURNING id AS lane, direction, channel, due_at - now_ms() AS wait",
);

/** Opens conversations with their two lanes, and announces those that are due. */
export async function insertConversations(q: Query, rows: readonly NewConversation[]): Promise<void> {
  await conversationRows.write(q, rows);
  const lanes = rows.flatMap(({ id: conversation, channel, via, firstDue: due = null }) => {
    const lane = { conversation, channel, sender: via ?? "" };
    return [
      { ...lane, id: `${conversation}/in`, direction: "in", seq: due === null ? 1 : 2, due },
      { ...lane, id: `${conversation}/out`, direction: "out", seq: 1 },
    ];
  });
  const opened = await laneRows.all<{
    lane: string;
    direction: Direction;
    channel: string;
    wait: number | null;
  }>(q, lanes);
  for (const { wait, ...row } of opened) if (wait !== null) noteDueLane(q, row.direction, { ...row, wait });
}

/** Opens a conversation with its two lanes. */
export const insertConversation = (q: Query, row: NewConversation): Promise<void> => insertConversations(q, [row]);

const participantRows = new ManyRows(
  "INSERT INTO participants (conversation, address) VALUES",
  "(:conversation, :address)",
  "ON CONFLICT (conversation, address) DO NOTHING",
);

/** Adds addresses to conversations, besides those of `conversations.person`. */
export async function addParticipants(
  q: Query,
  rows: readonly { readonly conversation: string; readonly address: string }[],
): Promise<void> {
  await participantRows.write(
    q,
    rows.map(({ conversation, address }) => ({ conversation, address: address.toLowerCase() })),
  );
}

/** Returns the condition that an address takes part in a conversation: as its person, or as a participant. Both
 *  are SQL expressions. */
export const takesPart = (conversation: string, address: string): string =>
  `(EXISTS (SELECT 1 FROM conversations own WHERE own.id = ${conversation} AND own.person = ${address})
    OR EXISTS (SELECT 1 FROM participants WHERE participants.conversation = ${conversation} AND participants.address = ${address}))`;

/** A message id that belongs to a conversation; `draft` is set for our own messages. */
export interface Citation {
  readonly channel: string;
  readonly externalId: string;
  readonly conversation: string;
  readonly draft: string | null;
}

const citationRows = new ManyRows<Citation>(
  "INSERT INTO citations (channel, external_id, conversation, draft) VALUES",
  "(:channel, :externalId, :conversation, :draft)",
  "ON CONFLICT (channel, external_id, conversation) DO NOTHING",
);

export const citeAll = (q: Query, rows: readonly Citation[]): Promise<void> => citationRows.write(q, rows);

/** Records that `externalId` belongs to the conversation; `draft` is set for our own messages. A message centre uses its ids
 *  again after some time: one that belongs to an earlier draft belongs to this one from now on. So does one that an answer
 *  has cited before the outcome of the draft was stored. */
export const cite = (
  q: Query,
  channel: string,
  externalId: string,
  conversation: string,
  draft: string | null,
): Promise<void> =>
  q.write(
    `INSERT INTO citations (channel, external_id, conversation, draft) VALUES ($1, $2, $3, $4)
     ON CONFLICT (channel, external_id, conversation) DO UPDATE SET draft = excluded.draft
     WHERE COALESCE(citations.draft, '') <> excluded.draft`,
    channel,
    externalId,
    conversation,
    draft,
  );

/** Returns whether any conversation of the channel contains that id. */
export async function isCited(q: Query, channel: string, externalId: string): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM citations WHERE channel = $1 AND external_id = $2 LIMIT 1",
    channel,
    externalId,
  );
  return row !== undefined;
}

/** Binds an outbound conversation without inbound messages to the channel address that the customer
 *  replied to. A messaging service chooses the number that it sends from. */
export async function bindVia(q: Query, conversation: string, via: string): Promise<void> {
  await q.write("UPDATE conversations SET via = $2 WHERE id = $1", conversation, via);
  await q.write("UPDATE lanes SET sender = $2 WHERE conversation = $1", conversation, via);
}

/** Records that the channel has received a message at that address. Stage route calls it at most once in
 *  `timing.route.ownAddress` for each address. */
export async function noteOwnAddress(q: Query, channel: string, address: string): Promise<void> {
  await q.write(
    `INSERT INTO own_addresses (address, channel, received_at) VALUES ($1, $2, now_ms())
     ON CONFLICT (address, channel) DO UPDATE SET received_at = excluded.received_at`,
    address,
    channel,
  );
}

/** Returns the addresses at which this channel was the last one to receive a message, newest first. */
export async function ownAddresses(q: Query, channel: string): Promise<string[]> {
  const rows = await q.all<{ address: string }>(
    `SELECT address FROM own_addresses WHERE channel = $1 AND NOT EXISTS (
       SELECT 1 FROM own_addresses other WHERE other.address = own_addresses.address
         AND other.channel <> $1 AND other.received_at >= own_addresses.received_at)
     ORDER BY received_at DESC LIMIT 50`,
    channel,
  );
  return rows.map(({ address }) => address);
}

/** Binds the conversation to the platform's; replaces an existing binding, because the platform lost the
 *  old conversation. `agent`: the one that has opened it, by whose key it is deleted at an erasure. Default: unchanged. */
export async function bindPlatform(
  q: Query,
  conversation: string,
  platformId: string,
  agent: string | null = null,
): Promise<void> {
  await q.write(
    "UPDATE conversations SET platform_id = $2, agent = COALESCE($3, agent) WHERE id = $1",
    conversation,
    platformId,
    agent,
  );
}

export async function unbindPlatform(q: Query, conversation: string): Promise<void> {
  await q.write("UPDATE conversations SET platform_id = NULL WHERE id = $1", conversation);
}

/** Returns whether a conversation in this store is bound to that platform conversation. */
export async function isBound(q: Query, platformId: string): Promise<boolean> {
  return (await q.one("SELECT 1 FROM conversations WHERE platform_id = $1", platformId)) !== undefined;
}

/** `waiting`: nothing was sent yet. `unknown`: an attempt to send has begun, and its result is not known yet. */
export interface OpeningOutcome {
  readonly state: "waiting" | "unknown" | "sent" | "held" | "failed" | "dropped";
  readonly reason: string | null;
}

interface Standing {
  readonly state: string;
  readonly reason: string | null;
}

const sent = ["sent", "delivered"];
const begun = ["sending", "unknown"];
const final = ["held", "failed", "dropped"] as const;

/** Derives the outcome from the turn, its reply and the drafts of that reply; the latest stage counts.
 *  Throws when there is no such turn. */
export async function openingOutcome(q: Query, turn: string): Promise<OpeningOutcome> {
  const own = await q.one<Standing>("SELECT state, reason FROM turns WHERE id = $1", turn);
  if (!own) throw new Error(`looking at opening ${turn}: there is none`);
  if (own.state === "failed" || own.state === "dropped") return { state: own.state, reason: own.reason };
  const reply = await q.one<Standing & { id: string }>("SELECT id, state, reason FROM replies WHERE turn = $1", turn);
  if (!reply) return { state: "waiting", reason: own.reason };
  if (reply.state === "failed") return { state: "failed", reason: reply.reason };
  const drafts = await q.all<Standing>("SELECT state, reason FROM drafts WHERE reply = $1 ORDER BY seq", reply.id);
  for (const state of final) {
    const found = drafts.find((draft) => draft.state === state);
    if (found) return { state, reason: found.reason };
  }
  if (drafts.length > 0 && drafts.every(({ state }) => sent.includes(state))) return { state: "sent", reason: null };
  const perhaps = drafts.find(({ state }) => begun.includes(state));
  if (perhaps) return { state: "unknown", reason: perhaps.reason };
  return { state: "waiting", reason: drafts.find(({ state }) => !sent.includes(state))?.reason ?? null };
}

export interface RecentOpening {
  readonly turn: string;
  readonly conversation: string;
  /** Milliseconds since it was started. */
  readonly ago: number;
  /** The `opening` column of the turn (see `readOpening`). */
  readonly opening: string;
}

/** Returns outbound conversations with that person on that channel that began within the last `withinMs` or still wait to be
 *  sent, newest first. Locks the channel's row and so waits for concurrent starts; call it in the transaction that starts the
 *  next one. */
export async function recentOpenings(
  q: Query,
  channel: string,
  person: string,
  withinMs: number,
): Promise<RecentOpening[]> {
  await q.write("UPDATE channels SET cursor = cursor WHERE id = $1", channel);
  return q.all<RecentOpening>(
    `SELECT id AS turn, conversation, now_ms() - made_at AS ago, opening FROM turns
     WHERE channel = $1 AND person = $2 AND opening IS NOT NULL AND (made_at > now_ms() - $3 OR open = 1
       OR EXISTS (SELECT 1 FROM drafts WHERE drafts.conversation = turns.conversation AND drafts.open = 1))
     ORDER BY made_at DESC, id DESC`,
    channel,
    person,
    withinMs,
  );
}

// Polls: the state of the platform's conversations and their schedule. A poll reads the mode of a conversation
// and external messages. It runs under the lease of the conversation's inbound lane, so polling never runs
// together with a question.

/** Value of `position` after a restore: all messages found by the next poll were delivered before. */
export const allKnown = -1;

const dueRows = new ManyRows(
  "INSERT INTO polls (conversation, channel, due_at) VALUES",
  "(:id, :channel, now_ms() + :ms)",
  `ON CONFLICT (conversation) DO UPDATE SET due_at = excluded.due_at
     WHERE polls.due_at IS NULL OR polls.due_at > excluded.due_at`,
);

/** Schedules polls of distinct conversations in `ms`, or keeps earlier ones. The sweep finds a later one soon enough. */
export async function schedulePolls(
  q: Query,
  conversations: readonly { readonly id: string; readonly channel: string }[],
  ms: number,
): Promise<void> {
  if (conversations.length === 0) return;
  // In a fixed order, so that concurrent transactions cannot deadlock.
  const sorted = conversations.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  await dueRows.write(
    q,
    sorted.map((one) => ({ ...one, ms })),
  );
  if (ms <= 0) for (const { channel } of sorted) touch(q, "polls", channel);
}

/** Schedules a poll in `ms`, or keeps an earlier one. */
export const schedulePoll = (
  q: Query,
  conversation: { readonly id: string; readonly channel: string },
  ms: number,
): Promise<void> => schedulePolls(q, [conversation], ms);

/** Records the mode that this daemon has just set, so that the next poll does not report it as a change. */
export async function recordMode(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  mode: "ai" | "manual",
): Promise<void> {
  await q.write(
    `INSERT INTO polls (conversation, channel, mode) VALUES ($1, $2, $3)
     ON CONFLICT (conversation) DO UPDATE SET mode = excluded.mode`,
    id,
    channel,
    mode,
  );
}

/** Resets the recorded state after the platform replaced the conversation. */
export async function resetPoll(q: Query, conversation: string): Promise<void> {
  await q.write("UPDATE polls SET mode = NULL, mark = NULL, position = 0 WHERE conversation = $1", conversation);
}
