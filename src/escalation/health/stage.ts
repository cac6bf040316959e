// Stage health: opens and ends escalations about outages. Input: the channels that run here with their agents and
// warnings, and the store, at every sweep. Effect: detects a channel that has been down for too long, or whose agent
// could not be asked for as long, and one that works again; likewise warnings that escalate, and the disk of the store.
// Output: one escalation per outage; its end, and a notification to its targets. Failure: retried at the next sweep.
// Crash: the escalation is stored, and the channel is checked again.

import type { TransactionalStage } from "../../engine/stage.ts";
import { newId } from "../../ops/clock.ts";
import { addTriggers } from "../../store/tables/escalations.ts";
import { notifyTargets } from "../../store/tables/responders.ts";
import { close, type EscalationParts } from "../actions.ts";
import { openEscalations } from "../trigger/stage.ts";
import { aboutHealth, judgeHealth, planOutages, recoveredKey } from "./decide.ts";
import { loadOutages } from "./rows.ts";

type HealthDeps = Pick<EscalationParts, "policy" | "clock" | "log" | "pulses">;

/** One per daemon. */
export function healthStage(deps: HealthDeps): TransactionalStage {
  const { clock } = deps;
  /** Cache of the state that the store has recorded per subject. Avoids a query for each healthy channel. */
  const known = new Map<string, "down" | "up">();
  let fallen: ReadonlyMap<string, number> = new Map();
  return {
    takes: "sessions",
    async run(q) {
      const policy = deps.policy();
      if (!policy?.causes.includes("channel-down")) return [];
      const pulses = deps.pulses();
      const found = judgeHealth(pulses, fallen, policy.downAfter, clock.monotonic());
      fallen = found.fallen;
      const running = new Set(pulses.map(aboutHealth));
      for (const about of known.keys()) if (!running.has(about)) known.delete(about);
      const changes = found.judged.filter(({ about, state }) => known.get(about) !== state);
      if (changes.length === 0) return [];
      const abouts = changes.map(({ about }) => about);
      const { triggers, recovered } = planOutages(changes, await loadOutages(q, abouts));
      if (triggers.length > 0) await openEscalations(q, triggers, deps);
      await addTriggers(
        q,
        recovered.map(({ row: { id }, recovery }) => ({
          key: recoveredKey(id),
          escalation: id,
          source: "ours",
          detail: recovery,
        })),
      );
      // The others were closed by hand.
      for (const { row, recovery } of recovered.filter(({ row: { state } }) => state !== "closed")) {
        await close(q, row, "recovery", deps);
        const text = `Escalation ${row.number} is closed: ${recovery}.`;
        const id = newId(clock.now());
        await notifyTargets(q, row, { id, kind: "message", subject: "recovered", text }, "all");
      }
      return changes.map(
        ({ about, state }) =>
          () =>
            void known.set(about, state),
      );
    },
  };
}
