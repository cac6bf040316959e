// Rules of `inbound`: no message is lost or stored twice, and the adapter acknowledges only committed messages.

import assert from "node:assert/strict";
import { type Clock, type MessageEvent, wrongStatus } from "../../index.ts";
import type { RecordingChannel } from "../channel.ts";
import { wallClock } from "../clock.ts";
import {
  assertRight,
  type Check,
  check,
  type Fixture,
  type FixtureOptions,
  graceMs,
  httpRouteOf,
  mark,
  present,
  type RunningInbound,
  ready,
  whileRunning,
} from "../fixture.ts";
import { elapse, eventually, throughout } from "../patience.ts";
import { compose, send } from "./send.ts";

const say = (fixture: Fixture, text: string) =>
  present(fixture.peer.say?.bind(fixture.peer), "the peer has no say()", "inbound")(text);

const acknowledged = async (fixture: Fixture, text: string) => {
  const list = present(fixture.peer.acknowledged?.bind(fixture.peer), "the peer has no acknowledged()", "acknowledge");
  return (await list()).some((one) => one.includes(text));
};

/** Returns every message with this text that was passed to `accept`, committed or not. */
const handedOver = (channel: RecordingChannel, text: string): readonly MessageEvent[] =>
  channel.calls.flatMap((call) =>
    call.events.filter((event) => event.kind === "message").filter((event) => event.text.includes(text)),
  );
const inState = (channel: RecordingChannel, state: string, text: string) =>
  channel.calls.some((call) => call.state === state && call.events.some((event) => mentions(event, text)));
const mentions = (event: { readonly kind: string; readonly text?: string }, text: string) =>
  event.kind === "message" && (event.text?.includes(text) ?? false);
const stored = (fixture: Fixture, text: string) =>
  fixture.channel.messages.filter((event) => event.text.includes(text));
const arrives = (fixture: Fixture, text: string, when: string) =>
  fixture.channel.until(`"${text}", ${when}`, () => stored(fixture, text).length > 0, fixture.patienceMs);

function assertStatuses({ channel }: Fixture): void {
  for (const status of channel.statuses) assertRight(wrongStatus(status), "report was given");
}

async function statesInOrder(fixture: Fixture, running: RunningInbound): Promise<void> {
  await ready(fixture);
  assertStatuses(fixture);
  const states = fixture.channel.statuses.map((status) => status.state);
  assert.equal(states[0], "connecting", `the first state reported was ${states[0]}`);
  assert.deepEqual([...new Set(states)], ["connecting", "ready"], `the states went ${states.join(", ")}`);
  await throughout("run ended although nobody aborted it", () => running.ends.length === 0, fixture.quietMs);
}

async function unauthorized(fixture: Fixture): Promise<void> {
  const states = () => fixture.channel.statuses.map((status) => status.state);
  const rejected = (channel: RecordingChannel) => channel.statuses.some((one) => one.state === "unauthorized");
  await fixture.channel.until("a report of unauthorized", rejected, fixture.patienceMs);
  assertStatuses(fixture);
  assert.ok(!states().includes("ready"), `ready was reported without a login: ${states().join(", ")}`);
}

const endsOnAbort = (silent: boolean) => async (fixture: Fixture) => {
  if (silent) await fixture.peer.fault("hang-before");
  await whileRunning(fixture, async (running) => {
    if (silent) await throughout("ready at a silent peer", () => !isReady(fixture), fixture.quietMs);
    else await ready(fixture);
    const took = await running.stop();
    assert.ok(took !== null, `run had not ended ${graceMs} ms after the abort`);
  });
};
const isReady = (fixture: Fixture) => fixture.channel.statuses.some((status) => status.state === "ready");

async function acknowledgesAfterCommit(fixture: Fixture): Promise<void> {
  await ready(fixture);
  fixture.channel.hold();
  const text = mark("held");
  await say(fixture, text);
  await fixture.channel.until("a call of accept", (now) => inState(now, "pending", text), fixture.patienceMs);
  const still = async () => !(await acknowledged(fixture, text));
  await throughout("acknowledged upstream while accept was pending", still, fixture.quietMs);
  fixture.channel.release();
  const done = () => acknowledged(fixture, text);
  await eventually("the acknowledgement of a committed message", done, fixture.patienceMs);
}

/** A message arrives while every call of accept is rejected. */
async function isRejected(fixture: Fixture, text: string): Promise<void> {
  fixture.channel.reject(Number.POSITIVE_INFINITY);
  await say(fixture, text);
  const rejected = (now: RecordingChannel) => inState(now, "rejected", text);
  await fixture.channel.until("a call of accept", rejected, fixture.patienceMs);
}

async function comesAgainAfterRejection(fixture: Fixture): Promise<void> {
  await ready(fixture);
  const [first, second] = [mark("rejected"), mark("next")];
  await isRejected(fixture, first);
  const kept = async () => !fixture.peer.acknowledged || !(await acknowledged(fixture, first));
  await throughout("acknowledged upstream although accept rejected", kept, fixture.quietMs);
  fixture.channel.reject(0);
  await say(fixture, second);
  await arrives(fixture, second, "sent after a rejected accept");
  await arrives(fixture, first, "whose accept had been rejected, once more");
}

async function stableIds(fixture: Fixture): Promise<void> {
  await ready(fixture);
  const [first, second] = [mark("same"), mark("other")];
  await isRejected(fixture, first);
  fixture.channel.reject(0);
  const again = (now: RecordingChannel) => inState(now, "committed", first);
  await fixture.channel.until("the rejected message once more", again, fixture.patienceMs);
  await say(fixture, second);
  const other = (now: RecordingChannel) => inState(now, "committed", second);
  await fixture.channel.until("a second message", other, fixture.patienceMs);
  const ids = new Set(handedOver(fixture.channel, first).map((event) => event.id));
  assert.equal(ids.size, 1, `one message came under the ids ${[...ids].join(", ")}`);
  const shared = handedOver(fixture.channel, second).find((event) => ids.has(event.id));
  assert.equal(shared, undefined, `two messages came under the id ${shared?.id}`);
}

async function resumes(fixture: Fixture): Promise<void> {
  const [before, during] = [mark("before"), mark("meanwhile")];
  await whileRunning(fixture, async () => {
    await ready(fixture);
    await say(fixture, before);
    await arrives(fixture, before, "sent while run was up");
  });
  await say(fixture, during);
  const reported = fixture.channel.statuses.length;
  await whileRunning(fixture, async () => {
    await arrives(fixture, during, "sent while run was down");
    // The core has taken the channel for down since run was stopped, for example because its lease was lost.
    const isReadyAgain = ({ statuses }: RecordingChannel) =>
      statuses.slice(reported).some(({ state }) => state === "ready");
    await fixture.channel.until("a report of ready after run was started again", isReadyAgain, fixture.patienceMs);
    const once = () => stored(fixture, before).length === 1;
    await throughout("a committed message came again under another id", once, fixture.quietMs);
  });
}

/** A year: the channel first runs this long after its peer got the message. */
const farMs = 365 * 24 * 3_600_000;

async function leavesHistory(fixture: Fixture): Promise<void> {
  const old = mark("history");
  await say(fixture, old);
  await whileRunning(fixture, async () => {
    await ready(fixture);
    const fix = "messages from before channel.identity().since are history when the cursor is null";
    const isLeft = () => handedOver(fixture.channel, old).every(({ refusal }) => refusal !== undefined);
    await throughout(`a message from before the first run is to be answered: ${fix}`, isLeft, fixture.quietMs);
  });
}

/** An answer that the peer lists among its messages must not be asked. */
async function leavesItsOwn(fixture: Fixture): Promise<void> {
  const own = compose(fixture, "own");
  const next = mark("next");
  await whileRunning(fixture, async () => {
    await ready(fixture);
    const { kind, detail } = await send(fixture, own);
    assert.equal(kind, "sent", `all was well, and send came to ${detail}`);
    await say(fixture, next);
    await arrives(fixture, next, "sent after our own");
    const isLeft = () => handedOver(fixture.channel, own.text).every(({ refusal }) => refusal !== undefined);
    const fix = "leave it out, or set a refusal";
    await throughout(`our own message is to be answered: ${fix}`, isLeft, fixture.quietMs);
  });
}

/** A webhook that was lost is found in the list, and one that was not lost is found there too. */
async function listsWhatWasPosted(fixture: Fixture): Promise<void> {
  const requests = present(fixture.peer.requests?.bind(fixture.peer), "the peer has no requests()", "http");
  await ready(fixture);
  const text = mark("twice");
  await say(fixture, text);
  await arrives(fixture, text, "listed by the peer");
  for (const sample of requests((path) => fixture.channel.url(path)).filter(({ accepts }) => accepts)) {
    await httpRouteOf(fixture.adapter, sample)?.handle(sample.good(text));
  }
  const ids = [...new Set(handedOver(fixture.channel, text).map(({ id }) => id))];
  assert.equal(ids.length, 1, `the list and a webhook gave one message the ids ${ids.join(", ")}: use the provider's`);
}

/** A sleep that no signal ends lasts much longer than an adapter may take to end, also on a machine that stalls. */
const insistent: Clock = {
  ...wallClock(),
  sleep: (ms, signal) =>
    signal === undefined ? elapse(Math.max(ms, 10 * graceMs), { ref: false }) : wallClock().sleep(ms, signal),
};

async function comesBack(fixture: Fixture): Promise<void> {
  await ready(fixture);
  await fixture.peer.fault("refuse-connection");
  await throughout("a message from a peer that is away", () => fixture.channel.stored.length === 0, fixture.quietMs);
  await fixture.peer.fault("none");
  const text = mark("back");
  await say(fixture, text);
  await arrives(fixture, text, "sent after the peer was away");
  await ready(fixture);
  assertStatuses(fixture);
}

/** A rule whose body runs while the adapter reads. */
const running = (
  name: string,
  needs: Check["needs"],
  body: (fixture: Fixture, inbound: RunningInbound) => Promise<void>,
  options?: FixtureOptions,
): Check => check(name, needs, (fixture) => whileRunning(fixture, (inbound) => body(fixture, inbound)), options);

export const inboundChecks: readonly Check[] = [
  running("inbound: reports connecting, then ready, and stays", ["inbound"], statesInOrder),
  running(
    "inbound: reports unauthorized, never ready, when the login is rejected",
    ["inbound", "credentials"],
    unauthorized,
    { credentials: "wrong" },
  ),
  check("inbound: run ends within a second of the abort", ["inbound"], endsOnAbort(false), { clock: insistent }),
  check(
    "inbound: run ends within a second of the abort, at a silent peer too",
    ["inbound", "hang-before"],
    endsOnAbort(true),
  ),
  running(
    "inbound: acknowledges once accept has resolved, never before",
    ["inbound", "acknowledge"],
    acknowledgesAfterCommit,
  ),
  running("inbound: what accept rejected stays with the peer and comes again", ["inbound"], comesAgainAfterRejection),
  running("inbound: the same input has the same id, another input another", ["inbound"], stableIds),
  check("inbound: goes on from the last committed cursor", ["inbound"], resumes),
  running("inbound: reads on after the peer was away", ["inbound", "refuse-connection"], comesBack),
  check("inbound: messages from before the channel's first run are not new", ["inbound", "history"], leavesHistory, {
    clock: wallClock(farMs),
  }),
  check("inbound: our own messages are no messages of people", ["inbound", "outbound"], leavesItsOwn),
  running(
    "inbound: a message that is posted and listed has one id",
    ["inbound", "http", "backfill"],
    listsWhatWasPosted,
  ),
];
