// Pauses of sending, per channel and per sender (one of our addresses). An expired pause allows one draft,
// the probe; its outcome ends or prolongs the pause. Drafts keep their due time, so the end of a pause
// takes effect at once.

import type { DeferralCause } from "bridgehead/contract";
import { type Query, touch } from "../driver.ts";

/** Key of a pause of the whole channel. Senders are `lanes.sender`; "" is the channel's default address. */
export const wholeChannel = "*";

export interface Pause {
  /** `wholeChannel`, or a sender. */
  readonly sender: string;
  readonly cause: DeferralCause;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** Milliseconds left; zero or less when the next draft may be tried. */
  readonly remaining: number;
  /** 1 when the provider specified the time (Retry-After): a success does not end the pause earlier. */
  readonly told: number;
  /** The draft that is the current probe, or null. */
  readonly probe: string | null;
  readonly reason: string;
}

/** Returns the pauses of a channel, active or expired. Usually none. Adapters accept a Retry-After of at most
 *  one hour, so a pause that ends in more than `longestMs` was written with a wrong clock and is expired. */
export async function pausesOf(q: Query, channel: string, longestMs: number): Promise<Pause[]> {
  return q.all<Pause>(
    `SELECT sender, cause, failures, told, probe, reason,
       CASE WHEN until - now_ms() > $2 THEN 0 ELSE until - now_ms() END AS remaining
     FROM pauses WHERE channel = $1`,
    channel,
    longestMs,
  );
}

/** Writes a pause without a probe, replacing an existing one. */
export async function writePause(
  q: Query,
  channel: string,
  pause: Omit<Pause, "remaining" | "probe" | "told"> & { readonly forMs: number; readonly told: boolean },
): Promise<void> {
  await q.write(
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

/** Makes the draft the probe of an expired pause. All other drafts wait for its outcome, at most
 *  `forMs`. Returns false when another draft became the probe first. */
export async function takeProbe(
  q: Query,
  channel: string,
  sender: string,
  draft: string,
  forMs: number,
  longestMs: number,
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

/** Ends the pause; drafts that waited for it become due. */
export async function endPause(q: Query, channel: string, sender: string): Promise<void> {
  const changed = await q.run("DELETE FROM pauses WHERE channel = $1 AND sender = $2", channel, sender);
  if (changed > 0) touch(q, "drafts");
}

/** Allows the next draft at once after the adapter has connected and logged in. Applies to pauses caused
 *  by a missing connection or login. Pauses by quota, or with a time from the provider, stay. */
export async function probeNow(q: Query, channel: string): Promise<void> {
  const changed = await q.run(
    `UPDATE pauses SET until = now_ms()
     WHERE channel = $1 AND cause IN ('unreachable', 'login') AND told = 0 AND probe IS NULL AND until > now_ms()`,
    channel,
  );
  if (changed > 0) touch(q, "drafts");
}
