import { describe, expect, it } from "vitest";
import { Metrics } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";

describe("metrics", () => {
  it("expose counters and histograms, under our prefix, with help and labels", async () => {
    const statistics = new Statistics();
    const metrics = new Metrics(statistics);
    statistics.count("send_attempts_total", { channel: "c", outcome: "sent" }, 2);
    statistics.observe("response_duration_seconds", { channel: "c" }, 2);
    statistics.observe("response_duration_seconds", { channel: "c" }, 1e9);
    const { body, contentType } = await metrics.expose();
    expect(contentType).toContain("text/plain");
    expect(body).toContain("# HELP bridgehead_send_attempts_total Attempts to send a reply, by outcome.");
    expect(body).toContain('bridgehead_send_attempts_total{channel="c",outcome="sent"} 2');
    expect(body).toContain('bridgehead_response_duration_seconds_bucket{channel="c",le="1"} 0');
    expect(body).toContain('bridgehead_response_duration_seconds_bucket{channel="c",le="2.5"} 1');
    expect(body).toContain('bridgehead_response_duration_seconds_bucket{channel="c",le="+Inf"} 2');
    expect(body).toContain('bridgehead_response_duration_seconds_count{channel="c"} 2');
    expect(body).toContain("bridgehead_store_commit_duration_seconds_count 0");
    expect(body).toContain("process_resident_memory_bytes");
    expect(body).toContain("nodejs_eventloop_lag_p99_seconds");
  });

  it("sample gauges at every scrape and forget labels that are gone", async () => {
    const metrics = new Metrics(new Statistics());
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
    const metrics = new Metrics(new Statistics());
    const sample = () => undefined;
    metrics.gauge({ name: "turns", help: "x", sample });
    expect(() => metrics.gauge({ name: "turns", help: "x", sample })).toThrow("already been registered");
    expect(() => metrics.gauge({ name: "Turns", help: "x", sample })).toThrow("is not a metric's name");
  });
});
