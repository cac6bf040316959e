// Stage health.
// Input: the channels that run here, at every sweep.
// Effect: detects a channel that has been down for too long, and one that works again.
// Output: one escalation per outage of the channel; its end, and a notification to the contacts of the
// escalation.
// Failure: retried at the next sweep. Crash: the raised escalation is stored, and the channel is checked
// again.

import type { Clock, Log } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { addTrigger, isTriggered, newestEscalation } from "../../store/tables/escalations.ts";
import { addNotification, targetsOf } from "../../store/tables/responders.ts";
import { close } from "../actions.ts";
import { aboutChannel, raise } from "../trigger/stage.ts";
import { type Pulse, verdict } from "./decide.ts";

export interface HealthDeps {
  readonly policy: () => Policy | null;
  readonly pulses: () => readonly Pulse[];
  readonly clock: Clock;
  readonly log: Log;
}

export function healthStage(deps: HealthDeps): TransactionalStage {
  /** Cache of the state that the store has recorded per channel. Avoids a query for each healthy
   *  channel. */
  const known = new Map<string, "down" | "well">();
  /** Start of each channel's outage (clock milliseconds). Other states in between do not reset it,
   *  except `ready`. */
  const fallen = new Map<string, number>();
  return {
    takes: "sessions",
    async run(q) {
      const policy = deps.policy();
      if (!policy?.causes.includes("channel-down")) return [];
      const committed: (() => void)[] = [];
      const pulses = deps.pulses();
      const running = new Set(pulses.map(({ channel }) => channel));
      for (const map of [known, fallen]) for (const one of map.keys()) if (!running.has(one)) map.delete(one);
      for (const pulse of pulses) {
        const now = verdict(pulse, fallen, policy.downAfter, deps.clock);
        if (now === null || known.get(pulse.channel) === now) continue;
        await (now === "down" ? fell(q, pulse, deps) : recovered(q, pulse, deps));
        committed.push(() => known.set(pulse.channel, now));
      }
      return committed;
    },
  };
}

const recoveredKey = (escalation: string): string => `recovered:${escalation}`;

async function fell(q: Query, pulse: Pulse, deps: HealthDeps): Promise<void> {
  const { channel, agent } = pulse;
  // An escalation that was closed by hand is not raised again. The outage lasts until the channel has
  // worked again, across restarts.
  const newest = await newestEscalation(q, aboutChannel(channel, "channel-down"));
  if (newest && !(await isTriggered(q, recoveredKey(newest.id)))) return;
  const reason = `channel ${channel} is ${pulse.state}: ${pulse.reason ?? "no reason was given"}`;
  const key = `channel:${channel}:${newest?.id ?? "first"}`;
  const about = { channel, agent, conversation: null, topic: null };
  await raise(q, { ...about, key, source: "ours", cause: "channel-down", reason }, deps);
}

async function recovered(q: Query, { channel }: Pulse, deps: HealthDeps): Promise<void> {
  const newest = await newestEscalation(q, aboutChannel(channel, "channel-down"));
  if (!newest) return;
  const key = recoveredKey(newest.id);
  const detail = "the channel works again";
  if (!(await addTrigger(q, { key, escalation: newest.id, source: "ours", detail }))) return;
  if (!(await close(q, newest, "recovery", deps))) return;
  for (const contact of await targetsOf(q, newest.id)) {
    const text = `Escalation ${newest.number} is closed: channel ${channel} works again.`;
    const id = newId(deps.clock.now());
    await addNotification(q, { id, contact: contact.id, kind: "said", subject: "recovered", text }, 0);
  }
}
