// The gauges of /metrics, which are sampled at every scrape.

import type { Clock } from "bridgehead/contract";
import type { Scheduler } from "../engine/scheduler.ts";
import type { Metrics } from "../ops/metrics.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import type { Database } from "../store/driver.ts";
import { type ChannelOverview, overview, storeSize } from "../store/operators/overview.ts";
import type { Host } from "./host.ts";
import { type ChannelReport, reportChannels } from "./readiness.ts";

interface MeasuredApp {
  readonly db: Database;
  readonly scheduler: Scheduler;
  readonly host: Host;
  readonly agents: ReadonlyMap<string, RunningAgent>;
}

/** Defines the daemon's own gauges; call once per registry. `build` are the labels of `build_info`; `freeBytes` returns the
 *  free space of the store's disk. */
export function defineGauges(
  metrics: Metrics,
  app: MeasuredApp,
  clock: Clock,
  build: Readonly<Record<"version" | "node" | "store" | "schema", string>>,
  freeBytes: (() => Promise<number>) | null,
): void {
  metrics.gauge({
    name: "build_info",
    help: "Always 1; the labels are the versions of Bridgehead, Node.js and the schema, and the kind of store.",
    labels: ["version", "node", "store", "schema"],
    sample: (gauge) => gauge.set(build, 1),
  });
  defineChannels(metrics, app, clock);
  defineBacklog(metrics, app);
  metrics.gauge({
    name: "work_running",
    help: "Questions being asked and drafts being sent right now.",
    sample: (gauge) => gauge.set(app.scheduler.running()),
  });
  metrics.gauge({
    name: "store_size_bytes",
    help: "Size of the store, without the write-ahead log of an SQLite store.",
    sample: async (gauge) => gauge.set(await app.db.read(storeSize)),
  });
  metrics.gauge({
    name: "store_free_bytes",
    help: "Free space of the disk with an SQLite store; absent with PostgreSQL.",
    sample: async (gauge) => {
      if (freeBytes !== null) gauge.set(await freeBytes());
    },
  });
}

function defineChannels(metrics: Metrics, app: MeasuredApp, clock: Clock): void {
  /** `value`: null for a channel without one. */
  const define = (name: string, help: string, value: (report: ChannelReport) => number | null): void =>
    metrics.gauge({
      name,
      help,
      labels: ["channel"],
      sample: (gauge) => {
        for (const report of reportChannels(app.host, app.agents)) {
          const found = value(report);
          if (found !== null) gauge.set({ channel: report.id }, found);
        }
      },
    });
  define("channel_ready", "1 while the channel works: it is connected, or another node reads it.", ({ state }) =>
    state === "ready" || state === "standby" ? 1 : 0,
  );
  define(
    "channel_asking",
    "1 while the agent of the channel is asked; 0 when its key or that of its model is rejected, its settings were never read, or the agent or its skill is inactive.",
    (one) => (one.notices_only ? null : Number(one.not_asking === null)),
  );
  define(
    "channel_inactive",
    "1 while the agent is not asked because the platform reports it or its skill as inactive: an operator wants it so.",
    (one) => (one.notices_only ? null : Number(one.inactive === true)),
  );
  define("channel_key_rejected", "1 while the platform rejects the key of the channel's agent.", (one) =>
    one.notices_only ? null : Number(one.key_rejected),
  );
  define(
    "channel_warnings",
    "Warnings of the channel that an operator must resolve; see /readyz.",
    ({ warnings }) => warnings.length,
  );
  define("channel_paused", "1 while the channel is paused, by an operator or by one of its limits.", ({ paused }) =>
    Number(paused !== null),
  );
  define("channel_shadow", "1 while the channel is in shadow mode: replies are held and not sent.", ({ mode }) =>
    Number(mode === "shadow"),
  );
  metrics.gauge({
    name: "channel_silence_seconds",
    help: "Seconds since the channel last proved that it reads.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { config, state } of app.host.running()) {
        // A channel for notifications reads nothing, so the age of its last event has no meaning.
        if (state.lastActivityAt !== null && config.adapter.traits.platform !== null && !state.isStandby)
          gauge.set({ channel: config.id }, (clock.now() - state.lastActivityAt) / 1000);
      }
    },
  });
}

function defineBacklog(metrics: Metrics, app: MeasuredApp): void {
  // The gauges of one scrape share one query: the first gauge starts it, the others await its result.
  let reading: Promise<ChannelOverview[]> | null = null;
  const look = () => (reading ??= app.db.read(overview).finally(() => (reading = null)));
  /** `values`: the values of a channel, each with those of `labels`. */
  const define = (
    name: string,
    help: string,
    labels: readonly string[],
    values: (one: ChannelOverview) => readonly (readonly [value: number, ...labels: string[]])[],
  ): void =>
    metrics.gauge({
      name,
      help,
      labels: ["channel", ...labels],
      sample: async (gauge) => {
        for (const one of await look())
          for (const [value, ...given] of values(one)) {
            const own = labels.map((label, at) => [label, given[at] ?? ""] as const);
            gauge.set({ channel: one.channel, ...Object.fromEntries(own) }, value);
          }
      },
    });
  const each = (counts: Readonly<Record<string, number>>, ...before: string[]) =>
    Object.entries(counts).map(([key, count]) => [count, ...before, key] as const);
  define(
    "backlog_items",
    "Open work by kind (events, turns, replies, drafts) and state. State held: it waits for an operator.",
    ["kind", "state"],
    (one) => (["events", "turns", "replies", "drafts"] as const).flatMap((kind) => each(one[kind], kind)),
  );
  define(
    "capped_messages",
    "Messages that wait for room under the channel's cap: of preferred senders (authenticated, or known), and of others.",
    ["sender"],
    ({ capped }) => each(capped),
  );
  define("sessions", "Live calls: open, or lost and waiting for another connection.", ["state"], (one) =>
    each(one.sessions),
  );
  define(
    "oldest_waiting_seconds",
    "Age of the oldest message that waits for its answer, since its arrival; includes retries and delays. 0 when none waits.",
    [],
    (one) => [[(one.oldest_waiting ?? 0) / 1000]],
  );
  define(
    "oldest_overdue_seconds",
    "Age of the oldest unanswered question, or of the most overdue reply; 0 when nothing is overdue.",
    [],
    (one) => [[Math.max(one.oldest_turn ?? 0, one.oldest_draft ?? 0) / 1000]],
  );
  define(
    "paused_seconds",
    "Time until the channel, or one of its senders, sends again after a refusal; 0 when it is not paused.",
    [],
    (one) => [[one.paused_for / 1000]],
  );
}
