// A poll during a call: the answer to a question that the caller has superseded is not said later.

import { expect, it } from "vitest";
import { pollStage } from "../../../src/escalation/poll/stage.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { schedulePoll } from "../../../src/store/tables/conversations.ts";
import { policyOf } from "../../support/escalation/policy.ts";
import { callOf, openCallPipeline } from "../../support/pipeline/pipeline.ts";
import { type Asked, lineOf, listen } from "../../support/pipeline/stage.ts";

it("does not say the answer to a question that was cancelled before its response", async () => {
  const pipeline = await openCallPipeline({ timeout: 30_000 });
  const { db, clock, rate, client, platform } = pipeline;
  const base = lineOf({});
  const line = { ...base, channel: "c", client, traits: { ...base.traits, platform: "voice" as const } };
  const { log } = listen();
  const [lines, policy] = [() => new Map([["c", line]]), () => policyOf()];
  const stage = pollStage({ timing: standardTiming, policy, lines, db, rate, clock, log, node: "n" });
  const look = async () => {
    clock.forward(1000);
    await db.tx(async (q) => {
      const [{ id } = { id: "" }] = await q.all<{ id: string }>("SELECT id FROM conversations");
      await schedulePoll(q, { id, channel: "c" }, 0);
    });
    const [claimed] = (await db.tx((q) => stage.claim(q, "c", 1))).claimed;
    const transition = await claimed?.work(new AbortController().signal);
    await db.tx(async (q) => transition?.(q));
    return db.read((q) => q.all("SELECT text FROM replies WHERE turn IS NULL"));
  };
  const call = callOf(pipeline);
  await call.opens();
  await call.says("zero");
  await pipeline.settles();
  expect(await look()).toEqual([]);
  const held: Asked[] = [];
  platform.faults.ask = (asked) => void held.push(asked);
  await call.says("one");
  await pipeline.called("ask", 2);
  delete platform.faults.ask;
  await call.says("two");
  await pipeline.settles();
  // The platform has accepted it all the same.
  held[0]?.perform();
  expect(await look()).toEqual([]);
  expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to zero", "answer to two"]);
});
