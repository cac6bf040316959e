// Long-lived things are functions that take a signal and end when they have ended. A group starts them, starts them
// again when they fail, and ends them in reverse order: what was started last may lean on what was started first.

import type { Clock, Log } from "bridgehead/contract";
import { jitter } from "./clock.ts";

export interface Policy {
  /** always: a task that returns is started again too; on-failure: only one that throws; never: neither. */
  readonly restart: "always" | "on-failure" | "never";
  /** Milliseconds before the first new start; doubled at every failure up to `longest`. */
  readonly shortest?: number;
  readonly longest?: number;
}

export interface TaskError {
  readonly task: string;
  readonly error: unknown;
}

export interface TaskGroup {
  /** Starts `run` now. Its signal aborts when the group's turn to end it has come. */
  start(name: string, run: (signal: AbortSignal) => Promise<void>, policy?: Policy): void;
  /** Ends all tasks, the youngest first, each after the one before it has ended. Never rejects. */
  stop(): Promise<readonly TaskError[]>;
}

interface Task {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

/** A group that also stops when `parent` aborts. Errors thrown because of the abort itself are not kept. */
export function taskGroup(parent: AbortSignal, { clock, log }: { clock: Clock; log: Log }): TaskGroup {
  const tasks: Task[] = [];
  const errors: TaskError[] = [];
  let stopping: Promise<readonly TaskError[]> | undefined;

  async function keepRunning(
    name: string,
    run: (signal: AbortSignal) => Promise<void>,
    policy: Policy,
    signal: AbortSignal,
  ) {
    const { shortest = 1000, longest = 60_000 } = policy;
    let pause = shortest;
    while (!signal.aborted) {
      const started = clock.monotonic();
      let failed = false;
      try {
        await run(signal);
      } catch (error) {
        failed = !signal.aborted;
        if (failed) {
          errors.push({ task: name, error });
          log.error({ task: name, err: error, restart: policy.restart !== "never" }, "a task failed");
        }
      }
      if (signal.aborted || policy.restart === "never" || (policy.restart === "on-failure" && !failed))
        return;
      // A task that has run for a good while had a new beginning, so its next failure is a first one.
      pause = clock.monotonic() - started > longest ? shortest : pause;
      await clock.sleep(jitter(pause), signal);
      pause = Math.min(longest, pause * 2);
    }
  }

  async function stopAll(): Promise<readonly TaskError[]> {
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
      task.abort.abort(parent.reason);
      await task.ended;
    }
    return errors;
  }

  const group: TaskGroup = {
    start(name, run, policy = { restart: "on-failure" }) {
      if (stopping !== undefined) throw new Error(`starting task ${name}: its group has been stopped`);
      const abort = new AbortController();
      tasks.push({ abort, ended: keepRunning(name, run, policy, abort.signal) });
    },
    stop() {
      stopping ??= stopAll();
      return stopping;
    },
  };
  const onAbort = (): void => void group.stop();
  if (parent.aborted) onAbort();
  else parent.addEventListener("abort", onAbort, { once: true });
  return group;
}
