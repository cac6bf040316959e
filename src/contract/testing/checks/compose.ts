// Rules of `compose`. Its drafts are stored, possibly sent by another process, and compared on a retry.

import assert from "node:assert/strict";
import { externalId, sendKey, threadToken } from "../../ids.ts";
import type { Reply } from "../../index.ts";
import { wallClock } from "../clock.ts";
import { type Check, check, createFixture, type Fixture, letters, outboundOf, present } from "../fixture.ts";
import { watchStillness } from "../stillness.ts";

/** Creates a reply with `text` to the peer's address, under a new key. */
export function replyWith(fixture: Fixture, text: string): Reply {
  const ours = present(fixture.peer.reply, "the peer has no reply", "outbound");
  const key = `k${letters(12)}`;
  return {
    key: sendKey(key),
    createdAt: new Date(1_700_000_000_000),
    cc: [],
    subject: "Your question",
    text,
    signature: null,
    introduction: null,
    senderName: null,
    answers: null,
    history: [],
    token: threadToken(`t${letters(12)}`),
    hops: 0,
    session: null,
    kind: "answer",
    ...ours,
  };
}

/** Replies that differ in every field that an adapter may read. */
function replies(fixture: Fixture): readonly Reply[] {
  const plain = replyWith(fixture, "A short answer.");
  const words = "Some words of a long answer, sentence after sentence. ";
  const long = words.repeat(Math.ceil(20_000 / words.length));
  return [
    plain,
    { ...plain, text: long },
    {
      ...plain,
      subject: null,
      signature: "Kind regards\nThe desk",
      introduction: "Hello",
      senderName: "Desk",
    },
    { ...plain, answers: externalId("<b@x>"), history: [externalId("<a@x>"), externalId("<b@x>")], hops: 1 },
    { ...plain, text: "**Bold**, a [link](https://example.com/a?b=1&c=2), ümläut, 漢字, 🎈\n\n- one\n- two" },
  ];
}

async function isDeterministic(fixture: Fixture): Promise<void> {
  // Simulates another process, one hour later.
  const later = await createFixture(fixture, fixture.peer, { clock: wallClock(3_600_000) });
  for (const reply of replies(fixture)) {
    const drafts = outboundOf(fixture).compose(structuredClone(reply));
    assert.ok(drafts.length > 0, "compose made nothing of a reply");
    const again = outboundOf(fixture).compose(structuredClone(reply));
    const elsewhere = outboundOf(later).compose(structuredClone(reply));
    assert.deepEqual(again, drafts, "compose made two things of one reply");
    assert.deepEqual(elsewhere, drafts, "compose makes something else an hour later");
  }
}

async function survivesJson(fixture: Fixture): Promise<void> {
  for (const reply of replies(fixture)) {
    const drafts = outboundOf(fixture).compose(structuredClone(reply));
    const stored: unknown = JSON.parse(JSON.stringify(drafts));
    assert.deepEqual(stored, drafts, "a draft changes when it is stored as JSON");
  }
}

async function isPure(fixture: Fixture): Promise<void> {
  const calls = fixture.channel.calls.length;
  for (const reply of replies(fixture)) {
    const before = structuredClone(reply);
    const { acts } = await watchStillness(() => outboundOf(fixture).compose(reply));
    assert.deepEqual(reply, before, "compose changed the reply");
    assert.deepEqual(acts, [], `compose did I/O or started timers: ${acts.join(", ")}`);
  }
  assert.equal(fixture.channel.calls.length, calls, "compose called accept");
}

async function keepsEveryWord(fixture: Fixture): Promise<void> {
  // Each word is unique, and no line is longer than a line of text.
  const words = Array.from({ length: 1800 }, () => letters(9));
  const lines = Array.from({ length: 300 }, (_, n) => `${words.slice(n * 6, n * 6 + 6).join(" ")}.`);
  const drafts = outboundOf(fixture).compose(replyWith(fixture, lines.join("\n\n")));
  const composed = JSON.stringify(drafts);
  const lost = words.filter((word) => !composed.includes(word));
  // A hard limit may split one word between two drafts.
  const fix = "split at the provider's limit, one draft for each part";
  assert.ok(
    lost.length < drafts.length,
    `compose lost ${lost.length} of ${words.length} words, such as ${lost[0]}: ${fix}`,
  );
}

export const composeChecks: readonly Check[] = [
  check("compose: is deterministic", ["outbound"], isDeterministic),
  check("compose: its drafts survive JSON", ["outbound"], survivesJson),
  check("compose: is pure", ["outbound"], isPure),
  check("compose: keeps every word of a long answer", ["outbound"], keepsEveryWord),
];
