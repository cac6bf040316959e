// The table of imports, the folders of packages, sizes and names. Every rule first gets a planted violation, which
// proves that it can fail.

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { fullFolders, fullStages, type Plant, repeatedFunctions, repeatedTypes, rules } from "./architecture/rules.ts";
import { importsOf, type SourceFile } from "./architecture/source.ts";
import { stagePlants } from "./architecture/stage-plants.ts";
import { statePlants } from "./architecture/state-plants.ts";
import { codeWithTexts } from "./architecture/texts.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const files: readonly SourceFile[] = globSync("{src,adapters,test}/**/*.ts", { cwd: root }).map((path) => ({
  path: path.replaceAll("\\", "/"),
  text: readFileSync(root + path, "utf8"),
}));

const timingOf = (found: string, file = "a.ts"): string =>
  `src/${file}: ${found}: durations of the daemon are in src/ops/timing.ts`;
const short = (ms: string, least = 60_000): string => `test/a.test.ts: timeout ${ms}: waits at least ${least} ms`;
const lines = (count: number): string => "x\n".repeat(count);
const say = (...words: string[]): string => words.join("");

const plants: readonly Plant[] = [
  [
    "directions",
    "src/store/a.ts",
    'import { x } from "../pipeline/b.ts";',
    "src/store/a.ts: store may not import src/pipeline/b.ts",
  ],
  [
    "directions",
    "src/store/a.ts",
    'import {\n  x,\n} from "../pipeline/b.ts";',
    "src/store/a.ts: store may not import src/pipeline/b.ts",
  ],
  [
    "directions",
    "src/store/a.ts",
    'import type { X } from "../app.ts";',
    "src/store/a.ts: store may not import src/app.ts",
  ],
  [
    "directions",
    "src/domain/a.ts",
    'export * from "../ops/b.ts";',
    "src/domain/a.ts: domain may not import src/ops/b.ts",
  ],
  [
    "directions",
    "src/channels/a.ts",
    'import "../../adapters/email/index.ts";',
    "src/channels/a.ts: channels may not import adapters/email/index.ts",
  ],
  [
    "directions",
    "src/channels/a.ts",
    'const x = await import("../platform/b.ts");',
    "src/channels/a.ts: channels may not import src/platform/b.ts",
  ],
  [
    "directions",
    "src/app.ts",
    'import { x } from "./sandbox/b.ts";',
    "src/app.ts: app.ts may not import src/sandbox/b.ts",
  ],
  [
    "directions",
    "src/pipeline/a.ts",
    'import { x } from "../contract/ids.ts";',
    "src/pipeline/a.ts: imports src/contract/ids.ts, which has the name bridgehead/contract",
  ],
  [
    "directions",
    "src/contract/a.ts",
    'import { x } from "./testing/b.ts";',
    "src/contract/a.ts: contract may not import src/contract/testing/b.ts",
  ],
  [
    "directions",
    "src/contract/a.ts",
    'import { x } from "../ops/b.ts";',
    "src/contract/a.ts: contract may not import src/ops/b.ts",
  ],
  [
    "directions",
    "adapters/email/a.ts",
    'import { x } from "../sms/b.ts";',
    "adapters/email/a.ts: an adapter imports bridgehead/contract, packages and its own files, not adapters/sms/b.ts",
  ],
  [
    "directions",
    "adapters/email/a.ts",
    'import { x } from "../../src/ops/b.ts";',
    "adapters/email/a.ts: an adapter imports bridgehead/contract, packages and its own files, not src/ops/b.ts",
  ],
  ["directions", "src/pipeline/a.ts", '// import { x } from "../host/b.ts";\nimport { y } from "../store/b.ts";', null],
  ["packageHomes", "src/pipeline/a.ts", 'import pg from "pg";', "src/pipeline/a.ts: pg lives in src/store/"],
  [
    "packageHomes",
    "src/store/a.ts",
    'import { ImapFlow } from "imapflow";',
    "src/store/a.ts: imapflow lives in adapters/email/",
  ],
  [
    "packageHomes",
    "src/commands/a.ts",
    'import x from "nodemailer/lib/mime";',
    "src/commands/a.ts: nodemailer lives in adapters/email/",
  ],
  [
    "packageHomes",
    "src/channels/a.ts",
    'const x = require("@hono/node-server");',
    "src/channels/a.ts: @hono/node-server lives in src/http/, src/platform/",
  ],
  ["packageHomes", "src/store/a.ts", 'import x from "left-pad";', "src/store/a.ts: left-pad has no home"],
  ["packageHomes", "src/store/a.ts", 'import fs from "fs";', "src/store/a.ts: fs has no home"],
  ["packageHomes", "src/store/a.ts", 'import fs from "node:fs";', null],
  [
    "contractIsTypes",
    "src/contract/a.ts",
    'import * as z from "zod";',
    "src/contract/a.ts: the contract imports nothing but zod's types and Node's HTTP client and cryptography, not zod",
  ],
  [
    "contractIsTypes",
    "src/contract/a.ts",
    'import type { X } from "node:fs";',
    "src/contract/a.ts: the contract imports nothing but zod's types and Node's HTTP client and cryptography, not node:fs",
  ],
  ["contractIsTypes", "src/contract/a.ts", 'import type * as z from "zod";', null],
  ["computedImports", "src/app.ts", "await import(name);", "src/app.ts: imports what is only known at run time"],
  [
    "computedImports",
    "src/app.ts",
    "await import(`../adapters/${name}/index.ts`);",
    "src/app.ts: imports what is only known at run time",
  ],
  ["sizes", "src/a.ts", lines(401), "src/a.ts: 401 lines, at most 400"],
  ["sizes", "test/a.test.ts", lines(501), "test/a.test.ts: 501 lines, at most 500"],
  ["sizes", "src/a.ts", lines(400), null],
  ["names", "src/store/utils.ts", "", "src/store/utils.ts: names nothing"],
  ["names", "src/mail-helper.ts", "", "src/mail-helper.ts: names nothing"],
  ["names", "src/common/a.ts", "", "src/common/a.ts: names nothing"],
  ["names", "src/database.ts", "", null],
  ...stagePlants,
  ["longLived", "src/a.ts", "this.#wake = () => x.abort();", "src/a.ts: this.#wake = () => assign a named function"],
  ["longLived", "src/a.ts", "const wake = () => x.abort();\nthis.#wake = wake;", null],
  [
    "commandTexts",
    "src/a.ts",
    "const fix = `bridgehead resume ${id}`;",
    "src/a.ts: bridgehead resume: write it with commandText",
  ],
  ["commandTexts", "src/a.ts", "// bridgehead resume\nconst fix = commandText(`resume ${id}`, config);", null],
  ["vocabulary", "src/a.ts", "const whoWasTold = 1;", "src/a.ts: whoWasTold: use the standard term of src/README.md"],
  ["vocabulary", "src/a.ts", "f({ verdict: 1 })", "src/a.ts: verdict: use the standard term of src/README.md"],
  ...[
    "export async function settled(q: Query) {",
    "async function settled() {",
    "function* settled() {",
    "interface A {\n  settled(): void;",
    "interface A {\n  settled<T>(): T;",
    "class A {\n  async settled(): Promise<void> {",
    "class A {\n  private async settled() {",
    "class A {\n  *#settled() {",
    "const a = {\n  async settled() {",
  ].map((text): Plant => ["vocabulary", "src/a.ts", text, "src/a.ts: settled: use the standard term of src/README.md"]),
  ["vocabulary", "src/a.ts", "await Promise.allSettled(asked);\n  const asked = async () => 1;", null],
  ["vocabulary", "src/a.ts", "// settled\nconst said = `told: x`;", null],
  ["inheritance", "src/a.ts", "class A extends Channel {}", "src/a.ts: A inherits from Channel"],
  ["inheritance", "src/a.ts", "class A extends Error {}", null],
  ["promises", "src/a.ts", say("// TO", "DO later"), "src/a.ts: promises to be finished"],
  ["honestTests", "test/a.test.ts", say("vi.", "mock('x')"), say("test/a.test.ts: vi.", "mock(")],
  ["honestTests", "test/a.test.ts", say("it.", "only('x')"), say("test/a.test.ts: it.", "only(")],
  ...statePlants,
  ["durations", "src/a.ts", "const sweepMs = 1000;", timingOf("sweepMs = 1000")],
  [
    "statements",
    "src/calls/a.ts",
    "q.all(`SELECT id FROM turns`)",
    "src/calls/a.ts: SELECT id: statements are in rows.ts",
  ],
  ["statements", "src/a.ts", 'q.run("UPDATE meta SET a = 1")', "src/a.ts: UPDATE meta SET: statements are in rows.ts"],
  ["statements", "src/calls/rows.ts", "q.all(`SELECT id FROM turns`)", null],
  ["statements", "src/pipeline/route/unasked/rows.ts", "q.run(`DELETE FROM a WHERE b = 1`)", null],
  ["statements", "src/store/lanes.ts", "q.all(`SELECT id FROM lanes`)", null],
  ["durations", "src/a.ts", "const pause = options.pause ?? 50;", timingOf("pause ?? 50")],
  ...["shortestWait = 1000", "grace = 500", "wait: 250", "retryIn = 30", "lookWindow: number = 90", "retry ?? 5"].map(
    (found): Plant => ["durations", "src/a.ts", `const a = { ${found} };`, timingOf(found)],
  ),
  ["durations", "src/a.ts", "const measureAfter = 50, longestLines = 7, waiting = 3, retries = 4;", null],
  ["durations", "src/a.ts", "readyTimeout: 250,", timingOf("readyTimeout: 250")],
  ["durations", "src/a.ts", "await clock.sleep(20, signal);", timingOf("sleep(20")],
  ["durations", "src/a.ts", "const kept = 86_400_000;", timingOf("86_400_000")],
  ["durations", "src/a.ts", "const kept = 7 * day;", timingOf("7 * day")],
  ["durations", "src/store/a.ts", "`until < now_ms() - 5000`", timingOf("now_ms() - 5000", "store/a.ts")],
  ["durations", "src/a.ts", "const hours = Math.round(age / 3_600_000);", null],
  ["durations", "src/a.ts", "let waitMs = 0; // at most 60_000\nconst longest = 20_000;", null],
  ["durations", "src/ops/timing.ts", "sweep: 60_000,", null],
  ["durations", "src/ops/timing/messages.ts", "sweep: 60_000,", null],
  ...[
    ["hold = 5000", "const hold = 5000;\nawait clock.sleep(hold, signal);"],
    ["hold: number = 5000", "f(hold: number = 5000) {\n  after(hold, () => end());\n}"],
    ["hold = 5 * 1000", "AbortSignal.timeout(2 * hold);\nconst hold = 5 * 1000, least = 2;"],
    ["connectMs = 5000", "const connectMs = 5000;\nabortAfter(connectMs, reason);"],
  ].map(([found = "", code = ""]): Plant => ["durations", "src/a.ts", code, timingOf(found)]),
  [
    "durations",
    "src/a.ts",
    "const hold = 5000;\nlist.every((one) => one < hold);\nsleep(timing.hold, withhold);",
    null,
  ],
  ...[
    ["connectionTimeout: Math.min(30_000", "connectionTimeout: Math.min(30_000, smtp.timeout),"],
    ["retryAfterMs: 500", 'const gone = { kind: "deferred", retryAfterMs: 500 };'],
    ["maxMilliseconds = 5000", "f({ maxMilliseconds = 5000 });"],
    ["pauseSeconds = 3", "const pauseSeconds = 3;"],
    ["idleLimit = 20_000", "const idleLimit = 20_000;\nsetTimeout(end, idleLimit);"],
    ["timeout(20_000", say("AbortSignal.time", "out(20_000)")],
    ["86_400_000", "const copiedAfter = 2 * 86_400_000;"],
  ].map(
    ([found = "", code = ""]): Plant => [
      "durations",
      "adapters/email/smtp/a.ts",
      code,
      `adapters/email/smtp/a.ts: ${found}: durations of an adapter are in its timing.ts`,
    ],
  ),
  ["durations", "adapters/email/timing.ts", "smtpIdle: 20 * second, token: 60_000,", null],
  ...[
    "const { probe } = standardTiming.commands;",
    "const db = open(file, standardTiming.sqlite.busy);",
    "  timing: standardTiming,",
    "const a = standardTiming.http, b = 1;",
  ].map(
    (line): Plant => ["timingReads", "src/a.ts", line, `src/a.ts: ${line.trim()}: the timing table is passed down`],
  ),
  [
    "timingReads",
    "adapters/sms/a.ts",
    "f(standardTiming)",
    "adapters/sms/a.ts: f(standardTiming): the timing table is passed down",
  ],
  ...[
    'import { standardTiming } from "../timing.ts";\nf(ms: number = standardTiming.http.idle,\n  { notify: b } = standardTiming.health,\n)',
    "const a = { ...standardTiming.http, ...options.timing };\nconst { b } = options.timing ?? standardTiming.http;",
    "const timing = timingOf(channel, standardTiming);",
  ].map((code): Plant => ["timingReads", "src/a.ts", code, null]),
  ["durations", "src/domain/retry.ts", "const kept = 7 * day;", timingOf("7 * day", "domain/retry.ts")],
  [
    "durations",
    "src/escalation/webhook/a.ts",
    "const connectMs = 5000;",
    timingOf("connectMs = 5000", "escalation/webhook/a.ts"),
  ],
  ["patience", "test/a.test.ts", say("poll(f, { time", "out: 20_000 }).toBe(1)"), short("20_000")],
  ["patience", "test/a.test.ts", say('it.concurrent("a", { time', "out: 90_000 }, f)"), short("90_000", 300_000)],
  ["patience", "test/a.test.ts", say("it('a', {\n  time", "out: 90_000,\n}, f)"), short("90_000", 300_000)],
  ["patience", "test/a.test.ts", "poll(f, { timeout: 90_000 }).toBe(1); it('a', { timeout: 600_000 }, f)", null],
  ["patience", "test/a.test.ts", say("close(AbortSignal.time", "out(1000));"), short("1000")],
  ["patience", "test/a.test.ts", "open(AbortSignal.timeout(200)); // expires", null],
  [
    "behaviour",
    "test/a.test.ts",
    say('it("works (review', ' 3)", f)'),
    "test/a.test.ts: named after review 3: a test is named after the behaviour",
  ],
];

describe("each rule reports", () => {
  it.each(plants)("%s, planted in %s", (rule, path, text, expected) => {
    expect(rules[rule]([{ path, text }])).toEqual(expected === null ? [] : [expected]);
  });

  const decision = (text: string) => ({ path: "src/a/decide.ts", text });
  const unnamed = (name: string) => `src/a/decide.ts: ${name}: no test without a database names it`;
  it.each([
    ["decides", "", "", false],
    ["opens a store", "openSqlite(path);", "", true],
    ["imports one that opens a store", "", 'import { fresh } from "../support/store/databases.ts";', true],
    ["imports the pipeline", "", 'import { watched } from "./pipeline/stage.ts";', true],
    ["starts the daemon", 'import { startMail } from "./support/daemon/mail-daemon.ts";', "", true],
    ["starts the process", 'import { start } from "./support/process/daemon.ts";', "", true],
    ["imports the type of a store", "", 'import type { NewDatabase } from "./store/databases.ts";', false],
  ])("decisionTests, when the only test %s", (_, line, support, isReported) => {
    const imports = 'import { a } from "../src/a/decide.ts";\nimport { b } from "./support/b.ts";\n';
    const planted = [
      decision("export const a = (b: B) => b;"),
      { path: "test/a.test.ts", text: imports + line },
      { path: "test/support/b.ts", text: support },
    ];
    expect(rules.decisionTests(planted)).toHaveLength(isReported ? 1 : 0);
  });

  it.each([
    ["export function b(c: C): D {", "b"],
    ["export function* b() {", "b"],
    ["export async function b() {", "b"],
    ["export const b = (c: C): D => c;", "b"],
    ["export const b = <T>(c: T): T => c;", "b"],
    ["export const b: (c: C) => D = once(c);", "b"],
    ["export const b = {\n  c: () => d,\n};", "b"],
    ["const b = () => 1;\nexport { b };", "b"],
    ["export { b as c } from './d.ts';", "c"],
    ['export const b = "text";\nexport const c: number = 20;\nexport const d = -1;', null],
    ["export interface B {\n  readonly c: D;\n}\nexport type C = B;\nconst d = () => 1;", null],
    ["// export const b = () => 1;", null],
  ])("decisionTests, for what no test names: %s", (text, name) => {
    const planted = [
      decision(`export const a = () => 1;\n${text}`),
      { path: "test/a.test.ts", text: 'import { a, type b, other as c } from "../src/a/decide.ts";\nb(c);' },
      { path: "test/b.test.ts", text: 'import type { b, c } from "../src/a/decide.ts";' },
      { path: "test/c.test.ts", text: 'import { b, c } from "../src/a/decide.ts";\nopenSqlite(path);' },
      { path: "test/d.test.ts", text: 'import { b, c } from "../src/b/decide.ts";' },
    ];
    expect(rules.decisionTests(planted)).toEqual(name === null ? [] : [unnamed(name)]);
    const named = { path: "test/e.test.ts", text: 'import {\n  b,\n  c as d,\n} from "../src/a/decide.ts";' };
    expect(rules.decisionTests([...planted, named])).toEqual([]);
  });

  it("every rule has a violation planted for it", () => {
    const planted = new Set(plants.filter(([, , , expected]) => expected !== null).map(([rule]) => rule));
    expect([...planted].sort()).toEqual(Object.keys(rules).sort());
  });
});

describe("this repository keeps", () => {
  it("enough files for the rules to look at", () => {
    expect(files.filter(({ path }) => path.startsWith("src/")).length).toBeGreaterThan(50);
    expect(files.flatMap(importsOf).length).toBeGreaterThan(300);
  });

  it.each(Object.entries(rules))("%s", (_name, rule) => {
    expect(rule(files)).toEqual([]);
  });

  it("texts that the scanner of the rules reads to their end", () => {
    const unread = ({ text }: SourceFile) => {
      const outside = codeWithTexts(text, () => null)[0].replace(/`[^`]*`/g, "");
      const ofBoth = (pair: RegExp, open: string) =>
        [...outside.matchAll(pair)].reduce((depth, [found]) => depth + (found === open ? 1 : -1), 0);
      return /["'`]/.test(outside) || ofBoth(/[{}]/g, "{") !== 0 || ofBoth(/[()]/g, "(") !== 0;
    };
    expect(files.filter(({ path }) => path.startsWith("src/")).filter(unread)).toEqual([]);
    expect(unread({ path: "src/a.ts", text: "const a = b(`c);\n" })).toBe(true);
  });

  it("at most 15 files in a folder", () => {
    expect(fullFolders(files)).toEqual([]);
    const planted = Array.from({ length: 16 }, (_, n) => ({ path: `src/a/${n}.ts`, text: "" }));
    expect(fullFolders(planted)).toEqual(["src/a: 16 files, at most 15"]);
    expect(fullFolders(planted.slice(1))).toEqual([]);
  });

  it("at most four files in the folder of a stage", () => {
    expect(fullStages(files)).toEqual([]);
    const names = ["stage", "rows", "decide", "more", "most"];
    const planted = names.map((name) => ({ path: `src/a/${name}.ts`, text: "" }));
    expect(fullStages(planted)).toEqual(["src/a: 5 files, at most 4 in a stage"]);
    expect(fullStages(planted.slice(1))).toEqual([]);
    expect(fullStages([...planted.slice(0, 4), { path: "src/a/b/most.ts", text: "" }])).toEqual([]);
  });

  it("each type name for one type", () => {
    expect(repeatedTypes(files)).toEqual([]);
    const text = "export interface Entry {}\n";
    expect(repeatedTypes(["src/a.ts", "adapters/b.ts", "test/c.ts"].map((path) => ({ path, text })))).toEqual([
      "Entry is declared in src/a.ts and adapters/b.ts: give each type its own name",
    ]);
  });

  it("function names in at most eight files", () => {
    expect(repeatedFunctions(files)).toEqual([]);
    const plant = (text: string) => Array.from({ length: 9 }, (_, n) => ({ path: `src/${n}.ts`, text }));
    expect(repeatedFunctions(plant("function ask() {\n"))).toEqual(["ask (9)"]);
    expect(repeatedFunctions(plant("const ask = (id: string): string => id;\n"))).toEqual(["ask (9)"]);
    expect(repeatedFunctions(plant("const ask = (await asked()).length;\n"))).toEqual([]);
  });

  // 150 is the goal of the code rules. It rises with every merged file: with at most 380 files it needs 50,000 lines of source.
  it("its files small: half of them under 180 lines", () => {
    const sorted = files
      .filter(({ path }) => !path.startsWith("test/"))
      .map(({ text }) => text.split("\n").length)
      .sort((a, b) => a - b);
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThanOrEqual(180);
  });
});
