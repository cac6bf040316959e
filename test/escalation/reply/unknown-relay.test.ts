// A text that the platform may have twice reaches the customer once; setting the clock back delays no notification.

import { expect, it } from "vitest";
import type { PlatformMessage } from "../../../src/agent/calls.ts";
import { planPoll } from "../../../src/escalation/poll/decide.ts";
import { loadPollFacts } from "../../../src/escalation/poll/rows.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { forget } from "../../../src/store/retention.ts";
import { bindPlatform } from "../../../src/store/tables/conversations.ts";
import { insertReply } from "../../../src/store/tables/drafts.ts";
import { addTargets, dueNotifications } from "../../../src/store/tables/responders.ts";
import { endAttempt, enqueueTurn, readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import { openPipeline } from "../../support/pipeline/pipeline.ts";
import { lineOf } from "../../support/pipeline/stage.ts";
import { addNotification, concludeTurn, conversation, insertEscalation } from "../../support/store/databases.ts";

const human = (id: string, text: string): PlatformMessage => ({ id, role: "human", text, answers: null });

it.each([
  ["refused", 1],
  ["deferred", 2],
])("text stored again after an attempt that was %s is relayed from the platform %d times", async (outcome, count) => {
  const pipeline = await openPipeline();
  const line = lineOf();
  const texts = await pipeline.db.tx(async (q) => {
    const person = "anna@customer.example";
    const opened = await conversation(q, "k", "c", person);
    await bindPlatform(q, opened, "p");
    const turn = { id: "t", conversation: opened, channel: "c", person, kind: "relayed" } as const;
    const words = { event: null, question: "On its  way.", context: null, address: "{}", receivedAt: 0 };
    await enqueueTurn(q, { ...turn, ...words });
    for (const end of [outcome, "sent"]) {
      await recordAsking(q, await readTurn(q, "t"), "node", 1);
      await endAttempt(q, "t", end, null);
    }
    await concludeTurn(q, "t", { state: "answered", open: 0, questionId: "known" });
    const watch = { conversation: opened, channel: "c", mode: "manual", mark: null, position: 0, failures: 0 };
    const said = [human("known", "On its way."), human("first", "On its way."), human("other", "Another word")];
    const read = { messages: said, start: 0, end: 3, skipped: 0, failure: null };
    const settings = { policy: null, timing: standardTiming.escalation };
    const plan = async () => {
      const facts = await loadPollFacts(q, opened, "p");
      return planPoll(watch, { mode: "manual", read, until: 0 }, { ...facts, takeover: null }, line, settings);
    };
    const { deliver, record } = await plan();
    for (const { id, text } of [...deliver, ...record])
      await insertReply(q, { id, conversation: opened, channel: "c", turn: null, text, kind: "human", platformId: id });
    await q.run("UPDATE turns SET received_at = 0");
    expect((await forget(q, { rawMs: 1, eventsMs: 1 }, 1)).turns).toBe(1);
    expect((await plan()).deliver, "once the text is forgotten").toEqual([]);
    return deliver;
  });
  expect(texts).toHaveLength(count);
  expect(texts).toContainEqual(human("other", "Another word"));
});

it("a notification due in an hour is sent when the clock is set back a day", async () => {
  const pipeline = await openPipeline();
  const due = () => pipeline.db.tx((q) => dueNotifications(q, 10, 60_000));
  await pipeline.db.tx(async (q) => {
    const row = { id: "e", about: "channel:c:held", conversation: null, channel: "c", agent: "a" };
    await insertEscalation(q, { ...row, cause: "held", topic: null, reason: "r" });
    const person = { person: "dora", name: "Dora", way: "email", address: "d@people.example" } as const;
    await addTargets(q, [{ id: "k", escalation: "e", channel: "c", ...person }]);
    await addNotification(q, { id: "n", target: "k", kind: "opened", subject: "", text: null }, 3_600_000);
  });
  expect(await due()).toEqual([]);
  await pipeline.db.tx((q) =>
    q.run("UPDATE notifications SET made_at = made_at + 86400000, due_at = due_at + 86400000"),
  );
  expect(await due()).toMatchObject([{ id: "n" }]);
});
