// The alarm: open escalations without an acknowledgement, and whether responders can be notified at all. Input: the
// escalations that are not closed, and the health of the channels that carry notifications. Effect: none. Output:
// health, status text, metrics and log records. Failure: a log record; the next interval or scrape reads again. Crash:
// logged at the start.

import type { Log } from "bridgehead/contract";
import type { Metrics } from "../../ops/metrics.ts";
import type { Database } from "../../store/driver.ts";
import type { EscalationParts } from "../actions.ts";
import { type Alarm, alarmOf, isSilenced } from "./decide.ts";
import { alarmRows } from "./rows.ts";

export type AlarmDeps = Pick<EscalationParts, "policy" | "isDown"> & { readonly db: Pick<Database, "read"> };

/** Returns null when there is no policy and no open escalation. Rejects when the store cannot be read. */
export async function readAlarm({ db, policy, isDown }: AlarmDeps): Promise<Alarm | null> {
  const alarm = alarmOf(await db.read(alarmRows), policy(), isDown);
  return policy() === null && alarm.unacknowledged + alarm.acknowledged === 0 ? null : alarm;
}

/** Logs the alarm at the start and at every `timing.escalation.alarm` while it lasts. Runs until the signal aborts. */
export async function logAlarm(
  deps: AlarmDeps & Pick<EscalationParts, "clock" | "log" | "timing">,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const alarm = await readAlarm(deps).catch((error: unknown) => {
      deps.log.error({ err: error }, "reading the escalations failed");
      return null;
    });
    if (alarm !== null) say(alarm, deps.log);
    await deps.clock.sleep(deps.timing.escalation.alarm, signal);
  }
}

function say(alarm: Alarm, log: Log): void {
  const { paths: _, ...fields } = alarm;
  if (isSilenced(alarm)) log.error(fields, "escalation notifications impossible: every notification channel is down");
  else if (alarm.cut_off > 0) log.warn(fields, "responders unreachable: their only notification channel is down");
  if (alarm.unreached > 0) log.error(fields, "escalation notifications not delivered: no responder was reached");
  if (alarm.unacknowledged > 0) log.error(fields, "escalations not acknowledged");
}

/** Call once per registry. */
export function defineAlarmGauges(metrics: Metrics, deps: AlarmDeps): void {
  // The gauges of one scrape share one query: the first gauge starts it, the others await its result.
  let looking: Promise<Alarm | null> | null = null;
  const look = (): Promise<Alarm | null> => (looking ??= readAlarm(deps).finally(() => (looking = null)));
  metrics.gauge({
    name: "escalations",
    help: "Unclosed escalations by state: open (not acknowledged), acknowledged, unreached (open, and no notification was delivered).",
    labels: ["state"],
    sample: async (gauge) => {
      const alarm = await look();
      gauge.set({ state: "open" }, alarm?.unacknowledged ?? 0);
      gauge.set({ state: "acknowledged" }, alarm?.acknowledged ?? 0);
      gauge.set({ state: "unreached" }, alarm?.unreached ?? 0);
    },
  });
  metrics.gauge({
    name: "escalation_oldest_seconds",
    help: "Age of the oldest escalation that is not acknowledged; 0 when there is none.",
    sample: async (gauge) => gauge.set((await look())?.oldest_seconds ?? 0),
  });
  metrics.gauge({
    name: "notifications_stuck",
    help: "Notifications of unclosed escalations that failed, or whose first attempt failed.",
    sample: async (gauge) => gauge.set((await look())?.notifications_stuck ?? 0),
  });
  metrics.gauge({
    name: "responders_unreachable",
    help: "Responders with no notification channel that works.",
    sample: async (gauge) => gauge.set((await look())?.cut_off ?? 0),
  });
  metrics.gauge({
    name: "notification_paths",
    help: "Channels that notify responders, by state: up, down. Without one that is up, no responder can be notified.",
    labels: ["state"],
    sample: async (gauge) => {
      const alarm = await look();
      gauge.set({ state: "up" }, (alarm?.paths.length ?? 0) - (alarm?.dead.length ?? 0));
      gauge.set({ state: "down" }, alarm?.dead.length ?? 0);
    },
  });
}
