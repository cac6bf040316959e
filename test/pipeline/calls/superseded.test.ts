// The caller says something before the answer to what came earlier is there: never two questions at once, never the same
// one twice, never a late answer.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it, onTestFinished } from "vitest";
import { callOf, openCallPipeline, openedCall, restart } from "../../support/pipeline/pipeline.ts";
import { type Asked, cutting } from "../../support/pipeline/stage.ts";

const minute = 60_000;

/** Holds what is asked until a test answers it. */
function holding(): { held: Asked[]; fault: (asked: Asked) => void } {
  const held: Asked[] = [];
  return { held, fault: (asked) => void held.push(asked) };
}

/** How many questions were under way at once, as this side sees it. */
function crossings(): { most(): number; count(): number } {
  const running = new Set<unknown>();
  let [most, count] = [0, 0];
  const hear = (message: unknown) => {
    const { phase, turn } = message as { phase: string; turn: string };
    if (phase === "after") return void running.delete(turn);
    count += 1;
    most = Math.max(most, running.add(turn).size);
  };
  subscribe("bridgehead:ask.cross", hear);
  onTestFinished(() => void unsubscribe("bridgehead:ask.cross", hear));
  return { most: () => most, count: () => count };
}

/** A call whose questions are held. */
async function heldCall(options: Parameters<typeof openCallPipeline>[0] = {}) {
  const { pipeline, call } = await openedCall({ timeout: 30_000, ...options });
  const { held, fault } = holding();
  pipeline.platform.faults.ask = fault;
  return { pipeline, call, held, fault };
}

const texts = (pipeline: { said: readonly { text: string }[] }) => pipeline.said.map(({ text }) => text);

it("asks the newer question at once, and drops the one that is being asked", async () => {
  const { pipeline, call, held } = await heldCall();
  await call.says("one");
  await pipeline.called("ask", 1);
  delete pipeline.platform.faults.ask;
  const second = await call.says("two");
  // The first request never ends without a cancellation.
  await pipeline.settles();
  expect([pipeline.asked(), texts(pipeline)]).toEqual([["one", "two"], ["answer to two"]]);
  expect(pipeline.said[0]?.answers).toBe(second);
  held[0]?.answer(200, held[0].perform());
  await pipeline.passes(minute, 5000);
  expect([texts(pipeline), pipeline.platform.count("look")]).toEqual([["answer to two"], 0]);
  expect((await pipeline.state()).turns).toEqual(["answered", "dropped", "answered"]);
});

it("never says a late answer, and asks the newer question when the older one has ended", async () => {
  const { pipeline, call, held } = await heldCall({ deaf: true });
  await call.says("one");
  await pipeline.called("ask", 1);
  await call.says("two");
  await pipeline.scheduler.sweep();
  expect(pipeline.asked()).toEqual(["one"]);
  held[0]?.answer(200, held[0].perform());
  await pipeline.called("ask", 2);
  delete pipeline.platform.faults.ask;
  held[1]?.answer(200, held[1].perform());
  await pipeline.settles();
  expect([texts(pipeline), await pipeline.drafts()]).toEqual([["answer to two"], ["sent"]]);
  const known = await pipeline.db.read((q) => q.all("SELECT state, question_id FROM turns WHERE state = 'dropped'"));
  expect(known).toEqual([{ state: "dropped", question_id: expect.stringMatching(/^q/) }]);
});

it("sends the older text together with the newer one when the platform did not accept it", async () => {
  const { pipeline, call, held } = await heldCall({ deaf: true });
  await call.says("my order is 12345");
  await pipeline.called("ask", 1);
  const last = await call.says("where is it");
  delete pipeline.platform.faults.ask;
  held[0]?.answer(429, { status: 429, name: "LIMITED", message: "slowly" });
  await pipeline.settles();
  await pipeline.passes(minute, 5000);
  expect(pipeline.asked()).toEqual(["my order is 12345", "my order is 12345\nwhere is it"]);
  expect(pipeline.said).toMatchObject([{ answers: last }]);
  const turns = await pipeline.db.read((q) => q.all("SELECT DISTINCT turn FROM events WHERE kind = 'message'"));
  expect(turns).toHaveLength(1);
});

it("joins messages that were not sent to the platform yet", async () => {
  let status: "active" | "inactive" = "active";
  const { pipeline, call } = await openedCall({ status: () => status });
  status = "inactive";
  await call.says("I would like");
  await call.says("to book");
  const last = await call.says("a table");
  expect((await call.facts())?.pending).toBe(last);
  status = "active";
  await pipeline.settles();
  expect([pipeline.asked(), pipeline.said.length]).toEqual([["I would like\nto book\na table"], 1]);
  expect(pipeline.said[0]?.answers).toBe(last);
  expect((await pipeline.state()).turns).toEqual(["answered", "dropped", "dropped", "answered"]);
  const turns = await pipeline.db.read((q) => q.all("SELECT DISTINCT turn FROM events WHERE kind = 'message'"));
  expect(turns).toHaveLength(1);
});

it("keeps speech that arrives while the conversation is being opened", async () => {
  const pipeline = await openCallPipeline();
  const call = callOf(pipeline);
  const { held, fault } = holding();
  pipeline.platform.faults.start = fault;
  await call.tells("opened");
  await pipeline.called("start", 1);
  await call.says("one");
  await call.says("two");
  held[0]?.answer(200, held[0].perform());
  await pipeline.settles();
  expect([pipeline.platform.count("start"), pipeline.asked(), texts(pipeline)]).toEqual([
    1,
    ["one\ntwo"],
    ["answer to one\ntwo"],
  ]);
});

it("opens once when a question that opens is superseded, and loses no text", async () => {
  let status: "active" | "inactive" = "inactive";
  const { pipeline, call } = await openedCall({ status: () => status });
  expect(pipeline.platform.calls).toEqual([]);
  status = "active";
  const { held, fault } = holding();
  pipeline.platform.faults.start = fault;
  await call.says("one");
  await pipeline.called("start", 1);
  await call.says("two");
  held[0]?.answer(200, held[0].perform());
  await pipeline.settles();
  expect([pipeline.platform.count("start"), pipeline.asked()]).toEqual([1, ["one\ntwo"]]);
  expect((await pipeline.state()).turns).toEqual(["answered", "answered"]);
});

it("looks for the conversation of an uncertain opening, also when its text was sent", async () => {
  let status: "active" | "inactive" = "inactive";
  const { pipeline, call } = await openedCall({ status: () => status });
  status = "active";
  pipeline.platform.faults.start = cutting("after");
  await call.says("one");
  await pipeline.settles();
  await call.says("two");
  await pipeline.passes(20_000, 500);
  expect([pipeline.platform.count("start"), pipeline.asked()]).toEqual([1, ["one\ntwo"]]);
});

it("never looks up a superseded question of unknown outcome", async () => {
  const { pipeline, call } = await openedCall();
  pipeline.platform.faults.ask = cutting("after");
  await call.says("one");
  await pipeline.settles();
  expect((await pipeline.state()).turns).toEqual(["answered", "unknown"]);
  delete pipeline.platform.faults.ask;
  await call.says("two");
  await pipeline.passes(minute, 1000);
  expect([pipeline.asked(), pipeline.platform.count("look"), texts(pipeline)]).toEqual([
    ["one", "two"],
    0,
    ["answer to two"],
  ]);
});

it("still answers after a restart what was being asked, when the call comes back", async () => {
  const { pipeline: first, call, held } = await heldCall();
  await call.says("one");
  await first.called("ask", 1);
  held[0]?.perform();
  delete first.platform.faults.ask;
  await restart(first);
  const { db, platform, clock } = first;
  const pipeline = await openCallPipeline({ db, platform, clock, node: "m" });
  await pipeline.passes(10_000, 500);
  expect([pipeline.asked(), (await pipeline.state()).drafts, pipeline.said]).toEqual([["one"], ["queued"], []]);
  const again = callOf(pipeline);
  expect(await again.facts()).toMatchObject({ state: "lost", pending: expect.stringMatching(/^mail/) });
  await again.tells("opened");
  await pipeline.passes(1000, 500);
  expect([texts(pipeline), first.said]).toEqual([["answer to one"], []]);
  expect(await again.facts()).toMatchObject({ state: "open", node: "m", openings: 2, pending: null });
});

it("drops an interrupted question after a restart when a newer utterance exists", async () => {
  const { pipeline: first, call, held } = await heldCall();
  await call.says("one");
  await first.called("ask", 1);
  await restart(first);
  delete first.platform.faults.ask;
  const { db, platform, clock } = first;
  const pipeline = await openCallPipeline({ db, platform, clock, node: "m" });
  const again = callOf(pipeline);
  await again.tells("opened");
  await again.says("two");
  await pipeline.settles();
  held[0]?.answer(200, held[0].perform());
  await pipeline.passes(minute, 5000);
  expect([pipeline.asked(), texts(pipeline), first.said]).toEqual([["one", "two"], ["answer to two"], []]);
});

it("asks each question once and never two at a time, however the caller talks", async () => {
  const crossing = crossings();
  const { pipeline, call, held } = await heldCall();
  const reached = (words: string) => pipeline.asked().some((question) => question.endsWith(words));
  for (let i = 1; i <= 12; i++) {
    await call.says(`w${i}`);
    // Some questions reach the platform before the next message arrives, some do not.
    if (i % 3 === 0) await expect.poll(() => reached(`w${i}`), { interval: 1 }).toBe(true);
  }
  const last = held.at(-1);
  last?.answer(200, last.perform());
  await pipeline.settles();
  expect(texts(pipeline)).toHaveLength(1);
  expect([crossing.most(), crossing.count() >= 4]).toEqual([1, true]);
  const words = pipeline.asked().flatMap((question) => question.split("\n"));
  expect(new Set(words).size).toBe(words.length);
  expect(words).toContain("w12");
});
