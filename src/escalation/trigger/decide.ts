// Decisions about triggers, on loaded rows. Pure. Several triggers of one incident become one escalation.

import type { Clock } from "bridgehead/contract";
import type { Cause } from "../../domain/policy.ts";
import { normalizeWhitespace } from "../../domain/turn.ts";
import { type ChannelRuntimes, canSend } from "../../pipeline/channel-runtime.ts";
import { type ChannelHealth, type EscalationTrigger, storeSubject, warningSubject } from "../../pipeline/escalation.ts";
import type { EscalationRow, NewEscalation, NewTrigger } from "../../store/tables/escalations.ts";

export const aboutConversation = (id: string): string => `conversation:${id}`;
/** `which`: a conversation of the agent outside this daemon. */
export const aboutAgent = (name: string, which: string): string => `agent:${name}:${which}`;
const aboutChannel = (id: string, cause: Cause): string => `channel:${id}:${cause}`;

/** Returns the subject of a trigger. */
export const aboutOf = ({
  about,
  conversation,
  channel,
  cause,
}: Pick<EscalationTrigger, "about" | "conversation" | "channel" | "cause">): string =>
  about ?? (conversation === null ? aboutChannel(channel, cause) : aboutConversation(conversation));

/** What the store knows of the subject of a trigger. */
export interface Subject {
  /** The unclosed escalation, or else the newest one; locked. */
  readonly row: EscalationRow | null;
  /** True when the trigger was recorded before. */
  readonly triggered: boolean;
  /** Sequence number of the customer's newest question; null without one. */
  readonly asked: number | null;
}

/** A text for notification targets of an escalation: all, or the one that acknowledged it if there is one. */
export interface Update {
  readonly row: EscalationRow;
  readonly subject: string;
  readonly text: string;
}

export interface TriggerPlan {
  /** Escalations to open, at most one for each subject, each with its first trigger. */
  readonly opened: readonly NewEscalation[];
  /** The triggers to record. `escalation` is null for an escalation that is opened. */
  readonly recorded: readonly (Omit<NewTrigger, "escalation"> & {
    readonly about: string;
    readonly escalation: string | null;
  })[];
  readonly updates: readonly Update[];
}

/** Plans the effects of triggers. `subjects` belong to the triggers, in the same order. A trigger that was recorded
 *  before has none. */
export function planTriggers(
  triggers: readonly EscalationTrigger[],
  subjects: readonly Subject[],
  newId: () => string,
): TriggerPlan {
  const opened = new Map<string, NewEscalation>();
  const recorded: TriggerPlan["recorded"][number][] = [];
  const updates: Update[] = [];
  for (const [at, trigger] of triggers.entries()) {
    const subject = subjects[at];
    if (!subject || subject.triggered) continue;
    const { key, source, reason: detail } = trigger;
    const about = aboutOf(trigger);
    const known = knownEscalation(trigger, subject);
    recorded.push({ key, about, source, detail, escalation: known?.id ?? null });
    if (known === null && !opened.has(about)) {
      const { channel, agent, conversation, cause, topic, reason } = trigger;
      opened.set(about, { id: newId(), key, about, channel, agent, conversation, cause, topic, reason });
    }
    const isUpdate = trigger.news || (trigger.said !== undefined && known?.state === "acknowledged");
    if (known !== null && isUpdate) updates.push({ row: known, subject: key, text: updateText(known, trigger) });
  }
  return { opened: [...opened.values()], recorded, updates };
}

/** Returns the escalation that the trigger belongs to; null for a new one. The platform reports one event in several
 *  ways, and one report may arrive after the close. It belongs to the closed escalation as long as the customer has not
 *  written since. Triggers of the daemon itself are always new. */
function knownEscalation(
  { source, conversation, cause }: EscalationTrigger,
  { row, asked }: Subject,
): EscalationRow | null {
  if (row === null || row.state !== "closed") return row;
  if (source === "ours" || conversation === null || row.cause !== cause) return null;
  return asked !== null && asked >= row.from_seq ? null : row;
}

const updateText = ({ number }: EscalationRow, { reason, said }: EscalationTrigger): string =>
  `${number}: ${reason}${said === undefined ? "" : `\nThe customer wrote: ${said}`}`;

/** Returns the topic when the text is a configured escalation response; null when it is none. The topic is unknown
 *  (`topic: null`) when several topics share the response. */
export function escalatingTopic(
  configured: readonly { readonly topic: string; readonly response: string }[],
  text: string,
): { readonly topic: string | null } | null {
  const [first, ...others] = configured.filter(({ response }) => isSameText(response, text));
  return first === undefined ? null : { topic: others.length === 0 ? first.topic : null };
}

/** Compares without case. An empty configured response never matches. */
function isSameText(configured: string, text: string): boolean {
  const wanted = normalizeWhitespace(configured).toLowerCase();
  return wanted !== "" && wanted === normalizeWhitespace(text).toLowerCase();
}

/** Notifications of one customer message: the targets of the escalation, those that have one, and those among them
 *  that were sent or still may be. */
export interface PassedOn {
  readonly targets: number;
  readonly written: number;
  readonly alive: number;
}

/** These notifications on one channel. */
export interface PassedOnChannel extends PassedOn {
  readonly channel: string;
}

/** Adds up the channels that can send. A target on a removed channel counts as none: its responder cannot answer. */
export function passedOnRunning(on: readonly PassedOnChannel[], lines: ChannelRuntimes): PassedOn {
  const running = on.filter(({ channel }) => canSend(lines, channel));
  const sum = (key: keyof PassedOn) => running.reduce((total, one) => total + one[key], 0);
  return { targets: sum("targets"), written: sum("written"), alive: sum("alive") };
}

/** True when a responder has received the customer's message or still may receive it. Targets without a notification
 *  of it get one. */
export const isPassedOn = ({ targets, written, alive }: PassedOn): boolean => written < targets || alive > 0;

/** Returns null while the state is undecided. `connecting` is neither a failure nor a recovery: a node
 *  on standby is connecting, and a failing channel may connect and fail repeatedly. An agent that may be refused is no
 *  recovery, because the outage may have begun before the start. `fallen` is by subject. */
export function judgeHealth(
  health: ChannelHealth,
  fallen: Map<string, number>,
  downAfter: number,
  clock: Clock,
): "down" | "up" | null {
  const { state, forMs, agentProblem = null, isAgentUnknown = false } = health;
  if (state === "connecting") return null;
  const about = aboutHealth(health);
  if (state === "ready" && agentProblem === null) {
    fallen.delete(about);
    return isAgentUnknown ? null : "up";
  }
  const since = fallen.get(about) ?? clock.now() - (state === "ready" ? 0 : forMs);
  fallen.set(about, since);
  return clock.now() - since >= downAfter ? "down" : null;
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
export function recoveryOf(about: string, channel: string): string {
  if (about === storeSubject) return "the store works again";
  const isWarning = about.startsWith(warningSubject(channel, ""));
  return isWarning ? `a warning of channel ${channel} is cleared` : `channel ${channel} works again`;
}

/** The newest outage of a channel, as recorded. */
export interface Outage {
  /** Its escalation; locked. */
  readonly row: EscalationRow;
  /** True when the recovery was recorded. */
  readonly recovered: boolean;
}

export interface OutagePlan {
  readonly triggers: readonly EscalationTrigger[];
  /** Outages that have ended. */
  readonly recovered: readonly (Outage & { readonly channel: string })[];
}

/** Plans the effects of changes in the health of channels. An escalation that was closed by hand is not opened again:
 *  the outage lasts until the channel has worked again, across restarts. */
export function planOutages(
  changes: readonly { readonly health: ChannelHealth; readonly now: "down" | "up" }[],
  outages: ReadonlyMap<string, Outage>,
): OutagePlan {
  const triggers: EscalationTrigger[] = [];
  const recovered: OutagePlan["recovered"][number][] = [];
  for (const { health, now } of changes) {
    const { channel, agent, about } = health;
    const outage = outages.get(aboutHealth(health));
    if (now === "up" && outage && !outage.recovered) recovered.push({ ...outage, channel });
    if (now === "up" || (outage && !outage.recovered)) continue;
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
