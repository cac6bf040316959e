// Missed calls notify responders once each, and answered calls do not. Also covers the last reply before a call is
// transferred.

import { externalId, type InboundEvent, type Reply, type SessionEvent, sessionId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { missedCall, transferUnanswered, voicemail } from "../../adapters/voice/engine/record.ts";
import type { Policy } from "../../src/domain/policy.ts";
import { pollStage } from "../../src/escalation/poll/stage.ts";
import { acknowledgeEscalation } from "../../src/escalation/reply/rows.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../../src/pipeline/channel-runtime.ts";
import { schedulePoll } from "../../src/store/tables/conversations.ts";
import { closeEscalation } from "../../src/store/tables/escalations.ts";
import { messageRecord } from "../support/client/client.ts";
import { escalationsIn, noticesIn, notifies, policyOf, raising, sourcesIn } from "../support/escalation/policy.ts";
import { callOf, openPipeline, type TestPipeline } from "../support/pipeline/pipeline.ts";
import { activeSettings } from "../support/pipeline/stage.ts";

const from = { address: "+15005550001" };
const call = "call-1";
const unserved = { call, from, ours: "+15005550006", at: Date.now() };
const recording = { id: "RE1", url: "https://recordings.example/RE1", seconds: "12" };
const policy = { causes: ["call", "held"] } satisfies Partial<Policy>;

interface Exchange extends TestPipeline {
  /** Tells of the call, and waits for all that follows. */
  tells(state: SessionEvent["state"], reason?: string, person?: string): Promise<void>;
  gets(...events: readonly InboundEvent[]): Promise<void>;
}

let events = 0;

/** A channel of calls. `wrap`: what else becomes of its line. */
async function exchange(
  wrap: (line: ChannelRuntime) => ChannelRuntime = raising(policy),
  rules: Partial<ChannelRuntime["rules"]> = {},
): Promise<Exchange> {
  const asCalls = (line: ChannelRuntime): ChannelRuntime => ({
    ...line,
    traits: { ...line.traits, conversations: "person", platform: "voice" },
  });
  const pipeline = await openPipeline({ line: (line) => wrap(asCalls(line)), rules });
  const gets: Exchange["gets"] = async (...given) => {
    await pipeline.accepts("c", ...given);
    await pipeline.settles();
  };
  return {
    ...pipeline,
    gets,
    tells: (state, reason, person = from.address) =>
      gets({
        kind: "session",
        id: externalId(`event-${++events}`),
        session: sessionId(call),
        state,
        from: { address: person },
        ...(reason === undefined ? {} : { reason }),
      }),
  };
}

const conversationOf = async (pipeline: TestPipeline): Promise<string> => {
  const row = await pipeline.db.read((q) => q.one<{ conversation: string }>("SELECT conversation FROM sessions"));
  return `conversation:${row?.conversation}`;
};

it.each([
  ["transferring", "no-answer", "the agent did not answer in a call, which is being transferred"],
  ["transferring", "lost", "the agent cannot be reached in a call, which is being transferred"],
  ["closed", "no-answer", "a call has ended without an answer to the caller"],
  ["closed", "failed", "a call has ended because the agent could not be reached"],
] as const)("tells of a call that was given up: %s, %s", async (state, why, reason) => {
  const pipeline = await exchange();
  await pipeline.tells("opened");
  await pipeline.tells(state, why);
  const about = await conversationOf(pipeline);
  expect(await escalationsIn(pipeline.db)).toMatchObject([{ about, state: "open", cause: "call", reason }]);
});

it("ignores calls that were served, and those that go to a human on request", async () => {
  const pipeline = await exchange();
  for (const [before, reason] of [
    [[], "hung-up"],
    [[], "silent"],
    [["asked"], "transferred"],
    [["escalated"], "transferred"],
  ] as const) {
    await pipeline.tells("opened");
    for (const why of before) await pipeline.tells("transferring", why);
    await pipeline.tells("closed", reason);
  }
  expect(await escalationsIn(pipeline.db)).toEqual([]);
});

it("counts all events of one call as one escalation, about the call's own conversation", async () => {
  const pipeline = await exchange();
  // Another call of the person is under way in their conversation.
  await pipeline.gets({
    kind: "session",
    id: externalId("other"),
    session: sessionId("call-0"),
    state: "opened",
    from,
  });
  await pipeline.tells("opened");
  await pipeline.tells("transferring", "no-answer");
  const missed = missedCall(unserved, transferUnanswered);
  await pipeline.gets(missed);
  await pipeline.gets(missed);
  await pipeline.tells("closed", "no-answer");
  const own = await pipeline.db.read((q) =>
    q.one<{ conversation: string }>("SELECT conversation FROM sessions WHERE id = $1", call),
  );
  expect(await escalationsIn(pipeline.db)).toMatchObject([{ about: `conversation:${own?.conversation}` }]);
  expect(await sourcesIn(pipeline.db)).toEqual([
    "the agent did not answer in a call, which is being transferred",
    "Missed call from +15005550001: +15005550001 called +15005550006 and was not served: the transfer was not answered. No message was left. Call: call-1",
    "a call has ended without an answer to the caller",
  ]);
});

it("says whether a message was left", async () => {
  const pipeline = await exchange();
  await pipeline.tells("opened");
  await pipeline.tells("transferring", "asked");
  await pipeline.gets(voicemail(unserved, recording));
  await pipeline.tells("closed", "voicemail");
  const [row, ...more] = await escalationsIn(pipeline.db);
  expect(more).toEqual([]);
  expect(row).toMatchObject({ cause: "call", about: await conversationOf(pipeline) });
  expect(row?.reason).toMatch(/^Voicemail from \+15005550001: .*this message was left\. Recording: https:/);
});

it("notifies the informed responders of the call's end; after an acknowledgement that responder alone", async () => {
  const pipeline = await exchange();
  await pipeline.tells("opened");
  await pipeline.tells("transferring", "no-answer");
  const [row] = await escalationsIn(pipeline.db);
  const id = row?.id ?? "";
  const [dora] = [await notifies(pipeline.db, id, "dora"), await notifies(pipeline.db, id, "emil")];
  const said = async () => (await noticesIn(pipeline.db)).filter(({ kind }) => kind === "message");
  await pipeline.gets(missedCall(unserved, transferUnanswered));
  expect((await said()).map(({ text }) => text?.slice(0, 32))).toEqual(
    Array(2).fill("1: Missed call from +15005550001"),
  );
  await pipeline.db.tx((q) => acknowledgeEscalation(q, id, { name: "Dora", target: dora }));
  await pipeline.gets(voicemail(unserved, recording));
  expect(await said()).toHaveLength(3);
  expect((await said()).filter(({ text }) => text?.includes("RE1"))).toHaveLength(1);
  expect(await escalationsIn(pipeline.db)).toHaveLength(1);
});

it("opens another one for news of a call whose escalation is closed", async () => {
  const pipeline = await exchange();
  await pipeline.tells("opened");
  await pipeline.tells("transferring", "no-answer");
  const [row] = await escalationsIn(pipeline.db);
  await pipeline.db.tx((q) => closeEscalation(q, row?.id ?? "", "Dora"));
  await pipeline.gets(voicemail(unserved, recording));
  expect((await escalationsIn(pipeline.db)).map(({ state }) => state)).toEqual(["closed", "open"]);
});

it("reports a message for humans also where the channel has no notify, and the call if nothing else is known", async () => {
  const pipeline = await exchange();
  await pipeline.gets(missedCall(unserved, "the agent did not answer"));
  expect(await pipeline.listed("held")).toEqual(["for-humans"]);
  expect(await escalationsIn(pipeline.db)).toMatchObject([{ cause: "call" }]);
});

it("opens nothing for callers who are to have no answer, for other causes, or without a configured trigger", async () => {
  const denied = await exchange(raising(policy), { deny: [from.address] });
  const deaf = await exchange(raising({ causes: ["topic"] }));
  const none = await exchange((line) => line);
  for (const pipeline of [denied, deaf, none]) {
    await pipeline.tells("opened");
    await pipeline.tells("transferring", "no-answer");
    await pipeline.gets(missedCall(unserved, transferUnanswered));
    await pipeline.tells("closed", "no-answer");
    expect(await escalationsIn(pipeline.db)).toEqual([]);
    expect(await sourcesIn(pipeline.db)).toEqual([]);
  }
});

/** A person is a mailbox to the platform here; only the polls know that the lines carry calls. */
const asCalls = (lines: ChannelRuntimes): ChannelRuntimes =>
  new Map([...lines].map(([id, line]) => [id, { ...line, traits: { ...line.traits, platform: "voice" } }]));

/** A served call, and a human who writes in the platform's interface. Their words in `spoken` were said in a call. */
async function handledCall() {
  const spoken: string[] = [];
  const replies: Reply[] = [];
  const pipeline = await openPipeline({
    outbound: {
      compose(reply) {
        replies.push(reply);
        return [{ text: reply.text }];
      },
      async send(body, attempt) {
        await attempt.crossing();
        spoken.push((body as { text: string }).text);
        return { kind: "sent", id: externalId(`said-${attempt.key}`) };
      },
    },
    line: (line) => raising(policy)({ ...line, traits: { ...line.traits, conversations: "person" } }),
    stages: (deps) => [pollStage({ ...deps, policy: () => policyOf(), lines: () => asCalls(deps.lines()) })],
  });
  const caller = callOf(pipeline, call);
  await caller.opens();
  await caller.says("lamp");
  await pipeline.settles();
  const [messages = []] = pipeline.platform.messages.values();
  const polls = async () => {
    const [row] = await pipeline.db.read((q) => q.all<{ id: string }>("SELECT id FROM conversations"));
    await pipeline.db.tx((q) => schedulePoll(q, { id: row?.id ?? "", channel: "c" }, 0));
    await pipeline.settles();
  };
  await polls();
  spoken.length = 0;
  return {
    ...pipeline,
    caller,
    replies,
    spoken,
    polls,
    async writes(text: string) {
      const over = { createdAt: new Date(pipeline.clock.now() + messages.length * 1000).toISOString() };
      messages.push(messageRecord(`human-${messages.length}`, "manual_assistant", text, over));
      await polls();
    },
  };
}

it("speaks what a human writes on the platform after the call in no later call, and notifies the responders", async () => {
  const pipeline = await handledCall();
  const { caller, spoken, db } = pipeline;
  await pipeline.writes("I am listening.");
  // It answers no message, so a newer one does not supersede it.
  expect(pipeline.replies.at(-1)).toMatchObject({ text: "I am listening.", answers: null, session: call });
  expect(spoken).toEqual(["I am listening."]);
  await caller.tells("closed", { reason: "hung-up" });
  await pipeline.settles();
  await pipeline.writes("It ships today.");
  const told = [
    "what a human wrote on the platform did not reach the customer: the call is over; the number is ada@example.org",
  ];
  expect(await sourcesIn(db)).toEqual(told);
  const next = callOf(pipeline, "call-2");
  await next.opens();
  await pipeline.polls();
  await next.says("Hello again");
  await pipeline.settles();
  await pipeline.polls();
  expect(spoken).toEqual(["I am listening.", "answer to Hello again"]);
  expect(await sourcesIn(db)).toEqual(told);
  await pipeline.writes("I am here.");
  expect(spoken.at(-1)).toBe("I am here.");
});

it("speaks what a human writes while the connection is lost when the call comes back, and notifies the responders when it does not", async () => {
  const pipeline = await handledCall();
  const { caller, spoken, db } = pipeline;
  await caller.tells("lost");
  await pipeline.settles();
  await pipeline.writes("One moment.");
  await caller.tells("opened");
  await pipeline.passes(1000);
  expect(spoken).toEqual(["One moment."]);
  await caller.tells("lost");
  await pipeline.settles();
  await pipeline.writes("It ships today.");
  await caller.tells("closed", { reason: "lost" });
  await pipeline.passes(1000);
  expect(spoken).toEqual(["One moment."]);
  expect(await sourcesIn(db)).toEqual(["the answer did not reach the customer (dropped): the call has ended"]);
});

it("notifies the responders of an answer that the caller has not heard, because the call did not come back", async () => {
  const pipeline = await handledCall();
  const { caller, spoken, db } = pipeline;
  // In one commit: the agent may answer a stored message before the next event is stored.
  await pipeline.accepts("c", caller.words("Where is it?"), caller.event("lost"));
  await pipeline.settles();
  await pipeline.passes(59_000);
  expect(await sourcesIn(db)).toEqual([]);
  await pipeline.passes(2000);
  expect(spoken).toEqual([]);
  expect(await sourcesIn(db)).toEqual(["the caller has not heard the answer: the call did not come back"]);
  expect(await escalationsIn(db)).toMatchObject([{ cause: "call", state: "open" }]);
});

const response = "answer to refund";

/** A call in which the agent answers; what its adapter was given to say. A person is a mailbox to the platform here. */
async function talk(wrap: (line: ChannelRuntime) => ChannelRuntime) {
  const replies: Reply[] = [];
  const escalations = [{ topic: "refund", response, recipients: [] }];
  const pipeline = await openPipeline({
    outbound: {
      compose(reply) {
        replies.push(reply);
        return [{ text: reply.text }];
      },
    },
    line: (line) =>
      wrap({
        ...line,
        traits: { ...line.traits, conversations: "person" },
        settings: () => ({ ...activeSettings(), escalations }),
      }),
  });
  return { house: pipeline, replies };
}

it("transfers a call after the answer that escalates, and after no other", async () => {
  const { house: pipeline, replies } = await talk(raising());
  const caller = callOf(pipeline);
  await caller.opens();
  await caller.says("lamp");
  await pipeline.settles();
  await caller.says("refund");
  await pipeline.settles();
  expect(replies.map(({ text, transfer }) => [text, transfer])).toEqual([
    ["answer to lamp", undefined],
    [response, true],
  ]);
  expect(await escalationsIn(pipeline.db)).toMatchObject([{ cause: "topic" }]);
  // The adapter reports these events of its own transfer: they change nothing.
  await caller.tells("transferring", { reason: "escalated" });
  await caller.tells("closed", { reason: "transferred" });
  await pipeline.settles();
  expect(await sourcesIn(pipeline.db)).toHaveLength(1);
});

it("transfers nothing in mails, nor without a configured escalation", async () => {
  const mails = await talk(raising());
  await mails.house.arrives({ text: "refund" });
  const calls = await talk((line) => line);
  const caller = callOf(calls.house);
  await caller.opens();
  await caller.says("refund");
  await calls.house.settles();
  for (const { replies } of [mails, calls])
    expect(replies.map(({ text, transfer }) => [text, transfer])).toEqual([[response, undefined]]);
  expect(await escalationsIn(mails.house.db)).toMatchObject([{ cause: "topic" }]);
  expect(await escalationsIn(calls.house.db)).toEqual([]);
});
