// docs/logs-and-metrics.md is generated from the source and from log-messages.yaml. UPDATE_DOCS=1 rewrites it.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { defineGauges } from "../../src/channels/gauges.ts";
import { defineSocketGauge } from "../../src/commands/run.ts";
import { defineAlarmGauges } from "../../src/escalation/alarm/stage.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { type Described, Metrics } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import { root } from "../support/machine/command.ts";

// Finds the log messages of the daemon in its source: the calls of a logger, and the table of hops.

interface LogMessage {
  readonly message: string;
  readonly levels: readonly string[];
  /** Names of the fields that the calls write down; fields of a variable are not listed. */
  readonly fields: readonly string[];
  readonly files: readonly string[];
}

const call = /\b(?:log|this\.#log|root|logger)\)?\s*\??\.(debug|info|warn|error)\(/g;
/** The function of escalation/platform-webhook/registration.ts that logs a failed request to the platform. */
const failedRequest = /\bfailed\(agent, "([^"]+)", result\)/g;
/** The programs for trying out have logs of their own. */
const excluded = /^src\/(sandbox|platform|contract)\/|^src\/ops\/log\.ts|^src\/commands\/(demo|platform)\.ts/;

/** Returns all messages, sorted. A message that is no constant is an error. */
function logMessages(): LogMessage[] {
  const found = new Map<string, { levels: Set<string>; fields: Set<string>; files: Set<string> }>();
  const add = (message: string, level: string, fields: readonly string[], file: string) => {
    const one = found.get(message) ?? { levels: new Set(), fields: new Set(), files: new Set() };
    found.set(message, one);
    one.levels.add(level);
    one.files.add(file);
    for (const field of fields) one.fields.add(field);
  };
  for (const file of ["src", "adapters"].flatMap(sourceFiles)) {
    if (excluded.test(file)) continue;
    const text = readFileSync(join(root, file), "utf8");
    for (const match of text.matchAll(call)) {
      const given = argumentsAt(text, match.index + match[0].length);
      const messages = constantsIn(given.at(-1) ?? "");
      if (given.length !== 2) continue;
      const fields = given[0] ?? "";
      for (const message of messages) add(message, match[1] ?? "", fieldsIn(fields), file);
    }
  }
  const registration = "src/escalation/platform-webhook/registration.ts";
  for (const [, message = ""] of readFileSync(join(root, registration), "utf8").matchAll(failedRequest))
    add(message, "error", ["agent", "reason", "result"], registration);
  const hops = readFileSync(join(root, "src/ops/hops.ts"), "utf8");
  for (const [, level = "", message = ""] of hops.matchAll(/^ {2}\w+: \["(\w+)", "([^"]+)"\],$/gm))
    add(message, level, ["trace", "channel"], "src/ops/hops.ts");
  return [...found]
    .map(([message, { levels, fields, files }]) => ({
      message,
      levels: [...levels],
      fields: [...fields].toSorted(),
      files: [...files].toSorted(),
    }))
    .toSorted((a, b) => a.message.localeCompare(b.message, "en"));
}

function sourceFiles(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `${folder}/${name}`);
}

/** Returns the arguments of the call whose opening parenthesis is before `start`. */
function argumentsAt(text: string, start: number): string[] {
  const given: string[] = [];
  let depth = 0;
  let from = start;
  let quote = "";
  for (let at = start; at < text.length; at++) {
    const char = text[at] ?? "";
    if (quote !== "") {
      if (char === "\\") at += 1;
      else if (char === quote) quote = "";
    } else if (`"'\``.includes(char)) quote = char;
    else if ("([{".includes(char)) depth += 1;
    else if (")]}".includes(char) && depth > 0) depth -= 1;
    else if (char === ")" || (char === "," && depth === 0)) {
      const one = text.slice(from, at).trim();
      if (one !== "") given.push(one);
      from = at + 1;
      if (char === ")") return given;
    }
  }
  return given;
}

/** Returns the string literals of an expression: a constant, or the two of a condition. */
const constantsIn = (expression: string): string[] =>
  [...expression.matchAll(/"((?:[^"\\]|\\.)*)"/g)]
    .map(([, text = ""]) => text)
    .filter((text) => text.includes(" ") || expression === `"${text}"`);

/** Returns the names in an object literal. */
const fieldsIn = (expression: string): string[] =>
  expression.startsWith("{")
    ? [...expression.matchAll(/(?:^\{|,)\s*(\w+)(?=\s*[:,}])/g)].map(([, name = ""]) => name)
    : [];

interface Text {
  readonly means: string;
  readonly do?: string;
}
const page = join(root, "docs/logs-and-metrics.md");
const texts = parse(readFileSync(join(root, "test/reference/log-messages.yaml"), "utf8")) as Record<string, Text>;
const messages = logMessages();

function allMetrics(): readonly Described[] {
  const metrics = new Metrics(new Statistics());
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
  const metrics = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |", ...allMetrics().map(metricRow)];
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
