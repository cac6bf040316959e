// Alarm state for monitors: open escalations without an acknowledgement, and whether responders can be
// notified at all.

import type { Clock, Log } from "bridgehead/contract";
import { type Policy, webhookChannel } from "../domain/policy.ts";
import type { Metrics } from "../ops/metrics.ts";
import type { Timing } from "../ops/timing.ts";
import type { Database } from "../store/driver.ts";
import { type AlarmRows, alarmRows } from "../store/tables/alarm.ts";

export interface Alarm {
  /** Number of unacknowledged escalations, and their numbers: oldest first, at most ten. */
  readonly untaken: number;
  readonly numbers: readonly number[];
  /** Number of escalations that are acknowledged and not closed. */
  readonly taken: number;
  /** Age of the oldest unacknowledged escalation, in seconds. */
  readonly oldest_seconds: number;
  /** Number of unacknowledged escalations whose notifications were attempted and never accepted by a
   *  provider. */
  readonly unreached: number;
  /** Notifications of escalations that are not closed, which will not be sent or failed at the first
   *  attempt. */
  readonly notices_stuck: number;
  /** The channels that carry notifications, and the failed ones among them. */
  readonly paths: readonly string[];
  readonly dead: readonly string[];
}

export interface AlarmDeps {
  readonly db: Pick<Database, "read">;
  /** Null when the configuration has no escalation policy. */
  readonly policy: () => Policy | null;
  /** True when the channel is known to be down. */
  readonly isDown: (channel: string) => boolean;
}

/** Returns null when there is no policy and no open escalation. Rejects when the store cannot be read. */
export async function lookForAlarm({ db, policy, isDown }: AlarmDeps): Promise<Alarm | null> {
  const alarm = alarmOf(await db.read(alarmRows), policy(), isDown);
  return policy() === null && alarm.untaken + alarm.taken === 0 ? null : alarm;
}

function alarmOf(
  { notices, oldest, numbers }: AlarmRows,
  policy: Policy | null,
  isDown: (channel: string) => boolean,
): Alarm {
  const open = notices.filter(({ state }) => state === "open");
  const untaken = Map.groupBy(open, ({ escalation }) => escalation);
  const taken = new Set(notices.filter(({ state }) => state === "taken").map(({ escalation }) => escalation));
  const unreached = [...untaken.values()].filter((own) => {
    if (own.some(({ went }) => went > 0)) return false;
    return own.some(({ failed, channel, told }) => failed > 0 || (channel === null && told > 0));
  });
  const paths = policy === null ? [] : pathsOf(policy);
  const dead = paths.filter((path) => {
    const own = open.filter(({ channel }) => channel === path);
    const refuses = own.some(({ failed }) => failed > 0) && !own.some(({ went }) => went > 0);
    return refuses || isDown(path);
  });
  return {
    untaken: untaken.size,
    numbers,
    taken: taken.size,
    oldest_seconds: Math.max(0, Math.round((oldest ?? 0) / 1000)),
    unreached: unreached.length,
    notices_stuck: notices.reduce((sum, one) => sum + one.stuck, 0),
    paths,
    dead,
  };
}

/** True when every notification channel is down. */
export const isSilenced = (alarm: Alarm | null): boolean =>
  alarm !== null && alarm.paths.length > 0 && alarm.dead.length === alarm.paths.length;

/** Returns every channel that notifies a responder of the policy. */
function pathsOf({ people, via }: Policy): readonly string[] {
  const all = [...people.values()];
  const carriers = [
    all.some(({ email }) => email !== null) ? via.email : null,
    all.some(({ sms }) => sms !== null) ? via.sms : null,
    all.some(({ webhook }) => webhook !== null) ? webhookChannel : null,
  ];
  return carriers.filter((channel) => channel !== null);
}

/** Prefix of the service's status text; empty when no action is required. */
export function alarmText(alarm: Alarm | null): string {
  if (alarm === null) return "";
  const { untaken, oldest_seconds, unreached } = alarm;
  const minutes = Math.floor(oldest_seconds / 60);
  const words = [
    ...(isSilenced(alarm) ? ["NOBODY CAN BE TOLD OF ESCALATIONS"] : []),
    ...(unreached > 0 ? [`NOBODY WAS REACHED ABOUT ${counted(unreached)}`] : []),
    ...(untaken > 0 ? [`${counted(untaken)} NOT TAKEN, the oldest for ${minutes} min`] : []),
  ];
  return words.map((word) => `${word}; `).join("");
}

const counted = (count: number): string => `${count} ESCALATION${count === 1 ? "" : "S"}`;

/** Logs the alarm at the start and at every `timing.escalation.alarm` while it lasts. Runs until the signal aborts. */
export async function keepSaying(
  deps: AlarmDeps & { readonly clock: Clock; readonly log: Log; readonly timing: Timing },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const alarm = await lookForAlarm(deps).catch((error: unknown) => {
      deps.log.error({ err: error }, "escalations cannot be looked at: the store cannot be read");
      return null;
    });
    if (alarm !== null) say(alarm, deps.log);
    await deps.clock.sleep(deps.timing.escalation.alarm, signal);
  }
}

function say(alarm: Alarm, log: Log): void {
  const { paths: _, ...fields } = alarm;
  if (isSilenced(alarm))
    log.error(fields, "NOBODY CAN BE TOLD OF ESCALATIONS: no channel that carries notices works");
  if (alarm.unreached > 0)
    log.error(fields, "NOBODY WAS REACHED about escalations: no notice of theirs went out");
  if (alarm.untaken > 0) log.error(fields, "escalations wait for a human: nobody has taken them");
}

/** Call once per registry. */
export function defineAlarmGauges(metrics: Metrics, deps: AlarmDeps): void {
  // The gauges of one scrape share one query: the first gauge starts it, the others await its result.
  let looking: Promise<Alarm | null> | null = null;
  const look = (): Promise<Alarm | null> => (looking ??= lookForAlarm(deps).finally(() => (looking = null)));
  metrics.gauge({
    name: "escalations",
    help: "What humans must know of and is not closed: open (nobody has taken it), taken, unreached (of the open ones, those of which no notice went out).",
    labels: ["state"],
    sample: async (gauge) => {
      const alarm = await look();
      gauge.set({ state: "open" }, alarm?.untaken ?? 0);
      gauge.set({ state: "taken" }, alarm?.taken ?? 0);
      gauge.set({ state: "unreached" }, alarm?.unreached ?? 0);
    },
  });
  metrics.gauge({
    name: "escalation_oldest_seconds",
    help: "Age of the oldest escalation that nobody has taken; 0 when there is none.",
    sample: async (gauge) => gauge.set((await look())?.oldest_seconds ?? 0),
  });
  metrics.gauge({
    name: "notices_stuck",
    help: "Messages to people about escalations that are not closed, which will not go out or did not at the first try.",
    sample: async (gauge) => gauge.set((await look())?.notices_stuck ?? 0),
  });
}
