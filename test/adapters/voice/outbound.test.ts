// Calls that we place: through a Twilio interface on a real socket, to people who pick up or do not.

import { createServer, type ServerResponse } from "node:http";
import { type Attempt, type Json, type SendOutcome, sendKey } from "bridgehead/contract";
import { noFiles } from "bridgehead/contract/testing";
import { expect, onTestFinished, test } from "vitest";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";
import { postSigned } from "../../../src/sandbox/twilio-webhooks.ts";
import { serve } from "../../support/machine/network.ts";
import { authToken, caller, openVoiceFixture, ours, reply, type VoiceFixture } from "../../support/voice/adapter.ts";

const account = { accountSid: `AC${"0".repeat(32)}`, authToken, number: ours };

interface Placing extends VoiceFixture {
  readonly api: SmsApi;
  place(to: string, text: string, key?: string, crossing?: () => void): Promise<SendOutcome>;
  draft(to: string, text: string): Json;
}

async function openPlacing(over: Record<string, unknown> = {}): Promise<Placing> {
  const api = await SmsApi.start({ ...account, progress: [] });
  onTestFinished(() => api.close());
  const fixture = await openVoiceFixture({ config: { account_sid: account.accountSid, api_url: api.url, ...over } });
  const draft = (to: string, text: string) => {
    const [made] = fixture.adapter.outbound?.compose(reply({ kind: "opening", to: [{ address: to }], text })) ?? [];
    return JSON.parse(JSON.stringify(made)) as Json;
  };
  return Object.assign(fixture, {
    api,
    draft,
    place(to: string, text: string, key = "k1", crossing = () => {}) {
      const attempt: Attempt = {
        key: sendKey(key),
        number: 1,
        signal: AbortSignal.timeout(60_000),
        crossing: async () => crossing(),
        read: noFiles,
      };
      const sent = fixture.adapter.outbound?.send(draft(to, text), attempt);
      return (sent ?? Promise.reject(new Error("no outbound"))).catch(
        (error: unknown): SendOutcome => ({ kind: "unknown", reason: String(error) }),
      );
    },
  });
}

test("a placed call greets with the introduction, and the person is who was called", async () => {
  const fixture = await openPlacing();
  const outcome = await fixture.place(caller, "Good day, this is **Ada**. Your parcel is here & waits.");
  const [placed] = fixture.api.calls;
  expect(outcome).toEqual({ kind: "sent", id: placed?.sid, detail: "201" });
  expect(placed).toMatchObject({ to: caller, from: ours, method: "POST" });
  expect(placed?.statusCallback).toBe("https://bridge.example/channels/line/status?key=k1");
  const call = await fixture.dial({
    url: placed?.url ?? "",
    callSid: placed?.sid ?? "",
    from: ours,
    to: caller,
    direction: "outbound-api",
  });
  expect(call.spoken[0]?.text).toBe("Good day, this is Ada. Your parcel is here & waits.");
  await fixture.says(call, "Who is there?");
  expect(fixture.sessions("opened")).toMatchObject([{ from: { address: caller }, session: placed?.sid }]);
  expect(fixture.channel.messages[0]).toMatchObject({ from: { address: caller }, to: [{ address: ours }] });
});

test("an answering machine gets the introduction as a message, and the agent is not asked", async () => {
  const fixture = await openPlacing();
  await fixture.place(caller, "Your parcel is here & waits.");
  const [placed] = fixture.api.calls;
  expect(placed?.machineDetection).toBe("DetectMessageEnd");
  const answeredBy = async (AnsweredBy: string) => {
    const form = { CallSid: placed?.sid ?? "", From: ours, To: caller, Direction: "outbound-api", AnsweredBy };
    return (await postSigned({ url: placed?.url ?? "", via: fixture.listener.url, form, token: authToken })).body;
  };
  for (const machine of ["machine_end_beep", "machine_end_silence", "machine_end_other", "machine_start", "fax"])
    expect(await answeredBy(machine)).toBe(
      '<?xml version="1.0" encoding="UTF-8"?><Response><Say language="en-US">Your parcel is here &amp; waits.</Say><Hangup/></Response>',
    );
  for (const person of ["human", "unknown"]) expect(await answeredBy(person)).toContain("<ConversationRelay ");

  const plain = await openPlacing({ detect_machines: false });
  await plain.place(caller, "Hello.");
  expect(plain.api.calls[0]?.machineDetection).toBeNull();
});

test.each<[string, string, object]>([
  ["21211, no such number", "+19992121101", { kind: "refused", code: "400/21211", scope: "recipient" }],
  ["20003, the login", "+19992000301", { kind: "deferred", scope: "channel" }],
  ["20429, too many", "+19992042901", { kind: "deferred", scope: "channel", retryAfterMs: 1000 }],
  ["20500, their failure", "+19992050001", { kind: "unknown" }],
  ["a cut before the answer", "+19990000201", { kind: "unknown" }],
  ["a cut after it was taken", "+19990000301", { kind: "unknown" }],
  ["no number", "someone@example.com", { kind: "refused", code: "no-number", scope: "recipient" }],
  ["an anonymous caller", "anonymous:CA1", { kind: "refused", code: "no-number" }],
])("%s", async (_, to, outcome) => {
  const fixture = await openPlacing();
  expect(await fixture.place(to, "Hello.")).toMatchObject(outcome);
});

test("silence of half a minute", async () => {
  const fixture = await openPlacing();
  const crossed = Promise.withResolvers<void>();
  const placed = fixture.place("+19990000101", "Hello.", "k1", crossed.resolve);
  await crossed.promise;
  await fixture.clock.passes(30_000);
  expect(await placed).toMatchObject({ kind: "unknown" });
});

test("a refused login is the channel's state until a call goes out", async () => {
  const fixture = await openPlacing();
  await fixture.place("+19992000301", "Hello.");
  expect(fixture.channel.statuses.at(-1)?.state).toBe("unauthorized");
  await fixture.place(caller, "Hello.");
  expect(fixture.channel.statuses.at(-1)?.state).toBe("ready");
});

test("either token places calls and looks them up during a rotation", async () => {
  for (const auth_tokens of [
    ["not valid yet", authToken],
    [authToken, "no longer valid"],
  ]) {
    const fixture = await openPlacing({ auth_tokens });
    expect(await fixture.place(caller, "Hello.")).toMatchObject({ kind: "sent" });
    expect(await fixture.place(caller, "Hello again.")).toMatchObject({ kind: "sent" });
    expect(fixture.api.calls).toHaveLength(2);
    expect(await fixture.adapter.probe?.(AbortSignal.timeout(60_000))).toEqual({ state: "ready" });
  }
});

test("an uncertain call is found in the list, or missing there after a minute", async () => {
  const fixture = await openPlacing();
  const look = (to: string, startedAt: Date) =>
    fixture.adapter.outbound?.reconcile?.(
      fixture.draft(to, "Hello."),
      { key: sendKey("k9"), number: 1, startedAt },
      AbortSignal.timeout(60_000),
    );
  const taken = "+19990000301";
  await fixture.place(taken, "Hello.", "k9");
  // The provider has another clock.
  const now = fixture.clock.now();
  expect(Math.abs(now - Date.now())).toBeGreaterThan(60_000);
  expect(await look(taken, new Date(now))).toEqual({ kind: "sent", id: fixture.api.calls[0]?.sid });
  // A call of another time is not this one.
  expect(await look(taken, new Date(now + 60_000))).toMatchObject({ kind: "unsure" });
  expect(await look("+15005550055", new Date(fixture.clock.now() - 30_000))).toMatchObject({ kind: "unsure" });
  expect(await look("+15005550055", new Date(fixture.clock.now() - 61_000))).toEqual({ kind: "not-sent" });
});

test("status callbacks settle the draft by its key, and end the call", async () => {
  const fixture = await openPlacing();
  const url = "https://bridge.example/channels/line/status?key=k1";
  for (const CallStatus of ["initiated", "in-progress", "in-progress", "completed", "no-answer"]) {
    const form = { CallSid: "CA1", CallStatus };
    const { status } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
    expect(status).toBe(204);
  }
  expect(fixture.channel.stored).toMatchObject([
    { kind: "delivery", state: "accepted", about: { key: "k1", sent: ["CA1"] } },
    { kind: "delivery", state: "delivered" },
    { kind: "delivery", state: "delivered", detail: "completed" },
    { kind: "delivery", state: "failed", detail: "the call was not answered: no-answer" },
  ]);
});

test("no call is placed for an answer without a call, nor without an account", async () => {
  const fixture = await openPlacing();
  const [draft] = fixture.adapter.outbound?.compose(reply({ text: "An answer." })) ?? [];
  const attempt = {
    key: sendKey("k1"),
    number: 1,
    signal: AbortSignal.timeout(60_000),
    crossing: () => Promise.resolve(),
    read: noFiles,
  };
  expect(await fixture.adapter.outbound?.send(draft as Json, attempt)).toMatchObject({ code: "no-call" });
  expect(fixture.api.calls).toEqual([]);
  const bare = await openPlacing({ account_sid: undefined });
  expect(await bare.place(caller, "Hello.")).toMatchObject({ kind: "refused", code: "no-account" });
});

// More calls at once than connections.

const connections = 32;

interface SilentProvider {
  readonly url: string;
  /** The requests so far, oldest first. They are answered by the test, if at all. */
  readonly requests: readonly ServerResponse[];
  /** Resolves when this many requests have arrived. */
  arrived(count: number): Promise<void>;
}

async function startSilentProvider(): Promise<SilentProvider> {
  const requests: ServerResponse[] = [];
  const waiting: (() => void)[] = [];
  const server = createServer((_request, response) => {
    requests.push(response);
    for (const look of waiting) look();
  });
  const url = await serve(server);
  return {
    url,
    requests,
    arrived: (count) =>
      new Promise((resolve) => {
        const look = () => requests.length >= count && resolve();
        waiting.push(look);
        look();
      }),
  };
}

test("the capacity falls with the calls that are being placed; speech lowers none and waits for none", async () => {
  const provider = await startSilentProvider();
  const fixture = await openPlacing({ api_url: provider.url });
  const capacity = () => fixture.adapter.outbound?.capacity?.();
  expect(capacity()).toBe(connections);
  const crossed: number[] = [];
  const outcomes = Array.from({ length: connections + 1 }, (_, n) => {
    const outcome = fixture.place(caller, "Hello.", `k${n}`, () => void crossed.push(n));
    expect(capacity()).toBe(Math.max(0, connections - n - 1));
    return outcome;
  });
  await provider.arrived(connections);
  const call = await fixture.dial();
  await fixture.says(call, "Are you there?");
  expect(await fixture.answer(call, "Yes.")).toMatchObject({ kind: "sent" });
  expect(capacity()).toBe(0);
  // The last one is beyond what was announced: it waits for a connection, and its time ends before its crossing.
  await fixture.clock.passes(30_000);
  expect(new Set((await Promise.all(outcomes)).map(({ kind }) => kind))).toEqual(new Set(["unknown"]));
  expect([crossed.length, Math.max(...crossed), provider.requests.length]).toEqual([
    connections,
    connections - 1,
    connections,
  ]);
  expect(capacity()).toBe(connections);
});

test("has no capacity and no limit where no call can be placed", async () => {
  const { adapter } = await openPlacing({ account_sid: undefined });
  expect(Object.keys(adapter.outbound ?? {})).toEqual(["compose", "send"]);
});
