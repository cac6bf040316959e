// The sandbox's Twilio, used by Twilio's own client and verified by its own signature check.

import { createServer, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import twilio from "twilio";
import { expect, it, type TestContext } from "vitest";
import { SmsApi, type SmsApiOptions } from "../../src/sandbox/sms-api.ts";
import { serve } from "../support/machine/network.ts";

const account = "AC00000000000000000000000000000001";
const number = "+15550100100";
const person = "+15550100200";

type Finished = TestContext["onTestFinished"];

async function open(finished: Finished, more: Partial<SmsApiOptions> = {}) {
  const api = await SmsApi.start({ accountSid: account, authToken: "token", number, ...more });
  finished(() => api.close());
  const client = twilio(account, "token", { timeout: 60_000 });
  client.api.baseUrl = api.url;
  const text = (body: string, to = person) =>
    client.messages.create({ to, from: number, body, statusCallback: "http://127.0.0.1:1/status" });
  return { api, client, text };
}

interface Seen {
  readonly path: string;
  readonly form: Record<string, string>;
  readonly proven: boolean;
}

/** A bridge that answers with these statuses in order, and repeats the last one. */
async function bridge(finished: Finished, statuses: number[] = [200], body = "<Response/>") {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    void formOf(request).then((form) => {
      const signature = String(request.headers["x-twilio-signature"]);
      const proven = twilio.validateRequest("token", signature, url + request.url, form);
      seen.push({ path: request.url ?? "", form, proven });
      response.writeHead(statuses[seen.length - 1] ?? statuses.at(-1) ?? 200).end(body);
    });
  });
  const url = await serve(server, finished);
  return { url, seen };
}

const formOf = async (request: IncomingMessage): Promise<Record<string, string>> =>
  Object.fromEntries(new URLSearchParams(await text(request)));

const codeOf = (sending: Promise<unknown>): Promise<unknown> =>
  sending.then(
    () => null,
    (error: { code?: unknown }) => error.code,
  );

it("accepts a text and shows it", async ({ onTestFinished }) => {
  const { api, client, text } = await open(onTestFinished);
  const made = await text("Hello");
  expect(made).toMatchObject({ status: "queued", direction: "outbound-api", body: "Hello", to: person });
  expect((await client.messages(made.sid).fetch()).sid).toBe(made.sid);
  expect(api.creates).toMatchObject([{ sid: made.sid, status: 201, form: { Body: "Hello", To: person } }]);
});

it("rejects requests without the account's token", async ({ onTestFinished }) => {
  const { api } = await open(onTestFinished, { apiKey: { sid: "SK1", secret: "key" } });
  const stranger = twilio(account, "guess");
  stranger.api.baseUrl = api.url;
  const failed = await stranger.messages.list().catch((error: unknown) => error);
  expect(failed).toMatchObject({ status: 401, code: 20003 });
  const keyed = twilio("SK1", "key", { accountSid: account });
  keyed.api.baseUrl = api.url;
  expect(await keyed.messages.list()).toEqual([]);
});

it.each([
  ["an address that is none", { to: "someone", from: number, body: "x" }, 21211],
  ["nothing to say", { to: person, from: number, body: "" }, 21602],
  ["nobody who says it", { to: person, body: "x" }, 21603],
  ["too long a text", { to: person, from: number, body: "x".repeat(1601) }, 21617],
  ["a callback that is no address", { to: person, from: number, body: "x", statusCallback: "here" }, 21609],
])("refuses %s", async (_what, form, code) => {
  await using at = await disposable();
  expect(await codeOf(at.client.messages.create(form))).toBe(code);
  expect(at.api.sent).toEqual([]);
});

async function disposable() {
  const undo: (() => unknown)[] = [];
  const at = await open((done) => void undo.push(done as () => unknown));
  return { ...at, [Symbol.asyncDispose]: async () => void (await Promise.all(undo.map((one) => one()))) };
}

it("fails as configured, and by number", async ({ onTestFinished }) => {
  const { api, text } = await open(onTestFinished);
  expect(await codeOf(text("x", "+19992161400"))).toBe(21614);
  api.fault({ code: 21610 }, { to: person });
  expect(await codeOf(text("x"))).toBe(21610);
  api.heal();
  api.fault({ code: 20429, retryAfter: 7 }, { times: 1 });
  expect(await codeOf(text("x"))).toBe(20429);
  api.fault("cut-unread", { times: 1 });
  expect(await codeOf(text("x"))).toMatch(/ECONN/);
  expect(api.sent, "nothing of that was taken").toEqual([]);
  api.fault("cut-stored", { times: 1 });
  expect(await codeOf(text("x"))).toMatch(/ECONN/);
  expect(api.sent).toHaveLength(1);
  expect(await codeOf(text("y"))).toBe(null);
  api.fault({ status: 500 }, { times: 1 });
  await expect(text("z")).rejects.toThrow();
  await api.down();
  expect(await codeOf(text("z"))).toMatch(/ECONN/);
  await api.up();
  expect(await codeOf(text("z"))).toBe(null);
});

it("lists by number and day, page by page, newest first", async ({ onTestFinished }) => {
  let now = Date.parse("2026-03-01T23:59:58Z");
  const clock = { now: () => now, monotonic: () => now, sleep: async () => undefined };
  const { api, client, text } = await open(onTestFinished, { clock });
  for (const body of ["1", "2", "3"]) {
    await text(body);
    now += 1000;
  }
  await text("other", "+15550100201");
  await api.receive({ from: person, body: "in", webhook: false });
  const bodies = async (filter: Parameters<typeof client.messages.list>[0]) =>
    (await client.messages.list(filter)).map(({ body }) => body);
  expect(await bodies({ to: person, pageSize: 2 })).toEqual(["3", "2", "1"]);
  expect(await bodies({ to: number, from: person })).toEqual(["in"]);
  const midnight = new Date("2026-03-02T00:00:00Z");
  expect(await bodies({ to: person, dateSentAfter: midnight })).toEqual(["3"]);
  expect(await bodies({ to: person, dateSentBefore: new Date("2026-03-01T23:59:58Z") })).toEqual(["1"]);
  expect(await bodies({ to: person, dateSentBefore: midnight, limit: 2, pageSize: 1 })).toEqual(["3", "2"]);
});

it("reports a person's text with a signature that Twilio's check accepts", async ({ onTestFinished }) => {
  const { url, seen } = await bridge(onTestFinished);
  const { api } = await open(onTestFinished, { webhooks: { inbound: `${url}/inbound?a=b#rc=2` } });
  const { message, tries } = await api.receive({ from: person, body: "", more: { OptOutType: "STOP" } });
  expect(tries).toMatchObject([{ status: 200, body: "<Response/>" }]);
  await api.repeat(message);
  expect(seen).toHaveLength(2);
  expect(seen[0]).toMatchObject({
    path: "/inbound?a=b",
    proven: true,
    form: { MessageSid: message.sid, From: person, To: number, Body: "", OptOutType: "STOP" },
  });
  expect(seen[1]).toEqual(seen[0]);
});

it.each([
  ["repeats what the fragment asks for", "#rc=3&rp=5xx", [500, 503, 200], ["/in", "/in", "/in"]],
  ["repeats no answer that the fragment does not name", "#rc=3&rp=ct", [500], ["/in", "/late"]],
  ["asks the fallback when all tries failed", "#rc=1&rp=all", [500, 500, 200], ["/in", "/in", "/late"]],
])("%s", async (_what, fragment, statuses, paths) => {
  const undo: (() => unknown)[] = [];
  const finished = ((done: () => unknown) => void undo.push(done)) as Finished;
  const { url, seen } = await bridge(finished, statuses);
  const webhooks = { inbound: `${url}/in${fragment}`, fallback: `${url}/late` };
  const { api } = await open(finished, { webhooks });
  await api.receive({ from: person, body: "Hello" });
  expect(seen.map(({ path }) => path)).toEqual(paths);
  expect(seen.every(({ proven }) => proven)).toBe(true);
  if (paths.includes("/late")) expect(seen.at(-1)?.form["ErrorCode"]).toBe("11200");
  await Promise.all(undo.map((one) => one()));
});

it("sends what a webhook's answer says, as the provider would", async ({ onTestFinished }) => {
  const { url } = await bridge(onTestFinished, [200], "<Response><Message>Oops</Message></Response>");
  const { api } = await open(onTestFinished, { webhooks: { inbound: url } });
  await api.receive({ from: person, body: "Hello" });
  expect(api.sent).toMatchObject([{ direction: "outbound-reply", to: person, body: "Oops" }]);
});

it("reports the status and the error of a text", async ({ onTestFinished }) => {
  const { url, seen } = await bridge(onTestFinished);
  const { api, client } = await open(onTestFinished);
  const statusCallback = `${url}/status?draft=d1`;
  const send = (to: string) => client.messages.create({ to, from: number, body: "x", statusCallback });
  const good = await send(person);
  const bad = await send("+19993000300");
  await api.until(({ callbacks }) => callbacks.length === 4);
  const told = (sid: string) =>
    seen.filter(({ form }) => form["MessageSid"] === sid).map(({ form }) => [form["MessageStatus"], form["ErrorCode"]]);
  expect(told(good.sid)).toEqual([
    ["sent", undefined],
    ["delivered", undefined],
  ]);
  expect(told(bad.sid)).toEqual([
    ["sent", undefined],
    ["undelivered", "30003"],
  ]);
  expect(seen.every(({ proven, path }) => proven && path === "/status?draft=d1")).toBe(true);
});

it("gives media to the account alone, from a place that wants no credentials", async ({ onTestFinished }) => {
  const { url, seen } = await bridge(onTestFinished);
  const { api } = await open(onTestFinished, { webhooks: { inbound: url } });
  const bytes = Buffer.from("picture");
  await api.receive({ from: person, body: "", media: [{ type: "image/png", bytes }] });
  const address = seen[0]?.form["MediaUrl0"] ?? "";
  expect(address.startsWith(api.url)).toBe(true);
  expect((await fetch(address)).status).toBe(401);
  const authorization = `Basic ${Buffer.from(`${account}:token`).toString("base64")}`;
  const moved = await fetch(address, { headers: { authorization }, redirect: "manual" });
  const location = moved.headers.get("location") ?? "";
  expect(new URL(location).origin).not.toBe(api.url);
  expect((await fetch(location, { headers: { authorization } })).status).toBe(400);
  const fetched = await fetch(location);
  expect(fetched.headers.get("content-type")).toBe("image/png");
  expect(Buffer.from(await fetched.arrayBuffer())).toEqual(bytes);
  expect(api.fetched.map((one) => one.authorization)).toEqual([true, false]);
});

it("accepts and lists calls", async ({ onTestFinished }) => {
  const { api, client } = await open(onTestFinished);
  const made = await client.calls.create({ to: person, from: number, url: "http://127.0.0.1:1/call" });
  expect(api.calls).toMatchObject([{ sid: made.sid, to: person, url: "http://127.0.0.1:1/call" }]);
  expect((await client.calls.list({ to: person })).map(({ sid }) => sid)).toEqual([made.sid]);
  expect(await client.calls.list({ to: number })).toEqual([]);
});

it("names the missing event on timeout", async ({ onTestFinished }) => {
  const { api } = await open(onTestFinished);
  const found: Promise<SmsApi["sent"]> = api.until(({ sent }) => (sent.length > 0 ? sent : null), 50);
  await expect(found).rejects.toThrow("within 50 ms");
});
