// Pauses, of two kinds: of sending, when a provider fails, and of a channel, by an operator or by its limits.
//
// A pause of sending concerns a channel or a sender (one of our addresses). An expired pause allows one draft,
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
  readonly failures: number;
  /** Milliseconds left; zero or less when the next draft may be tried. */
  readonly remaining: number;
  /** 1 when the provider specified the time (Retry-After): a success does not end the pause earlier. */
  readonly by_provider: number;
  /** The draft that is the current probe, or null. */
  readonly probe: string | null;
  readonly reason: string;
}

/** Returns the pauses of a channel, active or expired. Usually none. Adapters accept a Retry-After of at most
 *  one hour, so a pause that ends in more than `longestMs` was written with a wrong clock and is expired. */
export const pausesOf = (q: Query, channel: string, longestMs: number): Promise<Pause[]> =>
  q.all<Pause>(readPauses, channel, longestMs);

/** Passes the pauses of a channel to `use` when they arrive (`Query.defer`). */
export const deferPauses = (
  q: Query,
  channel: string,
  longestMs: number,
  use: (pauses: readonly Pause[]) => void,
): Promise<void> => q.defer({ use }, readPauses, channel, longestMs);

const readPauses = `SELECT sender, cause, failures, by_provider, probe, reason,
       CASE WHEN until - now_ms() > $2 THEN 0 ELSE until - now_ms() END AS remaining
     FROM send_pauses WHERE channel = $1`;

/** Writes a pause without a probe, replacing an existing one. */
export async function writePause(
  q: Query,
  channel: string,
  pause: Omit<Pause, "remaining" | "probe" | "by_provider"> & {
    readonly forMs: number;
    readonly by_provider: boolean;
  },
): Promise<void> {
  await q.write(
    `INSERT INTO send_pauses (channel, sender, cause, failures, until, by_provider, reason)
     VALUES ($1, $2, $3, $4, now_ms() + $5, $6, $7)
     ON CONFLICT (channel, sender) DO UPDATE SET cause = excluded.cause, failures = excluded.failures,
       until = excluded.until, by_provider = excluded.by_provider, reason = excluded.reason, probe = NULL`,
    channel,
    pause.sender,
    pause.cause,
    pause.failures,
    pause.forMs,
    pause.by_provider ? 1 : 0,
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
    `UPDATE send_pauses SET probe = $3, until = now_ms() + $4
     WHERE channel = $1 AND sender = $2 AND (until <= now_ms() OR until > now_ms() + $5)`,
    channel,
    sender,
    draft,
    forMs,
    longestMs,
  );
  return changed === 1;
}

/** Ends the pause; drafts that waited for it become due. */
export async function endPause(q: Query, channel: string, sender: string): Promise<void> {
  const changed = await q.run("DELETE FROM send_pauses WHERE channel = $1 AND sender = $2", channel, sender);
  if (changed > 0) touch(q, "drafts");
}

/** Allows the next draft at once after the adapter has connected and logged in. Applies to pauses caused
 *  by a missing connection or login. Pauses by quota, or with a time from the provider, stay. */
export async function probeNow(q: Query, channel: string): Promise<void> {
  const changed = await q.run(
    `UPDATE send_pauses SET until = now_ms()
     WHERE channel = $1 AND cause IN ('unreachable', 'login') AND by_provider = 0 AND probe IS NULL AND until > now_ms()`,
    channel,
  );
  if (changed > 0) touch(q, "drafts");
}

// Paused channels: messages are received and stored, but nothing new is asked and nothing is sent to customers.
// An operator or a limit of the channel pauses. The rows are read by the claims themselves, so a pause takes
// effect on every node with the commit that writes it.

/** The key of a pause of all channels. */
export const everyChannel = "*";

/** `operator`: by command · `loops`: too many messages refused as loops or held by a sender's cap · `replies`: too
 *  many replies of the channel. */
export type PauseCode = "operator" | "loops" | "replies";

export interface ChannelPause {
  /** The channel's id, or `everyChannel`. */
  readonly channel: string;
  readonly code: PauseCode;
  readonly reason: string;
  /** Number of the message that caused an automatic pause; null for an operator's. */
  readonly event: number | null;
  /** Epoch milliseconds by the database's clock, like `until`. */
  readonly since: number;
  /** Null: until an operator resumes the channel. */
  readonly until: number | null;
}

/** Returns the condition that a channel is paused; `channel` is an SQL expression. */
export const isPaused = (channel: string): string =>
  `EXISTS (SELECT 1 FROM channel_pauses WHERE channel_pauses.channel IN (${channel}, '${everyChannel}')
       AND (channel_pauses.until IS NULL OR channel_pauses.until > now_ms()))`;

/** Returns whether the channel is paused, alone or with all others. */
export async function isChannelPaused(q: Query, channel: string): Promise<boolean> {
  return (await q.one(`SELECT 1 AS paused WHERE ${isPaused("$1")}`, channel)) !== undefined;
}

/** Returns SQL for the time at which the last pause of the channel alone ended; 0 without one. A row that has ended
 *  stays, so that what led to the pause does not lead to the next one. */
export const pauseEnd = (channel: string): string =>
  `COALESCE((SELECT CASE WHEN until <= now_ms() THEN until END FROM channel_pauses WHERE channel_pauses.channel = ${channel}), 0)`;

/** Returns all pauses that have not expired, the one of all channels first. */
export async function channelPauses(q: Query): Promise<ChannelPause[]> {
  return q.all<ChannelPause>(
    `SELECT channel, code, reason, event, since, until FROM channel_pauses
     WHERE until IS NULL OR until > now_ms() ORDER BY channel`,
  );
}

/** Pauses the channel, or all of them (`everyChannel`). An operator's pause replaces an existing one; an automatic
 *  one does not. `forMs`: null until it is resumed. Returns whether it was written. */
export async function pauseChannel(
  q: Query,
  pause: Pick<ChannelPause, "channel" | "code" | "reason" | "event"> & { readonly forMs: number | null },
): Promise<boolean> {
  const replaced = pause.code === "operator" ? "" : "WHERE channel_pauses.until <= now_ms()";
  const changed = await q.run(
    `INSERT INTO channel_pauses (channel, code, reason, event, since, until)
     VALUES ($1, $2, $3, $4, now_ms(), now_ms() + $5)
     ON CONFLICT (channel) DO UPDATE SET code = excluded.code, reason = excluded.reason, event = excluded.event,
       since = excluded.since, until = excluded.until ${replaced}`,
    pause.channel,
    pause.code,
    pause.reason,
    pause.event,
    pause.forMs,
  );
  return changed === 1;
}

/** Ends the pause. Work that waited for it becomes due at once. Returns the ended pause, or null when there was
 *  none. */
export async function resumeChannel(q: Query, channel: string): Promise<ChannelPause | null> {
  const ended = await q.one<ChannelPause>(
    `UPDATE channel_pauses SET until = now_ms() WHERE channel = $1 AND (until IS NULL OR until > now_ms())
     RETURNING channel, code, reason, event, since, until`,
    channel,
  );
  if (!ended) return null;
  touch(q, "turns");
  touch(q, "drafts");
  return ended;
}
