// Number of statements per responder reply and per notification: load, decide, write.

import type { MessageEvent, Outbound } from "bridgehead/contract";
import { externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { createEscalation } from "../../src/escalation/escalation.ts";
import { bindContacts, endNotices } from "../../src/escalation/notify/rows.ts";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { addContacts, addNotice } from "../../src/store/tables/contacts.ts";
import { bindPlatform, cite } from "../../src/store/tables/conversations.ts";
import type { EventRow } from "../../src/store/tables/events.ts";
import { clock, lineOf, listen } from "../pipeline/rig.ts";
import { opens } from "../store/escalations.ts";
import { conversation, draft, fresh, sqlitePlace, storeEvent, turn } from "../store/rig.ts";
import { policyOf } from "./raising.ts";

const { log } = listen();
const responders = [1, 2].map((n) => ({
  id: `r${n}`,
  name: `Responder ${n}`,
  email: null,
  sms: `+1202555019${n}`,
  webhook: null,
  timeZone: "UTC",
  hours: [],
  away: [],
}));
const policy = policyOf({
  responders: new Map(responders.map((one) => [one.id, one])),
  tiers: [{ notify: ["r1", "r2"], by: null, repeat: 0, next: 60_000 }],
  via: { email: "c", sms: "c" },
});
const outbound = {} as Outbound; // nothing is composed or sent here
const texts: ChannelRuntime = {
  ...lineOf({ outbound }),
  traits: { attachments: false, conversations: "person", platform: "sms" },
};
const mails = lineOf({ outbound });

/** Runs `work` in a transaction. Returns its statements. */
async function statements(db: Database, work: (q: Query) => Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  await db.tx((q) =>
    work(
      new Proxy(q, {
        get(target, name: keyof Query) {
          const value = target[name] as unknown;
          if (name === "savepoint") return (inner: () => Promise<unknown>) => target.savepoint(inner);
          if (typeof value !== "function") return value;
          return (sql: string, ...values: never[]) => {
            if (name !== "onRollback") seen.push(sql.replace(/\s+/g, " "));
            return (value as (...args: unknown[]) => unknown).call(target, sql, ...values);
          };
        },
      }),
    ),
  );
  if (process.env.SHOW) console.log(seen.map((sql) => sql.slice(0, 110)).join("\n"), seen.length);
  return seen;
}

/** A customer's conversation `k`, and escalation `e` about it, of which both responders were notified. */
async function notified(line: ChannelRuntime): Promise<Database> {
  const db = await fresh(sqlitePlace);
  await db.tx(async (q) => {
    await conversation(q, "k");
    await bindPlatform(q, "k", "p");
    await turn(q, "t", "k");
    await q.run("UPDATE turns SET state = 'answered', open = 0");
    await opens(q, "e", { about: "conversation:k", conversation: "k" });
    await q.run("UPDATE escalations SET due_at = NULL");
    for (const [n, { id, name, sms }] of responders.entries()) {
      const [way, address] =
        line === texts ? (["sms", sms] as const) : (["email", `${id}@example.org`] as const);
      await addContacts(q, [{ id, escalation: "e", person: id, name, way, address, channel: "c" }]);
      await conversation(q, `to-${id}`);
      await q.run("INSERT INTO participants (conversation, address) VALUES ($1, $2)", `to-${id}`, address);
      await bindContacts(q, [id], `to-${id}`);
      await addNotice(q, { id: `n${n}`, contact: id, kind: "told", subject: "", text: null }, 0);
      await draft(q, `d${n}`, `to-${id}`);
      await endNotices(q, [`n${n}`], `rd${n}`);
      await cite(q, "c", `notification-${n}`, `to-${id}`, `d${n}`);
    }
    await q.run("UPDATE drafts SET state = 'sent', open = 0");
  });
  return db;
}

async function replies(line: ChannelRuntime, text: string): Promise<string[]> {
  const db = await notified(line);
  const id = await db.tx((q) => storeEvent(q, "m"));
  const event = {
    kind: "message",
    id: externalId("m"),
    from: { address: line === texts ? "+12025550191" : "r1@example.org" },
    to: [],
    text,
    sentAt: new Date(),
    thread: { answers: line === texts ? [] : ["notification-0", "earlier"] },
    sender: "verified",
  } as unknown as MessageEvent;
  const escalation = createEscalation({
    timing: standardTiming,
    policy: () => policy,
    lines: () => new Map([["c", line]]),
    clock,
    log,
  });
  const row = { id, channel: "c", code: null } as unknown as EventRow;
  const seen = await statements(db, (q) => escalation.hear(q, line, row, event));
  const [taken] = await db.read((q) => q.all<{ taken_by: string }>("SELECT taken_by FROM escalations"));
  expect(taken).toEqual({ taken_by: "Responder 1" });
  return seen;
}

const most = { ok: 7, text: 15, mail: 17, first: 23, digest: 25 };

it("acknowledges with few statements", async () => {
  expect((await replies(texts, "ok")).length).toBeLessThanOrEqual(most.ok);
});

it("relays an SMS with few statements", async () => {
  expect((await replies(texts, "It is on its way.")).length).toBeLessThanOrEqual(most.text);
});

it("relays a mail with few statements", async () => {
  expect((await replies(mails, "It is on its way.")).length).toBeLessThanOrEqual(most.mail);
});

it("notifies two responders with few statements", async () => {
  const db = await fresh(sqlitePlace);
  await db.tx(async (q) => {
    await conversation(q, "k");
    await opens(q, "e", { about: "conversation:k", conversation: "k" });
  });
  const stage = notifyStage({
    policy: () => policy,
    lines: () => new Map([["c", texts]]),
    clock,
    log,
    timing: standardTiming,
    link: () => null,
  });
  const seen = await statements(db, (q) => stage.run(q));
  expect(await db.read((q) => q.all("SELECT 1 FROM replies"))).toHaveLength(2);
  expect(seen.length).toBeLessThanOrEqual(most.first);
});

it("notifies two responders of twenty escalations with few statements", async () => {
  const db = await fresh(sqlitePlace);
  await db.tx(async (q) => {
    for (let n = 0; n < 20; n += 1) {
      await conversation(q, `k${n}`);
      await opens(q, `e${n}`, { about: `conversation:k${n}`, conversation: `k${n}` });
    }
  });
  const stage = notifyStage({
    policy: () => policy,
    lines: () => new Map([["c", texts]]),
    clock,
    log,
    timing: standardTiming,
    link: () => null,
  });
  const seen = await statements(db, (q) => stage.run(q));
  expect(await db.read((q) => q.all("SELECT 1 FROM replies"))).toHaveLength(2);
  expect(seen.length).toBeLessThanOrEqual(most.digest);
});
