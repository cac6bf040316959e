// A store with many messages, whose rows are written by SQL; their times lie in the last year.

import Sqlite from "better-sqlite3";
import type { Database } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { clock } from "../clock.ts";

/** Ten messages to a conversation, which a thousand other conversations interrupt; each question has a reply, a draft, two
 *  attempts and two citations. The raw messages of the last 30 days are kept. Ids of mails are in random order, those of the
 *  daemon in the order of time, before all later ones. */
const fill = `
CREATE TEMP TABLE said AS
  WITH RECURSIVE each (i, c, seq) AS (
    SELECT 0, 0, 1 UNION ALL SELECT i + 1, (i + 1) / 5000 * 1000 + (i + 1) % 1000, (i + 1) / 1000 % 5 + 1 FROM each WHERE i + 1 < @questions)
  SELECT i, printf('%010d', i * 7919 % 1000003) || printf('%08d', i) AS id, printf('00%012d', i) AS own, printf('00%012d', c) AS k,
    'person' || c || '@example.org' AS person, seq, @now - 31536000000 + i * (31536000000 / @questions) AS at FROM each;
INSERT INTO conversations (id, channel, agent, person, token, platform_id, opened_at, seen_at)
  SELECT k, 'c', 'agent', person, 'token' || k, 'conv' || k, at, at FROM said WHERE seq = 1;
INSERT INTO participants SELECT k, person FROM said WHERE seq = 1;
INSERT INTO lanes (id, conversation, channel, direction, next_seq) SELECT k || '/in', k, 'c', 'in', 6 FROM said WHERE seq = 1
  UNION ALL SELECT k || '/out', k, 'c', 'out', 6 FROM said WHERE seq = 1;
INSERT INTO events (channel, external_id, fingerprint, kind, state, sender, subject, body, conversation, turn, due_at, sent_at, received_at)
  SELECT 'c', '<' || id || '@example.org>', 'f' || id, 'message', 'routed', person, 'hello', '{"kind":"message"}',
    k, own || 't', at, at, at FROM said;
INSERT INTO raw_messages SELECT 'c', i + 1, 'b' || id, zeroblob(2000) FROM said WHERE at > @now - 2592000000;
INSERT INTO citations SELECT 'c', '<' || id || '@example.org>', k, NULL FROM said UNION ALL SELECT 'c', '<re-' || id || '@example.org>', k, own || 'd' FROM said;
INSERT INTO turns (id, conversation, channel, person, seq, event, state, open, question, address, attempts, due_at, received_at, made_at, updated_at)
  SELECT own || 't', k, 'c', person, seq, i + 1, 'answered', 0, @text, '{"to":[]}', 1, at, at, at, at FROM said;
INSERT INTO replies (id, conversation, channel, turn, state, text, platform_id, created_at)
  SELECT own || 'r', k, 'c', own || 't', 'composed', @text, 'p' || id, at FROM said;
INSERT INTO drafts (id, conversation, channel, reply, recipient, elsewhere, seq, state, open, body, attempts, due_at, created_at, updated_at)
  SELECT own || 'd', k, 'c', own || 'r', person, 0, seq, 'sent', 0, @text, 1, at, at, at FROM said;
INSERT INTO attempts (subject, number, kind, node, token, outcome, started_at, ended_at)
  SELECT own || 't', 1, 'ask', 'node', 1, 'sent', at, at FROM said UNION ALL SELECT own || 'd', 1, 'send', 'node', 1, 'sent', at, at FROM said`;

/** A mail that was answered. */
export interface Earlier {
  readonly person: string;
  /** Message-ID of the reply. */
  readonly reply: string;
}

/** Returns the last mail of each conversation of such a store, in an order that spreads them over the store. */
export function* filledCustomers(messages: number): Generator<Earlier> {
  const conversations = messages / 10;
  for (let n = 0; n < conversations; n += 1) {
    const of = (n * 61_803) % conversations;
    const i = Math.floor(of / 1000) * 5000 + 4000 + (of % 1000);
    const id = String((i * 7919) % 1_000_003).padStart(10, "0") + String(i).padStart(8, "0");
    yield { person: `person${of}@example.org`, reply: `<re-${id}@example.org>` };
  }
}

/** Creates a store with that number of messages, a multiple of 10,000. `now`: its clock. `change` is called with the
 *  file of a filled store. */
export async function newStore(
  file: string,
  messages: number,
  now: () => number,
  change: (file: string) => void,
): Promise<Database> {
  const created = openSqlite(file, now);
  await migrate(created);
  await created.tx((q) => ensureChannel(q, "c"));
  await created.close();
  const began = clock();
  if (messages > 0) {
    fillStore(file, messages);
    change(file);
  }
  const filled = clock();
  const db = openSqlite(file, now);
  while (await db.maintain());
  if (messages > 0)
    process.stdout.write(
      `${messages} messages written in ${seconds(began, filled)} s; maintenance of the store: ${seconds(filled, clock())} s\n`,
    );
  return db;
}

const seconds = (from: number, to: number): string => ((to - from) / 1000).toFixed(0);

/** Writes the rows without a journal; they are consistent, so foreign keys need no check. The indexes exist before the
 *  rows: indexes that are created afterwards have full pages, which are split by every later insertion. */
function fillStore(file: string, messages: number): void {
  const db = new Sqlite(file);
  db.pragma("journal_mode = OFF");
  db.pragma("foreign_keys = OFF");
  db.pragma("synchronous = OFF");
  db.pragma("cache_size = -500000");
  const values = {
    questions: messages / 2,
    now: Date.now(),
    text: "Your order left our warehouse yesterday. ".repeat(5),
  };
  db.transaction(() => {
    for (const statement of fill.split(";\n")) {
      const named = Object.entries(values).filter(([name]) => statement.includes(`@${name}`));
      db.prepare(statement).run(...(named.length > 0 ? [Object.fromEntries(named)] : []));
    }
  })();
  db.pragma("journal_mode = WAL");
  db.close();
}
