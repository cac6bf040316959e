// Derives the alarm from loaded rows. Pure.

import { type Person, type Policy, webhookChannel } from "../../domain/policy.ts";
import type { AlarmRows } from "./rows.ts";

export interface Alarm {
  /** Number of unacknowledged escalations, and their numbers: oldest first, at most ten. */
  readonly unacknowledged: number;
  readonly numbers: readonly number[];
  /** Number of escalations that are acknowledged and not closed. */
  readonly acknowledged: number;
  /** Age of the oldest unacknowledged escalation, in seconds. */
  readonly oldest_seconds: number;
  /** Number of unacknowledged escalations whose notifications were attempted and never accepted by a provider. */
  readonly unreached: number;
  /** Notifications of escalations that are not closed, which will not be sent or failed at the first attempt. */
  readonly notifications_stuck: number;
  /** The channels that carry notifications, and the failed ones among them. */
  readonly paths: readonly string[];
  readonly dead: readonly string[];
  /** Number of responders with no notification channel that works. */
  readonly cut_off: number;
}

/** `isDown`: true when the channel is known to be down. */
export function alarmOf(
  { notifications, oldest, numbers }: AlarmRows,
  policy: Policy | null,
  isDown: (channel: string) => boolean,
): Alarm {
  const open = notifications.filter(({ state }) => state === "open");
  const unacknowledged = Map.groupBy(open, ({ escalation }) => escalation);
  const acknowledged = new Set(
    notifications.filter(({ state }) => state === "acknowledged").map(({ escalation }) => escalation),
  );
  const unreached = [...unacknowledged.values()].filter((own) => {
    if (own.some(({ delivered }) => delivered > 0)) return false;
    return own.some(({ failed, channel, notified }) => failed > 0 || (channel === null && notified > 0));
  });
  const responders = [...(policy?.responders.values() ?? [])];
  const paths = carriersOf(responders, policy?.via);
  const dead = paths.filter((path) => {
    const own = open.filter(({ channel }) => channel === path);
    const refuses = own.some(({ failed }) => failed > 0) && !own.some(({ delivered }) => delivered > 0);
    return refuses || isDown(path);
  });
  const isCutOff = (own: readonly string[]) => own.length > 0 && own.every((channel) => dead.includes(channel));
  return {
    unacknowledged: unacknowledged.size,
    numbers,
    acknowledged: acknowledged.size,
    oldest_seconds: Math.max(0, Math.round((oldest ?? 0) / 1000)),
    unreached: unreached.length,
    notifications_stuck: notifications.reduce((sum, one) => sum + one.stuck, 0),
    paths,
    dead,
    cut_off: responders.filter((person) => isCutOff(carriersOf([person], policy?.via))).length,
  };
}

/** True when every notification channel is down. */
export const isSilenced = (alarm: Alarm | null): boolean =>
  alarm !== null && alarm.paths.length > 0 && alarm.dead.length === alarm.paths.length;

/** Returns every channel that notifies one of these responders. */
function carriersOf(all: readonly Person[], via: Policy["via"] | undefined): readonly string[] {
  const carriers = [
    all.some(({ email }) => email !== null) ? via?.email : null,
    all.some(({ sms }) => sms !== null) ? via?.sms : null,
    all.some(({ webhook }) => webhook !== null) ? webhookChannel : null,
  ];
  return carriers.filter((channel) => channel != null);
}

/** Prefix of the service's status text; empty when no action is required. */
export function alarmText(alarm: Alarm | null): string {
  if (alarm === null) return "";
  const { unacknowledged, oldest_seconds, unreached } = alarm;
  const minutes = Math.floor(oldest_seconds / 60);
  const words = [
    ...(isSilenced(alarm) ? ["NO RESPONDER CAN BE NOTIFIED OF ESCALATIONS"] : []),
    ...(unreached > 0 ? [`NO RESPONDER WAS REACHED ABOUT ${counted(unreached)}`] : []),
    ...(unacknowledged > 0 ? [`${counted(unacknowledged)} NOT ACKNOWLEDGED, the oldest for ${minutes} min`] : []),
  ];
  return words.map((word) => `${word}; `).join("");
}

const counted = (count: number): string => `${count} ESCALATION${count === 1 ? "" : "S"}`;
