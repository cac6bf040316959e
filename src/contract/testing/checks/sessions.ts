// Rules of sessions over a socket: utterances are stored in order, and a lost connection at any time leaves
// nothing running.

import assert from "node:assert/strict";
import type { Clock, MessageEvent, SessionEvent } from "../../index.ts";
import type { AcceptCall } from "../channel.ts";
import { wallClock } from "../clock.ts";
import { noFiles } from "../files.ts";
import {
  type AdapterUnderTest,
  type Check,
  capacityOf,
  check,
  type Fixture,
  graceMs,
  mark,
  outboundOf,
  present,
  socketRouteOf,
  withFixture,
} from "../fixture.ts";
import type { Caller, SessionSample } from "../harness.ts";
import { attempt, deadline, eventually, throughout, within } from "../patience.ts";
import { type Serving, serveTest } from "../socket.ts";
import { replyWith } from "./compose.ts";
import { compose, send } from "./send.ts";

interface TestedCall extends Serving {
  readonly caller: Caller;
  readonly path: string;
}

const samples = (fixture: Fixture): readonly SessionSample[] =>
  present(
    fixture.peer.sessions?.bind(fixture.peer),
    "the peer has no sessions()",
    "session",
  )((path) => fixture.channel.url(path));

async function dial(fixture: Fixture, sample: SessionSample): Promise<TestedCall> {
  const caller = await sample.begin(fixture.adapter);
  const route = socketRouteOf(fixture.adapter, sample.path);
  assert.ok(route, `the adapter has no socket route ${sample.path}`);
  const refusal = await route.authorize(caller.request.clone());
  assert.equal(refusal, null, `${sample.path} answered ${refusal?.status} to a good upgrade`);
  return Object.defineProperties(
    { caller, path: sample.path } as TestedCall,
    Object.getOwnPropertyDescriptors(serveTest(route, caller.request)),
  );
}

const sayAll = (call: TestedCall, frames: readonly (string | Uint8Array)[]) => {
  for (const frame of frames) call.say(frame);
};
const opened = (fixture: Fixture): readonly SessionEvent[] =>
  fixture.channel.stored.filter((event): event is SessionEvent => event.kind === "session" && event.state === "opened");
const text = (messages: readonly MessageEvent[]) => messages.map((message) => message.text).join("\n");
const heard = (fixture: Fixture, words: string) => text(fixture.channel.messages).includes(words);
const arrives = (fixture: Fixture, words: string) =>
  fixture.channel.until(`"${words}", said in a session`, () => heard(fixture, words), fixture.patienceMs);

/** Starts a session and waits until it is stored. */
async function begin(fixture: Fixture, sample: SessionSample): Promise<TestedCall> {
  const before = opened(fixture).length;
  const call = await dial(fixture, sample);
  sayAll(call, call.caller.opening);
  await fixture.channel.until(
    `the session opened at ${sample.path}`,
    () => opened(fixture).length > before,
    fixture.patienceMs,
  );
  return call;
}

async function ends(call: TestedCall, when: string): Promise<void> {
  assert.ok(await within(call.done, graceMs), `serve had not ended ${graceMs} ms after the socket was cut ${when}`);
}

async function inOrder(fixture: Fixture): Promise<void> {
  for (const sample of samples(fixture)) {
    const before = fixture.channel.messages.length;
    const call = await begin(fixture, sample);
    const words = [mark("one"), mark("two"), mark("three")];
    for (const one of words) {
      sayAll(call, call.caller.say(one));
      await arrives(fixture, one);
    }
    const messages = fixture.channel.messages.slice(before);
    const found = text(messages).match(new RegExp(words.join("|"), "g"));
    assert.deepEqual(found, words, `what was said at ${sample.path} was stored as ${found?.join(", ")}`);
    const session = opened(fixture).at(-1)?.session;
    for (const { thread } of messages)
      assert.ok("session" in thread && thread.session === session, "a message outside of its session");
    call.cut();
    await ends(call, "at the end");
  }
}

async function endsWhenCut(subject: AdapterUnderTest): Promise<void> {
  const count = countingClock();
  const sleeping = () => count.sleeping();
  const body = async (fixture: Fixture) => {
    const before = sleeping();
    for (const sample of samples(fixture)) {
      await cutsInOpening(fixture, sample);
      const open = await begin(fixture, sample);
      open.cut();
      await ends(open, "when it was open");
      const talking = await begin(fixture, sample);
      sayAll(talking, talking.caller.say(mark("cut")));
      talking.cut();
      await ends(talking, "right after the caller spoke");
      const waiting = await begin(fixture, sample);
      const words = mark("waiting");
      sayAll(waiting, waiting.caller.say(words));
      await arrives(fixture, words);
      waiting.cut();
      await ends(waiting, "while the caller waited for an answer");
    }
    const over = () => sleeping() <= before;
    await eventually("the end of all timers", over, graceMs).catch(() => undefined);
    const left = sleeping() - before;
    assert.ok(left <= 0, `${left} timers ran on ${graceMs} ms after all sockets were cut`);
  };
  await withFixture(subject, body, { clock: count.clock });
}

async function cutsInOpening(fixture: Fixture, sample: SessionSample): Promise<void> {
  const silent = await dial(fixture, sample);
  silent.cut();
  await ends(silent, "before the first frame");
  for (const n of silent.caller.opening.keys()) {
    const call = await dial(fixture, sample);
    sayAll(call, call.caller.opening.slice(0, n + 1));
    call.cut();
    await ends(call, `right after frame ${n + 1} of its opening`);
  }
}

/** The connection is lost during `accept`: `serve` ends after that call, and the utterance is stored. */
async function finishesAccepting(fixture: Fixture): Promise<void> {
  for (const sample of samples(fixture)) {
    const call = await begin(fixture, sample);
    const words = mark("held");
    fixture.channel.hold();
    sayAll(call, call.caller.say(words));
    const pending = () => fixture.channel.calls.some((one) => one.state === "pending" && one.events.length > 0);
    await fixture.channel.until("a call of accept", pending, fixture.patienceMs);
    call.cut();
    const early = await within(call.done, fixture.quietMs);
    assert.equal(early, null, `${sample.path}: serve ended while accept was pending`);
    fixture.channel.release();
    await ends(call, "while accept was pending");
    assert.ok(heard(fixture, words), `${sample.path} lost what was said before the cut`);
  }
}

/** A message that the store rejects must be sent again, or the failure must be visible. */
async function noticesRejection(fixture: Fixture): Promise<void> {
  for (const sample of samples(fixture)) {
    const stillborn = await dial(fixture, sample);
    fixture.channel.reject();
    const before = opened(fixture).length;
    sayAll(stillborn, stillborn.caller.opening);
    const ended = watch(stillborn);
    await eventually(
      `an end of the session whose opening was rejected at ${sample.path}, or another try`,
      () => ended() || opened(fixture).length > before,
      fixture.patienceMs,
    );
    fixture.channel.reject(0);
    stillborn.cut();
    const call = await begin(fixture, sample);
    const over = watch(call);
    const words = mark("rejected");
    fixture.channel.reject();
    sayAll(call, call.caller.say(words));
    // Counted at the moment of the rejection, because an adapter may send frames right after it.
    let spoken = Number.POSITIVE_INFINITY;
    const refused = () => {
      const is = ({ state, events }: AcceptCall) => state === "rejected" && mentions(events, words);
      if (!fixture.channel.calls.some(is)) return false;
      spoken = call.sent.length;
      return true;
    };
    await fixture.channel.until("a rejected call of accept", refused, fixture.patienceMs);
    await eventually(
      `a sign that "${words}" was not stored at ${sample.path}: another try, words to the caller, or the end`,
      () => over() || heard(fixture, words) || call.sent.length > spoken,
      fixture.patienceMs,
    );
    call.cut();
  }
}
const mentions = (events: readonly { readonly kind: string; readonly text?: string }[], words: string) =>
  events.some((event) => event.kind === "message" && (event.text ?? "").includes(words));
/** Returns a function that reports whether the adapter has ended the session. */
function watch(call: TestedCall): () => boolean {
  let over = false;
  void call.done.then(() => (over = true));
  return () => over || call.closed !== null;
}

async function answersInSession(fixture: Fixture): Promise<void> {
  for (const sample of samples(fixture)) {
    const call = await begin(fixture, sample);
    const words = mark("question");
    sayAll(call, call.caller.say(words));
    await arrives(fixture, words);
    const answer = mark("answer");
    const spoken = () => call.sent.map(String).join("").includes(answer);
    assert.equal(await sendInto(fixture, answer), "sent", "the answer to a live caller was not sent");
    await eventually("the answer among the frames", spoken, fixture.patienceMs);
    call.cut();
    await ends(call, "after the answer");
    const before = call.sent.length;
    const late = await sendInto(fixture, mark("late"));
    assert.ok(late !== "sent" && late !== "unknown", `the session is over, and send came to ${late}`);
    await throughout("words for a session that is over", () => call.sent.length === before, fixture.quietMs);
  }
}

/** Answers a caller while as many other drafts as can begin are at the crossing. */
async function answersWithoutCapacity(fixture: Fixture): Promise<void> {
  const outbound = outboundOf(fixture);
  const capacity = capacityOf(fixture);
  if (!outbound.unlimitedInSessions) return;
  for (const sample of samples(fixture)) {
    const call = await begin(fixture, sample);
    const asks = async () => {
      const words = mark("question");
      sayAll(call, call.caller.say(words));
      await arrives(fixture, words);
    };
    const idle = capacity();
    const end = Promise.withResolvers<void>();
    end.promise.catch(() => undefined); // there may be no send at the crossing
    const others = Array.from({ length: idle }, (_, n) =>
      send(fixture, compose(fixture, `outside ${n}`), { crossing: () => end.promise }),
    );
    try {
      assert.equal(capacity(), 0, `capacity() is ${capacity()} with ${idle} running sends`);
      await asks();
      const ended = await within(sendInto(fixture, mark("answer")), fixture.patienceMs);
      assert.equal(ended?.value, "sent", "the answer to a live caller was not sent while capacity() was 0");
    } finally {
      end.reject(new Error("crossing: the lease is over (planted)"));
      await Promise.allSettled(others);
    }
    let during = idle;
    await asks();
    await sendInto(fixture, mark("uncounted"), () => void (during = capacity()));
    assert.equal(during, idle, "capacity() counts a reply in a session");
    call.cut();
    await ends(call, "after the answers");
  }
}

/** Sends one answer to the newest message and returns its outcome, interpreted like the core does. */
async function sendInto(fixture: Fixture, words: string, crossing = () => {}): Promise<string> {
  const message = fixture.channel.messages.at(-1);
  assert.ok(message && "session" in message.thread, "no message of a session");
  const reply = {
    ...replyWith(fixture, `${words}.`),
    to: [message.from],
    answers: message.id,
    history: [message.id],
    session: message.thread.session,
  };
  const outbound = outboundOf(fixture);
  let outcome = "sent";
  for (const draft of outbound.compose(reply)) {
    let crossed = false;
    const signal = deadline(fixture.patienceMs);
    const work = attempt(() =>
      outbound.send(draft, {
        key: reply.key,
        number: 1,
        signal,
        crossing: async () => {
          crossed = true;
          crossing();
        },
        read: noFiles,
      }),
    );
    const { kind } = await work.catch(() => ({ kind: crossed ? "unknown" : "deferred" }));
    if (kind !== "sent") outcome = kind;
  }
  return outcome;
}

function countingClock(): { readonly clock: Clock; sleeping(): number } {
  const clock = wallClock();
  let sleeping = 0;
  return {
    clock: {
      ...clock,
      async sleep(ms, signal) {
        sleeping += 1;
        await clock.sleep(ms, signal);
        sleeping -= 1;
      },
    },
    sleeping: () => sleeping,
  };
}

export const sessionChecks: readonly Check[] = [
  check("session: what is said is stored once, in order, in its session", ["socket", "session"], inOrder),
  {
    name: "session: a cut at any time ends serve within a second, and all its timers",
    needs: ["socket", "session"],
    run: endsWhenCut,
  },
  check("session: a cut while accept is pending loses nothing", ["socket", "session"], finishesAccepting),
  check("session: what accept rejects is not lost in silence", ["socket", "session"], noticesRejection),
  check(
    "session: an answer reaches the caller while the call lives, and is not called sent after it",
    ["socket", "session", "outbound"],
    answersInSession,
  ),
  check(
    "session: an answer needs no capacity where the adapter declares that, and lowers none",
    ["socket", "session", "outbound", "capacity"],
    answersWithoutCapacity,
  ),
];
