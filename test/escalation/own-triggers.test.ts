// Triggers of the daemon itself: each opens one escalation, none without a configured policy, and a notification that
// is not delivered opens none but makes the next step due.

import { externalId, type Outbound } from "bridgehead/contract";
import { expect, it } from "vitest";
import { endNotifications } from "../../src/escalation/notify/rows.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { begin } from "../../src/pipeline/outbound.ts";
import { insertNotices } from "../../src/store/tables/drafts.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import { escalationsIn, raising, told } from "../support/escalation/policy.ts";
import { type House, type HouseOptions, openHouse } from "../support/pipeline/pipeline.ts";
import { receipt, refusing } from "../support/pipeline/stage.ts";
import { conversation } from "../support/store/databases.ts";

const refuses: Outbound["send"] = async () => ({
  kind: "refused",
  code: "no",
  reason: "the provider refuses",
});
const person = "dora@people.example";

/** Each kind of trouble: what it takes, and the escalation that it is. */
const troubles: readonly {
  readonly what: string;
  readonly cause: string;
  readonly reason: RegExp;
  readonly options?: HouseOptions;
  readonly happens: (house: House) => Promise<void>;
}[] = [
  {
    what: "a question that the platform refuses",
    cause: "turn-failed",
    reason: /400/,
    async happens(house) {
      house.platform.faults.ask = refusing(400);
      await house.arrives({ text: "hello" });
    },
  },
  {
    what: "a beginning that the platform refuses",
    cause: "turn-failed",
    reason: /400/,
    async happens(house) {
      house.platform.faults.start = refusing(400);
      const opening = { introduction: null, subject: null, context: null, speak: true };
      const wanted = { channel: "c", agent: "agent", address: "ada@example.org", name: null, opening };
      await house.scheduler.commit((q) => begin(q, house.clock, wanted));
      await house.settles();
    },
  },
  {
    what: "an answer that the provider refuses",
    cause: "turn-failed",
    reason: /the provider refuses/,
    options: { outbound: { send: refuses } },
    happens: (house) => house.arrives({ text: "hello" }),
  },
  {
    what: "an answer that cannot be written for the channel",
    cause: "turn-failed",
    reason: /no words for this/,
    options: {
      outbound: {
        compose() {
          throw new Error("no words for this");
        },
      },
    },
    happens: (house) => house.arrives({ text: "hello" }),
  },
  {
    what: "an answer that comes back",
    cause: "turn-failed",
    reason: /no such mailbox/,
    async happens(house) {
      await house.arrives({ text: "hello" });
      await bounces(house);
    },
  },
  {
    what: "an answer of which nobody can tell whether it went out",
    cause: "held",
    reason: /it may have been sent/,
    options: {
      rules: { unknown_window: 1000 },
      outbound: {
        send: async (_, attempt) => {
          await attempt.crossing();
          return { kind: "unknown", reason: "cut" };
        },
      },
    },
    async happens(house) {
      await house.arrives({ text: "hello" });
      await house.passes(60_000);
    },
  },
  {
    what: "a message above a cap",
    cause: "cap",
    reason: /./,
    options: { rules: { caps: { sender: [{ max: 1, per: 3_600_000 }], conversation: [], channel: [] } } },
    happens: (house) => house.arrives({ text: "one" }, { text: "two" }),
  },
];

/** What the newest draft was sent as comes back; told twice. */
async function bounces(house: House): Promise<void> {
  const row = await house.db.read((q) =>
    q.one<{ external_id: string }>("SELECT external_id FROM drafts ORDER BY seq DESC LIMIT 1"),
  );
  const sent = [externalId(row?.external_id ?? "")];
  for (const id of ["bounce-1", "bounce-2"]) {
    const about = { sent };
    await house.accepts("c", receipt({ id: externalId(id), about, state: "failed", detail: "no such mailbox" }));
    await house.settles();
  }
}

for (const { what, cause, reason, options, happens } of troubles) {
  it(`${what} raises once`, async () => {
    const house = await openHouse({ ...options, line: raising() });
    await happens(house);
    await house.passes(10_000);
    const rows = await escalationsIn(house.db);
    expect(rows).toMatchObject([{ cause, state: "open" }]);
    expect(rows[0]?.reason).toMatch(reason);
    expect(await house.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(1);
  });

  it.each([
    ["nobody wants to know", (line: ChannelRuntime) => line],
    ["it is no cause", raising({ causes: ["topic"] })],
  ])(`${what} raises nothing where %s`, async (_, line) => {
    const house = await openHouse({ ...options, line });
    await happens(house);
    expect(await house.db.read((q) => q.all("SELECT key FROM triggers"))).toEqual([]);
    expect(await escalationsIn(house.db)).toEqual([]);
  });
}

it("raises again when a question that was released fails again, in the escalation that is open", async () => {
  const house = await openHouse({ line: raising() });
  house.platform.faults.ask = refusing(400);
  await house.arrives({ text: "hello" });
  await house.releases();
  expect(await escalationsIn(house.db)).toHaveLength(1);
  expect(await house.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(2);
});

it("does not believe a bounce that only names the person", async () => {
  const house = await openHouse({ line: raising() });
  await house.arrives({ text: "hello" });
  const about = { recipient: "ada@example.org" };
  await house.accepts("c", receipt({ id: externalId("forged"), about, state: "failed", detail: "gone" }));
  await house.settles();
  expect(await house.drafts()).toEqual(["failed"]);
  expect(await escalationsIn(house.db)).toEqual([]);
});

/** An escalation whose next step is an hour away, and a notice of it in a contact's conversation, ready to go out. */
async function telling(house: House): Promise<string> {
  house.platform.faults.ask = refusing(400);
  await house.arrives({ text: "hello" });
  delete house.platform.faults.ask;
  const [row] = await escalationsIn(house.db);
  const id = row?.id ?? "";
  await told(house.db, id, "dora");
  await house.scheduler.commit(async (q) => {
    const opened = await conversation(q, "k-dora", "c", person);
    const address = {
      to: [{ address: person }],
      cc: [],
      subject: "s",
      answers: null,
      history: [],
      hops: 1,
      session: null,
    };
    const notice = {
      channel: "c",
      conversation: opened,
      address,
      text: "Escalation 1",
      forced: false,
      internal: false,
    };
    await insertNotices(q, [{ id: "notice", ...notice }]);
    await endNotifications(q, ["n-dora"], "notice");
    await q.run("UPDATE escalations SET due_at = now_ms() + 3600000");
  });
  return id;
}

const lost: readonly {
  readonly how: string;
  readonly options?: HouseOptions;
  before?(house: House): Promise<void>;
  after?(house: House): Promise<void>;
}[] = [
  { how: "the provider refuses it", options: { outbound: { send: refuses } } },
  {
    how: "it cannot be written",
    options: {
      outbound: {
        compose() {
          throw new Error("no words for this");
        },
      },
    },
  },
  {
    how: "the person is not to be written to",
    before: (house) => house.db.tx((q) => suppress(q, "c", person, "bounced")),
  },
  { how: "it comes back", after: bounces },
  {
    how: "nobody can tell whether it went out",
    options: {
      rules: { unknown_window: 1000, on_unknown: "drop" },
      outbound: {
        send: async (_, attempt) => {
          await attempt.crossing();
          return { kind: "unknown", reason: "cut" };
        },
      },
    },
    after: (house) => house.passes(60_000),
  },
];

it.each(lost)("a notice raises nothing, but hastens the next step, when $how", async (one) => {
  const house = await openHouse({ ...one.options, line: raising() });
  await one.before?.(house);
  const id = await telling(house);
  await house.settles();
  await one.after?.(house);
  const rows = await house.db.read((q) =>
    q.all("SELECT id, due_at <= now_ms() AS due FROM escalations ORDER BY number"),
  );
  expect(rows).toEqual([{ id, due: 1 }]);
  expect(await house.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(1);
});

it("a notice that went out hastens nothing", async () => {
  const house = await openHouse({ line: raising() });
  const id = await telling(house);
  await house.settles();
  expect(house.sent).toEqual(["Escalation 1"]);
  const rows = await house.db.read((q) => q.all("SELECT id, due_at <= now_ms() AS due FROM escalations"));
  expect(rows).toEqual([{ id, due: 0 }]);
});
