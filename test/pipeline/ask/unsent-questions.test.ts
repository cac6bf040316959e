// A question that waits for a connection was not asked: the attempt is recorded when the connection is available.

import { describe, expect, it, onTestFinished } from "vitest";
import voice from "../../../adapters/voice/index.ts";
import { createAgentClient } from "../../../src/agent/index.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { ann, mail, openedCall, openTexts, type TestPipeline, testClock } from "../../support/pipeline/pipeline.ts";
import { cutting, listen } from "../../support/pipeline/stage.ts";

const turns = async (pipeline: TestPipeline) =>
  (await pipeline.turns()).map(({ state, attempts }) => `${state} ${attempts}`);
const asked = (pipeline: TestPipeline) => pipeline.platform.calls.filter((call) => call.startsWith("ask"));

/** Occupies the client's only connection. Call the result to release it. */
async function occupied(pipeline: TestPipeline): Promise<() => Promise<unknown>> {
  pipeline.client.setConnections(1);
  pipeline.platform.faults.describe = () => undefined;
  const abort = new AbortController();
  const call = pipeline.client.describe(abort.signal);
  await expect.poll(() => pipeline.platform.count("describe"), { interval: 2 }).toBe(1);
  const release = () => {
    abort.abort();
    return call;
  };
  onTestFinished(() => void release());
  return release;
}

describe("a question that has not been sent", () => {
  it("counts as not asked after a crash, and is asked at once without a look-up", async () => {
    const options = { absentAfter: 600_000, rules: { absent_after: 600_000 } };
    const pipeline = await openTexts(options);
    await pipeline.says("hi");
    await occupied(pipeline);
    await pipeline.accepts("c", mail({ text: "two", from: { address: ann } }));
    await expect.poll(() => pipeline.scheduler.running(), { interval: 2 }).toBe(1);
    expect(await turns(pipeline)).toEqual(["answered 1", "waiting 0"]);
    // The process dies here, and another begins on the same store.
    await pipeline.db.tx(endLeases);
    const { clock, db, platform } = pipeline;
    const next = await openTexts({ ...options, clock, db, platform });
    await next.settles();
    expect(next.texts).toEqual(["+15550111: answer to two"]);
    expect([asked(next), platform.count("look")]).toEqual([["ask hi", "ask two"], 0]);
    await pipeline.scheduler.drain(0);
    expect(asked(next)).toEqual(["ask hi", "ask two"]);
  });

  it("ends its attempt when the connection closes while the attempt is being committed", async () => {
    let isClosing = false;
    const pipeline = await openTexts({
      line: (line) => ({
        ...line,
        client: {
          ...line.client,
          // The attempt is recorded at the crossing, and not with its claim.
          reserve: () => null,
          async ask(id, question, call) {
            if (!isClosing) return line.client.ask(id, question, call);
            isClosing = false;
            void Promise.resolve(call.crossing()).catch(() => undefined);
            return { kind: "deferred", reason: "other side closed" };
          },
        },
      }),
    });
    await pipeline.says("hi");
    isClosing = true;
    await pipeline.says("two");
    await pipeline.passes(2000);
    const attempts = await pipeline.db.read((q) =>
      q.all(
        "SELECT number, outcome FROM attempts JOIN turns ON turns.id = subject WHERE question = 'two' ORDER BY number",
      ),
    );
    expect(attempts).toEqual([
      { number: 1, outcome: "deferred" },
      { number: 2, outcome: "sent" },
    ]);
    expect([asked(pipeline), await turns(pipeline)]).toEqual([
      ["ask hi", "ask two"],
      ["answered 1", "answered 2"],
    ]);
  });

  it("includes a message that joins it later: nothing is lost, nothing is asked twice", async () => {
    const pipeline = await openTexts({ rules: { debounce: 50 } });
    await pipeline.says("hi");
    await pipeline.passes(100);
    const release = await occupied(pipeline);
    await pipeline.accepts("c", mail({ text: "two", from: { address: ann } }));
    pipeline.clock.forward(100);
    await pipeline.scheduler.sweep();
    await expect.poll(() => pipeline.scheduler.running(), { interval: 2 }).toBe(1);
    await pipeline.accepts("c", mail({ text: "three", from: { address: ann } }));
    await release();
    await expect.poll(() => pipeline.scheduler.running(), { interval: 2 }).toBe(0);
    await pipeline.passes(1000);
    expect(asked(pipeline)).toEqual(["ask hi", "ask two\nthree"]);
    expect(pipeline.texts.at(-1)).toBe("+15550111: answer to two\nthree");
  });

  it("is joined to the newer text of a call, each asked once", async () => {
    const { pipeline, call } = await openedCall();
    const release = await occupied(pipeline);
    await call.says("one");
    await expect.poll(() => pipeline.scheduler.running(), { interval: 2 }).toBe(1);
    await call.says("two");
    await release();
    await pipeline.settles();
    expect(pipeline.asked()).toEqual(["one\ntwo"]);
    expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to one\ntwo"]);
    expect((await pipeline.state()).turns).toEqual(["answered", "dropped", "answered"]);
  });

  it("is asked in a call without a look-up when the rate limit has no room after its claim", async () => {
    const { pipeline, call } = await openedCall();
    const take = pipeline.rate.take.bind(pipeline.rate);
    let refusals = 0;
    pipeline.rate.take = (count, maxWaitMs) => {
      if (refusals > 0) return take(count, maxWaitMs);
      refusals += 1;
      return Promise.resolve({ taken: false, waitMs: 10 });
    };
    await call.says("hello");
    await pipeline.passes(5000, 500);
    expect([refusals, asked(pipeline), pipeline.platform.count("look")]).toEqual([1, ["ask hello"], 0]);
    expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to hello"]);
    const attempts = await pipeline.db.read((q) =>
      q.all("SELECT outcome FROM attempts JOIN turns ON turns.id = subject WHERE opening IS NULL ORDER BY number"),
    );
    // The attempt that was not made does not count.
    expect(attempts).toEqual([{ outcome: "sent" }]);
  });

  it("is asked again after the channel's own absent_after when it was lost on the way", async () => {
    const asked = async (rules: { readonly absent_after?: number }) => {
      const { pipeline, call } = await openedCall({ absentAfter: 600_000, rules });
      pipeline.platform.faults.ask = cutting("before");
      await call.says("one");
      await pipeline.settles();
      delete pipeline.platform.faults.ask;
      await pipeline.passes(20_000, 1000);
      return pipeline.said.map(({ text }) => text);
    };
    expect(await asked({ absent_after: 5000 })).toEqual(["answer to one"]);
    expect(await asked({})).toEqual([]);
    expect(voice.traits.defaults).toMatchObject({ absent_after: "5s" });
  });

  it("counts its failed tries: the backoff grows while no connection can be opened", async () => {
    const clock = testClock();
    const url = "http://127.0.0.1:1"; // nothing listens there
    const client = createAgentClient({
      url,
      agentKey: "key",
      timeoutMs: 5000,
      clock,
      log: listen().log,
      timing: standardTiming,
    });
    onTestFinished(() => client.close());
    const next = await openTexts({ clock, line: (line) => ({ ...line, client }) });
    await next.says("two");
    expect(await turns(next)).toEqual(["waiting 1"]);
    const due = async () =>
      (await next.db.read((q) => q.one<{ ms: number }>("SELECT due_at - now_ms() AS ms FROM turns")))?.ms ?? 0;
    const first = await due();
    await next.passes(60_000, 20_000);
    expect(await due()).toBeGreaterThan(first);
    const outcomes = await next.db.read((q) => q.all("SELECT DISTINCT outcome FROM attempts"));
    expect(outcomes).toEqual([{ outcome: "deferred" }]);
  });
});
