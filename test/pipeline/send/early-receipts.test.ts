// A receipt that is quicker than the answer to the send, and names the provider's id alone.

import { type DeliveryEvent, externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { openPipeline } from "../../support/pipeline/pipeline.ts";

const receipt = (id: string, state: DeliveryEvent["state"]): DeliveryEvent => ({
  kind: "delivery",
  id: externalId(`${id}/${state}`),
  about: { sent: [externalId(id)] },
  state,
});

it.each(["delivered", "failed"] as const)("%s: is not lost", async (state) => {
  const pipeline = await openPipeline({
    outbound: {
      async send(_draft, attempt) {
        await attempt.crossing();
        await pipeline.accepts("c", receipt("m1", state));
        return { kind: "sent", id: externalId("m1") };
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(10_000, 1000);
  expect(await pipeline.drafts()).toEqual([state]);
  expect(await pipeline.listed("ignored")).toEqual([]);
});

it("is about nothing we sent when the send says another id, or nothing is being sent", async () => {
  const pipeline = await openPipeline({
    outbound: {
      async send(_draft, attempt) {
        await attempt.crossing();
        await pipeline.accepts("c", receipt("strange", "delivered"));
        return { kind: "sent", id: externalId("m1") };
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(10_000, 1000);
  await pipeline.accepts("c", receipt("stranger", "delivered"));
  await pipeline.settles();
  expect(await pipeline.drafts()).toEqual(["sent"]);
  expect(await pipeline.listed("ignored")).toEqual(["unmatched", "unmatched"]);
});
