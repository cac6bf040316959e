// Every way a text can end at the provider, against the sandbox's interface: certain or not, and whom it concerns.

import { createServer } from "node:http";
import { sendKey } from "bridgehead/contract";
import { noFiles, recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import { serve } from "../../../support/machine/network.ts";
import {
  attempt,
  type Fields,
  openTwilio,
  ours,
  person,
  replyTo,
  type Settings,
  sendText,
  signed,
  startApi,
  statusForm,
  token,
} from "../../../support/sms/providers.ts";

let api: SmsApi;
beforeAll(async () => {
  api = await startApi({ apiKey: { sid: "SK1", secret: "key-secret" } });
});
afterEach(() => api.heal());
afterAll(() => api.close());

const channelAt = (publicUrl: string) => recordingChannel({ publicUrl });
const lastCreate = () => api.creates.at(-1)?.form ?? {};

describe("a text that is taken", () => {
  it("is sent under the provider's sid, with our key in the callback and a limit to its life", async () => {
    const { outcome, crossed } = await sendText(openTwilio(api.url), person, "It is here.");
    expect([outcome, crossed]).toEqual([
      { kind: "sent", id: api.sent.at(-1)?.sid, detail: "201 queued; 1 segment (GSM-7)" },
      true,
    ]);
    expect(lastCreate()).toEqual({
      To: person,
      From: ours,
      Body: "It is here.",
      ValidityPeriod: "14400",
      StatusCallback: "https://bridge.example/channels/test-channel/status?draft=01hzx7key#rc=3&rp=ct,rt,5xx&rt=4000",
    });
  });

  it.each([
    ["a".repeat(160), "1 segment (GSM-7)"],
    ["a".repeat(161), "2 segments (GSM-7)"],
    ["ж".repeat(70), "1 segment (UCS-2)"],
    ["ж".repeat(71), "2 segments (UCS-2)"],
  ])("tells what it takes (%#)", async (text, detail) => {
    const { outcome } = await sendText(openTwilio(api.url), person, text);
    expect(outcome).toMatchObject({ kind: "sent", detail: `201 queued; ${detail}` });
  });

  it.each<[string, Settings, Record<string, string | undefined>]>([
    ["a service", { messaging_service: "MG1" }, { MessagingServiceSid: "MG1", From: ours }],
    ["a service that chooses the number", { messaging_service: "MG1", number: undefined }, { From: undefined }],
    ["another validity", { validity: "10m" }, { ValidityPeriod: "600" }],
    ["no callback", { status_callback: false }, { StatusCallback: undefined }],
    ["WhatsApp", { number: "whatsapp:+1 555 0100" }, { From: "whatsapp:+15550100" }],
    ["WhatsApp with the number of both", { own_numbers: ["whatsapp:" + ours] }, { From: "whatsapp:+15550100" }],
  ])("goes through %s", async (what, more, fields) => {
    const to = what.startsWith("WhatsApp") ? `whatsapp:${person}` : person;
    const { outcome } = await sendText(openTwilio(api.url, more), to, "Hello.");
    expect(outcome.kind).toBe("sent");
    const form: Record<string, string | undefined> = {
      From: undefined,
      StatusCallback: undefined,
      ...lastCreate(),
    };
    expect(form).toMatchObject({ ...fields, To: to });
  });

  it.each([
    ["+15550300", "+15550177"],
    ["whatsapp:+15550300", "whatsapp:+15550177"],
    ["rcs:brand_agent", "rcs:+15550177"],
    ["messenger:1029384756", "messenger:5647382910"],
  ])("goes out from %s when the person wrote there", async (from, to) => {
    const { adapter } = openTwilio(api.url, { messaging_service: "MG1", country: "US" });
    const [draft] = adapter.outbound?.compose(replyTo(to, "Hello.", { from })) ?? [];
    const outcome = draft === undefined ? null : await adapter.outbound?.send(draft, attempt());
    expect(outcome?.kind).toBe("sent");
    expect(lastCreate()).toMatchObject({ From: from, To: to, MessagingServiceSid: "MG1" });
  });

  it("names no callback that a provider elsewhere could not reach", async () => {
    const channel = channelAt("http://127.0.0.1:8025/channels/test-channel");
    await sendText(openTwilio(api.url, {}, channel), person, "Both are here.");
    expect(lastCreate()["StatusCallback"]).toContain("http://127.0.0.1:8025/");
    const elsewhere = openTwilio("https://api.twilio.example", {}, channelAt("http://127.0.0.1:8025/channels/x"));
    expect((await elsewhere.adapter.probe?.(AbortSignal.timeout(60_000)))?.state).toBe("degraded");
  });

  it("authenticates with an API key if configured, and with either token during a rotation", async () => {
    const key = { api_key: { sid: "SK1", secret: "key-secret" }, auth_tokens: ["for signatures only"] };
    expect((await sendText(openTwilio(api.url, key), person, "By key.")).outcome.kind).toBe("sent");
    const rotating = openTwilio(api.url, { auth_tokens: ["not valid yet", token] });
    expect((await sendText(rotating, person, "By the second token.")).outcome.kind).toBe("sent");
    expect((await sendText(rotating, person, "And again.")).outcome.kind).toBe("sent");
    expect(api.sent.filter(({ body }) => body === "By the second token.").length).toBe(1);
  });

  it("is one of several parts, numbered and in order; each has a draft of its own", async () => {
    const { adapter } = openTwilio(api.url, { split: { target: 60 } });
    const words = "This sentence is one of several in a long answer. ".repeat(4);
    const drafts = adapter.outbound?.compose(replyTo(person, words, { signature: "Anna" })) ?? [];
    expect(drafts.length).toBeGreaterThan(2);
    for (const [at, draft] of drafts.entries()) {
      expect(draft).toMatchObject({ part: at + 1, parts: drafts.length, to: person });
      const outcome = await adapter.outbound?.send(draft, attempt(`01hzx7keyp${at}`));
      expect(outcome?.kind).toBe("sent");
    }
    const bodies = api.sent.slice(-drafts.length).map(({ body }) => body);
    expect(bodies.map((body) => /^\((\d+)\/\d+\)/.exec(body)?.[1])).toEqual(drafts.map((_, at) => String(at + 1)));
    expect(bodies.filter((body) => body.includes("Anna")).length).toBe(1);
    expect(bodies.at(-1)).toMatch(/Anna$/);
  });

  it("carries pictures only when configured, with the last part", async () => {
    const text = "Here: ![the plan](https://files.example/plan.png) and ![x](http://files.example/x.png)";
    await sendText(openTwilio(api.url), person, text);
    expect(api.creates.at(-1)?.media).toEqual([]);
    expect(lastCreate()["Body"]).toContain("the plan (https://files.example/plan.png)");
    await sendText(openTwilio(api.url, { media: { send: true } }), person, text);
    expect(api.creates.at(-1)?.media).toEqual(["https://files.example/plan.png"]);
    expect(lastCreate()["Body"]).toContain("the plan and x (http://files.example/x.png)");
    expect(lastCreate()["Body"]).not.toContain("plan.png");
  });
});

describe("a text that is refused", () => {
  const service = { messaging_service: "MG1", number: undefined };
  it.each([
    ["from a number that may not send", {}, "30034", { scope: "sender", cause: "set-up" }],
    ["from a messaging service that selects such a number", service, "30034", { scope: "sender", cause: "set-up" }],
    ["from a toll-free number that was not verified", {}, "30032", { scope: "sender", cause: "set-up" }],
    ["at the rate limit of a carrier", {}, "30022", { scope: "sender", cause: "rate" }],
    ["at the daily limit of the account", {}, "63038", { scope: "channel", cause: "rate" }],
  ])("after it was accepted, %s: the next one waits until a text is sent", async (_, settings, ErrorCode, waits) => {
    const here = openTwilio(api.url, settings);
    const status = (sid: string, name: string, more: Fields) =>
      here.post(
        "/status",
        signed(
          "https://bridge.example/channels/test-channel/status",
          statusForm(sid, name, { MessagingServiceSid: "MG1", ...more }),
        ),
      );
    expect((await sendText(here, person, "One.")).outcome.kind).toBe("sent");
    await status("SM1", "undelivered", { ErrorCode });
    expect((await sendText(here, person, "Two.")).outcome).toMatchObject({ kind: "deferred", ...waits });
    await status("SM2", "sent", {});
    expect((await sendText(here, person, "Three.")).outcome.kind).toBe("sent");
  });

  const minutes = 60_000;
  it.each<[number, object]>([
    [21211, { kind: "refused", code: "21211", scope: "recipient" }],
    [21614, { kind: "refused", code: "21614", scope: "recipient" }],
    [21635, { kind: "refused", code: "21635", scope: "recipient" }],
    [30006, { kind: "refused", code: "30006", scope: "recipient" }],
    [21610, { kind: "refused", code: "opted-out", scope: "recipient" }],
    [21606, { kind: "deferred", scope: "sender", cause: "set-up" }],
    [20404, { kind: "deferred", scope: "channel", cause: "set-up" }],
    [21609, { kind: "deferred", scope: "channel", cause: "set-up" }],
    [30034, { kind: "deferred", scope: "sender", cause: "set-up" }],
    [63007, { kind: "deferred", scope: "sender", cause: "set-up" }],
    [30002, { kind: "deferred", scope: "channel", cause: "set-up" }],
    [63024, { kind: "refused", code: "63024", scope: "recipient" }],
    [20003, { kind: "deferred", scope: "channel", cause: "login" }],
    [21612, { kind: "deferred", scope: "recipient", retryAfterMs: 60 * minutes }],
    [21408, { kind: "deferred", scope: "recipient", retryAfterMs: 60 * minutes }],
    [21605, { kind: "deferred", scope: "recipient", retryAfterMs: 60 * minutes }],
    [30007, { kind: "refused", code: "30007" }],
    [21617, { kind: "refused", code: "21617" }],
    [30450, { kind: "refused", code: "30450" }],
    [30610, { kind: "refused", code: "30610" }],
    [30640, { kind: "refused", code: "30640" }],
    [63016, { kind: "refused", code: "window-closed" }],
    [63003, { kind: "refused", code: "window-closed" }],
    [20429, { kind: "deferred", scope: "channel", cause: "rate" }],
    [21611, { kind: "deferred", scope: "sender", cause: "rate" }],
    [63017, { kind: "deferred", scope: "sender", cause: "rate" }],
    [63018, { kind: "deferred", scope: "sender", cause: "rate" }],
    [30001, { kind: "deferred", retryAfterMs: 2 * minutes }],
    [30003, { kind: "deferred", retryAfterMs: 2 * minutes }],
    [30008, { kind: "deferred", retryAfterMs: 2 * minutes }],
    [30036, { kind: "refused", code: "30036" }],
    [20500, { kind: "unknown" }],
    [29999, { kind: "refused", code: "29999" }],
  ])("with code %i", async (code, expected) => {
    api.fault({ code });
    const before = api.sent.length;
    const { outcome, crossed } = await sendText(openTwilio(api.url), person, `Refused with ${code}.`);
    expect(outcome).toMatchObject(expected);
    expect("scope" in outcome ? outcome.scope : undefined).toBe((expected as { scope?: string }).scope);
    expect(outcome.kind === "sent" ? "" : outcome.reason).toMatch(new RegExp(`^${code}: `));
    expect([crossed, api.sent.length]).toEqual([true, before]);
  });

  it.each<[number, object]>([
    [400, { kind: "refused", code: "400" }],
    [404, { kind: "refused", code: "404" }],
    [401, { kind: "deferred", scope: "channel" }],
    [408, { kind: "unknown" }],
    [429, { kind: "deferred", scope: "channel" }],
    [500, { kind: "unknown" }],
    [502, { kind: "unknown" }],
    [503, { kind: "unknown" }],
    [302, { kind: "unknown" }],
  ])("with HTTP status %i and no body to read", async (status, expected) => {
    api.fault({ status });
    expect((await sendText(openTwilio(api.url), person, `Status ${status}.`)).outcome).toMatchObject(expected);
  });

  it("for now, waits for Retry-After", async () => {
    api.fault({ code: 20429, status: 429, retryAfter: 7 });
    expect((await sendText(openTwilio(api.url), person, "Too much.")).outcome).toMatchObject({
      retryAfterMs: 7000,
    });
    api.heal();
    api.fault({ status: 429, retryAfter: 86_400 });
    expect((await sendText(openTwilio(api.url), person, "Too much.")).outcome).toMatchObject({
      retryAfterMs: 3_600_000,
    });
  });

  it.each([
    [{ code: 20003, status: 401 }, "unauthorized"],
    [{ code: 21606 }, "degraded"],
    [{ code: 30002 }, "degraded"],
    [{ code: 21408 }, "degraded"],
  ])("for our account's sake shows in the channel's health, until a text goes out", async (fault, state) => {
    const here = openTwilio(api.url);
    api.fault(fault);
    await sendText(here, person, "Not taken.");
    expect(here.channel.statuses.at(-1)).toMatchObject({ state, code: String(fault.code) });
    api.heal();
    await sendText(here, person, "Taken.");
    expect(here.channel.statuses.at(-1)?.state).toBe("ready");
  });

  it("for a reason in the recipient or the text does not", async () => {
    const here = openTwilio(api.url);
    for (const code of [21614, 21610, 30007, 63016, 20429]) {
      api.heal();
      api.fault({ code });
      await sendText(here, person, `Code ${code}.`);
    }
    expect(here.channel.statuses).toEqual([]);
  });

  it("is reported without the number it is about", async () => {
    const body = {
      code: 21614,
      message: "'To' number +1 (555) 017-7123 is not a valid mobile number",
      status: 400,
    };
    const server = createServer((_request, response) => response.writeHead(400).end(JSON.stringify(body)));
    const { outcome } = await sendText(openTwilio(await serve(server)), person, "x");
    const reason = "21614: 'To' number <number> is not a valid mobile number";
    expect(outcome).toEqual({ kind: "refused", code: "21614", reason, scope: "recipient" });
  });

  it("is read in the newer form of errors, too", async () => {
    const body = { type: "about:blank", title: "Too Many", status: 429, code: 20429, detail: "slow down" };
    const server = createServer((_request, response) => response.writeHead(429).end(JSON.stringify(body)));
    const { outcome } = await sendText(openTwilio(await serve(server)), person, "x");
    expect(outcome).toMatchObject({
      kind: "deferred",
      cause: "rate",
      reason: "20429: slow down",
      scope: "channel",
    });
  });
});

describe("a text without an answer", () => {
  it("is unknown once the request may have left, and is not sent again", async () => {
    for (const fault of ["cut", "cut-stored"] as const) {
      api.heal();
      api.fault(fault);
      const before = api.creates.length;
      const { outcome, crossed } = await sendText(openTwilio(api.url), person, `Without an answer: ${fault}.`);
      expect([outcome.kind, crossed]).toEqual(["unknown", true]);
      expect(api.creates.length).toBe(before + 1);
    }
  });

  it("is unknown when the deadline comes first", async () => {
    api.fault("hang");
    const { outcome } = await sendText(openTwilio(api.url), person, "Hanging.", attempt(undefined, 300));
    expect(outcome.kind).toBe("unknown");
  });

  it("is certainly not sent when the connection is refused, or when the lease has expired at the crossing", async () => {
    const nobody = await sendText(openTwilio("http://127.0.0.1:9"), person, "Nobody there.");
    expect([nobody.outcome.kind, nobody.crossed]).toEqual(["deferred", false]);
    const before = api.creates.length;
    const over = {
      key: sendKey("01hzx7key"),
      number: 1,
      signal: AbortSignal.timeout(60_000),
      crossed: false,
      crossing: () => Promise.reject(new Error("the lease is over")),
      read: noFiles,
    };
    expect((await sendText(openTwilio(api.url), person, "Too late.", over)).outcome.kind).toBe("deferred");
    expect(api.creates.length).toBe(before);
  });

  it("waits for no request about other texts: its connections are the capacity that is reported", async () => {
    const { adapter } = openTwilio(api.url);
    const free = adapter.outbound?.capacity?.() ?? 0;
    const before = api.lists.length;
    api.fault("hang", { on: "list" });
    const [draft] = adapter.outbound?.compose(replyTo(person, "Lost.")) ?? [];
    if (draft === undefined) throw new Error("nothing to look for");
    const past = { key: sendKey("01hzx7lost"), number: 1, startedAt: new Date(Date.now() - 120_000) };
    const end = new AbortController();
    const looks = Array.from({ length: free }, async () => adapter.outbound?.reconcile?.(draft, past, end.signal));
    await expect.poll(() => api.lists.length - before).toBe(free);
    expect(adapter.outbound?.capacity?.()).toBe(free);
    const sending = sendText({ ...openTwilio(api.url), adapter }, person, "Not held up.");
    const first = await Promise.race([sending.then(({ outcome }) => outcome.kind), Promise.allSettled(looks)]);
    end.abort();
    await Promise.allSettled(looks);
    expect(first).toBe("sent");
  });
});
