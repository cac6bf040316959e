import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { channelId, type HttpRoute, type Log, type Route } from "bridgehead/contract";
import { afterEach, describe, expect, it } from "vitest";
import { type Listener, type ListenerOptions } from "../../src/http/listener.ts";
import { startTestListener } from "../support/http/listener.ts";

const entries: Record<string, unknown>[] = [];
const write: Log["info"] = (fields, message) => void entries.push({ ...fields, message });
const log: Log = { debug: write, info: write, warn: write, error: write };

let listener: Listener;
afterEach(async () => {
  await listener.close(100);
  entries.length = 0;
});

const echo = (changes: Partial<HttpRoute> = {}): HttpRoute => ({
  kind: "http",
  method: "POST",
  path: "/inbound",
  handle: async (request) => Response.json({ url: request.url, body: await request.text() }),
  ...changes,
});

async function start(routes: readonly Route[] = [echo()], changes: Partial<ListenerOptions> = {}): Promise<string> {
  listener = await startTestListener({
    log,
    routes: (channel) => (channel === channelId("sms") ? routes : null),
    ready: async () => ({ ready: true, channels: { sms: "ready" } }),
    metrics: async () => ({ contentType: "text/plain; version=0.0.4", body: "bridgehead_up 1\n" }),
    ...changes,
  });
  return listener.url;
}

const post = (url: string, body: string | ReadableStream = "a=1", init: RequestInit = {}): Promise<Response> =>
  fetch(url, { method: "POST", body, ...init });

/** Sends bytes as they are and collects what comes back until the other side closes. */
function raw(url: string, ...parts: string[]): { socket: Socket; answer: Promise<string> } {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const answer = new Promise<string>((resolve) => {
    let text = "";
    socket.on("data", (data) => void (text += data.toString("latin1")));
    socket.on("close", () => resolve(text));
    socket.on("error", () => resolve(text));
  });
  for (const part of parts) socket.write(part);
  return { socket, answer };
}

describe("a channel's webhook", () => {
  it("gets the raw body and the public address, with any Host header", async () => {
    const url = await start([echo()], { publicUrl: "https://bridge.example.com/hooks" });
    const { answer } = raw(
      url,
      "POST /channels/sms/inbound?x=%20y HTTP/1.1\r\nHost: evil.example.com\r\nContent-Length: 3\r\nConnection: close\r\n\r\na=1",
    );
    expect(await answer).toContain(
      JSON.stringify({ url: "https://bridge.example.com/hooks/channels/sms/inbound?x=%20y", body: "a=1" }),
    );
  });

  it("is looked up at each request", async () => {
    const routes: Route[] = [];
    const url = await start(routes);
    expect((await post(`${url}/channels/sms/inbound`)).status).toBe(404);
    routes.push(echo());
    expect((await post(`${url}/channels/sms/inbound`)).status).toBe(200);
  });

  it("answers 404 and 405 itself", async () => {
    const url = await start();
    expect((await post(`${url}/channels/other/inbound`)).status).toBe(404);
    expect((await post(`${url}/channels/sms/inbound/deeper`)).status).toBe(404);
    const wrong = await fetch(`${url}/channels/sms/inbound`);
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it.each([
    ["throws", () => Promise.reject(new Error("store is full"))],
    ["returns nothing", async () => undefined as unknown as Response],
    ["returns no Response", async () => ({ status: 200 }) as Response],
  ])("becomes 503 when its handler %s", async (_, handle) => {
    const url = await start([echo({ handle })]);
    const answer = await post(`${url}/channels/sms/inbound`);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "10"]);
    expect(entries.find(({ message }) => message === "webhook failed")).toMatchObject({
      channel: "sms",
      path: "/inbound",
    });
  });

  it("ends when the body of its response does not, and when its client has gone", async () => {
    const endless = (bytes: number) => {
      const [begun, cancelled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const pull = async (controller: ReadableStreamDefaultController) => {
        begun.resolve();
        await new Promise((resolve) => setImmediate(resolve));
        controller.enqueue(new Uint8Array(bytes));
      };
      const stream = new ReadableStream({ pull, cancel: () => cancelled.resolve() }, { highWaterMark: 0 });
      return { stream, begun: begun.promise, cancelled: cancelled.promise };
    };
    const [long, slow] = [endless(8_388_608), endless(1)];
    const bodies = [long.stream, slow.stream];
    const url = await start([echo({ handle: async () => new Response(bodies.shift() ?? null) })]);
    await expect(post(`${url}/channels/sms/inbound`)).rejects.toThrow();
    await long.cancelled;
    const failure = entries.find(({ message }) => message === "a request failed");
    expect(failure).toMatchObject({ path: "/channels/sms/inbound" });
    const client = new AbortController();
    const request = fetch(`${url}/channels/sms/inbound`, { method: "POST", signal: client.signal });
    await slow.begun;
    client.abort();
    await expect(request).rejects.toThrow();
    await expect(slow.cancelled).resolves.toBeUndefined();
  });

  it("is refused with 413 above 64 KiB, announced or not, before the handler sees it", async () => {
    let seen = 0;
    const url = await start([echo({ handle: async () => new Response(String(++seen)) })]);
    const target = `${url}/channels/sms/inbound`;
    expect((await post(target, "x".repeat(65_536))).status).toBe(200);
    expect((await post(target, "x".repeat(65_537))).status).toBe(413);
    // Not endless: fetch keeps a copy of all that it sends.
    let left = 4096;
    const stream = new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(16_384));
        if (--left === 0) controller.close();
      },
    });
    const long = await post(target, stream, { duplex: "half" }).catch(() => null);
    expect(long === null || long.status === 413).toBe(true);
    expect(left).toBeGreaterThan(0);
    expect(seen).toBe(1);
  });

  it("may have a limit of its own", async () => {
    const url = await start([echo({ maxBodyBytes: 10 })]);
    expect((await post(`${url}/channels/sms/inbound`, "x".repeat(11))).status).toBe(413);
  });

  it("shares the memory for what exceeds 64 KiB with the others: a body without memory is refused, a short one is not", async () => {
    const url = await start([echo({ maxBodyBytes: 4_000_000 })], { limits: { largeBodies: 1_000_000 } });
    const target = `${url}/channels/sms/inbound`;
    const head = "POST /channels/sms/inbound HTTP/1.1\r\nHost: h\r\nContent-Length: 900001\r\n\r\n";
    // An announced body that never ends.
    const begin = () => raw(url, head, "x".repeat(900_000));
    let slow = begin();
    const large = (size = 900_000) => post(target, "x".repeat(size)).then(({ status }) => status);
    await expect
      .poll(() => {
        // It was refused itself: the other one was read first.
        if (slow.socket.destroyed) slow = begin();
        return large();
      })
      .toBe(503);
    expect((await post(target, "x".repeat(65_536))).status).toBe(200);
    slow.socket.destroy();
    // The memory of the refused bodies is returned as well: this one needs nearly all.
    await expect.poll(() => large(1_060_000)).toBe(200);
  });

  it("is logged with the beginning of its path", async () => {
    const url = await start();
    await fetch(`${url}/channels/${"x".repeat(10_000)}`);
    await fetch(`${url}/${"y".repeat(10_000)}`);
    expect(entries.filter(({ message }) => message === "request served")).toHaveLength(2);
    expect(JSON.stringify(entries).length).toBeLessThan(1000);
  });

  it("is logged without its query", async () => {
    const url = await start();
    await post(`${url}/channels/sms/inbound?token=s3cret`);
    expect(entries).toContainEqual(
      expect.objectContaining({
        message: "request served",
        method: "POST",
        path: "/channels/sms/inbound",
        status: 200,
      }),
    );
    expect(JSON.stringify(entries)).not.toContain("s3cret");
  });
});

describe("health", () => {
  it("serves reasons and metrics on the admin listener, and on the public one only whether it works", async () => {
    const adminListen = { host: "127.0.0.1", port: 0 };
    const ready = async () => ({ ready: false, reason: "imap: login rejected" });
    const url = await start([], { adminListen, ready });
    const admin = listener.adminUrl ?? "";
    expect(new URL(admin).port).not.toBe(new URL(url).port);
    for (const base of [url, admin]) {
      expect(await (await fetch(`${base}/healthz`)).json()).toEqual({ status: "ok" });
      expect((await fetch(`${base}/readyz`)).status).toBe(503);
    }
    expect(await (await fetch(`${admin}/readyz`)).json()).toEqual({
      ready: false,
      reason: "imap: login rejected",
    });
    const metrics = await fetch(`${admin}/metrics`);
    expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4");
    expect(await metrics.text()).toBe("bridgehead_up 1\n");

    // A proxy on the same machine connects from loopback and passes on any Host it was sent.
    for (const headers of [{}, { host: "localhost" }, { host: new URL(admin).host, "x-forwarded-for": "127.0.0.1" }]) {
      const asked = raw(
        url,
        `GET /readyz HTTP/1.1\r\nConnection: close\r\n${Object.entries({ host: "x", ...headers })
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join("")}\r\n`,
      );
      const answer = await asked.answer;
      expect(answer).toContain("HTTP/1.1 503");
      expect(answer.split("\r\n\r\n")[1]).toContain('{"ready":false}');
      expect(answer).not.toContain("login");
    }
    for (const path of ["/metrics", "/metrics/", "//metrics", "/readyz/", "/%6detrics"])
      expect((await fetch(`${url}${path}`)).status, path).toBe(404);
    // Webhooks are for the public listener alone.
    expect((await post(`${admin}/channels/sms/inbound`)).status).toBe(404);
  });

  it("checks once for all requests of the public /readyz within a second", async () => {
    let looks = 0;
    const url = await start([], { ready: async () => ({ ready: (looks += 1) > 0 }) });
    await Promise.all(Array.from({ length: 20 }, () => fetch(`${url}/readyz`)));
    expect(looks).toBe(1);
  });

  it("releases both ports, and names the key of one that is in use", async () => {
    const url = await start([], { adminListen: { host: "127.0.0.1", port: 0 } });
    const taken = Number(new URL(listener.adminUrl ?? "").port);
    const first = listener;
    await expect(start([], { adminListen: { host: "127.0.0.1", port: taken } })).rejects.toThrow(
      `listening on 127.0.0.1:${taken} (http.admin_listen): `,
    );
    listener = first;
    await listener.close(0);
    const listen = { host: "127.0.0.1", port: Number(new URL(url).port) };
    expect(await start([], { listen, adminListen: { host: "127.0.0.1", port: taken } })).toBe(url);
  });

  it("answers 503 when not ready, and when that cannot be found out", async () => {
    let state = async (): Promise<{ ready: boolean }> => ({ ready: false });
    const url = await start([], { ready: () => state(), timing: { readyCache: 0 } });
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    state = () => Promise.reject(new Error("database is locked"));
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

describe("the listener", () => {
  it("logs no error for a client that disconnects within its body", async () => {
    const began = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const escalations = async (request: Request): Promise<Response> => {
      began.resolve();
      return new Response(await request.text().finally(() => ended.resolve()));
    };
    const url = await start([echo()], { escalations });
    const { socket } = raw(url, "POST /escalations/x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
    await began.promise;
    socket.destroy();
    await ended.promise;
    await expect.poll(() => entries.map(({ message }) => message)).toEqual(["request served"]);
  });

  it("keeps a place for the platform's webhooks", async () => {
    const url = await start([], { platform: async (request) => new Response(new URL(request.url).pathname) });
    expect(await (await post(`${url}/platform/support/events`)).text()).toBe("/platform/support/events");
    await listener.close(0);
    const without = await start();
    expect((await post(`${without}/platform/support/events`)).status).toBe(404);
  });

  it("while draining refuses webhooks, closes connections, and still says how it is", async () => {
    const url = await start();
    await listener.drain();
    const refused = await post(`${url}/channels/sms/inbound`);
    expect([refused.status, refused.headers.get("connection")]).toEqual([503, "close"]);
    const health = await fetch(`${url}/healthz`);
    expect([health.status, health.headers.get("connection")]).toEqual([200, "close"]);
  });

  it("says how it is to the check of a load balancer in HTTP/1.0, which needs no Host header", async () => {
    const url = await start();
    expect(await raw(url, "GET /healthz HTTP/1.0\r\n\r\n").answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(await raw(url, "GET /healthz HTTP/1.1\r\n\r\n").answer).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("lets a running request end before it closes, within the grace", async () => {
    let release = (): void => {};
    let entered = (): void => {};
    const inside = new Promise<void>((resolve) => (entered = resolve));
    const url = await start([
      echo({
        async handle() {
          entered();
          await new Promise<void>((resolve) => (release = resolve));
          return new Response("done");
        },
      }),
    ]);
    const answer = post(`${url}/channels/sms/inbound`);
    await inside;
    const closed = listener.close(10_000);
    release();
    expect(await (await answer).text()).toBe("done");
    await closed;
    await expect(fetch(url)).rejects.toThrow();
  });

  it("cuts a request that does not end within the grace", async () => {
    let entered = (): void => {};
    const inside = new Promise<void>((resolve) => (entered = resolve));
    const url = await start([
      echo({
        handle() {
          entered();
          return new Promise(() => {});
        },
      }),
    ]);
    const answer = post(`${url}/channels/sms/inbound`).then(
      () => "answered",
      () => "cut",
    );
    await inside;
    await listener.close(50);
    expect(await answer).toBe("cut");
  });

  it("bounds its wait: headers and bodies have limits", async () => {
    const url = await start([echo()], { timing: { headers: 200, request: 400 } });
    const head = "POST /channels/sms/inbound HTTP/1.1\r\nHost: h\r\n";
    const [slowHeaders, slowBody] = await Promise.all([
      raw(url, head).answer,
      raw(url, `${head}Content-Length: 10\r\n\r\nabc`).answer,
    ]);
    expect(slowHeaders).toMatch(/^HTTP\/1\.1 408/);
    expect(slowBody).toMatch(/^HTTP\/1\.1 408|^$/);
  });

  it("bounds the size of headers", async () => {
    const url = await start([echo()]);
    const head = "POST /channels/sms/inbound HTTP/1.1\r\nHost: h\r\n";
    const answer = await raw(url, `${head}X: ${"y".repeat(20_000)}\r\n\r\n`).answer;
    expect(answer).toMatch(/^HTTP\/1\.1 431/);
  });

  it("keeps an idle connection for longer than proxies do, whose next request would meet its end", async () => {
    const { socket } = raw(await start(), "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    const [head] = (await once(socket, "data")) as [Buffer];
    expect(head.toString()).toMatch(/^Keep-Alive: timeout=660\r$/m);
  });

  it("closes idle connections for a new one at the limit, and none that has a request", async () => {
    const release = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const handle = async (request: Request): Promise<Response> => {
      if ((await request.text()) !== "slow") return new Response("quick");
      entered.resolve();
      await release.promise;
      return new Response("slow");
    };
    const adminListen = { host: "127.0.0.1", port: 0 };
    const url = await start([echo({ handle })], { limits: { connections: 3 }, adminListen });
    const opened = (body: string) => {
      const head = `POST /channels/sms/inbound HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n`;
      const { socket, answer } = raw(url, head + body);
      return { socket, answer, answered: once(socket, "data") };
    };
    const slow = opened("slow");
    await entered.promise;
    const idle = [opened("first"), opened("second")];
    await Promise.all(idle.map(({ answered }) => answered));
    const fresh = opened("third");
    await fresh.answered;
    for (const { answer } of idle) expect(await answer).toContain("quick");
    release.resolve();
    await slow.answered;
    for (const { socket } of [slow, fresh]) socket.destroy();
    // The admin listener has a limit of 100.
    const scrape = () => raw(listener.adminUrl ?? "", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").socket;
    for (let n = 0; n < 101; n += 1) await once(scrape(), "data");
  });

  it("names the port that is in use", async () => {
    const url = await start();
    const port = Number(new URL(url).port);
    const second = startTestListener({ listen: { host: "127.0.0.1", port } });
    await expect(second).rejects.toThrow(
      `listening on 127.0.0.1:${port} (http.listen): listen EADDRINUSE: address already in use 127.0.0.1:${port} (end the other program (ss -ltnp 'sport = :${port}'), or choose another port)`,
    );
    const elsewhere = startTestListener({ listen: { host: "192.0.2.1", port: 0 } });
    await expect(elsewhere).rejects.toThrow("(use an address of this machine)");
  });

  it("survives nonsense", async () => {
    const url = await start();
    const lines = [
      "GET http://[bad HTTP/1.1",
      "GET /%ff%00 HTTP/1.1",
      "GET // HTTP/1.1",
      "\u0000\u0001",
      "POST /channels/%2e%2e/x HTTP/1.1",
    ];
    await Promise.all(lines.map((line) => raw(url, `${line}\r\nHost: \u0007:x\r\nConnection: close\r\n\r\n`).answer));
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});
