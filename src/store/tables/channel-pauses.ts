// Paused channels: messages are received and stored, but nothing new is asked and nothing is sent to customers.
// An operator or a limit of the channel pauses. The rows are read by the claims themselves, so a pause takes
// effect on every node with the commit that writes it. Backoff of a failing provider is in pauses.ts.

import { type Query, touch } from "../driver.ts";

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
    pause.forMs === null ? null : Math.ceil(pause.forMs),
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
