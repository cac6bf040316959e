// STOP, START and HELP: acted on at once and in order, answered once, never shown to the agent.

import { type Consent, externalId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { suppress, suppression } from "../../../src/store/tables/suppressions.ts";
import { ann, mail, openTexts, type Texts, testClock } from "../../support/pipeline/pipeline.ts";

const word = (consent: Consent["word"], answer?: string) => ({
  text: consent.toUpperCase(),
  consent: { word: consent, ...(answer === undefined ? {} : { answer }) },
});
const suppressed = (pipeline: Texts, channel = "c") => pipeline.db.read((q) => suppression(q, channel, ann));

it("suppresses at STOP, says so past the suppression, and frees at START", async () => {
  const pipeline = await openTexts();
  await pipeline.say(word("stop", "You get nothing more."));
  expect(await suppressed(pipeline)).toBe("the person said STOP (event 1)");
  await pipeline.says("hello?");
  expect(await pipeline.drafts()).toEqual(["sent"]);
  await pipeline.say(word("start", "Welcome back."));
  expect(await suppressed(pipeline)).toBeNull();
  await pipeline.says("and now?");
  expect(pipeline.texts).toEqual([
    `${ann}: You get nothing more.`,
    `${ann}: Welcome back.`,
    `${ann}: answer to and now?`,
  ]);
  const states = [];
  for (const event of [1, 2, 3, 4]) states.push((await pipeline.state(event)).code);
  expect(states).toEqual(["opt-out", "suppressed", "opt-in", null]);
});

it("suppresses at the STOP of a person whose suppression by bounces it ends", async () => {
  const pipeline = await openTexts();
  const bounced = standardTiming.route.bounced + 1000;
  await pipeline.db.tx(async (q) => {
    await suppress(q, "c", ann, "two bounces", { source: "bounces" });
    await q.write("UPDATE suppressions SET updated_at = updated_at - $1", bounced);
  });
  await pipeline.say(word("stop"));
  expect(await suppressed(pipeline)).toBe("the person said STOP (event 1)");
});

it("answers HELP and changes nothing", async () => {
  const pipeline = await openTexts();
  await pipeline.say(word("help", "Write to us at ..."));
  expect(await pipeline.state()).toMatchObject({ state: "ignored", code: "help" });
  expect([pipeline.texts, await suppressed(pipeline)]).toEqual([[`${ann}: Write to us at ...`], null]);
  expect(pipeline.platform.calls).toEqual([]);
});

it("answers a keyword however many answers of the agent there were", async () => {
  const caps = { sender: [{ max: 2, per: 3_600_000 }], conversation: [], channel: [] };
  const pipeline = await openTexts({ rules: { caps } });
  for (const text of ["one", "two"]) await pipeline.says(text);
  await pipeline.say(word("stop", "Bye."));
  expect(pipeline.texts.at(-1)).toBe(`${ann}: Bye.`);
});

it("says nothing where the provider does, and opens no conversation for it", async () => {
  const pipeline = await openTexts();
  await pipeline.say(word("stop"), word("start"), word("help"));
  expect(pipeline.texts).toEqual([]);
  expect(await pipeline.db.read((q) => q.all("SELECT id FROM conversations"))).toEqual([]);
});

it("adds nothing to such texts", async () => {
  const pipeline = await openTexts({ delay: 3600 });
  await pipeline.say(word("help", "Help."));
  expect(pipeline.replies).toEqual([
    expect.objectContaining({ kind: "notice", text: "Help.", signature: null, introduction: null }),
  ]);
  expect(pipeline.texts).toHaveLength(1);
  // It is no answer of the agent: the introduction is still to come.
  await pipeline.says("hello");
  await pipeline.passes(3_700_000, 1_000_000);
  expect(pipeline.replies.at(-1)).toMatchObject({ kind: "answer", introduction: "Hello!", signature: "-- us" });
});

it("lets a reply die that waits for its delay, and does not wait behind it", async () => {
  const pipeline = await openTexts({ delay: 60 });
  await pipeline.says("hello");
  expect(await pipeline.drafts()).toEqual(["queued"]);
  await pipeline.say(word("stop", "Goodbye."));
  expect(pipeline.texts).toEqual([`${ann}: Goodbye.`]);
  await pipeline.passes(61_000);
  expect(pipeline.texts).toEqual([`${ann}: Goodbye.`]);
  expect([...(await pipeline.drafts())].sort()).toEqual(["dropped", "sent"]);
});

it("is applied regardless of allow, deny, caps and age", async () => {
  const cap = [{ max: 0, per: 60_000 }];
  const pipeline = await openTexts({
    rules: {
      allow: ["+49*"],
      deny: [ann],
      max_age: 60_000,
      caps: { sender: [], conversation: cap, channel: cap },
    },
  });
  await pipeline.say({ ...word("stop", "Bye."), sentAt: new Date(0), hops: 9 });
  expect(await pipeline.state()).toMatchObject({ state: "ignored", code: "opt-out" });
  expect([pipeline.texts, await suppressed(pipeline)]).toEqual([[`${ann}: Bye.`], expect.any(String)]);
});

it("is applied while other messages wait at the channel's cap", async () => {
  const channel = [{ max: 1, per: 3_600_000 }];
  const pipeline = await openTexts({ rules: { caps: { sender: [], conversation: [], channel } } });
  const from = (address: string) => ({ from: { address } });
  await pipeline.say({ text: "one", ...from("+15550123") }, { text: "two", ...from("+15550122") }, word("stop"));
  expect(await suppressed(pipeline)).not.toBeNull();
  expect((await pipeline.state(2)).state).toBe("stored");
  await pipeline.say(word("start"));
  expect(await suppressed(pipeline)).toBeNull();
  expect((await pipeline.state(2)).state).toBe("stored");
});

it("acts in order of arrival: STOP, then START in one commit", async () => {
  const pipeline = await openTexts();
  await pipeline.say(word("stop"), word("start"));
  expect(await suppressed(pipeline)).toBeNull();
  await pipeline.say(word("start"), word("stop"));
  expect(await suppressed(pipeline)).not.toBeNull();
});

it("ignores a duplicate", async () => {
  const pipeline = await openTexts();
  const id = externalId("SM1");
  await pipeline.say({ ...word("stop", "Bye."), id });
  await pipeline.say(word("start"));
  await pipeline.say({ ...word("stop", "Bye."), id });
  await pipeline.say({ ...word("stop", "Bye."), id });
  expect([pipeline.texts, await suppressed(pipeline)]).toEqual([[`${ann}: Bye.`], null]);
});

it("answers once though the process dies right after the commit", async () => {
  const pipeline = await openTexts();
  await pipeline.scheduler.drain(0); // claims nothing any more
  await pipeline.accepts("c", { ...mail({ text: "", from: { address: ann } }), ...word("stop", "Bye.") });
  expect(pipeline.texts).toEqual([]);
  const next = await pipeline.reborn();
  await next.settles();
  const last = await next.reborn();
  await last.settles();
  expect([next.texts, last.texts]).toEqual([[`${ann}: Bye.`], []]);
  expect(await suppressed(next)).not.toBeNull();
});

it("keeps the suppression to one of our numbers", async () => {
  const pipeline = await openTexts({ channels: ["c", "d"] });
  await pipeline.say(word("stop"));
  expect([await suppressed(pipeline, "c"), await suppressed(pipeline, "d")]).toEqual([expect.any(String), null]);
});

it("restarts the bounce count after START", async () => {
  const refused = { kind: "refused", code: "30005", reason: "unknown", scope: "recipient" } as const;
  const pipeline = await openTexts({ provider: (count) => (count === 1 || count === 2 ? refused : undefined) });
  await pipeline.says("one");
  await pipeline.say(word("start"));
  await pipeline.says("two");
  expect(await suppressed(pipeline)).toBeNull();
  await pipeline.says("three");
  expect(pipeline.texts).toEqual([`${ann}: answer to three`]);
});

it("suppresses at once when the provider says that the person opted out", async () => {
  const refused = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" } as const;
  const pipeline = await openTexts({ provider: (count) => (count === 1 ? refused : undefined) });
  await pipeline.says("one");
  expect(await suppressed(pipeline)).toMatch(/opted out/);
  await pipeline.says("two");
  expect(await pipeline.drafts()).toEqual(["failed"]);
  expect(pipeline.texts).toEqual([]);
});

it("bounds its answers to another machine's keywords", async () => {
  const pipeline = await openTexts({
    rules: { caps: { sender: [{ max: 3, per: 3_600_000 }], conversation: [], channel: [] } },
  });
  for (let round = 0; round < 6; round++) await pipeline.say(word("help", "Help."));
  expect(pipeline.texts).toHaveLength(3);
  await pipeline.say(word("stop", "Bye."));
  expect([pipeline.texts.length, await suppressed(pipeline)]).toEqual([3, expect.any(String)]);
});

it("cannot be released to the agent", async () => {
  const pipeline = await openTexts();
  await pipeline.say(word("stop"));
  await expect(pipeline.releases(1)).rejects.toThrow(/which no agent answers/);
});

describe("a keyword that arrives late", () => {
  const minute = 60_000;
  /** A keyword as backfill delivers it, with the time at which it was sent. */
  const missed = (pipeline: Texts, consent: Consent["word"], ago: number, answer?: string) =>
    pipeline.say({ ...word(consent, answer), sentAt: new Date(pipeline.clock.now() - ago) });

  it("START does not lift a newer STOP", async () => {
    const pipeline = await openTexts();
    await pipeline.say(word("stop"));
    await pipeline.passes(5 * minute);
    await missed(pipeline, "start", 6 * minute, "Welcome back.");
    expect(await suppressed(pipeline)).not.toBeNull();
    expect(await pipeline.state(2)).toMatchObject({ state: "ignored", code: "opt-in" });
    expect(pipeline.texts).toEqual([]);
    // A later keyword counts, even if it arrives late as well.
    await missed(pipeline, "start", 3 * minute);
    expect(await suppressed(pipeline)).toBeNull();
  });

  it("STOP does not override a newer START", async () => {
    const pipeline = await openTexts();
    await pipeline.say(word("start"));
    await pipeline.passes(5 * minute);
    await missed(pipeline, "stop", 10 * minute, "Goodbye.");
    expect([await suppressed(pipeline), pipeline.texts]).toEqual([null, []]);
    await missed(pipeline, "stop", 3 * minute);
    expect(await suppressed(pipeline)).not.toBeNull();
  });

  it("STOP counts where the two are too close to tell which was the last", async () => {
    const pipeline = await openTexts();
    await pipeline.say(word("start"));
    await pipeline.passes(minute);
    await missed(pipeline, "stop", minute + 10_000);
    expect(await suppressed(pipeline)).not.toBeNull();
  });

  it("is compared with that person's own text alone", async () => {
    const pipeline = await openTexts();
    await missed(pipeline, "stop", 10 * minute);
    await pipeline.say({ ...word("stop"), from: { address: "+15550122" } });
    await missed(pipeline, "start", 9 * minute);
    expect(await suppressed(pipeline)).toBeNull();
  });
});

it("lets a STOP that came while we were away count before a reply that was due", async () => {
  let away = true;
  const pipeline = await openTexts({ line: (line) => ({ ...line, catchingUp: () => away }) });
  await pipeline.says("hello");
  await pipeline.settles();
  expect([await pipeline.drafts(), pipeline.texts]).toEqual([["queued"], []]);
  await pipeline.say(word("stop"));
  away = false;
  await pipeline.settles();
  expect([await pipeline.drafts(), pipeline.texts]).toEqual([["dropped"], []]);
});

describe("a suppressed person", () => {
  it("is not asked about: the message is kept with its reason, and the platform is not called", async () => {
    const pipeline = await openTexts();
    await pipeline.say(word("stop"));
    await pipeline.says("Where is my order?");
    expect(pipeline.platform.calls).toEqual([]);
    expect([pipeline.texts, await pipeline.drafts(), await pipeline.turns()]).toEqual([[], [], []]);
    expect(await pipeline.state(2)).toMatchObject({ state: "ignored", code: "suppressed" });
    const [reason] = await pipeline.db.read((q) => q.all<{ reason: string }>("SELECT reason FROM events WHERE id = 2"));
    expect(reason?.reason).toBe("nothing may be sent to its sender: the person said STOP (event 1)");
    // Others are not concerned, and START lifts it.
    await pipeline.says("hello", { from: { address: "+15550122" } });
    await pipeline.say(word("start"));
    await pipeline.says("and now?");
    expect(pipeline.texts).toEqual(["+15550122: answer to hello", `${ann}: answer to and now?`]);
  });

  it("is not asked about either when STOP comes while the question waits", async () => {
    const pipeline = await openTexts({ rules: { debounce: 3000 }, clock: testClock(true) });
    await pipeline.says("Where is my order?");
    await pipeline.say(word("stop"));
    await pipeline.passes(10_000, 500);
    expect(pipeline.platform.calls).toEqual([]);
    expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["dropped"]);
    expect(await pipeline.state(1)).toMatchObject({ state: "ignored", code: "suppressed" });
    await pipeline.say(word("start"));
    await pipeline.says("and now?");
    await pipeline.passes(10_000, 500);
    expect(pipeline.texts).toEqual([`${ann}: answer to and now?`]);
  });

  it("is not asked about when the process dies before the question is put", async () => {
    const pipeline = await openTexts();
    await pipeline.scheduler.drain(0);
    const text = (over: object) => ({ ...mail({ text: "", from: { address: ann } }), ...over });
    await pipeline.accepts("c", text({ text: "Where is my order?" }), text(word("stop")));
    const next = await pipeline.reborn();
    await next.settles();
    expect([next.platform.calls, next.texts]).toEqual([[], []]);
  });

  it("gets no further text when the provider refuses ours in return to STOP, and no responder is notified", async () => {
    const refused = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" } as const;
    const pipeline = await openTexts({ provider: () => refused });
    await pipeline.say(word("stop", "Bye."));
    expect(await pipeline.drafts()).toEqual(["dropped"]);
  });
});

describe("a word that is also a business term", () => {
  const term = (consent: "stop" | "start") => ({
    text: "alta",
    consent: { word: consent, ambiguous: true, answer: "Confirmed." } as const,
  });

  it("means START only to a suppressed person", async () => {
    const pipeline = await openTexts();
    await pipeline.say(term("start"));
    expect(pipeline.texts).toEqual([`${ann}: answer to alta`]);
    await pipeline.say(word("stop"));
    await pipeline.say(term("start"));
    expect([pipeline.texts.at(-1), await suppressed(pipeline)]).toEqual([`${ann}: Confirmed.`, null]);
  });

  it("is held like other messages when it was found late and is answered already, and means nothing else", async () => {
    const pipeline = await openTexts();
    await pipeline.say({ ...term("start"), handledBefore: { by: "other", reason: "answered" } });
    expect(await pipeline.state()).toMatchObject({ state: "held", code: "answered-before-restore" });
    expect(pipeline.texts).toEqual([]);
  });

  it("is confirmed when it means STOP", async () => {
    const pipeline = await openTexts();
    await pipeline.say(term("stop"));
    expect([pipeline.texts, await suppressed(pipeline)]).toEqual([[`${ann}: Confirmed.`], expect.any(String)]);
  });
});
