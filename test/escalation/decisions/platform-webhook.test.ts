// Decisions about webhooks of the platform, on rows without a database.

import { describe, expect, it } from "vitest";
import {
  type BoundConversation,
  planDeliveries,
  type StoredDelivery,
} from "../../../src/escalation/platform-webhook/decide.ts";
import { standardTiming } from "../../../src/ops/timing.ts";

describe("a platform webhook", () => {
  const hour = 3_600_000;
  const delivery = (over: Partial<StoredDelivery["row"]> = {}, conversation: string | null = "p"): StoredDelivery => ({
    row: { agent: "a", id: "w", kind: "escalation", body: "", attempts: 0, received_at: 5, age: 0, ...over },
    payload: { conversation, topic: "refund", reason: null, message: null, person: null },
  });
  const bound = new Map<string, BoundConversation>([["p", { id: "k", channel: "c", agent: "a" }]]);
  const plan = (one: StoredDelivery, isTopic = true) =>
    planDeliveries([one], bound, isTopic, new Map(), standardTiming.platformWebhook);

  it.each([
    ["escalates a known conversation and polls it", delivery(), true, ["webhook:a:w"], 1, ["done"], 0],
    ["polls for a message", delivery({ kind: "message" }), true, [], 1, ["done"], 0],
    ["polls when the policy has no such escalations", delivery(), false, [], 1, ["done"], 0],
    ["waits for an unknown conversation", delivery({}, "x"), true, [], 0, [], 1],
    ["escalates about the agent after the wait", delivery({ age: hour }, "x"), true, ["webhook:a:w"], 0, ["lost"], 0],
    [
      "ignores a message of a stranger after the wait",
      delivery({ age: hour, kind: "message" }, "x"),
      true,
      [],
      0,
      ["done"],
      0,
    ],
    ["is lost when the policy has no such escalations", delivery({}, null), false, [], 0, ["lost"], 0],
    ["escalates at once when it names no conversation", delivery({}, null), true, ["webhook:a:w"], 0, ["lost"], 0],
    [
      "counts again when only its hash identifies it",
      delivery({ id: "sha256:0" }),
      true,
      ["webhook:a:sha256:0:5"],
      1,
      ["done"],
      0,
    ],
  ] as const)("%s", (_what, one, isTopic, keys, polls, ended, postponed) => {
    const found = plan(one, isTopic);
    expect(found.triggers.map(({ key }) => key)).toEqual(keys);
    expect(found.ended.map(({ state }) => state)).toEqual(ended);
    expect([found.polls.length, found.postponed.length]).toEqual([polls, postponed]);
  });

  it("polls a conversation once for several deliveries", () => {
    const all = [delivery(), delivery({ id: "w2" })];
    const found = planDeliveries(all, bound, true, new Map(), standardTiming.platformWebhook);
    expect([found.polls.length, found.triggers.length, found.ended.length]).toEqual([1, 2, 2]);
  });

  it("is retried with backoff", () => {
    const { retry, retryLongest } = standardTiming.platformWebhook;
    const ms = (attempts: number) => plan(delivery({ attempts }, "x")).postponed[0]?.ms;
    expect([ms(0), ms(2), ms(30)]).toEqual([retry, 4 * retry, retryLongest]);
  });
});
