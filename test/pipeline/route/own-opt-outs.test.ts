// Opt-outs of single addresses of ours: where a channel has several, STOP to one of them concerns that one only.

import type { MessageEvent, SendOutcome } from "bridgehead/contract";
import { expect, it } from "vitest";
import { optOut } from "../../../src/store/operators/opt-outs.ts";
import {
  hideSuppressions,
  noteDefaultAddress,
  suppression,
  suppressionsOf,
} from "../../../src/store/tables/suppressions.ts";
import { ann, openTexts, type TextOptions, type Texts, testClock } from "../../support/pipeline/pipeline.ts";
import { receipt } from "../../support/pipeline/stage.ts";

const first = "+15550100";
const second = "+15550200";
const minute = 60_000;

const openNumbers = (options: TextOptions = {}): Promise<Texts> => openTexts({ ownAddress: first, ...options });

/** A text to one of our numbers. */
const to = (number: string, text: string): Partial<MessageEvent> => ({
  text,
  to: [{ address: number }],
  ...(number === first ? {} : { via: number }),
});
const keyword = (number: string, word: "stop" | "start", answer?: string): Partial<MessageEvent> => ({
  ...to(number, word.toUpperCase()),
  consent: { word, ...(answer === undefined ? {} : { answer }) },
});
/** Whether nothing is sent from the first number, and from the second one. */
const closed = async (pipeline: Texts) =>
  pipeline.db.read(async (q) => [
    (await suppression(q, "c", ann)) !== null,
    (await suppression(q, "c", ann, second)) !== null,
  ]);

it("suppresses texts from the number that STOP was sent to, until START is sent to the same one", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(keyword(first, "stop", "Bye."));
  await pipeline.say(to(first, "one"), to(second, "two"));
  await pipeline.say(keyword(second, "start", "Welcome."));
  await pipeline.say(to(first, "three"), to(second, "four"));
  expect(await closed(pipeline)).toEqual([true, false]);
  await pipeline.say(keyword(first, "start"));
  await pipeline.say(to(first, "five"));
  expect(pipeline.texts).toEqual(
    ["Bye.", "answer to two", "Welcome.", "answer to four", "answer to five"].map((text) => `${ann}: ${text}`),
  );
  await pipeline.say(keyword(second, "stop"));
  expect(await closed(pipeline)).toEqual([false, true]);
});

it("drops the reply of that number alone that waits for its delay", async () => {
  const pipeline = await openNumbers({ delay: 60, clock: testClock(true) });
  await pipeline.say(to(first, "one"), to(second, "two"));
  await pipeline.say(keyword(second, "stop"));
  await pipeline.passes(61_000, 1000);
  expect(pipeline.texts).toEqual([`${ann}: answer to one`]);
});

it("drops the question of that number alone that was not asked yet", async () => {
  const pipeline = await openNumbers({ rules: { debounce: 3000 }, clock: testClock(true) });
  await pipeline.say(to(first, "one"), to(second, "two"));
  await pipeline.say(keyword(first, "stop"));
  await pipeline.passes(10_000, 500);
  expect(pipeline.texts).toEqual([`${ann}: answer to two`]);
});

const refused: SendOutcome = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" };

it.each([
  ["in its response", first, [true, false]],
  ["in its response", second, [false, true]],
])("concerns the number that the provider refuses %s: %s", async (_, number, expected) => {
  const pipeline = await openNumbers({ provider: (count) => (count === 1 ? refused : undefined) });
  await pipeline.say(to(number, "one"));
  expect([pipeline.texts, await closed(pipeline)]).toEqual([[], expected]);
});

it("concerns the number of the text that a delivery receipt is about", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(to(second, "one"));
  const [draft] = await pipeline.db.read((q) => q.all<{ external_id: string }>("SELECT external_id FROM drafts"));
  const sent = [draft?.external_id ?? ""] as never;
  await pipeline.accepts("c", receipt({ about: { sent }, state: "failed", code: "opted-out", permanent: true }));
  await pipeline.settles();
  expect(await closed(pipeline)).toEqual([false, true]);
});

it("concerns all numbers when an operator opts the person out, and START lifts that but no STOP to another one", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(keyword(first, "stop"));
  await pipeline.db.tx((q) => optOut(q, { channel: "c", addresses: [ann] }, { actor: "dora" }));
  expect(await closed(pipeline)).toEqual([true, true]);
  await pipeline.say(keyword(second, "start"));
  expect(await closed(pipeline)).toEqual([true, false]);
});

it("compares a keyword that was found late with those to the same number", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(keyword(second, "start"));
  await pipeline.passes(5 * minute);
  const late = (number: string, ago: number) =>
    pipeline.say({ ...keyword(number, "stop"), sentAt: new Date(pipeline.clock.now() - ago) });
  await late(second, 10 * minute);
  await late(first, 10 * minute);
  expect(await closed(pipeline)).toEqual([true, false]);
});

it("stays with its number after an erasure", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(keyword(second, "stop"));
  await pipeline.db.tx((q) => hideSuppressions(q, [ann]));
  await pipeline.say(to(first, "one"), to(second, "two"));
  expect(pipeline.texts).toEqual([`${ann}: answer to one`]);
  const restored = await pipeline.db.read((q) => suppressionsOf(q, "c", ann));
  expect(restored).toMatchObject([{ stored: ann, own_address: second, source: "stop" }]);
});

it("stays with its number when another one becomes the channel's default", async () => {
  const pipeline = await openNumbers();
  await pipeline.say(keyword(first, "stop"));
  await pipeline.db.tx((q) => noteDefaultAddress(q, "c", second));
  const reasons = (via: string | null) => pipeline.db.read((q) => suppression(q, "c", ann, via));
  expect([await reasons(null), await reasons(first)]).toEqual([null, "the person said STOP (event 1)"]);
  // Where opt-outs concern the whole channel, such as one with a messaging service, every one counts.
  await pipeline.db.tx((q) => noteDefaultAddress(q, "c", null));
  expect(await reasons(second)).not.toBeNull();
});

it("concerns the whole channel where the adapter names no default address", async () => {
  const pipeline = await openTexts();
  await pipeline.say(keyword(second, "stop"));
  await pipeline.say(to(first, "one"), to(second, "two"));
  expect([pipeline.texts, await closed(pipeline)]).toEqual([[], [true, true]]);
  await pipeline.say(keyword(first, "start"));
  expect(await closed(pipeline)).toEqual([false, false]);
});
