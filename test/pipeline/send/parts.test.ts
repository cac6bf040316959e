// A reply in several texts: the next one only after the former was taken.

import { type DeliveryEvent, externalId, type SendOutcome, sendKey } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { dropDraft, resendDraft } from "../../../src/store/operators/outbox.ts";
import { ann, openTexts, type Texts } from "../../support/pipeline/pipeline.ts";

const no: SendOutcome = { kind: "refused", code: "30007", reason: "filtered" };
const nobodyKnows: SendOutcome = { kind: "unknown", reason: "no answer" };
const later: SendOutcome = { kind: "deferred", reason: "too much at once" };
const all = [`${ann}: answer to one`, `${ann}: two`, `${ann}: three`];
const receiptOf = (key = "", state: DeliveryEvent["state"]): DeliveryEvent => ({
  kind: "delivery",
  id: externalId(`receipt-${key}`),
  about: { key: sendKey(key) },
  state,
});

/** Asks a question whose answer has three parts. */
const says = (pipeline: Texts) => pipeline.says("one|two|three");
const ids = (pipeline: Texts) =>
  pipeline.db.read(async (q) =>
    (await q.all<{ id: string }>("SELECT id FROM drafts ORDER BY seq")).map(({ id }) => id),
  );

it("goes no further than the part that was refused, and on with the next reply", async () => {
  const pipeline = await openTexts({ provider: (count) => (count === 2 ? no : undefined) });
  await says(pipeline);
  expect(pipeline.texts).toEqual([`${ann}: answer to one`]);
  expect(await pipeline.drafts()).toEqual(["sent", "failed", "dropped"]);
  await pipeline.says("next");
  expect(pipeline.texts).toEqual([`${ann}: answer to one`, `${ann}: answer to next`]);
});

it("is sent completely when an operator sends the refused part again", async () => {
  const pipeline = await openTexts({ provider: (count) => (count === 2 ? no : undefined) });
  await says(pipeline);
  await pipeline.db.tx(async (q) => resendDraft(q, (await ids(pipeline))[1] ?? ""));
  await pipeline.settles();
  expect(pipeline.texts).toEqual(all);
});

it("is sent completely when an operator has dropped it, and changes their mind", async () => {
  const pipeline = await openTexts({ delay: 60 });
  await says(pipeline);
  const [first = "", , third = ""] = await ids(pipeline);
  await pipeline.db.tx((q) => dropDraft(q, third, "op", "too long"));
  await pipeline.db.tx((q) => dropDraft(q, first, "op", "later"));
  expect(await pipeline.drafts()).toEqual(["dropped", "dropped", "dropped"]);
  await pipeline.db.tx((q) => resendDraft(q, first));
  await pipeline.settles();
  expect(pipeline.texts, "what was dropped for another reason stays").toEqual(all.slice(0, 2));
});

it("continues when a deferred part is accepted", async () => {
  const pipeline = await openTexts({ provider: (count) => (count === 1 ? later : undefined) });
  await says(pipeline);
  expect(pipeline.texts).toEqual([]);
  await pipeline.passes(60_000);
  expect(pipeline.texts).toEqual(all);
});

describe("a part of unknown outcome", () => {
  const lost = async () => {
    const pipeline = await openTexts({
      rules: { on_new_message: "drop" },
      provider: (count) => (count === 1 ? nobodyKnows : undefined),
    });
    await says(pipeline);
    await pipeline.passes(120_000, 10_000);
    expect(await pipeline.drafts()).toEqual(["held", "held", "held"]);
    // The conversation does not wait.
    await pipeline.says("next");
    expect(pipeline.texts.splice(0)).toEqual([`${ann}: answer to next`]);
    return pipeline;
  };

  it("is sent by the operator, and the others follow, after any message from the person", async () => {
    const pipeline = await lost();
    await pipeline.db.tx(async (q) => resendDraft(q, (await ids(pipeline))[0] ?? ""));
    await pipeline.settles();
    expect(pipeline.texts).toEqual(all);
    expect(await pipeline.drafts()).toEqual(["sent", "sent", "sent", "sent"]);
  });

  it("is followed by the others when a late receipt says that it went out", async () => {
    const pipeline = await lost();
    await pipeline.accepts("c", receiptOf((await ids(pipeline))[0], "delivered"));
    await pipeline.settles();
    expect(pipeline.texts).toEqual(all.slice(1));
  });

  it("ends the others when a late receipt says that it did not", async () => {
    const pipeline = await lost();
    await pipeline.accepts("c", receiptOf((await ids(pipeline))[0], "failed"));
    await pipeline.settles();
    expect(await pipeline.drafts()).toEqual(["failed", "dropped", "dropped", "sent"]);
  });
});

it.each([
  ["that may have been sent", 120_000],
  ["that is looked up", 10],
])("drops the others with a first part %s, also one that blocks its conversation", async (_what, ms) => {
  const pipeline = await openTexts({
    rules: { on_permanent_failure: "block" },
    provider: (count) => (count === 1 ? nobodyKnows : undefined),
  });
  await says(pipeline);
  await pipeline.passes(ms, Math.min(ms, 10_000));
  expect(await pipeline.drafts()).toEqual([ms === 10 ? "unknown" : "held", "queued", "queued"]);
  await pipeline.db.tx(async (q) => dropDraft(q, (await ids(pipeline))[0] ?? ""));
  await pipeline.settles();
  expect(pipeline.texts).toEqual([]);
  expect(await pipeline.drafts()).toEqual(["dropped", "dropped", "dropped"]);
});

it("leaves the parts behind one that blocks its conversation where they are", async () => {
  const pipeline = await openTexts({
    rules: { on_permanent_failure: "block" },
    provider: (count) => (count === 1 ? no : undefined),
  });
  await says(pipeline);
  expect(await pipeline.drafts()).toEqual(["failed", "queued", "queued"]);
  await pipeline.db.tx(async (q) => dropDraft(q, (await ids(pipeline))[0] ?? ""));
  await pipeline.settles();
  expect(pipeline.texts).toEqual(all.slice(1));
});
