// Rules of `send`: its outcome matches what the peer received, wherever the connection can break.

import assert from "node:assert/strict";
import { type Attempt, type Json, type SendKey, type SendOutcome, wrongOutcome } from "../../index.ts";
import { noFiles } from "../files.ts";
import {
  assertRight,
  type Check,
  capacityOf,
  check,
  type Fixture,
  graceMs,
  mark,
  outboundOf,
  present,
} from "../fixture.ts";
import type { Fault } from "../harness.ts";
import { attempt as calling, deadline, eventually, throughout, within } from "../patience.ts";
import { replyWith } from "./compose.ts";

export interface ComposedDraft {
  readonly draft: Json;
  readonly key: SendKey;
  readonly text: string;
}

/** Composes one draft, as it would be read from the store. */
export function compose(fixture: Fixture, word: string): ComposedDraft {
  const text = mark(word);
  const reply = replyWith(fixture, text);
  const drafts = outboundOf(fixture).compose(reply);
  assert.equal(drafts.length, 1, `compose made ${drafts.length} drafts of a few words`);
  return { draft: JSON.parse(JSON.stringify(drafts[0])) as Json, key: reply.key, text };
}

/** Returns how often the peer has accepted this text. */
export async function taken(fixture: Fixture, text: string): Promise<number> {
  const list = present(fixture.peer.delivered?.bind(fixture.peer), "the peer has no delivered()", "outbound");
  return (await list()).filter((one) => one.includes(text)).length;
}

export const arrives = (fixture: Fixture, text: string, what = "the message at the peer"): Promise<void> =>
  eventually(what, async () => (await taken(fixture, text)) > 0, fixture.patienceMs);

/** The result of a `send`, interpreted like the core does. */
interface TestedOutcome {
  readonly kind: SendOutcome["kind"];
  readonly crossed: boolean;
  /** Null when `send` threw. */
  readonly outcome: SendOutcome | null;
  /** The outcome or the thrown error, for failure messages. */
  readonly detail: string;
}

interface Conditions {
  readonly signal?: AbortSignal;
  readonly crossing?: () => Promise<void>;
  /** Default: the reply has no files. */
  readonly read?: Attempt["read"];
}

/** Sends the draft. The send ends with its check (`BegunSends`), also when the check fails before it. */
export function send(fixture: Fixture, composed: ComposedDraft, conditions: Conditions = {}): Promise<TestedOutcome> {
  const sending = sendUnder(fixture, composed, conditions);
  fixture.sends.add(sending);
  return sending;
}

async function sendUnder(fixture: Fixture, composed: ComposedDraft, conditions: Conditions): Promise<TestedOutcome> {
  let crossed = false;
  const attempt: Attempt = {
    key: composed.key,
    number: 1,
    signal: AbortSignal.any([fixture.sends.signal, conditions.signal ?? deadline(fixture.patienceMs)]),
    crossing: async () => {
      await conditions.crossing?.();
      crossed = true;
    },
    read: conditions.read ?? noFiles,
  };
  const work = calling(() => outboundOf(fixture).send(composed.draft, attempt)).then(
    (outcome): TestedOutcome => ({ kind: outcome.kind, crossed, outcome, detail: inspect(outcome) }),
    (error: unknown): TestedOutcome => ({
      kind: crossed ? "unknown" : "deferred",
      crossed,
      outcome: null,
      detail: `a throw ${crossed ? "after" : "before"} crossing() had resolved: ${String(error)}`,
    }),
  );
  const ended = await within(work, fixture.patienceMs + graceMs);
  assert.ok(ended, `send had not ended ${graceMs} ms after its signal`);
  return ended.value;
}

/** Throws on an invalid outcome; returns a valid one as text. */
function inspect(outcome: SendOutcome): string {
  const text = JSON.stringify(outcome);
  assertRight(wrongOutcome(outcome), "send returned", text);
  if (outcome.kind === "sent") assert.notEqual(outcome.id, "", `an outcome "sent" without id: ${text}`);
  if (outcome.kind !== "sent")
    assert.notEqual(outcome.reason, "", `an outcome "${outcome.kind}" without reason: ${text}`);
  if (outcome.kind === "refused") assert.notEqual(outcome.code, "", `an outcome "refused" without code: ${text}`);
  return text;
}

async function sendsOnce(fixture: Fixture): Promise<void> {
  const composed = compose(fixture, "well");
  const ending = await send(fixture, composed);
  assert.equal(ending.kind, "sent", `all was well, and send came to ${ending.detail}`);
  await arrives(fixture, composed.text);
  assert.equal(await taken(fixture, composed.text), 1, "the peer took the message more than once");
}

async function crossesBeforeTheEffect(fixture: Fixture): Promise<void> {
  const composed = compose(fixture, "crossed");
  const { crossed } = await send(fixture, composed);
  assert.ok(crossed, "send never called crossing()");
  // An adapter that calls `crossing()` after the first byte has already sent the message and cannot cancel it.
  const stopped = compose(fixture, "stopped");
  const crossing = () => Promise.reject(new Error("crossing: the lease is over (planted)"));
  const ending = await send(fixture, stopped, { crossing });
  assert.equal(ending.kind, "deferred", `crossing() rejected, and send came to ${ending.detail}`);
  const nothing = async () => (await taken(fixture, stopped.text)) === 0;
  await throughout("crossing() was called when the message had gone out already", nothing, fixture.quietMs);
}

/** The core needs time to record the attempt. Until then nothing may reach the peer. */
async function waitsForTheCrossing(fixture: Fixture): Promise<void> {
  const nothingOf = (composed: ComposedDraft) => async () => (await taken(fixture, composed.text)) === 0;
  const slow = compose(fixture, "slow");
  const called = Promise.withResolvers<void>();
  const recorded = Promise.withResolvers<void>();
  const sending = send(fixture, slow, {
    crossing: () => {
      called.resolve();
      return recorded.promise;
    },
  });
  await Promise.race([called.promise, sending]);
  await throughout("send did not wait for crossing()", nothingOf(slow), fixture.quietMs);
  recorded.resolve();
  const ending = await sending;
  assert.equal(ending.kind, "sent", `crossing() took long, and send came to ${ending.detail}`);
  // An attempt that is aborted while it is recorded ends without an effect, also when the record follows.
  const late = compose(fixture, "late");
  const end = new AbortController();
  const pending = Promise.withResolvers<void>();
  // A send that never calls crossing() does not handle the rejection.
  pending.promise.catch(() => undefined);
  const begun = Promise.withResolvers<void>();
  const aborted = send(fixture, late, {
    signal: end.signal,
    crossing: () => {
      begun.resolve();
      return pending.promise;
    },
  });
  await Promise.race([begun.promise, aborted]);
  end.abort(new Error("the attempt's deadline (planted)"));
  await within(aborted, fixture.quietMs);
  pending.reject(new Error("crossing: the attempt has ended (planted)"));
  const ended = await within(aborted, graceMs);
  assert.ok(ended, `send had not ended ${graceMs} ms after crossing() rejected`);
  const { kind, detail } = ended.value;
  assert.equal(kind, "deferred", `the attempt ended while crossing() was pending, and send came to ${detail}`);
  await throughout("an attempt that had ended was sent", nothingOf(late), fixture.quietMs);
}

/** Number of concurrent sends with which `capacity` is tested. */
const testedSends = 3;

async function reportsCapacity(fixture: Fixture): Promise<void> {
  const capacity = capacityOf(fixture);
  const free = () => {
    const value = capacity();
    // An adapter without a limit has no capacity().
    assert.ok(value >= 0 && Number.isFinite(value), `capacity() returned ${value}`);
    return value;
  };
  const idle = free();
  assert.ok(idle > 0, "capacity() is 0 although nothing is sent");
  const gate = Promise.withResolvers<void>();
  const sends: Promise<TestedOutcome>[] = [];
  let crossing = 0;
  try {
    for (let n = 1; n <= idle + testedSends; n += 1) {
      const blocked = () => {
        crossing += 1;
        return gate.promise;
      };
      sends.push(send(fixture, compose(fixture, `capacity ${n}`), { crossing: blocked }));
      const fix = "count each send from its call to its end, as countedSends does";
      assert.equal(free(), Math.max(0, idle - n), `capacity() did not fall with ${n} running sends: ${fix}`);
    }
    const announced = `as many sends at the crossing as capacity() announced (${idle}; its connections are too few, or used otherwise)`;
    await eventually(announced, () => crossing >= idle, fixture.patienceMs);
    await throughout("more sends began than capacity() announced", () => crossing === idle, fixture.quietMs);
  } finally {
    gate.resolve();
    await Promise.allSettled(sends);
  }
  const kinds = new Set((await Promise.all(sends)).map(({ kind }) => kind));
  assert.deepEqual([...kinds], ["sent"], `sends beyond the capacity came to ${[...kinds].join(", ")}`);
  assert.equal(free(), idle, "capacity() did not rise again when the sends had ended");
}

/** One more than the core's default `concurrency`. */
const withoutLimit = 65;

/** The core claims as many drafts as `concurrency` when there is no `capacity`: all of them must be able to begin. */
async function letsNoneWait(fixture: Fixture): Promise<void> {
  if (outboundOf(fixture).capacity !== undefined) return;
  let crossing = 0;
  const end = Promise.withResolvers<void>();
  end.promise.catch(() => undefined); // there may be no send at the crossing
  const blocked = () => {
    crossing += 1;
    return end.promise;
  };
  const sends = Array.from({ length: withoutLimit }, (_, n) =>
    send(fixture, compose(fixture, `unlimited ${n}`), { crossing: blocked }),
  );
  try {
    const all = `${withoutLimit} sends at the crossing, because there is no capacity()`;
    await eventually(all, () => crossing === withoutLimit, fixture.patienceMs);
  } finally {
    end.reject(new Error("crossing: the lease is over (planted)"));
    await Promise.allSettled(sends);
  }
}

const endsAs = (fault: Fault, kind: SendOutcome["kind"]) => async (fixture: Fixture) => {
  const composed = compose(fixture, fault);
  await fixture.peer.fault(fault);
  const ending = await send(fixture, composed);
  assert.equal(ending.kind, kind, `expected ${kind}, and send came to ${ending.detail}`);
  await assertReceived(fixture, composed, fault);
};

/** Asserts that `send` returns soon after its signal aborts when the peer stops responding. */
const endsSilenceAs = (fault: Fault, kind: SendOutcome["kind"]) => async (fixture: Fixture) => {
  const composed = compose(fixture, fault);
  await fixture.peer.fault(fault);
  const end = new AbortController();
  const work = send(fixture, composed, { signal: end.signal });
  if (fault === "hang-after") await assertReceived(fixture, composed, fault);
  else await within(work, fixture.quietMs);
  end.abort(new Error("the attempt's deadline (planted)"));
  const ended = await within(work, graceMs);
  assert.ok(ended, `send had not ended ${graceMs} ms after its signal`);
  const { detail } = ended.value;
  assert.equal(ended.value.kind, kind, `expected ${kind}, and send came to ${detail}`);
  await assertReceived(fixture, composed, fault);
};

/** Compares the outcome with what the peer actually received. */
async function assertReceived(fixture: Fixture, composed: ComposedDraft, fault: Fault): Promise<void> {
  if (fault === "cut-after" || fault === "hang-after") {
    await arrives(fixture, composed.text, `the message at the peer (the harness's "${fault}" takes it)`);
    assert.equal(await taken(fixture, composed.text), 1, "the peer took the message more than once");
  } else if (fault === "server-error") {
    assert.ok((await taken(fixture, composed.text)) <= 1, "the peer took the message more than once");
  } else {
    const nothing = async () => (await taken(fixture, composed.text)) === 0;
    await throughout(`the peer took a message at "${fault}"`, nothing, fixture.quietMs);
  }
}

/** A key that expires must not fail the replies of that day. */
async function waitsForTheLogin(fixture: Fixture): Promise<void> {
  const composed = compose(fixture, "login");
  const { kind, outcome, detail } = await send(fixture, composed);
  const fix = "return deferred with the scope channel and the cause login";
  assert.equal(kind, "deferred", `the peer rejects the login, and send came to ${detail}: ${fix}`);
  const scope = outcome?.kind === "deferred" ? (outcome.scope ?? "draft") : "channel";
  assert.ok(scope === "channel" || scope === "sender", `every draft meets the rejected login, not this one: ${fix}`);
  assert.equal(await taken(fixture, composed.text), 0, "the peer rejects the login, and took the message");
}

const faultCheck = (fault: Fault, kind: SendOutcome["kind"], when: string, ...needs: Check["needs"]): Check =>
  check(
    `send: ${kind} ${when}`,
    ["outbound", fault, ...needs],
    fault.startsWith("hang") ? endsSilenceAs(fault, kind) : endsAs(fault, kind),
  );

export const sendChecks: readonly Check[] = [
  check("send: sent, once, when all is well", ["outbound"], sendsOnce),
  check("send: calls crossing(), and before the first byte with an effect", ["outbound"], crossesBeforeTheEffect),
  check("send: waits for crossing(), and sends nothing when the attempt ends there", ["outbound"], waitsForTheCrossing),
  check(
    "capacity: falls with running sends, and is the number that can begin",
    ["outbound", "capacity"],
    reportsCapacity,
  ),
  check("capacity: where there is none, no send waits for another", ["outbound"], letsNoneWait),
  faultCheck("refuse-connection", "deferred", "when the connection is refused"),
  faultCheck("refuse-message", "refused", "when the peer says never"),
  faultCheck("later", "deferred", "when the peer says later"),
  check("send: deferred when the login is rejected", ["outbound", "credentials"], waitsForTheLogin, {
    credentials: "wrong",
  }),
  faultCheck("cut-before", "deferred", "when the line is cut before the crossing", "handshake"),
  faultCheck("hang-before", "deferred", "when the peer is silent before the crossing", "handshake"),
  faultCheck("cut-after", "unknown", "when the line is cut after the crossing"),
  faultCheck("hang-after", "unknown", "when the peer is silent after the crossing"),
  faultCheck("server-error", "unknown", "when the peer's error does not tell whether it took the message"),
];
