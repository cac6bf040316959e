// The real daemon as a child process: started, killed, stopped and started again on the same store.

import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { childEnv } from "../machine/command.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const preload = new URL("./preload.ts", import.meta.url).href;
const planting = new URL("./plant.ts", import.meta.url).href;
const running = new Set<ChildProcess>();
/** Plants that have changed what a daemon of this test file does. */
export const acted = new Set<string>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Daemon {
  /** Everything it logged; only grows. */
  readonly lines: readonly LogLine[];
  /** What it wrote to stderr that is no log line. */
  readonly complaints: readonly string[];
  /** True when it says that it is ready, false when it ended before. */
  readonly ready: Promise<boolean>;
  readonly ended: Promise<End>;
  readonly pid: number;
  send(signal: NodeJS.Signals): void;
  /** SIGTERM, and its end. */
  stop(): Promise<End>;
}

export interface DaemonOptions {
  /** The configuration file. */
  readonly config: string;
  readonly env?: Readonly<Record<string, string>>;
  /** `<point>:<before|after>:<n>`, see preload.ts. */
  readonly killAt?: string;
  /** Where it waits until the file `until` exists, see preload.ts. It logs a line "held". */
  readonly hold?: { readonly at: string; readonly until: string };
  /** It logs a line "listening" with its `port`. */
  readonly saysPort?: boolean;
  /** Defects and circumstances to plant, see plant.ts. */
  readonly plant?: readonly string[];
}

/** Writes a configuration without agents and channels, with the store `store.db` in the folder; returns its path. */
export function configureIdle(folder: string, more: Readonly<Record<string, unknown>> = {}): string {
  const path = join(folder, "bridgehead.yaml");
  const config = {
    platform: { url: "http://127.0.0.1:1" },
    agents: {},
    channels: {},
    http: { listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0" },
    console: { enabled: false },
    store: `sqlite:${join(folder, "store.db")}`,
    log: { format: "json" },
    ...more,
  };
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
  return path;
}

/** Starts the process; wait for `ready` or `ended`. */
export function startDaemon({ config, env = {}, killAt, hold, saysPort = false, plant = [] }: DaemonOptions): Daemon {
  const preloads = [
    ...(killAt === undefined && hold === undefined && !saysPort ? [] : ["--import", preload]),
    ...(plant.length === 0 ? [] : ["--import", planting]),
  ];
  const child = spawn(
    process.execPath,
    ["--conditions=source", ...preloads, "src/main.ts", "run", "--config", config],
    {
      cwd: root,
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...childEnv,
        NODE_NO_WARNINGS: "1",
        ...env,
        ...(killAt === undefined ? {} : { KILL_AT: killAt }),
        ...(hold === undefined ? {} : { HOLD_AT: hold.at, HOLD_UNTIL: hold.until }),
        ...(saysPort ? { SAY_PORT: "1" } : {}),
        ...(plant.length === 0 ? {} : { PLANT: plant.join() }),
      },
    },
  );
  running.add(child);
  const lines: LogLine[] = [];
  const complaints: string[] = [];
  const ended = new Promise<End>((resolve) => {
    child.once("close", (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
  const ready = new Promise<boolean>((resolve) => {
    void ended.then(() => resolve(false));
    createInterface({ input: child.stderr }).on("line", (text) => {
      const line = parsed(text);
      if (line === null) complaints.push(text);
      else lines.push(line);
      if (line?.message === "planted") acted.add(String(line["plant"]));
      if (line?.message === "ready") resolve(true);
    });
  });
  return {
    lines,
    complaints,
    ready,
    ended,
    pid: child.pid ?? 0,
    send: (signal) => void child.kill(signal),
    stop: () => {
      child.kill("SIGTERM");
      return ended;
    },
  };
}

/** Where a ready daemon serves reasons and metrics. */
export function adminOf({ lines }: Pick<Daemon, "lines">): string {
  return String(lines.find(({ message }) => message === "listening for http")?.["admin_url"]);
}

function parsed(text: string): LogLine | null {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return null;
  }
}
