// Processes under test: the built daemon, and the bare scripts it is compared with. CPU time and memory are read from
// /proc, so that all threads of a process count.

import { type ChildProcess, type Serializable, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import emailAdapter from "../../adapters/email/index.ts";
import { coreChannel } from "../../src/config/schema/channel.ts";
import type { CostReport, ProfilerOrder } from "./costs/profiler.ts";
import type { BareOptions } from "./mail/bare.ts";
import type { BareStartOptions } from "./mail/bare-start.ts";
import type { ProbeReport } from "./probe.ts";

export interface Subject {
  readonly pid: number;
  /** User and system time of all its threads so far, in milliseconds; the kernel counts in units of 10. */
  cpu(): number;
  /** Resident memory now, in megabytes of 1,000,000 bytes. */
  memory(): number;
  /** The largest resident memory so far, in megabytes. */
  peak(): number;
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Returns the counters of `probe.ts` since the last call and resets them. Only with `probe`. */
  probe(): Promise<ProbeReport>;
  /** Returns the URLs of the packages and of the modules of Node that it has imported. Only with `packages`. */
  packages(): Promise<readonly string[]>;
  /** Starts a recording, or ends it and returns its report. Only with `profiler`. */
  record(order: Exclude<ProfilerOrder, { kind: "end" }>): Promise<void>;
  recorded(): Promise<CostReport>;
  /** Ends it orderly and waits for its end. Removes its directory. */
  stop(): Promise<void>;
  /** Kills it with SIGKILL and waits for its end. Keeps its directory. */
  kill(): Promise<void>;
}

/** Servers and mailboxes that a subject connects to. */
export interface Surroundings {
  readonly imapPort: number;
  readonly smtpPort: number;
  readonly httpPort: number;
  /** Mailboxes, all with the password `secret`. */
  readonly users: readonly string[];
}

const key = "bench-key";
const password = "secret";

/** The daemon's default concurrency, which the bare script gets as well. */
export const parallel = {
  conversations: coreChannel.parse({ adapter: "email", agent: "support" }).concurrency,
  connections: (
    emailAdapter.config.parse({
      imap: { host: "localhost", user: "a@example.com", password: "secret" },
      smtp: { host: "localhost" },
    }) as { readonly smtp: { readonly connections: number } }
  ).smtp.connections,
};

/** Environment variables of the shipped unit: settings of V8 and malloc, which count only at the start of a process. */
export const serviceEnvironment: Variables = Object.fromEntries(
  [
    ...readFileSync(new URL("../../systemd/bridgehead.service", import.meta.url), "utf8").matchAll(
      /^Environment="?(\w+)=(.*?)"?$/gm,
    ),
  ].map(([, name = "", value = ""]) => [name, value]),
);

type Variables = { readonly [name: string]: string };

/** Starts the bare email script with the daemon's default concurrency. */
export function startBare(around: Surroundings, preload?: Preload): Promise<Subject> {
  const options: BareOptions = { ...connectionsTo(around), ...parallel };
  const script = fileURLToPath(new URL("./mail/bare.ts", import.meta.url));
  return start({ argv: [script, JSON.stringify(options)], ready: "ready", preload });
}

/** Starts the baseline for the start with the environment of the shipped unit; `cache` is the folder of its compile cache.
 *  Does not wait. */
export function startBareStart(around: Surroundings, packages: readonly string[], cache: string): Promise<Subject> {
  const options: BareStartOptions = { ...connectionsTo(around), packages };
  const script = fileURLToPath(new URL("./mail/bare-start.ts", import.meta.url));
  const env = { ...serviceEnvironment, NODE_COMPILE_CACHE: cache };
  return start({ argv: [script, JSON.stringify(options)], ready: null, env });
}

const connectionsTo = ({ imapPort, smtpPort, httpPort, users }: Surroundings) => ({
  imapPort,
  user: users[0] ?? "",
  password,
  smtpPort,
  platform: `http://127.0.0.1:${httpPort}`,
  key,
});

/** Modules that a subject loads before its own code: `probe.ts` counts, `costs/profiler.ts` measures times, and
 *  `mail/packages.ts` records imports. */
export type Preload = "probe" | "profiler" | "packages";

export interface DaemonOptions {
  /** The built main.js, or the launcher bridgehead.cjs. */
  readonly main: string;
  /** Holds configuration and store, and is kept; default: a temporary one. */
  readonly directory?: string;
  readonly preload?: Preload | undefined;
  /** The store of the configuration; default: SQLite in the directory. */
  readonly store?: string;
  /** Added to the configuration. */
  readonly settings?: string;
  /** Text on standard error that ends the wait for the start; null: does not wait. */
  readonly ready?: string | null;
}

/** Starts the daemon with default settings and the environment of the shipped unit, on a store of its own. */
export function startDaemon(around: Surroundings, options: DaemonOptions): Promise<Subject> {
  const { main, preload, ready = '"message":"ready"' } = options;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  const config = join(directory, "bridgehead.yaml");
  writeFileSync(config, configuration(around, options.store ?? "sqlite:bench.db") + (options.settings ?? ""));
  const clean = () => rmSync(directory, { recursive: true, force: true });
  return start({
    argv: [main, "run", "--config", config],
    ready,
    preload,
    env: serviceEnvironment,
    ...(options.directory === undefined && { clean }),
  });
}

/** Default settings, except for the limits on replies per person and on the platform's requests. */
function configuration({ imapPort, smtpPort, httpPort, users }: Surroundings, store: string): string {
  const channel = (user: string) => `
  ${user}:
    adapter: email
    agent: support
    address: support@example.com
    imap: { host: 127.0.0.1, port: ${imapPort}, tls: none, user: "${user}", password: "\${env:BENCH_PASSWORD}" }
    smtp: { host: 127.0.0.1, port: ${smtpPort}, tls: none, login: false }
    sent_folder: none
    caps: { sender: [], conversation: [], channel: [] }`;
  return `platform:
  url: http://127.0.0.1:${httpPort}
  rate: { requests: 1000000, per: 1s }
agents:
  support: { key: "\${env:BENCH_KEY}" }
channels:${users.map(channel).join("")}
http: { listen: 127.0.0.1:0 }
store: "${store}"
log: { format: json }
`;
}

export interface StartOptions {
  readonly argv: readonly string[];
  /** Text of its output that ends the wait; null: does not wait. */
  readonly ready: string | null;
  readonly preload?: Preload | undefined;
  /** Added to the few variables that every subject gets. */
  readonly env?: Variables;
  /** Called after its end. */
  readonly clean?: () => void;
}

const preloads: Readonly<Record<Preload, string>> = {
  probe: new URL("./probe.ts", import.meta.url).href,
  profiler: new URL("./costs/profiler.ts", import.meta.url).href,
  packages: new URL("./mail/packages.ts", import.meta.url).href,
};

/** Variables of this process that its subjects inherit. Others can change what they do: with NODE_EXTRA_CA_CERTS a Node
 *  process needs 1 MB more. */
const inherited = ["PATH", "HOME", "TMPDIR", "LANG", "BENCH_FILES"];

/** Starts a Node process. Rejects when it ends before it has printed `ready`. */
export async function start({ argv, ready, preload, env: added, clean }: StartOptions): Promise<Subject> {
  const own = Object.fromEntries(inherited.map((name) => [name, process.env[name]]));
  const env = { ...own, BENCH_KEY: key, BENCH_PASSWORD: password, ...added };
  const child = spawn(process.execPath, [...(preload ? ["--import", preloads[preload]] : []), ...argv], {
    stdio: ["ignore", "pipe", "pipe", ...(preload ? (["ipc"] as const) : [])],
    env,
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  await printed(child, argv.join(" "), ready);
  const pid = child.pid ?? 0;
  const end = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    child.kill(signal);
    await ended;
    process.off("exit", killAtExit);
  };
  const ask = <Answer>(order: Serializable): Promise<Answer> =>
    new Promise((resolve) => {
      child.once("message", (answer) => resolve(answer as Answer));
      child.send(order);
    });
  const status = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) *
    0.001024;
  return {
    pid,
    cpu: () => {
      // The second field, the command's name, may contain blanks; user and system time are the 14th and 15th.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10;
    },
    memory: () => status("VmRSS"),
    peak: () => status("VmHWM"),
    signal: (which) => void child.kill(which),
    probe: () => ask<ProbeReport>("report"),
    packages: () => ask<readonly string[]>("packages"),
    record: (order) => ask<void>(order),
    recorded: () => ask<CostReport>({ kind: "end" } satisfies ProfilerOrder),
    stop: async () => {
      // The bare scripts have no running work to wait for, so SIGTERM ends them at once.
      await end("SIGTERM");
      clean?.();
    },
    kill: () => end("SIGKILL"),
  };
}

function printed(child: ChildProcess, name: string, ready: string | null): Promise<void> {
  let output = "";
  let isStarted = false;
  return new Promise((resolve, reject) => {
    const started = () => {
      isStarted = true;
      resolve();
    };
    const read = (data: Buffer) => {
      output = (output + data.toString()).slice(-20_000);
      if (ready !== null && output.includes(ready)) started();
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", () => {
      if (isStarted && !child.killed) process.stderr.write(`${name} has ended: ${output}\n`);
      reject(new Error(`${name} ended at its start: ${output}`));
    });
    if (ready === null) child.once("spawn", started);
  });
}
