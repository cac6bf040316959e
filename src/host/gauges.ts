// What /metrics says of the channels and the store; sampled at every scrape.

import type { Clock } from "bridgehead/contract";
import type { Metrics } from "../ops/metrics.ts";
import type { Agent } from "../pipeline/settings.ts";
import type { Flow } from "../pipeline/step.ts";
import type { Database } from "../store/driver.ts";
import { overview, stateCounts } from "../store/overview.ts";
import type { Host } from "./host.ts";
import { reportChannels } from "./readiness.ts";

/** Defines the daemon's own gauges; call once per registry. */
export function defineGauges(
  metrics: Metrics,
  app: { readonly db: Database; readonly flow: Flow; readonly host: Host; readonly agents: ReadonlyMap<string, Agent> },
  clock: Clock,
): void {
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
        if (state.heardAt !== null) gauge.set({ channel: config.id }, (clock.now() - state.heardAt) / 1000);
      }
    },
  });
  for (const table of ["turns", "drafts"] as const) {
    metrics.gauge({
      name: table,
      help: `${table === "turns" ? "Questions" : "Outgoing messages"} in the store, by state.`,
      labels: ["channel", "state"],
      sample: async (gauge) => {
        gauge.reset();
        for (const { channel, state, count } of await app.db.read((q) => stateCounts(q, table))) {
          gauge.set({ channel, state }, count);
        }
      },
    });
  }
  metrics.gauge({
    name: "waiting",
    help: "Turns and drafts that wait.",
    sample: async (gauge) => gauge.set((await app.db.read(overview)).waiting),
  });
  metrics.gauge({
    name: "oldest_due_seconds",
    help: "Seconds that the oldest due turn or draft has waited; 0 when nothing is due.",
    sample: async (gauge) => {
      const { oldest_turn_ms, oldest_draft_ms } = await app.db.read(overview);
      gauge.set(Math.max(oldest_turn_ms ?? 0, oldest_draft_ms ?? 0) / 1000);
    },
  });
  metrics.gauge({
    name: "working",
    help: "Questions being asked and drafts being sent right now.",
    sample: (gauge) => gauge.set(app.flow.running()),
  });
}
