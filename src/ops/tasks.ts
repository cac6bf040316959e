// Groups of long-running tasks. A task is a function that takes a signal and resolves when it has ended. A group starts
// tasks, restarts them after failures, and stops them in reverse order, because later tasks may depend on earlier ones.

import type { Clock, Log } from "bridgehead/contract";
import { jitter } from "./clock.ts";
import type { Timing } from "./timing.ts";

interface RestartPolicy {
  /** on-failure: restart a task that throws. never: no restart. */
  readonly restart: "on-failure" | "never";
}

interface RunningTask {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

interface TaskContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Pick<Timing["health"], "taskRestart" | "taskRestartLongest">;
}

export class TaskGroup {
  readonly #parent: AbortSignal;
  readonly #context: TaskContext;
  readonly #tasks: RunningTask[] = [];
  #stopping: Promise<void> | undefined;

  /** The group also stops when `parent` aborts. Errors thrown after the abort are not logged. */
  constructor(parent: AbortSignal, context: TaskContext) {
    this.#parent = parent;
    this.#context = context;
    const onAbort = (): void => void this.stop();
    if (parent.aborted) onAbort();
    else parent.addEventListener("abort", onAbort, { once: true });
  }

  /** Starts `run` now. Its signal aborts when the group stops this task. */
  start(
    name: string,
    run: (signal: AbortSignal) => Promise<void>,
    policy: RestartPolicy = { restart: "on-failure" },
  ): void {
    if (this.#stopping !== undefined) throw new Error(`starting task ${name}: its group has been stopped`);
    const abort = new AbortController();
    this.#tasks.push({ abort, ended: this.#keepRunning(name, run, policy, abort.signal) });
  }

  /** Stops all tasks, the newest first, each after the previous one has ended. Never rejects. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stopAll());
  }

  async #keepRunning(
    name: string,
    run: (signal: AbortSignal) => Promise<void>,
    { restart }: RestartPolicy,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log, timing } = this.#context;
    const { taskRestart: shortest, taskRestartLongest: longest } = timing;
    let pause = shortest;
    while (!signal.aborted) {
      const started = clock.monotonic();
      try {
        return await run(signal);
      } catch (error) {
        if (signal.aborted) return;
        log.error({ task: name, err: error, restart: restart !== "never" }, "a task failed");
        if (restart === "never") return;
      }
      // After a run longer than `longest` the backoff starts again at `shortest`.
      pause = clock.monotonic() - started > longest ? shortest : pause;
      await clock.sleep(jitter(pause), signal);
      pause = Math.min(longest, pause * 2);
    }
  }

  async #stopAll(): Promise<void> {
    for (let task = this.#tasks.pop(); task !== undefined; task = this.#tasks.pop()) {
      task.abort.abort(this.#parent.reason);
      await task.ended;
    }
  }
}
