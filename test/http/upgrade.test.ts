// Before the handshake: which clients are accepted, and how others are rejected.

import { expect, it } from "vitest";
import { echo, frame, handshake, open, raw, relay } from "../support/http/listener.ts";

const signed = { headers: { "x-signature": "right" } };
const knowing = (seen: Request[] = []) =>
  relay(echo, {
    async authorize(request) {
      seen.push(request);
      return request.headers.get("x-signature") === "right"
        ? null
        : Response.json({ why: "signature" }, { status: 403, headers: { "x-reason": "forged" } });
    },
  });

it("lets in whom the adapter lets in, and gives it the public address with the scheme wss", async () => {
  const seen: Request[] = [];
  const door = await open([knowing(seen)], { publicUrl: "https://bridge.example.com/hooks/" });
  const client = await door.dial("/channels/voice/relay?x=%20y", {
    headers: { ...signed.headers, host: "evil" },
  });
  client.ws.send("hello");
  await expect.poll(() => client.heard).toEqual(["hello"]);
  expect(seen.map((request) => [request.method, request.url])).toEqual([
    ["GET", "wss://bridge.example.com/hooks/channels/voice/relay?x=%20y"],
  ]);
  expect(client.ws.extensions).toBe("");
  expect(door.listener.sockets()).toBe(1);
});

it("uses ws where the public address is http", async () => {
  const seen: Request[] = [];
  const door = await open([knowing(seen)]);
  await door.dial(undefined, signed);
  expect(seen[0]?.url).toBe(door.relay);
});

it("refuses with the adapter's answer, before any handshake, and ends the connection", async () => {
  let served = 0;
  const door = await open([{ ...knowing(), serve: async () => void served++ }]);
  const { answer } = raw(door.relay, handshake({ "X-Signature": "wrong" }), "more bytes");
  const text = await answer;
  expect(text).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
  expect(text).toContain("x-reason: forged\r\n");
  expect(text).toContain("connection: close\r\n");
  expect(text).toMatch(/\r\n\r\n\{"why":"signature"\}$/);
  expect(served).toBe(0);
  await expect.poll(() => door.listener.sockets()).toBe(0);
  expect(door.lines).toContainEqual(
    expect.objectContaining({ message: "upgrade refused", path: "/channels/voice/relay", status: 403 }),
  );
});

it.each([
  ["another path", handshake({}, "GET /channels/voice/other HTTP/1.1"), 404],
  ["another channel", handshake({}, "GET /channels/fax/relay HTTP/1.1"), 404],
  ["a path outside of channels", handshake({}, "GET /relay HTTP/1.1"), 404],
  ["a deeper path", handshake({}, "GET /channels/voice/relay/x HTTP/1.1"), 404],
  ["a path with a slash too many", handshake({}, "GET /channels/voice/relay/ HTTP/1.1"), 404],
  ["an impossible address", handshake({}, "GET http://[bad/channels/voice/relay HTTP/1.1"), 404],
  ["a post", handshake({}, "POST /channels/voice/relay HTTP/1.1"), 405],
  ["no key", handshake({ "Sec-WebSocket-Key": null }), 400],
  ["a key that is none", handshake({ "Sec-WebSocket-Key": "abc" }), 400],
  ["an old version", handshake({ "Sec-WebSocket-Version": "8" }), 426],
  ["no version", handshake({ "Sec-WebSocket-Version": null }), 426],
  ["the wrong subprotocol", handshake({ "Sec-WebSocket-Protocol": "chat, mqtt" }), 400],
  ["no subprotocol", handshake(), 400],
])("refuses %s without asking the adapter", async (_what, bytes, status) => {
  let asked = 0;
  const route = relay(echo, {
    protocol: "ws.example.org",
    async authorize() {
      asked += 1;
      return null;
    },
  });
  const door = await open([route]);
  expect(await raw(door.relay, bytes).answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(asked).toBe(0);
});

it("agrees on the route's subprotocol, and on none where it has none", async () => {
  const door = await open([relay(echo, { protocol: "ws.example.org" }), relay(echo, { path: "/plain" })]);
  const picky = await door.dial(undefined, { protocols: ["mqtt", "ws.example.org"] });
  expect(picky.ws.protocol).toBe("ws.example.org");
  const { answer, wire } = raw(
    door.relay,
    handshake({ "Sec-WebSocket-Protocol": "mqtt" }, "GET /channels/voice/plain HTTP/1.1"),
  );
  wire.once("data", () => wire.destroy());
  const text = await answer;
  expect(text).toMatch(/^HTTP\/1\.1 101 /);
  expect(text.toLowerCase()).not.toContain("sec-websocket-protocol");
});

it("finds a wildcard's one further segment, which stays out of the log", async () => {
  const seen: string[] = [];
  const door = await open([
    relay(async (socket, request) => (seen.push(new URL(request.url).pathname), echo(socket)), {
      path: "/llm/*",
    }),
    relay(async (socket) => socket.close(4000, "exact"), { path: "/llm/fixed" }),
  ]);
  const client = await door.dial("/channels/voice/llm/s3cret-call");
  client.ws.close();
  await client.closed;
  expect(seen).toEqual(["/channels/voice/llm/s3cret-call"]);
  const refused = ["/llm", "/llm/", "/llm/a/b"].map((path) => door.refusal(`/channels/voice${path}`));
  expect(await Promise.all(refused)).toEqual([404, 404, 404]);
  expect(await (await door.dial("/channels/voice/llm/fixed")).closed).toBe(4000);
  await expect.poll(() => door.lines.filter(({ message }) => message === "socket served")).toHaveLength(2);
  expect(JSON.stringify(door.lines)).not.toContain("s3cret");
  expect(door.lines).toContainEqual(expect.objectContaining({ path: "/channels/voice/llm/*", status: 101 }));
});

it("logs no token that a path carries, of upgrades and of plain requests", async () => {
  const door = await open([relay(echo, { path: "/llm/*" })]);
  const paths = ["/escalations/s3cret", "/channels/voice/llm/s3cret/call", "/channels/voice/other/s3cret"];
  expect(await Promise.all(paths.map((path) => door.refusal(path)))).toEqual([404, 404, 404]);
  for (const path of [...paths, "/channels/voice/llm/s3cret"]) {
    const url = door.relay.replace(/^ws/, "http").replace(/\/channels\/.*/, path);
    expect((await fetch(url)).status).toBe(404);
  }
  await expect.poll(() => door.lines).toHaveLength(7);
  expect(JSON.stringify(door.lines)).not.toContain("s3cret");
  expect(door.lines).toContainEqual(expect.objectContaining({ path: "/channels/voice/llm/...", status: 404 }));
});

it("answers 503 with Retry-After while no channel runs yet", async () => {
  let serving = false;
  const door = await open([relay(echo)], { serving: () => serving });
  for (const path of ["/channels/voice/relay", "/channels/another/relay", "/channels/voice/llm/a/b"]) {
    const { answer } = raw(door.relay, handshake({}, `GET ${path} HTTP/1.1`));
    const text = await answer;
    expect(text, path).toMatch(/^HTTP\/1\.1 503 /);
    expect(text.toLowerCase(), path).toMatch(/\r\nretry-after: \d+\r\n/);
  }
  expect(await door.refusal("/elsewhere")).toBe(404);
  serving = true;
  const client = await door.dial();
  client.ws.close();
  await client.closed;
  expect(await door.refusal("/channels/another/relay")).toBe(404);
});

it("finds each segment that a route leaves open", async () => {
  const door = await open([
    relay(async (socket) => socket.close(4001, "two"), { path: "/llm/*/*" }),
    relay(async (socket) => socket.close(4002, "one"), { path: "/llm/*" }),
  ]);
  expect(await (await door.dial("/channels/voice/llm/s3cret/call")).closed).toBe(4001);
  expect(await (await door.dial("/channels/voice/llm/call")).closed).toBe(4002);
  const refused = ["/llm//call", "/llm/a/", "/llm/a/b/c"].map((path) => door.refusal(`/channels/voice${path}`));
  expect(await Promise.all(refused)).toEqual([404, 404, 404]);
  expect(JSON.stringify(door.lines)).not.toContain("s3cret");
});

it("answers 503 when authorizing fails or times out, and reports the end to the adapter", async () => {
  let late: AbortSignal | undefined;
  const door = await open(
    [
      relay(echo, { path: "/broken", authorize: () => Promise.reject(new Error("store is away")) }),
      // An adapter without types that makes its response and does not return it.
      relay(echo, { path: "/forgotten", authorize: async () => undefined as unknown as null }),
      relay(echo, {
        path: "/slow",
        authorize: (request) => ((late = request.signal), new Promise(() => undefined)),
      }),
    ],
    { timing: { authorize: 100 } },
  );
  expect(await door.refusal("/channels/voice/broken")).toBe(503);
  expect(await door.refusal("/channels/voice/forgotten")).toBe(503);
  expect(await door.refusal("/channels/voice/slow")).toBe(503);
  await expect.poll(() => late?.aborted).toBe(true);
  expect(door.lines.map(({ message }) => message)).toEqual(
    expect.arrayContaining(["websocket authorization failed", "websocket authorization timeout"]),
  );
});

it("forgets a client that goes while it is being let in", async () => {
  const asked = Promise.withResolvers<Request>();
  const answer = Promise.withResolvers<null>();
  let served = 0;
  const route = relay(async () => void served++, {
    authorize: (request) => (asked.resolve(request), answer.promise),
  });
  const door = await open([route]);
  const { wire } = raw(door.relay, handshake());
  const request = await asked.promise;
  wire.resetAndDestroy();
  await expect.poll(() => request.signal.aborted).toBe(true);
  answer.resolve(null);
  await expect.poll(() => door.listener.sockets()).toBe(0);
  expect(served).toBe(0);
});

it("refuses whom it let in when the route is gone by then", async () => {
  const routes = [relay(echo)];
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<null>();
  routes[0] = relay(echo, { authorize: () => (asked.resolve(), answer.promise) });
  const door = await open(() => routes);
  const status = door.refusal();
  await asked.promise;
  routes.pop();
  answer.resolve(null);
  expect(await status).toBe(503);
});

it("reads the first frames that come together with the handshake", async () => {
  const heard: unknown[] = [];
  const door = await open([
    relay(async (socket) => {
      for await (const data of socket) heard.push(data);
    }),
  ]);
  raw(door.relay, Buffer.concat([Buffer.from(handshake()), frame("one"), frame("two")]));
  await expect.poll(() => heard).toEqual(["one", "two"]);
});

it("serves requests that offer another upgrade as ordinary ones", async () => {
  const door = await open([
    {
      kind: "http",
      method: "POST",
      path: "/inbound",
      handle: async (request) => new Response(await request.text()),
    },
  ]);
  const head = "POST /channels/voice/inbound HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n";
  const { answer, wire } = raw(
    door.relay,
    `${head}Upgrade: h2c\r\nHTTP2-Settings: AAA\r\nContent-Length: 3\r\n\r\na=1`,
  );
  wire.once("data", () => wire.end());
  expect(await answer).toMatch(/^HTTP\/1\.1 200 [^]*a=1$/);
});

it("counts sockets apart, so that calls do not starve webhooks", async () => {
  const hook = {
    kind: "http",
    method: "GET",
    path: "/hook",
    handle: async () => new Response("ok"),
  } as const;
  const door = await open([relay(echo), hook], { limits: { sockets: 2, connections: 1 } });
  await door.dial();
  const second = await door.dial();
  expect(await door.refusal()).toBe(503);
  const hooked = async () =>
    (await fetch(`${door.listener.url}/channels/voice/hook`, { headers: { connection: "close" } })).status;
  await expect.poll(() => hooked().catch(() => 0)).toBe(200);
  second.ws.close();
  await second.closed;
  await expect.poll(() => door.listener.sockets()).toBe(1);
  await door.dial();
});

it("cuts connections above the limit, and accepts new ones when others have ended", async () => {
  const door = await open([relay(echo)], { limits: { connections: 2 } });
  const idle = [raw(door.relay, "GET "), raw(door.relay, "GET ")];
  await expect
    .poll(() =>
      fetch(door.listener.url).then(
        () => "served",
        () => "cut",
      ),
    )
    .toBe("cut");
  for (const { wire } of idle) wire.destroy();
  await expect
    .poll(() =>
      fetch(door.listener.url).then(
        () => "served",
        () => "cut",
      ),
    )
    .toBe("served");
});
