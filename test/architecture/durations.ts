// Where durations are written down, and where the tables of them are read.

import { codeOf, type Rule, type SourceFile } from "./source.ts";

/** Where a duration may be written down: the table, the arithmetic of the calendar, the ranges of configuration keys, libraries of
 *  their own, the programs for trying out, the names of units, and a stylesheet. */
const timed =
  /^src\/(ops\/timing(\.ts|\/)|domain\/(hours|retention)\.ts|config\/schema\/|contract\/|client\/|platform\/|sandbox\/|commands\/(demo|policy|text)\.ts|console\/assets\/)/;

/** The same in adapters: their tables, the ranges of configuration keys, and the idle limits that email providers set. */
const timedInAdapters = /^adapters\/(\w+\/(timing|config)\.ts|email\/providers\.ts)$/;

const isCode = (path: string): boolean => /^(src|adapters)\//.test(path);

const waits = /\b(?:sleep|setTimeout|setInterval|every|after|abortAfter|wakeIn|limited|timeout)\(/.source;

const durationPatterns: readonly RegExp[] = [
  // A name that tells a duration, with a number.
  /\b(?:\w*(?:Ms|Milliseconds|Timeout|Pause|Delay|Patience|Interval|Lifetime|Back[oO]ff|Margin|Lease|Wait|Grace|Window|Retry|Deadline|Expiry|Duration|Horizon|Ttl|In)|timeout|pause|delay|patience|interval|lifetime|backoff|margin|lease|wait|grace|window|retry|deadline|expiry|duration|horizon|ttl)(?:\??: number)? ?(?:=|:|\?\?) ?[1-9][\d_]*/g,
  /\b\w*(?:Ms|Timeout|Pause|Delay): Math\.\w+\([1-9][\d_]*/g,
  // A wait of a fixed length.
  new RegExp(`${waits}[^()\\n]*\\b[1-9]\\d[\\d_]*`, "g"),
  // Minutes, hours and days in milliseconds; a division converts one for a text.
  /(?<!\/ |[\w.])(?:[1-9]\d{0,2}(?:_\d{3})+|[1-9]\d{4,})(?!\w)/g,
  /\b\d+ \* (?:second|minute|hour|day)\b/g,
  /now_ms\(\) [-+] [1-9]\d*/g,
];

/** Returns the declarations of numbers that a wait of the same file uses, as in `const hold = 5000; sleep(hold)`. */
const namedWaits = (code: string): string[] =>
  [...code.matchAll(/\b(\w+)(?:: number)? = [1-9][\d_]*(?: \* [1-9][\d_]*)*(?=[;,)\s])/g)].flatMap(
    ([declaration, name]) => (new RegExp(`${waits}[^()\\n]*(?<![\\w.])${name}\\b`).test(code) ? [declaration] : []),
  );

/** Adapters write some durations in the unit of a provider. In src, the lifetimes of cookies are in seconds. */
const inSeconds = /\b\w*Seconds = [1-9][\d_]*/g;

const isMinutes = (literal: string): boolean =>
  !/^[\d_]+$/.test(literal) || Number(literal.replaceAll("_", "")) % 60_000 === 0;

/** Durations are in the table of the daemon, or in that of their adapter: tests override them there. */
export const durations: Rule = (files) =>
  files
    .filter(({ path }) => isCode(path) && !timed.test(path) && !timedInAdapters.test(path))
    .flatMap(({ path, text }) => {
      const isAdapter = path.startsWith("adapters/");
      const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/\/\/ .*/g, "");
      const found = [...durationPatterns, ...(isAdapter ? [inSeconds] : [])].flatMap((pattern) =>
        [...code.matchAll(pattern)].map(([match]) => match),
      );
      const where = isAdapter ? "an adapter are in its timing.ts" : "the daemon are in src/ops/timing.ts";
      return [...new Set([...found.filter(isMinutes), ...namedWaits(code)])].map(
        (match) => `${path}: ${match}: durations of ${where}`,
      );
    });

/** The composition roots of the commands, which choose the table. */
const timingRoots = ["src/ops/timing.ts", "src/commands/program.ts", "src/commands/reference/write.ts"];

/** Reads of a table that a caller overrides: the default of a parameter or of an option; an adapter merges its own. */
const overriddenReads =
  /(?<!(?:const|let)\b.*)(?<=\S) = standardTiming[\w.]*(?=[,)])|\?\? standardTiming[\w.]*|\.\.\.standardTiming[\w.]*, \.\.\.|timingOf\(\w+, standardTiming\)|(?:export const|typeof) standardTiming\b/g;

/** A table is passed down: a function that reads it itself has durations that no test can override. */
export const timingReads: Rule = (files) =>
  files
    .filter(({ path }) => isCode(path) && !timingRoots.includes(path))
    .flatMap((file: SourceFile) => {
      const code = codeOf(file)
        .replace(/^import\b[^;]*;/gm, "")
        .replace(overriddenReads, "");
      return [...code.matchAll(/.*\bstandardTiming\b.*/g)].map(
        ([line]) => `${file.path}: ${line.trim()}: the timing table is passed down`,
      );
    });
