// Triggers of the daemon itself: each opens one escalation, none without a configured policy, and a notification that
// is not delivered opens none but makes the next step due.

import { externalId, type Outbound } from "bridgehead/contract";
import { expect, it } from "vitest";
import { endNotifications } from "../../src/escalation/notify/rows.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { begin } from "../../src/pipeline/outbound.ts";
import { resendDraft } from "../../src/store/operators/outbox.ts";
import { insertNotices } from "../../src/store/tables/drafts.ts";
import { closeEscalation } from "../../src/store/tables/escalations.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import { escalationsIn, notifies, raising } from "../support/escalation/policy.ts";
import { openPipeline, type TestPipeline, type TestPipelineOptions } from "../support/pipeline/pipeline.ts";
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
  readonly options?: TestPipelineOptions;
  readonly happens: (pipeline: TestPipeline) => Promise<void>;
}[] = [
  {
    what: "a question that the platform refuses",
    cause: "turn-failed",
    reason: /400/,
    async happens(pipeline) {
      pipeline.platform.faults.ask = refusing(400);
      await pipeline.arrives({ text: "hello" });
    },
  },
  {
    what: "a beginning that the platform refuses",
    cause: "turn-failed",
    reason: /400/,
    async happens(pipeline) {
      pipeline.platform.faults.start = refusing(400);
      const opening = { introduction: null, subject: null, context: null, speak: true };
      const wanted = { channel: "c", agent: "agent", address: "ada@example.org", name: null, opening };
      await pipeline.scheduler.commit((q) => begin(q, pipeline.clock, wanted));
      await pipeline.settles();
    },
  },
  {
    what: "an answer that the provider refuses",
    cause: "turn-failed",
    reason: /the provider refuses/,
    options: { outbound: { send: refuses } },
    happens: (pipeline) => pipeline.arrives({ text: "hello" }),
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
    happens: (pipeline) => pipeline.arrives({ text: "hello" }),
  },
  {
    what: "an answer that comes back",
    cause: "turn-failed",
    reason: /no such mailbox/,
    async happens(pipeline) {
      await pipeline.arrives({ text: "hello" });
      await bounces(pipeline);
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
    async happens(pipeline) {
      await pipeline.arrives({ text: "hello" });
      await pipeline.passes(60_000);
    },
  },
  {
    what: "a message above a cap",
    cause: "cap",
    reason: /./,
    options: { rules: { caps: { sender: [{ max: 1, per: 3_600_000 }], conversation: [], channel: [] } } },
    happens: (pipeline) => pipeline.arrives({ text: "one" }, { text: "two" }),
  },
];

/** Delivers a bounce for the newest draft, twice. */
async function bounces(pipeline: TestPipeline): Promise<void> {
  const row = await pipeline.db.read((q) =>
    q.one<{ external_id: string }>("SELECT external_id FROM drafts ORDER BY seq DESC LIMIT 1"),
  );
  const sent = [externalId(row?.external_id ?? "")];
  for (const id of ["bounce-1", "bounce-2"]) {
    const about = { sent };
    await pipeline.accepts("c", receipt({ id: externalId(id), about, state: "failed", detail: "no such mailbox" }));
    await pipeline.settles();
  }
}

for (const { what, cause, reason, options, happens } of troubles) {
  it(`${what} raises once`, async () => {
    const pipeline = await openPipeline({ ...options, line: raising() });
    await happens(pipeline);
    await pipeline.passes(10_000);
    const rows = await escalationsIn(pipeline.db);
    expect(rows).toMatchObject([{ cause, state: "open" }]);
    expect(rows[0]?.reason).toMatch(reason);
    expect(await pipeline.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(1);
  });

  it.each([
    ["nobody wants to know", (line: ChannelRuntime) => line],
    ["it is no cause", raising({ causes: ["topic"] })],
  ])(`${what} raises nothing where %s`, async (_, line) => {
    const pipeline = await openPipeline({ ...options, line });
    await happens(pipeline);
    expect(await pipeline.db.read((q) => q.all("SELECT key FROM triggers"))).toEqual([]);
    expect(await escalationsIn(pipeline.db)).toEqual([]);
  });
}

it("raises again when a question that was released fails again, in the escalation that is open", async () => {
  const pipeline = await openPipeline({ line: raising() });
  pipeline.platform.faults.ask = refusing(400);
  await pipeline.arrives({ text: "hello" });
  await pipeline.releases();
  expect(await escalationsIn(pipeline.db)).toHaveLength(1);
  expect(await pipeline.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(2);
});

it("raises again when a reply that was resent after the close fails again, once for each attempt", async () => {
  const pipeline = await openPipeline({ line: raising(), outbound: { send: refuses } });
  await pipeline.arrives({ text: "hello" });
  await pipeline.scheduler.commit(async (q) => {
    const [row] = await q.all<{ id: string }>("SELECT id FROM escalations");
    await closeEscalation(q, row?.id ?? "", "Olga");
    const [draft] = await q.all<{ id: string }>("SELECT id FROM drafts");
    await resendDraft(q, draft?.id ?? "");
  });
  await pipeline.settles();
  expect((await escalationsIn(pipeline.db)).map(({ state, cause }) => [state, cause])).toEqual([
    ["closed", "turn-failed"],
    ["open", "turn-failed"],
  ]);
  expect(await pipeline.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(2);
});

it("does not believe a bounce that only names the person", async () => {
  const pipeline = await openPipeline({ line: raising() });
  await pipeline.arrives({ text: "hello" });
  const about = { recipient: "ada@example.org" };
  await pipeline.accepts("c", receipt({ id: externalId("forged"), about, state: "failed", detail: "gone" }));
  await pipeline.settles();
  expect(await pipeline.drafts()).toEqual(["failed"]);
  expect(await escalationsIn(pipeline.db)).toEqual([]);
});

/** An escalation whose next step is an hour away, and a notice of it in a contact's conversation, ready to go out. */
async function telling(pipeline: TestPipeline): Promise<string> {
  pipeline.platform.faults.ask = refusing(400);
  await pipeline.arrives({ text: "hello" });
  delete pipeline.platform.faults.ask;
  const [row] = await escalationsIn(pipeline.db);
  const id = row?.id ?? "";
  await notifies(pipeline.db, id, "dora");
  await pipeline.scheduler.commit(async (q) => {
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
  readonly options?: TestPipelineOptions;
  before?(pipeline: TestPipeline): Promise<void>;
  after?(pipeline: TestPipeline): Promise<void>;
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
    before: (pipeline) => pipeline.db.tx((q) => suppress(q, "c", person, "bounced")),
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
    after: (pipeline) => pipeline.passes(60_000),
  },
];

it.each(lost)("a notice raises nothing, but hastens the next step, when $how", async (one) => {
  const pipeline = await openPipeline({ ...one.options, line: raising() });
  await one.before?.(pipeline);
  const id = await telling(pipeline);
  await pipeline.settles();
  await one.after?.(pipeline);
  const rows = await pipeline.db.read((q) =>
    q.all("SELECT id, due_at <= now_ms() AS due FROM escalations ORDER BY number"),
  );
  expect(rows).toEqual([{ id, due: 1 }]);
  expect(await pipeline.db.read((q) => q.all("SELECT key FROM triggers"))).toHaveLength(1);
});

it("a notice that went out hastens nothing", async () => {
  const pipeline = await openPipeline({ line: raising() });
  const id = await telling(pipeline);
  await pipeline.settles();
  expect(pipeline.sent).toEqual(["Escalation 1"]);
  const rows = await pipeline.db.read((q) => q.all("SELECT id, due_at <= now_ms() AS due FROM escalations"));
  expect(rows).toEqual([{ id, due: 0 }]);
});
