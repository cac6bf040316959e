// What a restored store holds of replies that its lost state may have sent.

import { externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { enqueueRelay } from "../../src/escalation/actions.ts";
import { readCustomers } from "../../src/escalation/reply/rows.ts";
import { repair } from "../../src/store/operators/repair.ts";
import { answeredBefore, holdOpenWork } from "../../src/store/restored.ts";
import { insertNotices } from "../../src/store/tables/drafts.ts";
import { ann, openTexts, type Texts } from "../support/pipeline/pipeline.ts";
import { listen } from "../support/pipeline/stage.ts";

/** A provider that is down, and the store of a conversation with one answer that was sent. */
async function answered(): Promise<{ pipeline: Texts; conversation: string; recover: () => Promise<void> }> {
  let isDown = false;
  const pipeline = await openTexts({
    provider: () => (isDown ? { kind: "deferred", reason: "down", scope: "channel" } : undefined),
  });
  await pipeline.says("hello");
  isDown = true;
  const { conversation } = await pipeline.state();
  return {
    pipeline,
    conversation: conversation ?? "",
    async recover() {
      isDown = false;
      await pipeline.passes(3_600_000);
    },
  };
}

const codes = (pipeline: Texts) =>
  pipeline.db.read((q) => q.all("SELECT code, body FROM drafts WHERE state = 'held' ORDER BY id"));

it("holds the confirmation of a STOP that was not sent", async () => {
  const { pipeline, recover } = await answered();
  const consent = { word: "stop", answer: "Confirmed." } as const;
  await pipeline.say({ id: externalId("stop"), text: "STOP", consent });
  expect(await pipeline.drafts()).toEqual(["sent", "queued"]);
  await pipeline.db.tx((q) => holdOpenWork(q, null));
  await recover();
  expect(pipeline.texts).toEqual([`${ann}: answer to hello`]);
  expect(await codes(pipeline)).toMatchObject([{ code: answeredBefore }]);
});

it("holds a responder's text that was not composed, and sends it when an operator releases it", async () => {
  const { pipeline, conversation, recover } = await answered();
  await pipeline.db.tx(async (q) => {
    const customer = (await readCustomers(q, [conversation])).get(conversation);
    if (customer === undefined) throw new Error("there is no customer");
    await enqueueRelay(q, customer, { text: "On its way.", inCall: false }, { ...pipeline, log: listen().log });
  });
  await pipeline.db.tx((q) => holdOpenWork(q, null));
  await recover();
  expect(pipeline.texts).toEqual([`${ann}: answer to hello`]);
  expect(await codes(pipeline)).toMatchObject([{ code: answeredBefore }]);
  const store = {
    db: pipeline.db,
    commit: <T>(write: Parameters<typeof pipeline.scheduler.commit<T>>[0]) => pipeline.scheduler.commit(write),
  };
  await repair(store, "outbox", "release", { code: answeredBefore }, { actor: "op" });
  await pipeline.settles();
  expect(pipeline.texts.at(-1)).toBe(`${ann}: On its way.`);
});

it("sends the notifications of responders", async () => {
  const { pipeline, conversation, recover } = await answered();
  await pipeline.scheduler.commit((q) =>
    insertNotices(q, [
      {
        id: "n",
        channel: "c",
        conversation,
        address: {
          to: [{ address: "dora" }],
          cc: [],
          subject: null,
          answers: null,
          history: [],
          hops: 0,
          session: null,
        },
        text: "A customer needs you.",
        forced: false,
        internal: true,
      },
    ]),
  );
  await pipeline.db.tx((q) => holdOpenWork(q, null));
  await recover();
  expect(pipeline.texts.at(-1)).toBe("dora: A customer needs you.");
});
