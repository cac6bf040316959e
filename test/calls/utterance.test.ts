// An utterance takes the short way when nothing else has to be decided about it, and the usual way otherwise.

import { randomBytes } from "node:crypto";
import { externalId, type MessageEvent } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { loseSession } from "../../src/calls/rows.ts";
import { CallSessions } from "../../src/calls/sessions.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { toRow } from "../../src/pipeline/accept/rows.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { type Query, touch } from "../../src/store/driver.ts";
import { noteOwnAddress } from "../../src/store/tables/conversations.ts";
import { readSession } from "../../src/store/tables/sessions.ts";
import { hideSuppressions, suppress } from "../../src/store/tables/suppressions.ts";
import { callHouse, callOf } from "../support/pipeline/pipeline.ts";
import { lineOf, listen } from "../support/pipeline/stage.ts";
import { insertEscalation, turn } from "../support/store/databases.ts";

const person = "ada@example.org";
const base = lineOf();
const voiceLine: ChannelRuntime = { ...base, traits: { ...base.traits, conversations: "person" } };

interface Case {
  readonly event?: Partial<MessageEvent>;
  readonly line?: Partial<ChannelRuntime>;
  readonly before?: (q: Query, conversation: string) => Promise<unknown>;
}

/** Returns whether an utterance took the short way, and the numbers of its rows. */
async function takes({ event: over, line, before }: Case) {
  const house = await callHouse();
  const call = callOf(house);
  await call.opens();
  const { conversation = "" } = (await call.facts()) ?? {};
  const event = { ...call.words("hello"), to: [{ address: "us@example.org" }], ...over };
  const sessions = new CallSessions(standardTiming);
  const context = { clock: house.clock, log: listen().log };
  const row = toRow("c", event, "n");
  return house.db.tx(async (q) => {
    await noteOwnAddress(q, "c", "us@example.org");
    await before?.(q, conversation);
    const rows = async () =>
      (await q.all("SELECT id FROM events")).length + (await q.all("SELECT id FROM turns")).length;
    const known = await rows();
    const isRouted = await sessions.routeUtterance(q, { ...voiceLine, ...line }, { event, row }, context);
    return [isRouted, (await rows()) - known];
  });
}

describe("an utterance of an open call", () => {
  it("is stored, routed and queued at once", async () => {
    expect(await takes({})).toEqual([true, 2]);
  });

  it.each<[string, Case]>([
    ["an event before it is not routed yet", { before: async (q) => touch(q, "events", "c") }],
    [
      "the session is lost",
      {
        before: async (q) => {
          const session = await readSession(q, "c", "call");
          if (session) await loseSession(q, session, "socket");
        },
      },
    ],
    [
      "it supersedes a question",
      {
        before: async (q, conversation) => {
          await turn(q, "older", conversation);
          await q.run("UPDATE turns SET session = 'call' WHERE id = 'older'");
        },
      },
    ],
    [
      "its caller is a responder",
      {
        before: async (q, conversation) => {
          const about = {
            about: "call",
            conversation,
            channel: "c",
            agent: "agent",
            topic: null,
            reason: "r",
          };
          await insertEscalation(q, { ...about, id: "e", cause: "topic" });
          await q.run(
            `INSERT INTO notification_targets (id, escalation, person, name, way, address, channel)
             VALUES ('t', 'e', 'p', 'P', 'sms', $1, 'c')`,
            person,
          );
        },
      },
    ],
    [
      "suppressions of erased people may be restored",
      {
        before: async (q) => {
          await suppress(q, "c", "bob@example.org", "they opted out");
          await hideSuppressions(q, ["bob@example.org"]);
        },
      },
    ],
    ["our address is new", { event: { to: [{ address: "new@example.org" }] } }],
    ["its caller is denied", { line: { rules: { ...base.rules, deny: [person] } } }],
    ["it has bytes", { event: { raw: randomBytes(3) } }],
    ["it has a fingerprint", { event: { fingerprint: "print" } }],
    ["it is for humans", { event: { forHumans: { subject: "voicemail" } } }],
    ["it is no part of a call", { event: { thread: { answers: [] } } }],
  ])("takes the usual way when %s", async (_, one) => {
    expect(await takes(one)).toEqual([false, 0]);
  });

  it("is asked once when the adapter reports it again", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    const words = { ...call.words("hello"), id: externalId("once") };
    await house.accepts("c", words);
    await house.settles();
    await house.accepts("c", words);
    await house.settles();
    expect(house.asked()).toEqual(["hello"]);
  });

  it("follows the event of the call before it, also when both share a commit", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    const first = await call.says("one");
    await house.settles();
    await Promise.all([
      call.tells("interrupted", { heard: "answer", about: first }),
      house.accepts("c", call.words("two")),
    ]);
    await house.settles();
    expect(house.asked()).toEqual(["one", "two"]);
    const heard = await house.db.read((q) => q.all("SELECT heard FROM drafts ORDER BY seq"));
    expect(heard).toEqual([{ heard: "answer" }, { heard: null }]);
  });
});
