// Questions that fail, or stay without an answer: an operator finds each in the inbox's list, and can let it go on.

import { expect, it } from "vitest";
import { holdOpenWork } from "../../../src/store/restored.ts";
import { mail, openPipeline, type TestPipeline } from "../../support/pipeline/pipeline.ts";
import { cutting, refusing } from "../../support/pipeline/stage.ts";

const day = 86_400_000;

async function state(pipeline: TestPipeline): Promise<string | undefined> {
  return (await pipeline.turns())[0]?.state;
}

it("lists what the platform refused, and asks it again when that is released", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = refusing(400);
  await pipeline.arrives({ text: "hello" });
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  delete pipeline.platform.faults.ask;
  await pipeline.releases();
  expect(pipeline.sent).toEqual(["answer to hello"]);
  expect(pipeline.platform.count("ask")).toBe(2);
  expect(await pipeline.listed("failed")).toEqual([]);
});

it("lists what two conversations were lost over, and asks it when that is released", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = refusing(404);
  await pipeline.arrives({ text: "hello" });
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  expect(pipeline.platform.calls.map((call) => call.split(" ")[0])).toEqual(["start", "ask", "start", "ask"]);
  delete pipeline.platform.faults.ask;
  await pipeline.releases();
  expect(pipeline.sent).toEqual(["answer to hello"]);
});

it.each([404, 410])(
  "asks in a new conversation when the platform answers %i for the one of an earlier message",
  async (status) => {
    const pipeline = await openPipeline();
    const first = mail({ text: "first" });
    await pipeline.arrives(first);
    const [lost] = pipeline.platform.messages.keys();
    pipeline.platform.faults.ask = (asked) =>
      asked.conversation === lost ? refusing(status)(asked) : asked.answer(200, asked.perform());
    await pipeline.arrives({ text: "second", thread: { answers: [first.id] } });
    expect(pipeline.sent).toEqual(["answer to first", "answer to second"]);
    await pipeline.arrives({ text: "third", thread: { answers: [first.id] } });
    expect(pipeline.sent.at(-1)).toBe("answer to third");
    expect(
      pipeline.platform.calls.map((call) => call.split(" ")[0]),
      "the third is asked in the new one",
    ).toEqual(["start", "ask", "ask", "start", "ask", "ask"]);
  },
);

it("counts the days of retries from the first try, gives up after them, and starts over when released", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = refusing(408);
  await pipeline.arrives({ text: "hello" });
  // However long the mail had waited: not yet.
  await pipeline.db.tx((q) => q.run("UPDATE turns SET received_at = 1"));
  await pipeline.passes(60_000);
  expect(await state(pipeline)).toBe("waiting");
  await pipeline.passes(4 * day, 4 * day);
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  await pipeline.releases();
  expect(await state(pipeline)).toBe("waiting");
  delete pipeline.platform.faults.ask;
  await pipeline.passes(600_000);
  expect(pipeline.sent).toEqual(["answer to hello"]);
});

it.each(["that was seen there", "that was seen there only then"])(
  "lists a question without an answer %s, and looks it up again when released: it is not put twice",
  async (when) => {
    const pipeline = await openPipeline();
    if (when.endsWith("only then")) pipeline.platform.faults.look = refusing(500);
    pipeline.platform.faults.ask = (asked) => {
      asked.perform();
      pipeline.platform.messages.get(asked.conversation)?.pop();
      asked.cut();
    };
    await pipeline.arrives({ text: "hello" });
    expect(await state(pipeline)).toBe("unknown");
    await pipeline.passes(25 * 60_000);
    expect(await state(pipeline)).toBe("unknown");
    await pipeline.passes(6 * 60_000);
    delete pipeline.platform.faults.look;
    await pipeline.passes(4 * 60_000);
    expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
    pipeline.platform.reply([...pipeline.platform.messages.keys()][0] ?? "", "at last");
    await pipeline.releases();
    expect(pipeline.sent).toEqual(["at last"]);
    expect(pipeline.platform.count("ask")).toBe(1);
  },
);

/** The platform has the question; it shows it to nobody, and the daemon does not know. */
async function unknown(): Promise<TestPipeline> {
  const pipeline = await openPipeline();
  Object.assign(pipeline.platform.faults, { ask: cutting("after"), look: refusing(500) });
  await pipeline.arrives({ text: "hello" });
  expect(await state(pipeline)).toBe("unknown");
  return pipeline;
}

it.each<[string, (pipeline: TestPipeline) => Promise<unknown>]>([
  ["that could not be looked up for days", (pipeline) => pipeline.passes(4 * day, day)],
  ["that a restored store holds", ({ db }) => db.tx((q) => holdOpenWork(q, null))],
])("looks up a question of unknown outcome %s when it is released, before it is asked again", async (_, ends) => {
  const pipeline = await unknown();
  await ends(pipeline);
  expect(await state(pipeline)).toBe("failed");
  await pipeline.releases();
  expect([await state(pipeline), pipeline.platform.count("ask")]).toEqual(["unknown", 1]);
  for (const operation of ["ask", "look"] as const) delete pipeline.platform.faults[operation];
  await pipeline.passes(60_000);
  expect([pipeline.sent, pipeline.platform.count("ask")]).toEqual([["answer to hello"], 1]);
});

it("does not ask a question again whose answer was empty and named none", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = (asked) => {
    asked.perform();
    const known = pipeline.platform.messages.get(asked.conversation) ?? [];
    const answer = {
      ...known.pop(),
      message: "",
      conversationMessageId: undefined,
    } as unknown as (typeof known)[number];
    known.push(answer);
    asked.answer(200, answer);
  };
  await pipeline.arrives({ text: "hello" });
  expect(await state(pipeline)).toBe("silent");
  await pipeline.releases();
  expect([await state(pipeline), pipeline.platform.count("ask")]).toEqual(["silent", 1]);
});

/** The platform stores each question, and the agent leaves it to a human. */
const leavesToHuman = ({ platform }: TestPipeline) => {
  platform.faults.ask = (asked) => {
    asked.perform();
    const known = platform.messages.get(asked.conversation) ?? [];
    known.pop();
    asked.answer(200, known.at(-1) ?? null);
  };
};

it("lists what a person at the platform is to answer, and sends that answer when released", async () => {
  const pipeline = await openPipeline();
  leavesToHuman(pipeline);
  await pipeline.arrives({ text: "hello" });
  expect([await state(pipeline), await pipeline.listed("ignored")]).toEqual(["silent", ["silent"]]);
  pipeline.platform.reply([...pipeline.platform.messages.keys()][0] ?? "", "from a person");
  await pipeline.releases();
  expect(pipeline.sent).toEqual(["from a person"]);
  expect(pipeline.platform.count("ask")).toBe(1);
  expect(await pipeline.listed("ignored")).toEqual([]);
});

it("lists it again when the agent has the conversation again, and later questions do not wait for it", async () => {
  const pipeline = await openPipeline();
  const first = mail({ text: "first" });
  leavesToHuman(pipeline);
  await pipeline.arrives(first);
  expect(await state(pipeline)).toBe("silent");
  delete pipeline.platform.faults.ask;
  pipeline.platform.faults.look = refusing(500);
  await pipeline.releases();
  expect(await state(pipeline)).toBe("unknown");
  delete pipeline.platform.faults.look;
  await pipeline.passes(60_000);
  expect([await state(pipeline), await pipeline.listed("ignored")]).toEqual(["silent", ["silent"]]);
  await pipeline.arrives({ text: "second", thread: { answers: [first.id] } });
  expect(pipeline.sent).toEqual(["answer to second"]);
});

it("does not keep later questions behind a released one that cannot be looked up", async () => {
  const pipeline = await unknown();
  await pipeline.passes(4 * day, day);
  await pipeline.releases();
  expect(await state(pipeline)).toBe("unknown");
  await pipeline.passes(2 * day, 3_600_000);
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
});

it("lists an answer that could not be composed, and composes it when released", async () => {
  let broken = true;
  const pipeline = await openPipeline({
    outbound: {
      compose(reply) {
        if (broken) throw new Error("a defect");
        return [{ text: reply.text }];
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["answered", ["not-composed"]]);
  broken = false;
  await pipeline.releases();
  expect(pipeline.sent).toEqual(["answer to hello"]);
  expect(pipeline.platform.count("ask")).toBe(1);
});

it("blocks the conversation behind a failure where configured, and continues in order when released", async () => {
  const pipeline = await openPipeline({ rules: { on_permanent_failure: "block" } });
  const first = mail({ text: "first" });
  pipeline.platform.faults.ask = refusing(400);
  await pipeline.arrives(first);
  await pipeline.arrives({ text: "second", thread: { answers: [first.id] } });
  await pipeline.passes(60_000);
  expect(pipeline.platform.count("ask")).toBe(1);
  delete pipeline.platform.faults.ask;
  await pipeline.releases();
  expect(pipeline.sent).toEqual(["answer to first", "answer to second"]);
});

it("puts a question that only ever ends in an error, and leaves no trace, a few times and no more", async () => {
  const pipeline = await openPipeline({ absentAfter: 1000 });
  pipeline.platform.faults.ask = refusing(500);
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(3_600_000, 20_000);
  // The first of the eight attempts also opened the conversation.
  expect(pipeline.platform.count("ask")).toBe(8);
  expect([await state(pipeline), await pipeline.listed("failed")]).toEqual(["failed", ["not-asked"]]);
});

it("does not take a Retry-After of nothing at its word", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = refusing(429, { "retry-after": "0" });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(800, 100);
  expect(pipeline.platform.count("ask")).toBe(1);
  await pipeline.passes(3000, 100);
  expect(pipeline.platform.count("ask")).toBe(2);
});

it("holds every call back when a look is answered with 429", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = cutting("after");
  pipeline.platform.faults.look = refusing(429, { "retry-after": "30" });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(1000, 250);
  expect(pipeline.platform.count("look")).toBe(1);
  await pipeline.arrives({ text: "another", from: { address: "bob@example.org" } });
  await pipeline.passes(20_000, 1000);
  expect(pipeline.platform.calls.filter((call) => !call.startsWith("ask hello")).slice(-1)).toEqual(["look p1"]);
  delete pipeline.platform.faults.look;
  delete pipeline.platform.faults.ask;
  await pipeline.passes(15_000, 1000);
  expect([...pipeline.sent].sort()).toEqual(["answer to another", "answer to hello"]);
  expect(pipeline.platform.count("ask hello")).toBe(1);
});
