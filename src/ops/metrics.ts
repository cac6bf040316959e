// Prometheus metrics. Each of our names begins with `bridgehead_` and is defined once, with its help text.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

export interface Definition<Label extends string> {
  /** Without the prefix: `attempts_total`. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Label[];
}
export interface Metrics {
  /** Only increases; the name ends in `_total`. */
  counter<Label extends string = never>(definition: Definition<Label>): Counter<Label>;
  /** A current value. `sample` is called at every scrape and sets it. */
  gauge<Label extends string = never>(
    definition: Definition<Label> & { readonly sample?: (gauge: Gauge<Label>) => void | Promise<void> },
  ): Gauge<Label>;
  /** A distribution, in seconds. */
  histogram<Label extends string = never>(
    definition: Definition<Label> & { readonly buckets?: readonly number[] },
  ): Histogram<Label>;
  /** Returns the response body of a scrape. */
  expose(): Promise<{ readonly contentType: string; readonly body: string }>;
}

const prefix = "bridgehead_";
const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Creates a separate registry with the default process metrics (memory, CPU, event-loop lag, open
 *  files). */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const common = <Label extends string>({ name, help, labels }: Definition<Label>) => {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) throw new Error(`defining a metric: ${name} is not a metric's name`);
    return { name: prefix + name, help, labelNames: [...(labels ?? [])], registers: [registry] };
  };
  return {
    counter: (definition) => new Counter(common(definition)),
    gauge(definition) {
      const { sample } = definition;
      if (sample === undefined) return new Gauge(common(definition));
      return new Gauge({
        ...common(definition),
        async collect() {
          this.reset();
          await sample(this);
        },
      });
    },
    histogram: (definition) =>
      new Histogram({ ...common(definition), buckets: [...(definition.buckets ?? seconds)] }),
    expose: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}
