// Stage health.
// Takes: the channels that run here, at every sweep.
// Does: notices one that has been down for too long, and one that works again.
// Leaves: an escalation about the channel, once a fall; its end, and a word to those who were told.
// If it fails: at the next sweep.  If the process dies: what was raised is stored, and the channel is looked at again.

import type { Clock, Log } from "bridgehead/contract";
import type { Policy } from "../domain/policy.ts";
import { newId } from "../ops/clock.ts";
import type { PureStage } from "../pipeline/stage.ts";
import { addNotice, contactsOf } from "../store/contacts.ts";
import type { Query } from "../store/driver.ts";
import { newestEscalation } from "../store/escalations.ts";
import { addSource, isNoticed } from "../store/sources.ts";
import { aboutChannel, raise } from "./raise.ts";
import { close } from "./take.ts";

/** A channel as far as its health goes. */
export interface Pulse {
  readonly channel: string;
  readonly agent: string;
  readonly state: "connecting" | "ready" | "degraded" | "unauthorized";
  readonly reason: string | null;
  /** How long it has been so, in milliseconds. */
  readonly forMs: number;
}

export interface HealthDeps {
  readonly policy: () => Policy | null;
  readonly pulses: () => readonly Pulse[];
  readonly clock: Clock;
  readonly log: Log;
}

export function healthStage(deps: HealthDeps): PureStage {
  /** What the store is known to say of a channel; a healthy one is not asked about again and again. */
  const known = new Map<string, "down" | "well">();
  /** Since when a channel does not work (clock milliseconds), whatever it says of itself in between. */
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

/** Null: not to be judged yet. A node that waits for its turn to read is connecting, and that is no fault; nor is it the end
 *  of one: a channel that fails may connect, and fail, again and again. */
function verdict(
  { channel, state, forMs }: Pulse,
  fallen: Map<string, number>,
  downAfter: number,
  clock: Clock,
): "down" | "well" | null {
  if (state === "connecting") return null;
  if (state === "ready") {
    fallen.delete(channel);
    return "well";
  }
  const since = fallen.get(channel) ?? clock.now() - forMs;
  fallen.set(channel, since);
  return clock.now() - since >= downAfter ? "down" : null;
}

const recoveredKey = (escalation: string): string => `recovered:${escalation}`;

async function fell(q: Query, pulse: Pulse, deps: HealthDeps): Promise<void> {
  const { channel, agent } = pulse;
  // Whoever has closed it knows; it is the same fall until the channel has worked again, whatever restarts in between.
  const newest = await newestEscalation(q, aboutChannel(channel, "channel-down"));
  if (newest && !(await isNoticed(q, recoveredKey(newest.id)))) return;
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
  if (!(await addSource(q, { key, escalation: newest.id, source: "ours", detail }))) return;
  if (!(await close(q, newest, "recovery", deps))) return;
  for (const contact of await contactsOf(q, newest.id)) {
    const text = `Escalation ${newest.number} is closed: channel ${channel} works again.`;
    const id = newId(deps.clock.now());
    await addNotice(q, { id, contact: contact.id, kind: "said", subject: "recovered", text }, 0);
  }
}
