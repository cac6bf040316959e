// A check that fails while a send runs: its peer never shows the message, and the send continues.

import { externalId } from "bridgehead/contract";
import { checks } from "bridgehead/contract/testing";
import { expect, it } from "vitest";
import { altered, required } from "../support/contract/flaws.ts";
import line from "./line-adapter.ts";
import { lineHarness } from "./line-peer.ts";

it("ends a send with its check, also when the check fails first, and handles its rejection", async () => {
  let settled = false;
  const outlasting = altered(line, ({ outbound }) => ({
    outbound: {
      ...required(outbound),
      send: async (_draft, attempt) => {
        await new Promise((aborted) => attempt.signal.addEventListener("abort", aborted));
        settled = true;
        // Not an outcome: the send rejects.
        return { kind: "sent", id: externalId("") };
      },
    },
  }));
  const silent = checks.find(({ name }) => name.startsWith("send: unknown when the peer is silent"));
  const harness = { ...lineHarness, patienceMs: 50 };
  await expect(silent?.run({ definition: outlasting, harness })).rejects.toThrow("waited 50 ms in vain");
  expect(settled).toBe(true);
});
