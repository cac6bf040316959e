// Every function that processes untrusted text takes linear time, and less than 50 ms of CPU time for 100 kB of any hostile
// text, on the main thread and in workers.

import { availableParallelism, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { cases } from "./registry.ts";

// Texts that are made to be slow to process, and how much work a function has with them.

/** Repeated up to the wanted length. Each has made some parser or regular expression super-linear. */
const pieces: readonly string[] = [
  [
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "\u00a0",
    " \n",
    "a\n",
    "\n\n a",
    "a ",
    "x",
    ".",
    "a.",
    "-",
    "_",
    "*",
    "=",
    "#",
    "\\",
  ],
  ["> ", ">", "> > >", "> > >\n", "| ", "|a", "|a|\n", "a|b\n-|-\n", ">\n> a\n", "»", "“„«"],
  ["- - -", "- - -\n", "- ", "- a\n\n", "* a\n", "  - a\n", "1. ", "1.\n", "+ ", "---\n", "===\n", "# ", "    a\n"],
  ["_a_", "*a*", "**a", "*a **b ", "a**b", "*_", "__a", "~~a", "*a ", "a_b"],
  [
    "[",
    "[a](",
    "![",
    "[a][b",
    "[]",
    "](",
    "[a]: b\n",
    "[^1]: a\n",
    "![a](http://b/",
    "[a](http://b ",
    '![a](http://b "',
    "[^a]",
    "[ref:",
    "[ref:a ",
    "[ref:bh-",
    "(",
    "()",
    "((a",
    "{",
    "{{",
  ],
  [
    "<",
    "<<",
    "<a ",
    "<!--",
    "<!-- -",
    '<a href="',
    "</",
    "<b>",
    "<br>",
    "<div><span>",
    "<p>a",
    "<script>",
    "<?",
    "<![CDATA[",
    "<td>",
    "<blockquote>",
    "<blockquote>a",
    "<table><tr><td>1",
  ],
  ["`", "``a`", "`a", "```\n", "'", '"', "“", '"a', "'a\"", '"\\', "=?utf-8?q?", "=?a?b?c?= ", "=20", "=\n"],
  [
    "a@",
    "a@a@a@",
    "a@a ",
    "a.b@c.d",
    "<a@b>",
    "a@b,",
    '"a" <a@b>, ',
    "http://",
    "http://a.",
    "www.a ",
    "https://a.b/(",
    "mailto:",
    "://",
    "/escalations/a",
  ],
  [
    "&",
    "&amp;",
    "&#",
    "&#35;",
    "&#x2",
    ",",
    ";",
    ":",
    ": ",
    "a:b\n",
    "a: b\n ",
    "From: a\n",
    "From: a@b\nTo: c\n",
    "Subject: ",
    "Number: 1\n",
    "Escalation 1",
    "What was said\n",
    "-- \n",
    "-- \nx\n",
    "--\n",
    "_____\n",
  ],
  [
    "On 1 wrote:\n",
    "On 2024 wrote: >\n",
    "On 2024 a@b :\n",
    "schrieb<Am ",
    "On 1 Jan 2026, a <a@b.c> wrote",
    "Am 1. schrieb",
    "1/2/2026 ",
    "Re: ",
    "Re:",
    "[EXT] ",
    "Fwd: ",
    "ok ",
    "ok\n",
    "#note ",
    "#",
    "#\u200b",
    "1 ",
    "417",
    "1: ",
    "1, ",
    "- 1 or ",
  ],
  [
    "\u202e",
    "\u200b",
    "\u00ad",
    "e\u0301",
    "\u0301",
    "\u0300\u0316",
    "\ufe0f",
    "👩\u200d",
    "👍🏽",
    "🇩",
    "漢",
    "한",
    "\ud83d",
    "\u0000",
    "\u0007",
    "\u2028",
    "ﷺ",
    "ﬁ",
    "İ",
    "ß",
    "ё",
  ],
  [
    "QUJD",
    "AbCd+/09",
    "A1b2",
    "%41",
    "%",
    "+1",
    "0",
    "9,",
    "1.2.",
    "$1",
    '{"a":',
    "[{",
    "a=b&",
    "ab=&",
    "a&",
    "a[b]=",
    "Best regards\n",
    "Anna\n",
    "Thanks, Anna\n",
    "...",
    "Mr. ",
    "z. B. ",
  ],
].flat();

/** Repetitions that need an end, or a beginning, to be slow. */
const framed: readonly (readonly [string, string, string])[] = [
  ["", " ", "x"],
  ["", "\n", "x"],
  ["x", "\n", "x"],
  ["a", "\t", "!"],
  ["", ">", "x"],
  ['"', "a", ""],
  ["<a ", "b ", ""],
  // The element by which html/text.ts hands its tree to html-to-text.
  ["<tree></tree>", "a ", ""],
  ["<!--", "-", ""],
  ["Re: ", "[", ""],
  ["ok", " ", "x"],
  ["Liked “", "a\n", ""],
  ["", "a.", "!"],
  ["", "*a ", "a* ".repeat(50)],
  ["", "1", "x"],
  ["[Escalation ", "1", ""],
  ["a@", "a.", "@"],
  ["=?utf-8?b?", "A", ""],
  ["Number: 1", "\n", "x"],
  ["a=", "a&", ""],
];

interface HostileText {
  readonly name: string;
  readonly of: (length: number) => string;
}

const hostileTexts: readonly HostileText[] = [
  ...pieces.map((piece) => ({
    name: JSON.stringify(piece),
    of: (length: number) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length),
  })),
  ...framed.map(([first, piece, last]) => ({
    name: JSON.stringify([first, piece, last.slice(0, 10)]),
    of: (length: number) =>
      `${first}${piece.repeat(Math.max(1, Math.ceil((length - first.length - last.length) / piece.length)))}${last}`,
  })),
];

/** Below this the kernel's account of CPU time is too coarse: it may say 0 for 3 ms. */
const coarse = 20;

/** Milliseconds that `run` takes: for short runs by the clock, for longer ones the CPU time of this thread, in which other
 *  processes and threads do not count. */
async function workOf(run: () => unknown): Promise<number> {
  const began = performance.now();
  const before = process.threadCpuUsage();
  await run();
  const elapsed = performance.now() - began;
  const { user, system } = process.threadCpuUsage(before);
  return elapsed < coarse ? elapsed : (user + system) / 1000;
}

/** The least of several runs: the garbage of others is collected in some of them. */
async function leastWork(run: () => unknown, { enough, hopeless }: Between): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let count = 0; count < 3 && least > enough; count += 1) {
    least = Math.min(least, await workOf(run));
    if (least > hopeless) break;
  }
  return least;
}

/** Milliseconds; outside of these bounds one run decides. */
interface Between {
  readonly enough: number;
  readonly hopeless: number;
}

/** CPU time for 100 kB, in milliseconds. */
const mostWork = 50;
/** Linear is 10 for ten times the length; noise, caches and n log n are allowed for. */
const mostGrowth = 40;
/** Milliseconds below which the growth is noise: the square would still be harmless. */
const noise = 35;

/** Milliseconds of CPU time of `reference` on an idle machine of the kind that tests run on. */
const referenceMs = 16;
const referenceText = "The quick brown fox, 4711; _jumps_ over\n> the lazy dog. ".repeat(9000);

/** How much more CPU time the same work takes where other processes use the caches and the other hyper-threads. */
const contended = 2;

/** How much slower this machine is now. At least 1. */
function slowness(): number {
  let least = Number.POSITIVE_INFINITY;
  for (let count = 0; count < 5; count += 1) {
    const before = process.threadCpuUsage();
    const words = referenceText.split(/[^\p{L}]+/u).map((word) => word.toUpperCase());
    if (new Set(words).size === 0) throw new Error("the reference has no words");
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  const [load = 0] = loadavg();
  return Math.max(load > availableParallelism() ? contended : 1, least / referenceMs);
}

/** The machine's slowness changes within a run of the suite, so a result above the limit is held against that of now. */
let slower = slowness();

/** Ten times the length costs a quadratic function a hundred times as much. */
const harmless = mostWork / 125;

/** Neighbours on the machine can double the work for a while, but nothing makes it less: what exceeds a limit by so little
 *  must exceed it in each of several attempts. */
const attempts = 8;
const clear = 3;

type Excess = { readonly what: string; readonly times: number };

/** What is wrong with a function's work for 1, 10 and 100 kB of a hostile text; null when nothing is. */
async function superLinear(
  run: (text: string) => unknown,
  hostile: HostileText,
  allowed = mostWork,
): Promise<string | null> {
  try {
    for (let attempt = 1; ; attempt += 1) {
      const excess = await excessOf(run, hostile, allowed);
      if (excess === null) return null;
      if (attempt === attempts || excess.times > clear) return excess.what;
    }
  } catch (error) {
    return String(error);
  }
}

async function excessOf(run: (text: string) => unknown, { of }: HostileText, allowed: number): Promise<Excess | null> {
  const [small, medium, large] = [1000, 10_000, 100_000].map(of) as [string, string, string];
  const called = async (text: string) => {
    try {
      await run(text);
    } catch (error) {
      // A refusal is an answer, too. A TypeError or RangeError without a code is a defect (an overflown stack), or a record of
      // a registry that does not fit.
      const mayBeDefect = error instanceof TypeError || error instanceof RangeError;
      if (mayBeDefect && !("code" in error)) throw error;
    }
  };
  const hopeless = 2 * clear * allowed * slower;
  const tooLong = (size: string, work: number): Excess | null => {
    if (work > allowed * slower) slower = slowness();
    const times = work / (allowed * slower);
    return times > 1 ? { what: `${size} takes ${work.toFixed(0)} ms`, times } : null;
  };
  const early = tooLong("1 kB", await leastWork(() => called(small), { enough: 1, hopeless }));
  if (early !== null) return early;
  const second = await leastWork(() => called(medium), { enough: 1, hopeless });
  const later = tooLong("10 kB", second);
  if (later !== null) return later;
  // Even quadratic growth stays within the limit; the call still runs because the stack may overflow.
  if (second < harmless && tooLong("100 kB", await workOf(() => called(large))) === null) return null;
  const third = await leastWork(() => called(large), { enough: noise, hopeless });
  const late = tooLong("100 kB", third);
  if (late !== null) return late;
  const times = Math.min(third / (noise * slower), third / (second * mostGrowth));
  return times > 1 ? { what: `10 kB takes ${second.toFixed(2)} ms, 100 kB ${third.toFixed(0)} ms`, times } : null;
}

/** Milliseconds for 100 kB where a linear function needs more than 50. All run in the worker thread, which has a time limit
 *  of its own. The first three parse up to 33,000 HTML elements into a tree; html/text.ts skips its slowest pass above 12,000.
 *  `readMail` passes over the text many times, with two mails in one measurement; 100,000 characters may be 300 kB of UTF-8. */
const allowances: Readonly<Record<string, number>> = {
  "adapters/email/parse/html/text.ts#htmlToText": 100,
  "adapters/email/parse/mime.ts#bodyOf": 100,
  // Close to the limit: it exceeds 50 ms when neighbours take the caches of the machine.
  "adapters/email/parse/headers.ts#mailboxesOf": 100,
  // Three mails in one measurement.
  "adapters/email/events.ts#understand": 100,
  // Twice in one measurement.
  "adapters/email/parse/quotes/trim.ts#trimReply": 100,
  // Two mails in one measurement, and NFKC makes up to eighteen characters of one.
  "adapters/email/parse/worker.ts#digestOf": 200,
  "adapters/email/parse/worker.ts#readMail": 100,
};

const root = fileURLToPath(new URL("../../", import.meta.url));

describe("functions that process untrusted text are linear", () => {
  it.each(Object.entries(cases))("%s", async (path, calls) => {
    const module = (await import(root + path)) as Record<string, (...given: readonly unknown[]) => unknown>;
    const slow: string[] = [];
    for (const [name, call] of Object.entries(calls)) {
      const tested = module[name];
      if (tested === undefined) throw new Error(`${path} has no ${name}`);
      for (const hostile of hostileTexts) {
        const wrong = await superLinear((text) => call(tested, text), hostile, allowances[`${path}#${name}`]);
        if (wrong !== null) slow.push(`${name}(${hostile.name}): ${wrong}`);
      }
    }
    expect(slow).toEqual([]);
  });
});

describe("the check can fail", () => {
  // Each takes so much longer than it may that one run decides.
  const text = { name: "spaces", of: (length: number) => `${" ".repeat(length - 1)}x` };

  it.each([
    ["a quadratic regular expression", (given: string) => / +$/.test(given.slice(given.length / 2))],
    [
      "a quadratic loop",
      (given: string) => {
        let sum = 0;
        for (let at = 0; at < given.length; at += 5)
          for (let to = 0; to < given.length; to += 5) sum += given.charCodeAt(at) ^ given.charCodeAt(to);
        return sum;
      },
    ],
    ["an exponential one", (given: string) => /^(?: +)+$/.test(given.slice(0, 25) + given.at(-1))],
    [
      "a linear one that is too slow",
      (given: string) => {
        for (let n = 0; n < 1000; n += 1) JSON.parse(JSON.stringify(given.split("")));
      },
    ],
    [
      "one that overflows the stack",
      function deep(given: string): unknown {
        return given === "" ? 0 : [deep(given.slice(1))];
      },
    ],
  ])("on %s", async (_, run) => {
    expect(await superLinear(run, text)).toMatch(/takes \d|call stack/);
  });

  it("and lets a linear one pass", async () => {
    for (const hostile of hostileTexts)
      expect(await superLinear((given) => given.replace(/a/g, "b").trim(), hostile)).toBeNull();
    expect(mostWork).toBe(50);
  });
});
