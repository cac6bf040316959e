// docs/logs-and-metrics.md is generated from the source and from log-messages.yaml. UPDATE_DOCS=1 rewrites it.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { defineGauges } from "../../src/channels/gauges.ts";
import { defineSocketGauge } from "../../src/commands/run.ts";
import { defineAlarmGauges } from "../../src/escalation/alarm/stage.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { createMetrics, type Described } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import { root } from "../support/machine/command.ts";
import { type LogMessage, logMessages } from "./log-calls.ts";

interface Text {
  readonly means: string;
  readonly do?: string;
}
const page = join(root, "docs/logs-and-metrics.md");
const texts = parse(readFileSync(join(root, "test/reference/log-messages.yaml"), "utf8")) as Record<
  string,
  Text
>;
const messages = logMessages();

function allMetrics(): readonly Described[] {
  const metrics = createMetrics(new Statistics());
  const build = { version: "", node: "", store: "", schema: "" };
  // Nothing is sampled here.
  defineGauges(metrics, {} as never, systemClock, build, null);
  defineAlarmGauges(metrics, {} as never);
  defineSocketGauge(metrics, {} as never);
  return metrics.described().toSorted((a, b) => a.name.localeCompare(b.name, "en"));
}

const cell = (text: string): string => text.replaceAll("|", "\\|");

const messageRow = ({ message, levels, fields }: LogMessage): string => {
  const { means = "", do: action = "" } = texts[message] ?? {};
  return `| ${levels.join(", ")} | \`${message}\` | ${fields.join(", ")} | ${cell(means)} | ${cell(action)} |`;
};

const metricRow = ({ name, type, labels, help }: Described): string =>
  `| \`${name}\` | ${type} | ${labels.join(", ")} | ${cell(help)} |`;

const generated = (): string => {
  const text = readFileSync(page, "utf8");
  const replaced = (body: string, part: string, rows: readonly string[]) =>
    body.replace(
      new RegExp(`(<!-- ${part} -->\n)[^]*?(<!-- /${part} -->)`),
      (_, begin: string, end: string) => `${begin}\n${rows.join("\n")}\n\n${end}`,
    );
  const logs = [
    "| level | message | fields | meaning | what to do |",
    "| --- | --- | --- | --- | --- |",
    ...messages.map(messageRow),
  ];
  const metrics = [
    "| metric | type | labels | meaning |",
    "| --- | --- | --- | --- |",
    ...allMetrics().map(metricRow),
  ];
  return replaced(replaced(text, "messages", logs), "metrics", metrics);
};

it("has every message and metric of the source, and nothing else", () => {
  const now = generated();
  if (process.env["UPDATE_DOCS"] === "1") writeFileSync(page, now);
  expect(readFileSync(page, "utf8"), "run UPDATE_DOCS=1 npx vitest run test/reference").toBe(now);
});

it("explains every message", () => {
  const written = messages.map(({ message }) => message);
  expect(written.filter((message) => texts[message] === undefined)).toEqual([]);
  expect(Object.keys(texts).filter((message) => !written.includes(message))).toEqual([]);
  expect(written.length).toBeGreaterThan(140);
});

it("writes every explanation as sentences", () => {
  for (const { message } of messages) expect(texts[message]?.means).toMatch(/^[A-Z`].*\.$/);
});

it.each([
  ["timeout", /send attempt failed|platform request failed/],
  ["retry", /send attempt failed|platform request failed/],
  ["rejected", /webhook rejected/],
  ["unauthorized", /channel unauthorized/],
])("is found by searching for %s", (word, expected) => {
  const found = readFileSync(page, "utf8")
    .split("\n")
    .filter((line) => line.includes(word));
  expect(found.length).toBeGreaterThan(2);
  expect(found.join("\n")).toMatch(expected);
});
