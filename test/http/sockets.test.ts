// After the handshake: frames, bounds, and every way in which a socket ends.

import { once } from "node:events";
import type { Socket } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { type Door, echo, frame, handshake, open, raw, relay } from "../support/http/listener.ts";

const served = (door: Door) => door.lines.filter(({ message }) => message === "socket served");

/** A route whose sockets a test holds in its hands, with what became of each `serve`. */
function held() {
  const sockets: Socket[] = [];
  const ended: (Error | null)[] = [];
  const route = relay(async (socket) => {
    sockets.push(socket);
    const over = new Promise((resolve) => socket.signal.addEventListener("abort", resolve));
    await over;
    ended.push(null);
  });
  return { route, sockets, ended };
}

describe("frames", () => {
  it("come in order, text as text and bytes as bytes, and may be split up", async () => {
    const heard: (string | Uint8Array)[] = [];
    const door = await open([
      relay(async (socket) => {
        for await (const data of socket) heard.push(data);
      }),
    ]);
    const { ws } = await door.dial();
    ws.send("grüß");
    ws.send(Buffer.from([1, 2, 3]));
    ws.send("sp", { fin: false });
    ws.send("li", { fin: false });
    ws.send("t");
    await expect.poll(() => heard).toHaveLength(3);
    expect([heard[0], [...(heard[1] as Uint8Array)], heard[2]]).toEqual(["grüß", [1, 2, 3], "split"]);
  });

  it("can be read on after breaking off", async () => {
    const heard: unknown[] = [];
    const door = await open([
      relay(async (socket) => {
        for await (const first of socket) {
          heard.push(["first", first]);
          break;
        }
        for await (const next of socket) heard.push(["next", next]);
        heard.push("end");
      }),
    ]);
    const { ws } = await door.dial();
    for (const text of ["a", "b", "c"]) ws.send(text);
    ws.close();
    await expect.poll(() => heard).toEqual([["first", "a"], ["next", "b"], ["next", "c"], "end"]);
  });

  it.each([
    ["a frame", [frame("x".repeat(1001))]],
    [
      "a message in pieces",
      Array.from({ length: 11 }, (_, n) => frame("x".repeat(100), { opcode: n === 0 ? 1 : 0, last: false })),
    ],
  ])("%s above maxFrameBytes closes with 1009", async (_what, frames) => {
    const heard: unknown[] = [];
    const route = relay(
      async (socket) => {
        for await (const data of socket) heard.push(data);
      },
      { maxFrameBytes: 1000 },
    );
    const door = await open([route]);
    const { answer } = raw(door.relay, handshake(), ...frames);
    expect(await answer).toContain(Buffer.from([0x88, 2, 1009 >> 8, 1009 & 255]).toString("latin1"));
    expect(heard).toEqual([]);
    await expect
      .poll(() => served(door))
      .toEqual([expect.objectContaining({ status: 101, reason: expect.stringContaining("payload") })]);
  });

  it("may be as large as the route says", async () => {
    const door = await open([relay(echo), relay(echo, { path: "/large", maxFrameBytes: 300_000 })]);
    const large = await door.dial("/channels/voice/large");
    large.ws.send("x".repeat(300_000));
    await expect.poll(() => large.heard.map((text) => text.length)).toEqual([300_000]);
    const usual = await door.dial();
    usual.ws.send("x".repeat(65_536));
    await expect.poll(() => usual.heard).toHaveLength(1);
    usual.ws.send("x".repeat(65_537));
    expect(await usual.closed).toBe(1009);
  });

  it("that break the protocol close the socket: unmasked, reserved, not UTF-8", async () => {
    const door = await open([relay(echo)]);
    const bad = [Buffer.from([0x81, 1, 0x61]), frame("x", { opcode: 3 }), frame(Buffer.from([0xff, 0xfe]))];
    const answers = await Promise.all(bad.map((bytes) => raw(door.relay, handshake(), bytes).answer));
    const codes = answers.map((text) => Buffer.from(text.split("\r\n\r\n")[1] ?? "", "latin1").readUInt16BE(2));
    expect(codes).toEqual([1002, 1002, 1007]);
  });
});

describe("a peer that sends too much", () => {
  const limits = { framesPerSecond: 50, frameBurst: 20 };

  it.each([
    ["messages", 1],
    ["pings", 9],
    ["pongs", 10],
  ])("%s: is closed with 1008, and nothing more of it is read", async (_what, opcode) => {
    let heard = 0;
    const door = await open(
      [
        relay(async (socket) => {
          for await (const _ of socket) heard += 1;
        }),
      ],
      { limits: { ...limits, framesPerSecond: 0.001 }, timing: { closeFrame: 100 } },
    );
    const { answer } = raw(
      door.relay,
      handshake(),
      Buffer.concat(Array.from({ length: 200 }, () => frame("x", { opcode }))),
    );
    expect(await answer).toContain(Buffer.from([0x88, 17, 1008 >> 8, 1008 & 255]).toString("latin1"));
    expect(heard).toBeLessThanOrEqual(20);
    await expect.poll(() => served(door)).toEqual([expect.objectContaining({ reason: "too many frames" })]);
  });

  it("in the long run may send as much as configured", async () => {
    const door = await open([relay(echo)], { limits });
    const { ws, heard } = await door.dial();
    for (let n = 0; n < 40; n += 1) {
      ws.send(String(n));
      await expect.poll(() => heard.length, { interval: 1 }).toBe(n + 1);
      await new Promise((resolve) => setTimeout(resolve, 25)); // 40 a second
    }
    expect(ws.readyState).toBe(ws.OPEN);
  });

  it("is slowed down when the adapter does not read on", async () => {
    const go = Promise.withResolvers<void>();
    let heard = 0;
    const door = await open(
      [
        relay(async (socket) => {
          await go.promise;
          for await (const data of socket) heard += String(data).length;
        }),
      ],
      { limits: { framesPerSecond: 1e6, frameBurst: 1e6, unreadBytes: 100_000 }, timing: { ping: 50 } },
    );
    const { ws } = await door.dial();
    const size = 60_000;
    const count = 500; // 30 MB: far more than the system's own buffers hold
    for (let n = 0; n < count; n += 1) ws.send("x".repeat(size));
    // The system's buffers fill up, then nothing moves; six pings: unread answers are no fault of the peer's.
    let before = 0;
    const moved = () => {
      const last = before;
      before = ws.bufferedAmount;
      return last - before;
    };
    moved();
    await expect.poll(moved, { interval: 300 }).toBe(0);
    expect(ws.bufferedAmount).toBeGreaterThan((size * count) / 2);
    expect(ws.readyState).toBe(ws.OPEN);
    go.resolve();
    await expect.poll(() => heard).toBe(size * count);
  });
});

describe("a peer that does not read", () => {
  it("is cut when too much waits for it, and sending says so", async () => {
    const errors: unknown[] = [];
    const door = await open(
      [
        relay(async (socket) => {
          const sends = Array.from({ length: 300 }, () => socket.send("x".repeat(100_000)));
          for (const one of await Promise.allSettled(sends)) if (one.status === "rejected") errors.push(one.reason);
          await expect(socket.send("more")).rejects.toThrow("closed");
        }),
      ],
      { limits: { unsentBytes: 200_000 } },
    );
    const { wire } = raw(door.relay, handshake());
    wire.pause();
    await expect
      .poll(() => served(door))
      .toEqual([expect.objectContaining({ code: 1006, reason: "the peer does not read" })]);
    expect(errors.length).toBeGreaterThan(200);
    expect(String(errors.at(-1))).toContain("sending:");
  });

  it("is cut after one missed pong", async () => {
    const { route, sockets, ended } = held();
    const door = await open([route], { timing: { ping: 100 } });
    const { wire } = raw(door.relay, handshake());
    await once(wire, "data");
    await expect.poll(() => ended).toEqual([null]);
    expect(sockets[0]?.signal.aborted).toBe(true);
    await expect
      .poll(() => served(door))
      .toEqual([expect.objectContaining({ code: 1006, reason: "no answer to a ping" })]);
  });

  it("that answers its pings stays", async () => {
    const door = await open([relay(echo)], { timing: { ping: 300 } });
    const { ws, heard } = await door.dial();
    let pings = 0;
    ws.on("ping", () => (pings += 1));
    await expect.poll(() => pings).toBeGreaterThan(3);
    ws.send("still here");
    await expect.poll(() => heard).toEqual(["still here"]);
  });
});

describe("the end", () => {
  it("by serve's return is 1000, by its failure 1011 and a line in the log", async () => {
    const door = await open([
      relay(async (socket) => socket.send("bye")),
      relay(() => Promise.reject(new Error("a defect")), { path: "/broken" }),
    ]);
    const well = await door.dial();
    expect([await well.closed, well.heard]).toEqual([1000, ["bye"]]);
    expect(await (await door.dial("/channels/voice/broken")).closed).toBe(1011);
    expect(door.lines).toContainEqual(
      expect.objectContaining({ message: "a socket failed", channel: "voice", err: new Error("a defect") }),
    );
    await expect.poll(() => served(door).map(({ code }) => code)).toEqual([1000, 1011]);
  });

  it("by the adapter's close ends its reading at once", async () => {
    const after: unknown[] = [];
    const door = await open([
      relay(async (socket) => {
        for await (const data of socket) {
          after.push(data);
          socket.close(4001, "enough");
        }
        after.push("end");
      }),
    ]);
    const client = await door.dial();
    for (const text of ["a", "b", "c"]) client.ws.send(text);
    expect(await client.closed).toBe(4001);
    expect(after).toEqual(["a", "end"]);
  });

  it("by the peer, politely or not, ends reading and sending", async () => {
    const { route, sockets, ended } = held();
    const door = await open([route]);
    const polite = await door.dial();
    const rude = await door.dial();
    polite.ws.close(4002);
    rude.ws.terminate();
    await expect.poll(() => ended).toHaveLength(2);
    for (const socket of sockets) await expect(socket.send("x")).rejects.toThrow("the socket is closed");
    await expect
      .poll(() =>
        served(door)
          .map(({ code }) => Number(code))
          .toSorted((a, b) => a - b),
      )
      .toEqual([1006, 4002]);
    expect(door.listener.sockets()).toBe(0);
  });

  it("by a reset in the middle of a frame is a loss like any other", async () => {
    const { route, ended } = held();
    const door = await open([route]);
    const { wire } = raw(door.relay, handshake());
    await once(wire, "data");
    wire.write(frame("half of it").subarray(0, 8));
    wire.resetAndDestroy();
    await expect.poll(() => ended).toEqual([null]);
    await expect.poll(() => served(door).map(({ code }) => code)).toEqual([1006]);
  });
});

describe("going down", () => {
  it("lets serve finish what it says, refuses others, and closes with 1012", async () => {
    const door = await open([
      relay(async (socket) => {
        await new Promise((resolve) => socket.draining.addEventListener("abort", resolve));
        await socket.send("the end of the sentence");
      }),
    ]);
    const client = await door.dial();
    const drained = door.listener.drain();
    expect(await door.refusal()).toBe(503);
    expect([await client.closed, client.heard]).toEqual([1012, ["the end of the sentence"]]);
    await drained;
    expect(door.listener.sockets()).toBe(0);
  });

  it("closes sockets with 1012 at the end of the drain time, and waits for the adapter's last events", async () => {
    const words: string[] = [];
    const door = await open([
      relay(async (socket) => {
        for await (const data of socket) words.push(String(data));
        await new Promise((resolve) => setTimeout(resolve, 50)); // the store is slow
        words.push("lost");
      }),
    ]);
    const client = await door.dial();
    client.ws.send("hello");
    await expect.poll(() => words).toEqual(["hello"]);
    await door.listener.drain(50);
    expect(words).toEqual(["hello", "lost"]);
    expect(await client.closed).toBe(1012);
  });

  it("serves webhooks until the last socket is gone", async () => {
    const talking = Promise.withResolvers<void>();
    const door = await open([
      relay(() => talking.promise),
      { kind: "http", method: "POST", path: "/ended", handle: async () => new Response("ok") },
    ]);
    await door.dial();
    const post = async () => (await fetch(`${door.listener.url}/channels/voice/ended`, { method: "POST" })).status;
    const drained = door.listener.drain(20_000);
    expect(await post()).toBe(200);
    talking.resolve();
    await drained;
    expect(await post()).toBe(503);
  });

  it("does not wait for a peer that answers nothing, nor for an adapter that does not end", async () => {
    const door = await open([relay(() => new Promise(() => undefined))], { timing: { closeFrame: 100 } });
    const { wire } = raw(door.relay, handshake());
    await once(wire, "data");
    wire.pause();
    await door.listener.close(100);
    expect(door.lines).toContainEqual(
      expect.objectContaining({ message: "socket handler does not end", path: "/channels/voice/relay" }),
    );
  });

  it("of one channel ends its sockets and no others", async () => {
    const [old, stays] = [relay(echo), relay(echo, { path: "/stays" })];
    let routes = [old, stays];
    const door = await open(() => routes);
    const [cut, kept] = [await door.dial(), await door.dial("/channels/voice/stays")];
    const next = relay(echo);
    routes = [next, stays];
    await door.listener.retire([old], 0);
    expect(await cut.closed).toBe(1012);
    const again = await door.dial();
    for (const client of [kept, again]) {
      client.ws.send("x");
      await expect.poll(() => client.heard).toEqual(["x"]);
    }
    expect(door.listener.sockets()).toBe(2);
  });
});

it("holds 500 sockets at once", async () => {
  const door = await open([relay(echo)]);
  const clients = await Promise.all(Array.from({ length: 500 }, () => door.dial()));
  expect(door.listener.sockets()).toBe(500);
  for (const [n, { ws }] of clients.entries()) ws.send(String(n));
  await expect.poll(() => clients.filter(({ heard }, n) => heard[0] === String(n)).length).toBe(500);
  await door.listener.drain(0);
  expect(new Set(await Promise.all(clients.map(({ closed }) => closed)))).toEqual(new Set([1012]));
});
