// Load, decide, write: no statement between two decisions of a step (`order.ts`).

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { decisionsInRows, interleaved } from "./order.ts";

/** Functions of a stage that are a step of their own, apart from those in a savepoint. */
const steps: readonly string[] = [
  // The order of a channel's messages is decided first, then each message, then the limits of the channel.
  "src/pipeline/route/stage.ts routeInOrder",
  "src/pipeline/route/stage.ts routeFairly",
  "src/pipeline/route/stage.ts eldest",
  "src/pipeline/route/stage.ts pauseAtLimit",
  // What the stage decides about a draft or an answer is handed to it as by any other stage.
  "src/escalation/trigger/stage.ts openEscalations",
];

/** Violations that stay, with the reason: all are in route. */
const exceptions: readonly { readonly why: string; readonly found: readonly string[] }[] = [
  {
    why: "The guards name what is loaded for the messages that pass them. Most mail of machines does not, and locks no lane.",
    found: [
      "src/pipeline/route/stage.ts: addNoted -> routeReply -> decideAll",
      "src/pipeline/route/stage.ts: planOf -> loadConversations -> decideAll",
      "src/pipeline/route/stage.ts: planOf -> loadUnasked -> decideAll",
    ],
  },
  {
    why: "At the cap every message takes room from the next one. The room is counted in memory, not loaded.",
    found: [
      "src/pipeline/route/stage.ts: hasRoom -> attempt -> hasRoom",
      "src/pipeline/route/stage.ts: hasRoom -> eldest -> hasRoom",
    ],
  },
];

/** The decisions that `rows.ts` may use, because more of them would hide decisions between statements: those that name what is
 *  loaded, locked or written, and `pauseSteps` of the pauses, which are loaded, decided and written there. */
const choices: readonly string[] = [
  "src/escalation/reply/rows.ts: foreignNumber",
  "src/escalation/reply/rows.ts: perEscalation",
  "src/escalation/reply/rows.ts: senderOf",
  "src/escalation/trigger/rows.ts: aboutOf",
  "src/pipeline/ask/rows.ts: isUnasked",
  "src/pipeline/reconcile/rows.ts: addressesOf",
  "src/pipeline/reconcile/rows.ts: chooseDraft",
  "src/pipeline/reconcile/rows.ts: isEndedByReply",
  "src/pipeline/send/rows.ts: isHoldable",
  "src/pipeline/send/rows.ts: pauseSteps",
];

// The README gives their numbers.
const counts = `${exceptions.flatMap(({ found }) => found).length} exceptions (all in route), ${steps.length} functions that are steps of their own, and ${choices.length} decisions`;

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = globSync("src/**/*.ts", { cwd: root }).map((path) => ({
  path: path.replaceAll("\\", "/"),
  text: readFileSync(root + path, "utf8"),
}));

it("no stage runs a statement between two decisions", () => {
  expect(interleaved(files, steps)).toEqual(exceptions.flatMap(({ found }) => found).sort());
});

const decisions = {
  path: "src/pipeline/a/decide.ts",
  text: `
export const first = (row: Row): boolean => row.a === 1;
export const second = (row: Row): Row => (row.b ? row : other);
export const value = (row: Row): string => row.id;
`,
};
const rows = {
  path: "src/pipeline/a/rows.ts",
  text: `
export async function load(q: Query): Promise<Row> { return q.one("SELECT 1"); }
export const report = (q: Query): void => q.hop({});
`,
};
const other = {
  path: "src/escalation/b/stage.ts",
  text: `
export async function handOver(q: Query): Promise<void> {}
export class Other { async taken(q: Query): Promise<void> {} }
`,
};
const imports = `import { first, second, value } from "./decide.ts";
import { load, report } from "./rows.ts";
import { handOver } from "../../escalation/b/stage.ts";
export const all = (row: Row) => [first(row), second(row)];
`;
const planted = (code: string, ...more: readonly string[]) =>
  interleaved([decisions, rows, other, { path: "src/pipeline/a/stage.ts", text: imports + code }], more).map((found) =>
    found.replace("src/pipeline/a/stage.ts: ", ""),
  );
const run = (body: string): string =>
  `export async function run(q: Query): Promise<void> { const row = await load(q); ${body} }`;

it("rows.ts uses no other decisions than those listed", () => {
  expect(decisionsInRows(files)).toEqual(choices);
});

it("the README names the numbers of exceptions, declared steps and decisions of rows.ts", () => {
  expect(readFileSync(`${root}src/pipeline/README.md`, "utf8").replaceAll("\n", " ")).toContain(counts);
});

it.each(steps)("%s is a function", (step) => {
  const [path, name] = step.split(" ");
  expect(files.find((file) => file.path === path)?.text).toContain(`function ${name}(`);
});

it.each([
  ["a statement", "first(row); await load(q); second(row);", "first -> load -> second"],
  ["a statement of the query", "first(row); await q.write(sql); second(row);", "first -> q.write -> second"],
  ["a transaction", "first(row); await db.tx((q) => load(q)); second(row);", "first -> tx -> second"],
  ["another stage", "first(row); await handOver(q); second(row);", "first -> handOver -> second"],
  [
    "another stage behind an interface",
    "first(row); await line.b()?.taken(q); second(row);",
    "first -> taken -> second",
  ],
  ["a savepoint", "first(row); await q.savepoint(() => work()); second(row);", "first -> savepoint -> second"],
  ["a statement in a branch", "if (first(row)) await load(q); second(row);", "first -> load -> second"],
  [
    "a statement that an expression runs",
    "const a = first(row) && (await load(q)); second(row);",
    "first -> load -> second",
  ],
  [
    "a statement in a case",
    "switch (first(row)) { case true: await load(q); break; default: } second(row);",
    "first -> load -> second",
  ],
  ["a statement that may fail", "try { first(row); await load(q); } catch { second(row); }", "first -> load -> second"],
  ["a statement in a loop", "for (const a of first(row)) await load(q); second(row);", "first -> load -> second"],
  [
    "a statement in a condition",
    "while (first(row)) { await load(q); if (second(row)) break; }",
    "first -> load -> second",
  ],
  [
    "a statement of the same item",
    "for (const a of row) { first(a); await load(q); second(a); }",
    "first -> load -> second",
  ],
  [
    "a statement in a function",
    "first(row); const work = () => load(q); await work(); second(row);",
    "first -> load -> second",
  ],
  ["a statement before a passed decision", "first(row); await load(q); row.map(second);", "first -> load -> second"],
  [
    "a statement before one in a callback",
    "first(row); await load(q); row.map((a) => second(a));",
    "first -> load -> second",
  ],
])("reports %s between two decisions", (_what, body, expected) => {
  expect(planted(run(body))).toEqual([expected]);
});

it.each([
  ["without a statement in between", "first(row); second(row); await load(q);"],
  ["with a report in between", "first(row); report(q); second(row);"],
  ["of another branch", "if (a) { first(row); await load(q); } else second(row);"],
  ["after the end of the first", "if (first(row)) { await load(q); return; } second(row);"],
  ["of another item", "for (const a of row) { first(a); await load(q); }"],
  [
    "of another item, after the end of the first",
    "for (const a of row) { if (first(a)) { await load(q); continue; } second(a); }",
  ],
  ["of another transaction", "first(row); await load(q); return (q) => second(row);"],
  ["of another savepoint", "first(row); await load(q); await q.savepoint(async () => { second(row); });"],
  ["that chooses nothing", "first(row); await load(q); value(row);"],
])("reports no decision %s", (_what, body) => {
  expect(planted(run(body))).toEqual([]);
});

it("what is decided before the first statement may name what is loaded", () => {
  expect(planted("export const a = async (q: Query) => { first(row); await load(q); second(row); };")).toEqual([]);
});

it("follows the functions of the stage, apart from the steps", () => {
  const inner = "async function inner(q: Query): Promise<void> { await load(q); second(row); }\n";
  const code = inner + run("first(row); await inner(q);");
  expect(planted(code)).toEqual(["first -> load -> second"]);
  expect(planted(code, "src/pipeline/a/stage.ts inner")).toEqual([]);
  const violated = code.replace("await load(q); second", "await load(q); first(row); await load(q); second");
  expect(planted(violated, "src/pipeline/a/stage.ts inner")).toEqual(["first -> load -> second"]);
});

it("follows a function with the name of a transaction", () => {
  const code = `async function read(): Promise<void> { const row = await load(q); first(row); await load(q); second(row); }`;
  expect(planted(`${code} export const a = () => read(q);`)).toEqual(["first -> load -> second"]);
});

it("reports a decision that is not met, because it may be called in a way that is not followed", () => {
  const stage = { path: "src/pipeline/a/stage.ts", text: 'import { first } from "./decide.ts"; unknown(first(row));' };
  expect(interleaved([decisions, stage], [])).toEqual(["src/pipeline/a/stage.ts: first is not met on any path"]);
});

it("follows the methods of a stage and the functions that it returns", () => {
  const body = "const row = await load(q); first(row); await load(q); second(row);";
  expect(planted(`export class A { async run(q: Query) { ${body} } }`)).toEqual(["first -> load -> second"]);
  expect(planted(`export const a = () => ({ async run(q) { ${body} } });`)).toEqual(["first -> load -> second"]);
  expect(planted(`export const a = () => (q) => { ${body} };`.replaceAll("await ", ""))).toEqual([
    "first -> load -> second",
  ]);
});

it("finds the decisions that rows.ts uses", () => {
  const text = `import { type Row, first, second as third, value } from "./decide.ts";`;
  expect(decisionsInRows([decisions, { path: "src/pipeline/a/rows.ts", text }])).toEqual([
    "src/pipeline/a/rows.ts: first",
    "src/pipeline/a/rows.ts: third",
  ]);
  expect(decisionsInRows([decisions, { path: "src/pipeline/a/stage.ts", text }])).toEqual([]);
});
