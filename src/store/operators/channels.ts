// Operator commands for channels: pause, resume, and the state of every channel. For the command line and the web
// console. Each function runs inside the caller's transaction.

import { failpoints } from "../../ops/failpoints.ts";
import type { Database } from "../driver.ts";
import { type ChannelPause, channelPauses, everyChannel, pauseChannel, resumeChannel } from "../tables/pauses.ts";
import { type ChannelOverview, overview } from "./overview.ts";

/** What waits on a channel. */
export interface ChannelWork {
  /** Messages that are stored, and questions that were not answered yet. */
  readonly unanswered: number;
  /** Replies that were not sent yet. */
  readonly unsent: number;
  /** Messages and replies that wait for an operator. */
  readonly held: number;
  /** Milliseconds since the oldest unanswered message was accepted; null if none exists. */
  readonly oldest: number | null;
}

/** Everything that is paused, and the work of every channel that ever ran. */
export interface ChannelStates {
  readonly pauses: readonly ChannelPause[];
  readonly work: ReadonlyMap<string, ChannelWork>;
}

export async function channelStates(db: Database): Promise<ChannelStates> {
  const { pauses, channels } = await db.read(async (q) => ({
    pauses: await channelPauses(q),
    channels: await overview(q),
  }));
  return { pauses, work: new Map(channels.map((one) => [one.channel, workOf(one)])) };
}

/** Adds up what waits on a channel. */
export function workOf({ events, turns, replies, drafts, oldest_turn }: ChannelOverview): ChannelWork {
  const total = (counts: { readonly [state: string]: number }, ...states: readonly string[]) =>
    states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return {
    unanswered: total(events, "stored") + total(turns, "waiting", "asking", "unknown"),
    unsent: total(replies, "ready") + total(drafts, "queued", "sending", "unknown"),
    held: total(events, "held", "failed") + total(drafts, "held", "failed"),
    oldest: oldest_turn,
  };
}

/** Pauses the channel, or all of them (`everyChannel`). Returns the pause that it replaces, or null. `forMs`: null until it
 *  is resumed. Effective on every node when the transaction commits; an attempt that is being made ends normally. */
export async function pause(
  db: Database,
  wanted: { readonly channel: string; readonly reason: string; readonly forMs: number | null },
): Promise<ChannelPause | null> {
  const replaced = await db.tx(async (q) => {
    const former = (await channelPauses(q)).find(({ channel }) => channel === wanted.channel);
    await pauseChannel(q, { ...wanted, code: "operator", event: null });
    await db.wake(q);
    failpoints["pause.commit"].publish({ phase: "before", channel: wanted.channel });
    return former ?? null;
  });
  failpoints["pause.commit"].publish({ phase: "after", channel: wanted.channel });
  return replaced;
}

/** Ends the pause of the channel, or that of all channels (`everyChannel`); the pauses of single channels stay then.
 *  Returns the ended pause, null when there was none, and the pauses that remain for the channel. */
export async function resume(
  db: Database,
  channel: string,
): Promise<{ readonly ended: ChannelPause | null; readonly remaining: readonly ChannelPause[] }> {
  return db.tx(async (q) => {
    const ended = await resumeChannel(q, channel);
    await db.wake(q);
    const left = await channelPauses(q);
    return {
      ended,
      remaining: left.filter((one) => channel === everyChannel || one.channel === everyChannel),
    };
  });
}
