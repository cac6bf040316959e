// What is asked often reads what is open, never the history: proven by the databases' own plans over a history.

import { describe, expect, it } from "vitest";
import { loadOutages } from "../../src/escalation/health/rows.ts";
import * as notify from "../../src/escalation/notify/rows.ts";
import * as polls from "../../src/escalation/poll/rows.ts";
import * as replies from "../../src/escalation/reply/rows.ts";
import * as triggers from "../../src/escalation/trigger/rows.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { leaseTurns } from "../../src/pipeline/ask/rows.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { type Facts, type Incoming, messageOf } from "../../src/pipeline/route/facts.ts";
import { loadConversations, loadFacts } from "../../src/pipeline/route/rows.ts";
import { leaseDrafts } from "../../src/pipeline/send/rows.ts";
import type { Database, Query, Row, Value } from "../../src/store/driver.ts";
import { find, listConversations, summariesOf } from "../../src/store/operators/find.ts";
import { conversationHistory } from "../../src/store/operators/history.ts";
import { listEvents } from "../../src/store/operators/inbox.ts";
import { listDrafts } from "../../src/store/operators/outbox.ts";
import { countHour, lastQuestions, overview } from "../../src/store/operators/overview.ts";
import * as lists from "../../src/store/operators/worklists.ts";
import { forget } from "../../src/store/retention.ts";
import { cite, schedulePoll } from "../../src/store/tables/conversations.ts";
import * as escalations from "../../src/store/tables/escalations.ts";
import { fairEvents, postponeChannel, storedEvents } from "../../src/store/tables/events.ts";
import { pauseChannel } from "../../src/store/tables/pauses.ts";
import * as contacts from "../../src/store/tables/responders.ts";
import { customerHistories, transcriptsOf } from "../../src/store/tables/transcript.ts";
import { eventRow, lineOf } from "../support/pipeline/stage.ts";
import { notification } from "../support/rows.ts";
import {
  addParticipant,
  addTrigger,
  contact,
  conversation,
  draft,
  dueChannels,
  fresh,
  type NewDatabase,
  notice,
  onEachDatabase,
  opens,
  sqliteDatabase,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const rows = 2000;
const large =
  `attachments blobs citations conversations drafts escalations events lanes notification_targets notifications
  platform_webhooks polls raw_messages replies triggers turns`.split(/\s+/);

/** `rows` copies of the table's only row; `changes` tells what differs, as SQL over the copy's number `n.i`. */
async function copy(q: Query, table: string, changes: Readonly<Record<string, string>>): Promise<void> {
  const row = await q.one(`SELECT * FROM ${table}`);
  const columns = Object.keys(row ?? {}).filter((name) => name !== "id" || "id" in changes);
  await q.run(
    `INSERT INTO ${table} (${columns.join(", ")})
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
     SELECT ${columns.map((name) => changes[name] ?? `${table}.${name}`).join(", ")} FROM ${table}, n`,
  );
}

const numbered = (prefix: string): string => `'${prefix}' || CAST(n.i AS TEXT)`;

/** Everything is done: `rows` of each kind, all young enough to be kept. `maintained`: SQLite has statistics. */
async function withHistory(newDatabase: NewDatabase, maintained: boolean): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    const blob = { id: "att", bytes: Buffer.from("a") };
    const attachments = [{ name: "a", mediaType: "b/c", size: 1, blob, ref: null, named: true }];
    const event = await storeEvent(q, "e", { raw: { id: "raw", bytes: Buffer.from("raw") }, attachments });
    await conversation(q, "k");
    await addParticipant(q, "k", "a@example.org");
    await cite(q, "c", "<m>", "k", null);
    await turn(q, "t", "k");
    await draft(q, "d", "k");
    await q.run("UPDATE events SET state = 'routed'");
    await q.run("UPDATE turns SET state = 'answered', open = 0");
    await q.run("UPDATE replies SET state = 'composed'");
    await q.run("UPDATE drafts SET state = 'sent', open = 0");
    await q.run("DELETE FROM lanes WHERE id = 'k/in'");
    await q.run("UPDATE lanes SET due_at = NULL");
    await copy(q, "events", { external_id: numbered("e") });
    await copy(q, "attachments", { event: `n.i + ${event}` });
    await copy(q, "raw_messages", { event: `n.i + ${event}` });
    await copy(q, "blobs", { id: numbered("b") });
    await copy(q, "conversations", { id: numbered("k"), token: numbered("token") });
    await copy(q, "participants", { conversation: numbered("k") });
    await copy(q, "citations", { external_id: numbered("<m"), conversation: numbered("k") });
    await copy(q, "lanes", { id: numbered("l"), conversation: numbered("k") });
    await copy(q, "turns", { id: numbered("t"), conversation: numbered("k") });
    await copy(q, "replies", { id: numbered("r"), conversation: numbered("k") });
    await copy(q, "drafts", { id: numbered("d"), conversation: numbered("k"), reply: numbered("r") });
    await withClosed(q);
  });
  // PostgreSQL needs statistics. SQLite must do without them as well: a store has none before its first maintenance with rows.
  if (db.kind === "postgres") await db.tx((q) => q.run("ANALYZE"));
  else if (maintained) {
    while (await db.maintain());
    const known = await db.read((q) => q.all<{ tbl: string }>("SELECT DISTINCT tbl FROM sqlite_stat1"));
    expect(known.map(({ tbl }) => tbl)).toEqual(expect.arrayContaining(large));
  }
  return db;
}

/** Every conversation had an escalation with a notification and was polled; one escalation is open. */
async function withClosed(q: Query): Promise<void> {
  await opens(q, "e", { about: "conversation:k", conversation: "k" });
  await addTrigger(q, { key: "s", escalation: "e", source: "ours", detail: "d" });
  await contact(q, "o", "e");
  await contacts.giveLinks(q, [{ target: "o", link: "hash" }], 1);
  await notify.bindTargets(q, [{ target: "o", conversation: "k" }]);
  await notice(q, "n", "o");
  await notify.endNotifications(q, ["n"], "rd");
  await escalations.closeEscalation(q, "e", "Dora");
  await schedulePoll(q, { id: "k", channel: "c" }, 0);
  await q.run("UPDATE polls SET due_at = NULL");
  await q.run(
    `INSERT INTO platform_webhooks (agent, id, kind, body, state, received_at)
     VALUES ('agent', 'i', 'escalation', '{}', 'done', now_ms())`,
  );
  await copy(q, "escalations", {
    id: numbered("e"),
    number: "n.i + 10",
    about: numbered("conversation:k"),
    conversation: numbered("k"),
  });
  await copy(q, "triggers", { key: numbered("s"), escalation: numbered("e") });
  const links = { address: numbered("o"), link: numbered("hash") };
  await copy(q, "notification_targets", {
    id: numbered("o"),
    escalation: numbered("e"),
    conversation: numbered("k"),
    ...links,
  });
  await copy(q, "notifications", { id: numbered("n"), target: numbered("o"), reply: numbered("r") });
  await copy(q, "polls", { conversation: numbered("k") });
  await copy(q, "platform_webhooks", { id: numbered("i") });
  await opens(q, "open", { about: "conversation:k7", conversation: "k7" });
}

interface Asked {
  readonly sql: string;
  readonly values: readonly Value[];
}

/** Notes what `work` asks, and lets it have the answers. */
function noting(q: Query, asked: Asked[]): Query {
  const note = <T>(sql: string, values: Value[], run: (sql: string, ...values: Value[]) => Promise<T>) => {
    asked.push({ sql, values });
    return run(sql, ...values);
  };
  return {
    ...q,
    all: <T = Row>(sql: string, ...values: Value[]) => note(sql, values, (s, ...v) => q.all<T>(s, ...v)),
    one: <T = Row>(sql: string, ...values: Value[]) => note(sql, values, (s, ...v) => q.one<T>(s, ...v)),
    run: (sql, ...values) => note(sql, values, (s, ...v) => q.run(s, ...v)),
    write: (sql, ...values) => note(sql, values, (s, ...v) => q.write(s, ...v)),
    defer: (deferred, sql, ...values) => note(sql, values, (s, ...v) => q.defer(deferred, s, ...v)),
    writeOne: (otherwise, sql, ...values) => note(sql, values, (s, ...v) => q.writeOne(otherwise, s, ...v)),
  };
}

interface Plan {
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Relation Name"?: string;
  readonly Plans?: readonly Plan[];
}

const touched = (plan: Plan): number =>
  (large.includes(plan["Relation Name"] ?? "")
    ? (plan["Actual Rows"] + (plan["Rows Removed by Filter"] ?? 0)) * plan["Actual Loops"]
    : 0) + (plan.Plans ?? []).reduce((sum, inner) => sum + touched(inner), 0);

/** The statements that read more than a few rows, each with what the database says of it. */
async function scans(db: Database, work: (q: Query) => Promise<unknown>): Promise<string[]> {
  return db.tx(async (q) => {
    const asked: Asked[] = [];
    await work(noting(q, asked));
    expect(asked.length).toBeGreaterThan(0);
    const found: string[] = [];
    for (const { sql, values } of asked) {
      if (db.kind === "sqlite") found.push(...(await sqliteScans(q, sql, values)));
      else {
        const [row] = await q.all<Record<string, [{ Plan: Plan }]>>(`EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`, ...values);
        const plan = row?.["QUERY PLAN"]?.[0].Plan;
        if (!plan) throw new Error("there is no plan");
        if (touched(plan) > rows / 10) found.push(`${sql}: ${touched(plan)} rows`);
      }
    }
    return found;
  });
}

/** A scan is a whole table, or an index that holds every row of it; one over a partial index reads what is open. */
async function sqliteScans(q: Query, sql: string, values: readonly Value[]): Promise<string[]> {
  const partial = await q.all<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'",
  );
  const names = new Set(partial.map(({ name }) => name));
  const plan = await q.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values);
  return plan
    .map(({ detail }) => detail)
    .filter((detail) => {
      const [, table = "", index = ""] = /^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?/.exec(detail) ?? [];
      return large.includes(table) && !names.has(index);
    })
    .map((detail) => `${sql}: ${detail}`);
}

/** How SQLite finds what `work` asks. */
async function plans(db: Database, work: (q: Query) => Promise<unknown>): Promise<string[]> {
  return db.tx(async (q) => {
    const asked: Asked[] = [];
    await work(noting(q, asked));
    const found: string[] = [];
    for (const { sql, values } of asked)
      for (const { detail } of await q.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values))
        found.push(detail);
    return found;
  });
}

const messageCiting = (id: string, row: number): Incoming =>
  messageOf(eventRow({ id: row }), {
    id: `new${row}`,
    from: { address: "a@example.org" },
    replyTo: { address: "a+1@example.org" },
    to: [{ address: "us@example.com" }],
    thread: { answers: [id], tokens: [`token${row}`] },
  } as unknown as Incoming["event"]);

onEachDatabase((newDatabase) => {
  const states = newDatabase === sqliteDatabase ? ["without statistics", "with statistics"] : ["with statistics"];
  describe.each(states)("scans %s", (state) => {
    const filled = () => withHistory(newDatabase, state === "with statistics");

    it("are none, over a history, in what is asked at every commit, scrape and clean-up", async () => {
      const db = await filled();
      expect(await scans(db, overview)).toEqual([]);
      expect(await scans(db, (q) => dueChannels(q, "events"))).toEqual([]);
      expect(await scans(db, (q) => dueChannels(q, "replies"))).toEqual([]);
      expect(await scans(db, (q) => dueChannels(q, "attachments"))).toEqual([]);
      expect(await scans(db, (q) => dueChannels(q, "drafts"))).toEqual([]);
      const ages = { rawMs: 86_400_000, eventsMs: 86_400_000 };
      expect(await scans(db, (q) => forget(q, ages, standardTiming.upkeep.retentionRecheck))).toEqual([]);
      const now = Date.now();
      expect(await scans(db, (q) => countHour(q, now + 3_600_000, now + 7_200_000))).toEqual([]);
      expect(await scans(db, lastQuestions)).toEqual([]);
      const page = { channel: "c", reason: "r", text: "t", limit: 50 };
      for (const states of [["ignored"], ["held", "failed"]] as const) {
        expect(await scans(db, (q) => lists.listMessages(q, states, page))).toEqual([]);
        expect(await scans(db, (q) => lists.groupMessages(q, states))).toEqual([]);
      }
      for (const state of ["held", "failed"] as const) {
        expect(await scans(db, (q) => lists.listReplies(q, state, page))).toEqual([]);
        expect(await scans(db, (q) => lists.groupReplies(q, state))).toEqual([]);
      }
      for (const kind of ["messages", "questions", "replies"] as const)
        expect(await scans(db, (q) => lists.listWaiting(q, kind, { limit: 50 }))).toEqual([]);
      for (const kind of lists.waitingKinds) expect(await scans(db, (q) => lists.countWaiting(q, kind))).toEqual([]);
      expect(await scans(db, (q) => escalations.unclosedEscalations(q, 9))).toEqual([]);
      // The judge is no yes-man.
      expect(await scans(db, (q) => q.all("SELECT id FROM turns WHERE open = 0 AND reason IS NULL"))).toHaveLength(1);
    });

    it("read no row of what waits, for the counts and ages of the overview, but the oldest", async () => {
      const db = await filled();
      if (db.kind === "postgres") return; // it reads tables of this size whole
      const rowsOf = /^(SCAN|SEARCH) (events|turns|drafts|replies) /;
      const read = (await plans(db, overview)).filter(
        (detail) => rowsOf.test(detail) && !detail.includes("COVERING INDEX"),
      );
      // Each in the order of its index, with LIMIT 1.
      expect([...new Set(read)].toSorted()).toEqual([
        "SEARCH events USING INDEX events_stored (channel=? AND postponed=?)",
        "SEARCH turns USING INDEX turns_now (channel=? AND state=?)",
      ]);
      for (const kind of lists.waitingKinds) {
        const listed = await plans(db, (q) => lists.listWaiting(q, kind, { limit: 50 }));
        expect(listed).not.toContain("USE TEMP B-TREE FOR ORDER BY");
        expect(listed.join()).toMatch(/USING INDEX (events_stored|turns_now|drafts_now) \(channel=\?/);
      }
    });

    it("are none, over a history, in claim queries, next to leased lanes too", async () => {
      const db = await filled();
      await db.tx((q) => q.run("UPDATE lanes SET due_at = now_ms() WHERE id IN ('l7', 'l8', 'l9')"));
      const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 1, clock: systemClock };
      expect(await scans(db, (q) => leaseTurns(q, claim))).toEqual([]);
      expect(await scans(db, (q) => leaseDrafts(q, claim))).toEqual([]);
      expect(await db.tx((q) => leaseDrafts(q, claim))).toHaveLength(1);
      expect(await scans(db, (q) => leaseDrafts(q, claim))).toEqual([]);
      // SQLite looks each announced lane up by its key.
      const announced = { ...claim, limit: 10, announced: true };
      await db.tx((q) => leaseTurns(q, announced));
      expect(await scans(db, (q) => leaseTurns(q, announced))).toEqual([]);
    });

    it("read no due lane of a paused channel but those of its work that may start", async () => {
      const db = await filled();
      const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 1, clock: systemClock };
      await db.tx(async (q) => {
        await q.run("UPDATE lanes SET due_at = now_ms()");
        await pauseChannel(q, { channel: "c", code: "operator", reason: "r", event: null, forMs: null });
      });
      if (db.kind === "postgres") {
        await db.tx((q) => q.run("ANALYZE"));
        expect(await scans(db, (q) => leaseDrafts(q, claim))).toEqual([]);
        return;
      }
      for (const [table, lease] of [
        ["turns", leaseTurns],
        ["drafts", leaseDrafts],
      ] as const) {
        const read = await plans(db, (q) => lease(q, claim));
        for (const index of ["now", "exempt"])
          expect(read).toContainEqual(
            expect.stringMatching(
              new RegExp(`^SEARCH ${table} USING (COVERING )?INDEX ${table}_${index} \\(channel=\\? AND `),
            ),
          );
        // The first choice ends at LIMIT 0, the second finds the lanes by the items.
        const lanes = read.filter((detail) => / lanes /.test(detail));
        expect(lanes).toEqual([
          expect.stringMatching(/^SEARCH lanes USING INDEX lanes_due /),
          "SEARCH lanes USING PRIMARY KEY (id=?)",
        ]);
      }
    });

    it("are none, over a history, in what is loaded to route messages", async () => {
      const db = await filled();
      if (db.kind === "postgres") return; // it reads tables of this size whole rather than look up a list
      const rules = {
        debounce: 1000,
        caps: { sender: [{ max: 9, per: 60_000 }], conversation: [{ max: 9, per: 60_000 }] },
      };
      for (const conversations of ["thread", "person"] as const) {
        const line = { channel: "c", traits: { conversations }, rules } as unknown as ChannelRuntime;
        const messages = [7, 8].map((n) => messageCiting(`<m${n}`, n));
        const load = async (q: Query) => {
          const facts = await loadFacts(q, line, messages, standardTiming.route);
          await loadConversations(q, line, facts, { known: messages, joining: messages });
          for (const one of facts.values()) expect(one.conversation).not.toBeNull();
        };
        expect(await scans(db, load)).toEqual([]);
        const counted = (await plans(db, load)).join().match(/turns_\w+(?= \(channel=\? AND \w+=\? AND made_at>)/g);
        expect(counted).toEqual(["turns_person", "turns_reply_to", "turns_untagged"]);
      }
    });

    it("are none, over a history, in what escalations ask at every sweep, look, question and answer", async () => {
      const db = await filled();
      const about = "conversation:k7";
      await db.tx((q) => q.run("UPDATE conversations SET person = id"));
      if (db.kind === "postgres") await db.tx((q) => q.run("ANALYZE conversations"));
      const cited = { answers: ["<m7", "<m8"], tokens: ["token7"], number: 17, closedMs: 1 };
      const customers = (n: string) => notification(`n${n}`, { kind: "customer", escalation: `e${n}` });
      const asked: ((q: Query) => Promise<unknown>)[] = [
        (q) => escalations.dueEscalations(q, 9),
        (q) => escalations.liveEscalation(q, about),
        (q) => escalations.isTriggered(q, "s7"),
        (q) => escalations.triggersOf(q, ["e7"]),
        (q) => escalations.escalationByNumber(q, 17),
        (q) => contacts.dueNotifications(q, 9, 60_000),
        (q) => contacts.notificationsOf(q, "r7"),
        (q) => replies.candidatesAt(q, "c", "o7", 1),
        (q) => contacts.targetByLink(q, "hash7"),
        (q) => replies.citedTargets(q, "c", { ...cited, sender: "a@example.org" }),
        (q) => replies.citedTargets(q, "c", { ...cited, sender: "o7" }),
        (q) => replies.readCustomers(q, ["k7"]),
        (q) => contacts.notificationStatesOf(q, "e7"),
        (q) => notify.targetStates(q, ["e7", "e8"]),
        (q) => notify.readTargets(q, ["o7", "o8"]),
        (q) => notify.headlinesOf(q, [{ id: "e7", conversation: "k7" } as escalations.EscalationRow]),
        (q) => notify.conversationsWith(q, [{ channel: "c", address: "o7" }]),
        (q) => contacts.sentIds(q, ["k7", "k8"]),
        (q) => notify.retryNow(q, ["k7", "k8"]),
        (q) => notify.lastNotified(q, [{ channel: "c", address: "o7" }], 60_000),
        (q) => dueChannels(q, "polls"),
        (q) => polls.duePolls(q, "c", 9),
        (q) => polls.loadPollFacts(q, "k7", "p7"),
        (q) => triggers.loadSubjects(q, [{ key: "s7", conversation: "k7" } as never]),
        (q) => loadOutages(q, [about]),
        (q) => triggers.loadUndelivered(q, { id: "d7", reply: "r7" }),
        (q) => triggers.passedOn(q, [customers("7"), customers("8")]),
        (q) => transcriptsOf(q, ["k7", "k8"], 9, 99, 999),
        (q) => customerHistories(q, ["e7"]),
      ];
      for (const one of asked) expect(await scans(db, one)).toEqual([]);
    });

    it("are none, over a history, in the search for an id and in the history of a conversation", async () => {
      const db = await filled();
      for (const id of ["k7", "t7", "r7", "d7", "e7", "<m7", "token7"])
        expect(await scans(db, (q) => find(q, id, { limit: 20 }))).toEqual([]);
      expect(await scans(db, (q) => conversationHistory(q, "k7", 100))).toEqual([]);
      expect(await scans(db, (q) => summariesOf(q, ["k7", "k8"]))).toEqual([]);
      for (const state of ["attention", "waiting"] as const)
        expect(await scans(db, (q) => listConversations(q, { state, limit: 20 }))).toEqual([]);
      for (const state of ["ignored", "held", "failed", "waiting"] as const)
        expect(await scans(db, (q) => listEvents(q, { state, limit: 20 }))).toEqual([]);
      for (const state of ["ignored", "answered", "all"] as const)
        for (const filter of [{ state }, { state, channel: "other" }, { state, code: "none" }])
          expect(await scans(db, (q) => listEvents(q, { ...filter, limit: 1 }))).toEqual([]);
      for (const state of ["sent", "delivered", "queued", "held", "dropped"])
        for (const filter of [{ state }, { state, channel: "other" }, { code: "none" }])
          expect(await scans(db, (q) => listDrafts(q, { ...filter, limit: 1 }))).toEqual([]);
    });

    it("read the search index and the conversations for a part of an address, not the messages", async () => {
      const db = await filled();
      const search = (q: Query) => find(q, "nobody writes this", { limit: 20 });
      if (db.kind === "postgres") return; // it reads tables of this size whole
      const read = await plans(db, search);
      expect(read).toContain("SEARCH events USING COVERING INDEX events_searched (received_at>? AND received_at<?)");
      expect(read.filter((detail) => /^SCAN (?!hits|channels|part)/.test(detail))).toEqual([
        "SCAN conversations",
        "SCAN conversations",
      ]);
    });

    it("are none for the cap of a conversation: the channel's other turns are not read", async () => {
      const db = await filled();
      const message = { row: { code: null } } as Incoming;
      const facts = new Map([[message, { conversation: "k7", counts: [] } as unknown as Facts]]);
      const caps = { sender: [], conversation: [{ max: 10, per: 600_000 }], channel: [] };
      const counted = (q: Query) =>
        loadConversations(q, lineOf({ rules: { caps } }), facts, { known: [message], joining: [] });
      if (db.kind === "postgres") expect(await scans(db, counted)).toEqual([]);
      else
        expect(await plans(db, counted)).toContainEqual(
          expect.stringMatching(/^SEARCH turns USING INDEX \w+ \(conversation=\?\)$/),
        );
    });

    it("are none when thousands wait for their next step or a notification: rows not due are not read", async () => {
      const db = await filled();
      await db.tx(async (q) => {
        await q.run("UPDATE escalations SET due_at = now_ms() + 60000");
        await q.run("UPDATE notifications SET due_at = now_ms() + 60000");
      });
      if (db.kind === "postgres") await db.tx((q) => q.run("ANALYZE"));
      const due = (q: Query) => escalations.dueEscalations(q, 9);
      const unsaid = (q: Query) => contacts.dueNotifications(q, 9, 60_000);
      const told = (q: Query) => notify.lastNotified(q, [{ channel: "c", address: "o7" }], 60_000);
      if (db.kind === "postgres") {
        expect(await scans(db, due)).toEqual([]);
        expect(await scans(db, unsaid)).toEqual([]);
        return;
      }
      expect(await plans(db, due)).toEqual([
        "SEARCH escalations USING INDEX escalations_due (due_at<?)",
        "SEARCH escalations USING INDEX escalations_ahead (<expr>>?)",
      ]);
      const escalation = ["CORRELATED SCALAR SUBQUERY 1", "SEARCH notification_targets USING PRIMARY KEY (id=?)"];
      expect(await plans(db, unsaid)).toEqual([
        "SEARCH notifications USING INDEX notifications_due (due_at<?)",
        ...escalation,
        "SEARCH notifications USING INDEX notifications_ahead (made_at>?)",
        ...escalation,
      ]);
      expect(await plans(db, told)).toContain("SEARCH notifications USING INDEX notifications_written (written_at>?)");
    });

    it("are none of what waits under a cap when a message arrives; its order is read in an index", async () => {
      const db = await filled();
      await db.tx((q) => q.run("UPDATE events SET state = 'stored'"));
      await db.tx((q) => postponeChannel(q, "c", 60_000, true));
      if (db.kind === "postgres") await db.tx((q) => q.run("ANALYZE"));
      const arrival = async (q: Query) => [await storedEvents(q, "c", 9), await postponeChannel(q, "c", 60_000, true)];
      for (const one of [arrival, (q: Query) => dueChannels(q, "events")]) expect(await scans(db, one)).toEqual([]);
      if (db.kind === "postgres") return;
      const found = (await plans(db, async (q) => [await arrival(q), await fairEvents(q, "c", 1, 64, false)])).join();
      const indexes = [...new Set(found.match(/(?<=events USING )(COVERING )?INDEX \w+/g))].toSorted();
      expect(indexes).toEqual(["COVERING INDEX events_capped", "COVERING INDEX events_due", "INDEX events_stored"]);
    });

    it("are none when a backlog waits: channels are found without reading it", async () => {
      const db = await filled();
      await db.tx(async (q) => {
        await q.run("UPDATE events SET state = 'stored', postponed = 1, due_at = now_ms() + 60000");
        await q.run("UPDATE replies SET state = 'ready'");
        await storeEvent(q, "now", { channel: "d" });
      });
      if (db.kind === "postgres") await db.tx((q) => q.run("ANALYZE"));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["d"]);
      expect(await db.read((q) => dueChannels(q, "replies"))).toEqual(["c"]);
      if (db.kind === "sqlite") return; // its plan does not tell how many rows it reads
      expect(await scans(db, (q) => dueChannels(q, "events"))).toEqual([]);
      expect(await scans(db, (q) => dueChannels(q, "replies"))).toEqual([]);
    });
  });
});
