// The demo as its user meets it: one process, nothing else needed.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { openConsole } from "../support/commands/console.ts";
import { childEnv, startDemo } from "../support/machine/command.ts";
import { fresh, sqliteDatabase } from "../support/store/databases.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Starts the command. `until`: interrupts it when the output matches. */
async function demo(flags: readonly string[], until?: RegExp) {
  const child = spawn(process.execPath, ["--conditions=source", "src/main.ts", "demo", ...flags], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...childEnv, NODE_NO_WARNINGS: "1" },
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
    if (until?.test(out)) child.kill("SIGTERM");
  });
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, err };
}

it("ends after the first reply with --once", async () => {
  const { code, out, err } = await demo(["--once"]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/> Subject: Where is my parcel\?/);
  expect(out).toMatch(/ms {2}received\n[^]*ms {2}asked\n[^]*ms {2}answered\n[^]*ms {2}sent\n/);
  expect(out).toMatch(/< Subject: Re: [^]*two to four working days/);
  expect(out).not.toContain("/login/");
});

it("prints a login link of the console, and ends when it is interrupted", async () => {
  const { code, out, err } = await demo(["--no-open"], /\/login\/\w+\?to=\/playground\n/);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toContain("Write and answer in the web console");
});

/** A browser without JavaScript: logs in and sends forms of the playground. */
async function logIn(url: string) {
  const { origin } = new URL(url);
  const posted = { method: "POST", redirect: "manual", headers: { origin } } as const;
  const login = await fetch(url, posted);
  expect([login.status, login.headers.get("location")]).toEqual([303, "/playground"]);
  const cookie = login.headers
    .getSetCookie()
    .map((one) => one.split(";")[0])
    .join("; ");
  const page = async (path = "/playground") => (await fetch(`${origin}${path}`, { headers: { cookie } })).text();
  const csrf = /name="csrf" value="(\w+)"/.exec(await page())?.[1] ?? "";
  const send = async (path: string, fields: Record<string, string>) => {
    const body = new URLSearchParams({ csrf, ...fields });
    const answer = await fetch(`${origin}/playground/${path}`, {
      ...posted,
      headers: { origin, cookie },
      body,
    });
    expect(answer.status).toBe(303);
  };
  /** Waits until the page shows it. */
  const shows = (what: string | RegExp) =>
    expect.poll(() => page()).toMatch(typeof what === "string" ? new RegExp(what) : what);
  return { send, shows, page };
}

it("acknowledges every message that is written, and says why one is not answered", async ({ onTestFinished }) => {
  const { url, end } = await startDemo(onTestFinished);
  const { send, shows, page } = await logIn(url);
  await send("respond", { text: "ok" });
  expect(await page()).not.toContain("Answer as Ben");
  const number = "+12025550124";
  await send("text", { from: number, text: "Which bulbs fit?" });
  await shows(/E27 bulbs/);
  await send("text", { from: number, text: "STOP" });
  await shows(/ignored: the person said STOP/);
  await send("text", { from: number, text: "Are you there?" });
  await shows(/ignored: [^<]*STOP[^]*ignored: the person said STOP/);
  await send("text", { from: "+19993000307", text: "Which bulbs fit?" });
  await shows(/failed: [^<]*30003/);
  await send("call", { action: "dial" });
  await shows(/Lumen Lamps, hello!/);
  await send("call", { text: "Can a lamp be returned?" });
  await shows(/within 30 days/);
  await send("call", { action: "hang-up" });
  await shows(/The call is over: hung-up/);
  await send("mail", {
    from: "anna@customer.example",
    subject: "Broken",
    text: "I have a complaint: the lamp arrived broken.",
  });
  await shows(/Topic: complaint/);
  await send("respond", { text: "I am sorry about that. A new lamp leaves today." });
  await shows(/to anna@customer.example[^]*I am sorry about that[^]*handled as the answer of a responder/);
  expect(await end()).toBe(0);
});

it("the playground exists in the demo only", async () => {
  const fixture = await openConsole(await fresh(sqliteDatabase));
  expect((await fixture.get("/escalations")).status).toBe(200);
  for (const path of ["", "/mail", "/text", "/call", "/respond"])
    expect((await fixture.get(`/playground${path}`)).status).toBe(404);
});
