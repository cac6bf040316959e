// Two nodes on one PostgreSQL, transaction against transaction: what one of them is in the middle of is done, for the
// other, either before or after what it does itself.

import { externalId, type MessageEvent, type Outbound } from "bridgehead/contract";
import { beforeAll, expect, it } from "vitest";
import { acknowledge, close } from "../../src/escalation/actions.ts";
import { bindTargets, endNotifications } from "../../src/escalation/notify/rows.ts";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { pollStage } from "../../src/escalation/poll/stage.ts";
import { EscalationHandler, openEscalations } from "../../src/escalation/trigger/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { bindPlatform, schedulePoll } from "../../src/store/tables/conversations.ts";
import type { DraftRow } from "../../src/store/tables/drafts.ts";
import { type EscalationRow, readEscalation } from "../../src/store/tables/escalations.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { addTargets } from "../../src/store/tables/responders.ts";
import { policyOf } from "../support/escalation/policy.ts";
import { describeReal } from "../support/machine/debian.ts";
import { clock, lineOf, listen, reserveOf } from "../support/pipeline/stage.ts";
import { addNotification, conversation, draft, opens, storeEvent } from "../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../support/store/postgres.ts";

const number = "+12025550191";
const { log } = listen();

/** Channel `c`: one conversation a person. */
const line: ChannelRuntime = {
  ...lineOf({ outbound: {} as Outbound }), // nothing is composed here, nor sent
  traits: {
    attachments: false,
    conversations: "person",
    platform: "sms",
  },
};
const deps = {
  policy: () => policyOf(),
  lines: () => new Map([["c", line]]),
  clock,
  log,
  timing: standardTiming,
};
const tells = notifyStage({ ...deps, link: () => null });

interface Nodes {
  readonly one: Database;
  readonly other: Database;
  /** Runs `work` in a transaction of the first node, which commits when `meanwhile` has ended or is blocked by it. */
  readonly during: <T>(work: (q: Query) => Promise<unknown>, meanwhile: () => Promise<T>) => Promise<T>;
}

/** Opens escalation `id` about a channel or a conversation, with a pending notification for that responder; no policy
 *  step is due. */
async function told(q: Query, id: string, about: Partial<EscalationRow> = {}): Promise<void> {
  await opens(q, id, { about: `channel:${id}`, ...about });
  await q.run("UPDATE escalations SET due_at = NULL");
  const contact = { id: `to-${id}`, escalation: id, person: "dora", name: "Dora", way: "sms" } as const;
  await addTargets(q, [{ ...contact, address: number, channel: "c" }]);
  await addNotification(q, { id: `n-${id}`, target: contact.id, kind: "opened", subject: "", text: null }, 0);
}

/** What the customer wrote, on its way to another contact of escalation `e`. */
async function says(q: Query, id: string): Promise<void> {
  const contact = { id: `to-${id}`, escalation: "e", person: id, name: id, way: "sms" } as const;
  await addTargets(q, [{ ...contact, address: id, channel: "c" }]);
  await draft(q, id, "k");
  const notice = {
    id: `n-${id}`,
    target: contact.id,
    kind: "customer",
    subject: "t",
    text: "Hello?",
  } as const;
  await addNotification(q, notice, 0);
  await endNotifications(q, [notice.id], `r${id}`);
}

describeReal("two nodes on PostgreSQL", await needPostgres(), () => {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  });

  async function nodes(finished: (end: () => Promise<void>) => void): Promise<Nodes> {
    const schema = await server.schema();
    // A test may stand still at any line.
    const timing = { idleTransaction: 120_000, lock: 60_000, statement: 60_000, response: 90_000 };
    const [one, other] = await Promise.all([1, 2].map(() => openPostgres(server.url, { schema, timing })));
    if (!one || !other) throw new Error("there are no nodes");
    finished(async () => void (await Promise.all([one.close(), other.close()])));
    await migrate(one);
    await one.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "k");
      await bindPlatform(q, "k", "p");
    });
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    return {
      one,
      other,
      async during(work, meanwhile) {
        const worked = Promise.withResolvers<void>();
        const gate = Promise.withResolvers<void>();
        const first = one.tx(async (q) => {
          await work(q);
          worked.resolve();
          await gate.promise;
        });
        await Promise.race([worked.promise, first]);
        const second = meanwhile();
        let ended = false;
        const end = () => void (ended = true);
        void second.then(end, end);
        await expect.poll(async () => ended || (await one.read((q) => q.all(waiting))).length > 0).toBe(true);
        gate.resolve();
        await first;
        return second;
      },
    };
  }

  it("a poll that is due on both nodes is claimed once", async ({ onTestFinished }) => {
    const { one, other, during } = await nodes(onTestFinished);
    await one.tx((q) => schedulePoll(q, { id: "k", channel: "c" }, 0));
    const rate = reserveOf(one, clock);
    const looks = (node: string) => pollStage({ ...deps, db: one, rate, node });
    let begun = 0;
    const second = await during(
      async (q) => {
        begun = (await looks("a").claim(q, "c", 4)).claimed.length;
      },
      () => other.tx((q) => looks("b").claim(q, "c", 4)),
    );
    expect([begun, second.claimed.length]).toEqual([1, 0]);
    // The first one's end will say when the next one is.
    const [watch] = await one.read((q) => q.all<{ left: number }>("SELECT due_at - now_ms() AS left FROM polls"));
    expect(watch?.left).toBeGreaterThan(5000);
  });

  it("polls a conversation that the other node binds just before its lane is locked", async ({ onTestFinished }) => {
    const { one, other } = await nodes(onTestFinished);
    await one.tx(async (q) => {
      await q.run("UPDATE conversations SET platform_id = NULL");
      await schedulePoll(q, { id: "k", channel: "c" }, 0);
    });
    const rate = reserveOf(other, clock);
    const stage = pollStage({ ...deps, db: other, rate, node: "b", timing: standardTiming });
    let bound = 0;
    const { claimed } = await other.tx((q) =>
      stage.claim(
        {
          ...q,
          async one(sql, ...values) {
            if (sql.includes("FROM lanes") && ++bound === 1) await one.tx((first) => bindPlatform(first, "k", "bound"));
            return q.one(sql, ...values);
          },
        },
        "c",
        4,
      ),
    );
    expect([bound > 0, claimed.length]).toEqual([true, 1]);
  });

  it("no notification is sent for an escalation acknowledged at that moment", async ({ onTestFinished }) => {
    const { one, other, during } = await nodes(onTestFinished);
    await one.tx((q) => told(q, "e"));
    const tell = () => other.tx((q) => tells.run(q));
    await during(async (q) => acknowledge(q, await readEscalation(q, "e"), { name: "olga", target: null }, deps), tell);
    await tell();
    const notices = await one.read((q) => q.all("SELECT kind, reply, due_at FROM notifications"));
    expect(notices).toEqual([{ kind: "opened", reply: null, due_at: null }]);
  });

  it("a reply to an escalation closed at that moment is not relayed", async ({ onTestFinished }) => {
    const { one, other, during } = await nodes(onTestFinished);
    await one.tx((q) => told(q, "e", { about: "conversation:k", conversation: "k" }));
    const event: MessageEvent = {
      kind: "message",
      id: externalId("m"),
      from: { address: number },
      text: "It is on its way.",
      at: new Date(),
      thread: { person: number },
      sender: "verified",
    } as unknown as MessageEvent;
    const id = await one.tx((q) => storeEvent(q, "m"));
    const hears = new EscalationHandler(deps);
    const heard = await during(
      async (q) => close(q, await readEscalation(q, "e"), "olga", deps),
      () => other.tx((q) => hears.routeReply(q, line, { id } as never, event)),
    );
    expect(heard).toBe(true);
    expect(await one.read((q) => q.all("SELECT kind FROM replies"))).toEqual([]);
    const said = await one.read((q) =>
      q.all<{ text: string }>("SELECT text FROM notifications WHERE kind = 'message'"),
    );
    expect(said).toEqual([{ text: expect.stringContaining("is closed") as string }]);
  });

  it("a person whom both write to for the first time has one conversation", async ({ onTestFinished }) => {
    const { one, other, during } = await nodes(onTestFinished);
    await one.tx((q) => told(q, "e"));
    const tell = () => other.tx((q) => tells.run(q));
    await during(
      (q) => tells.run(q),
      async () => {
        await other.tx((q) => told(q, "f"));
        await tell();
      },
    );
    await tell();
    const written = await one.read((q) =>
      q.all("SELECT conversation FROM notification_targets WHERE conversation IS NOT NULL"),
    );
    expect(written).toHaveLength(2);
    expect(await one.read((q) => q.all("SELECT id FROM conversations WHERE person = $1", number))).toHaveLength(1);
  });

  it("a person has one conversation when the other node opens it just before the channel is locked", async ({
    onTestFinished,
  }) => {
    const { one, other } = await nodes(onTestFinished);
    await one.tx((q) => told(q, "e"));
    let opened = 0;
    await other.tx((q) =>
      tells.run({
        ...q,
        async all(sql, ...values) {
          if (sql.startsWith("SELECT id FROM channels") && ++opened === 1)
            await one.tx((first) => conversation(first, "begun", "c", number));
          return q.all(sql, ...values);
        },
      }),
    );
    expect(opened).toBeGreaterThan(0);
    const conversations = await one.read((q) =>
      q.all<{ id: string }>("SELECT id FROM conversations WHERE person = $1", number),
    );
    const bound = await one.read((q) => q.all("SELECT conversation FROM notification_targets"));
    expect(bound).toEqual(conversations.map(({ id }) => ({ conversation: id })));
  });

  it("continues the thread that another node has begun just before the escalation is locked", async ({
    onTestFinished,
  }) => {
    const { one, other } = await nodes(onTestFinished);
    await one.tx((q) => told(q, "e"));
    const threads: ChannelRuntime = { ...line, traits: { ...line.traits, conversations: "thread" } };
    const stage = notifyStage({ ...deps, lines: () => new Map([["c", threads]]), link: () => null });
    let begun: string | null = null;
    await other.tx((q) =>
      stage.run({
        ...q,
        async all(sql, ...values) {
          if (begun === null && sql.includes("FROM escalations WHERE") && sql.includes("json_"))
            await one.tx(async (first) => {
              begun = await conversation(first, "begun", "c", number);
              await bindTargets(first, [{ target: "to-e", conversation: begun }]);
            });
          return q.all(sql, ...values);
        },
      }),
    );
    expect(begun).not.toBeNull();
    expect(await one.read((q) => q.all("SELECT conversation FROM replies"))).toEqual([{ conversation: begun }]);
  });

  it("opens no second escalation for a trigger that another node has just recorded and closed", async ({
    onTestFinished,
  }) => {
    const { one, other } = await nodes(onTestFinished);
    const raised = {
      key: "turn:t",
      source: "ours",
      cause: "silent",
      reason: "r",
      channel: "c",
      agent: "agent",
      conversation: "k",
      topic: null,
    } as const;
    let closed = 0;
    const about = "conversation:k";
    const rows = await other.tx((q) =>
      openEscalations(
        {
          ...q,
          async all(sql, ...values) {
            if (sql.includes("INSERT INTO escalations") && ++closed === 1)
              await one.tx(async (first) => {
                const opened = (await openEscalations(first, [raised], deps)).get(about);
                if (opened) await close(first, opened, "olga", deps);
              });
            return q.all(sql, ...values);
          },
        },
        [raised],
        deps,
      ),
    );
    expect([closed > 0, rows.size]).toEqual([true, 0]);
    expect(await one.read((q) => q.all("SELECT state FROM escalations"))).toEqual([{ state: "closed" }]);
  });

  it("with an undeliverable message is detected when the last two paths fail at that moment", async ({
    onTestFinished,
  }) => {
    const { one, other, during } = await nodes(onTestFinished);
    await one.tx(async (q) => {
      await opens(q, "e", { about: "conversation:k", conversation: "k" });
      for (const draft of ["a", "b"]) {
        await says(q, draft);
        await q.run("UPDATE drafts SET state = 'sending', attempts = 1 WHERE id = $1", draft);
      }
      await q.run("UPDATE replies SET state = 'composed'");
      await acknowledge(q, await readEscalation(q, "e"), { name: "a", target: "to-a" }, deps);
    });
    const hears = new EscalationHandler(deps);
    const fails = async (q: Query, id: string) => {
      await q.run("UPDATE drafts SET state = 'failed', open = 0 WHERE id = $1", id);
      const draft = { id, reply: `r${id}`, conversation: "k" } as DraftRow;
      await hears.undeliverable(q, line, draft, { state: "failed", reason: "no such number" });
    };
    await during(
      (q) => fails(q, "a"),
      () => other.tx((q) => fails(q, "b")),
    );
    const [row] = await one.read((q) => q.all<EscalationRow>("SELECT state, acknowledged_by FROM escalations"));
    expect(row).toEqual({ state: "open", acknowledged_by: null });
  });

  it("a node that records a trigger does not wait for a node that records another", async ({ onTestFinished }) => {
    const { other, during } = await nodes(onTestFinished);
    const seen = await during(
      (q) => opens(q, "e", { about: "channel:e:cap" }),
      async () => {
        await other.tx((q) => opens(q, "f", { about: "channel:f:cap" }));
        return other.read((q) => q.all("SELECT id FROM escalations"));
      },
    );
    expect(seen, "while the first one is not there yet").toEqual([{ id: "f" }]);
  });
});
