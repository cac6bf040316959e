// Rules of sessions over a socket: utterances are stored in order, and a lost connection at any time leaves
// nothing running.

import assert from "node:assert/strict";
import type { Clock, MessageEvent, Route, SessionEvent, SocketRoute } from "../../index.ts";
import type { AcceptCall } from "../channel.ts";
import { wallClock } from "../clock.ts";
import { noFiles } from "../files.ts";
import type { Caller, SessionSample } from "../harness.ts";
import { attempt, deadline, eventually, throughout, within } from "../patience.ts";
import {
  type AdapterUnderTest,
  type Check,
  graceMs,
  mark,
  outboundOf,
  present,
  type Rig,
  withRig,
} from "../rig.ts";
import { type Serving, serveTest } from "../socket.ts";
import { replyWith } from "./compose.ts";

interface TestedCall extends Serving {
  readonly caller: Caller;
  readonly path: string;
}

const samples = (rig: Rig): readonly SessionSample[] =>
  present(
    rig.peer.sessions?.bind(rig.peer),
    "the peer has no sessions()",
    "session",
  )((path) => rig.channel.url(path));

async function dial(rig: Rig, sample: SessionSample): Promise<TestedCall> {
  const caller = await sample.begin(rig.adapter);
  const isIt = (one: Route): one is SocketRoute => one.kind === "socket" && one.path === sample.path;
  const route = rig.adapter.routes?.find(isIt);
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
const opened = (rig: Rig): readonly SessionEvent[] =>
  rig.channel.stored.filter(
    (event): event is SessionEvent => event.kind === "session" && event.state === "opened",
  );
const text = (messages: readonly MessageEvent[]) => messages.map((message) => message.text).join("\n");
const heard = (rig: Rig, words: string) => text(rig.channel.messages).includes(words);
const arrives = (rig: Rig, words: string) =>
  rig.channel.until(`"${words}", said in a session`, () => heard(rig, words), rig.patienceMs);

/** Starts a session and waits until it is stored. */
async function begin(rig: Rig, sample: SessionSample): Promise<TestedCall> {
  const before = opened(rig).length;
  const call = await dial(rig, sample);
  sayAll(call, call.caller.opening);
  await rig.channel.until(
    `the session opened at ${sample.path}`,
    () => opened(rig).length > before,
    rig.patienceMs,
  );
  return call;
}

async function ends(call: TestedCall, when: string): Promise<void> {
  assert.ok(
    await within(call.done, graceMs),
    `serve had not ended ${graceMs} ms after the socket was cut ${when}`,
  );
}

async function inOrder(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const sample of samples(rig)) {
      const before = rig.channel.messages.length;
      const call = await begin(rig, sample);
      const words = [mark("one"), mark("two"), mark("three")];
      for (const one of words) {
        sayAll(call, call.caller.say(one));
        await arrives(rig, one);
      }
      const messages = rig.channel.messages.slice(before);
      const found = text(messages).match(new RegExp(words.join("|"), "g"));
      assert.deepEqual(found, words, `what was said at ${sample.path} was stored as ${found?.join(", ")}`);
      const session = opened(rig).at(-1)?.session;
      for (const { thread } of messages)
        assert.ok("session" in thread && thread.session === session, "a message outside of its session");
      call.cut();
      await ends(call, "at the end");
    }
  });
}

async function endsWhenCut(subject: AdapterUnderTest): Promise<void> {
  const count = countingClock();
  const sleeping = () => count.sleeping();
  const body = async (rig: Rig) => {
    const before = sleeping();
    for (const sample of samples(rig)) {
      await cutsInOpening(rig, sample);
      const open = await begin(rig, sample);
      open.cut();
      await ends(open, "when it was open");
      const talking = await begin(rig, sample);
      sayAll(talking, talking.caller.say(mark("cut")));
      talking.cut();
      await ends(talking, "right after the caller spoke");
      const waiting = await begin(rig, sample);
      const words = mark("waiting");
      sayAll(waiting, waiting.caller.say(words));
      await arrives(rig, words);
      waiting.cut();
      await ends(waiting, "while the caller waited for an answer");
    }
    const over = () => sleeping() <= before;
    await eventually("the end of all timers", over, graceMs).catch(() => undefined);
    const left = sleeping() - before;
    assert.ok(left <= 0, `${left} timers ran on ${graceMs} ms after all sockets were cut`);
  };
  await withRig(subject, body, { clock: count.clock });
}

async function cutsInOpening(rig: Rig, sample: SessionSample): Promise<void> {
  const silent = await dial(rig, sample);
  silent.cut();
  await ends(silent, "before the first frame");
  for (const n of silent.caller.opening.keys()) {
    const call = await dial(rig, sample);
    sayAll(call, call.caller.opening.slice(0, n + 1));
    call.cut();
    await ends(call, `right after frame ${n + 1} of its opening`);
  }
}

/** The connection is lost during `accept`: `serve` ends after that call, and the utterance is stored. */
async function finishesAccepting(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const sample of samples(rig)) {
      const call = await begin(rig, sample);
      const words = mark("held");
      rig.channel.hold();
      sayAll(call, call.caller.say(words));
      const pending = () => rig.channel.calls.some((one) => one.state === "pending" && one.events.length > 0);
      await rig.channel.until("a call of accept", pending, rig.patienceMs);
      call.cut();
      const early = await within(call.done, rig.quietMs);
      assert.equal(early, null, `${sample.path}: serve ended while accept was pending`);
      rig.channel.release();
      await ends(call, "while accept was pending");
      assert.ok(heard(rig, words), `${sample.path} lost what was said before the cut`);
    }
  });
}

/** A message that the store rejects must be sent again, or the failure must be visible. */
async function noticesRejection(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const sample of samples(rig)) {
      const stillborn = await dial(rig, sample);
      rig.channel.reject();
      const before = opened(rig).length;
      sayAll(stillborn, stillborn.caller.opening);
      const ended = watch(stillborn);
      await eventually(
        `an end of the session whose opening was rejected at ${sample.path}, or another try`,
        () => ended() || opened(rig).length > before,
        rig.patienceMs,
      );
      rig.channel.reject(0);
      stillborn.cut();
      const call = await begin(rig, sample);
      const over = watch(call);
      const words = mark("rejected");
      rig.channel.reject();
      sayAll(call, call.caller.say(words));
      // Counted at the moment of the rejection, because an adapter may send frames right after it.
      let spoken = Number.POSITIVE_INFINITY;
      const refused = () => {
        const is = ({ state, events }: AcceptCall) => state === "rejected" && mentions(events, words);
        if (!rig.channel.calls.some(is)) return false;
        spoken = call.sent.length;
        return true;
      };
      await rig.channel.until("a rejected call of accept", refused, rig.patienceMs);
      await eventually(
        `a sign that "${words}" was not stored at ${sample.path}: another try, words to the caller, or the end`,
        () => over() || heard(rig, words) || call.sent.length > spoken,
        rig.patienceMs,
      );
      call.cut();
    }
  });
}
const mentions = (events: readonly { readonly kind: string; readonly text?: string }[], words: string) =>
  events.some((event) => event.kind === "message" && (event.text ?? "").includes(words));
/** Returns a function that reports whether the adapter has ended the session. */
function watch(call: TestedCall): () => boolean {
  let over = false;
  void call.done.then(() => (over = true));
  return () => over || call.closed !== null;
}

async function answersInSession(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    for (const sample of samples(rig)) {
      const call = await begin(rig, sample);
      const words = mark("question");
      sayAll(call, call.caller.say(words));
      await arrives(rig, words);
      const answer = mark("answer");
      const spoken = () => call.sent.map(String).join("").includes(answer);
      assert.equal(await sendInto(rig, answer), "sent", "the answer to a live caller was not sent");
      await eventually("the answer among the frames", spoken, rig.patienceMs);
      call.cut();
      await ends(call, "after the answer");
      const before = call.sent.length;
      const late = await sendInto(rig, mark("late"));
      assert.ok(late !== "sent" && late !== "unknown", `the session is over, and send came to ${late}`);
      await throughout("words for a session that is over", () => call.sent.length === before, rig.quietMs);
    }
  });
}

/** Sends one answer to the newest message and returns its outcome, interpreted like the core does. */
async function sendInto(rig: Rig, words: string): Promise<string> {
  const message = rig.channel.messages.at(-1);
  assert.ok(message && "session" in message.thread, "no message of a session");
  const reply = {
    ...replyWith(rig, `${words}.`),
    to: [message.from],
    answers: message.id,
    history: [message.id],
    session: message.thread.session,
  };
  const outbound = outboundOf(rig);
  let outcome = "sent";
  for (const draft of outbound.compose(reply)) {
    let crossed = false;
    const signal = deadline(rig.patienceMs);
    const told = attempt(() =>
      outbound.send(draft, {
        key: reply.key,
        number: 1,
        signal,
        crossing: async () => void (crossed = true),
        read: noFiles,
      }),
    );
    const { kind } = await told.catch(() => ({ kind: crossed ? "unknown" : "deferred" }));
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
  {
    name: "session: what is said is stored once, in order, in its session",
    needs: ["socket", "session"],
    run: inOrder,
  },
  {
    name: "session: a cut at any time ends serve within a second, and all its timers",
    needs: ["socket", "session"],
    run: endsWhenCut,
  },
  {
    name: "session: a cut while accept is pending loses nothing",
    needs: ["socket", "session"],
    run: finishesAccepting,
  },
  {
    name: "session: what accept rejects is not lost in silence",
    needs: ["socket", "session"],
    run: noticesRejection,
  },
  {
    name: "session: an answer reaches the caller while the call lives, and is not called sent after it",
    needs: ["socket", "session", "outbound"],
    run: answersInSession,
  },
];
