// A responder's text for a platform that fails: it holds the lane of the conversation for a limited time only.

import { expect, it } from "vitest";
import { openPipeline } from "../../support/pipeline/pipeline.ts";
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
