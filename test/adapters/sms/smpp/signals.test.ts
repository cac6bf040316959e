// What one text costs in abort signals: the timers of `AbortSignal.timeout` outlive the text, `AbortSignal.any` keeps its
// parents, and a DOMException captures a stack.

import { AsyncLocalStorage } from "node:async_hooks";
import { expect, it as test, vi } from "vitest";
import { boundSmpp, spoken } from "../../../support/sms/smpp.ts";

interface Counts {
  readonly controllers: number;
  /** Signals of `AbortSignal.timeout` and `AbortSignal.any`. */
  readonly timeouts: number;
  readonly combined: number;
  /** Those created by code, and those of `abort()` without a reason. */
  readonly exceptions: number;
}

/** Set in everything that a test starts, and in nothing that other tests of this process have left running. */
const ours = new AsyncLocalStorage<true>();

/** Counts what `work` creates. The counted functions pass every call on. */
async function counting(work: () => Promise<unknown>): Promise<Counts> {
  const counts = { controllers: 0, timeouts: 0, combined: 0, exceptions: 0 };
  const count = (what: keyof Counts) => {
    if (ours.getStore()) counts[what] += 1;
  };
  const any = AbortSignal.any.bind(AbortSignal);
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const [RealController, RealException] = [AbortController, DOMException];
  class Controller extends RealController {
    constructor() {
      super();
      count("controllers");
    }
    override abort(...reason: [unknown?]) {
      if (reason[0] === undefined) count("exceptions");
      super.abort(...reason);
    }
  }
  class Exception extends RealException {
    constructor(...details: ConstructorParameters<typeof DOMException>) {
      super(...details);
      count("exceptions");
    }
  }
  vi.spyOn(globalThis, "AbortController").mockImplementation(Controller);
  vi.spyOn(globalThis, "DOMException").mockImplementation(Exception);
  vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    count("timeouts");
    return timeout(ms);
  });
  vi.spyOn(AbortSignal, "any").mockImplementation((signals) => {
    count("combined");
    return any(signals);
  });
  try {
    await work();
    return counts;
  } finally {
    vi.restoreAllMocks();
  }
}

const it = (name: string, run: () => Promise<void>) => test(name, () => ours.run(true, run));

/** The two controllers of the contract's `withTimeout`. */
const perRequest = 2;
const texts = 30;

it("a text that is sent costs one limit, which ends with it, also when it waits for the window", async () => {
  const { centre, fixture } = await boundSmpp({ window: 4, enquire: "1h" }, { run: false });
  const { signal } = new AbortController();
  await fixture.send("the connection is open", { signal });
  const counts = await counting(async () => {
    for (let n = 0; n < texts; n++) await fixture.send(`text ${n}`, { signal });
    await Promise.all(Array.from({ length: texts }, (_, n) => fixture.send(`at once ${n}`, { signal })));
  });
  expect(centre.taken.length).toBe(1 + 2 * texts);
  expect(counts).toEqual({ controllers: perRequest * 2 * texts, timeouts: 0, combined: 0, exceptions: 0 });
});

it("a text that is received costs no exception and no combined signal", async () => {
  const { centre, fixture } = await boundSmpp({ enquire: "1h" });
  const counts = await counting(async () => {
    for (let n = 1; n <= texts; n++) {
      centre.deliver(spoken(`text ${n}`));
      await fixture.channel.until("the text", ({ messages }) => messages.length === n);
      // The first response follows the adapter's own request, and the second the answer to it: then the adapter waits.
      await centre.enquire();
      await centre.enquire();
    }
  });
  expect(counts).toMatchObject({ timeouts: 0, combined: 0, exceptions: 0 });
  // One wait for each text, or two after the shorter one is over; the request that confirms the response; this test's wait.
  expect(counts.controllers).toBeGreaterThanOrEqual(texts * (1 + perRequest + 1));
  expect(counts.controllers).toBeLessThanOrEqual(texts * (2 + perRequest + 1));
});
