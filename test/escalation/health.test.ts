// A channel that stays down is reported once per outage, and its recovery is reported.

import { expect, it } from "vitest";
import { healthStage } from "../../src/escalation/health/stage.ts";
import { type ChannelHealth, warningSubject } from "../../src/pipeline/escalation.ts";
import type { Database } from "../../src/store/driver.ts";
import { closeEscalation } from "../../src/store/tables/escalations.ts";
import { escalationsIn, noticesIn, notifies, policyOf } from "../support/escalation/policy.ts";
import { type TestClock, testClock } from "../support/pipeline/pipeline.ts";
import { listen } from "../support/pipeline/stage.ts";
import { fresh, sqliteDatabase } from "../support/store/databases.ts";

const minute = 60_000;

interface Ward {
  readonly db: Database;
  readonly clock: TestClock;
  /** What the channels say of themselves; a look at them. */
  looks(...pulses: readonly (Partial<ChannelHealth> & Pick<ChannelHealth, "state">)[]): Promise<void>;
  /** Time passes; then the same. */
  after(minutes: number, ...pulses: readonly (Partial<ChannelHealth> & Pick<ChannelHealth, "state">)[]): Promise<void>;
  /** Another process, on the same store. */
  restarts(): void;
  states(): Promise<string[]>;
}

async function openWard(over: Parameters<typeof policyOf>[0] = {}): Promise<Ward> {
  const db = await fresh(sqliteDatabase);
  const clock = testClock();
  const { log } = listen();
  let pulses: readonly ChannelHealth[] = [];
  const stage = () => healthStage({ policy: () => policyOf(over), pulses: () => pulses, clock, log });
  let current = stage();
  const looks: Ward["looks"] = async (...given) => {
    pulses = given.map((one) => ({
      channel: "mail",
      agent: "support",
      reason: "no route",
      forMs: 0,
      ...one,
    }));
    const committed = await db.tx((q) => current.run(q));
    for (const call of committed) call();
  };
  return {
    db,
    clock,
    looks,
    after: async (minutes, ...given) => {
      clock.forward(minutes * minute);
      await looks(...given);
    },
    restarts: () => void (current = stage()),
    states: async () => (await escalationsIn(db)).map(({ state }) => state),
  };
}

const down = { state: "degraded" } as const;
const well = { state: "ready", reason: null } as const;

it("notifies of a channel after a long outage, once", async () => {
  const ward = await openWard();
  await ward.looks(down);
  await ward.after(9, down);
  expect(await ward.states()).toEqual([]);
  await ward.after(1, down);
  await ward.after(60, down);
  expect(await escalationsIn(ward.db)).toMatchObject([
    {
      about: "channel:mail:channel-down",
      state: "open",
      cause: "channel-down",
      reason: "channel mail is degraded: no route",
    },
  ]);
});

it("counts from when the channel fell, also when it connects and fails again in between", async () => {
  const ward = await openWard();
  await ward.looks({ ...down, forMs: 3 * minute });
  await ward.after(3, { state: "connecting" });
  await ward.after(3, { state: "unauthorized" });
  expect(await ward.states()).toEqual([]);
  await ward.after(1, { state: "connecting" });
  expect(await ward.states()).toEqual([]);
  await ward.after(0, down);
  expect(await ward.states()).toEqual(["open"]);
});

it("ignores a channel that is connecting, works in between, or is disabled", async () => {
  const ward = await openWard();
  await ward.looks({ state: "connecting", forMs: 90 * minute });
  await ward.after(9, down);
  await ward.after(9, well);
  await ward.after(9, down);
  expect(await ward.states()).toEqual([]);
  const deaf = await openWard({ causes: ["topic"] });
  await deaf.looks({ ...down, forMs: 90 * minute });
  expect(await deaf.states()).toEqual([]);
});

it("closes it when the channel works again, and notifies the same responders", async () => {
  const ward = await openWard();
  await ward.looks({ ...down, forMs: 10 * minute });
  const [row] = await escalationsIn(ward.db);
  await notifies(ward.db, row?.id ?? "", "dora");
  await ward.after(1, well);
  await ward.after(1, well);
  expect(await escalationsIn(ward.db)).toMatchObject([{ state: "closed", due_at: null }]);
  expect(await noticesIn(ward.db)).toEqual([
    { kind: "opened", text: null },
    { kind: "message", text: "Escalation 1 is closed: channel mail works again." },
  ]);
});

it("is one escalation a fall, and another one for the next", async () => {
  const ward = await openWard();
  for (const states of [["open"], ["closed", "open"], ["closed", "closed", "open"]]) {
    await ward.looks(down);
    await ward.after(10, down);
    expect(await ward.states()).toEqual(states);
    await ward.after(1, well);
  }
});

it("neither forgets nor repeats at a restart", async () => {
  const ward = await openWard();
  await ward.looks({ ...down, forMs: 10 * minute });
  ward.restarts();
  await ward.looks({ state: "connecting" });
  await ward.looks(down);
  await ward.after(30, down);
  expect(await ward.states()).toEqual(["open"]);
  ward.restarts();
  await ward.looks(well);
  expect(await ward.states()).toEqual(["closed"]);
  ward.restarts();
  await ward.looks(well);
  await ward.looks(down);
  await ward.after(10, down);
  expect(await ward.states()).toEqual(["closed", "open"]);
});

it("is not opened again after it was closed manually, until the channel has worked", async () => {
  const ward = await openWard();
  await ward.looks({ ...down, forMs: 10 * minute });
  const [row] = await escalationsIn(ward.db);
  await notifies(ward.db, row?.id ?? "", "dora");
  await ward.db.tx((q) => closeEscalation(q, row?.id ?? "", "Dora"));
  await ward.after(60, down);
  ward.restarts();
  await ward.looks(down);
  await ward.after(60, down);
  expect(await ward.states()).toEqual(["closed"]);
  await ward.after(1, well);
  expect(await noticesIn(ward.db), "whoever closed it has seen it").toHaveLength(1);
  await ward.after(1, down);
  await ward.after(10, down);
  expect(await ward.states()).toEqual(["closed", "open"]);
});

it("is stored whole or not at all: what was rolled back is noticed again", async () => {
  const ward = await openWard();
  const pulse = { channel: "mail", agent: "support", reason: null, forMs: 60 * minute, ...down };
  const stage = healthStage({
    policy: () => policyOf(),
    pulses: () => [pulse],
    clock: ward.clock,
    log: listen().log,
  });
  const fails = ward.db.tx(async (q) => {
    await stage.run(q);
    throw new Error("the commit fails");
  });
  await expect(fails).rejects.toThrow("the commit fails");
  expect(await ward.states()).toEqual([]);
  for (const call of await ward.db.tx((q) => stage.run(q))) call();
  expect(await ward.states()).toEqual(["open"]);
});

it("keeps channels apart, and forgets one that a reload took away", async () => {
  const ward = await openWard();
  await ward.looks(down, { ...down, channel: "texts" });
  await ward.after(5, down);
  await ward.after(5, down, { ...down, channel: "texts" });
  expect((await escalationsIn(ward.db)).map(({ about }) => about)).toEqual(["channel:mail:channel-down"]);
  await ward.after(10, down, { ...down, channel: "texts" });
  expect((await escalationsIn(ward.db)).map(({ about }) => about)).toEqual([
    "channel:mail:channel-down",
    "channel:texts:channel-down",
  ]);
});

const rejected = { ...well, agentProblem: "401: the key is not valid" } as const;

it("notifies of a channel whose agent cannot be asked, with the agent and the cause, and when it can", async () => {
  const ward = await openWard();
  await ward.looks({ ...rejected, forMs: 90 * minute });
  await ward.after(9, { ...rejected, state: "connecting" });
  expect(await ward.states()).toEqual([]);
  await ward.after(1, rejected);
  await ward.after(60, rejected);
  expect(await escalationsIn(ward.db)).toMatchObject([
    {
      about: "channel:mail:channel-down",
      state: "open",
      cause: "channel-down",
      reason: "agent support cannot be asked: 401: the key is not valid",
    },
  ]);
  await notifies(ward.db, (await escalationsIn(ward.db))[0]?.id ?? "", "dora");
  await ward.after(1, { ...well, agentProblem: null });
  expect(await ward.states()).toEqual(["closed"]);
  expect(await noticesIn(ward.db)).toContainEqual({
    kind: "message",
    text: "Escalation 1 is closed: channel mail works again.",
  });
});

it("is one outage while the channel fails and its agent is refused in turn", async () => {
  const ward = await openWard();
  await ward.looks(down);
  await ward.after(6, rejected);
  await ward.after(6, down);
  await ward.after(6, rejected);
  expect(await ward.states()).toEqual(["open"]);
});

it("does not take an agent for accepted before the platform has answered", async () => {
  const ward = await openWard();
  await ward.looks(rejected);
  await ward.after(10, rejected);
  ward.restarts();
  await ward.looks({ ...well, isAgentUnknown: true });
  await ward.after(1, rejected);
  await ward.after(20, rejected);
  expect(await ward.states()).toEqual(["open"]);
  await ward.after(1, { ...well, isAgentUnknown: false });
  expect(await ward.states()).toEqual(["closed"]);
});

it("is one escalation about a warning of a channel, apart from that of the channel, also across a restart", async () => {
  const ward = await openWard();
  const missing = { ...down, about: warningSubject("mail", "canary"), reason: "a mail did not arrive" } as const;
  const back = { ...missing, ...well } as const;
  await ward.looks(well, missing);
  await ward.after(10, well, missing);
  await ward.after(360, well, missing);
  expect(await escalationsIn(ward.db)).toMatchObject([
    { about: "channel:mail:warning:canary", cause: "channel-down", reason: "channel mail: a mail did not arrive" },
  ]);
  await notifies(ward.db, (await escalationsIn(ward.db))[0]?.id ?? "", "dora");
  ward.restarts();
  await ward.looks(well);
  await ward.after(10, well, missing);
  await ward.after(10, well, missing);
  expect(await ward.states()).toEqual(["open"]);
  await ward.after(1, well, back);
  expect(await ward.states()).toEqual(["closed"]);
  expect(await noticesIn(ward.db)).toContainEqual({
    kind: "message",
    text: "Escalation 1 is closed: a warning of channel mail is cleared.",
  });
  await ward.looks(down, missing);
  await ward.after(10, down, missing);
  expect((await escalationsIn(ward.db)).map(({ about, state }) => [about, state])).toEqual([
    ["channel:mail:warning:canary", "closed"],
    ["channel:mail:channel-down", "open"],
    ["channel:mail:warning:canary", "open"],
  ]);
});

it("is one escalation about the disk of the store, apart from those of its channel", async () => {
  const ward = await openWard();
  const full = { ...down, about: "store", reason: "its disk is nearly full: 5 MiB are free" } as const;
  const roomy = { ...well, about: "store" } as const;
  await ward.looks(well, full);
  await ward.after(10, well, full);
  await ward.after(10, well, full);
  expect(await escalationsIn(ward.db)).toMatchObject([
    { about: "store", cause: "channel-down", reason: "the store: its disk is nearly full: 5 MiB are free" },
  ]);
  await notifies(ward.db, (await escalationsIn(ward.db))[0]?.id ?? "", "dora");
  await ward.after(1, well, roomy);
  expect(await ward.states()).toEqual(["closed"]);
  expect(await noticesIn(ward.db)).toContainEqual({
    kind: "message",
    text: "Escalation 1 is closed: the store works again.",
  });
  await ward.after(1, well, full);
  await ward.after(10, well, full);
  expect(await ward.states()).toEqual(["closed", "open"]);
});
