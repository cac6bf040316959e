// Questions that fail, or stay without an answer: an operator finds each in the inbox's list, and can let it go on.

import { expect, it } from "vitest";
import { type House, mail, openHouse } from "../support/pipeline/pipeline.ts";
import { cutting, refusing } from "../support/pipeline/stage.ts";

const day = 86_400_000;

async function state(house: House): Promise<string | undefined> {
  return (await house.turns())[0]?.state;
}

it("lists what the platform refused, and asks it again when that is released", async () => {
  const house = await openHouse();
  house.platform.faults.ask = refusing(400);
  await house.arrives({ text: "hello" });
  expect([await state(house), await house.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  delete house.platform.faults.ask;
  await house.releases();
  expect(house.sent).toEqual(["answer to hello"]);
  expect(house.platform.count("ask")).toBe(2);
  expect(await house.listed("failed")).toEqual([]);
});

it("lists what two conversations were lost over, and asks it when that is released", async () => {
  const house = await openHouse();
  house.platform.faults.ask = refusing(404);
  await house.arrives({ text: "hello" });
  expect([await state(house), await house.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  expect(house.platform.calls.map((call) => call.split(" ")[0])).toEqual(["start", "ask", "start", "ask"]);
  delete house.platform.faults.ask;
  await house.releases();
  expect(house.sent).toEqual(["answer to hello"]);
});

it("counts the days of trying from the first try, gives up after them, and begins anew when released", async () => {
  const house = await openHouse();
  house.platform.faults.ask = refusing(408);
  await house.arrives({ text: "hello" });
  // However long the mail had waited: not yet.
  await house.db.tx((q) => q.run("UPDATE turns SET received_at = 1"));
  await house.passes(60_000);
  expect(await state(house)).toBe("waiting");
  await house.passes(4 * day, 4 * day);
  expect([await state(house), await house.listed("failed")]).toEqual(["failed", ["not-asked"]]);
  await house.releases();
  expect(await state(house)).toBe("waiting");
  delete house.platform.faults.ask;
  await house.passes(600_000);
  expect(house.sent).toEqual(["answer to hello"]);
});

it.each(["that was seen there", "that was seen there only then"])(
  "lists a question without an answer %s, and looks it up again when released: it is not put twice",
  async (when) => {
    const house = await openHouse();
    if (when.endsWith("only then")) house.platform.faults.look = refusing(500);
    house.platform.faults.ask = (asked) => {
      asked.perform();
      house.platform.messages.get(asked.conversation)?.pop();
      asked.cut();
    };
    await house.arrives({ text: "hello" });
    expect(await state(house)).toBe("unknown");
    await house.passes(25 * 60_000);
    expect(await state(house)).toBe("unknown");
    await house.passes(6 * 60_000);
    delete house.platform.faults.look;
    await house.passes(4 * 60_000);
    expect([await state(house), await house.listed("failed")]).toEqual(["failed", ["not-asked"]]);
    house.platform.reply([...house.platform.messages.keys()][0] ?? "", "at last");
    await house.releases();
    expect(house.sent).toEqual(["at last"]);
    expect(house.platform.count("ask")).toBe(1);
  },
);

it("lists what a person at the platform is to answer, and sends that answer when released", async () => {
  const house = await openHouse();
  house.platform.faults.ask = (asked) => {
    asked.perform();
    const known = house.platform.messages.get(asked.conversation) ?? [];
    known.pop();
    asked.answer(200, known.at(-1) ?? null);
  };
  await house.arrives({ text: "hello" });
  expect([await state(house), await house.listed("ignored")]).toEqual(["silent", ["silent"]]);
  house.platform.reply([...house.platform.messages.keys()][0] ?? "", "from a person");
  await house.releases();
  expect(house.sent).toEqual(["from a person"]);
  expect(house.platform.count("ask")).toBe(1);
  expect(await house.listed("ignored")).toEqual([]);
});

it("lists an answer that could not be composed, and composes it when released", async () => {
  let broken = true;
  const house = await openHouse({
    outbound: {
      compose(reply) {
        if (broken) throw new Error("a defect");
        return [{ text: reply.text }];
      },
    },
  });
  await house.arrives({ text: "hello" });
  expect([await state(house), await house.listed("failed")]).toEqual(["answered", ["not-composed"]]);
  broken = false;
  await house.releases();
  expect(house.sent).toEqual(["answer to hello"]);
  expect(house.platform.count("ask")).toBe(1);
});

it("blocks the conversation behind what failed where that is wished, and goes on in order when released", async () => {
  const house = await openHouse({ rules: { on_permanent_failure: "block" } });
  const first = mail({ text: "first" });
  house.platform.faults.ask = refusing(400);
  await house.arrives(first);
  await house.arrives({ text: "second", thread: { answers: [first.id] } });
  await house.passes(60_000);
  expect(house.platform.count("ask")).toBe(1);
  delete house.platform.faults.ask;
  await house.releases();
  expect(house.sent).toEqual(["answer to first", "answer to second"]);
});

it("puts a question that only ever ends in an error, and leaves no trace, a few times and no more", async () => {
  const house = await openHouse({ settleAfter: 1000 });
  house.platform.faults.ask = refusing(500);
  await house.arrives({ text: "hello" });
  await house.passes(3_600_000, 20_000);
  // The first of the eight attempts also opened the conversation.
  expect(house.platform.count("ask")).toBe(8);
  expect([await state(house), await house.listed("failed")]).toEqual(["failed", ["not-asked"]]);
});

it("does not take a Retry-After of nothing at its word", async () => {
  const house = await openHouse();
  house.platform.faults.ask = refusing(429, { "retry-after": "0" });
  await house.arrives({ text: "hello" });
  await house.passes(800, 100);
  expect(house.platform.count("ask")).toBe(1);
  await house.passes(3000, 100);
  expect(house.platform.count("ask")).toBe(2);
});

it("holds every call back when a look is answered with 429", async () => {
  const house = await openHouse();
  house.platform.faults.ask = cutting("after");
  house.platform.faults.look = refusing(429, { "retry-after": "30" });
  await house.arrives({ text: "hello" });
  await house.passes(1000, 250);
  expect(house.platform.count("look")).toBe(1);
  await house.arrives({ text: "another", from: { address: "bob@example.org" } });
  await house.passes(20_000, 1000);
  expect(house.platform.calls.filter((call) => !call.startsWith("ask hello")).slice(-1)).toEqual(["look p1"]);
  delete house.platform.faults.look;
  delete house.platform.faults.ask;
  await house.passes(15_000, 1000);
  expect([...house.sent].sort()).toEqual(["answer to another", "answer to hello"]);
  expect(house.platform.count("ask hello")).toBe(1);
});
