// Prometheus metrics: the counters and histograms of statistics.ts, gauges that are sampled at every scrape, and the metrics
// of the process. Each of our names begins with `bridgehead_` and is defined once, with its help text. Loaded at the first
// scrape.

import { collectDefaultMetrics, Gauge, type Metric, Registry } from "prom-client";
import { type Measure, type MeasureName, measures, prefix, type Statistics } from "./statistics.ts";

interface GaugeDefinition<Label extends string> {
  /** Without the prefix: `sessions`. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Label[];
  readonly sample: (gauge: Gauge<Label>) => void | Promise<void>;
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

/** The metrics of the process (memory, CPU, event-loop delay, open files), the statistics, and gauges. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #all: Described[] = [];

  constructor(statistics: Statistics) {
    collectDefaultMetrics({ register: this.#registry });
    for (const name of misnamed) this.#registry.removeSingleMetric(name);
    for (const [key, { type, help, labels }] of Object.entries<Measure>(measures)) {
      const described = { name: prefix + key, type, help, labels };
      this.#all.push(described);
      // The registry asks for nothing else of a metric.
      const metric = {
        ...described,
        get: async () => ({ ...described, values: statistics.samples(key as MeasureName), aggregator: "sum" }),
      };
      this.#registry.registerMetric(metric as unknown as Metric);
    }
  }

  /** Defines a current value. `sample` is called at every scrape and sets it; labels that it does not set are gone. */
  gauge<Label extends string = never>({ name, help, labels = [], sample }: GaugeDefinition<Label>): void {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`defining a metric: ${name} is not a metric's name`);
    this.#all.push({ name: prefix + name, type: "gauge", help, labels });
    void new Gauge({
      name: prefix + name,
      help,
      labelNames: [...labels],
      registers: [this.#registry],
      async collect() {
        this.reset();
        await sample(this);
      },
    });
  }

  /** Returns the response body of a scrape. */
  async expose(): Promise<{ readonly contentType: string; readonly body: string }> {
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  /** Returns all metrics of the daemon itself, for the documentation. */
  described(): readonly Described[] {
    return this.#all;
  }
}
