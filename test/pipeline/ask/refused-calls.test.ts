// 403: of the key, and of one conversation alone.

import { expect, it, onTestFinished } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { RunningAgent } from "../../../src/pipeline/settings.ts";
import { mail, openPipeline, type TestPipeline } from "../../support/pipeline/pipeline.ts";
import { cutting, listen, refusing, type ScriptedPlatform, startPlatform } from "../../support/pipeline/stage.ts";
import { fresh, onEachDatabase } from "../../support/store/databases.ts";

/** A pipeline whose agent reads its settings from the platform, as rarely as the daemon's. */
async function withAgent(): Promise<{
  pipeline: TestPipeline;
  agent: RunningAgent;
  platform: ScriptedPlatform;
  /** Messages of the agent's log. */
  lines: readonly string[];
}> {
  const { log, lines } = listen();
  const platform = await startPlatform();
  let agent: RunningAgent | null = null;
  const pipeline = await openPipeline({
    platform,
    line: (line) => ({
      ...line,
      settings: () => agent?.state.settings ?? null,
      problem: () => agent?.state.problem ?? null,
      refusal: () => agent?.state.refusal ?? null,
      report: (...result) => agent?.report(...result),
    }),
  });
  agent = new RunningAgent({
    name: "agent",
    client: pipeline.client,
    refreshMs: 3_600_000,
    db: pipeline.db,
    rate: pipeline.rate,
    clock: pipeline.clock,
    log,
    timing: standardTiming,
    changed: () => pipeline.scheduler.wake(),
  });
  const abort = new AbortController();
  const running = agent.run(abort.signal);
  onTestFinished(async () => {
    abort.abort();
    await running;
  });
  pipeline.sweeps();
  await expect.poll(() => agent?.state.settings, { interval: 5 }).not.toBeNull();
  return { pipeline, agent, platform, lines };
}

/** Polls what is seen; `ms` pass before each look. */
const passing = (pipeline: TestPipeline, ms: number, seen: () => unknown) =>
  expect.poll(
    () => {
      pipeline.clock.forward(ms);
      return seen();
    },
    { interval: 10 },
  );

it("continues with others when one conversation is refused, and retries that one later", async () => {
  const { pipeline, agent, platform } = await withAgent();
  platform.faults.ask = (asked) =>
    asked.words === "forbidden" ? refusing(403)(asked) : asked.answer(200, asked.perform());
  await pipeline.arrives({ text: "forbidden" });
  await pipeline.arrives({ text: "hello", from: { address: "bob@example.org" } });
  await passing(pipeline, 100, () => pipeline.sent).toEqual(["answer to hello"]);
  const tries = platform.count("ask forbidden");
  await passing(pipeline, 1000, () => platform.count("ask forbidden")).toBeGreaterThan(tries + 2);
  await expect.poll(() => pipeline.turns()).toContainEqual(expect.objectContaining({ state: "waiting" }));
  delete platform.faults.ask;
  await passing(pipeline, 10_000, () => pipeline.sent).toContain("answer to forbidden");
  await expect.poll(() => agent.state.problem).toBeNull();
});

it("asks nothing while the key is refused, reads the settings once a refusal and not again at once", async () => {
  const { pipeline, agent, platform } = await withAgent();
  platform.faults.ask = refusing(403);
  platform.faults.describe = refusing(403);
  await pipeline.arrives({ text: "hello" });
  await passing(pipeline, 100, () => platform.count("describe")).toBe(2);
  await pipeline.passes(600_000, 10_000);
  expect([platform.count("describe"), platform.count("ask")]).toEqual([2, 1]);
  expect(agent.state.problem).toContain("403");
  expect(agent.state.refusal).toBe(agent.state.problem);
  delete platform.faults.ask;
  delete platform.faults.describe;
  // The settings are read once an hour.
  await passing(pipeline, 10_000, () => agent.state.refusal).toBeNull();
  expect(agent.state.problem).toBeNull();
  // The first question may be older than its `max_age` by then.
  await pipeline.arrives({ text: "again", sentAt: new Date(pipeline.clock.now()) });
  await passing(pipeline, 100, () => pipeline.sent).toContain("answer to again");
});

const rejects = "platform rejects the agent's requests";
const accepts = "platform accepts the agent's requests again";
type Fault = NonNullable<ScriptedPlatform["faults"]["ask"]>;
const misconfigured: Fault = (asked) =>
  asked.answer(503, {
    status: 503,
    name: "MODEL_UNAVAILABLE_ERROR",
    message: "m at model.test: HTTP 401 (check model.key)",
    details: [{ path: "model", message: "check model.key" }],
  });

it.each<[string, Fault, RegExp]>([
  ["the key for messages alone", refusing(401), /^the platform rejects its key: HTTP 401/],
  ["its model's key", misconfigured, /^the platform's model rejects the request: HTTP 503: .*check model\.key/],
])("is refused as long as no question is answered, and is still asked: %s", async (_what, fault, refusal) => {
  const { pipeline, agent, platform, lines } = await withAgent();
  platform.faults.ask = fault;
  await pipeline.arrives({ text: "hello" });
  await expect.poll(() => agent.state.refusal).toMatch(refusal);
  await passing(pipeline, 1000, () => platform.count("ask hello")).toBeGreaterThanOrEqual(4);
  expect(agent.state.refusal).toMatch(refusal);
  delete platform.faults.ask;
  await passing(pipeline, 1000, () => pipeline.sent).toEqual(["answer to hello"]);
  await expect.poll(() => agent.state).toMatchObject({ problem: null, refusal: null });
  expect(lines.filter((line) => line === rejects || line === accepts)).toEqual([rejects, accepts]);
});

it("needs no operator while the model is out of reach", async () => {
  const { pipeline, agent, platform } = await withAgent();
  platform.faults.ask = (asked) => asked.answer(503, { status: 503, name: "MODEL_UNAVAILABLE_ERROR", message: "m" });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(10_000, 1000);
  expect(platform.count("ask hello")).toBeGreaterThan(1);
  expect(agent.state).toMatchObject({ problem: null, refusal: null });
});

onEachDatabase((newDatabase) => {
  it.each([403, 404])("opens another conversation when the former agent's one answers %i", async (status) => {
    const reports: string[] = [];
    const pipeline = await openPipeline({
      db: await fresh(newDatabase),
      line: (line) => ({ ...line, report: ({ kind }) => void reports.push(kind) }),
    });
    const first = mail({ text: "hello" });
    await pipeline.arrives(first);
    // The agent of the channel is another one since a restart.
    const agents = () => pipeline.db.read((q) => q.all("SELECT agent FROM conversations"));
    await pipeline.db.tx((q) => q.run("UPDATE conversations SET agent = 'former'"));
    const [former] = [...pipeline.platform.messages.keys()];
    pipeline.platform.faults.ask = (asked) =>
      asked.conversation === former ? refusing(status)(asked) : asked.answer(200, asked.perform());
    await pipeline.arrives({ text: "again", thread: { answers: [first.id] } });
    await expect.poll(() => pipeline.sent, { interval: 1 }).toEqual(["answer to hello", "answer to again"]);
    expect([pipeline.platform.count("start"), await agents(), reports]).toEqual([2, [{ agent: "agent" }], ["missing"]]);
  });
});

it("opens another conversation when it cannot look up a question in the former agent's one", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = cutting("before");
  await pipeline.arrives({ text: "hello" });
  await pipeline.db.tx((q) => q.run("UPDATE conversations SET agent = 'former'"));
  delete pipeline.platform.faults.ask;
  pipeline.platform.faults.look = refusing(403);
  await pipeline.passes(30_000, 1000);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});
