// Gather calls whose requests reach several processes, repeat, or end while a question is pending.

import { externalId, sessionId } from "bridgehead/contract";
import { expect, test } from "vitest";
import { postSigned, signature } from "../../../../src/sandbox/twilio-webhooks.ts";
import {
  authToken,
  caller,
  openVoiceFixture,
  ours,
  publicUrl,
  type VoiceFixture,
} from "../../../support/voice/adapter.ts";

const base = `${publicUrl}/channels/line`;
const parties = { CallSid: "CA1", From: caller, To: ours };

const post = (fixture: VoiceFixture, path: string, more: Readonly<Record<string, string>> = {}) =>
  postSigned({ url: base + path, via: fixture.listener.url, token: authToken, form: { ...parties, ...more } });

/** The next URL of the call, from a TwiML response. */
const redirectIn = (body: string): string => (/<Redirect[^>]*>([^<]*)</.exec(body)?.[1] ?? "").replaceAll("&amp;", "&");

/** Passes a request to this adapter, which no listener serves any more. */
async function direct(adapter: VoiceFixture["adapter"], url: string, more: Readonly<Record<string, string>> = {}) {
  const route = adapter.routes?.find(({ path }) => path === "/gather");
  if (route?.kind !== "http") throw new Error("the adapter has no route /gather");
  const form = { ...parties, ...more };
  const headers = { "x-twilio-signature": signature(authToken, url, form) };
  const request = new Request(url, { method: "POST", body: new URLSearchParams(form), headers });
  return (await route.handle(request)).text();
}

async function begun(): Promise<VoiceFixture> {
  const fixture = await openVoiceFixture({ config: { dialect: "gather" } });
  await post(fixture, "/gather");
  return fixture;
}

test("a caller who hangs up while a question is pending is no missed call", async () => {
  const fixture = await begun();
  void post(fixture, "/gather?n=1", { SpeechResult: "Where is it?" });
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  await post(fixture, "/status", { CallStatus: "completed" });
  await fixture.clock.passes(60_000);
  expect(fixture.channel.messages.map(({ id }) => id)).toEqual(["CA1/gather/1"]);
  expect(fixture.sessions("closed")).toHaveLength(1);
});

test("a silent caller is asked for by a new process, although an earlier question is unanswered", async () => {
  const fixture = await begun();
  await fixture.channel.accept([
    {
      kind: "message",
      id: externalId("CA1/gather/0"),
      from: { address: caller },
      to: [],
      thread: { session: sessionId("CA1") },
      sentAt: new Date(0),
      text: "Where is it?",
    },
  ]);
  await fixture.adapter.close?.(AbortSignal.timeout(60_000));
  fixture.restart();
  const held = post(fixture, "/gather?n=2");
  await fixture.clock.passes(10_000);
  expect((await held).body).toContain("still there");
});

test("a process waits for the reply to a question that another process has asked since", async () => {
  const fixture = await begun();
  const first = fixture.adapter;
  fixture.restart();
  const asked = post(fixture, "/gather?n=1", { SpeechResult: "Where is it?" });
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  await fixture.clock.passes(1500);
  const url = redirectIn((await asked).body);
  const body = direct(first, url);
  await fixture.clock.passes(12_000);
  const answered = await body;
  expect(answered).toContain("n=2");
  expect(answered).not.toContain("<Gather");
});

test("a call whose process ended while a question is pending is opened again, and the reply is spoken", async () => {
  const fixture = await begun();
  const asked = post(fixture, "/gather?n=1", { SpeechResult: "Where is it?" });
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  await fixture.clock.passes(1500);
  const path = redirectIn((await asked).body).slice(base.length);
  await fixture.adapter.close?.(AbortSignal.timeout(60_000));
  const session = sessionId("CA1");
  const lost = {
    kind: "session",
    id: externalId("lost"),
    session,
    from: { address: caller },
    reason: "restarted",
  } as const;
  await fixture.channel.accept([{ ...lost, state: "lost" }]);
  fixture.restart();
  const held = post(fixture, path);
  await fixture.channel.until("the call", () => fixture.sessions("opened").length === 2);
  expect(await fixture.channel.session(session)).toMatchObject({ state: "open", pending: "CA1/gather/1" });
  // The request is held in a moment; the core repeats a deferred reply.
  const said = () => fixture.answer({ sid: "CA1" } as never, "In Hamburg.");
  await expect.poll(async () => (await said()).kind).toBe("sent");
  expect((await held).body).toContain("In Hamburg.");
});

test("a late request of a call that is over does not open it again", async () => {
  const fixture = await begun();
  await post(fixture, "/status", { CallStatus: "completed" });
  fixture.restart();
  const held = post(fixture, "/gather?n=1");
  await fixture.clock.passes(10_000);
  await held;
  expect(fixture.sessions("opened")).toHaveLength(1);
});

test("two first requests of a call at a new process open it once", async () => {
  const fixture = await begun();
  await fixture.adapter.close?.(AbortSignal.timeout(60_000));
  fixture.restart();
  const session = fixture.channel.session.bind(fixture.channel);
  const loading = Promise.withResolvers<void>();
  fixture.channel.session = async (id) => {
    await loading.promise;
    return session(id);
  };
  const words = { SpeechResult: "Where is it?" };
  const both = [1, 2].map(() => direct(fixture.adapter, `${base}/gather?n=1`, words));
  // Both have been verified when the stored state of the call is available.
  for (let n = 0; n < 100; n++) await new Promise((done) => setImmediate(done));
  loading.resolve();
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  await fixture.clock.passes(10_000);
  await Promise.all(both);
  // The call continues with a turn every 20 seconds: a call without requests would time out and be closed.
  for (let n = 2; n < 12; n++) {
    const id = fixture.channel.messages.at(-1)?.id ?? null;
    await fixture.answer({ sid: "CA1" } as never, "Yes.", id).catch(() => null);
    const next = post(fixture, `/gather?n=${n}`, { SpeechResult: `Question ${n}?` });
    await fixture.clock.passes(20_000);
    await next;
  }
  expect(fixture.sessions("closed")).toEqual([]);
});
