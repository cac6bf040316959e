// A receipt that is quicker than the answer to the send, and names the provider's id alone.

import { type DeliveryEvent, externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { openHouse } from "../support/pipeline/pipeline.ts";

const receipt = (id: string, state: DeliveryEvent["state"]): DeliveryEvent => ({
  kind: "delivery",
  id: externalId(`${id}/${state}`),
  about: { sent: [externalId(id)] },
  state,
});

it.each(["delivered", "failed"] as const)("%s: is not lost", async (state) => {
  const house = await openHouse({
    outbound: {
      async send(_draft, attempt) {
        await attempt.crossing();
        await house.accepts("c", receipt("m1", state));
        return { kind: "sent", id: externalId("m1") };
      },
    },
  });
  await house.arrives({ text: "hello" });
  await house.passes(10_000, 1000);
  expect(await house.drafts()).toEqual([state]);
  expect(await house.listed("ignored")).toEqual([]);
});

it("is about nothing we sent when the send says another id, or nothing is being sent", async () => {
  const house = await openHouse({
    outbound: {
      async send(_draft, attempt) {
        await attempt.crossing();
        await house.accepts("c", receipt("strange", "delivered"));
        return { kind: "sent", id: externalId("m1") };
      },
    },
  });
  await house.arrives({ text: "hello" });
  await house.passes(10_000, 1000);
  await house.accepts("c", receipt("stranger", "delivered"));
  await house.settles();
  expect(await house.drafts()).toEqual(["sent"]);
  expect(await house.listed("ignored")).toEqual(["unmatched", "unmatched"]);
});
