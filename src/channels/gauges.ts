// The gauges of /metrics, which are sampled at every scrape.

import type { Clock } from "bridgehead/contract";
import type { Scheduler } from "../engine/scheduler.ts";
import type { Metrics } from "../ops/metrics.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import type { Database } from "../store/driver.ts";
import { type ChannelOverview, overview, storeSize } from "../store/operators/overview.ts";
import type { Host } from "./host.ts";
import { reportChannels } from "./readiness.ts";

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

/** The gauges of one scrape share one query: the first gauge starts it, the others await its result. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | null = null;
  return () => (reading ??= read().finally(() => (reading = null)));
}

function defineChannels(metrics: Metrics, app: MeasuredApp, clock: Clock): void {
  const reports = () => reportChannels(app.host, app.agents);
  metrics.gauge({
    name: "channel_ready",
    help: "1 while the channel works: it is connected, or another node reads it.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { id, state } of reports())
        gauge.set({ channel: id }, state === "ready" || state === "standby" ? 1 : 0);
    },
  });
  metrics.gauge({
    name: "channel_asking",
    help: "1 while the agent of the channel is asked; 0 when its key is rejected, or the agent or its skill is inactive.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const one of reports())
        if (!one.notices_only) gauge.set({ channel: one.id }, one.not_asking === null ? 1 : 0);
    },
  });
  metrics.gauge({
    name: "channel_key_rejected",
    help: "1 while the platform rejects the key of the channel's agent.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const one of reports())
        if (!one.notices_only) gauge.set({ channel: one.id }, one.key_rejected ? 1 : 0);
    },
  });
  metrics.gauge({
    name: "channel_warnings",
    help: "Warnings of the channel that an operator must resolve; see /readyz.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { id, warnings } of reports()) gauge.set({ channel: id }, warnings.length);
    },
  });
  metrics.gauge({
    name: "channel_paused",
    help: "1 while the channel is paused, by an operator or by one of its limits.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { id, paused } of reports()) gauge.set({ channel: id }, paused === null ? 0 : 1);
    },
  });
  metrics.gauge({
    name: "channel_shadow",
    help: "1 while the channel is in shadow mode: replies are held and not sent.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { id, mode } of reports()) gauge.set({ channel: id }, mode === "shadow" ? 1 : 0);
    },
  });
  metrics.gauge({
    name: "channel_silence_seconds",
    help: "Seconds since the channel last proved that it reads.",
    labels: ["channel"],
    sample: (gauge) => {
      for (const { config, state, standby } of app.host.running()) {
        // A channel for notifications reads nothing, so the age of its last event has no meaning.
        if (state.heardAt !== null && config.adapter.traits.platform !== null && !standby)
          gauge.set({ channel: config.id }, (clock.now() - state.heardAt) / 1000);
      }
    },
  });
}

function defineBacklog(metrics: Metrics, app: MeasuredApp): void {
  const look = shared((): Promise<ChannelOverview[]> => app.db.read(overview));
  metrics.gauge({
    name: "backlog_items",
    help: "Open work by kind (events, turns, replies, drafts) and state. State held: it waits for an operator.",
    labels: ["channel", "kind", "state"],
    sample: async (gauge) => {
      for (const one of await look())
        for (const kind of ["events", "turns", "replies", "drafts"] as const)
          for (const [state, count] of Object.entries(one[kind]))
            gauge.set({ channel: one.channel, kind, state }, count);
    },
  });
  metrics.gauge({
    name: "capped_messages",
    help: "Messages that wait for room under the channel's cap: of preferred senders (authenticated, or known), and of others.",
    labels: ["channel", "sender"],
    sample: async (gauge) => {
      for (const { channel, capped } of await look())
        for (const [sender, count] of Object.entries(capped)) gauge.set({ channel, sender }, count);
    },
  });
  metrics.gauge({
    name: "sessions",
    help: "Live calls: open, or lost and waiting for another connection.",
    labels: ["channel", "state"],
    sample: async (gauge) => {
      for (const { channel, sessions } of await look())
        for (const [state, count] of Object.entries(sessions)) gauge.set({ channel, state }, count);
    },
  });
  metrics.gauge({
    name: "oldest_waiting_seconds",
    help: "Age of the oldest message that waits for its answer, since its arrival; includes retries and delays. 0 when none waits.",
    labels: ["channel"],
    sample: async (gauge) => {
      for (const { channel, oldest_waiting } of await look())
        gauge.set({ channel }, (oldest_waiting ?? 0) / 1000);
    },
  });
  metrics.gauge({
    name: "oldest_overdue_seconds",
    help: "Age of the oldest unanswered question, or of the most overdue reply; 0 when nothing is overdue.",
    labels: ["channel"],
    sample: async (gauge) => {
      for (const { channel, oldest_turn, oldest_draft } of await look())
        gauge.set({ channel }, Math.max(oldest_turn ?? 0, oldest_draft ?? 0) / 1000);
    },
  });
  metrics.gauge({
    name: "paused_seconds",
    help: "Time until the channel, or one of its senders, sends again after a refusal; 0 when it is not paused.",
    labels: ["channel"],
    sample: async (gauge) => {
      for (const { channel, paused_for } of await look()) gauge.set({ channel }, paused_for / 1000);
    },
  });
}
