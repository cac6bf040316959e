// What is scarce (the platform's rate, a channel's cap) goes to everybody in turn, in order.

import { expect, it } from "vitest";
import { mail, openHouse, testClock } from "./house.ts";
import { receipt } from "./rig.ts";

const minute = 60_000;
const from = (name: string, text = `from ${name}`) =>
  mail({ text, from: { address: `${name}@example.org` } });
/** In no order: those that became due in one millisecond. */
const sorted = (texts: readonly string[]) => [...texts].sort();
const many = (count: number, name: string) => Array.from({ length: count }, (_, i) => from(`${name}${i}`));

it("lets messages wait in order while the channel is at its cap, and goes on when there is room", async () => {
  const caps = { sender: [], conversation: [], channel: [{ max: 2, per: minute }] };
  const house = await openHouse({ rules: { caps, concurrency: 1 } });
  await house.arrives(...many(5, "p"));
  expect(sorted(house.sent)).toEqual(["answer to from p0", "answer to from p1"]);
  expect(await house.listed("held")).toEqual([]);
  expect(await house.listed("stored")).toHaveLength(3);
  await house.passes(50_000);
  expect(house.sent).toHaveLength(2);
  // What comes meanwhile stands behind.
  await house.arrives(from("late"));
  await house.passes(11_000, 500);
  expect(sorted(house.sent.slice(2))).toEqual(["answer to from p2", "answer to from p3"]);
  await house.passes(61_000, 500);
  expect(sorted(house.sent.slice(4))).toEqual(["answer to from late", "answer to from p4"]);
});

it("lets neither receipts nor what was released wait while the channel is at its cap", async () => {
  const one = [{ max: 1, per: minute }];
  const house = await openHouse({ rules: { caps: { sender: one, conversation: [], channel: one } } });
  await house.arrives(from("p"));
  await house.arrives(from("p", "held"), from("q"), from("r"));
  expect([await house.listed("held"), await house.listed("stored")]).toEqual([["cap-sender"], [null, null]]);
  const recipient = "p@example.org";
  // Behind one that waits.
  await house.accepts("c", from("s"), receipt({ about: { recipient }, state: "delivered" }));
  await house.settles();
  expect(await house.drafts()).toEqual(["delivered"]);
  await house.releases(2);
  expect(sorted(house.sent)).toEqual(["answer to from p", "answer to held"]);
  expect(await house.listed("stored")).toEqual([null, null, null]);
});

it("holds what is over the cap of its sender or conversation, for an operator to release", async () => {
  const cap = { max: 1, per: minute };
  const caps = { sender: [cap], conversation: [], channel: [{ max: 50, per: minute }] };
  const house = await openHouse({ rules: { caps } });
  await house.arrives(from("p", "one"), from("p", "two"), from("q", "three"));
  expect(sorted(house.sent)).toEqual(["answer to one", "answer to three"]);
  expect(await house.listed("held")).toEqual(["cap-sender"]);
  await house.passes(2 * minute);
  expect(house.sent).toHaveLength(2);
  await house.releases(2);
  expect(house.sent[2]).toBe("answer to two");
  const first = from("r", "first");
  const conversation = await openHouse({ rules: { caps: { sender: [], conversation: [cap], channel: [] } } });
  await conversation.arrives(first);
  await conversation.arrives({ ...from("r", "second"), thread: { answers: [first.id] } });
  expect(await conversation.listed("held")).toEqual(["cap-conversation"]);
  expect(conversation.sent).toEqual(["answer to first"]);
});

it.each([
  ["many at once", 4, 100, { interval: 100_000, tolerance: 300_000 }],
  ["one in two seconds", 2, 10, { interval: 2_000_000, tolerance: 0 }],
])(
  "gives a channel with little its turn while others have a lot waiting: %s",
  async (_, count, concurrency, rate) => {
    const names = ["a", "b", "c", "d"].slice(0, count);
    const last = names.at(-1) ?? "";
    const clock = testClock(true); // the machine's pace would let more through
    const house = await openHouse({ channels: names, rules: { concurrency }, rate, clock });
    for (const name of names.slice(0, -1)) await house.accepts(name, ...many(40, name));
    await house.accepts(last, ...many(2, last));
    const done = () => house.platform.calls.filter((call) => call.includes(`from ${last}`)).length;
    // A fair share of the calls suffices for its two openings and two questions; in four times that it is done.
    for (let rounds = 0; done() < 2 && rounds < 200; rounds++) await house.passes(500, 100);
    expect(done()).toBe(2);
    expect(house.platform.calls.length).toBeLessThan(4 * count * 4);
    expect(house.platform.count("start a")).toBeGreaterThan(0);
  },
);

it("answers who came first before it opens for who came later", async () => {
  const house = await openHouse({
    rules: { concurrency: 1 },
    rate: { interval: 100_000, tolerance: 0 },
  });
  for (const letter of many(4, "p")) {
    await house.accepts("c", letter);
    house.clock.forward(5);
  }
  await house.passes(20_000, 100);
  expect(house.platform.calls).toEqual(
    ["p0", "p1", "p2", "p3"].flatMap((name) => [`start ${name}@example.org`, `ask from ${name}`]),
  );
});
