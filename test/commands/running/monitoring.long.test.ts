// The dashboard and the alerting rules that are shipped, against the metrics of the running daemon.

import { execFile, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { parse, stringify } from "yaml";
import { childEnv, root } from "../../support/machine/command.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { newFolder } from "../../support/resources.ts";

const run = promisify(execFile);
const rulesFile = join(root, "monitoring/alerts.yaml");

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}
const rules = (parse(readFileSync(rulesFile, "utf8")) as { groups: [{ rules: Rule[] }] }).groups[0].rules;

const dashboard = JSON.parse(readFileSync(join(root, "monitoring/grafana.json"), "utf8")) as {
  readonly panels: readonly { readonly id: number; readonly targets: readonly { readonly expr: string }[] }[];
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
};
const queries = [
  ...rules.map(({ expr }) => expr),
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.flatMap(({ query }) => (typeof query === "string" ? [] : [query.query])),
];

const adapter = `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "probe", contract: 1, config: z.strictObject({}),
  traits: { attachments: false, conversations: "person", platform: "sms" },
  create: () => ({}),
};`;

/** Starts the program, and returns the body of its /metrics. */
async function scrape(): Promise<string> {
  const folder = newFolder();
  writeFileSync(join(folder, "probe.mjs"), adapter);
  const file = join(folder, "bridgehead.yaml");
  const text = {
    platform: { url: "http://127.0.0.1:9" },
    agents: { support: { key: "${env:KEY}" } },
    channels: { texts: { adapter: "./probe.mjs", agent: "support" } },
    http: { listen: "127.0.0.1:0" },
    store: "sqlite:store.db",
    log: { format: "json" },
  };
  writeFileSync(file, JSON.stringify(text));
  const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, "run", "-c", file], {
    env: { ...childEnv, KEY: "k-12345" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  await expect.poll(() => said).toContain('"message":"ready"');
  const [, url] = /"admin_url":"([^"]+)"/.exec(said) ?? [];
  return (await fetch(`${url}/metrics`)).text();
}

/** Series of a healthy daemon, by name and labels, and their constant values. */
const healthy: Readonly<Record<string, string>> = {
  'up{job="bridgehead",instance="a"}': "1",
  'up{job="node",instance="c"}': "0",
  'bridgehead_build_info{job="bridgehead",instance="a"}': "1",
  'bridgehead_channel_ready{channel="mail"}': "1",
  'bridgehead_channel_asking{channel="mail"}': "1",
  'bridgehead_channel_inactive{channel="mail"}': "0",
  'bridgehead_channel_key_rejected{channel="mail"}': "0",
  'bridgehead_channel_warnings{channel="mail"}': "0",
  'bridgehead_oldest_overdue_seconds{channel="mail"}': "20",
  'bridgehead_paused_seconds{channel="mail"}': "0",
  'bridgehead_backlog_items{channel="mail",kind="turns",state="waiting"}': "40",
  bridgehead_escalation_oldest_seconds: "60",
  'bridgehead_escalations{state="unreached"}': "0",
  bridgehead_responders_unreachable: "0",
  bridgehead_store_free_bytes: "5000000000",
  'bridgehead_store_sync_duration_seconds_bucket{le="1",instance="a"}': "0+100x90",
  'bridgehead_store_sync_duration_seconds_bucket{le="5",instance="a"}': "0+100x90",
  'bridgehead_store_sync_duration_seconds_bucket{le="+Inf",instance="a"}': "0+100x90",
  'nodejs_eventloop_lag_p99_seconds{instance="a"}': "0.02",
};

/** What triggers each alert; null: the series is absent. */
const triggers: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  BridgeheadDown: { 'bridgehead_build_info{job="bridgehead",instance="a"}': null },
  BridgeheadChannelDown: { 'bridgehead_channel_ready{channel="mail"}': "0" },
  BridgeheadKeyRejected: { 'bridgehead_channel_key_rejected{channel="mail"}': "1" },
  BridgeheadChannelWarning: { 'bridgehead_channel_warnings{channel="mail"}': "1" },
  BridgeheadRepliesLate: { 'bridgehead_oldest_overdue_seconds{channel="mail"}': "1900" },
  BridgeheadSendingPaused: { 'bridgehead_paused_seconds{channel="mail"}': "300" },
  BridgeheadWorkHeld: { 'bridgehead_backlog_items{channel="mail",kind="drafts",state="held"}': "1" },
  BridgeheadEscalationOpen: { bridgehead_escalation_oldest_seconds: "1900" },
  BridgeheadEscalationUnreached: { 'bridgehead_escalations{state="unreached"}': "1" },
  BridgeheadRespondersUnreachable: { bridgehead_responders_unreachable: "2" },
  BridgeheadStoreFull: { bridgehead_store_free_bytes: "400000000" },
  BridgeheadStoreSlow: {
    'bridgehead_store_sync_duration_seconds_bucket{le="1",instance="a"}': "0+50x90",
  },
  BridgeheadEventLoopBlocked: { 'nodejs_eventloop_lag_p99_seconds{instance="a"}': "3" },
};

const minutes = 90;
const inputOf = (over: Readonly<Record<string, string | null>>) =>
  Object.entries({ ...healthy, ...over }).flatMap(([series, value]) =>
    value === null ? [] : [{ series, values: value.includes("x") ? value : `${value}+0x${minutes}` }],
  );

/** A daemon that ran for 30 minutes. Prometheus keeps its target, and marks its series as stale. */
const died = (instance: string) => ({
  [`up{job="bridgehead",instance="${instance}"}`]: "1+0x30 0+0x60",
  [`bridgehead_build_info{job="bridgehead",instance="${instance}"}`]: "1+0x30 stale",
});

/** One case of `promtool test rules`: which alerts fire after 80 minutes. */
const caseOf = (name: string, over: Readonly<Record<string, string | null>>, firing: readonly string[]) => ({
  name,
  interval: "1m",
  input_series: inputOf(over),
  promql_expr_test: [
    {
      expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: "80m",
      exp_samples: firing.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    },
  ],
});

const missing = await need("prometheus", "/usr/bin/promtool");
describeReal("the monitoring files", missing, () => {
  it("name only metrics that the daemon has, and promtool accepts those", async () => {
    const body = await scrape();
    const checking = run("promtool", ["check", "metrics"]);
    checking.child.stdin?.end(body);
    expect(await checking).toEqual({ stdout: "", stderr: "" });
    const exposed = new Set([...body.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const named = queries.flatMap((query) => query.match(/\b(bridgehead|nodejs|process)_[a-z0-9_]+/g) ?? []);
    expect(named.length).toBeGreaterThan(40);
    for (const name of named) expect(exposed).toContain(name.replace(/_(bucket|sum|count)$/, ""));
  });

  it("have panels with unique numbers", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("have valid rules, each with a severity and a text that says what to do", async () => {
    await run("promtool", ["check", "rules", "--lint=all", "--lint-fatal", rulesFile]);
    for (const { alert, labels, annotations } of rules) {
      expect([alert, labels.severity]).toEqual([alert, expect.stringMatching(/^(page|ticket)$/)]);
      expect(annotations.description.length).toBeGreaterThan(20);
    }
    expect(Object.keys(triggers).toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
  });

  it("fire each alert in its situation alone, and none at a healthy daemon", async () => {
    const file = join(newFolder(), "tests.yaml");
    const quiet = { 'bridgehead_channel_asking{channel="mail"}': "0" };
    const late = { ...quiet, 'bridgehead_oldest_overdue_seconds{channel="mail"}': "90000" };
    const inactive = { ...late, 'bridgehead_channel_inactive{channel="mail"}': "1" };
    const tests = [
      caseOf("healthy", {}, []),
      caseOf("an agent that an operator has set to inactive", inactive, []),
      caseOf("an agent that cannot be asked, while messages wait", late, ["BridgeheadRepliesLate"]),
      caseOf("the only daemon died", died("a"), ["BridgeheadDown"]),
      caseOf("one daemon of two died", died("b"), ["BridgeheadDown"]),
      caseOf(
        "a daemon that was started again",
        { ...died("b"), 'up{job="bridgehead",instance="b"}': "0+0x20 1+0x70" },
        [],
      ),
      ...Object.entries(triggers).map(([alert, over]) => caseOf(alert, over, [alert])),
    ];
    writeFileSync(file, stringify({ rule_files: [rulesFile], evaluation_interval: "1m", tests }));
    const result = await run("promtool", ["test", "rules", file]).catch((error: unknown) => error);
    expect(result).toMatchObject({ stderr: "", stdout: expect.stringContaining("SUCCESS") });
  });
});
