// A store with many messages against an empty one: the same mails pass the real stages on both, one store after the other
// in one run, so that what else the machine does meets both. Counts the time in SQLite only. The rows of the large store
// are written by SQL; their times lie in the last year.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { externalId, type MessageEvent } from "bridgehead/contract";
import { newId } from "../../../src/ops/clock.ts";
import type { Database } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { clock } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure } from "../report.ts";
import { parallel } from "../subject.ts";
import { replyTo, runStages, type StepTimes, steps } from "./stage-times.ts";

/** Ten messages to a conversation; each question has a reply, a draft, two attempts and two citations. The raw messages of
 *  the last 30 days are kept. Ids of mails are in random order, those of the daemon in the order of time. */
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
  SELECT 'c', '<' || id || '@example.org>', 'f' || id, 'message', 'routed', person, 'hello', '{"kind":"message"}',
    k, 't' || id, at, at, at FROM said;
INSERT INTO raw_messages SELECT 'c', i + 1, 'b' || id, zeroblob(2000) FROM said WHERE at > @now - 2592000000;
INSERT INTO citations SELECT 'c', '<' || id || '@example.org>', k, NULL FROM said UNION ALL SELECT 'c', '<re-' || id || '@example.org>', k, 'd' || id FROM said;
INSERT INTO turns (id, conversation, channel, person, seq, event, state, open, question, address, attempts, due_at, received_at, made_at, updated_at)
  SELECT 't' || id, k, 'c', person, seq, i + 1, 'answered', 0, @text, '{"to":[]}', 1, at, at, at, at FROM said;
INSERT INTO replies (id, conversation, channel, turn, state, text, platform_id, created_at)
  SELECT 'r' || id, k, 'c', 't' || id, 'composed', @text, 'p' || id, at FROM said;
INSERT INTO drafts (id, conversation, channel, reply, recipient, seq, state, open, body, attempts, due_at, created_at, updated_at)
  SELECT 'd' || id, k, 'c', 'r' || id, person, seq, 'sent', 0, @text, 1, at, at, at FROM said;
INSERT INTO attempts (subject, number, kind, node, token, outcome, started_at, ended_at)
  SELECT 't' || id, 1, 'ask', 'node', 1, 'sent', at, at FROM said UNION ALL SELECT 'd' || id, 1, 'send', 'node', 1, 'sent', at, at FROM said`;

async function newStore(file: string, messages: number): Promise<Database> {
  const created = openSqlite(file, Date.now);
  await migrate(created);
  await created.tx((q) => ensureChannel(q, "c"));
  await created.close();
  const began = clock();
  if (messages > 0) fillStore(file, messages);
  const filled = clock();
  const db = openSqlite(file, Date.now);
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

const batch = 50;

/** Mails of a round: half of them from new customers, half of them follow-ups of the previous round's. */
function mailsOf(round: number, earlier: readonly MessageEvent[]): MessageEvent[] {
  const mail = (person: string, answers: readonly string[]): MessageEvent => {
    const id = `${newId(Date.now()).slice(10)}@example.org`;
    return {
      kind: "message",
      id: externalId(`<${id}>`),
      fingerprint: `f${id}`,
      from: { address: person },
      to: [{ address: "us@example.org" }],
      thread: { answers: answers.map(externalId) },
      sentAt: new Date(),
      subject: "hello",
      text: "Where is my order? ".repeat(5),
      raw: Buffer.from(id.padEnd(2000, "x")),
    };
  };
  const fresh = Array.from({ length: batch / 2 }, (_, n) => mail(`${newId(n)}${round}@example.org`, []));
  return [...fresh, ...earlier.map(({ id, from }) => mail(from.address, [replyTo(id)]))];
}

/** Compares the time of each step, in batches of a burst's size. */
export async function largeStore(messages: number, rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-bench-large-"));
  const stores = {
    empty: runStages(await newStore(join(folder, "empty.db"), 0), parallel.conversations),
    large: runStages(await newStore(join(folder, "large.db"), messages), parallel.conversations),
  };
  const times = { empty: [] as StepTimes[], large: [] as StepTimes[] };
  let earlier: readonly MessageEvent[] = [];
  try {
    for (let round = 0; round < rounds + warmUp; round += 1) {
      const mails = mailsOf(round, earlier);
      earlier = mails.slice(0, batch / 2);
      for (const name of round % 2 === 0 ? (["empty", "large"] as const) : (["large", "empty"] as const)) {
        const measured = await stores[name].pass(mails);
        if (round >= warmUp) times[name].push(measured);
      }
    }
  } finally {
    await stores.empty.close();
    await stores.large.close();
    rmSync(folder, { recursive: true, force: true });
  }
  const name = `store with ${messages} messages`;
  const compared = (what: string, us: (of: StepTimes) => number) => {
    const [baseline, measured] = [median(times.empty.map(us)) / batch, median(times.large.map(us)) / batch];
    const goal = goalOf("largeStore", measured / baseline);
    printFigure({ name: `${name}: ${what}`, baseline, measured, unit: "us", compare: "ratio", goal });
  };
  for (const step of steps) compared(step, (of) => of[step].us);
  compared("all steps", (of) => steps.reduce((all, step) => all + of[step].us, 0));
}

/** Rounds that are not measured: they compile the code and fill the page caches. */
const warmUp = 10;
