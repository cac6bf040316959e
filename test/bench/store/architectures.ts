// Two ways to commit without blocking the thread that serves the connections, with the same statements: (a) one thread whose
// commits are on disk after one asynchronous fdatasync of the log, (b) a worker thread with synchronous=FULL that receives and
// returns messages. The daemon uses (a). Each message is four commits, one after the other; 64 messages are under way.

import { fdatasync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import Sqlite from "better-sqlite3";
import { clock } from "../clock.ts";
import { median, printSection, printTable } from "../report.ts";

const hops = 4;
const inFlight = 64;
const body = "x".repeat(1500);

interface Hop {
  readonly message: number;
  readonly hop: number;
}

/** Opens a store with the tables of the work. Neither side has checkpoints. */
function open(file: string, synchronous: "NORMAL" | "FULL") {
  const db = new Sqlite(file);
  db.pragma("journal_mode = WAL");
  db.pragma(`synchronous = ${synchronous}`);
  db.pragma("wal_autocheckpoint = 0");
  db.exec(`CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, state INTEGER, due INTEGER, body TEXT);
    CREATE INDEX IF NOT EXISTS items_by_due ON items (state, due);
    CREATE TABLE IF NOT EXISTS steps (item INTEGER, hop INTEGER, at INTEGER, PRIMARY KEY (item, hop)) WITHOUT ROWID`);
  const insert = db.prepare("INSERT INTO items VALUES (?, 0, ?, ?)");
  const update = db.prepare("UPDATE items SET state = ?, due = ? WHERE id = ?");
  const step = db.prepare("INSERT INTO steps VALUES (?, ?, ?)");
  const find = db.prepare("SELECT id, state FROM items WHERE id = ?");
  const next = db.prepare("SELECT id FROM items WHERE state = ? AND due <= ? ORDER BY due LIMIT 1");
  /** Eight statements. */
  const run = ({ message, hop }: Hop): void => {
    if (hop === 0) insert.run(message, message, body);
    else update.run(hop, message, message);
    step.run(message, hop, message);
    for (let n = 0; n < 3; n++) find.get(message);
    for (let n = 0; n < 3; n++) next.get(hop, message);
  };
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  return {
    /** Runs the work of several messages in one transaction. */
    transaction(work: readonly Hop[]): void {
      begin.run();
      for (const one of work) run(one);
      commit.run();
    },
    close: () => db.close(),
  };
}

/** Resolves when the work of a message is on disk. */
interface Store {
  submit(work: Hop): Promise<void>;
  close(): Promise<void>;
}

interface Waiting {
  readonly work: Hop;
  readonly resolve: () => void;
}

function oneThread(folder: string): Store {
  const file = join(folder, "a.db");
  const db = open(file, "NORMAL");
  const log = openSync(`${file}-wal`, "r+");
  let waiting: Waiting[] = [];
  let unsynced: Waiting[] = [];
  let isSyncing = false;
  const sync = () => {
    if (isSyncing || unsynced.length === 0) return;
    isSyncing = true;
    const covered = unsynced;
    unsynced = [];
    fdatasync(log, (error) => {
      if (error) throw error;
      isSyncing = false;
      for (const { resolve } of covered) resolve();
      sync();
    });
  };
  const flush = () => {
    const batch = waiting;
    waiting = [];
    db.transaction(batch.map(({ work }) => work));
    unsynced.push(...batch);
    sync();
  };
  return {
    submit: (work) =>
      new Promise((resolve) => {
        if (waiting.push({ work, resolve }) === 1) setImmediate(flush);
      }),
    close: async () => void db.close(),
  };
}

function workerThread(folder: string): Store {
  const worker = new Worker(new URL(import.meta.url), { workerData: { architectures: join(folder, "b.db") } });
  const waiting = new Map<number, () => void>();
  let batch: Hop[] = [];
  worker.on("message", (done: readonly number[]) => {
    for (const message of done) {
      waiting.get(message)?.();
    }
  });
  worker.on("error", (error) => {
    throw error;
  });
  return {
    submit: (work) =>
      new Promise((resolve) => {
        waiting.set(work.message, resolve);
        if (batch.push(work) > 1) return;
        setImmediate(() => {
          worker.postMessage(batch);
          batch = [];
        });
      }),
    close: async () => void (await worker.terminate()),
  };
}

/** The worker's side: what arrives during a commit shares the next one. */
function serve(file: string): void {
  const db = open(file, "FULL");
  let waiting: Hop[] = [];
  const flush = () => {
    const batch = waiting;
    waiting = [];
    db.transaction(batch);
    parentPort?.postMessage(batch.map(({ message }) => message));
  };
  parentPort?.on("message", (work: readonly Hop[]) => {
    if (waiting.length === 0) setImmediate(flush);
    waiting.push(...work);
  });
}

interface Measured {
  /** Messages a second. */
  readonly rate: number;
  /** Microseconds of CPU time per message, of the process. */
  readonly cpu: number;
  /** 99th percentile of the event loop's delay on the main thread, in milliseconds. */
  readonly delay: number;
  /** Median time of one commit without load, in milliseconds. */
  readonly single: number;
}

async function measure(start: (folder: string) => Store, count: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-bench-architectures-"));
  const store = start(folder);
  try {
    let next = 0;
    const pass = async (message: number) => {
      for (let hop = 0; hop < hops; hop++) await store.submit({ message, hop });
    };
    const times: number[] = [];
    for (let n = 0; n < 50; n++) {
      const began = clock();
      await pass(next++);
      times.push((clock() - began) / hops);
    }
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const cpu = process.cpuUsage();
    const began = clock();
    const end = next + count;
    const lane = async () => {
      while (next < end) await pass(next++);
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
    const seconds = (clock() - began) / 1000;
    const used = process.cpuUsage(cpu);
    delay.disable();
    return {
      rate: count / seconds,
      cpu: (used.user + used.system) / count,
      delay: delay.percentile(99) / 1e6,
      single: median(times),
    };
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Measures both in turns and prints the medians. */
export async function architectures(rounds: number, count: number): Promise<void> {
  const starts = { "(a) one thread, fdatasync": oneThread, "(b) worker thread, FULL": workerThread };
  const found = new Map<string, Measured[]>(Object.keys(starts).map((name) => [name, []]));
  for (let n = 0; n < rounds; n++)
    for (const [name, start] of Object.entries(starts)) found.get(name)?.push(await measure(start, count));
  printSection("Architectures: four commits per message", false);
  printTable({
    title: `${count} messages, ${inFlight} at a time, 8 statements per commit, 1.5 kB`,
    columns: ["architecture", "messages/s", "CPU us/message", "loop delay p99 ms", "one commit ms"],
    rows: [...found].map(([name, all]) => {
      const of = (key: keyof Measured, digits: number) => median(all.map((one) => one[key])).toFixed(digits);
      return [name, of("rate", 0), of("cpu", 0), of("delay", 1), of("single", 2)];
    }),
    notes: ["The main thread does nothing else here; in the daemon it also parses, sends and receives."],
  });
}

const { architectures: file } = (workerData ?? {}) as { readonly architectures?: string };
if (!isMainThread && file !== undefined) serve(file);
