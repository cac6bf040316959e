// The two contestants as child processes: the daemon as people run it, and the bare script. What they cost is read from
// /proc, so that every thread of theirs counts.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BareOptions } from "./bare.ts";

export interface Contestant {
  readonly name: string;
  /** User and system time of all its threads so far, milliseconds (in the kernel's ticks of 10). */
  cpu(): number;
  /** Resident memory now, megabytes (of 1,000,000 bytes). */
  memory(): number;
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Ends it and waits for its end. */
  stop(): Promise<void>;
}

export interface Surroundings {
  readonly imapPort: number;
  readonly smtpPort: number;
  readonly httpPort: number;
  /** A mailbox each; all with the password `secret`. */
  readonly users: readonly string[];
}

const key = "bench-key";
const password = "secret";
/** Lines to the SMTP server, for the daemon and for the bare script with the same concurrency. */
const connections = 8;

/** The script; `concurrency` 1 is the plain loop. */
export function startBare(around: Surroundings, concurrency: 1 | typeof connections): Promise<Contestant> {
  const options: BareOptions = {
    imapPort: around.imapPort,
    user: around.users[0] ?? "",
    password,
    smtpPort: around.smtpPort,
    platform: `http://127.0.0.1:${around.httpPort}`,
    key,
    concurrency,
  };
  const script = fileURLToPath(new URL("./bare.ts", import.meta.url));
  return start(
    concurrency === 1 ? "bare" : `bare x${concurrency}`,
    [script, JSON.stringify(options)],
    "ready",
    () => {},
  );
}

const sourceMain = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

/** The daemon, on a store of its own in a temporary directory unless `store` is given: from source, or what was built
 *  from it. */
export function startDaemon(
  around: Surroundings,
  main: string = sourceMain,
  store = "sqlite:bench.db",
): Promise<Contestant> {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  const config = join(directory, "bridgehead.yaml");
  writeFileSync(config, configuration(around, store));
  const argv = [...(main === sourceMain ? ["--conditions=source"] : []), main, "run", "--config", config];
  return start("ours", argv, '"message":"ready"', () => rmSync(directory, { recursive: true, force: true }));
}

/** Durable as always; only what protects people and platforms from too many mails is raised. */
function configuration({ imapPort, smtpPort, httpPort, users }: Surroundings, store: string): string {
  const channel = (user: string) => `
  ${user}:
    adapter: email
    agent: support
    address: support@example.com
    imap: { host: 127.0.0.1, port: ${imapPort}, tls: none, user: "${user}", password: "\${env:BENCH_PASSWORD}" }
    smtp: { host: 127.0.0.1, port: ${smtpPort}, tls: none, login: false, connections: ${connections} }
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

/** Starts a Node process. Resolves when it has said `word`; `clean` is called after its end. */
export async function start(
  name: string,
  argv: readonly string[],
  word: string,
  clean: () => void,
): Promise<Contestant> {
  const env = { ...process.env, BENCH_KEY: key, BENCH_PASSWORD: password };
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"], env });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const killed = () => child.kill("SIGKILL");
  process.once("exit", killed);
  await saying(child, name, word);
  const pid = child.pid ?? 0;
  return {
    name,
    cpu: () => {
      // The second field, the command's name, may contain blanks; user and system time are the 14th and 15th.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10;
    },
    memory: () =>
      Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 0.001024,
    signal: (which) => void child.kill(which),
    stop: async () => {
      child.kill(name === "ours" ? "SIGTERM" : "SIGKILL");
      await ended;
      process.off("exit", killed);
      clean();
    },
  };
}

function saying(child: ChildProcess, name: string, word: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (data: Buffer) => {
      said = (said + data.toString()).slice(-20_000);
      if (said.includes(word)) resolve();
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    child.once("exit", () => reject(new Error(`${name} ended at its start: ${said}`)));
  });
}
