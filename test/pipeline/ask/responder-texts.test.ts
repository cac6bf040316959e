// A responder's text for a platform that fails: it holds the lane of the conversation for a limited time only.

import { expect, it } from "vitest";
import { escalationsIn, raising } from "../../support/escalation/policy.ts";
import { openPipeline } from "../../support/pipeline/pipeline.ts";
import { refusing } from "../../support/pipeline/stage.ts";
import { relayedTurn } from "../../support/store/databases.ts";

it("a text of unknown outcome does not block the customer when the platform has lost the conversation", async () => {
  const pipeline = await openPipeline({ absentAfter: 10_000 });
  await pipeline.arrives({ text: "hello" });
  await pipeline.db.tx(async (q) => {
    await relayedTurn(q, "words", pipeline.clock.now());
    await q.run("UPDATE turns SET state = 'asking' WHERE id = 'words'");
    await q.run("UPDATE turns SET state = 'unknown', attempts = 1, tried_at = now_ms() WHERE id = 'words'");
    await q.run(
      `INSERT INTO attempts (subject, number, kind, node, token, started_at, ended_at, outcome)
       VALUES ('words', 1, 'ask', 'n', 1, now_ms(), now_ms(), 'unknown')`,
    );
  });
  pipeline.platform.messages.clear();
  await pipeline.passes(120_000, 5000);
  expect(pipeline.platform.count("start")).toBe(2);
  const words = (await pipeline.turns()).find(({ id }) => id === "words");
  expect(words?.state).not.toBe("unknown");
});

it("a text that the platform refuses leaves the customer to the humans, who are notified of the next message", async () => {
  const pipeline = await openPipeline({ line: raising({ causes: ["silent"] }) });
  await pipeline.arrives({ text: "hello" });
  pipeline.platform.faults.say = refusing(400);
  await pipeline.db.tx((q) => relayedTurn(q, "words", pipeline.clock.now()));
  await pipeline.settles();
  const states = async () => (await pipeline.turns()).map(({ state }) => state);
  expect(await states()).toEqual(["answered", "failed"]);
  // Manual mode was set before the text, and stays: no agent answers.
  expect(pipeline.platform.count("mode")).toBe(1);
  pipeline.platform.faults.ask = (asked) => {
    const stored = asked.perform() as { conversationMessageId: string };
    asked.answer(200, { ...stored, id: stored.conversationMessageId, senderRole: "conversation_user" });
  };
  await pipeline.arrives({ text: "are you there?", thread: { answers: [], tokens: [] } });
  expect((await states()).at(-1)).toBe("silent");
  expect(await escalationsIn(pipeline.db)).toMatchObject([{ state: "open", cause: "silent" }]);
});
