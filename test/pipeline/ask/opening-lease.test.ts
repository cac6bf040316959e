// The first question of a conversation is asked under the lease that opened the platform's conversation.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it, onTestFinished } from "vitest";
import { type FailpointName, failpointNames } from "../../../src/ops/failpoints.ts";
import { attemptsOn } from "../../../src/store/operators/outbox.ts";
import { openPipeline, type TestPipeline } from "../../support/pipeline/pipeline.ts";

/** Calls `act` at each failpoint. */
function at(act: (name: FailpointName, phase: string) => void): void {
  for (const name of failpointNames) {
    const listener = (message: unknown) => act(name, (message as { phase: string }).phase);
    subscribe(`bridgehead:${name}`, listener);
    onTestFinished(() => void unsubscribe(`bridgehead:${name}`, listener));
  }
}

const attempts = async (pipeline: TestPipeline) => {
  const [turn] = await pipeline.turns();
  const rows = await pipeline.db.read((q) => attemptsOn(q, turn?.id ?? ""));
  return rows.map(({ number, outcome }) => `${number} ${outcome}`);
};
const boundTo = (pipeline: TestPipeline) =>
  pipeline.db.read((q) => q.one<{ platform_id: string | null }>("SELECT platform_id FROM conversations"));

it("stores the platform's conversation with the record of the question", async () => {
  const pipeline = await openPipeline();
  const names: string[] = [];
  at((name, phase) => phase === "before" && names.push(name));
  await pipeline.arrives({ text: "hello" });
  expect(names.filter((name) => /^(open|ask|answer)\./.test(name))).toEqual([
    "ask.record",
    "open.cross",
    "open.commit",
    "ask.record",
    "ask.cross",
    "answer.commit",
  ]);
  expect(await attempts(pipeline)).toEqual(["1 sent"]);
  expect(pipeline.sent).toEqual(["answer to hello"]);
});

it("stores the conversation alone when the turn changed while it was opened", async () => {
  const pipeline = await openPipeline();
  const changes: Promise<unknown>[] = [];
  at((name, phase) => {
    if (name !== "open.cross" || phase !== "after" || changes.length > 0) return;
    changes.push(pipeline.db.tx((q) => q.run("UPDATE turns SET question = 'hello, and one more thing'")));
  });
  await pipeline.arrives({ text: "hello" });
  await Promise.all(changes);
  expect(pipeline.sent).toEqual(["answer to hello, and one more thing"]);
  expect([pipeline.platform.count("start"), pipeline.platform.count("ask")]).toEqual([1, 1]);
  expect(await attempts(pipeline)).toEqual(["1 sent", "2 sent"]);
});

it("stores the conversation when the question was not sent, and asks later", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = (asked) => {
    delete pipeline.platform.faults.ask;
    asked.answer(429, { error: "busy" });
  };
  await pipeline.arrives({ text: "hello" });
  expect((await boundTo(pipeline))?.platform_id).not.toBeNull();
  expect((await pipeline.turns())[0]).toMatchObject({ state: "waiting" });
  await pipeline.passes(10_000, 1000);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});
