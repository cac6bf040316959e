// Stage health.
// Input: the channels that run here, at every sweep.
// Effect: detects a channel that has been down for too long, and one that works again.
// Output: one escalation per outage of the channel; its end, and a notification to its targets.
// Failure: retried at the next sweep. Crash: the escalation is stored, and the channel is checked again.

import type { TransactionalStage } from "../../engine/stage.ts";
import { newId } from "../../ops/clock.ts";
import { addTriggers } from "../../store/tables/escalations.ts";
import { notifyTargets } from "../../store/tables/responders.ts";
import { close, type EscalationParts } from "../actions.ts";
import { aboutChannel, judgeHealth, planOutages, recoveredKey } from "./decide.ts";
import { loadOutages } from "./rows.ts";
import { openEscalations } from "./stage.ts";

type HealthDeps = Pick<EscalationParts, "policy" | "clock" | "log" | "pulses">;

export function healthStage(deps: HealthDeps): TransactionalStage {
  const { clock } = deps;
  /** Cache of the state that the store has recorded per channel. Avoids a query for each healthy
   *  channel. */
  const known = new Map<string, "down" | "up">();
  /** Start of each channel's outage (clock milliseconds). Other states in between do not reset it,
   *  except `ready`. */
  const fallen = new Map<string, number>();
  return {
    takes: "sessions",
    async run(q) {
      const policy = deps.policy();
      if (!policy?.causes.includes("channel-down")) return [];
      const pulses = deps.pulses();
      const running = new Set(pulses.map(({ channel }) => channel));
      for (const map of [known, fallen]) for (const one of map.keys()) if (!running.has(one)) map.delete(one);
      const changes = pulses.flatMap((health) => {
        const now = judgeHealth(health, fallen, policy.downAfter, clock);
        return now === null || known.get(health.channel) === now ? [] : [{ health, now }];
      });
      if (changes.length === 0) return [];
      const abouts = changes.map(({ health }) => aboutChannel(health.channel, "channel-down"));
      const { triggers, recovered } = planOutages(changes, await loadOutages(q, abouts));
      if (triggers.length > 0) await openEscalations(q, triggers, deps);
      const detail = "the channel works again";
      await addTriggers(
        q,
        recovered.map(({ row: { id } }) => ({
          key: recoveredKey(id),
          escalation: id,
          source: "ours",
          detail,
        })),
      );
      for (const { row, channel } of recovered) {
        if (!(await close(q, row, "recovery", deps))) continue;
        const text = `Escalation ${row.number} is closed: channel ${channel} works again.`;
        const id = newId(clock.now());
        await notifyTargets(q, row, { id, kind: "message", subject: "recovered", text }, "all");
      }
      return changes.map(
        ({ health, now }) =>
          () =>
            void known.set(health.channel, now),
      );
    },
  };
}
