// Backoff of phone channels, on a clock that tests advance: delays in seconds, one draft at a time after a failure, and
// no effect on texts of other senders.

import type { Outbound, SendOutcome } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { CallSessions } from "../../../src/calls/sessions.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import { pausesOf, probeNow, wholeChannel } from "../../../src/store/tables/pauses.ts";
import { openTexts, type TextOptions, type Texts, testClock } from "../../support/pipeline/pipeline.ts";
import { clock, lineOf, listen } from "../../support/pipeline/stage.ts";
import { conversation, draft, fresh, onEachDatabase } from "../../support/store/databases.ts";

const people = Array.from({ length: 6 }, (_, at) => `+1555011${at}`);
type Deferred = SendOutcome & { readonly kind: "deferred" };
const deferred = (over: Partial<Deferred>): Deferred => ({
  kind: "deferred",
  reason: "not now",
  scope: "channel",
  ...over,
});
const tooMany = deferred({ cause: "rate" });
const rejected = deferred({ cause: "login" });
const unreachable = deferred({ cause: "unreachable" });

interface Fixture extends Texts {
  /** Attempts so far. */
  tries(): number;
}

/** What the provider says to every attempt while it is set; null: it takes the text. */
async function openFixture(state: { says: SendOutcome | null }, over: Partial<TextOptions> = {}): Promise<Fixture> {
  let tries = 0;
  const pipeline = await openTexts({
    clock: testClock(true),
    ...over,
    provider() {
      tries += 1;
      return state.says ?? undefined;
    },
  });
  return Object.assign(pipeline, { tries: () => tries });
}

const everybodyWrites = (pipeline: Texts) =>
  pipeline.say(...people.map((address) => ({ text: "hi", from: { address } })));

/** Seconds of the test's clock until `count` texts have gone out. */
async function secondsUntil(pipeline: Texts, count: number, atMost = 1000): Promise<number> {
  const began = pipeline.clock.monotonic();
  while (pipeline.texts.length < count && pipeline.clock.monotonic() - began < atMost * 1000)
    await pipeline.passes(250, 250);
  expect(pipeline.texts).toHaveLength(count);
  return (pipeline.clock.monotonic() - began) / 1000;
}

describe("backoff of a phone number", () => {
  it("delays the others by about a second after one 429, and by about three after two", async () => {
    const state = { says: tooMany as SendOutcome | null };
    const pipeline = await openFixture(state);
    await pipeline.says("first");
    expect(pipeline.tries()).toBe(1);
    state.says = null;
    await everybodyWrites(pipeline);
    expect(pipeline.texts, "the pause holds").toEqual([]);
    expect(await secondsUntil(pipeline, 7)).toBeLessThan(3);

    const again = await openFixture({ says: tooMany });
    await again.says("first");
    await again.passes(2000, 250);
    expect(again.tries()).toBe(2);
    await everybodyWrites(again);
    expect(again.tries(), "one failure stands for all").toBe(2);
  });

  it("waits as long as Retry-After requires, despite other successes, and no longer", async () => {
    const state = { says: deferred({ cause: "rate", retryAfterMs: 7000 }) as SendOutcome | null };
    const pipeline = await openFixture(state);
    await pipeline.says("first");
    state.says = null;
    await everybodyWrites(pipeline);
    await pipeline.scheduler.commit((q) => probeNow(q, "c"));
    const seconds = await secondsUntil(pipeline, 7);
    expect(seconds).toBeGreaterThanOrEqual(7);
    expect(seconds).toBeLessThan(9);
  });

  it("delivers within seconds after an outage of 45 s, with few attempts during it", async () => {
    const state = { says: unreachable as SendOutcome | null };
    const pipeline = await openFixture(state);
    await everybodyWrites(pipeline);
    const atOnce = pipeline.tries();
    await pipeline.passes(45_000, 250);
    expect(pipeline.texts).toEqual([]);
    expect(pipeline.tries() - atOnce, "one draft at a time").toBeLessThan(9);
    expect(pipeline.tries() - atOnce).toBeGreaterThan(3);
    state.says = null;
    expect(await secondsUntil(pipeline, people.length)).toBeLessThan(19);
    expect(await pipeline.db.read((q) => pausesOf(q, "c", 3_700_000))).toEqual([]);
  });

  it("continues soon after a corrected login, and at once when the channel has logged in", async () => {
    const state = { says: rejected as SendOutcome | null };
    const pipeline = await openFixture(state);
    await everybodyWrites(pipeline);
    await pipeline.passes(300_000, 1000);
    state.says = null;
    expect(await secondsUntil(pipeline, people.length)).toBeLessThan(37);

    state.says = rejected;
    await everybodyWrites(pipeline);
    await pipeline.passes(100_000, 1000);
    expect((await pipeline.db.read((q) => pausesOf(q, "c", 3_700_000)))[0]?.remaining).toBeGreaterThan(0);
    state.says = null;
    await pipeline.scheduler.commit((q) => probeNow(q, "c"));
    await pipeline.settles();
    expect(pipeline.texts).toHaveLength(2 * people.length);
  });

  it("tries one draft when a pause is over, and lets the others go by its success alone", async () => {
    const state = { says: unreachable as SendOutcome | null };
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    let tries = 0;
    const pipeline = await openTexts({
      clock: testClock(true),
      line: (line) => ({
        ...line,
        outbound: line.outbound && {
          ...line.outbound,
          async send(body, attempt) {
            tries += 1;
            if (state.says !== null) return state.says;
            await held;
            return line.outbound?.send(body, attempt) ?? unreachable;
          },
        },
      }),
    });
    await everybodyWrites(pipeline);
    const atOnce = tries;
    state.says = null;
    pipeline.clock.forward(2000);
    await pipeline.scheduler.sweep();
    await pipeline.scheduler.sweep();
    expect(tries).toBe(atOnce + 1);
    expect(pipeline.scheduler.running()).toBe(1);
    release();
    await pipeline.settles();
    expect(pipeline.texts).toHaveLength(people.length);
  });

  it("tries again without waiting for a probe that died with its process", async () => {
    const state = { says: unreachable as SendOutcome | null };
    const pipeline = await openFixture(state);
    await pipeline.says("first");
    await pipeline.db.tx((q) => q.run("UPDATE send_pauses SET probe = 'gone', until = now_ms() + 75000"));
    state.says = null;
    const next = await pipeline.reborn();
    await next.settles();
    expect(next.texts).toHaveLength(1);
  });

  it("keeps a pause over a restart of the process", async () => {
    const state = { says: deferred({ cause: "rate", retryAfterMs: 60_000 }) as SendOutcome | null };
    const pipeline = await openFixture(state);
    await pipeline.says("first");
    state.says = null;
    const next = await pipeline.reborn();
    await next.passes(50_000, 1000);
    expect(next.texts).toEqual([]);
    await next.passes(15_000, 1000);
    expect(next.texts).toHaveLength(1);
  });

  it("lets no draft that always fails keep the others from going out", async () => {
    const pipeline = await openTexts({
      clock: testClock(true),
      provider: (_, text) => (text === "answer to poison" ? unreachable : undefined),
    });
    await pipeline.say(
      { text: "poison", from: { address: "+15550666" } },
      ...people.map((address) => ({ text: "hi", from: { address } })),
    );
    expect(await secondsUntil(pipeline, people.length)).toBeLessThan(20);
  });

  it("backs a single draft off by seconds, and mail by minutes", async () => {
    const after = async (platform: "sms" | "email") => {
      const state = { says: { kind: "deferred", reason: "later" } as SendOutcome | null };
      const pipeline = await openFixture(state, {
        line: (line) => ({ ...line, traits: { ...line.traits, platform } }),
      });
      await pipeline.says("first");
      await pipeline.passes(100_000, 1000);
      return pipeline.tries();
    };
    expect(await after("sms")).toBeGreaterThanOrEqual(5);
    expect(await after("email")).toBe(2);
  });

  it("never sends again what may have gone out", async () => {
    const state = { says: unreachable as SendOutcome | null };
    const pipeline = await openFixture(state);
    await pipeline.says("first");
    state.says = { kind: "unknown", reason: "no answer" };
    await pipeline.passes(20_000, 250);
    expect(pipeline.tries()).toBe(2);
    state.says = null;
    await everybodyWrites(pipeline);
    await pipeline.passes(300_000, 1000);
    expect(pipeline.texts.some((text) => text.includes("first"))).toBe(false);
    expect(pipeline.texts).toHaveLength(people.length);
    expect((await pipeline.drafts()).filter((one) => one === "held")).toHaveLength(1);
  });
});

describe("a configured send rate", () => {
  it("spreads the texts of one sender and loses none", async () => {
    const pipeline = await openFixture({ says: null }, { rules: { rate: { messages: 1, per: 1000 } } });
    await everybodyWrites(pipeline);
    expect(pipeline.texts).toHaveLength(1);
    const counts: number[] = [];
    for (let second = 0; second < 7; second++) {
      await pipeline.passes(1000, 100);
      counts.push(pipeline.texts.length);
    }
    expect(counts).toEqual([2, 3, 4, 5, 6, 6, 6]);
    expect(new Set(pipeline.texts.map((text) => text.split(":")[0]))).toEqual(new Set(people));
  });

  it("never exceeds the rate in any span, also with a burst", async () => {
    const pipeline = await openFixture(
      { says: null },
      { rules: { rate: { messages: 20, per: 10_000 }, concurrency: 50 } },
    );
    const many = Array.from({ length: 50 }, (_, at) => `+155502${String(at).padStart(2, "0")}`);
    await pipeline.say(...many.map((address) => ({ text: "hi", from: { address } })));
    const sentAt: number[] = [];
    for (let step = 0; step < 300; step++) {
      while (sentAt.length < pipeline.texts.length) sentAt.push(step);
      await pipeline.passes(100, 100);
    }
    while (sentAt.length < pipeline.texts.length) sentAt.push(300);
    expect(sentAt).toHaveLength(50);
    const inSpan = sentAt.map((from) => sentAt.filter((at) => at >= from && at < from + 100).length);
    expect(Math.max(...inSpan)).toBeLessThanOrEqual(20);
    expect(sentAt.at(-1), "and uses it").toBeLessThan(300);
  });
});

onEachDatabase((newDatabase) => {
  it.each([1, 20])("leases no more lanes than a rate of %d a minute lets go", async (messages) => {
    const db = await fresh(newDatabase);
    const senders = ["a", "b", "c"];
    const burst = Math.max(1, messages / 10);
    await db.tx(async (q) => {
      for (const sender of senders)
        for (let n = 0; n < 8; n++) {
          const id = `${sender}${n}`;
          await conversation(q, id, "c", `${id}@example.org`);
          await draft(q, `d${id}`, id);
          await q.run("UPDATE lanes SET sender = $2 WHERE conversation = $1 AND direction = 'out'", id, sender);
        }
      if (db.kind === "postgres") return;
      await q.run("CREATE TABLE returned (lane TEXT)");
      await q.run("CREATE TRIGGER returned AFTER UPDATE ON lanes BEGIN INSERT INTO returned VALUES (NEW.id); END");
    });
    const line = lineOf({ outbound: {} as Outbound, rules: { rate: { messages, per: 60_000 } } });
    const { log } = listen();
    const sessions = new CallSessions(standardTiming.calls);
    const deps = { lines: () => new Map([["c", line]]), sessions, db, clock, log, node: "n", timing: standardTiming };
    const stage = sendStage(deps);
    const claimed = async () => (await db.tx((q) => stage.claim(q, "c", 32))).claimed.length;
    expect(await claimed()).toBe(senders.length * burst);
    // On PostgreSQL the tokens number all leases; SQLite writes a lane only when it is returned.
    const { leased } = (await db.read((q) =>
      q.one<{ leased: number }>(
        `SELECT COUNT(*) AS leased FROM returned -- only: sqlite
         SELECT MAX(token)::int AS leased FROM lanes -- only: postgres`,
      ),
    )) as { leased: number };
    const returned = db.kind === "sqlite" ? leased : leased - senders.length * burst;
    expect(returned).toBeGreaterThan(0);
    expect(returned).toBeLessThanOrEqual(senders.length * burst);
    expect(await claimed()).toBe(0);
  });
});

it("waits at most a minute after a 429 of the platform without Retry-After", async () => {
  const pipeline = await openTexts({ clock: testClock(true) });
  let limited = true;
  pipeline.platform.faults.ask = (asked) => (limited ? asked.answer(429, {}) : asked.answer(200, asked.perform()));
  await pipeline.says("hi");
  // As often as the longest step of the schedule for other failures.
  for (let tries = 0; tries < 8; tries++) await pipeline.passes(61_000, 1000);
  limited = false;
  await everybodyWrites(pipeline);
  expect(await secondsUntil(pipeline, 1 + people.length)).toBeLessThanOrEqual(62);
});

it("names the whole channel by a key that no address has", () => {
  expect(wholeChannel).not.toMatch(/^[+\w]/);
});

it("sends nothing while the channel still reads what it has missed", async () => {
  let isCatchingUp = true;
  const pipeline = await openTexts({ line: (line) => ({ ...line, catchingUp: () => isCatchingUp }) });
  await pipeline.says("hello");
  expect([await pipeline.drafts(), pipeline.texts]).toEqual([["queued"], []]);
  isCatchingUp = false;
  await pipeline.settles();
  expect(pipeline.texts).toHaveLength(1);
});
