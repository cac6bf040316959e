// Gauges of the channels and the store for /metrics, sampled at every scrape.

import type { Clock } from "bridgehead/contract";
import type { Scheduler } from "../engine/scheduler.ts";
import type { Metrics } from "../ops/metrics.ts";
import type { Agent } from "../pipeline/settings.ts";
import type { Database } from "../store/driver.ts";
import { type ChannelOverview, overview } from "../store/tables/overview.ts";
import type { Host } from "./host.ts";
import { reportChannels } from "./readiness.ts";

/** Defines the daemon's own gauges; call once per registry. */
export function defineGauges(
  metrics: Metrics,
  app: {
    readonly db: Database;
    readonly scheduler: Scheduler;
    readonly host: Host;
    readonly agents: ReadonlyMap<string, Agent>;
  },
  clock: Clock,
): void {
  // The gauges of one scrape share one query: the first gauge starts it, the others await its result.
  let looking: Promise<ChannelOverview[]> | null = null;
  const look = (): Promise<ChannelOverview[]> =>
    (looking ??= app.db.read(overview).finally(() => (looking = null)));
  metrics.gauge({
    name: "channel_ready",
    help: "1 while the channel works.",
    labels: ["channel"],
    sample: (gauge) => {
      gauge.reset();
      for (const channel of reportChannels(app.host, app.agents)) {
        gauge.set({ channel: channel.id }, channel.state === "ready" ? 1 : 0);
      }
    },
  });
  metrics.gauge({
    name: "channel_silence_seconds",
    help: "Seconds since the channel last proved that it reads.",
    labels: ["channel"],
    sample: (gauge) => {
      gauge.reset();
      for (const { config, state } of app.host.running()) {
        // A channel for notifications reads nothing, so the age of its last event has no meaning.
        if (state.heardAt !== null && config.adapter.traits.platform !== null)
          gauge.set({ channel: config.id }, (clock.now() - state.heardAt) / 1000);
      }
    },
  });
  const kinds = { events: "Messages", turns: "Questions", replies: "Answers", drafts: "Outgoing messages" };
  for (const kind of ["events", "turns", "replies", "drafts"] as const) {
    metrics.gauge({
      name: `open_${kind}`,
      help: `${kinds[kind]} that are not done, by state.`,
      labels: ["channel", "state"],
      sample: async (gauge) => {
        gauge.reset();
        for (const one of await look()) {
          for (const [state, count] of Object.entries(one[kind]))
            gauge.set({ channel: one.channel, state }, count);
        }
      },
    });
  }
  metrics.gauge({
    name: "capped_messages",
    help: "Messages that wait for room under the channel's cap: of preferred senders (authenticated, or known), and of others.",
    labels: ["channel", "sender"],
    sample: async (gauge) => {
      gauge.reset();
      for (const { channel, capped } of await look()) {
        for (const [sender, count] of Object.entries(capped)) gauge.set({ channel, sender }, count);
      }
    },
  });
  metrics.gauge({
    name: "sessions",
    help: "Live calls: open, or lost and waiting for another connection.",
    labels: ["channel", "state"],
    sample: async (gauge) => {
      gauge.reset();
      for (const { channel, sessions } of await look()) {
        for (const [state, count] of Object.entries(sessions)) gauge.set({ channel, state }, count);
      }
    },
  });
  metrics.gauge({
    name: "oldest_due_seconds",
    help: "Age of the oldest unanswered question, or of the most overdue outgoing message; 0 when nothing waits.",
    labels: ["channel"],
    sample: async (gauge) => {
      gauge.reset();
      for (const { channel, oldest_turn, oldest_draft } of await look()) {
        gauge.set({ channel }, Math.max(oldest_turn ?? 0, oldest_draft ?? 0) / 1000);
      }
    },
  });
  metrics.gauge({
    name: "working",
    help: "Questions being asked and drafts being sent right now.",
    sample: (gauge) => gauge.set(app.scheduler.running()),
  });
}
