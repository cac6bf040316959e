// Pauses of sending, per channel and per sender (an address of ours). A pause that is over allows one draft, the probe;
// its outcome ends the pause or prolongs it. Drafts keep their due time, so the end of a pause takes effect at once.

import type { DeferralCause } from "bridgehead/contract";
import type { Query } from "./driver.ts";

/** The key of a pause of the whole channel. Senders are `lanes.sender`; "" is the channel's default address. */
export const wholeChannel = "*";

export interface Pause {
  /** `wholeChannel`, or a sender. */
  readonly sender: string;
  readonly cause: DeferralCause;
  /** Consecutive failures. */
  readonly failures: number;
  /** Milliseconds; zero or less when the next draft may be tried. */
  readonly remaining: number;
  /** 1 when the provider named the time: no success ends it earlier. */
  readonly told: number;
  /** The draft that is tried now, or null. */
  readonly probe: string | null;
  readonly reason: string;
}

/** Adapters believe a Retry-After of an hour at most; what lies further ahead was written under a wrong clock. */
const longestMs = 3_700_000;

/** The pauses of a channel, over or not. Usually none. */
export async function pausesOf(q: Query, channel: string): Promise<Pause[]> {
  return q.all<Pause>(
    `SELECT sender, cause, failures, told, probe, reason,
       CASE WHEN until - now_ms() > $2 THEN 0 ELSE until - now_ms() END AS remaining
     FROM pauses WHERE channel = $1`,
    channel,
    longestMs,
  );
}

/** Writes a pause, whatever was there. It has no probe. */
export async function writePause(
  q: Query,
  channel: string,
  pause: Omit<Pause, "remaining" | "probe" | "told"> & { readonly forMs: number; readonly told: boolean },
): Promise<void> {
  await q.run(
    `INSERT INTO pauses (channel, sender, cause, failures, until, told, reason)
     VALUES ($1, $2, $3, $4, now_ms() + $5, $6, $7)
     ON CONFLICT (channel, sender) DO UPDATE SET cause = excluded.cause, failures = excluded.failures,
       until = excluded.until, told = excluded.told, reason = excluded.reason, probe = NULL`,
    channel,
    pause.sender,
    pause.cause,
    pause.failures,
    Math.ceil(pause.forMs),
    pause.told ? 1 : 0,
    pause.reason,
  );
}

/** Makes the draft the probe of a pause that is over; everything else waits for its outcome, at most `forMs`. False when
 *  another draft was faster. */
export async function takeProbe(
  q: Query,
  channel: string,
  sender: string,
  draft: string,
  forMs: number,
): Promise<boolean> {
  const changed = await q.run(
    `UPDATE pauses SET probe = $3, until = now_ms() + $4
     WHERE channel = $1 AND sender = $2 AND (until <= now_ms() OR until > now_ms() + $5)`,
    channel,
    sender,
    draft,
    Math.ceil(forMs),
    longestMs,
  );
  return changed === 1;
}

/** Ends the pause. What waited for it is due. */
export async function endPause(q: Query, channel: string, sender: string): Promise<void> {
  const changed = await q.run("DELETE FROM pauses WHERE channel = $1 AND sender = $2", channel, sender);
  if (changed > 0) q.touched.add("drafts");
}

/** The adapter has connected and logged in: the next draft is tried now where a connection or the login was missing. A
 *  quota, and a time that the provider named, are not concerned. */
export async function probeNow(q: Query, channel: string): Promise<void> {
  const changed = await q.run(
    `UPDATE pauses SET until = now_ms()
     WHERE channel = $1 AND cause IN ('unreachable', 'login') AND told = 0 AND probe IS NULL AND until > now_ms()`,
    channel,
  );
  if (changed > 0) q.touched.add("drafts");
}
