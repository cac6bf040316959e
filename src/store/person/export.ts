// Reads everything that the store holds about one person, for a copy to that person.

import type { Query, Row } from "../driver.ts";
import { readRaw } from "../operators/inbox.ts";
import type { PersonRecords } from "./find.ts";

/** One line of the export, or one file. */
export type Exported =
  | { readonly kind: "row"; readonly table: string; readonly row: Row }
  | { readonly kind: "file"; readonly name: string; readonly bytes: Uint8Array };

/** What is exported of each conversation before its messages, and after them. */
const before = [
  [
    "conversations",
    "SELECT id, channel, agent, person, person_name, via, subject, platform_id, opened_at FROM conversations WHERE id = $1",
  ],
  ["participants", "SELECT address FROM participants WHERE conversation = $1"],
] as const;
const after = [
  [
    "turns",
    "SELECT id, kind, state, question, context, reason, received_at FROM turns WHERE conversation = $1 ORDER BY seq",
  ],
  ["replies", "SELECT id, turn, kind, state, text, created_at FROM replies WHERE conversation = $1 ORDER BY id"],
  [
    "drafts",
    "SELECT id, reply, recipient, state, body, created_at, updated_at FROM drafts WHERE conversation = $1 ORDER BY seq",
  ],
  [
    "escalations",
    "SELECT number, state, cause, topic, reason, opened_at, closed_at FROM escalations WHERE conversation = $1 ORDER BY number",
  ],
  [
    "notifications",
    `SELECT notifications.kind, notifications.text, notifications.made_at FROM notifications
       JOIN notification_targets ON notification_targets.id = notifications.target
       JOIN escalations ON escalations.id = notification_targets.escalation
     WHERE escalations.conversation = $1 ORDER BY notifications.id`,
  ],
] as const;
const suppressions =
  "SELECT channel, address, own_address, active, source, reason, updated_at FROM suppressions WHERE address = $1";

/** Yields rows in the order of the conversations, with the raw messages and files as bytes. `read` runs one read. */
export async function* exportPerson(read: Read, records: PersonRecords): AsyncGenerator<Exported> {
  const seen = new Set<number>();
  for (const conversation of records.conversations) {
    for (const [table, sql] of before) yield* rows(read, table, sql, conversation);
    const events = await read((q) =>
      q.all<{ id: number }>("SELECT id FROM events WHERE conversation = $1 ORDER BY id", conversation),
    );
    for (const { id } of events) {
      seen.add(id);
      yield* event(read, id);
    }
    for (const [table, sql] of after) yield* rows(read, table, sql, conversation);
  }
  for (const id of records.events) if (!seen.has(id)) yield* event(read, id);
  for (const address of records.addresses) yield* rows(read, "suppressions", suppressions, address);
}

type Read = <T>(work: (q: Query) => Promise<T>) => Promise<T>;

async function* rows(read: Read, table: string, sql: string, value: string | number): AsyncGenerator<Exported> {
  for (const row of await read((q) => q.all(sql, value))) yield { kind: "row", table, row };
}

async function* event(read: Read, id: number): AsyncGenerator<Exported> {
  yield* rows(
    read,
    "messages",
    "SELECT id, channel, kind, state, code, reason, sender, subject, body, sent_at, received_at FROM events WHERE id = $1",
    id,
  );
  const bytes = await read((q) => readRaw(q, id));
  if (bytes) yield { kind: "file", name: `message-${id}.raw`, bytes };
  const files = await read((q) =>
    q.all<{ position: number; name: string; media_type: string; bytes: Uint8Array }>(
      `SELECT position, name, media_type, bytes FROM attachments JOIN blobs ON blobs.id = attachments.blob
       WHERE event = $1 ORDER BY position`,
      id,
    ),
  );
  for (const { position, name, media_type, bytes } of files) {
    yield {
      kind: "row",
      table: "files",
      row: { message: id, file: `message-${id}-file-${position}`, name, media_type },
    };
    yield { kind: "file", name: `message-${id}-file-${position}`, bytes };
  }
}
