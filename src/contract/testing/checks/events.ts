// Rules of every event that an adapter passes to `accept`, from any source.

import assert from "node:assert/strict";
import { type InboundEvent, wrongField, wrongFieldText } from "../../index.ts";
import { type Check, check, type Fixture, httpRouteOf, mark, ready, socketRouteOf, whileRunning } from "../fixture.ts";
import { within } from "../patience.ts";
import { serveTest } from "../socket.ts";

const named = (text: unknown): boolean => typeof text === "string" && text.trim() === text && text !== "";
/** 1973, in milliseconds: seconds since the epoch that are read as milliseconds are earlier. */
const firstMs = 1e11;

/** Returns a description of an event's defect, or null when the event is valid. */
function flawOf(event: InboundEvent): string | null {
  const wrong = wrongField(event);
  if (wrong !== null) return wrongFieldText(wrong);
  if (!named(event.id) || event.id.length > 500) return `an id that is none: ${JSON.stringify(event.id)}`;
  if (event.kind === "delivery") {
    const { key, sent = [], recipient } = event.about;
    return key || sent.length > 0 || recipient ? null : "a delivery that is about nothing";
  }
  if (!named(event.from.address)) return "a sender without an address";
  if (event.kind === "session") {
    if (!named(event.session)) return "a session without a name";
    const { durationMs } = event;
    const measured = durationMs === undefined || (Number.isFinite(durationMs) && durationMs >= 0);
    return measured ? null : `a call of ${durationMs} ms`;
  }
  const sentAt = event.sentAt.getTime();
  if (sentAt > 0 && sentAt < firstMs)
    return `a message of ${event.sentAt.toISOString()}: a Date takes milliseconds, not seconds`;
  if (event.consent?.answer?.trim() === "") return "a consent answered with nothing";
  if (event.consent && event.refusal) return "a message that is both consent and refused";
  if (event.forHumans && !named(event.forHumans.subject)) return "a message for humans without a subject";
  const bad = event.attachments?.find(({ name, mediaType }) => !named(name) || !/^[^/\s]+\/[^/\s]+$/.test(mediaType));
  return bad ? `an attachment of type ${bad.mediaType}` : null;
}

/** Makes the peer exercise every function of the harness once. */
async function provoke(fixture: Fixture): Promise<void> {
  const { peer, channel, adapter } = fixture;
  const url = channel.url.bind(channel);
  for (const sample of peer.requests?.(url) ?? []) {
    await httpRouteOf(adapter, sample)
      ?.handle(sample.good(mark("provoked")))
      .catch(() => undefined);
  }
  for (const sample of peer.sessions?.(url) ?? []) {
    const route = socketRouteOf(adapter, sample.path);
    const caller = await sample.begin(adapter);
    if (route === undefined || (await route.authorize(caller.request.clone())) !== null) continue;
    const call = serveTest(route, caller.request);
    const words = mark("provoked");
    for (const frame of [...caller.opening, ...caller.say(words)]) call.say(frame);
    await channel.until("what was said", () => heard(fixture, words), fixture.patienceMs).catch(() => undefined);
    call.cut();
    await within(call.done, fixture.patienceMs);
  }
  if (adapter.inbound && peer.say) {
    const words = mark("provoked");
    await whileRunning(fixture, async () => {
      await ready(fixture).catch(() => undefined);
      await peer.say?.(words);
      await channel.until("what was said", () => heard(fixture, words), fixture.patienceMs).catch(() => undefined);
    });
  }
}
const heard = (fixture: Fixture, words: string) => fixture.channel.messages.some(({ text }) => text.includes(words));

async function saysWhatItMust(fixture: Fixture): Promise<void> {
  await provoke(fixture);
  const flaws = fixture.channel.calls.flatMap(({ events }) => events.map(flawOf)).filter((flaw) => flaw !== null);
  assert.deepEqual(flaws, [], `accept was given ${flaws.join("; ")}`);
  const cursors: readonly unknown[] = fixture.channel.calls.map(({ cursor }) => (cursor === undefined ? "" : cursor));
  const wrong = cursors.find((one) => typeof one !== "string");
  assert.equal(
    wrong,
    undefined,
    `accept was given ${typeof wrong} as the cursor, expected a string: cursor(String(...))`,
  );
  // Null: no channel can reach it, such as a withheld number.
  const { definition } = fixture;
  for (const { from } of fixture.channel.messages) {
    const canonical = definition.address?.(from.address) ?? null;
    const fix = "give events the form that address() returns: suppressions and responders are compared with it";
    assert.ok(
      canonical === null || canonical === from.address,
      `a message from ${from.address}, not ${canonical}: ${fix}`,
    );
  }
  const elsewhere = fixture.channel.messages.flatMap(({ attachments = [] }) => attachments);
  if (!fixture.adapter.open)
    assert.ok(!elsewhere.some((one) => "ref" in one), "an attachment by ref, and no open to fetch it");
  const open = new Set<string>();
  for (const event of fixture.channel.stored) {
    if (event.kind === "session" && event.state === "opened") open.add(event.session);
    const session =
      event.kind === "session"
        ? event.session
        : event.kind === "message" && event.forHumans === undefined && "session" in event.thread
          ? event.thread.session
          : null;
    assert.ok(session === null || open.has(session), `a ${event.kind} of a session that was not opened`);
  }
}

export const eventChecks: readonly Check[] = [check("events: say what they must", [], saysWhatItMust)];
