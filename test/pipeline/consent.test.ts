// STOP, START and HELP: acted on at once and in order, answered once, never shown to the agent.

import { type Consent, externalId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { suppression } from "../../src/store/tables/suppressions.ts";
import { ann, mail, openTexts, type Texts, testClock } from "../support/pipeline/pipeline.ts";

const word = (consent: Consent["word"], answer?: string) => ({
  text: consent.toUpperCase(),
  consent: { word: consent, ...(answer === undefined ? {} : { answer }) },
});
const suppressed = (house: Texts, channel = "c") => house.db.read((q) => suppression(q, channel, ann));

it("suppresses at STOP, says so past the suppression, and frees at START", async () => {
  const house = await openTexts();
  await house.say(word("stop", "You get nothing more."));
  expect(await suppressed(house)).toBe("the person said STOP (event 1)");
  await house.says("hello?");
  expect(await house.drafts()).toEqual(["sent"]);
  await house.say(word("start", "Welcome back."));
  expect(await suppressed(house)).toBeNull();
  await house.says("and now?");
  expect(house.texts).toEqual([`${ann}: You get nothing more.`, `${ann}: Welcome back.`, `${ann}: answer to and now?`]);
  const states = [];
  for (const event of [1, 2, 3, 4]) states.push((await house.state(event)).code);
  expect(states).toEqual(["opt-out", "suppressed", "opt-in", null]);
});

it("answers HELP and changes nothing", async () => {
  const house = await openTexts();
  await house.say(word("help", "Write to us at ..."));
  expect(await house.state()).toMatchObject({ state: "ignored", code: "help" });
  expect([house.texts, await suppressed(house)]).toEqual([[`${ann}: Write to us at ...`], null]);
  expect(house.platform.calls).toEqual([]);
});

it("says nothing where the provider does, and opens no conversation for it", async () => {
  const house = await openTexts();
  await house.say(word("stop"), word("start"), word("help"));
  expect(house.texts).toEqual([]);
  expect(await house.db.read((q) => q.all("SELECT id FROM conversations"))).toEqual([]);
});

it("dresses such words with nothing", async () => {
  const house = await openTexts({ delay: 3600 });
  await house.say(word("help", "Help."));
  expect(house.replies).toEqual([
    expect.objectContaining({ kind: "notice", text: "Help.", signature: null, introduction: null }),
  ]);
  expect(house.texts).toHaveLength(1);
  // It is no answer of the agent: the introduction is still to come.
  await house.says("hello");
  await house.passes(3_700_000, 1_000_000);
  expect(house.replies.at(-1)).toMatchObject({ kind: "answer", introduction: "Hello!", signature: "-- us" });
});

it("lets a reply die that waits for its delay, and does not wait behind it", async () => {
  const house = await openTexts({ delay: 60 });
  await house.says("hello");
  expect(await house.drafts()).toEqual(["queued"]);
  await house.say(word("stop", "Goodbye."));
  expect(house.texts).toEqual([`${ann}: Goodbye.`]);
  await house.passes(61_000);
  expect(house.texts).toEqual([`${ann}: Goodbye.`]);
  expect([...(await house.drafts())].sort()).toEqual(["dropped", "sent"]);
});

it("is applied regardless of allow, deny, caps and age", async () => {
  const cap = [{ max: 0, per: 60_000 }];
  const house = await openTexts({
    rules: {
      allow: ["+49*"],
      deny: [ann],
      max_age: 60_000,
      caps: { sender: [], conversation: cap, channel: cap },
    },
  });
  await house.say({ ...word("stop", "Bye."), sentAt: new Date(0), hops: 9 });
  expect(await house.state()).toMatchObject({ state: "ignored", code: "opt-out" });
  expect([house.texts, await suppressed(house)]).toEqual([[`${ann}: Bye.`], expect.any(String)]);
});

it("is applied while other messages wait at the channel's cap", async () => {
  const channel = [{ max: 1, per: 3_600_000 }];
  const house = await openTexts({ rules: { caps: { sender: [], conversation: [], channel } } });
  const from = (address: string) => ({ from: { address } });
  await house.say({ text: "one", ...from("+15550123") }, { text: "two", ...from("+15550122") }, word("stop"));
  expect(await suppressed(house)).not.toBeNull();
  expect((await house.state(2)).state).toBe("stored");
  await house.say(word("start"));
  expect(await suppressed(house)).toBeNull();
  expect((await house.state(2)).state).toBe("stored");
});

it("acts in order of arrival: STOP, then START in one commit", async () => {
  const house = await openTexts();
  await house.say(word("stop"), word("start"));
  expect(await suppressed(house)).toBeNull();
  await house.say(word("start"), word("stop"));
  expect(await suppressed(house)).not.toBeNull();
});

it("takes no notice of a copy", async () => {
  const house = await openTexts();
  const id = externalId("SM1");
  await house.say({ ...word("stop", "Bye."), id });
  await house.say(word("start"));
  await house.say({ ...word("stop", "Bye."), id });
  await house.say({ ...word("stop", "Bye."), id });
  expect([house.texts, await suppressed(house)]).toEqual([[`${ann}: Bye.`], null]);
});

it("answers once though the process dies right after the commit", async () => {
  const house = await openTexts();
  await house.scheduler.drain(0); // claims nothing any more
  await house.accepts("c", { ...mail({ text: "", from: { address: ann } }), ...word("stop", "Bye.") });
  expect(house.texts).toEqual([]);
  const next = await house.reborn();
  await next.settles();
  const last = await next.reborn();
  await last.settles();
  expect([next.texts, last.texts]).toEqual([[`${ann}: Bye.`], []]);
  expect(await suppressed(next)).not.toBeNull();
});

it("keeps the suppression to one of our numbers", async () => {
  const house = await openTexts({ channels: ["c", "d"] });
  await house.say(word("stop"));
  expect([await suppressed(house, "c"), await suppressed(house, "d")]).toEqual([expect.any(String), null]);
});

it("starts counting bounces anew after START", async () => {
  const refused = { kind: "refused", code: "30005", reason: "unknown", scope: "recipient" } as const;
  const house = await openTexts({ provider: (count) => (count === 1 || count === 2 ? refused : undefined) });
  await house.says("one");
  await house.say(word("start"));
  await house.says("two");
  expect(await suppressed(house)).toBeNull();
  await house.says("three");
  expect(house.texts).toEqual([`${ann}: answer to three`]);
});

it("suppresses at once when the provider says that the person opted out", async () => {
  const refused = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" } as const;
  const house = await openTexts({ provider: (count) => (count === 1 ? refused : undefined) });
  await house.says("one");
  expect(await suppressed(house)).toMatch(/opted out/);
  await house.says("two");
  expect(await house.drafts()).toEqual(["failed"]);
  expect(house.texts).toEqual([]);
});

it("does not answer another machine's keywords for ever", async () => {
  const house = await openTexts({
    rules: { caps: { sender: [{ max: 3, per: 3_600_000 }], conversation: [], channel: [] } },
  });
  for (let round = 0; round < 6; round++) await house.say(word("help", "Help."));
  expect(house.texts).toHaveLength(3);
  await house.say(word("stop", "Bye."));
  expect([house.texts.length, await suppressed(house)]).toEqual([3, expect.any(String)]);
});

it("cannot be released to the agent", async () => {
  const house = await openTexts();
  await house.say(word("stop"));
  await expect(house.releases(1)).rejects.toThrow(/which no agent answers/);
});

describe("a word that we hear of late", () => {
  const minute = 60_000;
  /** As the list of what was missed tells it: with the time at which it was said. */
  const missed = (house: Texts, consent: Consent["word"], ago: number, answer?: string) =>
    house.say({ ...word(consent, answer), sentAt: new Date(house.clock.now() - ago) });

  it("START does not lift a newer STOP", async () => {
    const house = await openTexts();
    await house.say(word("stop"));
    await house.passes(5 * minute);
    await missed(house, "start", 6 * minute, "Welcome back.");
    expect(await suppressed(house)).not.toBeNull();
    expect(await house.state(2)).toMatchObject({ state: "ignored", code: "opt-in" });
    expect(house.texts).toEqual([]);
    // What was said after it counts, though it is heard of late as well.
    await missed(house, "start", 3 * minute);
    expect(await suppressed(house)).toBeNull();
  });

  it("STOP does not override a newer START", async () => {
    const house = await openTexts();
    await house.say(word("start"));
    await house.passes(5 * minute);
    await missed(house, "stop", 10 * minute, "Goodbye.");
    expect([await suppressed(house), house.texts]).toEqual([null, []]);
    await missed(house, "stop", 3 * minute);
    expect(await suppressed(house)).not.toBeNull();
  });

  it("STOP counts where the two are too close to tell which was the last", async () => {
    const house = await openTexts();
    await house.say(word("start"));
    await house.passes(minute);
    await missed(house, "stop", minute + 10_000);
    expect(await suppressed(house)).not.toBeNull();
  });

  it("is compared with that person's own words alone", async () => {
    const house = await openTexts();
    await missed(house, "stop", 10 * minute);
    await house.say({ ...word("stop"), from: { address: "+15550122" } });
    await missed(house, "start", 9 * minute);
    expect(await suppressed(house)).toBeNull();
  });
});

it("lets a STOP that came while we were away count before a reply that was due", async () => {
  let away = true;
  const house = await openTexts({ line: (line) => ({ ...line, catchingUp: () => away }) });
  await house.says("hello");
  await house.settles();
  expect([await house.drafts(), house.texts]).toEqual([["queued"], []]);
  await house.say(word("stop"));
  away = false;
  await house.settles();
  expect([await house.drafts(), house.texts]).toEqual([["dropped"], []]);
});

describe("a suppressed person", () => {
  it("is not asked about: the message is kept with its reason, and the platform is not called", async () => {
    const house = await openTexts();
    await house.say(word("stop"));
    await house.says("Where is my order?");
    expect(house.platform.calls).toEqual([]);
    expect([house.texts, await house.drafts(), await house.turns()]).toEqual([[], [], []]);
    expect(await house.state(2)).toMatchObject({ state: "ignored", code: "suppressed" });
    const [reason] = await house.db.read((q) => q.all<{ reason: string }>("SELECT reason FROM events WHERE id = 2"));
    expect(reason?.reason).toBe("nothing may be sent to its sender: the person said STOP (event 1)");
    // Others are not concerned, and START lifts it.
    await house.says("hello", { from: { address: "+15550122" } });
    await house.say(word("start"));
    await house.says("and now?");
    expect(house.texts).toEqual(["+15550122: answer to hello", `${ann}: answer to and now?`]);
  });

  it("is not asked about either when STOP comes while the question waits", async () => {
    const house = await openTexts({ rules: { debounce: 3000 }, clock: testClock(true) });
    await house.says("Where is my order?");
    await house.say(word("stop"));
    await house.passes(10_000, 500);
    expect(house.platform.calls).toEqual([]);
    expect((await house.turns()).map(({ state }) => state)).toEqual(["dropped"]);
    expect(await house.state(1)).toMatchObject({ state: "ignored", code: "suppressed" });
    await house.say(word("start"));
    await house.says("and now?");
    await house.passes(10_000, 500);
    expect(house.texts).toEqual([`${ann}: answer to and now?`]);
  });

  it("is not asked about when the process dies before the question is put", async () => {
    const house = await openTexts();
    await house.scheduler.drain(0);
    const text = (over: object) => ({ ...mail({ text: "", from: { address: ann } }), ...over });
    await house.accepts("c", text({ text: "Where is my order?" }), text(word("stop")));
    const next = await house.reborn();
    await next.settles();
    expect([next.platform.calls, next.texts]).toEqual([[], []]);
  });

  it("gets no further words when the provider refuses ours in return to STOP, and no human is alarmed", async () => {
    const refused = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" } as const;
    const house = await openTexts({ provider: () => refused });
    await house.say(word("stop", "Bye."));
    expect(await house.drafts()).toEqual(["dropped"]);
  });
});

describe("a word that is also a business term", () => {
  const term = (consent: "stop" | "start") => ({
    text: "alta",
    consent: { word: consent, ambiguous: true, answer: "Confirmed." } as const,
  });

  it("means START only to somebody who is suppressed", async () => {
    const house = await openTexts();
    await house.say(term("start"));
    expect(house.texts).toEqual([`${ann}: answer to alta`]);
    await house.say(word("stop"));
    await house.say(term("start"));
    expect([house.texts.at(-1), await suppressed(house)]).toEqual([`${ann}: Confirmed.`, null]);
  });

  it("is held like other messages when it was found late and somebody has answered it, and means nothing else", async () => {
    const house = await openTexts();
    await house.say({ ...term("start"), handledBefore: { by: "other", reason: "answered" } });
    expect(await house.state()).toMatchObject({ state: "held", code: "answered-before-restore" });
    expect(house.texts).toEqual([]);
  });

  it("is confirmed when it means STOP", async () => {
    const house = await openTexts();
    await house.say(term("stop"));
    expect([house.texts, await suppressed(house)]).toEqual([[`${ann}: Confirmed.`], expect.any(String)]);
  });
});
