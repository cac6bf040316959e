// Every function that processes untrusted text takes linear time, and less than 50 ms of CPU time for 100 kB of any hostile
// text, on the main thread and in workers.

import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { allowances } from "./exempt.ts";
import { hostileTexts, mostWork, superLinear } from "./hostile.ts";
import { cases } from "./registry.ts";

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
  const text = { name: "spaces", of: (length: number) => `${" ".repeat(length - 1)}x` };

  it.each([
    ["a quadratic regular expression", (given: string) => / +$/.test(given)],
    [
      "a quadratic loop",
      (given: string) => {
        let sum = 0;
        for (let at = 0; at < given.length; at += 8)
          for (let to = 0; to < given.length; to += 8) sum += given.charCodeAt(at) ^ given.charCodeAt(to);
        return sum;
      },
    ],
    ["an exponential one", (given: string) => /^(?: +)+$/.test(given.slice(0, 27) + given.at(-1))],
    [
      "a linear one that is too slow",
      (given: string) => {
        for (let n = 0; n < 200; n += 1) JSON.parse(JSON.stringify(given.split("")));
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
