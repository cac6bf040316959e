// What is scarce (the platform's rate, a channel's cap) goes to everybody in turn, in order.

import { externalId, type MessageEvent } from "bridgehead/contract";
import { beforeAll, describe, expect, it } from "vitest";
import type { Database, Query, Value } from "../../src/store/driver.ts";
import { overview } from "../../src/store/operators/overview.ts";
import { escalationsIn, raising } from "../support/escalation/policy.ts";
import { describeReal } from "../support/machine/debian.ts";
import { mail, openPipeline, type TestPipeline, testClock } from "../support/pipeline/pipeline.ts";
import { receipt, startPlatform } from "../support/pipeline/stage.ts";
import { migrated, postgresDatabase } from "../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../support/store/postgres.ts";

const minute = 60_000;
const from = (name: string, text = `from ${name}`) => mail({ text, from: { address: `${name}@example.org` } });
/** In no order: those that became due in one millisecond. */
const sorted = (texts: readonly string[]) => [...texts].sort();
const many = (count: number, name: string) => Array.from({ length: count }, (_, i) => from(`${name}${i}`));

it("queues messages in order while the channel is at its cap, and continues below it", async () => {
  const caps = { sender: [], conversation: [], channel: [{ max: 2, per: minute }] };
  const pipeline = await openPipeline({ rules: { caps, concurrency: 1 } });
  await pipeline.arrives(...many(5, "p"));
  expect(sorted(pipeline.sent)).toEqual(["answer to from p0", "answer to from p1"]);
  expect(await pipeline.listed("held")).toEqual([]);
  expect(await pipeline.listed("stored")).toHaveLength(3);
  await pipeline.passes(50_000);
  expect(pipeline.sent).toHaveLength(2);
  // Messages that arrive during the question are queued behind it.
  await pipeline.arrives(from("late"));
  await pipeline.passes(11_000, 500);
  expect(sorted(pipeline.sent.slice(2))).toEqual(["answer to from p2", "answer to from p3"]);
  await pipeline.passes(61_000, 500);
  expect(sorted(pipeline.sent.slice(4))).toEqual(["answer to from late", "answer to from p4"]);
});

it("lets neither receipts nor what was released wait while the channel is at its cap", async () => {
  const one = [{ max: 1, per: minute }];
  const pipeline = await openPipeline({ rules: { caps: { sender: one, conversation: [], channel: one } } });
  await pipeline.arrives(from("p"));
  await pipeline.arrives(from("p", "held"), from("q"), from("r"));
  expect([await pipeline.listed("held"), await pipeline.listed("stored")]).toEqual([
    ["cap-sender"],
    ["cap-channel", "cap-channel"],
  ]);
  const recipient = "p@example.org";
  // Behind one that waits.
  await pipeline.accepts("c", from("s"), receipt({ about: { recipient }, state: "delivered" }));
  await pipeline.settles();
  expect(await pipeline.drafts()).toEqual(["delivered"]);
  await pipeline.releases(2);
  expect(sorted(pipeline.sent)).toEqual(["answer to from p", "answer to held"]);
  expect(await pipeline.listed("stored")).toEqual(["cap-channel", "cap-channel", "cap-channel"]);
});

it("holds what is over the cap of its sender or conversation, for an operator to release", async () => {
  const cap = { max: 1, per: minute };
  const caps = { sender: [cap], conversation: [], channel: [{ max: 50, per: minute }] };
  const pipeline = await openPipeline({ rules: { caps } });
  await pipeline.arrives(from("p", "one"), from("p", "two"), from("q", "three"));
  expect(sorted(pipeline.sent)).toEqual(["answer to one", "answer to three"]);
  expect(await pipeline.listed("held")).toEqual(["cap-sender"]);
  await pipeline.passes(2 * minute);
  expect(pipeline.sent).toHaveLength(2);
  await pipeline.releases(2);
  expect(pipeline.sent[2]).toBe("answer to two");
  const first = from("r", "first");
  const conversation = await openPipeline({ rules: { caps: { sender: [], conversation: [cap], channel: [] } } });
  await conversation.arrives(first);
  await conversation.arrives({ ...from("r", "second"), thread: { answers: [first.id] } });
  expect(await conversation.listed("held")).toEqual(["cap-conversation"]);
  expect(conversation.sent).toEqual(["answer to first"]);
});

it("holds what many senders send with one Reply-To, and what one sender sends with many of them", async () => {
  const caps = { sender: [{ max: 2, per: minute }], conversation: [], channel: [] };
  const pipeline = await openPipeline({ rules: { caps, cap_text: "Too many." } });
  const redirected = (name: string, to: string) => ({ ...from(name), replyTo: { address: `${to}@Example.org` } });
  await pipeline.arrives(...["a", "b", "c"].map((name) => redirected(name, "ada")));
  await pipeline.arrives(redirected("d", "ada"), from("ada"), redirected("e", "bob"));
  expect(sorted(pipeline.sent)).toEqual(["Too many.", "answer to from a", "answer to from b", "answer to from e"]);
  const reasons = () => pipeline.db.read((q) => q.all("SELECT reason FROM events WHERE state = 'held' ORDER BY id"));
  // Ada is notified once, when she writes herself.
  expect(await reasons()).toEqual([
    { reason: "2 per 1 min reached for its Reply-To" },
    { reason: "2 per 1 min reached for its Reply-To" },
    { reason: "2 per 1 min reached" },
  ]);
  await pipeline.arrives(...["x", "y", "z"].map((to) => redirected("f", to)));
  expect(await pipeline.listed("held")).toEqual(Array.from({ length: 4 }, () => "cap-sender"));
});

it("holds what one mailbox sends with a new tag each time: no notice, and no pause", async () => {
  const caps = { sender: [{ max: 2, per: minute }], conversation: [], channel: [] };
  const pause_on = { loops: [{ max: 1, per: minute }], replies: [] };
  const pipeline = await openPipeline({ rules: { caps, cap_text: "Too many.", pause_on }, line: raising() });
  await pipeline.arrives(...many(8, "Care+t"));
  for (const mailbox of many(5, "care+u")) await pipeline.arrives(mailbox);
  expect(pipeline.sent).toHaveLength(10);
  expect(await pipeline.listed("held")).toEqual(Array.from({ length: 3 }, () => "cap-tags"));
  expect(await escalationsIn(pipeline.db)).toMatchObject([
    {
      about: "channel:c:cap",
      reason: expect.stringContaining("one sender are held: 10 per 1 min reached for all tags"),
    },
  ]);
  const redirected = { ...from("x"), replyTo: { address: "care+x@example.org" } };
  const others = [from("care"), from("carol+1"), mail({ text: "from b", from: { address: "care+1@b.example" } })];
  await pipeline.arrives(redirected, ...others);
  expect(sorted(pipeline.sent.slice(10))).toEqual([
    "answer to from b",
    "answer to from care",
    "answer to from carol+1",
  ]);
  await pipeline.passes(61_000);
  await pipeline.arrives(from("care+later"));
  expect(pipeline.sent.at(-1)).toBe("answer to from care+later");
});

it.each([
  ["many at once", 4, 100, { interval: 100_000, tolerance: 300_000 }],
  ["one in two seconds", 2, 10, { interval: 2_000_000, tolerance: 0 }],
])("gives a channel with little its turn while others have a lot waiting: %s", async (_, count, concurrency, rate) => {
  const names = ["a", "b", "c", "d"].slice(0, count);
  const last = names.at(-1) ?? "";
  const clock = testClock(true); // the machine's pace would let more through
  const pipeline = await openPipeline({ channels: names, rules: { concurrency }, rate, clock });
  for (const name of names.slice(0, -1)) await pipeline.accepts(name, ...many(40, name));
  await pipeline.accepts(last, ...many(2, last));
  const done = () => pipeline.platform.calls.filter((call) => call.includes(`from ${last}`)).length;
  // A fair share of the calls suffices for its two openings and two questions; in four times that it is done.
  for (let rounds = 0; done() < 2 && rounds < 200; rounds++) await pipeline.passes(500, 100);
  expect(done()).toBe(2);
  expect(pipeline.platform.calls.length).toBeLessThan(4 * count * 4);
  expect(pipeline.platform.count("start a")).toBeGreaterThan(0);
});

it("answers the first sender before it opens for a later one", async () => {
  const pipeline = await openPipeline({
    rules: { concurrency: 1 },
    rate: { interval: 100_000, tolerance: 0 },
  });
  for (const letter of many(4, "p")) {
    await pipeline.accepts("c", letter);
    pipeline.clock.forward(5);
  }
  await pipeline.passes(20_000, 100);
  expect(pipeline.platform.calls).toEqual(
    ["p0", "p1", "p2", "p3"].flatMap((name) => [`start ${name}@example.org`, `ask from ${name}`]),
  );
});

const floodCap = { max: 60, per: 15 * minute };
const floodRules = {
  caps: { sender: [{ max: 6, per: 60 * minute }], conversation: [], channel: [floodCap] },
};
const forged = (count: number, name: string) =>
  Array.from({ length: count }, (_, i) =>
    mail({ text: `flood ${i}`, from: { address: `x@${name}${i}.example` }, sender: "unverified" }),
  );
const customer = (name: string, over: Partial<MessageEvent> = {}) =>
  mail({ text: name, from: { address: `${name}@customer.example` }, sender: "verified", ...over });

describe("a channel that is flooded from forged addresses", () => {
  const answered = (pipeline: TestPipeline, text: string) =>
    pipeline.sent.filter((one) => one === `answer to ${text}`).length;
  const flooded = (pipeline: TestPipeline) => pipeline.sent.filter((text) => text.includes("flood")).length;

  it("answers authenticated customers at once, and the flood within the cap", async () => {
    const pipeline = await openPipeline({ rules: floodRules });
    await pipeline.arrives(...forged(300, "a"));
    expect(pipeline.sent).toHaveLength(30);
    await pipeline.arrives(customer("ann"), customer("bob"), ...forged(50, "b"));
    expect([answered(pipeline, "ann"), answered(pipeline, "bob")]).toEqual([1, 1]);
    for (let n = 0; n < 14; n++) {
      await pipeline.passes(minute);
      await pipeline.arrives(...forged(20, `c${n}x`));
    }
    expect(pipeline.sent.length).toBeLessThanOrEqual(60);
    expect(flooded(pipeline)).toBeGreaterThan(45);
    await pipeline.arrives(customer("cid"), customer("dan"));
    expect([answered(pipeline, "cid"), answered(pipeline, "dan")]).toEqual([1, 1]);
    // Nothing is lost: what was not answered yet waits.
    const left = await pipeline.db.read((q) => q.all("SELECT 1 FROM events WHERE state = 'stored'"));
    expect(left.length + pipeline.sent.length).toBe(300 + 50 + 14 * 20 + 4);
    const [{ capped } = {}] = await pipeline.db.read(overview);
    expect(capped).toEqual({ preferred: 0, others: left.length });
  });

  it("answers a known sender and one who cites us, though neither is authenticated", async () => {
    const day = 24 * 60 * minute;
    const pipeline = await openPipeline({ rules: { ...floodRules, max_age: 10 * day } });
    await pipeline.arrives(mail({ text: "old", from: { address: "old@customer.example" } }));
    pipeline.clock.forward(2 * day);
    await pipeline.arrives(mail({ text: "new", from: { address: "new@customer.example" } }));
    const [sent] = await pipeline.db.read((q) =>
      q.all<{ id: string }>("SELECT external_id AS id FROM citations WHERE draft IS NOT NULL ORDER BY 1 DESC"),
    );
    await pipeline.arrives(...forged(100, "a"));
    const before = pipeline.sent.length;
    await pipeline.arrives(
      mail({ text: "old again", from: { address: "old@customer.example" }, sender: "unverified" }),
      mail({
        text: "new again",
        from: { address: "new@customer.example" },
        thread: { answers: [externalId(sent?.id ?? "")] },
        sender: "unverified",
      }),
    );
    expect(pipeline.sent.slice(before).sort()).toEqual(["answer to new again", "answer to old again"]);
  });

  it("serves senders in turn, however much one of them has sent", async () => {
    const small = { sender: [], conversation: [], channel: [{ max: 4, per: minute }] };
    const pipeline = await openPipeline({ rules: { caps: small, concurrency: 1 } });
    await pipeline.arrives(...Array.from({ length: 12 }, (_, i) => customer("loud", { text: `loud ${i}` })));
    expect(pipeline.sent).toHaveLength(4);
    await pipeline.arrives(customer("ann"), customer("bob"));
    await pipeline.passes(minute + 1000, 500);
    const next = pipeline.sent.slice(4, 8);
    expect(next).toEqual(expect.arrayContaining(["answer to ann", "answer to bob"]));
    await pipeline.passes(3 * minute, 500);
    const loud = pipeline.sent.filter((text) => text.includes("loud"));
    expect(loud).toHaveLength(12);
  });

  it("keeps the order of a conversation in which several people write", async () => {
    const small = { sender: [], conversation: [], channel: [{ max: 3, per: minute }] };
    const pipeline = await openPipeline({ rules: { caps: small, concurrency: 1 } });
    const first = customer("ann", { text: "first", cc: [{ address: "bob@customer.example" }] });
    await pipeline.arrives(first);
    await pipeline.arrives(...forged(4, "a"));
    const thread = { answers: [first.id] };
    const later = mail({
      text: "second",
      from: { address: "ann@customer.example" },
      thread,
      sender: "unverified",
    });
    await pipeline.arrives(later, customer("bob", { text: "third", thread }));
    await pipeline.passes(4 * minute, 1000);
    const said = pipeline.sent.filter((text) => /first|second|third/.test(text));
    expect(said).toEqual(["first", "second", "third"].map((text) => `answer to ${text}`));
  });

  it.each([
    ["few messages", 0],
    ["many messages", 5],
  ])("lets no message overtake one of its conversation that waits: %s", async (_, more) => {
    const shared = { sender: [], conversation: [], channel: [{ max: 10, per: minute }] };
    const pipeline = await openPipeline({ rules: { caps: shared, concurrency: 1 } });
    const first = customer("ann", { text: "first", cc: [{ address: "bob@customer.example" }] });
    await pipeline.arrives(first);
    // The others' half of the cap.
    await pipeline.arrives(...forged(4, "a"));
    await pipeline.arrives(...forged(1, "b"));
    const thread = { answers: [first.id] };
    const second = mail({ text: "second", from: { address: "ann@customer.example" }, thread, sender: "unverified" });
    await pipeline.arrives(second, customer("bob", { text: "third", thread }), ...forged(more, "c"));
    await pipeline.passes(3 * minute, 1000);
    const said = pipeline.sent.filter((text) => /first|second|third/.test(text));
    expect(said).toEqual(["first", "second", "third"].map((text) => `answer to ${text}`));
  });

  it("does not order the backlog for a message that arrives, however long it is", async () => {
    const asked: string[] = [];
    const note = (sql: string, values: readonly Value[]) => void asked.push(`${sql} ${String(values.at(-1))}`);
    const noted = (q: Query): Query => ({
      ...q,
      all: (sql, ...values) => (note(sql, values), q.all(sql, ...values)),
      one: (sql, ...values) => (note(sql, values), q.one(sql, ...values)),
      write: (sql, ...values) => (note(sql, values), q.write(sql, ...values)),
    });
    const faulty = (db: Database): Database => ({ ...db, tx: (work, how) => db.tx((q) => work(noted(q)), how) });
    const pipeline = await openPipeline({ rules: floodRules, faulty });
    const arrival = async (name: string) => {
      asked.length = 0;
      await pipeline.accepts("c", ...forged(1, name));
      return [...asked];
    };
    await pipeline.arrives(...forged(40, "a"));
    const few = await arrival("b");
    await pipeline.arrives(...forged(200, "c"));
    const many = await arrival("d");
    expect(many.map((one) => one.split("(")[0])).toEqual(few.map((one) => one.split("(")[0]));
    expect(few.filter((one) => one.includes("ROW_NUMBER")).map((one) => one.slice(-2))).toEqual([" 1"]); // preferred only
    // Those that wait are looked at when the channel has room again, not at every sweep.
    const sweep = async () => {
      asked.length = 0;
      await pipeline.scheduler.sweep();
      return asked.filter((sql) => /ROW_NUMBER|UPDATE channels/.test(sql)).length;
    };
    expect(await sweep()).toBe(0);
    pipeline.clock.forward(minute);
    expect(await sweep()).toBeGreaterThan(0);
    expect(await sweep()).toBe(0);
  });

  it("answers what waits when the channel has no cap any more", async () => {
    const pipeline = await openPipeline({ rules: floodRules });
    await pipeline.arrives(...forged(40, "a"));
    expect(pipeline.sent).toHaveLength(30);
    const { db, platform, clock } = pipeline;
    const caps = { sender: [], conversation: [], channel: [] };
    const next = await openPipeline({ rules: { caps }, db, platform, clock, node: "next" });
    await next.passes(minute);
    expect(next.sent).toHaveLength(10);
  });

  it("fails a message alone that cannot be read, and answers the others", async () => {
    const small = { sender: [], conversation: [], channel: [{ max: 2, per: minute }] };
    const pipeline = await openPipeline({ rules: { caps: small, concurrency: 1 }, clock: testClock(true) });
    const first = customer("ann", { text: "first" });
    await pipeline.arrives(first, ...forged(2, "a"));
    const thread = { answers: [first.id] };
    // One whose parties are incomplete, and one whose conversation cannot be looked up.
    await pipeline.arrives(
      customer("ann", { text: "bad", thread, cc: [{} as never] }),
      customer("ann", { text: "worse", thread, to: null as never }),
      customer("ann", { text: "good", thread }),
      ...forged(2, "b"),
    );
    for (let n = 0; n < 8; n++) await pipeline.passes(60 * minute, 60 * minute);
    expect(pipeline.sent).toHaveLength(6);
    const failed = await pipeline.db.read((q) => q.all("SELECT id, state FROM events WHERE state <> 'routed'"));
    expect(failed).toEqual([
      { id: 4, state: "failed" },
      { id: 5, state: "failed" },
    ]);
  });

  it("raises one alert, and lets an operator release a message that waits", async () => {
    const pipeline = await openPipeline({ rules: floodRules, line: raising() });
    await pipeline.arrives(...forged(100, "a"));
    await pipeline.passes(5 * minute);
    expect(await escalationsIn(pipeline.db)).toMatchObject([{ about: "channel:c:cap", state: "open" }]);
    expect(pipeline.heard.filter((line) => line.startsWith("channel at its cap"))).toHaveLength(1);
    const before = pipeline.sent.length;
    const [waiting] = await pipeline.db.read((q) =>
      q.all<{ id: number }>("SELECT MAX(id) AS id FROM events WHERE state = 'stored'"),
    );
    await pipeline.releases(waiting?.id);
    expect(pipeline.sent).toHaveLength(before + 1);
    expect(pipeline.sent.at(-1)).toBe("answer to flood 99");
  });
});

describeReal("a flooded channel on two nodes", await needPostgres(), () => {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  });

  it("has one cap, and answers customers at once", async () => {
    const store = await migrated(() => postgresDatabase(server));
    const platform = await startPlatform();
    const [first, second] = [await store.open(), await store.open()];
    const one = await openPipeline({ rules: floodRules, db: first, node: "one", platform });
    const other = await openPipeline({ rules: floodRules, db: second, node: "other", platform });
    const settles = async () => {
      await Promise.all([one.settles(), other.settles()]);
      await Promise.all([one.settles(), other.settles()]);
    };
    const sent = () => [...one.sent, ...other.sent];
    await Promise.all([one.arrives(...forged(100, "a")), other.arrives(...forged(100, "b"))]);
    await settles();
    expect(sent()).toHaveLength(30);
    await Promise.all([one.arrives(customer("ann")), other.arrives(customer("bob"))]);
    await settles();
    expect(
      sent()
        .filter((text) => !text.includes("flood"))
        .sort(),
    ).toEqual(["answer to ann", "answer to bob"]);
  });
});
