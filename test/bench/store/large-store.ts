// A store with many messages against an empty one: the same transactions on both, one after the other in one run, so that
// what else the machine does meets both. The rows of the large one are written by SQL; their times lie in the last year.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { newId } from "../../../src/ops/clock.ts";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import { recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { addParticipant, conversationWith } from "../../../src/store/tables/conversations.ts";
import { changeDraft, changeReply, readDraft } from "../../../src/store/tables/drafts.ts";
import { ensureChannel, knownEvents, settleEvent, storedEvents } from "../../../src/store/tables/events.ts";
import { changeTurn, endAttempt, readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import { conversation, draft, event, turn } from "../../store/rig.ts";
import { clock } from "../clock.ts";
import { atMost, median, printFigure } from "../report.ts";

/** Ten messages to a conversation; each question has a reply, a draft and two attempts. */
const fill = `
CREATE TEMP TABLE said AS
  WITH RECURSIVE each (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM each WHERE i + 1 < @questions)
  SELECT i, printf('%010d', i * 7919 % 1000003) || printf('%08d', i) AS id, printf('k%010d', i / 5) AS k,
    'person' || (i / 5) || '@example.org' AS person, i % 5 + 1 AS seq, @now - 31536000000 + i * (31536000000 / @questions) AS at FROM each;
INSERT INTO conversations (id, channel, agent, person, token, platform_id, opened_at, seen_at)
  SELECT k, 'c', 'agent', person, 'token' || k, 'conv' || k, at, at FROM said WHERE seq = 1;
INSERT INTO participants SELECT k, person FROM said WHERE seq = 1;
INSERT INTO lanes (id, conversation, channel, direction, next_seq) SELECT k || '/in', k, 'c', 'in', 6 FROM said WHERE seq = 1
  UNION ALL SELECT k || '/out', k, 'c', 'out', 6 FROM said WHERE seq = 1;
INSERT INTO events (channel, external_id, fingerprint, kind, state, sender, subject, body, conversation, turn, due_at, sent_at, received_at)
  SELECT 'c', '<' || id || '@example.org>', 'f' || id, 'message', 'routed', person, 'hello', '{"kind":"message"}', k, 't' || id, at, at, at FROM said;
INSERT INTO turns (id, conversation, channel, person, seq, event, state, open, question, address, attempts, due_at, received_at, made_at, updated_at)
  SELECT 't' || id, k, 'c', person, seq, i + 1, 'answered', 0, @text, '{"to":[]}', 1, at, at, at, at FROM said;
INSERT INTO replies (id, conversation, channel, turn, state, text, platform_id, created_at)
  SELECT 'r' || id, k, 'c', 't' || id, 'composed', @text, 'p' || id, at FROM said;
INSERT INTO drafts (id, conversation, channel, reply, recipient, seq, state, open, body, attempts, due_at, created_at, updated_at)
  SELECT 'd' || id, k, 'c', 'r' || id, person, seq, 'sent', 0, @text, 1, at, at, at FROM said;
INSERT INTO attempts (subject, number, kind, node, token, outcome, started_at, ended_at)
  SELECT 't' || id, 1, 'ask', 'node', 1, 'sent', at, at FROM said UNION ALL SELECT 'd' || id, 1, 'send', 'node', 1, 'sent', at, at FROM said`;

async function newStore(file: string, messages: number): Promise<Database> {
  const db = openSqlite(file, Date.now);
  await migrate(db);
  await db.tx((q) => ensureChannel(q, "c"));
  if (messages > 0) fillStore(file, messages);
  while (await db.maintain());
  return db;
}

function fillStore(file: string, messages: number): void {
  const db = new Sqlite(file);
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
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
}

/** What the stages write for one message of a new customer, stage by stage. */
const stages: Readonly<Record<string, (q: Query, id: string) => Promise<unknown>>> = {
  "accept, route": async (q, id) => {
    await knownEvents(q, "c", [`<${id}@example.org>`]);
    await insertEvents(q, [
      event(`<${id}@example.org>`, { fingerprint: `f${id}`, sender: `${id}@example.org` }),
    ]);
    const [stored] = await storedEvents(q, "c", 8);
    await conversationWith(q, "c", `${id}@example.org`);
    await conversation(q, id);
    await addParticipant(q, id, `${id}@example.org`);
    await turn(q, `t${id}`, id, { person: `${id}@example.org` });
    await settleEvent(q, stored?.id ?? 0, { state: "routed", conversation: id, turn: `t${id}` });
  },
  ask: async (q, id) => recordAsking(q, await readTurn(q, `t${id}`), "node", 1),
  "answer, compose": async (q, id) => {
    await endAttempt(q, `t${id}`, "sent", null);
    await changeTurn(q, `t${id}`, { state: "answered", open: 0 });
    await draft(q, `d${id}`, id);
    await changeReply(q, `rd${id}`, "composed", null);
  },
  send: async (q, id) => {
    const row = await readDraft(q, `d${id}`);
    if (row) await recordSending(q, row, "node", 1);
    await endAttempt(q, `d${id}`, "sent", null);
    await changeDraft(q, `d${id}`, { state: "sent", open: 0, externalId: `<${id}@bridge.example.org>` });
  },
};

/** Compares the time for each stage, in batches of a burst's size. The goal is a factor of 1.15. */
export async function largeStore(messages: number, rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-bench-large-"));
  const batch = 50;
  const empty = await newStore(join(folder, "empty.db"), 0);
  const large = await newStore(join(folder, "large.db"), messages);
  const times = new Map(
    Object.keys(stages).map((name) => [name, { empty: [] as number[], large: [] as number[] }]),
  );
  try {
    for (let round = 0; round < rounds; round += 1) {
      const ids = Array.from({ length: batch }, () => newId(Date.now()));
      for (const [name, stage] of Object.entries(stages)) {
        const both = [
          { db: empty, to: times.get(name)?.empty },
          { db: large, to: times.get(name)?.large },
        ];
        for (const { db, to } of round % 2 === 0 ? both : both.reverse()) {
          const began = clock();
          // One transaction, so that the time of the disk counts once a batch.
          await db.tx(async (q) => {
            for (const id of ids) await stage(q, id);
          });
          to?.push(((clock() - began) / batch) * 1000);
        }
      }
    }
  } finally {
    await empty.close();
    await large.close();
    rmSync(folder, { recursive: true, force: true });
  }
  for (const [name, of] of times) {
    const [baseline, measured] = [median(of.empty), median(of.large)];
    printFigure({
      name: `store with ${messages} messages: ${name}`,
      baseline,
      measured,
      unit: "us",
      compare: "ratio",
      goal: atMost(measured / baseline, 1.15, "x 1.15"),
    });
  }
}
