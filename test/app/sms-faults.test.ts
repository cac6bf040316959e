// What the provider refuses, cannot take now, or leaves unanswered: every class of it through the whole daemon.

import { describe, expect, it } from "vitest";
import { eventually, type MovableClock, movableClock } from "../support/clock.ts";
import { anna, type LinesOptions, type LinesWorld, openLines } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";

interface DraftState {
  readonly state: string;
  readonly reason: string | null;
}
const draft = async (world: LinesWorld) =>
  (await world.rows<DraftState>("SELECT state, reason FROM drafts ORDER BY id DESC"))[0];
const suppressed = (world: LinesWorld) =>
  world.rows("SELECT address, active, strikes FROM suppressions ORDER BY address");

async function draftIs(world: LinesWorld, state: string): Promise<void> {
  await eventually(async () => expect(await draft(world)).toMatchObject({ state }));
}

/** A person whose number fails in that way, see the sandbox. */
const fate = (code: number): string => `+1999${code}07`;

describe("what is refused for good", () => {
  it.concurrent.each([
    ["no number at all", 21211, 1],
    ["no mobile number", 21614, 1],
    ["words that are not taken", 21617, 0],
    ["a code nobody knows", 21999, 0],
  ])("%s", async (_what, code, strikes) => {
    await using world = await opened();
    await world.text("Hello?", { from: fate(code) });
    await draftIs(world, "failed");
    expect((await draft(world))?.reason).toContain(String(code));
    const expected = strikes === 0 ? [] : [{ address: fate(code), active: 0, strikes }];
    expect(await suppressed(world)).toEqual(expected);
    expect(world.api.creates).toHaveLength(1);
  });

  it.concurrent("an address that is refused again and again is not written to any more", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished);
    for (const words of ["one", "two", "three"]) {
      await world.text(words, { from: fate(21614) });
      await world.idle();
    }
    expect(await suppressed(world)).toMatchObject([{ active: 1 }]);
    expect(world.api.creates).toHaveLength(2);
  });

  it.concurrent("who opted out at the provider is suppressed at once", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished);
    await world.text("one", { from: fate(21610) });
    await draftIs(world, "failed");
    await world.text("two", { from: fate(21610) });
    await world.idle();
    expect(await suppressed(world)).toMatchObject([{ active: 1 }]);
    expect(world.api.creates).toHaveLength(1);
    world.api.fault({ slow: 0 }, { to: fate(21610) });
    await world.text("START", { from: fate(21610) });
    await world.text("three", { from: fate(21610) });
    await world.api.until(({ sent }) => sent.length === 1);
    expect(world.textsTo(fate(21610))).toEqual([echoed("three")]);
  });
});

describe("what stops the channel", () => {
  it.concurrent.each([
    ["a login that is not taken", 20003, "unauthorized"],
    ["a number that is not ours", 21606, "degraded"],
  ])("%s: nothing is burned, and it goes on when that is mended", async (_what, code, state) => {
    const clock = movableClock();
    await using world = await opened({ clock });
    world.api.fault({ code });
    await world.text("Hello?");
    await eventually(() => expect(world.channel("sms")).toMatchObject({ state }));
    await world.text("Hello?", { from: "+12025550124" });
    await eventually(async () =>
      expect(await world.rows("SELECT state FROM drafts")).toEqual([{ state: "queued" }, { state: "queued" }]),
    );
    expect(world.api.creates).toHaveLength(1);
    world.api.heal();
    clock.forward(20 * 60_000);
    await world.api.until(({ sent }) => sent.length === 2);
    await eventually(() => expect(world.channel("sms")).toMatchObject({ state: "ready" }));
  });
});

describe("how long others wait", () => {
  const bert = "+12025550124";
  const annaOnWhatsapp = `whatsapp:${anna}`;
  /** Moves the clock in small steps until so many texts were taken; the seconds that it took. */
  const secondsUntil = async (world: LinesWorld, clock: MovableClock, count: number): Promise<number> => {
    const began = clock.now();
    while (world.api.sent.length < count && clock.now() - began < 600_000) {
      await eventually(() => expect(world.app().scheduler.running()).toBe(0));
      clock.forward(500);
      await world.app().scheduler.sweep();
    }
    expect(world.api.sent).toHaveLength(count);
    return (clock.now() - began) / 1000;
  };

  it.concurrent("seconds after a 429 without Retry-After", async ({ onTestFinished }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    world.api.fault({ code: 20429 }, { times: 2 });
    await world.text("Hello?");
    await eventually(() => expect(world.api.creates).toHaveLength(1));
    await world.text("Hello?", { from: bert });
    expect(await secondsUntil(world, clock, 2)).toBeLessThan(20);
  });

  it.concurrent("half a minute after a login that is repaired", async ({ onTestFinished }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    world.api.fault({ code: 20003 });
    await world.text("Hello?");
    for (let step = 0; step < 20; step++) {
      await eventually(() => expect(world.app().scheduler.running()).toBe(0));
      clock.forward(20_000);
      await world.app().scheduler.sweep();
    }
    expect(world.api.creates.length).toBeGreaterThan(2);
    world.api.heal();
    expect(await secondsUntil(world, clock, 1)).toBeLessThan(60);
    await eventually(() => expect(world.channel("sms")).toMatchObject({ state: "ready" }));
  });

  it.concurrent("no time at all for a WhatsApp sender that is not found", async ({ onTestFinished }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    world.api.fault({ code: 63007 }, { to: annaOnWhatsapp });
    await world.text("Hello?", { from: annaOnWhatsapp, to: "whatsapp:+12025550177" });
    await eventually(() => expect(world.api.creates).toHaveLength(1));
    await world.text("Hello?", { from: bert });
    await world.api.until(({ sent }) => sent.length === 1);
    expect(world.textsTo(bert)).toEqual([echoed("Hello?")]);
    expect(await world.rows("SELECT sender FROM send_pauses")).toEqual([{ sender: "whatsapp:+12025550177" }]);
  });

  it.concurrent("no time at all for a sender whose texts are lost after they were taken", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    const sender = "whatsapp:+12025550177";
    world.api.fault({ fails: 63007 }, { to: annaOnWhatsapp });
    await world.text("Hello?", { from: annaOnWhatsapp, to: sender });
    await draftIs(world, "failed");
    await world.text("Again?", { from: annaOnWhatsapp, to: sender });
    const waiting = { state: "queued", reason: expect.stringContaining("63007") as string };
    await eventually(async () => expect(await draft(world)).toMatchObject(waiting));
    await world.text("Hello?", { from: bert });
    await world.api.until(() => world.textsTo(bert).length === 1);
    expect(world.api.creates, "the next one was not lost").toHaveLength(2);
    world.api.heal();
    expect(await secondsUntil(world, clock, 3)).toBeLessThan(60);
  });
});

describe("what is tried again", () => {
  it.concurrent("too many requests, after the time the provider names", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished);
    world.api.fault({ code: 20429, retryAfter: 2 }, { times: 1 });
    await world.text("Hello?");
    await world.api.until(({ sent }) => sent.length === 1);
    const [first, second] = world.api.creates;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1900);
    await world.idle();
    expect(world.textsTo()).toEqual([echoed("Hello?")]);
  });

  it.concurrent("a provider that cannot be reached", async ({ onTestFinished }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    const { message } = await world.text("Hello?", { webhook: false });
    await world.api.down();
    await world.api.repeat(message);
    await draftIs(world, "queued");
    await eventually(async () =>
      expect(await world.rows("SELECT outcome FROM attempts WHERE kind = 'send'")).toContainEqual({
        outcome: "deferred",
      }),
    );
    await world.api.up();
    clock.forward(60_000);
    await world.api.until(({ sent }) => sent.length === 1);
    expect(world.textsTo()).toEqual([echoed("Hello?")]);
  });
});

describe("what fails after it was taken", () => {
  it.concurrent("a number that may not send: other drafts are kept, and sent after the repair", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    world.api.fault({ fails: 30034 });
    await world.text("Hello?");
    await draftIs(world, "failed");
    expect(world.channel("sms")).toMatchObject({ state: "degraded" });
    await world.text("Hello?", { from: "+12025550124" });
    const waiting = { state: "queued", reason: expect.stringContaining("30034") as string };
    await eventually(async () => expect(await draft(world)).toMatchObject(waiting));
    expect(world.api.creates).toHaveLength(1);
    world.api.heal();
    clock.forward(20 * 60_000);
    await world.api.until(({ creates }) => creates.length === 2);
    await eventually(() => expect(world.channel("sms")).toMatchObject({ state: "ready" }));
    await draftIs(world, "delivered");
  });

  it.concurrent.each([
    ["a phone that is switched off", 30003, []],
    ["a filter", 30007, []],
    ["a landline", 30006, [{ address: fate(30006), active: 0, strikes: 1 }]],
  ])("%s", async (_what, code, strikes) => {
    await using world = await opened();
    await world.text("Hello?", { from: fate(code) });
    await draftIs(world, "failed");
    expect((await draft(world))?.reason).toContain(String(code));
    expect(await suppressed(world)).toEqual(strikes);
    expect(world.api.creates).toHaveLength(1);
  });

  it.concurrent("what comes late changes nothing that is final", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished);
    world.api.progress([]);
    await world.text("Hello?");
    const [sent] = await world.api.until((api) => (api.sent.length > 0 ? api.sent : null));
    if (!sent) throw new Error("nothing was sent");
    for (const status of ["delivered", "sent", "queued", "delivered"]) await world.api.report(sent, status);
    await world.idle();
    expect(await draft(world)).toMatchObject({ state: "delivered" });
    expect(await world.rows("SELECT external_id FROM events WHERE kind = 'delivery'")).toHaveLength(3);
  });
});

describe("what is left unanswered", () => {
  /** Nobody can tell what became of it, and that often it was looked. */
  const looked = async (world: LinesWorld, looks = 0) =>
    eventually(async () => {
      expect(await draft(world)).toMatchObject({ state: "unknown" });
      const [row] = await world.rows<{ lookups: number }>("SELECT lookups FROM drafts ORDER BY id DESC");
      expect(row?.lookups).toBeGreaterThanOrEqual(looks);
    });

  it.concurrent.each(["cut-stored", "hang-stored"] as const)("%s: the callback says that it went", async (fault) => {
    await using world = await opened();
    world.api.fault(fault, { times: 1 });
    await world.text("Hello?");
    await draftIs(world, "delivered");
    await world.idle();
    expect(world.textsTo()).toEqual([echoed("Hello?")]);
    expect(world.api.creates).toHaveLength(1);
  });

  it.concurrent("a late status callback determines an unknown outcome", async ({ onTestFinished }) => {
    const world = await openLines(onTestFinished);
    world.api.progress([]);
    world.api.fault("cut-stored", { times: 1 });
    await world.text("Hello?");
    await looked(world);
    const [sent] = world.api.sent;
    if (!sent) throw new Error("nothing was sent");
    await world.api.report(sent, "sent");
    await draftIs(world, "sent");
    expect(await world.rows("SELECT external_id FROM drafts")).toEqual([{ external_id: sent.sid }]);
    expect(world.api.creates).toHaveLength(1);
  });

  it.concurrent("without a callback the list says that it went", async ({ onTestFinished }) => {
    const clock = movableClock();
    const world = await openLines(onTestFinished, { clock });
    world.api.progress([]);
    world.api.fault("cut-stored", { times: 1 });
    await world.text("Hello?");
    await looked(world);
    clock.forward(31_000);
    await draftIs(world, "sent");
    expect(world.api.creates).toHaveLength(1);
  });

  it.concurrent.each([["cut"], [{ status: 500 }], [{ code: 20500 }]] as const)(
    "%s and not in the list, twice: it is sent once more",
    async (fault) => {
      const clock = movableClock();
      await using world = await opened({ clock });
      world.api.fault(fault, { times: 1 });
      await world.text("Hello?");
      await looked(world, 1);
      expect(world.api.creates).toHaveLength(1);
      clock.forward(31_000);
      await looked(world, 2);
      expect(world.api.lists.some((query) => query.includes(`To=${anna}`))).toBe(true);
      expect(world.api.creates, "one look is not enough").toHaveLength(1);
      clock.forward(31_000);
      await world.api.until(({ sent }) => sent.length === 1);
      await world.idle();
      expect(world.api.creates).toHaveLength(2);
      expect(world.textsTo()).toEqual([echoed("Hello?")]);
    },
  );

  it.concurrent.each([
    ["", false],
    [", also after a restart", true],
  ])("the same words to the same person are two texts%s", async (_when, restarted) => {
    const clock = movableClock();
    await using world = await opened({ clock });
    world.api.progress([]);
    await world.text("Hello?");
    await world.api.until(({ sent }) => sent.length === 1);
    await world.idle();
    world.api.fault("cut", { times: 1 });
    await world.text("Hello?");
    await looked(world);
    if (restarted) await world.restart();
    for (let look = 1; world.api.sent.length === 1 && look <= 4; look += 1) {
      clock.forward(31_000);
      await eventually(async () => {
        const [row] = await world.rows<{ lookups: number }>("SELECT lookups FROM drafts ORDER BY id DESC");
        expect(world.api.sent.length === 2 || (row?.lookups ?? 0) >= look).toBe(true);
      });
    }
    await world.api.until(({ sent }) => sent.length === 2);
    expect(world.textsTo()).toEqual([echoed("Hello?"), echoed("Hello?")]);
  });
});

/** For tests with a table, which have no context. */
async function opened(options: LinesOptions = {}): Promise<LinesWorld & AsyncDisposable> {
  const undo: (() => unknown)[] = [];
  const world = await openLines((one) => void undo.push(one), options);
  return {
    ...world,
    [Symbol.asyncDispose]: async () => {
      for (const one of undo) await one();
    },
  };
}
