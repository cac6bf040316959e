// The rules of the architecture as data and small functions: each takes files and returns their violations.

import { durations, timingReads } from "./durations.ts";
import { codeOf, type Import, importsOf, packageOf, type Rule, type SourceFile, zoneOf } from "./source.ts";
import { decisionTests, pureDecisions, stageHeaders } from "./stages.ts";
import { stateWrites } from "./states.ts";

const contract = "bridgehead/contract";
const tools = ["domain", "ops"];
const parts = [...tools, "config", "store", "wire", "client", "agent", "http"];

const stages = [...parts, "engine", "pipeline", "calls", "escalation", "channels"];

/** Who may import whom, by folder of src. The contract is imported by its name and is not listed. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  domain: [],
  ops: [],
  config: tools,
  store: tools,
  wire: tools,
  client: [...tools, "wire"],
  agent: [...tools, "wire", "client"],
  http: tools,
  engine: parts,
  pipeline: [...parts, "engine"],
  calls: [...parts, "engine", "pipeline"],
  escalation: [...parts, "engine", "pipeline"],
  channels: [...parts, "engine", "pipeline"],
  "app.ts": stages,
  // sandbox: the playground page, which only the demo passes to the console.
  console: [...stages, "app.ts", "sandbox"],
  platform: [...tools, "wire"],
  sandbox: tools,
  commands: [...stages, "app.ts", "console", "platform", "sandbox"],
  "main.ts": ["commands"],
};

/** The folders that may import a package. */
const homes: Readonly<Record<string, readonly string[]>> = {
  [contract]: ["src/", "adapters/"],
  zod: ["src/", "adapters/"],
  vitest: ["src/contract/testing/"],
  "better-sqlite3": ["src/store/", "src/platform/store/"],
  pg: ["src/store/"],
  pino: ["src/ops/"],
  "prom-client": ["src/ops/"],
  hono: ["src/http/", "src/platform/", "src/console/", "src/escalation/link/page.ts"],
  "@opentelemetry/api": ["src/ops/traces.ts"],
  "@opentelemetry/exporter-trace-otlp-http": ["src/ops/traces.ts"],
  "@opentelemetry/resources": ["src/ops/traces.ts"],
  "@opentelemetry/sdk-trace": ["src/ops/traces.ts"],
  "@hono/node-server": ["src/http/", "src/platform/"],
  undici: ["src/client/", "src/platform/brain/", "src/platform/webhooks/", "adapters/"],
  yaml: ["src/config/", "src/platform/"],
  commander: ["src/commands/program.ts", "src/commands/command-line.ts", "src/commands/reference/"],
  "@clack/prompts": ["src/commands/init/"],
  "fast-string-truncated-width": ["src/commands/text.ts"],
  oauth4webapi: ["src/commands/init/"],
  "p-queue": ["src/client/", "src/platform/webhooks/", "adapters/"],
  "hoodiecrow-imap": ["src/sandbox/"],
  "smtp-server": ["src/sandbox/"],
  ws: ["src/http/", "src/sandbox/"],
  twilio: ["adapters/sms/", "adapters/voice/", "src/sandbox/"],
  imapflow: ["adapters/email/"],
  nodemailer: ["adapters/email/"],
  "postal-mime": ["adapters/email/", "src/sandbox/", "src/console/mail/worker.ts"],
  "sanitize-html": ["src/console/mail/worker.ts"],
  mailauth: ["adapters/email/"],
  tldts: ["adapters/email/"],
  "markdown-it": ["adapters/"],
  "libphonenumber-js": ["adapters/sms/", "adapters/voice/"],
  "html-to-text": ["adapters/email/", "src/platform/files/"],
  standardwebhooks: ["src/platform/webhooks/"],
  "ipaddr.js": ["src/ops/", "adapters/sms/"],
  ajv: ["src/platform/brain/"],
  unpdf: ["src/platform/files/"],
  mammoth: ["src/platform/files/"],
  htmlparser2: ["adapters/email/"],
  domhandler: ["adapters/email/"],
  domutils: ["adapters/email/"],
  "email-forward-parser": ["adapters/email/"],
  "iconv-lite": ["adapters/email/"],
};

const isCode = ({ path }: SourceFile): boolean => /^(src|adapters)\//.test(path);
const importsIn = (files: readonly SourceFile[]): Import[] => files.filter(isCode).flatMap(importsOf);

const directions: Rule = (files) =>
  importsIn(files).flatMap(({ from, to, relative }) => {
    if (!relative) return [];
    const [here, there] = [zoneOf(from), zoneOf(to)];
    if (here === there && !(there === "contract" && to.includes("/testing/") && !from.includes("/testing/"))) return [];
    if (from.startsWith("adapters/"))
      return [`${from}: an adapter imports ${contract}, packages and its own files, not ${to}`];
    if (there === "contract" && here !== "contract") return [`${from}: imports ${to}, which has the name ${contract}`];
    return (allowed[here] ?? []).includes(there) ? [] : [`${from}: ${here} may not import ${to}`];
  });

const packageHomes: Rule = (files) =>
  importsIn(files).flatMap(({ from, to, relative }) => {
    const name = packageOf(to);
    if (relative || name === "?" || name.startsWith("node:")) return [];
    const home = homes[name];
    if (home === undefined) return [`${from}: ${name} has no home`];
    return home.some((folder) => from.startsWith(folder)) ? [] : [`${from}: ${name} lives in ${home.join(", ")}`];
  });

const contractNeeds: ReadonlySet<string> = new Set(["node:http", "node:https", "node:net", "node:tls", "node:crypto"]);

/** Authors of adapters install the contract without our zod, so the contract imports only its types. */
const contractIsTypes: Rule = (files) =>
  importsIn(files)
    .filter(({ from, relative }) => from.startsWith("src/contract/") && !from.includes("/testing/") && !relative)
    .filter(({ to, typeOnly }) => !(to === "zod" && typeOnly) && !contractNeeds.has(to))
    .map(
      ({ from, to }) =>
        `${from}: the contract imports nothing but zod's types and Node's HTTP client and cryptography, not ${to}`,
    );

/** Adapters come through the loader, which alone imports what a configuration names. */
const computedImports: Rule = (files) =>
  importsIn(files)
    .filter(({ to, from }) => to === "?" && from !== "src/channels/loader.ts")
    .map(({ from }) => `${from}: imports what is only known at run time`);

const sizes: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const lines = text.split("\n").length - 1;
    const most = path.startsWith("test/") ? 500 : 400;
    return lines <= most ? [] : [`${path}: ${lines} lines, at most ${most}`];
  });

const emptyName = /^(utils?|helpers?|common|managers?|services?|base|misc|stuff)$/;
const names: Rule = (files) =>
  files
    .filter(({ path }) => path.split(/[/.-]/).some((word) => emptyName.test(word)))
    .map(({ path }) => `${path}: names nothing`);

const inheritance: Rule = (files) =>
  files
    .filter(isCode)
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bclass\s+(\w+)\s+extends\s+(\w+)/g)]
        .filter(([, , parent]) => parent !== "Error")
        .map(([, name, parent]) => `${path}: ${name} inherits from ${parent}`),
    );

const promises: Rule = (files) =>
  files
    .filter(isCode)
    .filter(({ text }) => /\b(TODO|FIXME|XXX)\b/.test(text))
    .map(({ path }) => `${path}: promises to be finished`);

const honestTests: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("test/"))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bvi\.(?:mock|doMock|stubGlobal)\(|\b(?:it|test|describe)\.(?:only|todo)\(/g)].map(
        ([word]) => `${path}: ${word}`,
      ),
    );

/** SQL is in the store and in the files of rows of a folder, so that decisions can be read and tested without a database. */
const statements: Rule = (files) =>
  files
    .filter(
      ({ path }) => isCode({ path, text: "" }) && !/^src\/(?:platform\/)?store\/|\/(?:[\w-]+-)?rows\.ts$/.test(path),
    )
    .flatMap(({ path, text }) =>
      [...text.matchAll(/["'`]\s*(SELECT\s+\S+\s|INSERT\s+INTO\s|DELETE\s+FROM\s|UPDATE\s+\w+\s+SET\s)/g)].map(
        ([, start = ""]) => `${path}: ${start.trim()}: statements are in rows.ts`,
      ),
    );

/** The patience of a poll, a test and a hook, with its least milliseconds. A test has 300 s without a limit of its own. */
const patiencePatterns: readonly (readonly [limit: RegExp, least: number])[] = [
  [/\btimeout: ([\d_]+)[^{}]*\},?\s*\)\s*\.(?:not\.)?to[A-Z]/g, 60_000],
  [/\b(?:it|test|describe)(?:\.\w+)*\((?:[^\n]*\)\()?[^\n{}]*\{\s*timeout: ([\d_]+)/g, 300_000],
  [/\b(?:testTimeout|hookTimeout): ([\d_]+)/g, 300_000],
  // One that is to expire says so on its line.
  [/\bAbortSignal\.timeout\(([\d_]+)\)(?!.*\/\/ .*expires)/g, 60_000],
];

/** A machine under load stands still for seconds, so a short timeout fails tests of a daemon that works. */
const patience: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("test/"))
    .flatMap(({ path, text }) =>
      patiencePatterns.flatMap(([limit, least]) =>
        [...text.matchAll(limit)]
          .filter(([, ms = ""]) => Number(ms.replaceAll("_", "")) < least)
          .map(([, ms]) => `${path}: timeout ${ms}: waits at least ${least} ms`),
      ),
    );

/** The name of a test says what happens, not where the wish came from. */
const behaviour: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("test/"))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\b(?:it|test|describe\w*)(?:\.\w+)*\(\s*["'`].*\b((?:review|issue) #?\d+)/g)].map(
        ([, origin]) => `${path}: named after ${origin}: a test is named after the behaviour`,
      ),
    );

const mostFiles = 15;

/** The names of the files by folder. */
const filesByFolder = (files: Parameters<Rule>[0]) =>
  Map.groupBy(
    files.map(({ path }) => ({
      folder: path.slice(0, path.lastIndexOf("/")),
      name: path.slice(path.lastIndexOf("/") + 1),
    })),
    ({ folder }) => folder,
  );

/** Returns the folders of src, adapters and test with more files than a reader can survey. */
export const fullFolders: Rule = (files) =>
  [...filesByFolder(files)]
    .filter(([, { length }]) => length > mostFiles)
    .map(([folder, { length }]) => `${folder}: ${length} files, at most ${mostFiles}`);

const mostStageFiles = 4;

/** Returns the folders of stages with more files than stage.ts, rows.ts, decide.ts and one more. */
export const fullStages: Rule = (files) =>
  [...filesByFolder(files)]
    .filter(([folder, own]) => folder.startsWith("src/") && own.some(({ name }) => name === "stage.ts"))
    .filter(([, { length }]) => length > mostStageFiles)
    .map(([folder, { length }]) => `${folder}: ${length} files, at most ${mostStageFiles} in a stage`);

/** V8 allocates a function that is written as the value of an assignment to a member among the old objects: all that it
 *  refers to stays until the next mark-compact, also what a message needed for milliseconds. */
const longLived: Rule = (files) =>
  files
    .filter(isCode)
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bthis\.#?\w+ (?:\?\?)?= (?:async )?(?:\([^()]*\)|\w+) =>/g)].map(
        ([start]) => `${path}: ${start} assign a named function`,
      ),
    );

/** Words of a private vocabulary, for which src/README.md has standard terms. Texts and comments may contain them. */
const privateWords =
  /^(?:verdicts?|settle[sd]?|settling|told|tells?|crowd|desk|nobody|somebody|whoever|heeds?|wording|talked|untaken|unserved|rouse|nudge|squeeze)$/i;

/** Declarations after a keyword; parameters and properties; functions and methods that begin a line, with their calls. */
const declaredNames =
  /\b(?:const|let|function\*?|class|interface|type|enum|readonly|static) #?(\w+)|[({,] ?#?(\w+)\??:|^[ \t]*(?:(?:private|protected|public|static|override|async|get|set) |\*)*#?(\w+)(?:<[^\n]*>)?\(/gm;

const vocabulary: Rule = (files) =>
  files.filter(isCode).flatMap((file) => {
    const { path } = file;
    const names = [...codeOf(file).matchAll(declaredNames)];
    const isPrivate = (name: string) => name.split(/(?=[A-Z])|_/).some((word) => privateWords.test(word));
    return [...new Set(names.map(([, declared, property, method]) => declared ?? property ?? method ?? ""))]
      .filter(isPrivate)
      .map((name) => `${path}: ${name}: use the standard term of src/README.md`);
  });

/** Files whose texts describe commands and cannot know the configuration: the descriptions of commands, keys and metrics, and
 *  the page before the login. */
const describing =
  /^src\/(?:config\/schema\/|commands\/(?:command-line\.ts|reference\/)|ops\/statistics\.ts|console\/server\.ts)/;

const command =
  /\bbridgehead (?:run|service|console|log-level|health|check|doctor|support-bundle|schema|demo|init|outbox|inbox|retry|opt-out|find|conversation|pause|resume|channel|start|escalation|policy|platform|store|migrate|erase|export|backup|verify|restore)\b(?![^\n]*--config)/;

/** A command in a text is copied by an operator, and must act on the installation that printed it. */
const commandTexts: Rule = (files) =>
  files
    .filter((file) => isCode(file) && !describing.test(file.path))
    .flatMap(({ path, text }) =>
      text
        .split("\n")
        .filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))
        .flatMap((line) => command.exec(line)?.[0] ?? [])
        .map((found) => `${path}: ${found}: write it with commandText`),
    );

export const rules = {
  commandTexts,
  pureDecisions,
  stageHeaders,
  decisionTests,
  longLived,
  vocabulary,
  directions,
  packageHomes,
  contractIsTypes,
  computedImports,
  sizes,
  names,
  inheritance,
  promises,
  honestTests,
  stateWrites,
  statements,
  durations,
  timingReads,
  patience,
  behaviour,
} as const;

/** A rule, a planted file, its text, and what the rule says about it (null: nothing). */
export type Plant = readonly [rule: keyof typeof rules, path: string, text: string, expected: string | null];

/** Type names that two source files declare. */
export function repeatedTypes(files: readonly SourceFile[]): string[] {
  const declaredIn = new Map<string, string[]>();
  for (const { path, text } of files) {
    if (!/^(?:src|adapters)[/]/.test(path) || path.endsWith(".d.ts")) continue;
    for (const [, name = ""] of text.matchAll(/^(?:export )?(?:interface|type|class|enum) (\w+)/gm))
      declaredIn.set(name, [...(declaredIn.get(name) ?? []), path]);
  }
  return [...declaredIn]
    .filter(([, paths]) => paths.length > 1)
    .map(([name, paths]) => `${name} is declared in ${paths.join(" and ")}: give each type its own name`);
}

/** Functions with one name in more than eight files. Methods are not counted: the contract defines most of them. */
export function repeatedFunctions(files: readonly SourceFile[]): string[] {
  const declaration =
    /^(?:export )?(?:default )?(?:(?:async )?function\*? (\w+)|const (\w+) = (?:async )?(?:<.*>)?(?:\w+ =>|\(.*(?:\)|\): .*) =>|\($))/gm;
  const declaredIn = new Map<string, Set<string>>();
  for (const { path, text } of files) {
    if (!/^(?:src|adapters)[/]/.test(path)) continue;
    for (const [, declared, assigned] of text.matchAll(declaration)) {
      const name = declared ?? assigned ?? "";
      declaredIn.set(name, (declaredIn.get(name) ?? new Set()).add(path));
    }
  }
  return [...declaredIn].filter(([, paths]) => paths.size > 8).map(([name, paths]) => `${name} (${paths.size})`);
}
