// Reads mails as real programs write them and compares the trimmed text with what their writers wrote. The mails are in
// test/fixtures/trimming; README.md there tells the format and how the two sets differ.

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Parser } from "../../../../adapters/email/parse/parser.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { mail, parts } from "../../../support/email/mails.ts";

const folder = fileURLToPath(new URL("../../../fixtures/trimming/", import.meta.url));
const parser = new Parser({ clock: systemClock, timing: { ...timing, parse: 20_000 } });
afterAll(() => parser.close());

interface Case {
  readonly name: string;
  readonly raw: Uint8Array;
  readonly expected: string;
}

const answered: Readonly<Record<string, string>> = {
  ours: "<01jx9q7k3d.bridgehead@example.com>",
  other: "<CAF3x@mail.example.org>",
};

function readCase(block: string): Case {
  const [head = "", ...sections] = block.split(/^@@(?=text|html|expect)/m);
  const [name = "", ...lines] = head.trim().split("\n");
  const fields = Object.fromEntries(lines.map((line) => line.split(/: (.*)/s).slice(0, 2)));
  const { Answers: answers, ...headers } = fields;
  const found = sections.map((section) => {
    const end = section.indexOf("\n");
    const [kind = "", ...parameters] = section.slice(0, end).split(/; ?/);
    return {
      kind,
      type: [`text/${kind === "html" ? "html" : "plain"}; charset=utf-8`, ...parameters],
      body: section.slice(end + 1),
    };
  });
  const bodies = found
    .filter(({ kind }) => kind !== "expect")
    .map(({ type, body }) => ({ type: type.join("; "), body }));
  const [first] = bodies;
  if (first === undefined) throw new Error(`${name} has no body`);
  const type = bodies.length > 1 ? 'multipart/alternative; boundary="bound"' : first.type;
  const raw = mail(
    {
      From: "Anna Doe <anna@example.org>",
      Subject: answers ? "Re: Your order" : "Order",
      ...(answers ? { "In-Reply-To": answered[answers] as string, References: answered[answers] as string } : {}),
      "Content-Type": type,
      ...headers,
    },
    bodies.length > 1 ? parts(bodies) : first.body,
  );
  const expected = found.find(({ kind }) => kind === "expect")?.body;
  if (expected === undefined) throw new Error(`${name} expects nothing`);
  return { name, raw, expected };
}

function casesOf(set: string): Case[] {
  return readdirSync(folder + set)
    .filter((file) => file.endsWith(".txt"))
    .sort()
    .flatMap((file) =>
      readFileSync(`${folder}${set}/${file}`, "utf8")
        .split(/^@@case /m)
        .slice(1)
        .map(readCase),
    );
}

/** Line by line, without the spaces around lines and with one blank line for many. */
const normal = (text: string) =>
  text
    .split("\n")
    .map((line) => line.replace(/\u00a0/g, " ").trim())
    .join("\n")
    .replace(/\n{2,}/g, "\n\n")
    .trim();

/** Lines of the expected text that are not quoted: the customer's own. */
const ownLines = (text: string) =>
  normal(text)
    .split("\n")
    .filter((line) => line !== "" && !/^(?:>|\|)/.test(line));

interface Result {
  readonly name: string;
  readonly exact: boolean;
  readonly lost: readonly string[];
  readonly text: string;
}

async function run(cases: readonly Case[]): Promise<Result[]> {
  const results: Result[] = [];
  for (const { name, raw, expected } of cases) {
    const result = await parser.parse(raw, { senderAuth: { mode: "off" }, own: ["support@example.com"] });
    if (!result.ok) throw new Error(`${name}: ${result.code}`);
    const text = normal(result.mail.text);
    const there = new Set(text.split("\n").map((line) => line.replace(/^> ?/, "")));
    results.push({
      name,
      text,
      exact: text === normal(expected),
      lost: ownLines(expected).filter((line) => !there.has(line)),
    });
  }
  return results;
}

describe.each([
  ["tuned", 80],
  ["held-out", 40],
])("mails of many programs, set %s", (set, least) => {
  const cases = casesOf(set);
  let results: readonly Result[];
  beforeAll(async () => {
    results = await run(cases);
    const exact = results.filter((one) => one.exact).length;
    console.info(`${set}: ${exact} of ${results.length} exact (${((100 * exact) / results.length).toFixed(1)} %)`);
    for (const one of results.filter((result) => !result.exact))
      console.info(`${set}: ${one.name} differs${one.lost.length > 0 ? " AND LOSES TEXT" : ""}:\n${one.text}\n`);
  });
  it("has many cases with names of their own", () => {
    expect(new Set(cases.map((one) => one.name)).size).toBe(cases.length);
    expect(cases.length).toBeGreaterThanOrEqual(least);
  });
  it("loses no line of any customer", () => {
    expect(results.filter((one) => one.lost.length > 0).map((one) => [one.name, one.lost])).toEqual([]);
  });
  it("gives exactly what was written in at least nine of ten", () => {
    expect(results.filter((one) => one.exact).length / results.length).toBeGreaterThanOrEqual(0.9);
  });
});
