import { once } from "node:events";
import type { Clock, Log } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { TaskGroup } from "../../src/ops/tasks.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { silentLog } from "../support/resources.ts";

/** A log, and the errors of the tasks in it. */
function errorLog(): { readonly log: Log; readonly errors: unknown[] } {
  const errors: unknown[] = [];
  return {
    log: { ...silentLog, error: ({ task, err }) => void errors.push(`${String(task)}: ${(err as Error).message}`) },
    errors,
  };
}

/** Sleeps take no time and are written down; `monotonic` is moved by the test. */
function quickClock(): Clock & { slept: number[]; at: number } {
  const clock = {
    slept: [] as number[],
    at: 0,
    now: () => clock.at,
    monotonic: () => clock.at,
    sleep: async (ms: number) => void clock.slept.push(ms),
  };
  return clock;
}
const untilAborted = async (signal: AbortSignal): Promise<void> => {
  if (!signal.aborted) await once(signal, "abort");
};

describe("a task group", () => {
  it("ends its tasks in reverse, each after the one before has ended", async () => {
    const parent = new AbortController();
    const events: string[] = [];
    const group = new TaskGroup(parent.signal, { clock: quickClock(), log: silentLog, timing: standardTiming.health });
    for (const name of ["store", "scheduler", "listener"]) {
      group.start(name, async (signal) => {
        await untilAborted(signal);
        events.push(`${name} asked`);
        await new Promise((resolve) => setImmediate(resolve));
        events.push(`${name} ended`);
      });
    }
    parent.abort();
    await group.stop();
    expect(events).toEqual([
      "listener asked",
      "listener ended",
      "scheduler asked",
      "scheduler ended",
      "store asked",
      "store ended",
    ]);
  });

  it("starts a failed task again, ever more slowly, with jitter", async () => {
    const clock = quickClock();
    const { log, errors } = errorLog();
    const timing = { taskRestart: 1000, taskRestartLongest: 8000 };
    const group = new TaskGroup(new AbortController().signal, { clock, log, timing });
    let starts = 0;
    const eighth = new Promise<void>((resolve) => {
      group.start("reader", async (signal) => {
        if (++starts === 8) {
          resolve();
          return untilAborted(signal);
        }
        throw new Error(`fall ${starts}`);
      });
    });
    await eighth;
    await group.stop();
    expect(errors).toEqual([1, 2, 3, 4, 5, 6, 7].map((start) => `reader: fall ${start}`));
    for (const [index, expected] of [1000, 2000, 4000, 8000, 8000, 8000, 8000].entries()) {
      expect(clock.slept[index]).toBeGreaterThanOrEqual(expected * 0.79);
      expect(clock.slept[index]).toBeLessThanOrEqual(expected * 1.21);
    }
  });

  it("begins with the shortest pause again after a long good run", async () => {
    const clock = quickClock();
    const group = new TaskGroup(new AbortController().signal, {
      clock,
      log: silentLog,
      timing: { taskRestart: 100, taskRestartLongest: 8000 },
    });
    let starts = 0;
    const done = new Promise<void>((resolve) => {
      group.start("reader", async (signal) => {
        starts += 1;
        if (starts === 4) clock.at += 9000;
        if (starts === 5) {
          resolve();
          return untilAborted(signal);
        }
        throw new Error("fall");
      });
    });
    await done;
    await group.stop();
    expect(clock.slept[2]).toBeGreaterThan(300);
    expect(clock.slept[3]).toBeLessThan(130);
  });

  it.each([
    ["on-failure", false, 1],
    ["on-failure", true, 3],
    ["never", false, 1],
    ["never", true, 1],
  ] as const)("restart %s, failing %s: %i starts", async (restart, failing, expected) => {
    const group = new TaskGroup(new AbortController().signal, {
      clock: quickClock(),
      log: silentLog,
      timing: standardTiming.health,
    });
    let starts = 0;
    group.start(
      "task",
      async (signal) => {
        starts += 1;
        if (starts === 3) return untilAborted(signal);
        if (failing) throw new Error("fall");
      },
      { restart },
    );
    await new Promise((resolve) => setImmediate(resolve));
    await group.stop();
    expect(starts).toBe(expected);
  });

  it("does not call an abort an error, and takes no task after its end", async () => {
    const parent = new AbortController();
    const { log, errors } = errorLog();
    const group = new TaskGroup(parent.signal, { clock: quickClock(), log, timing: standardTiming.health });
    group.start("reader", async (signal) => {
      await untilAborted(signal);
      throw new Error("aborted");
    });
    parent.abort();
    await group.stop();
    expect(errors).toEqual([]);
    expect(() => group.start("late", untilAborted)).toThrow("its group has been stopped");
  });
});
