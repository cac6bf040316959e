// Conversations, who takes part, and the ids by which their messages are cited.

import type { Query } from "./driver.ts";

export interface ConversationRow {
  readonly id: string;
  readonly channel: string;
  readonly agent: string;
  readonly person: string;
  readonly person_name: string | null;
  readonly subject: string | null;
  readonly token: string;
  readonly platform_id: string | null;
}

const columns = "id, channel, agent, person, person_name, subject, token, platform_id";

export async function readConversation(q: Query, id: string): Promise<ConversationRow> {
  const row = await q.one<ConversationRow>(`SELECT ${columns} FROM conversations WHERE id = $1`, id);
  if (!row) throw new Error(`reading conversation ${id}: there is none`);
  return row;
}

/** Opens a conversation with its two lanes. */
export async function insertConversation(q: Query, row: Omit<ConversationRow, "platform_id">): Promise<void> {
  await q.run(
    `INSERT INTO conversations (id, channel, agent, person, person_name, subject, token, opened_at, seen_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(), now_ms())`,
    row.id,
    row.channel,
    row.agent,
    row.person,
    row.person_name,
    row.subject,
    row.token,
  );
  await q.run(
    "INSERT INTO lanes (id, conversation, channel, direction) VALUES ($1, $3, $4, 'in'), ($2, $3, $4, 'out')",
    `${row.id}/in`,
    `${row.id}/out`,
    row.id,
    row.channel,
  );
}

export async function addParticipant(q: Query, conversation: string, address: string): Promise<void> {
  await q.run(
    "INSERT INTO participants (conversation, address) VALUES ($1, $2) ON CONFLICT (conversation, address) DO NOTHING",
    conversation,
    address.toLowerCase(),
  );
}

export async function participantsOf(q: Query, conversation: string): Promise<Set<string>> {
  const rows = await q.all<{ address: string }>(
    "SELECT address FROM participants WHERE conversation = $1",
    conversation,
  );
  return new Set(rows.map((row) => row.address));
}

/** Remembers that `externalId` belongs to the conversation; `draft` when it is one of ours. */
export async function cite(
  q: Query,
  channel: string,
  externalId: string,
  conversation: string,
  draft: string | null,
): Promise<void> {
  await q.run(
    `INSERT INTO citations (channel, external_id, conversation, draft) VALUES ($1, $2, $3, $4)
     ON CONFLICT (channel, external_id, conversation) DO NOTHING`,
    channel,
    externalId,
    conversation,
    draft,
  );
}

/** Conversations in which that id was seen and `sender` takes part, newest first. Strangers who cite the id have
 *  conversations of their own with it: those must not hide the one that is meant. */
export async function conversationsCiting(
  q: Query,
  channel: string,
  externalId: string,
  sender: string,
): Promise<string[]> {
  const rows = await q.all<{ conversation: string }>(
    `SELECT citations.conversation FROM citations
     JOIN participants ON participants.conversation = citations.conversation AND participants.address = $3
     WHERE citations.channel = $1 AND citations.external_id = $2 ORDER BY citations.conversation DESC LIMIT 5`,
    channel,
    externalId,
    sender.toLowerCase(),
  );
  return rows.map((row) => row.conversation);
}

export async function conversationByToken(q: Query, channel: string, token: string): Promise<string | null> {
  const row = await q.one<{ id: string }>(
    "SELECT id FROM conversations WHERE channel = $1 AND token = $2",
    channel,
    token,
  );
  return row?.id ?? null;
}

/** The newest conversation with that person on that channel (channels where one person is one conversation). */
export async function conversationWith(q: Query, channel: string, person: string): Promise<string | null> {
  const row = await q.one<{ id: string }>(
    "SELECT id FROM conversations WHERE channel = $1 AND person = $2 ORDER BY id DESC LIMIT 1",
    channel,
    person,
  );
  return row?.id ?? null;
}

/** Binds the platform's conversation; an existing binding is replaced (the platform had lost the old one). */
export async function bindPlatform(q: Query, conversation: string, platformId: string): Promise<void> {
  await q.run("UPDATE conversations SET platform_id = $2 WHERE id = $1", conversation, platformId);
}

export async function unbindPlatform(q: Query, conversation: string): Promise<void> {
  await q.run("UPDATE conversations SET platform_id = NULL WHERE id = $1", conversation);
}

/** Whether one of our conversations is bound to that platform conversation. */
export async function isBound(q: Query, platformId: string): Promise<boolean> {
  return (await q.one("SELECT 1 FROM conversations WHERE platform_id = $1", platformId)) !== undefined;
}
