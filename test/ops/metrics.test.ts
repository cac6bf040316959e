import { describe, expect, it } from "vitest";
import { createMetrics } from "../../src/ops/metrics.ts";

describe("metrics", () => {
  it("expose what was defined, under our prefix, with help and labels", async () => {
    const metrics = createMetrics();
    metrics
      .counter({ name: "attempts_total", help: "Attempts by outcome.", labels: ["outcome"] })
      .inc({ outcome: "sent" }, 2);
    metrics
      .histogram({ name: "ask_seconds", help: "How long the platform takes.", buckets: [1, 2] })
      .observe(1.5);
    const { body, contentType } = await metrics.expose();
    expect(contentType).toContain("text/plain");
    expect(body).toContain("# HELP bridgehead_attempts_total Attempts by outcome.");
    expect(body).toContain('bridgehead_attempts_total{outcome="sent"} 2');
    expect(body).toContain('bridgehead_ask_seconds_bucket{le="2"} 1');
    expect(body).toContain("process_resident_memory_bytes");
  });

  it("sample gauges at every scrape and forget labels that are gone", async () => {
    const metrics = createMetrics();
    let channels = ["a", "b"];
    metrics.gauge({
      name: "channel_ready",
      help: "1 when ready.",
      labels: ["channel"],
      sample: async (gauge) => {
        for (const channel of channels) gauge.set({ channel }, 1);
      },
    });
    expect((await metrics.expose()).body).toContain('bridgehead_channel_ready{channel="b"} 1');
    channels = ["a"];
    const { body } = await metrics.expose();
    expect(body).toContain('bridgehead_channel_ready{channel="a"} 1');
    expect(body).not.toContain('channel="b"');
  });

  it("refuse a second definition and a bad name", () => {
    const metrics = createMetrics();
    metrics.counter({ name: "turns_total", help: "x" });
    expect(() => metrics.counter({ name: "turns_total", help: "x" })).toThrow("already been registered");
    expect(() => metrics.counter({ name: "Turns", help: "x" })).toThrow("is not a metric's name");
  });
});
