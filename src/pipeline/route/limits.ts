// The limits of a whole channel, part of stage route: messages wait at its cap, and a loop or a storm pauses it.

import type { Cap } from "../../domain/guards.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { logOnDisk, type Query } from "../../store/driver.ts";
import { type EventRow, isCapped, loopingSenders, postponeChannel } from "../../store/tables/events.ts";
import { type PauseCode, pauseChannel } from "../../store/tables/pauses.ts";
import { capUse, roomIn } from "../../store/tables/turns.ts";
import type { EscalationTrigger } from "../escalation.ts";
import type { Wait } from "./decide.ts";
import type { Pass } from "./stage.ts";

/** The channel is at its cap because of a storm or the backlog of a long outage. The message and all
 *  others of its kind stay queued without a decision. Responders are notified once, and again when the
 *  cap lasts for more than an hour after they closed that escalation. */
export async function waitForRoom(q: Query, pass: Pass, row: EventRow, waits: readonly Wait[]): Promise<void> {
  const { channel } = pass.line;
  let waitMs = 0;
  for (const wait of waits) {
    const ms = "ms" in wait ? wait.ms : await roomIn(q, channel, wait.below, wait.cap.per);
    waitMs = Math.max(waitMs, ms);
  }
  const preferred = row.preferred === 1;
  pass.room.noneForOthers = true;
  if (preferred) pass.room.none = true;
  if (!(await isCapped(q, channel))) {
    const fields = { channel, wait_ms: Math.ceil(waitMs), preferred };
    logOnDisk(q, pass.log).warn(fields, "channel at its cap: messages are queued");
  }
  q.hop({ name: "capped", channel, trace: "", code: "cap-channel" });
  await postponeChannel(q, channel, waitMs, preferred);
  await notify(q, pass, {
    key: `cap:${channel}:${Math.floor(pass.clock.now() / pass.timing.route.capEscalation)}`,
    reason: "the channel is at its cap: messages are queued, those of authenticated and known senders first",
  });
}

/** Pauses the channel when the messages of this run exceed one of its `pause_on` limits, and notifies responders. Only
 *  an operator ends the pause; earlier messages do not count again then. Call after routing, in its transaction. */
export async function pauseAtLimit(q: Query, pass: Pass): Promise<void> {
  const { line, counted } = pass;
  const limits = line.rules.pause_on;
  if (counted.loop !== null)
    for (const cap of limits?.loops ?? [])
      if ((await loopingSenders(q, line.channel, cap.per)) > cap.max)
        return pauseFor(
          q,
          pass,
          "loops",
          `messages of more than ${cap.max} senders were refused as loops or held by a cap`,
          cap,
        );
  if (counted.turns > 0)
    for (const cap of limits?.replies ?? [])
      if ((await capUse(q, line.channel, cap.per, true)).total > cap.max)
        return pauseFor(q, pass, "replies", `more than ${cap.max} messages were to be answered`, cap);
}

async function pauseFor(q: Query, pass: Pass, code: PauseCode, what: string, { per }: Cap): Promise<void> {
  const { channel } = pass.line;
  const event = pass.counted.loop?.id ?? null;
  const reason = `${what} within ${Math.round(per / 60_000)} min`;
  if (!(await pauseChannel(q, { channel, code, reason, event, forMs: null }))) return;
  const last = event === null ? "" : `; the last one: bridgehead inbox show ${event}`;
  await notify(q, pass, {
    key: `pause:${channel}:${pass.clock.now()}`,
    reason: `the channel is paused: ${reason}${last}. Nothing is answered until: bridgehead resume ${channel}`,
    news: true,
  });
  failpoints["pause.commit"].publish({ phase: "before", channel });
  pass.committed.push(() => failpoints["pause.commit"].publish({ phase: "after", channel }));
}

/** Notifies responders of a limit of the whole channel. */
async function notify(
  q: Query,
  { line }: Pass,
  what: Pick<EscalationTrigger, "key" | "reason" | "news">,
): Promise<void> {
  const { channel, agent } = line;
  const about = { channel, agent, conversation: null, topic: null };
  await line.escalation()?.open(q, { ...about, source: "ours", cause: "cap", ...what });
}
