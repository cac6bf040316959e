// What an adapter returns from `send` and `capacity`, also one without types.

import { externalId, type Outbound, type SendOutcome } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { checkedOutcome, freeCapacity } from "../../../src/pipeline/send/stage.ts";

const sent = { kind: "sent", id: externalId("x") } as const;
const unknown: SendOutcome = { kind: "unknown", reason: "cut" };

describe("what an adapter returns", () => {
  it.each<SendOutcome>([
    sent,
    unknown,
    { kind: "refused", code: "no", reason: "" },
    { kind: "deferred", reason: "later", retryAfterMs: 1 },
  ])("is taken as it is when it is an outcome: %j", (outcome) => {
    expect(checkedOutcome(outcome, true)).toBe(outcome);
  });

  it.each([[undefined], [null], ["sent"], [{ kind: "sent" }], [{ kind: "ok", id: "x" }], [{ kind: "deferred" }]])(
    "counts as no outcome when it is %j, and names what it had",
    (given) => {
      const outcome = given as unknown as SendOutcome;
      expect(checkedOutcome(outcome, true)).toMatchObject({
        kind: "unknown",
        reason: expect.stringMatching(/no outcome/),
      });
      expect(checkedOutcome(outcome, false).kind).toBe("deferred");
    },
  );

  it.each<[object, object]>([
    [
      { kind: "deferred", reason: "busy", scope: "channel", cause: "quota", retryAfterMs: Number.NaN },
      {
        kind: "deferred",
        reason:
          "busy (send of the adapter returned retryAfterMs as NaN, expected a number of milliseconds that is finite and not negative)" +
          " (send of the adapter returned cause as string, expected one of unreachable, login, rate, set-up)",
        scope: "channel",
      },
    ],
    [
      { kind: "refused", code: "no", reason: "never", scope: "everyone" },
      {
        kind: "refused",
        code: "no",
        reason: expect.stringMatching(/^never \(.* scope as string, expected one of draft,/),
      },
    ],
    [
      { kind: "sent", id: "x", also: "<a@b>" },
      { kind: "sent", id: "x", detail: expect.stringMatching(/also as string, expected an array of strings$/) },
    ],
  ])("keeps its kind without a wrong field that can be spared: %j", (given, expected) => {
    expect(checkedOutcome(given as SendOutcome, true)).toEqual(expected);
  });

  it("is a capacity, or the reason why there is none", () => {
    const free = (capacity?: () => unknown) => freeCapacity({ ...(capacity && { capacity }) } as Outbound);
    expect([free(), free(() => 3), free(() => Number.POSITIVE_INFINITY)]).toEqual([Infinity, 3, Infinity]);
    expect([free(() => Number.NaN), free(() => "3")].map(String)).toEqual([
      "Error: capacity returned NaN",
      "Error: capacity returned 3",
    ]);
    expect(String(free(() => expect.fail("no pool")))).toContain("no pool");
  });
});
