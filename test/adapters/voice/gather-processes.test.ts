// Gather calls whose requests reach several processes, repeat, or end while a question is pending.

import { externalId, sessionId } from "bridgehead/contract";
import { expect, test } from "vitest";
import { postSigned, signature } from "../../../src/sandbox/twilio-webhooks.ts";
import { authToken, caller, openRig, ours, publicUrl, type Rig } from "../../support/voice/adapter.ts";

const base = `${publicUrl}/channels/line`;
const parties = { CallSid: "CA1", From: caller, To: ours };

const post = (rig: Rig, path: string, more: Readonly<Record<string, string>> = {}) =>
  postSigned({ url: base + path, via: rig.listener.url, token: authToken, form: { ...parties, ...more } });

/** The next URL of the call, from a TwiML response. */
const redirectIn = (body: string): string => (/<Redirect[^>]*>([^<]*)</.exec(body)?.[1] ?? "").replaceAll("&amp;", "&");

/** Passes a request to this adapter, which no listener serves any more. */
async function direct(adapter: Rig["adapter"], url: string, more: Readonly<Record<string, string>> = {}) {
  const route = adapter.routes?.find(({ path }) => path === "/gather");
  if (route?.kind !== "http") throw new Error("the adapter has no route /gather");
  const form = { ...parties, ...more };
  const headers = { "x-twilio-signature": signature(authToken, url, form) };
  const request = new Request(url, { method: "POST", body: new URLSearchParams(form), headers });
  return (await route.handle(request)).text();
}

async function begun(): Promise<Rig> {
  const rig = await openRig({ config: { dialect: "gather" } });
  await post(rig, "/gather");
  return rig;
}

test("a caller who hangs up while a question is pending is no missed call", async () => {
  const rig = await begun();
  void post(rig, "/gather?n=1", { SpeechResult: "Where is it?" });
  await rig.channel.until("the question", ({ messages }) => messages.length === 1);
  await post(rig, "/status", { CallStatus: "completed" });
  await rig.clock.passes(60_000);
  expect(rig.channel.messages.map(({ id }) => id)).toEqual(["CA1/gather/1"]);
  expect(rig.sessions("closed")).toHaveLength(1);
});

test("a silent caller is asked for by a new process, although an earlier question is unanswered", async () => {
  const rig = await begun();
  await rig.channel.accept([
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
  await rig.adapter.close?.(AbortSignal.timeout(60_000));
  rig.restart();
  const held = post(rig, "/gather?n=2");
  await rig.clock.passes(10_000);
  expect((await held).body).toContain("still there");
});

test("a process waits for the reply to a question that another process has asked since", async () => {
  const rig = await begun();
  const first = rig.adapter;
  rig.restart();
  const asked = post(rig, "/gather?n=1", { SpeechResult: "Where is it?" });
  await rig.channel.until("the question", ({ messages }) => messages.length === 1);
  await rig.clock.passes(1500);
  const url = redirectIn((await asked).body);
  const body = direct(first, url);
  await rig.clock.passes(12_000);
  const answered = await body;
  expect(answered).toContain("n=2");
  expect(answered).not.toContain("<Gather");
});

test("two first requests of a call at a new process open it once", async () => {
  const rig = await begun();
  await rig.adapter.close?.(AbortSignal.timeout(60_000));
  rig.restart();
  const session = rig.channel.session.bind(rig.channel);
  const loading = Promise.withResolvers<void>();
  rig.channel.session = async (id) => {
    await loading.promise;
    return session(id);
  };
  const words = { SpeechResult: "Where is it?" };
  const both = [1, 2].map(() => direct(rig.adapter, `${base}/gather?n=1`, words));
  // Both have been verified when the stored state of the call is available.
  for (let n = 0; n < 100; n++) await new Promise((done) => setImmediate(done));
  loading.resolve();
  await rig.channel.until("the question", ({ messages }) => messages.length === 1);
  await rig.clock.passes(10_000);
  await Promise.all(both);
  // The call goes on, a turn every 20 seconds: an engine without requests would give up and close it.
  for (let n = 2; n < 12; n++) {
    const id = rig.channel.messages.at(-1)?.id ?? null;
    await rig.answer({ sid: "CA1" } as never, "Yes.", id).catch(() => null);
    const next = post(rig, `/gather?n=${n}`, { SpeechResult: `Question ${n}?` });
    await rig.clock.passes(20_000);
    await next;
  }
  expect(rig.sessions("closed")).toEqual([]);
});
