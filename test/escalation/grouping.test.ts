// The window of `group`: what an address was last notified of delays its next notification, over whichever channel it goes.

import { expect, it } from "vitest";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { clock, listen } from "../support/pipeline/stage.ts";
import { policyOf, responder, runtimeOf } from "../support/rows.ts";
import { conversation, fresh, onEachDatabase, opens } from "../support/store/databases.ts";

const minute = 60_000;
const lines = new Map(["c", "old", "new"].map((channel) => [channel, runtimeOf(channel)]));

onEachDatabase((newDatabase) => {
  /** Ann was notified of escalation `e` by channel `old`. */
  async function notified(group: number) {
    const db = await fresh(newDatabase);
    let sms = "old";
    const policy = () =>
      policyOf({
        responders: new Map([["ann", responder("ann", { sms: "+1" })]]),
        tiers: [{ notify: ["ann"], by: ["sms"], repeat: minute, next: 60 * minute }],
        via: { email: null, sms },
        group,
      });
    const deps = { policy, lines: () => lines, clock, log: listen().log, timing: standardTiming };
    const stage = notifyStage({ ...deps, link: () => null });
    const run = () => db.tx((q) => stage.run(q));
    const opened = async (id: string) => {
      await db.tx(async (q) => {
        await conversation(q, `k-${id}`);
        await opens(q, id, { about: `conversation:k-${id}`, conversation: `k-${id}`, cause: "topic" });
      });
      await run();
    };
    await db.tx(async (q) => {
      for (const channel of lines.keys()) await ensureChannel(q, channel);
    });
    await opened("e");
    return {
      opened,
      /** The policy names this channel from now on. */
      by: (channel: string) => void (sms = channel),
      /** The policy repeats the notifications; no draft of them waits. */
      repeated: async () => {
        await db.tx((q) =>
          q.run("UPDATE escalations SET notified_at = notified_at - $1, due_at = now_ms()", 2 * minute),
        );
        await run();
      },
      /** The notifications that wait: by kind and channel. */
      waiting: async () => {
        const rows = await db.read((q) =>
          q.all<{ kind: string; channel: string }>(
            `SELECT kind, channel FROM notifications JOIN notification_targets ON notification_targets.id = target
             WHERE notifications.due_at > now_ms() + $1`,
            8 * minute,
          ),
        );
        return rows.map(({ kind, channel }) => `${kind} ${channel}`);
      },
    };
  }

  it("delays the notification of another escalation to the same address", async () => {
    const { opened, waiting } = await notified(10 * minute);
    expect(await waiting()).toEqual([]);
    await opened("e2");
    expect(await waiting()).toEqual(["opened old"]);
  });

  it("delays a repetition over the channel of its target, although the policy names another one", async () => {
    const { by, repeated, waiting } = await notified(10 * minute);
    by("new");
    await repeated();
    expect(await waiting()).toEqual(["reminder old"]);
  });

  it("delays nothing over a channel by which the address was not notified", async () => {
    const { by, opened, waiting } = await notified(10 * minute);
    by("new");
    await opened("e2");
    expect(await waiting()).toEqual([]);
  });

  it("delays nothing without a window", async () => {
    const { opened, repeated, waiting } = await notified(0);
    await opened("e2");
    await repeated();
    expect(await waiting()).toEqual([]);
  });
});
