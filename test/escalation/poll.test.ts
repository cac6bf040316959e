// Polling a conversation of the platform over HTTP: readable messages are used, also when others cannot be read.

import { describe, expect, it } from "vitest";
import { pollStage } from "../../src/escalation/poll/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { begin } from "../../src/pipeline/outbound.ts";
import { holdOpenWork } from "../../src/store/restored.ts";
import { bindPlatform, schedulePoll } from "../../src/store/tables/conversations.ts";
import { insertReply } from "../../src/store/tables/drafts.ts";
import { changeTurn } from "../../src/store/tables/turns.ts";
import { messageRecord } from "../support/client/client.ts";
import { escalationsIn, policyOf, raising, sourcesIn } from "../support/escalation/policy.ts";
import { openPipeline } from "../support/pipeline/pipeline.ts";
import { type Asked, listen, refusing } from "../support/pipeline/stage.ts";
import { concludeTurn, conversation, turn } from "../support/store/databases.ts";

/** A conversation in which one question was asked and answered, and a hand that looks at it. */
async function watched({ asksTwice = false, isStarted = false } = {}) {
  const lines = new Map<string, ChannelRuntime>();
  const raised = raising();
  const pipeline = await openPipeline({
    line(line) {
      lines.set(line.channel, raised(line));
      return raised(line);
    },
  });
  // The first question is lost on its way, for all that can be seen.
  if (asksTwice)
    pipeline.platform.faults.ask = (asked) => {
      delete pipeline.platform.faults.ask;
      asked.cut();
    };
  if (isStarted) {
    const opening = { introduction: "Your parcel is here.", subject: null, context: null, speak: true };
    const wanted = { channel: "c", agent: "agent", address: "ada@example.org", name: null, opening };
    await pipeline.db.tx((q) => begin(q, pipeline.clock, wanted));
    await pipeline.settles();
  } else await pipeline.arrives({ text: "hello" });
  if (asksTwice) await pipeline.passes(60_000);
  const [id = "", messages = []] = [...pipeline.platform.messages][0] ?? [];
  const { db, clock, rate } = pipeline;
  const { log, lines: logged } = listen();
  const stage = pollStage({
    timing: standardTiming,
    policy: () => policyOf(),
    lines: () => lines,
    db,
    rate,
    clock,
    log,
    node: "n",
  });
  const [{ conversation } = { conversation: "" }] = await db.read((q) =>
    q.all<{ conversation: string }>("SELECT id AS conversation FROM conversations"),
  );
  /** `due`: of another conversation, whose poll is due already. */
  const look = async (meanwhile?: () => Promise<unknown>, due?: string) => {
    clock.forward(1000);
    if (due === undefined) await db.tx((q) => schedulePoll(q, { id: conversation, channel: "c" }, 0));
    const [claimed] = (await db.tx((q) => stage.claim(q, "c", 1))).claimed;
    if (!claimed) throw new Error("the look is not due");
    const transition = await claimed.work(new AbortController().signal);
    await meanwhile?.();
    await db.tx(transition);
    return db.read((q) => q.one("SELECT * FROM polls WHERE conversation = $1", due ?? conversation));
  };
  const human = (name: string, length = 0) => {
    const over = { createdAt: new Date(Date.now() + messages.length * 1000).toISOString() };
    messages.push(messageRecord(name, "manual_assistant", `${name} ${"x".repeat(length)}`, over));
  };
  const delivered = async () =>
    (await db.read((q) => q.all<{ text: string }>("SELECT text FROM replies WHERE kind = 'human' ORDER BY id"))).map(
      ({ text }) => text.split(" ")[0],
    );
  return { ...pipeline, look, human, delivered, messages, id, logged };
}

/** The interface's envelope around pages of the size that is asked for. */
function paged(asked: Asked): object {
  const { messages = [] } = asked.perform() as { messages?: object[] };
  const currentPage = Number(asked.query.get("page"));
  const pageSize = Number(asked.query.get("pageSize"));
  const totalPages = Math.ceil(messages.length / pageSize);
  const page = { currentPage, pageSize, totalItems: messages.length, totalPages };
  return {
    ...page,
    hasNextPage: currentPage < totalPages,
    data: messages.slice((currentPage - 1) * pageSize, currentPage * pageSize),
  };
}

describe("a human's message with files", () => {
  it("reaches the customer without them, and the responders are notified, once", async () => {
    const { look, human, delivered, messages, db, logged } = await watched();
    await look();
    const [file, more] = ["invoice.pdf", "plan.png"].map((fileName, at) => {
      const time = new Date().toISOString();
      return { id: `f${at}`, fileName, openAIFileId: "", size: 1, createdAt: time, updatedAt: time };
    });
    human("text");
    human("alone");
    Object.assign(messages.at(-2) ?? {}, { files: [file, more] });
    Object.assign(messages.at(-1) ?? {}, { files: [file], message: "" });
    await look();
    await look();
    expect(await delivered()).toEqual(["", "text"]);
    const states = await db.read((q) => q.all("SELECT state FROM replies WHERE kind = 'human' ORDER BY id"));
    expect(states).toEqual([{ state: "composed" }, { state: "ready" }]);
    const lost = "what a human wrote on the platform did not reach the customer: files are not sent from the platform";
    expect((await sourcesIn(db)).sort()).toEqual([`${lost}: invoice.pdf`, `${lost}: invoice.pdf, plan.png`]);
    expect(await escalationsIn(db)).toMatchObject([{ state: "open" }]);
    const warning = "platform messages not delivered: the call is over, or they have files";
    expect(logged.filter((line) => line === warning)).toHaveLength(1);
  });
});

describe("a look at a large conversation", () => {
  it("keeps the mode that was read when the messages cannot be", async () => {
    const { platform, look, db, logged } = await watched();
    platform.mode = "manual";
    platform.faults.look = refusing(500);
    expect(await look()).toMatchObject({ mode: "manual", mark: null, failures: 1 });
    expect(await escalationsIn(db)).toMatchObject([{ state: "open", cause: "topic" }]);
    expect(logged).toContain("reading the platform's messages failed; its mode was read");
    platform.mode = "ai";
    expect(await look()).toMatchObject({ mode: "ai", failures: 2 });
    expect(await escalationsIn(db)).toMatchObject([{ state: "closed" }]);
  });

  it("is not repeated when the conversation belongs to a former agent of the channel, or stays missing", async () => {
    const { platform, look, db, logged } = await watched();
    platform.faults.mode = refusing(403);
    expect(await look()).toMatchObject({ failures: 1 });
    expect(await due()).not.toBeNull();
    async function due(): Promise<unknown> {
      const [row] = await db.read((q) => q.all<{ due_at: number | null }>("SELECT due_at FROM polls"));
      return row?.due_at;
    }
    platform.faults.mode = refusing(404);
    expect(await look()).toMatchObject({ failures: 2 });
    expect(await due()).not.toBeNull();
    await db.tx((q) => q.run("UPDATE polls SET failures = 60"));
    await look();
    expect(await due()).toBeNull();
    await db.tx((q) => q.run("UPDATE conversations SET agent = 'former'"));
    for (const status of [403, 404]) {
      platform.faults.mode = refusing(status);
      await db.tx((q) => q.run("UPDATE polls SET failures = 0"));
      await look();
      expect(await due()).toBeNull();
    }
    platform.faults.mode = refusing(500);
    await look();
    expect(await due()).not.toBeNull();
    expect(logged.filter((line) => line === "polling the platform failed")).toHaveLength(6);
  });

  it("reads 23 MB of messages, and delivers what a human wrote behind them", async () => {
    const { platform, look, human, delivered, messages, db } = await watched();
    for (let n = 0; n < 23; n++) messages.push(messageRecord(`large-${n}`, "assistant", "x".repeat(1_000_000)));
    human("last");
    platform.mode = "manual";
    expect(await look()).toMatchObject({
      mode: "manual",
      mark: "last",
      position: messages.length,
      failures: 0,
    });
    expect(await delivered()).toEqual(["last"]);
    expect(await escalationsIn(db)).toMatchObject([{ cause: "topic" }]);
  });

  it("is not blocked by a single message larger than any response", async () => {
    const { look, human, delivered, logged } = await watched();
    human("before");
    human("huge", 30_000_000);
    human("after");
    expect(await look()).toMatchObject({ mark: "after", failures: 0 });
    expect(await delivered()).toEqual(["before", "after"]);
    expect(logged).toContain("platform messages skipped: too large to be read");
  });

  it("delivers each message once when a later page fails, and continues from there", async () => {
    const { platform, look, human, delivered, messages } = await watched();
    let failing = "none";
    let asked: string[] = [];
    platform.faults.look = (request) => {
      asked.push(request.query.get("page") ?? "");
      if (request.query.get("page") === failing) request.answer(500, null);
      else request.answer(200, paged(request));
    };
    await look();
    for (let n = 0; n < 200; n++) human(`word-${n}`);
    failing = "3";
    const half = await look();
    expect(half).toMatchObject({ mark: messages[127]?.id, position: 128, failures: 1 });
    expect(await delivered()).toEqual(messages.slice(2, 128).map(({ id }) => id));
    failing = "none";
    asked = [];
    expect(await look()).toMatchObject({ mark: "word-199", position: 202, failures: 0 });
    expect(asked).toEqual(["2", "3", "4"]);
    expect(await delivered()).toEqual(messages.slice(2).map(({ id }) => id));
    await look();
    expect(await delivered()).toHaveLength(200);
  });

  it("treats no earlier messages as new when its first reading was cut off", async () => {
    const { platform, look, human, delivered, messages, db } = await watched();
    for (let n = 0; n < 100; n++) messages.push(messageRecord(`history-${n}`, "assistant", "Earlier"));
    human("mine");
    platform.faults.look = (request) =>
      request.query.get("page") === "2" ? request.answer(500, null) : request.answer(200, paged(request));
    expect(await look()).toMatchObject({ mark: null, position: 0, failures: 1 });
    platform.faults.look = (request) => request.answer(200, paged(request));
    expect(await look()).toMatchObject({ mark: "mine", failures: 0 });
    expect(await delivered()).toEqual(["mine"]);
    expect(await db.read((q) => q.all("SELECT 1 FROM replies WHERE text = 'Earlier'"))).toEqual([]);
  });

  it("reads everything again when its mark is gone", async () => {
    const { platform, look, human, delivered, messages } = await watched();
    platform.faults.look = (request) => request.answer(200, paged(request));
    for (let n = 0; n < 150; n++) human(`word-${n}`);
    await look();
    messages.splice(100, 52);
    human("new");
    expect(await look()).toMatchObject({ position: 0, failures: 1 });
    expect(await look()).toMatchObject({ mark: "new", position: 101, failures: 0 });
    expect((await delivered()).at(-1)).toBe("new");
    expect(await delivered()).toHaveLength(151);
  });
});

describe("a look at a conversation that the platform has continued", () => {
  it("never delivers what a human wrote there before our first question", async () => {
    const { platform, look, human, delivered, messages } = await watched();
    platform.faults.look = (request) => request.answer(200, paged(request));
    const role = (n: number) => (n === 98 ? "manual_assistant" : "assistant");
    const createdAt = new Date(0).toISOString();
    messages.unshift(
      ...Array.from({ length: 100 }, (_, n) => messageRecord(`old-${n}`, role(n), `old-${n}`, { createdAt })),
    );
    expect(await look()).toMatchObject({ position: 102, failures: 0 });
    await look();
    expect(await delivered()).toEqual([]);
    for (let n = 0; n < 100; n++) human(`word-${n}`);
    await look();
    await look();
    expect(await delivered()).toEqual(messages.slice(102).map(({ id }) => id));
  });
});

describe("a look at a conversation that we have opened, before the customer writes", () => {
  const introduction = messageRecord("a0", "assistant", "Your parcel is here.");

  it("is due shortly after the opening, and less often the longer the customer writes nothing", async () => {
    const { look, clock, db } = await watched({ isStarted: true });
    const dueIn = async () => {
      const [row] = await db.read((q) => q.all<{ due: number | null }>("SELECT due_at - now_ms() AS due FROM polls"));
      return row === undefined ? 0 : row.due;
    };
    expect(await dueIn()).toBeGreaterThan(0);
    expect(await dueIn()).toBeLessThanOrEqual(standardTiming.escalation.pollAfterAnswer);
    const hour = 3_600_000;
    const pauses: (number | null)[] = [];
    for (const passed of [0, 2, 9, 15]) {
      clock.forward(passed * hour);
      await look();
      pauses.push(await dueIn());
    }
    expect(pauses.map((ms) => ms && Math.round(ms / 60_000))).toEqual([5, 30, 60, null]);
  });

  it.each([
    ["with the introduction", [introduction]],
    ["without messages", []],
  ])("delivers what a human writes, once: a conversation %s", async (_, first) => {
    const { look, human, delivered, messages, sent } = await watched({ isStarted: true });
    messages.push(...first);
    await look();
    human("help");
    await look();
    human("more");
    await look();
    expect(await delivered()).toEqual(["help", "more"]);
    expect(sent).toEqual(["Your parcel is here."]);
  });

  it("delivers neither the introduction nor what was written before the opening", async () => {
    const started = await watched({ isStarted: true });
    const { platform, look, human, delivered, messages, db } = started;
    platform.faults.look = (request) => request.answer(200, paged(request));
    for (let n = 0; n < 100; n++) human(`old-${n}`);
    await look();
    messages.push({ ...introduction, createdAt: messages.at(-1)?.createdAt ?? "" });
    human("help");
    await look();
    human("more");
    await look();
    await started.arrives({ text: "thanks" });
    await look();
    expect(await delivered()).toEqual(["help", "more"]);
    expect(await db.read((q) => q.all("SELECT 1 FROM replies WHERE kind = 'answer' AND turn IS NULL"))).toEqual([]);
  });
});

describe("a look after the store was restored", () => {
  it("delivers no earlier messages, and every later one", async () => {
    const { look, human, messages, db, logged } = await watched();
    const goingOut = async () =>
      (
        await db.read((q) =>
          q.all<{ id: string }>(
            `SELECT platform_id AS id FROM replies WHERE turn IS NULL AND (state = 'ready'
               OR EXISTS (SELECT 1 FROM drafts WHERE drafts.reply = replies.id))`,
          ),
        )
      ).map(({ id }) => id);
    expect(await look()).toMatchObject({ mark: messages.at(-1)?.id });
    await db.tx((q) => holdOpenWork(q, null));
    // All of it was asked, answered and sent by the later state of the store.
    messages.push(messageRecord("late-question", "conversation_user", "And the bill?"));
    messages.push(messageRecord("late-answer", "assistant", "It is in your mail."));
    human("late-human");
    expect(await look()).toMatchObject({ mark: "late-human", position: messages.length });
    expect(await goingOut()).toEqual([]);
    expect(logged).toContain("platform messages not delivered: the store was restored");
    human("new");
    await look();
    await look();
    expect(await goingOut()).toEqual(["new"]);
  });
});

describe("a look after a question that was asked twice", () => {
  it("does not deliver the answer to the first one, which comes to light late", async () => {
    const { platform, look, messages, db } = await watched({ asksTwice: true });
    expect([platform.count("ask"), messages.length]).toEqual([2, 2]);
    await look();
    messages.push(messageRecord("first", "conversation_user", "hello"));
    messages.push(messageRecord("second-answer", "assistant", "Hi!", { conversationMessageId: "first" }));
    messages.push(messageRecord("other", "conversation_user", "somebody else's words"));
    messages.push(messageRecord("other-answer", "assistant", "Yes?", { conversationMessageId: "other" }));
    await look();
    const foreign = await db.read((q) => q.all("SELECT platform_id AS id FROM replies WHERE turn IS NULL"));
    expect(foreign).toEqual([{ id: "other-answer" }]);
  });
});

describe("a look at a conversation of the platform that two threads share", () => {
  it("does not deliver what the agent answers in the other thread, however late its answer is recorded", async () => {
    const { look, messages, id, db } = await watched();
    await look();
    const external = () => db.read((q) => q.all("SELECT platform_id FROM replies WHERE turn IS NULL"));
    await db.tx(async (q) => {
      await conversation(q, "other");
      await bindPlatform(q, "other", id);
      await turn(q, "t", "other");
    });
    messages.push(messageRecord("q2", "conversation_user", "question t"));
    messages.push(messageRecord("a2", "assistant", "An answer.", { conversationMessageId: "q2" }));
    await look(() => db.tx((q) => q.run("UPDATE turns SET state = 'asking' WHERE id = 't'")));
    expect(await external()).toEqual([]);
    // The response was lost, and is looked up.
    await db.tx((q) => q.run("UPDATE turns SET state = 'unknown' WHERE id = 't'"));
    await expect(look()).rejects.toThrow("the look is not due");
    await db.tx(async (q) => {
      await changeTurn(q, "t", { state: "answered", open: 0, questionId: "q2" });
      const answer = { conversation: "other", channel: "c", text: "An answer.", platformId: "a2" };
      await insertReply(q, { ...answer, id: "r", turn: "t" });
    });
    expect(await look()).toMatchObject({ mark: "a2", failures: 0 });
    expect(await external()).toEqual([]);
  });

  it("leaves a message that names the other thread's question to the poll of that thread", async () => {
    const { look, messages, id, db } = await watched();
    await look();
    await db.tx(async (q) => {
      await conversation(q, "other");
      await bindPlatform(q, "other", id);
      await turn(q, "t", "other");
      await concludeTurn(q, "t", { state: "answered", open: 0, questionId: "q7" });
    });
    messages.push(messageRecord("q7", "conversation_user", "question t"));
    messages.push(messageRecord("a8", "assistant", "And one more.", { conversationMessageId: "q7" }));
    messages.push(messageRecord("h9", "manual_assistant", "I help, too.", { conversationMessageId: "q7" }));
    const external = () =>
      db.read((q) => q.all("SELECT platform_id AS id, conversation FROM replies WHERE turn IS NULL ORDER BY id"));
    expect(await look()).toMatchObject({ mark: "h9" });
    expect(await external()).toEqual([]);
    await look(undefined, "other");
    expect(await external()).toEqual(["a8", "h9"].map((own) => ({ id: own, conversation: "other" })));
    await look();
    expect(await external()).toHaveLength(2);
  });
});
