// Escalation at night: responders in two time zones, the end of daylight saving time, quiet hours, and no
// acknowledgement.

import { expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import {
  chief,
  clockFrom,
  type EscalationDaemon,
  policy,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";

const [berta, nora, owen] = ["+12025550161", "+12025550162", "+12025550163"];

/** Berta works by day in Berlin, Nora by day in New York, Owen always but when he sleeps. */
const responders = {
  berta: { sms: berta, time_zone: "Europe/Berlin", hours: ["08:00-18:00"] },
  nora: { sms: nora, time_zone: "America/New_York", hours: ["08:00-18:00"], away: ["2026-10-25"] },
  owen: { sms: owen, time_zone: "Europe/Berlin", away: ["22:00-06:00"] },
  chief,
};
const berlin = { notify: ["berta"], repeat: "30m", next: "60m" };
const escalation = {
  ...policy,
  responders,
  tiers: [berlin, { notify: ["nora"], repeat: "1h", next: "2h" }],
  fallback: { notify: ["chief"], repeat: "4h" },
};

type Clock = ReturnType<typeof clockFrom>;

/** The responders notified since the last call, once the clock reaches that time, in alphabetical order. */
async function notifiedAt(daemon: EscalationDaemon, clock: Clock, instant: string): Promise<string[]> {
  await daemon.quiet();
  const sql =
    "SELECT person FROM notification_targets JOIN notifications ON notifications.target = notification_targets.id WHERE made_at > $1 ORDER BY 1";
  const since = clock.now();
  clock.to(instant);
  await daemon.quiet();
  return (await daemon.rows<{ person: string }>(sql, since)).map(({ person }) => person);
}

async function opened(daemon: EscalationDaemon): Promise<void> {
  await daemon.text("A refund, please");
  await daemon.escalated("open");
  await daemon.quiet();
}

it.concurrent("passes from city to city, and to the chief, through the night the clocks go back", async ({
  onTestFinished,
}) => {
  // Saturday, 17:20 in Berlin, 11:20 in New York. Clocks go back in Berlin on Sunday at 3:00 (1:00 UTC).
  const clock = clockFrom("2026-10-24T15:20:00Z");
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation });
  await opened(daemon);
  expect([daemon.textsTo(berta).length, daemon.textsTo(nora).length]).toEqual([1, 0]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T15:49:00Z")).toEqual([]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T15:52:00Z")).toEqual(["berta"]);
  // Her time is over twice: the hour that was hers, and her day. Nora's turn.
  expect(await notifiedAt(daemon, clock, "2026-10-24T16:22:00Z")).toEqual(["nora"]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T17:00:00Z")).toEqual([]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T17:24:00Z")).toEqual(["nora"]);
  // The escalation is not acknowledged: the chief is notified at night, with the responder on duty (Nora, until 18:00
  // there).
  expect(await notifiedAt(daemon, clock, "2026-10-24T18:26:00Z")).toEqual(["chief", "nora"]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T22:20:00Z")).toEqual([]);
  expect(await notifiedAt(daemon, clock, "2026-10-24T22:28:00Z")).toEqual(["chief"]);
  expect(await notifiedAt(daemon, clock, "2026-10-25T02:30:00Z")).toEqual(["chief"]);
  // 7:32 in Berlin by the new time; by the old one it would be 8:32, and Berta would be woken.
  expect(await notifiedAt(daemon, clock, "2026-10-25T06:32:00Z")).toEqual(["chief"]);
  expect(await notifiedAt(daemon, clock, "2026-10-25T10:34:00Z")).toEqual(["berta", "chief"]);
  // 12:36 in New York on Nora's free day.
  expect(await notifiedAt(daemon, clock, "2026-10-25T16:36:00Z")).toEqual(["berta", "chief"]);
  await daemon.text("ok", { from: berta });
  await daemon.escalated("acknowledged");
  await daemon.textTo(nora, 3);
  expect(await notifiedAt(daemon, clock, "2026-10-27T12:00:00Z")).toEqual([]);
});

it.concurrent("respects quiet hours, and notifies the fallback when all responders are off duty", async ({
  onTestFinished,
}) => {
  const clock = clockFrom("2026-03-28T20:30:00Z"); // 21:30 in Berlin, the evening before the clocks go forward
  const tiers = [{ notify: ["owen"], repeat: "10m", next: "12h" }];
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: { ...escalation, tiers } });
  await opened(daemon);
  expect(daemon.textsTo(owen)).toHaveLength(1);
  expect(await notifiedAt(daemon, clock, "2026-03-28T20:41:00Z")).toEqual(["owen"]);
  // He is off duty from 22:00: the tier has no responder on duty, so the next tier is notified.
  expect(await notifiedAt(daemon, clock, "2026-03-28T21:01:00Z")).toEqual(["chief"]);
  expect(await notifiedAt(daemon, clock, "2026-03-29T03:30:00Z"), "5:30 in Berlin by the new time").toEqual(["chief"]);
  expect(await notifiedAt(daemon, clock, "2026-03-29T07:32:00Z")).toEqual(["chief", "owen"]);
});

it.concurrent("a jump of the clock notifies once for any number of skipped steps", async ({ onTestFinished }) => {
  const clock = clockFrom("2026-05-04T07:00:00Z");
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation });
  await opened(daemon);
  expect(await notifiedAt(daemon, clock, "2026-05-05T15:00:00Z")).toEqual(["nora"]);
  await eventually(() => expect(daemon.textsTo(nora)).toHaveLength(1));
  expect(daemon.textsTo(berta)).toHaveLength(1);
});
