// Rules of `send`: its outcome matches what the peer received, wherever the connection can break.

import assert from "node:assert/strict";
import type { Attempt, Json, SendKey, SendOutcome } from "../index.ts";
import { replyWith } from "./checks-compose.ts";
import { noFiles } from "./files.ts";
import type { Fault } from "./harness.ts";
import { attempt as calling, deadline, eventually, throughout, within } from "./patience.ts";
import { type Check, graceMs, mark, outboundOf, present, type Rig, type Subject, withRig } from "./rig.ts";

export interface Letter {
  readonly draft: Json;
  readonly key: SendKey;
  readonly text: string;
}

/** Composes one draft, as it would be read from the store. */
export function compose(rig: Rig, word: string): Letter {
  const text = mark(word);
  const reply = replyWith(rig, text);
  const drafts = outboundOf(rig).compose(reply);
  assert.equal(drafts.length, 1, `compose made ${drafts.length} drafts of a few words`);
  return { draft: JSON.parse(JSON.stringify(drafts[0])) as Json, key: reply.key, text };
}

/** Returns how often the peer has accepted this text. */
export async function taken(rig: Rig, text: string): Promise<number> {
  const list = present(rig.peer.delivered?.bind(rig.peer), "the peer has no delivered()", "outbound");
  return (await list()).filter((one) => one.includes(text)).length;
}

/** The result of a `send`, interpreted like the core does. */
interface Ending {
  readonly kind: SendOutcome["kind"];
  readonly crossed: boolean;
  /** The outcome or the thrown error, for failure messages. */
  readonly told: string;
}

interface Conditions {
  readonly signal?: AbortSignal;
  readonly crossing?: () => void;
  /** Default: the reply has no files. */
  readonly read?: Attempt["read"];
}

export async function send(rig: Rig, letter: Letter, conditions: Conditions = {}): Promise<Ending> {
  let crossed = false;
  const attempt: Attempt = {
    key: letter.key,
    number: 1,
    signal: conditions.signal ?? deadline(rig.patienceMs),
    crossing: () => {
      conditions.crossing?.();
      crossed = true;
    },
    read: conditions.read ?? noFiles,
  };
  const work = calling(() => outboundOf(rig).send(letter.draft, attempt)).then(
    (outcome): Ending => ({ kind: outcome.kind, crossed, told: inspect(outcome) }),
    (error: unknown): Ending => ({
      kind: crossed ? "unknown" : "deferred",
      crossed,
      told: `a throw: ${String(error)}`,
    }),
  );
  const ended = await within(work, rig.patienceMs + graceMs);
  assert.ok(ended, `send had not ended ${graceMs} ms after its signal`);
  return ended.value;
}

/** Throws on an invalid outcome; returns a valid one as text. */
function inspect(outcome: SendOutcome): string {
  const text = JSON.stringify(outcome);
  const wants: Record<SendOutcome["kind"], readonly string[]> = {
    sent: ["id"],
    refused: ["code", "reason"],
    deferred: ["reason"],
    unknown: ["reason"],
  };
  assert.ok(outcome.kind in wants, `not an outcome: ${text}`);
  for (const field of wants[outcome.kind]) {
    const value = (outcome as unknown as Record<string, unknown>)[field];
    assert.ok(
      typeof value === "string" && value !== "",
      `an outcome "${outcome.kind}" without ${field}: ${text}`,
    );
  }
  return text;
}

async function sendsOnce(subject: Subject): Promise<void> {
  await withRig(subject, async (rig) => {
    const letter = compose(rig, "well");
    const ending = await send(rig, letter);
    assert.equal(ending.kind, "sent", `all was well, and send came to ${ending.told}`);
    await eventually(
      "the message at the peer",
      async () => (await taken(rig, letter.text)) > 0,
      rig.patienceMs,
    );
    assert.equal(await taken(rig, letter.text), 1, "the peer took the message more than once");
  });
}

async function crossesBeforeTheEffect(subject: Subject): Promise<void> {
  await withRig(subject, async (rig) => {
    const letter = compose(rig, "crossed");
    const { crossed } = await send(rig, letter);
    assert.ok(crossed, "send never called crossing()");
    // An adapter that calls `crossing()` after the first byte has already sent the message and cannot
    // cancel it.
    const stopped = compose(rig, "stopped");
    const crossing = () => {
      throw new Error("crossing: the lease is over (planted)");
    };
    const ending = await send(rig, stopped, { crossing });
    assert.notEqual(ending.kind, "sent", `crossing() threw, and send came to ${ending.told}`);
    const nothing = async () => (await taken(rig, stopped.text)) === 0;
    await throughout("crossing() was called when the message had gone out already", nothing, rig.quietMs);
  });
}

const endsAs = (fault: Fault, kind: SendOutcome["kind"]) => (subject: Subject) =>
  withRig(subject, async (rig) => {
    const letter = compose(rig, fault);
    await rig.peer.fault(fault);
    const ending = await send(rig, letter);
    assert.equal(ending.kind, kind, `expected ${kind}, and send came to ${ending.told}`);
    await tookIt(rig, letter, fault);
  });

/** Asserts that `send` returns soon after its signal aborts when the peer stops responding. */
const endsSilenceAs = (fault: Fault, kind: SendOutcome["kind"]) => (subject: Subject) =>
  withRig(subject, async (rig) => {
    const letter = compose(rig, fault);
    await rig.peer.fault(fault);
    const end = new AbortController();
    const work = send(rig, letter, { signal: end.signal });
    if (fault === "hang-after") await tookIt(rig, letter, fault);
    else await within(work, rig.quietMs);
    end.abort(new Error("the attempt's deadline (planted)"));
    const ended = await within(work, graceMs);
    assert.ok(ended, `send had not ended ${graceMs} ms after its signal`);
    const { told } = ended.value;
    assert.equal(ended.value.kind, kind, `expected ${kind}, and send came to ${told}`);
    await tookIt(rig, letter, fault);
  });

/** Compares the outcome with what the peer actually received. */
async function tookIt(rig: Rig, letter: Letter, fault: Fault): Promise<void> {
  if (fault === "cut-after" || fault === "hang-after") {
    const what = `the message at the peer (the harness's "${fault}" takes it)`;
    await eventually(what, async () => (await taken(rig, letter.text)) > 0, rig.patienceMs);
    assert.equal(await taken(rig, letter.text), 1, "the peer took the message more than once");
  } else {
    const nothing = async () => (await taken(rig, letter.text)) === 0;
    await throughout(`the peer took a message at "${fault}"`, nothing, rig.quietMs);
  }
}

const faultCheck = (fault: Fault, kind: SendOutcome["kind"], when: string): Check => ({
  name: `send: ${kind} ${when}`,
  needs: ["outbound", fault],
  run: fault.startsWith("hang") ? endsSilenceAs(fault, kind) : endsAs(fault, kind),
});

export const sendChecks: readonly Check[] = [
  { name: "send: sent, once, when all is well", needs: ["outbound"], run: sendsOnce },
  {
    name: "send: calls crossing(), and before the first byte with an effect",
    needs: ["outbound"],
    run: crossesBeforeTheEffect,
  },
  faultCheck("refuse-connection", "deferred", "when the connection is refused"),
  faultCheck("refuse-message", "refused", "when the peer says never"),
  faultCheck("later", "deferred", "when the peer says later"),
  faultCheck("cut-before", "deferred", "when the line is cut before the crossing"),
  faultCheck("hang-before", "deferred", "when the peer is silent before the crossing"),
  faultCheck("cut-after", "unknown", "when the line is cut after the crossing"),
  faultCheck("hang-after", "unknown", "when the peer is silent after the crossing"),
];
