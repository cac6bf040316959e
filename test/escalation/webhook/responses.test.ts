// The responses of webhook receivers: an acknowledgement, a text for the customer, or nothing.

import { describe, expect, it, onTestFinished } from "vitest";
import {
  type Answering,
  bodyOf,
  json,
  openBench,
  opened,
  type Receiver,
  startReceiver,
} from "../../support/escalation/policy.ts";

async function receiver(answer: Answering): Promise<Receiver> {
  const started = await startReceiver();
  onTestFinished(() => started.close());
  started.answer(answer);
  return started;
}

const raw =
  (text: string, type = "application/json"): Answering =>
  (response) =>
    void response.writeHead(200, { "content-type": type }).end(text);

describe("an answer", () => {
  it.each<[string, Answering, string, string | null]>([
    ["acknowledges", json({ acknowledge: true }), "ok", null],
    ["acknowledges by name", json({ acknowledge: true, by: " Dora\r\nDahl " }), "ok", "Dora Dahl"],
    ["of another JSON type", json({ acknowledge: true }, 202, "application/vnd.pager+json; v=1"), "ok", null],
    ["is for the customer", json({ reply: "We are on it.\n#close" }), "We are on it.\n#close", null],
    ["is both", json({ acknowledge: true, reply: "On it.", by: "Emil" }), "On it.", "Emil"],
    ["has a long name", json({ acknowledge: true, by: "x".repeat(500) }), "ok", "x".repeat(100)],
    ["has no name", json({ acknowledge: true, by: "\n" }), "ok", null],
    ["has an empty reply", json({ acknowledge: true, reply: " " }), "ok", null],
  ])("that %s is a message from the notified recipient", async (_what, answer, text, name) => {
    const hook = await receiver(answer);
    const bench = openBench(hook.url);
    expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
    expect(bench.channel.messages).toEqual([
      {
        kind: "message",
        id: "k0000000000000000001",
        from: { address: hook.url, ...(name === null ? {} : { name }) },
        to: [{ address: "escalations" }],
        thread: { answers: [], tokens: ["t0000000000000000001"] },
        sentAt: expect.any(Date),
        text,
      },
    ]);
  });

  it.each<[string, Answering]>([
    ["is empty", (response) => void response.writeHead(204).end()],
    ["is the usual word", raw("ok", "text/plain")],
    ["is JSON by content alone", raw('{"acknowledge":true}', "text/plain")],
    ["has no type", (response) => void response.writeHead(200).end('{"acknowledge":true}')],
    ["only looks like JSON", raw('{"acknowledge":true')],
    ["is a list", raw('[{"acknowledge":true}]')],
    ["is null", raw("null")],
    ["is a truth", raw("true")],
    ["says no", json({ acknowledge: false })],
    ["says it in a text", json({ acknowledge: "true" })],
    ["says it with a number", json({ acknowledge: 1 })],
    ["inherits it", raw('{"__proto__":{"acknowledge":true}}')],
    ["says it elsewhere", json({ data: { acknowledge: true } })],
    ["has a reply that is none", json({ reply: { text: "hello" } })],
    ["has an empty reply", json({ reply: "\n \t" })],
    ["is too long", json({ acknowledge: true, filler: "x".repeat(70_000) })],
    [
      "breaks off",
      (response) => {
        response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
        response.write('{"acknowledge":true}', () => response.socket?.destroy());
      },
    ],
  ])("that %s is a receipt", async (_what, answer) => {
    const hook = await receiver(answer);
    const bench = openBench(hook.url);
    expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
    expect(bench.channel.calls).toEqual([]);
  });

  it.each([301, 400, 410, 429, 500])("of status %i says nothing", async (code) => {
    const hook = await receiver(json({ acknowledge: true, reply: "We are on it." }, code));
    const bench = openBench(hook.url);
    expect((await bench.send(opened)).outcome).not.toMatchObject({ kind: "sent" });
    expect(bench.channel.calls).toEqual([]);
  });

  it("that never ends is not waited for, and the delivery counts", async () => {
    const hook = await receiver((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"acknowledge":true');
    });
    const bench = openBench(hook.url, { timing: { answer: 2000 } });
    const { outcome } = await bench.send(opened);
    // A machine that stalled for all of that time has seen no status, either.
    expect(["sent", "unknown"]).toContain("kind" in outcome ? outcome.kind : outcome);
    expect(bench.channel.calls).toEqual([]);
  });
});

describe("notification types", () => {
  const both = { acknowledge: true, reply: "We are on it." };
  it.each([
    ["escalation.opened", ["We are on it."], ["ok"]],
    ["escalation.open", ["We are on it."], ["ok"]],
    ["escalation.message", ["We are on it."], []],
    ["escalation.acknowledged", [], []],
    ["escalation.notice", [], []],
    ["something.else", [], []],
  ])("%s can be answered with %j and %j", async (type, replied, acknowledged) => {
    const told = async (answer: object) => {
      const hook = await receiver(json(answer));
      const bench = openBench(hook.url);
      expect((await bench.send(bodyOf(type))).outcome).toMatchObject({ kind: "sent" });
      return bench.channel.messages.map(({ text }) => text);
    };
    expect(await told(both)).toEqual(replied);
    expect(await told({ acknowledge: true })).toEqual(acknowledged);
  });
});

describe("the text", () => {
  it("twice to one delivery is one event", async () => {
    const hook = await receiver(json({ acknowledge: true }));
    const bench = openBench(hook.url);
    for (const number of [1, 2]) expect((await bench.send(opened, { number })).outcome).toMatchObject({ kind: "sent" });
    expect(bench.channel.calls).toHaveLength(2);
    expect(bench.channel.messages).toHaveLength(1);
  });

  it("is stored before the delivery is done", async () => {
    const hook = await receiver(json({ acknowledge: true }));
    const bench = openBench(hook.url);
    bench.channel.hold();
    let done = false;
    const sending = bench.send(opened).then((sent) => {
      done = true;
      return sent;
    });
    await bench.channel.until("the event", ({ calls }) => calls.length === 1);
    expect(done).toBe(false);
    bench.channel.release();
    expect((await sending).outcome).toMatchObject({ kind: "sent" });
    expect(bench.channel.messages).toHaveLength(1);
  });

  it("and could not be stored leaves the delivery open: it is made again", async () => {
    const hook = await receiver(json({ acknowledge: true }));
    const bench = openBench(hook.url);
    bench.channel.reject(1, new Error("the store is full"));
    const first = await bench.send(opened);
    expect(first).toMatchObject({ outcome: { message: "the store is full" }, crossed: true });
    expect((await bench.send(opened, { number: 2 })).outcome).toMatchObject({ kind: "sent" });
    expect(bench.channel.messages).toHaveLength(1);
    expect(new Set(hook.got.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  });
});
