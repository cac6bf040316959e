import { describe, expect, it } from "vitest";
import { endsWithin, limited, scopeUnder, systemClock } from "../../src/ops/clock.ts";

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

describe("a scope", () => {
  it("aborts with its parent, with the same reason", () => {
    const parent = new AbortController();
    const scope = scopeUnder(parent.signal);
    parent.abort("shutdown");
    expect(scope.signal.aborted).toBe(true);
    expect(scope.signal.reason).toBe("shutdown");
  });

  it("is aborted at once under an aborted parent", () => {
    expect(scopeUnder(AbortSignal.abort("earlier")).signal.reason).toBe("earlier");
  });

  it("does not abort its parent", () => {
    const parent = new AbortController();
    scopeUnder(parent.signal).abort();
    expect(parent.signal.aborted).toBe(false);
  });

  it("releases its parent and the timers of its limits when it ends", async () => {
    const parent = new AbortController();
    const scope = scopeUnder(parent.signal);
    const limit = limited(limited(scope.signal, 15), 10);
    scope.end();
    parent.abort();
    // A timer of the same list that starts later fires later.
    await aborted(limited(new AbortController().signal, 15));
    expect(scope.signal.aborted).toBe(false);
    expect(limit.aborted).toBe(false);
  });
});

describe("a time limit", () => {
  it("aborts as a timeout after its time", async () => {
    const limit = limited(new AbortController().signal, 1);
    await aborted(limit);
    expect((limit.reason as Error).name).toBe("TimeoutError");
  });

  it("aborts with its parent, also inside of another limit", () => {
    const parent = new AbortController();
    const limit = limited(limited(scopeUnder(parent.signal).signal, 60_000), 60_000);
    parent.abort("shutdown");
    expect(limit.reason).toBe("shutdown");
  });
});

describe("a wait for work", () => {
  const never = new Promise(() => undefined);

  it("tells whether the work has ended in its time", async () => {
    expect(await endsWithin(Promise.resolve(), 60_000, systemClock)).toBe(true);
    expect(await endsWithin(never, 1, systemClock)).toBe(false);
    await expect(endsWithin(Promise.reject(new Error("no disk")), 60_000, systemClock)).rejects.toThrow("no disk");
  });

  it("leaves no timer behind", async () => {
    const left: AbortSignal[] = [];
    const sleep = (_: number, signal?: AbortSignal) => {
      if (signal) left.push(signal);
      return never as Promise<void>;
    };
    await endsWithin(Promise.resolve(), 60_000, { sleep });
    expect(left.map(({ aborted: isOver }) => isOver)).toEqual([true]);
  });
});
