// bridgehead pause, resume and channel list: stops and continues the answering of customers, and shows the state of
// every channel. Reads the keys store and channels only. The running daemon reads a change with its next claim.

import { resolve } from "node:path";
import { type ChannelSummary, loadStore } from "../config/index.ts";
import { duration } from "../config/schema/values.ts";
import type { Database } from "../store/driver.ts";
import {
  type ChannelStates,
  channelStates,
  pause as pauseIn,
  resume as resumeIn,
} from "../store/operators/channels.ts";
import { type ChannelPause, everyChannel } from "../store/tables/pauses.ts";
import { type Command, exitCodes, type Io, problemLine } from "./io.ts";
import { useStore } from "./store/open.ts";
import { clean, jsonText, type ListColumn, listing, when } from "./text.ts";

interface ChannelOptions {
  readonly config: string;
  readonly channel?: string;
  readonly json?: boolean;
}

interface PauseOptions extends ChannelOptions {
  readonly reason?: string;
  /** A duration in the syntax of the configuration. */
  readonly for?: string;
}

type Known = readonly ChannelSummary[];

async function withChannels(
  options: ChannelOptions,
  io: Io,
  work: (db: Database, channels: Known) => Promise<number>,
): Promise<number> {
  const loaded = await loadStore(resolve(io.cwd, options.config), { env: io.env });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  const { channel } = options;
  const ids = loaded.channels.map(({ id }) => id);
  if (channel !== undefined && !ids.includes(channel)) {
    io.err(`there is no channel ${channel} in ${loaded.file}: it has ${ids.join(", ") || "none"}`);
    return exitCodes.usage;
  }
  return useStore(loaded, io, (db) => work(db, loaded.channels));
}

const named = (channel: string | undefined): string =>
  channel === undefined ? "all channels" : `channel ${channel}`;

export const pause: Command<PauseOptions> = {
  run(options, io) {
    const time = duration.optional().safeParse(options.for);
    if (!time.success || time.data === 0) {
      const why = time.success ? "must be longer than 0" : time.error.issues[0]?.message;
      io.err(`--for ${options.for}: ${why}`);
      return Promise.resolve(exitCodes.usage);
    }
    return withChannels(options, io, async (db) => {
      const channel = options.channel ?? everyChannel;
      const reason = clean(options.reason ?? "") || "no reason given";
      await pauseIn(db, { channel, reason, forMs: time.data ?? null });
      const until = options.for === undefined ? "until it is resumed" : `for ${options.for}`;
      io.out(`${named(options.channel)}: paused ${until}`);
      io.out("messages are received and stored; nothing is asked or sent to customers");
      return exitCodes.ok;
    });
  },
};

export const resume: Command<ChannelOptions> = {
  run: (options, io) =>
    withChannels(options, io, async (db, channels) => {
      const { ended, remaining } = await resumeIn(db, options.channel ?? everyChannel);
      io.out(`${named(options.channel)}: ${ended ? `resumed (was paused: ${ended.reason})` : "not paused"}`);
      for (const one of remaining) io.err(stillPaused(one));
      if (ended) {
        const { work } = await channelStates(db);
        for (const { id } of channels) {
          const { unanswered = 0, unsent = 0 } = work.get(id) ?? {};
          const isResumed = options.channel === undefined || options.channel === id;
          if (isResumed && unanswered + unsent > 0)
            io.out(
              `${id}: ${unanswered} messages to answer, ${unsent} replies to send; those that waited longer than max_age are held`,
            );
        }
      }
      // The channel that was named still sends nothing.
      return options.channel !== undefined && remaining.length > 0 ? exitCodes.failed : exitCodes.ok;
    }),
};

const stillPaused = ({ channel, since, reason }: ChannelPause): string =>
  channel === everyChannel
    ? `all channels are paused since ${when(since)} (${reason}): bridgehead resume`
    : `channel ${channel} is still paused since ${when(since)} (${reason}): bridgehead resume ${channel}`;

const columns: readonly ListColumn[] = [
  { head: "CHANNEL" },
  { head: "ADAPTER" },
  { head: "AGENT" },
  { head: "MODE" },
  { head: "STATE", state: true },
  { head: "SINCE (UTC)" },
  { head: "UNTIL (UTC)" },
  { head: "UNANSWERED", right: true },
  { head: "UNSENT", right: true },
  { head: "HELD", right: true },
  { head: "REASON", flexible: true },
];

interface ListOptions extends ChannelOptions {
  readonly action: "list";
}

export const list: Command<ListOptions> = {
  run: (options, io) =>
    withChannels(options, io, async (db, channels) => {
      const rows = rowsOf(channels, await channelStates(db));
      if (options.json) io.out(jsonText(rows));
      else if (rows.length === 0) io.out("there are no channels");
      else {
        const cells = rows.map((row) => [
          row.id,
          row.adapter,
          row.agent,
          row.mode,
          row.enabled ? (row.paused ? "paused" : "active") : "disabled",
          row.paused ? when(row.paused.since) : "",
          row.paused?.until ? when(row.paused.until) : "",
          String(row.unanswered),
          String(row.unsent),
          String(row.held),
          row.paused ? reasonOf(row.paused) : "",
        ]);
        io.out(listing(columns, cells, io));
      }
      return exitCodes.ok;
    }),
};

function rowsOf(channels: Known, { pauses, work }: ChannelStates) {
  const none = { unanswered: 0, unsent: 0, held: 0, oldest: null };
  return channels.map((channel) => ({
    ...channel,
    paused:
      pauses.find((one) => one.channel === channel.id) ??
      pauses.find((one) => one.channel === everyChannel) ??
      null,
    ...(work.get(channel.id) ?? none),
  }));
}

const reasonOf = ({ channel, code, reason, event }: ChannelPause): string =>
  [
    channel === everyChannel ? "all channels: " : "",
    clean(reason),
    code === "operator" || event === null ? "" : ` (inbox show ${event})`,
  ].join("");
