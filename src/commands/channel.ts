// bridgehead pause, resume and channel list: stops and continues the answering of customers, and shows the state of
// every channel. Reads the keys store and channels only. The running daemon reads a change with its next claim.

import { type ChannelSummary, loadStore } from "../config/index.ts";
import { commandText } from "../domain/command-text.ts";
import { counted, durationText } from "../domain/duration-text.ts";
import type { Database } from "../store/driver.ts";
import {
  type ChannelStates,
  channelStates,
  pause as pauseIn,
  resume as resumeIn,
} from "../store/operators/channels.ts";
import { type ChannelPause, everyChannel } from "../store/tables/pauses.ts";
import { type CommandOptions, exitCodes, type Io } from "./io.ts";
import { failUnknownChannel, load, useStore } from "./store/open.ts";
import { clean, type ListColumn, printList, when } from "./text.ts";

interface ChannelOptions extends CommandOptions {
  readonly channel?: string;
  readonly reason?: string;
  /** Milliseconds. */
  readonly for?: number;
}

type Known = readonly ChannelSummary[];

async function withChannels(
  options: ChannelOptions,
  io: Io,
  work: (db: Database, channels: Known) => Promise<number>,
): Promise<number> {
  const loaded = await load(loadStore, options, io);
  const { channel } = options;
  const ids = loaded.channels.map(({ id }) => id);
  if (channel !== undefined && !ids.includes(channel)) failUnknownChannel(channel, ids, loaded.file);
  return useStore(loaded, io, (db) => work(db, loaded.channels));
}

const named = (channel: string | undefined): string => (channel === undefined ? "all channels" : `channel ${channel}`);

export const pauseChannel = (options: ChannelOptions, io: Io): Promise<number> =>
  withChannels(options, io, async (db) => {
    const { channel, reason = "", for: forMs = null } = options;
    const replaced = await pauseIn(db, {
      channel: channel ?? everyChannel,
      reason: clean(reason) || "no reason given",
      forMs,
    });
    const until = forMs === null ? "until resumed" : `for ${durationText(forMs)}`;
    io.out(`${named(channel)}: paused ${until}`);
    if (replaced !== null) io.err(replacedText(replaced));
    io.out("messages are received and stored; nothing is asked or sent to customers");
    return exitCodes.ok;
  });

export const resumeChannel = (options: ChannelOptions, io: Io): Promise<number> =>
  withChannels(options, io, async (db, channels) => {
    const { ended, remaining } = await resumeIn(db, options.channel ?? everyChannel);
    io.out(`${named(options.channel)}: ${ended ? `resumed (was paused: ${ended.reason})` : "not paused"}`);
    for (const one of remaining) io.err(stillPaused(one, options));
    if (ended) {
      const { work } = await channelStates(db);
      for (const { id } of channels) {
        const { unanswered = 0, unsent = 0 } = work.get(id) ?? {};
        const isResumed = options.channel === undefined || options.channel === id;
        if (isResumed && unanswered + unsent > 0)
          io.out(
            `${id}: ${counted(unanswered, "message")} to answer, ${counted(unsent, "reply", "replies")} to send; those that waited longer than max_age are held`,
          );
      }
    }
    // The channel that was named still sends nothing.
    return options.channel !== undefined && remaining.length > 0 ? exitCodes.failed : exitCodes.ok;
  });

const replacedText = ({ since, until, reason }: ChannelPause): string =>
  `this replaces the pause since ${when(since)} ${until === null ? "until resumed" : `until ${when(until)}`} (${clean(reason)})`;

const stillPaused = ({ channel, since, reason }: ChannelPause, { config }: CommandOptions): string =>
  channel === everyChannel
    ? `all channels are paused since ${when(since)} (${reason}): ${commandText("resume", config)}`
    : `channel ${channel} is still paused since ${when(since)} (${reason}): ${commandText(`resume ${channel}`, config)}`;

const columns: readonly ListColumn<ReturnType<typeof rowsOf>[number]>[] = [
  { head: "CHANNEL", cell: ({ id }) => id },
  { head: "ADAPTER", cell: ({ adapter }) => adapter },
  { head: "AGENT", cell: ({ agent }) => agent },
  { head: "MODE", cell: ({ mode }) => mode },
  {
    head: "STATE",
    state: true,
    cell: ({ enabled, paused, ...one }) =>
      "removed" in one ? "removed" : enabled ? (paused ? "paused" : "active") : "disabled",
  },
  { head: "SINCE (UTC)", cell: ({ paused }) => paused && when(paused.since) },
  { head: "UNTIL (UTC)", cell: ({ paused }) => (paused?.until ? when(paused.until) : null) },
  { head: "UNANSWERED", right: true, cell: ({ unanswered }) => unanswered },
  { head: "UNSENT", right: true, cell: ({ unsent }) => unsent },
  { head: "HELD", right: true, cell: ({ held }) => held },
  { head: "REASON", flexible: true, cell: ({ paused }) => paused && reasonOf(paused) },
];

export const listChannels = (options: ChannelOptions, io: Io): Promise<number> =>
  withChannels(options, io, async (db, channels) => {
    printList(rowsOf(channels, await channelStates(db)), columns, options, io);
    return exitCodes.ok;
  });

/** Includes channels that the file has no more, while something waits on them. */
function rowsOf(channels: Known, { pauses, work }: ChannelStates) {
  const none = { unanswered: 0, unsent: 0, held: 0, oldest: null };
  const removed = [...work].flatMap(([id, { unanswered, unsent, held }]) =>
    unanswered + unsent + held === 0 || channels.some((one) => one.id === id)
      ? []
      : { id, adapter: "", agent: "", enabled: false, mode: "live" as const, removed: true },
  );
  return [...channels, ...removed].map((channel) => ({
    ...channel,
    paused:
      pauses.find((one) => one.channel === channel.id) ?? pauses.find((one) => one.channel === everyChannel) ?? null,
    ...(work.get(channel.id) ?? none),
  }));
}

const reasonOf = ({ channel, code, reason, event }: ChannelPause): string =>
  [
    channel === everyChannel ? "all channels: " : "",
    clean(reason),
    code === "operator" || event === null ? "" : ` (inbox show ${event})`,
  ].join("");
