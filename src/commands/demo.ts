// bridgehead demo: the daemon, the embedded platform, a small mail server and a phone network in one
// process. The demo sends a first mail and prints every stage and the reply as they occur. Then the
// terminal acts as the customer. Each input is tracked in the store until it is answered, or until the
// reason for no answer is known.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type App, startApp } from "../app.ts";
import { loadAdapter } from "../channels/loader.ts";
import { loadConfig } from "../config/index.ts";
import { startConsole } from "../console/server.ts";
import { createLoginLink } from "../console/session.ts";
import { startListener } from "../http/listener.ts";
import { newToken, systemClock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { standardTiming } from "../ops/timing.ts";
import { readAgents, startPlatform } from "../platform/index.ts";
import {
  agentsFile,
  complaint,
  configFile,
  type DemoCustomer,
  demoKey,
  firstMail,
  firstQuestion,
  firstText,
  numbers,
  customer as person,
  policyBlock,
  responder,
  responderAnswer,
  startCustomer,
  support,
} from "../sandbox/demo.ts";
import type { Database } from "../store/driver.ts";
import { messageFate, newestMessage } from "../store/operators/inbox.ts";
import type { Io } from "./io.ts";
import { exitCodes } from "./io.ts";
import { consoleContext } from "./run.ts";

/** Runs until interrupted. Without a terminal it plays a mail, a text, a call and an escalation; with
 *  `once` only the mail. */
export async function run(options: { readonly once?: boolean }, io: Io): Promise<number> {
  const password = newToken();
  const screen = createScreen(io);
  const customer = await startCustomer({ password, out: io.out, arrived: screen.arrived });
  const daemon = await startDaemon(customer, password, io);
  customer.reach(daemon.url);
  const stage: DemoStage = { io, customer, db: daemon.db, screen };
  const unless = (doing: Promise<unknown>) => Promise.race([doing, aborted(io.signal)]);

  io.out(`A mailbox (${support}), a number (${numbers.support}), an agent and this daemon are running.`);
  io.out(`Web console (the link works once): ${daemon.loginUrl}`);
  io.out(`${person} writes:`);
  try {
    await unless(mail(stage, firstMail.subject, firstMail.text));
    if (options.once) return exitCodes.ok;
    if (io.interactive) await converse(stage);
    else await unless(play(stage));
  } finally {
    screen.end();
    await daemon.stop(io.signal.aborted ? 0 : 5000);
    await customer.close();
  }
  return exitCodes.ok;
}

interface DemoStage {
  readonly io: Io;
  readonly customer: DemoCustomer;
  readonly db: Database;
  readonly screen: Screen;
}

/** Starts the daemon as `run` composes it, with all external services that it needs. */
async function startDaemon(customer: DemoCustomer, password: string, io: Io) {
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-demo-"));
  const log = createLog({ level: "error", format: "text", out: { write: io.err }, clock: systemClock });
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
  const text = configFile({ platformUrl: platform.url, imapPort, smtpPort, smsUrl, folder });
  await writeFile(path, text + policyBlock);
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
  const context = consoleContext(running, loaded.config, log, standardTiming);
  const webConsole = await startConsole({ context, listen: loaded.config.console.listen });
  const link = await running.db.tx((q) => createLoginLink(q, standardTiming.console));
  return {
    url: listener.url,
    loginUrl: `${webConsole.url}/login/${link}`,
    db: running.db,
    async stop(drainMs: number) {
      await webConsole.close();
      await listener.drain(drainMs);
      await running.stop(drainMs);
      await listener.close(drainMs);
      await platform.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Plays the scenario for runs without a terminal. */
async function play(stage: DemoStage): Promise<void> {
  const { io, customer } = stage;
  const acts = [
    () => text(stage, firstText),
    () => customer.call(),
    () => say(stage, firstQuestion),
    () => customer.hangUp(),
    () => escalate(stage),
  ];
  for (const act of acts) if (!io.signal.aborted) await act();
}

/** Plays a complaint that the agent hands over: the responder is notified, replies, and the reply
 *  reaches the customer. */
async function escalate(stage: DemoStage): Promise<void> {
  const { customer } = stage;
  await mail(stage, `Re: ${firstMail.subject}`, complaint);
  if (!(await arrives(stage, responder, 0))) return;
  const before = customer.received(person);
  await customer.respond(responderAnswer);
  await arrives(stage, person, before);
}

const help = `A line is the customer's next mail. /sms hello sends a text; /call calls, then /say hello, and /hangup. A complaint is
escalated to a colleague, for whom you answer with /colleague hello. Ctrl-C ends.`;

/** Each line of standard input becomes a mail, a text, speech in a call, or the responder's reply. */
async function converse(stage: DemoStage): Promise<void> {
  const { io, customer } = stage;
  io.out(`${help}\nAny SMTP client reaches ${support} on port ${customer.mailServer.smtpPort}.`);
  const lines = createInterface({ input: io.input ?? process.stdin, terminal: false });
  io.signal.addEventListener("abort", () => lines.close(), { once: true });
  for await (const line of lines) {
    await Promise.race([act(line.trim(), stage), aborted(io.signal)]);
    if (io.signal.aborted) break;
  }
}

async function act(line: string, stage: DemoStage): Promise<void> {
  const { io, customer } = stage;
  const [, command = "", rest = ""] = /^(?:\/(\w+)|sms:)\s*(.*)$/.exec(line) ?? [];
  if (line === "") return;
  if (!/^(\/|sms:)/.test(line)) return mail(stage, `Re: ${firstMail.subject}`, line);
  if (command === "call") return customer.call();
  if (command === "hangup") return customer.hangUp();
  if (command === "say" && rest !== "") return say(stage, rest);
  if (command === "colleague" && rest !== "") return colleague(stage, rest);
  if ((command === "sms" || command === "") && rest !== "") return text(stage, rest);
  io.out(help);
}

const mail = (stage: DemoStage, subject: string, body: string): Promise<void> =>
  followed(stage, "support-mail", person, () => stage.customer.mail(subject, body));

const text = (stage: DemoStage, body: string): Promise<void> =>
  followed(stage, "support-sms", numbers.customer, () => stage.customer.text(body));

const colleague = async (stage: DemoStage, body: string): Promise<void> => {
  if (stage.customer.received(responder) === 0)
    return stage.io.out("The colleague was not notified of anything yet: write a complaint first.");
  await followed(stage, "support-mail", responder, () => stage.customer.respond(body));
};

/** The answer arrives while its stages are printed, because it is spoken as it is generated. */
async function say({ customer, screen }: DemoStage, words: string): Promise<void> {
  try {
    await screen.follow(() => customer.say(words));
  } finally {
    screen.flush();
  }
}

const pollMs = 20;
const patienceMs = 60_000;

/** Sends a message and prints its result. Messages that arrive in the same time are shown after its
 *  stages. Always terminates, after `patienceMs` at the latest. */
async function followed(
  { io, db, screen }: DemoStage,
  channel: string,
  sender: string,
  doing: () => Promise<void>,
): Promise<void> {
  const newest = () => db.read((q) => newestMessage(q, channel, sender));
  const before = await newest();
  const sent = screen.follow(doing);
  const until = systemClock.monotonic() + patienceMs;
  let says = "it has not arrived; the daemon goes on looking for it";
  try {
    await sent;
    while (systemClock.monotonic() < until && !io.signal.aborted) {
      const event = await newest();
      const fate = event > before ? await db.read((q) => messageFate(q, event)) : null;
      if (fate?.state === "answered") return;
      says = fate?.reason ?? (fate ? "its answer is on its way, and is shown when it arrives" : says);
      if (fate?.state === "unanswered") break;
      await systemClock.sleep(pollMs, io.signal);
    }
  } finally {
    screen.flush();
  }
  io.out(`  ${sender === responder ? "Taken" : "No answer"}: ${says}.`);
}

/** Waits for one more mail to the address. Returns false on a timeout or abort. */
async function arrives({ io, customer }: DemoStage, address: string, before: number): Promise<boolean> {
  const until = systemClock.monotonic() + patienceMs;
  while (customer.received(address) <= before && systemClock.monotonic() < until && !io.signal.aborted)
    await systemClock.sleep(pollMs, io.signal);
  return customer.received(address) > before;
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** The stages in the order in which a message passes them. Each requires the earlier ones, except
 *  `opened` and the stages that an optional step skips. */
const stages = [
  ["event.commit", "accepted   the message is in the store and acknowledged"],
  ["ask.record", "calling    the attempt is recorded; the platform is called"],
  ["open.commit", "opened     a conversation on the platform"],
  ["answer.commit", "answered   the reply is stored, composed and queued"],
  ["send.record", "sending    the attempt is recorded; the message is transmitted"],
  ["outcome.commit", "sent       the outcome is recorded"],
] as const;

interface Screen {
  /** Prints every following stage once, in order, until `flush`. */
  follow(doing: () => Promise<void>): Promise<void>;
  /** Prints the remaining stages, then the messages that arrived. */
  flush(): void;
  /** Shows a message to a customer or responder: at once, or after the stages of the tracked message. */
  readonly arrived: (shown: string) => void;
  end(): void;
}

/** The failpoints of one commit are published in a different order. They are collected and printed in
 *  stage order. */
function createScreen(io: Io): Screen {
  const started = systemClock.monotonic();
  let passed: Map<number, number> | null = null;
  let printed = -1;
  let shownAt = 0;
  let held: string[] = [];
  const print = (index: number, at: number): void => {
    printed = index;
    // Within one commit the later stage may be published first.
    shownAt = Math.max(shownAt, at);
    io.out(`  ${String(shownAt).padStart(6)} ms  ${stages[index]?.[1] ?? ""}`);
  };
  /** Prints the stages that follow the printed ones. A conversation is opened only once. */
  const advance = (): void => {
    for (let next = printed + 1; next < stages.length; next += 1) {
      const at = passed?.get(next);
      if (at !== undefined) print(next, at);
      else if (stages[next]?.[0] !== "open.commit" || passed?.get(next + 1) === undefined) return;
    }
  };
  const stops = stages.map(([name], index) => {
    const listener = (message: unknown) => {
      const { phase, events } = message as { phase: string; events?: number };
      if (phase !== "after" || events === 0 || passed === null || passed.has(index)) return;
      passed.set(index, Math.round(systemClock.monotonic() - started));
      advance();
    };
    subscribe(`bridgehead:${name}`, listener);
    return () => unsubscribe(`bridgehead:${name}`, listener);
  });
  return {
    async follow(doing) {
      passed = new Map();
      printed = -1;
      await doing();
    },
    flush() {
      // A keyword such as STOP passes only some stages.
      for (const [index, at] of [...(passed ?? [])].sort(([a], [b]) => a - b))
        if (index > printed) print(index, at);
      passed = null;
      for (const shown of held) io.out(shown);
      held = [];
    },
    arrived: (shown) => {
      if (passed === null) io.out(shown);
      else held.push(shown);
    },
    end: () => stops.forEach((stop) => stop()),
  };
}
