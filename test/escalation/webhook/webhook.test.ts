// Deliveries to real receivers: what they get, and what becomes of it.

import type { Clock } from "bridgehead/contract";
import { Webhook } from "standardwebhooks";
import { describe, expect, it, onTestFinished } from "vitest";
import { webhookHeaders } from "../../../src/escalation/webhook/recipients.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import {
  lineWith,
  openBench,
  opened,
  personAt,
  policyWith,
  type Receiver,
  startReceiver,
  status,
} from "../../support/escalation/policy.ts";
import { freePort } from "../../support/machine/network.ts";

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<Receiver> {
  const started = await startReceiver(options);
  onTestFinished(() => started.close());
  return started;
}

describe("a delivery", () => {
  it("is a signed post that another's implementation verifies, with the configured headers", async () => {
    const hook = await receiver();
    const people = [personAt(hook.url, { secret, headers: { "X-Key": "letmein", "User-Agent": "us" } })];
    const bench = openBench(hook.url, { people });
    const text = JSON.stringify({ type: "escalation.opened", data: { text: "Grüße, 漢字 🎈" } });
    const { outcome, crossed } = await bench.send(text);
    expect(outcome).toEqual({ kind: "sent", id: "k0000000000000000001", detail: "204" });
    expect(crossed).toBe(true);
    const [got] = hook.got;
    expect(got).toMatchObject({
      method: "POST",
      path: "/hook",
      text,
      headers: {
        host: `127.0.0.1:${hook.port}`,
        "content-type": "application/json",
        "user-agent": "us",
        "x-key": "letmein",
        "webhook-id": "k0000000000000000001",
      },
    });
    const headers = got?.headers as Record<string, string>;
    expect(new Webhook(secret).verify(text, headers)).toEqual(JSON.parse(text));
    expect(() => new Webhook(other).verify(text, headers)).toThrow("No matching signature");
    expect(() => new Webhook(secret).verify(`${text} `, headers)).toThrow("No matching signature");
  });

  it("has the same id on every try, and its own time", async () => {
    const hook = await receiver();
    hook.answer(status(503));
    let now = 1_700_000_000_000;
    const clock: Clock = { ...systemClock, now: () => (now += 60_000) };
    const bench = openBench(hook.url, { people: [personAt(hook.url, { secret })], clock });
    for (const number of [1, 2, 3]) await bench.send(opened, { number });
    const of = (name: string) => hook.got.map(({ headers }) => headers[name]);
    expect(new Set(of("webhook-id"))).toEqual(new Set(["k0000000000000000001"]));
    expect(new Set(of("webhook-timestamp")).size).toBe(3);
    expect(new Set(of("webhook-signature")).size).toBe(3);
  });

  it("is signed as the specification's own example is", () => {
    const signed = webhookHeaders(
      "msg_p5jXN8AQM9LWM0D4loKWxJek",
      1_614_265_330_000,
      '{"test": 2432232314}',
      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    );
    expect(signed["webhook-signature"]).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  it("is not signed without a secret, and has of the agent's recipient what is theirs to set", async () => {
    const hook = await receiver();
    const headers = {
      Authorization: "Bearer theirs",
      Host: "evil.example",
      "Content-Type": "text/html",
      "Webhook-Id": "forged",
      "Transfer-Encoding": "chunked",
      "X-Bad": "a\r\nX-Injected: yes",
      "Not a name": "x",
    };
    const bench = openBench(hook.url, {
      people: [],
      lines: [lineWith([{ channel: "webhook", value: hook.url, headers }])],
    });
    expect((await bench.send(opened)).outcome).toMatchObject({ kind: "sent" });
    const got = hook.got[0]?.headers ?? {};
    expect(got).toMatchObject({
      authorization: "Bearer theirs",
      host: `127.0.0.1:${hook.port}`,
      "content-type": "application/json",
      "webhook-id": "k0000000000000000001",
    });
    for (const name of ["webhook-signature", "x-bad", "x-injected", "transfer-encoding"])
      expect(got).not.toHaveProperty(name);
  });

  it("uses the current secrets: none is in the draft", async () => {
    const hook = await receiver();
    let people = [personAt(hook.url, { secret, headers: { "X-Key": "old-key" } })];
    const bench = openBench(hook.url, { policy: () => policyWith(people, ["127.0.0.1"]) });
    const stored = JSON.stringify(bench.drafts(opened));
    expect(stored).not.toMatch(/whsec|old-key/);
    people = [personAt(hook.url, { secret: other, headers: { "X-Key": "new-key" } })];
    await bench.send(opened);
    const headers = hook.got[0]?.headers as Record<string, string>;
    expect(headers["x-key"]).toBe("new-key");
    expect(new Webhook(other).verify(opened, headers)).toBeTruthy();
  });

  it("reaches no recipient that is no longer configured", async () => {
    const hook = await receiver();
    const skill = lineWith([{ channel: "email", value: hook.url }]);
    for (const options of [{ policy: () => null }, { people: [] }, { people: [], lines: [skill] }])
      expect(await openBench(hook.url, options).send(opened)).toMatchObject({
        outcome: { kind: "refused", code: "not-a-recipient" },
        crossed: false,
      });
    const unread = openBench(hook.url, { people: [], lines: [skill, lineWith(null)] });
    expect(await unread.send(opened)).toMatchObject({ outcome: { kind: "deferred" }, crossed: false });
    expect(hook.got).toEqual([]);
  });
});

const hours = 3_600_000;

describe("the answer's status", () => {
  it.each([
    [200, { kind: "sent" }],
    [202, { kind: "sent" }],
    [301, { kind: "refused", code: "redirect" }],
    [304, { kind: "refused", code: "redirect" }],
    [400, { kind: "refused", code: "http-400" }],
    [401, { kind: "refused", code: "http-401" }],
    [404, { kind: "refused", code: "http-404" }],
    [408, { kind: "deferred" }],
    [410, { kind: "refused", code: "gone", scope: "recipient" }],
    [422, { kind: "refused", code: "http-422" }],
    [425, { kind: "deferred" }],
    [429, { kind: "deferred" }],
    [500, { kind: "deferred" }],
    [503, { kind: "deferred" }],
    [599, { kind: "deferred" }],
  ])("%i", async (code, outcome) => {
    const hook = await receiver();
    hook.answer(status(code));
    expect(await openBench(hook.url).send(opened)).toMatchObject({ outcome, crossed: true });
    expect(hook.got).toHaveLength(1);
  });

  it.each([
    [1, 5000],
    [2, 300_000],
    [3, 1_800_000],
    [4, 2 * hours],
    [5, 5 * hours],
    [6, 10 * hours],
    [7, 14 * hours],
    [8, 20 * hours],
    [9, 24 * hours],
    [10, 24 * hours],
    [99, 24 * hours],
  ])("after the %ith try the next one waits %i ms", async (number, retryAfterMs) => {
    const hook = await receiver();
    hook.answer(status(500));
    expect((await openBench(hook.url).send(opened, { number })).outcome).toMatchObject({ retryAfterMs });
  });

  const now = Date.parse("2026-07-08T10:00:00Z");
  it.each([
    ["120", 120_000],
    ["1", 5000],
    ["Wed, 08 Jul 2026 10:10:00 GMT", 600_000],
    ["Wed, 08 Jul 2026 09:00:00 GMT", 5000],
    ["999999999999", 24 * hours],
    ["-5", 5000],
    ["soon", 5000],
  ])("Retry-After: %s", async (value, retryAfterMs) => {
    const hook = await receiver();
    hook.answer(status(503, { "retry-after": value }));
    const bench = openBench(hook.url, { clock: { ...systemClock, now: () => now } });
    expect((await bench.send(opened)).outcome).toMatchObject({ kind: "deferred", retryAfterMs });
  });
});

describe("without an answer", () => {
  it("a refused connection: deferred, certainly not sent", async () => {
    const url = `http://127.0.0.1:${await freePort()}/`;
    expect(await openBench(url).send(opened)).toMatchObject({
      outcome: { kind: "deferred", retryAfterMs: 5000, reason: expect.stringContaining("no connection") },
      crossed: false,
    });
  });

  it("a name that is not known: not yet", async () => {
    const resolve = async () => {
      throw new Error("ENOTFOUND");
    };
    const sent = await openBench("https://hooks.example/", { resolve }).send(opened);
    expect(sent).toMatchObject({ outcome: { kind: "deferred" }, crossed: false });
  });

  it("no response after the request: unknown", async () => {
    const hook = await receiver();
    hook.answer(() => undefined);
    const sent = await openBench(hook.url, { timing: { answer: 50 } }).send(opened);
    expect(sent).toMatchObject({ outcome: { kind: "unknown" }, crossed: true });
  });

  it("a shutdown during the wait: unknown", async () => {
    const hook = await receiver();
    const down = new AbortController();
    hook.answer(() => down.abort());
    const sent = await openBench(hook.url).send(opened, { signal: down.signal });
    expect(sent).toMatchObject({ outcome: { kind: "unknown" }, crossed: true });
    expect(hook.got).toHaveLength(1);
  });

  it.each([
    ["the line is cut", (socket: { destroy(): void }) => socket.destroy()],
    ["it is no HTTP", (socket: { end(text: string): void }) => socket.end("SSH-2.0-OpenSSH_9\r\n\r\n")],
    ["it breaks off in the head", (socket: { end(text: string): void }) => socket.end("HTTP/1.1 200 OK\r\ncontent-")],
  ])("%s: the outcome is unknown", async (_what, fault) => {
    const hook = await receiver();
    hook.answer((response) => response.socket && fault(response.socket));
    expect(await openBench(hook.url).send(opened)).toMatchObject({
      outcome: { kind: "unknown" },
      crossed: true,
    });
  });

  it("a connection that is lost while the attempt is being recorded has carried nothing", async () => {
    const hook = await receiver();
    const connections = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
    const crossing = async () => {
      const before = connections();
      await hook.reset();
      // Both ends of it are in this process.
      await expect.poll(connections, { interval: 1 }).toBe(before - 2);
    };
    const { outcome } = await openBench(hook.url).send(opened, { crossing });
    expect([outcome, hook.got]).toMatchObject([{ kind: "deferred" }, []]);
  });

  it("what must not go out does not, although the line stands", async () => {
    const hook = await receiver();
    const crossing = () => Promise.reject(new Error("the lease is over"));
    const { outcome, crossed } = await openBench(hook.url).send(opened, { crossing });
    expect(outcome).toMatchObject({ message: "the lease is over" });
    expect(crossed).toBe(false);
    expect(hook.got).toEqual([]);
  });
});
