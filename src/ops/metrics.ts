// Prometheus metrics: the counters and histograms of statistics.ts, gauges that are sampled at every scrape, and the metrics
// of the process. Each of our names begins with `bridgehead_` and is defined once, with its help text. Loaded at the first
// scrape.

import { collectDefaultMetrics, Gauge, type Metric, Registry } from "prom-client";
import { type Measure, type MeasureName, measures, prefix, type Statistics } from "./statistics.ts";

interface Definition<Label extends string> {
  /** Without the prefix: `sessions`. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Label[];
}

export interface Metrics {
  /** A current value. `sample` is called at every scrape and sets it; labels that it does not set are gone. */
  gauge<Label extends string = never>(
    definition: Definition<Label> & { readonly sample: (gauge: Gauge<Label>) => void | Promise<void> },
  ): void;
  /** Returns the response body of a scrape. */
  expose(): Promise<{ readonly contentType: string; readonly body: string }>;
  /** Returns all metrics of the daemon itself, for the documentation. */
  described(): readonly Described[];
}

/** One metric, with the prefix in its name. */
export interface Described {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

/** Metrics of prom-client whose names contradict the conventions (a gauge that ends in `_total`). */
const misnamed = ["nodejs_active_resources_total", "nodejs_active_handles_total", "nodejs_active_requests_total"];

/** Creates a registry with the metrics of the process (memory, CPU, event-loop delay, open files) and the statistics. */
export function createMetrics(statistics: Statistics): Metrics {
  const registry = new Registry();
  const all: Described[] = [];
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  for (const [key, { type, help, labels }] of Object.entries<Measure>(measures)) {
    const described = { name: prefix + key, type, help, labels };
    all.push(described);
    // The registry asks for nothing else of a metric.
    const metric = {
      ...described,
      get: async () => ({ ...described, values: statistics.samples(key as MeasureName), aggregator: "sum" }),
    };
    registry.registerMetric(metric as unknown as Metric);
  }
  return {
    gauge({ name, help, labels = [], sample }) {
      if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`defining a metric: ${name} is not a metric's name`);
      all.push({ name: prefix + name, type: "gauge", help, labels });
      return void new Gauge({
        name: prefix + name,
        help,
        labelNames: [...labels],
        registers: [registry],
        async collect() {
          this.reset();
          await sample(this);
        },
      });
    },
    expose: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    described: () => all,
  };
}
