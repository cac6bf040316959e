// bridgehead demo: the daemon, the embedded platform, a small mail server and a phone network in one
// process. The demo sends a first mail, prints its stages and the reply, and prints the URL of the web console, whose
// playground writes mails, texts and calls as the customer and answers as the responder.

import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type App, startApp } from "../app.ts";
import { loadAdapter } from "../channels/loader.ts";
import { type Config, loadConfig } from "../config/index.ts";
import { playgroundPage } from "../console/pages/playground.ts";
import { createLoginLink } from "../console/session.ts";
import { startConsole } from "../console/start.ts";
import { startListener } from "../http/listener.ts";
import { newToken, systemClock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { timingWith } from "../ops/timing.ts";
import { readAgents, startPlatform } from "../platform/index.ts";
import {
  agentsFile,
  configFile,
  customer,
  demoKey,
  firstMail,
  numbers,
  policyBlock,
  support,
} from "../sandbox/demo.ts";
import { Playground, type PlaygroundMessage } from "../sandbox/playground.ts";
import type { Database } from "../store/driver.ts";
import { stagesOf } from "../store/operators/stages.ts";
import { aborted, exitCodes, type Io } from "./io.ts";
import { consoleContext } from "./run.ts";
import { cleanLines } from "./text.ts";

/** Runs until interrupted; with `once` until the first reply, without a console. `open`: the console in a browser. */
export async function runDemo(
  { once = false, open = true }: { readonly once?: boolean; readonly open?: boolean },
  io: Io,
): Promise<number> {
  const password = newToken();
  const onMessage = (message: PlaygroundMessage): void => io.out(messageText(message));
  const playground = await Playground.start({ password, onMessage });
  const daemon = await startDaemon(playground, password, io);
  playground.reach(daemon.url);
  try {
    io.out(`A mailbox (${support}), a number (${numbers.support}), an agent and this daemon are running.`);
    playground.mail(firstMail.subject, firstMail.text);
    await printStages(daemon.db, playground, io);
    if (once) return exitCodes.ok;
    const url = await daemon.openConsole();
    io.out(`\nWrite and answer in the web console (the link works once):\n  ${url}\nCtrl-C ends.`);
    if (open && hasDisplay(io)) openBrowser(url);
    await aborted(io.signal);
  } finally {
    await daemon.stop(io.signal.aborted ? 0 : io.timing.shutdown.drain);
    await playground.close();
  }
  return exitCodes.ok;
}

/** Starts the daemon as `run` composes it, with all external services that it needs. */
async function startDaemon(playground: Playground, password: string, io: Io) {
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-demo-"));
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  io.onExit(removeFolder);
  const log = createLog({ level: "error", format: "text", out: { write: io.err }, clock: systemClock });
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: readAgents(agentsFile, "the demo"),
    clock: systemClock,
    log,
  });
  let app: App | null = null;
  const running = () => {
    if (app === null) throw new Error("serving a request before the start");
    return app;
  };
  const listener = await startListener({
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log,
    routes: (channel) => app?.host.running().find(({ config }) => config.id === channel)?.adapter.routes ?? null,
    serving: () => app !== null,
    escalations: (request) => running().web.escalations(request),
    ready: async () => ({ ready: app !== null }),
    metrics: async () => ({ contentType: "text/plain", body: "" }),
  });
  const loaded = await loadDemo(playground, platform.url, folder, { ...io.env, DEMO_PASSWORD: password });
  // For the links in notifications: a provider could not reach this address, so the configuration would be refused.
  const config = { ...loaded, http: { ...loaded.http, public_url: listener.url } };
  app = await startApp({
    config,
    platformUrl: platform.url,
    clock: systemClock,
    log,
    publicUrl: () => listener.publicUrl,
    timing: io.timing,
  });
  const { db } = running();
  let closeConsole = async (): Promise<void> => undefined;
  return {
    url: listener.url,
    db,
    /** Starts the console and returns a login link that opens the playground. */
    async openConsole(): Promise<string> {
      const timing = timingWith({ console: { refresh: 250 } }, io.timing);
      const started = await startConsole({
        context: consoleContext(running(), config, log, timing),
        listen: { host: "127.0.0.1", port: 0 },
        pages: [playgroundPage(playground, { mail: customer, number: numbers.customer })],
      });
      closeConsole = () => started.close();
      const token = await db.tx((q) => createLoginLink(q, io.timing.console));
      return `${started.url}/login/${token}?to=/playground`;
    },
    async stop(drainMs: number) {
      await closeConsole();
      await listener.drain(drainMs);
      await running().stop(drainMs);
      await listener.close(drainMs);
      await platform.close();
      removeFolder();
    },
  };
}

/** Writes the configuration of the demo and loads it. */
async function loadDemo(
  { mailServer, smsApi }: Playground,
  platformUrl: string,
  folder: string,
  env: Io["env"],
): Promise<Config> {
  const { imapPort, smtpPort } = mailServer;
  const text = configFile({ platformUrl, imapPort, smtpPort, smsUrl: smsApi.url, folder });
  const path = join(folder, "bridgehead.yaml");
  await writeFile(path, text + policyBlock);
  const loaded = await loadConfig(path, { env: { ...env, DEMO_KEY: demoKey }, adapters: loadAdapter });
  if (loaded.ok) return loaded.config;
  throw new Error(`the demo's own configuration is refused: ${JSON.stringify(loaded.problems)}`);
}

const pollMs = 20;
const patienceMs = 60_000;

/** Prints the stages of the first message as it passes them, until its reply has arrived. Always terminates, after
 *  `patienceMs` at the latest. */
async function printStages(db: Database, playground: Playground, io: Io): Promise<void> {
  const [first] = playground.messages;
  if (!first?.written) return;
  const { channel, pattern } = first.written;
  const until = systemClock.monotonic() + patienceMs;
  const printed = new Set<string>();
  while (systemClock.monotonic() < until && !io.signal.aborted) {
    const stages = await db.read((q) => stagesOf(q, channel, pattern));
    for (const { name, at } of stages?.passed ?? []) {
      if (printed.has(name)) continue;
      printed.add(name);
      io.out(`  ${String(Math.max(0, at - first.at)).padStart(6)} ms  ${name}`);
    }
    if (stages?.stopped) return io.out(`  no answer: ${stages.stopped}`);
    if (printed.has("sent") && playground.messages.some(({ written }) => written === null)) return;
    await systemClock.sleep(pollMs, io.signal);
  }
}

/** Formats a message for the terminal: `>` written, `<` received. */
function messageText({ kind, party, subject, text, written }: PlaygroundMessage): string {
  const mark = written === null ? "<" : ">";
  const head = kind === "mail" ? `Subject: ${subject}\n` : `(${kind}) `;
  const who = party === "responder" ? "(the responder)\n" : "";
  const lines = cleanLines(`${who}${head}${text.trimEnd()}`);
  return `\n${lines.map((line) => `${mark} ${line}\n`).join("")}`;
}

/** True when a browser can be opened: in a terminal with a display, not in CI. */
const hasDisplay = ({ env, interactive }: Io): boolean =>
  interactive &&
  !env["CI"] &&
  !env["SSH_CONNECTION"] &&
  (process.platform === "darwin" || Boolean(env["DISPLAY"] || env["WAYLAND_DISPLAY"]));

/** A machine without the program shows no browser; the URL was printed. */
function openBrowser(url: string): void {
  const child = spawn(process.platform === "darwin" ? "open" : "xdg-open", [url], {
    stdio: "ignore",
    detached: true,
  });
  child.on("error", () => undefined);
  child.unref();
}
