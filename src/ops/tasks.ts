// Groups of long-running tasks. A task is a function that takes a signal and resolves when it has ended. A
// group starts tasks, restarts them after failures, and stops them in reverse order, because later tasks
// may depend on earlier ones.

import type { Clock, Log } from "bridgehead/contract";
import { jitter } from "./clock.ts";
import type { Timing } from "./timing.ts";

export interface RestartPolicy {
  /** always: also restart a task that returns. on-failure: restart only a task that throws. never: no
   *  restart. */
  readonly restart: "always" | "on-failure" | "never";
}

export interface TaskError {
  readonly task: string;
  readonly error: unknown;
}

export interface TaskGroup {
  /** Starts `run` now. Its signal aborts when the group stops this task. */
  start(name: string, run: (signal: AbortSignal) => Promise<void>, policy?: RestartPolicy): void;
  /** Stops all tasks, the newest first, each after the previous one has ended. Never rejects. */
  stop(): Promise<readonly TaskError[]>;
}

interface RunningTask {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
}

/** Creates a group that also stops when `parent` aborts. Errors thrown after the abort are not kept. */
export function taskGroup(
  parent: AbortSignal,
  {
    clock,
    log,
    timing,
  }: { clock: Clock; log: Log; timing: Pick<Timing["health"], "taskRestart" | "taskRestartLongest"> },
): TaskGroup {
  const tasks: RunningTask[] = [];
  const errors: TaskError[] = [];
  let stopping: Promise<readonly TaskError[]> | undefined;

  async function keepRunning(
    name: string,
    run: (signal: AbortSignal) => Promise<void>,
    policy: RestartPolicy,
    signal: AbortSignal,
  ) {
    const { taskRestart: shortest, taskRestartLongest: longest } = timing;
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
      // After a run longer than `longest` the backoff starts again at `shortest`.
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
