// The demo as a person meets it: one process, nothing else needed.

import { spawn } from "node:child_process";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { run } from "../../src/commands/demo.ts";
import type { Io } from "../../src/commands/io.ts";

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
  for (const act of [mail, text, call])
    expect(act).toMatch(/accepted[^]*calling[^]*sent {7}the outcome is recorded/);
  expect(out).toContain("The call is over: hung-up.");
  // A complaint is handed over: the colleague is notified, and the answer reaches the customer (review 30).
  const [agent = "", notification = "", relayed = ""] = out
    .slice(out.indexOf("I have a complaint"))
    .split(/\n< \(in the mailbox of the colleague|\n> \(the colleague answers/);
  expect(agent).toContain("A colleague will write to you today.");
  expect(notification).toContain("Topic: complaint");
  expect(relayed).toMatch(/\n> I am sorry about that[^]*\n< Subject: Re: [^]*\n< I am sorry about that/);
});

/** The prompt, in this process: each line is typed when the one before was acknowledged. */
async function prompt(onTestFinished: (after: () => Promise<void>) => void) {
  const input = new PassThrough();
  let out = "";
  const abort = new AbortController();
  const io: Io = {
    out: (text) => void (out += `${text}\n`),
    err: (text) => void (out += `${text}\n`),
    write: () => undefined,
    env: {},
    signal: abort.signal,
    cwd: root,
    input,
    interactive: true,
    terminal: false,
    onHangup: () => undefined,
    onCrash: () => undefined,
  };
  const ended = run({}, io);
  onTestFinished(async () => {
    abort.abort();
    await ended;
  });
  await expect.poll(() => out).toContain("Any SMTP client reaches");
  return {
    /** What is printed from the line on until `expected` is. */
    type: async (line: string, expected: RegExp): Promise<string> => {
      const from = out.length;
      input.write(`${line}\n`);
      await expect.poll(() => out.slice(from), { message: line }).toMatch(expected);
      return out.slice(from);
    },
    end: async () => {
      input.end();
      return ended;
    },
  };
}

it("acknowledges every line that is typed, and never hangs (review 30)", async ({ onTestFinished }) => {
  const { type, end } = await prompt(onTestFinished);
  await type("/colleague hello", /was not notified of anything/);
  const answered = /\n {2} *\d+ ms {2}sent {7}the outcome is recorded\n[^]*\n< /;
  await type("/sms Which bulbs fit?", answered);
  await type("/sms STOP", /No answer: the person said STOP\.\n/);
  await type("/sms Are you there?", /No answer: .*STOP/);
  await type("/sms START", /No answer: the person said START\.\n|\n< /);
  await type("/sms Which bulbs fit now?", answered);
  // The cap on one sender.
  let capped = 0;
  for (let mail = 1; mail <= 8; mail += 1) {
    const shown = await type(
      `Question ${mail}: how long does delivery take?`,
      /sent {7}the outcome is recorded\n[^]*\n< |No answer: .*\n/,
    );
    if (shown.includes("No answer: ")) capped += 1;
  }
  expect(capped).toBeGreaterThan(0);
  // A message that is not answered is an escalation, too.
  await type("/colleague ok", /\n {2}Taken: .*\n/);
  await type("/say hello", /Nobody is on the line/);
  await type("/hangup", /Nobody is on the line/);
  await type("/nonsense", /A line is the customer's next mail/);
  expect(await end()).toBe(0);
});

it("prints the stages of every message in their order (review 30)", async ({ onTestFinished }) => {
  const { type, end } = await prompt(onTestFinished);
  const order = ["accepted", "calling", "opened", "answered", "sending", "sent"];
  for (const line of ["How long does delivery take?", "/sms Which bulbs fit?", "/sms And how bright?"]) {
    const shown = await type(line, /sent {7}the outcome is recorded\n[^]*\n< /);
    const stages = [...shown.matchAll(/^ +(\d+) ms {2}(\w+)/gm)].map(([, at, name]) => ({
      at: Number(at),
      name: name ?? "",
    }));
    const names = stages.map(({ name }) => name);
    expect(names).toEqual(order.filter((name) => name !== "opened" || names.includes("opened")));
    expect(stages.map(({ at }) => at)).toEqual(stages.map(({ at }) => at).sort((a, b) => a - b));
    // The answer comes after what led to it.
    expect(shown.indexOf("\n< ")).toBeGreaterThan(shown.indexOf("the outcome is recorded"));
  }
  expect(await end()).toBe(0);
});

it("ends after the first reply when that is all that is wanted", async () => {
  const { code, out, err } = await demo("--once");
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/< Subject: Re: /);
  expect(out).not.toContain("(text)");
});
