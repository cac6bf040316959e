// Decisions about the health of channels: which outages open escalations, and which have ended. Pure.

import { type ChannelHealth, type EscalationTrigger, storeSubject, warningSubject } from "../../pipeline/escalation.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import { aboutOf } from "../trigger/decide.ts";

/** The decided health of one subject. */
export interface JudgedHealth {
  readonly health: ChannelHealth;
  readonly about: string;
  readonly state: "down" | "up";
}

/** Returns the health of what runs here, without what is undecided. `connecting` is neither a failure nor a recovery: a
 *  node on standby is connecting, and a failing channel may connect and fail repeatedly. An agent that may be refused is
 *  no recovery, because the outage may have begun before the start. `fallen`: the start of each outage by subject, in
 *  milliseconds like `now`, as the last call returned it. Other states in between do not reset it, except `ready`. */
export function judgeHealth(
  pulses: readonly ChannelHealth[],
  fallen: ReadonlyMap<string, number>,
  downAfter: number,
  now: number,
): { readonly judged: readonly JudgedHealth[]; readonly fallen: ReadonlyMap<string, number> } {
  const next = new Map<string, number>();
  const judged = pulses.flatMap((health): JudgedHealth[] => {
    const about = aboutHealth(health);
    const { state, forMs, agentProblem = null, isAgentUnknown = false } = health;
    if (state === "ready" && agentProblem === null) return isAgentUnknown ? [] : [{ health, about, state: "up" }];
    const isConnecting = state === "connecting";
    const since = fallen.get(about) ?? (isConnecting ? null : now - (state === "ready" ? 0 : forMs));
    if (since === null) return [];
    next.set(about, since);
    return !isConnecting && now - since >= downAfter ? [{ health, about, state: "down" }] : [];
  });
  return { judged, fallen: next };
}

/** Returns the subject of an outage. */
export const aboutHealth = (health: ChannelHealth): string =>
  aboutOf({ ...health, conversation: null, cause: "channel-down" });

function failureOf({ channel, agent, state, reason, agentProblem, about }: ChannelHealth): string {
  if (about === storeSubject) return `the store: ${reason}`;
  if (about !== undefined) return `channel ${channel}: ${reason}`;
  if (state === "ready") return `agent ${agent} cannot be asked: ${agentProblem}`;
  return `channel ${channel} is ${state}: ${reason ?? "no reason was given"}`;
}

/** Returns the sentence about the end of an outage. */
function recoveryOf(about: string, channel: string): string {
  if (about === storeSubject) return "the store works again";
  const isWarning = about.startsWith(warningSubject(channel, ""));
  return isWarning ? `a warning of channel ${channel} is cleared` : `channel ${channel} works again`;
}

/** The newest outage of a channel, as recorded. */
export interface Outage {
  /** Its escalation; locked. */
  readonly row: EscalationRow;
  readonly recovered: boolean;
}

export interface OutagePlan {
  readonly triggers: readonly EscalationTrigger[];
  readonly recovered: readonly (Pick<Outage, "row"> & { readonly recovery: string })[];
}

/** Plans the effects of changes in the health of channels. An escalation that was closed by hand is not opened again:
 *  the outage lasts until the channel has worked again, across restarts. */
export function planOutages(
  changes: readonly Pick<JudgedHealth, "health" | "state">[],
  outages: ReadonlyMap<string, Outage>,
): OutagePlan {
  const triggers: EscalationTrigger[] = [];
  const recovered: OutagePlan["recovered"][number][] = [];
  for (const { health, state } of changes) {
    const { channel, agent, about } = health;
    const outage = outages.get(aboutHealth(health));
    if (state === "up" && outage && !outage.recovered)
      recovered.push({ row: outage.row, recovery: recoveryOf(outage.row.about, channel) });
    if (state === "up" || (outage && !outage.recovered)) continue;
    triggers.push({
      channel,
      agent,
      conversation: null,
      ...(about && { about }),
      topic: null,
      key: `${about ?? `channel:${channel}`}:${outage?.row.id ?? "first"}`,
      source: "ours",
      cause: "channel-down",
      reason: failureOf(health),
    });
  }
  return { triggers, recovered };
}

/** The trigger key of the recovery from an outage. */
export const recoveredKey = (escalation: string): string => `recovered:${escalation}`;
