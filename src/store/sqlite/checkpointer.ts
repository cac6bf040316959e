// Copies the write-ahead log back into the SQLite file in a worker thread with a connection of its own, so that the
// thread that serves sockets never waits for these writes and syncs. The worker starts with the first checkpoint and ends
// when it is idle, because its memory would be wasted on a quiet daemon. With little work it starts for every checkpoint,
// so it loads this file, better-sqlite3 and nothing else.

import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import Sqlite from "better-sqlite3";
import type { Clock } from "bridgehead/contract";

/** Result of one checkpoint: `complete` when the whole log was copied and synced; `error` with SQLite's code. */
export interface Checkpoint {
  readonly complete: boolean;
  readonly error: { readonly code: string; readonly message: string } | null;
}

interface CheckpointTask {
  readonly task: "checkpoint";
  readonly file: string;
}

/** One per open store; used by the SQLite driver alone. Never blocks a writer: checkpoints are PASSIVE. */
export class Checkpointer {
  readonly #file: string;
  readonly #idleMs: number;
  readonly #clock: Clock;
  /** Null when the next checkpoint has to start the worker, which takes 40 ms of CPU time. Not changed from outside, like
   *  the two members below. */
  worker: Worker | null = null;
  running: Promise<Checkpoint> | null = null;
  /** True when the last checkpoint failed outside of SQLite, for example because no thread could be started. */
  isBroken = false;
  #answer: (result: Checkpoint) => void = () => undefined;
  /** Aborted by the next checkpoint. */
  #idle = new AbortController();

  /** The worker ends after `idleMs` milliseconds without a checkpoint. */
  constructor(file: string, idleMs: number, clock: Clock) {
    this.#file = file;
    this.#idleMs = idleMs;
    this.#clock = clock;
  }

  /** Runs one checkpoint, or joins the running one. Never rejects; a failed worker is an error of the checkpoint. */
  run(): Promise<Checkpoint> {
    this.running ??= this.#once()
      .catch((error: unknown) => ({ complete: false, error: { code: "", message: String(error) } }))
      .then((result) => {
        this.isBroken = result.error?.code === "";
        this.running = null;
        return result;
      });
    return this.running;
  }

  /** Waits for the running checkpoint and ends the worker. */
  async close(): Promise<void> {
    await this.running;
    await this.#end();
  }

  async #once(): Promise<Checkpoint> {
    this.#idle.abort();
    const worker = (this.worker ??= this.#start());
    worker.ref();
    const answered = Promise.withResolvers<Checkpoint>();
    this.#answer = answered.resolve;
    worker.postMessage(null);
    const result = await answered.promise;
    worker.unref();
    if (result.error !== null) await this.#end();
    if (this.worker) void this.#endWhenIdle();
    return result;
  }

  async #endWhenIdle(): Promise<void> {
    this.#idle = new AbortController();
    const { signal } = this.#idle;
    await this.#clock.sleep(this.#idleMs, signal);
    if (!signal.aborted) await this.#end();
  }

  #start(): Worker {
    const data: CheckpointTask = { task: "checkpoint", file: this.#file };
    // Node.js returns the folder of this version inside the configured one.
    const cache = getCompileCacheDir();
    const worker = new Worker(new URL(import.meta.url), {
      name: "checkpoint",
      execArgv: [],
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      workerData: data,
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 },
    });
    const answer = (result: Checkpoint) => {
      if (this.worker === worker) this.#answer(result);
    };
    const failed = (message: string) => answer({ complete: false, error: { code: "", message } });
    worker.on("message", answer);
    worker.on("error", (error) => failed(error.message));
    worker.on("exit", () => failed("the worker ended"));
    return worker;
  }

  /** Call when no checkpoint is under way. */
  async #end(): Promise<void> {
    this.#idle.abort();
    const worker = this.worker;
    this.worker = null;
    await worker?.terminate();
  }
}

function checkpoint(db: Sqlite.Database): Checkpoint {
  try {
    const [row] = db.pragma("wal_checkpoint(PASSIVE)") as {
      busy: number;
      log: number;
      checkpointed: number;
    }[];
    return { complete: row !== undefined && row.busy === 0 && row.log === row.checkpointed, error: null };
  } catch (error) {
    return {
      complete: false,
      error: { code: String((error as { code?: string }).code), message: String(error) },
    };
  }
}

function serve(file: string): void {
  const db = new Sqlite(file, { fileMustExist: true });
  // Without it a checkpoint would sync neither the log nor the file.
  db.pragma("synchronous = NORMAL");
  db.pragma("wal_autocheckpoint = 0");
  parentPort?.on("message", () => parentPort?.postMessage(checkpoint(db)));
}

const own = workerData as Partial<CheckpointTask> | null;
if (!isMainThread && own?.task === "checkpoint" && own.file !== undefined) serve(own.file);
