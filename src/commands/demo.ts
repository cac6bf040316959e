// bridgehead demo: the daemon, the embedded platform, a small mail server and a phone network in one process. A first mail
// is sent by itself; every stage and the reply are printed as they come; then the terminal is the customer's.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type App, startApp } from "../app.ts";
import { loadConfig } from "../config/index.ts";
import { loadAdapter } from "../host/loader.ts";
import { startListener } from "../http/index.ts";
import { newToken, systemClock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { readAgents, startPlatform } from "../platform/index.ts";
import { type Customer, startCustomer } from "../sandbox/customer.ts";
import {
  agentsFile,
  configFile,
  demoKey,
  firstMail,
  firstQuestion,
  firstText,
  numbers,
  customer as person,
  support,
} from "../sandbox/story.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";

/** Runs until interrupted; where nobody can type it plays a mail, a text and a call, `once` the mail alone. */
export async function run(options: { readonly once?: boolean }, io: Io): Promise<number> {
  const password = newToken();
  const customer = await startCustomer({ password, out: io.out });
  const daemon = await startDaemon(customer, password, io);
  customer.reach(daemon.url);
  const quiet = watchStages(io);
  const unless = (doing: Promise<unknown>) => Promise.race([doing, aborted(io.signal)]);

  io.out(`A mailbox (${support}), a number (${numbers.support}), an agent and this daemon are running.`);
  io.out(`${person} writes:`);
  try {
    await unless(noted(() => customer.mail(firstMail.subject, firstMail.text)));
    if (options.once) return exitCodes.ok;
    if (io.interactive) await converse(io, customer);
    else await unless(play(customer, io.signal));
  } finally {
    quiet();
    await daemon.stop(io.signal.aborted ? 0 : 5000);
    await customer.close();
  }
  return exitCodes.ok;
}

/** The daemon as `run` composes it, with everything it needs of others. */
async function startDaemon(customer: Customer, password: string, io: Io) {
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-demo-"));
  const log = createLog({ level: "warn", format: "text", out: { write: io.err }, clock: systemClock });
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: readAgents(agentsFile, "the demo"),
    clock: systemClock,
    log,
  });
  const path = join(folder, "bridgehead.yaml");
  const { imapPort, smtpPort } = customer.mailServer;
  const smsUrl = customer.smsApi.url;
  await writeFile(path, configFile({ platformUrl: platform.url, imapPort, smtpPort, smsUrl, folder }));
  const loaded = await loadConfig(path, {
    env: { ...io.env, DEMO_PASSWORD: password, DEMO_KEY: demoKey },
    adapters: loadAdapter,
  });
  if (!loaded.ok)
    throw new Error(`the demo's own configuration is refused: ${JSON.stringify(loaded.problems)}`);
  let app: App | null = null;
  const listener = await startListener({
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log,
    routes: (channel) =>
      app?.host.running().find(({ config }) => config.id === channel)?.adapter.routes ?? null,
    ready: async () => ({ ready: app !== null }),
    metrics: async () => ({ contentType: "text/plain", body: "" }),
  });
  const running = await startApp({
    config: loaded.config,
    platformUrl: platform.url,
    clock: systemClock,
    log,
    publicUrl: () => listener.publicUrl,
  });
  app = running;
  return {
    url: listener.url,
    async stop(drainMs: number) {
      await listener.drain(drainMs);
      await running.stop(drainMs);
      await listener.close(drainMs);
      await platform.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** What is shown where nobody can type. */
async function play(customer: Customer, signal: AbortSignal): Promise<void> {
  const acts = [
    () => noted(() => customer.text(firstText)),
    () => customer.call(),
    () => customer.say(firstQuestion),
    () => customer.hangUp(),
  ];
  for (const act of acts) if (!signal.aborted) await act();
}

const help = `A line is the next mail. /sms hello sends a text; /call calls, then /say hello, and /hangup. Ctrl-C ends.`;

/** Every line of standard input is a mail, a text, or something said. */
async function converse(io: Io, customer: Customer): Promise<void> {
  io.out(`${help}\nAny SMTP client reaches ${support} on port ${customer.mailServer.smtpPort}.`);
  const lines = createInterface({ input: process.stdin, terminal: false });
  io.signal.addEventListener("abort", () => lines.close(), { once: true });
  for await (const line of lines) {
    await Promise.race([act(line.trim(), customer, io), aborted(io.signal)]);
    if (io.signal.aborted) break;
  }
}

async function act(line: string, customer: Customer, io: Io): Promise<void> {
  const [, command = "", rest = ""] = /^(?:\/(\w+)|sms:)\s*(.*)$/.exec(line) ?? [];
  if (line === "") return;
  if (!/^(\/|sms:)/.test(line)) return noted(() => customer.mail(`Re: ${firstMail.subject}`, line));
  if (command === "call") return customer.call();
  if (command === "hangup") return customer.hangUp();
  if (command === "say" && rest !== "") return customer.say(rest);
  if ((command === "sms" || command === "") && rest !== "") return noted(() => customer.text(rest));
  io.out(help);
}

/** Resolves when that is done and the next outcome of a send has been noted, and printed. */
async function noted(doing: () => Promise<void>): Promise<void> {
  const settled = new Promise<void>((resolve) => {
    const listener = (message: unknown) => {
      if ((message as { phase: string }).phase !== "after") return;
      unsubscribe("bridgehead:outcome.commit", listener);
      setImmediate(() => setImmediate(resolve));
    };
    subscribe("bridgehead:outcome.commit", listener);
  });
  await Promise.all([doing(), settled]);
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

const stages: Readonly<Record<string, string>> = {
  "event.commit": "accepted   what came is on disk",
  "open.commit": "opened     a conversation on the platform",
  "ask.record": "calling    the platform; written down first",
  "answer.commit": "answered   the agent's reply is on disk, dressed for its channel and queued",
  "send.record": "sending    written down first",
  "outcome.commit": "sent       and noted",
};

/** Prints the points a message passes; returns what stops it. */
function watchStages(io: Io): () => void {
  const started = systemClock.monotonic();
  const listeners = Object.entries(stages).map(([name, text]) => {
    const listener = (message: unknown) => {
      const { phase, events } = message as { phase: string; events?: number };
      if (phase !== "after" || events === 0) return;
      const line = `  ${String(Math.round(systemClock.monotonic() - started)).padStart(6)} ms  ${text}`;
      // One commit accepts a mail and writes the attempt down; the intake is told of it last.
      if (name === "event.commit") io.out(line);
      else setImmediate(() => io.out(line));
    };
    subscribe(`bridgehead:${name}`, listener);
    return () => unsubscribe(`bridgehead:${name}`, listener);
  });
  return () => listeners.forEach((stop) => stop());
}
