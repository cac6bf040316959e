// What the provider refuses, cannot take now, or leaves unanswered: every class of it through the whole daemon.

import { describe, expect, it } from "vitest";
import { eventually, type MovableClock, movableClock } from "../../support/clock.ts";
import {
  anna,
  type PhoneDaemon,
  type PhoneDaemonOptions,
  startPhoneDaemon,
} from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

interface DraftState {
  readonly state: string;
  readonly reason: string | null;
}
const draft = async (daemon: PhoneDaemon) =>
  (await daemon.rows<DraftState>("SELECT state, reason FROM drafts ORDER BY id DESC"))[0];
const suppressed = (daemon: PhoneDaemon) =>
  daemon.rows("SELECT address, active, strikes FROM suppressions ORDER BY address");

async function draftIs(daemon: PhoneDaemon, state: string): Promise<void> {
  await eventually(async () => expect(await draft(daemon)).toMatchObject({ state }));
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
    await using daemon = await opened();
    await daemon.text("Hello?", { from: fate(code) });
    await draftIs(daemon, "failed");
    expect((await draft(daemon))?.reason).toContain(String(code));
    const expected = strikes === 0 ? [] : [{ address: fate(code), active: 0, strikes }];
    expect(await suppressed(daemon)).toEqual(expected);
    expect(daemon.api.creates).toHaveLength(1);
  });

  it.concurrent("an address that is refused again and again is not written to any more", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished);
    for (const words of ["one", "two", "three"]) {
      await daemon.text(words, { from: fate(21614) });
      await daemon.idle();
    }
    expect(await suppressed(daemon)).toMatchObject([{ active: 1 }]);
    expect(daemon.api.creates).toHaveLength(2);
  });

  it.concurrent("a person who opted out at the provider is suppressed at once", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished);
    await daemon.text("one", { from: fate(21610) });
    await draftIs(daemon, "failed");
    await daemon.text("two", { from: fate(21610) });
    await daemon.idle();
    expect(await suppressed(daemon)).toMatchObject([{ active: 1 }]);
    expect(daemon.api.creates).toHaveLength(1);
    daemon.api.fault({ slow: 0 }, { to: fate(21610) });
    await daemon.text("START", { from: fate(21610) });
    await daemon.text("three", { from: fate(21610) });
    await daemon.api.until(({ sent }) => sent.length === 1);
    expect(daemon.textsTo(fate(21610))).toEqual([echoed("three")]);
  });
});

describe("what stops the channel", () => {
  it.concurrent.each([
    ["a login that is not taken", 20003, "unauthorized"],
    ["a number that is not ours", 21606, "degraded"],
  ])("%s: no attempt is used up, and sending continues after the fix", async (_what, code, state) => {
    const clock = movableClock();
    await using daemon = await opened({ clock });
    daemon.api.fault({ code });
    await daemon.text("Hello?");
    await eventually(() => expect(daemon.channel("sms")).toMatchObject({ state }));
    await daemon.text("Hello?", { from: "+12025550124" });
    await eventually(async () =>
      expect(await daemon.rows("SELECT state FROM drafts")).toEqual([{ state: "queued" }, { state: "queued" }]),
    );
    expect(daemon.api.creates).toHaveLength(1);
    daemon.api.heal();
    clock.forward(20 * 60_000);
    await daemon.api.until(({ sent }) => sent.length === 2);
    await eventually(() => expect(daemon.channel("sms")).toMatchObject({ state: "ready" }));
  });
});

describe("how long others wait", () => {
  const bert = "+12025550124";
  const annaOnWhatsapp = `whatsapp:${anna}`;
  /** Moves the clock in small steps until so many texts were taken; the seconds that it took. */
  const secondsUntil = async (daemon: PhoneDaemon, clock: MovableClock, count: number): Promise<number> => {
    const began = clock.now();
    while (daemon.api.sent.length < count && clock.now() - began < 600_000) {
      await eventually(() => expect(daemon.app().scheduler.running()).toBe(0));
      clock.forward(500);
      await daemon.app().scheduler.sweep();
    }
    expect(daemon.api.sent).toHaveLength(count);
    return (clock.now() - began) / 1000;
  };

  it.concurrent("seconds after a 429 without Retry-After", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    daemon.api.fault({ code: 20429 }, { times: 2 });
    await daemon.text("Hello?");
    await eventually(() => expect(daemon.api.creates).toHaveLength(1));
    await daemon.text("Hello?", { from: bert });
    expect(await secondsUntil(daemon, clock, 2)).toBeLessThan(20);
  });

  it.concurrent("half a minute after a login that is repaired", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    daemon.api.fault({ code: 20003 });
    await daemon.text("Hello?");
    for (let step = 0; step < 20; step++) {
      await eventually(() => expect(daemon.app().scheduler.running()).toBe(0));
      clock.forward(20_000);
      await daemon.app().scheduler.sweep();
    }
    expect(daemon.api.creates.length).toBeGreaterThan(2);
    daemon.api.heal();
    expect(await secondsUntil(daemon, clock, 1)).toBeLessThan(60);
    await eventually(() => expect(daemon.channel("sms")).toMatchObject({ state: "ready" }));
  });

  it.concurrent("no time at all for a WhatsApp sender that is not found", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    daemon.api.fault({ code: 63007 }, { to: annaOnWhatsapp });
    await daemon.text("Hello?", { from: annaOnWhatsapp, to: "whatsapp:+12025550177" });
    await eventually(() => expect(daemon.api.creates).toHaveLength(1));
    await daemon.text("Hello?", { from: bert });
    await daemon.api.until(({ sent }) => sent.length === 1);
    expect(daemon.textsTo(bert)).toEqual([echoed("Hello?")]);
    expect(await daemon.rows("SELECT sender FROM send_pauses")).toEqual([{ sender: "whatsapp:+12025550177" }]);
  });

  it.concurrent("no time at all for a sender whose texts are lost after they were taken", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    const sender = "whatsapp:+12025550177";
    daemon.api.fault({ fails: 63007 }, { to: annaOnWhatsapp });
    await daemon.text("Hello?", { from: annaOnWhatsapp, to: sender });
    await draftIs(daemon, "failed");
    await daemon.text("Again?", { from: annaOnWhatsapp, to: sender });
    const waiting = { state: "queued", reason: expect.stringContaining("63007") as string };
    await eventually(async () => expect(await draft(daemon)).toMatchObject(waiting));
    await daemon.text("Hello?", { from: bert });
    await daemon.api.until(() => daemon.textsTo(bert).length === 1);
    expect(daemon.api.creates, "the next one was not lost").toHaveLength(2);
    daemon.api.heal();
    expect(await secondsUntil(daemon, clock, 3)).toBeLessThan(60);
  });
});

describe("what is tried again", () => {
  it.concurrent("too many requests, after the time the provider names", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished);
    daemon.api.fault({ code: 20429, retryAfter: 2 }, { times: 1 });
    await daemon.text("Hello?");
    await daemon.api.until(({ sent }) => sent.length === 1);
    const [first, second] = daemon.api.creates;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1900);
    await daemon.idle();
    expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
  });

  it.concurrent("a provider that cannot be reached", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    const { message } = await daemon.text("Hello?", { webhook: false });
    await daemon.api.down();
    await daemon.api.repeat(message);
    await draftIs(daemon, "queued");
    await eventually(async () =>
      expect(await daemon.rows("SELECT outcome FROM attempts WHERE kind = 'send'")).toContainEqual({
        outcome: "deferred",
      }),
    );
    await daemon.api.up();
    clock.forward(60_000);
    await daemon.api.until(({ sent }) => sent.length === 1);
    expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
  });
});

describe("what fails after it was taken", () => {
  it.concurrent("a number that may not send: other drafts are kept, and sent after the repair", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    daemon.api.fault({ fails: 30034 });
    await daemon.text("Hello?");
    await draftIs(daemon, "failed");
    expect(daemon.channel("sms")).toMatchObject({ state: "degraded" });
    await daemon.text("Hello?", { from: "+12025550124" });
    const waiting = { state: "queued", reason: expect.stringContaining("30034") as string };
    await eventually(async () => expect(await draft(daemon)).toMatchObject(waiting));
    expect(daemon.api.creates).toHaveLength(1);
    daemon.api.heal();
    clock.forward(20 * 60_000);
    await daemon.api.until(({ creates }) => creates.length === 2);
    await eventually(() => expect(daemon.channel("sms")).toMatchObject({ state: "ready" }));
    await draftIs(daemon, "delivered");
  });

  it.concurrent.each([
    ["a phone that is switched off", 30003, []],
    ["a filter", 30007, []],
    ["a landline", 30006, [{ address: fate(30006), active: 0, strikes: 1 }]],
  ])("%s", async (_what, code, strikes) => {
    await using daemon = await opened();
    await daemon.text("Hello?", { from: fate(code) });
    await draftIs(daemon, "failed");
    expect((await draft(daemon))?.reason).toContain(String(code));
    expect(await suppressed(daemon)).toEqual(strikes);
    expect(daemon.api.creates).toHaveLength(1);
  });

  it.concurrent("what comes late changes nothing that is final", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished);
    daemon.api.progress([]);
    await daemon.text("Hello?");
    const [sent] = await daemon.api.until((api) => (api.sent.length > 0 ? api.sent : null));
    if (!sent) throw new Error("nothing was sent");
    for (const status of ["delivered", "sent", "queued", "delivered"]) await daemon.api.report(sent, status);
    await daemon.idle();
    expect(await draft(daemon)).toMatchObject({ state: "delivered" });
    expect(await daemon.rows("SELECT external_id FROM events WHERE kind = 'delivery'")).toHaveLength(3);
  });
});

describe("what is left unanswered", () => {
  /** The outcome stays unknown after this number of reconcile attempts. */
  const looked = async (daemon: PhoneDaemon, looks = 0) =>
    eventually(async () => {
      expect(await draft(daemon)).toMatchObject({ state: "unknown" });
      const [row] = await daemon.rows<{ lookups: number }>("SELECT lookups FROM drafts ORDER BY id DESC");
      expect(row?.lookups).toBeGreaterThanOrEqual(looks);
    });

  it.concurrent.each(["cut-stored", "hang-stored"] as const)("%s: the callback says that it went", async (fault) => {
    await using daemon = await opened();
    daemon.api.fault(fault, { times: 1 });
    await daemon.text("Hello?");
    await draftIs(daemon, "delivered");
    await daemon.idle();
    expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
    expect(daemon.api.creates).toHaveLength(1);
  });

  it.concurrent("a late status callback determines an unknown outcome", async ({ onTestFinished }) => {
    const daemon = await startPhoneDaemon(onTestFinished);
    daemon.api.progress([]);
    daemon.api.fault("cut-stored", { times: 1 });
    await daemon.text("Hello?");
    await looked(daemon);
    const [sent] = daemon.api.sent;
    if (!sent) throw new Error("nothing was sent");
    await daemon.api.report(sent, "sent");
    await draftIs(daemon, "sent");
    expect(await daemon.rows("SELECT external_id FROM drafts")).toEqual([{ external_id: sent.sid }]);
    expect(daemon.api.creates).toHaveLength(1);
  });

  it.concurrent("without a callback the list says that it went", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startPhoneDaemon(onTestFinished, { clock });
    daemon.api.progress([]);
    daemon.api.fault("cut-stored", { times: 1 });
    await daemon.text("Hello?");
    await looked(daemon);
    clock.forward(31_000);
    await draftIs(daemon, "sent");
    expect(daemon.api.creates).toHaveLength(1);
  });

  it.concurrent.each([["cut"], [{ status: 500 }], [{ code: 20500 }]] as const)(
    "%s and not in the list, twice: it is sent once more",
    async (fault) => {
      const clock = movableClock();
      await using daemon = await opened({ clock });
      daemon.api.fault(fault, { times: 1 });
      await daemon.text("Hello?");
      await looked(daemon, 1);
      expect(daemon.api.creates).toHaveLength(1);
      clock.forward(31_000);
      await looked(daemon, 2);
      expect(daemon.api.lists.some((query) => query.includes(`To=${anna}`))).toBe(true);
      expect(daemon.api.creates, "one look is not enough").toHaveLength(1);
      clock.forward(31_000);
      await daemon.api.until(({ sent }) => sent.length === 1);
      await daemon.idle();
      expect(daemon.api.creates).toHaveLength(2);
      expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
    },
  );

  it.concurrent.each([
    ["", false],
    [", also after a restart", true],
  ])("the same text to the same person twice is two texts%s", async (_when, restarted) => {
    const clock = movableClock();
    await using daemon = await opened({ clock });
    daemon.api.progress([]);
    await daemon.text("Hello?");
    await daemon.api.until(({ sent }) => sent.length === 1);
    await daemon.idle();
    daemon.api.fault("cut", { times: 1 });
    await daemon.text("Hello?");
    await looked(daemon);
    if (restarted) await daemon.restart();
    for (let look = 1; daemon.api.sent.length === 1 && look <= 4; look += 1) {
      clock.forward(31_000);
      await eventually(async () => {
        const [row] = await daemon.rows<{ lookups: number }>("SELECT lookups FROM drafts ORDER BY id DESC");
        expect(daemon.api.sent.length === 2 || (row?.lookups ?? 0) >= look).toBe(true);
      });
    }
    await daemon.api.until(({ sent }) => sent.length === 2);
    expect(daemon.textsTo()).toEqual([echoed("Hello?"), echoed("Hello?")]);
  });
});

/** For tests with a table, which have no context. */
async function opened(options: PhoneDaemonOptions = {}): Promise<PhoneDaemon & AsyncDisposable> {
  const undo: (() => unknown)[] = [];
  const daemon = await startPhoneDaemon((one) => void undo.push(one), options);
  return {
    ...daemon,
    [Symbol.asyncDispose]: async () => {
      for (const one of undo) await one();
    },
  };
}
