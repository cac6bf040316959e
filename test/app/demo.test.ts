// The demo as a person meets it: one process, nothing else needed.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Runs it where nobody can type. */
async function demo(...flags: readonly string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, ["--conditions=source", "src/main.ts", "demo", ...flags], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", NODE_NO_WARNINGS: "1" },
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, err };
}

it("plays a mail, a text and a call, and ends well", async () => {
  const { code, out, err } = await demo();
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/< Subject: Re: [^]*two to four working days/);
  expect(out).toMatch(/< \(text\) [^]*E27 bulbs/);
  expect(out).toMatch(/\(calls [^]*\(speaks\) Lumen Lamps, hello![^]*\(speaks\) .*30 days/);
  const [mail = "", text = "", call = ""] = out.split(/\n> \((?:text|calls)/);
  for (const act of [mail, text, call]) expect(act).toMatch(/accepted[^]*calling[^]*sent {7}and noted/);
  expect(out).toContain("The call is over: hung-up.");
});

it("ends after the first reply when that is all that is wanted", async () => {
  const { code, out, err } = await demo("--once");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/< Subject: Re: /);
  expect(out).not.toContain("(text)");
});
