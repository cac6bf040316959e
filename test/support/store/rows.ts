// Single rows of escalations, for tests.

import { expect } from "vitest";
import { recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { bindPlatform, cite } from "../../../src/store/tables/conversations.ts";
import { readDraft } from "../../../src/store/tables/drafts.ts";
import {
  addTriggers,
  type EscalationRow,
  insertEscalations,
  type NewEscalation,
  type NewTrigger,
} from "../../../src/store/tables/escalations.ts";
import { settleEvent } from "../../../src/store/tables/events.ts";
import { addNotifications, addTargets, type NewNotification } from "../../../src/store/tables/responders.ts";
import { changeTurn, endAttempt, readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import {
  concludeDraft,
  conversation,
  draft,
  fresh,
  type NewPlace,
  put,
  storeEvent,
  turn,
} from "./databases.ts";

/** Opens one; null when there is one about its subject, or the trigger `key` was recorded. */
export const insertEscalation = async (
  q: Query,
  row: Omit<NewEscalation, "key">,
  key = "",
): Promise<EscalationRow | null> => (await insertEscalations(q, [{ ...row, key }]))[0] ?? null;

/** False when the key was recorded before. */
export const addTrigger = async (q: Query, trigger: NewTrigger): Promise<boolean> =>
  (await addTriggers(q, [trigger])) === 1;

/** Due in `inMs` milliseconds. False for a duplicate. */
export const addNotification = async (
  q: Query,
  notification: Omit<NewNotification, "inMs">,
  inMs: number,
): Promise<boolean> => (await addNotifications(q, [{ ...notification, inMs }])) === 1;

/** Opens one about channel `c`, or whatever is said; null when there is one. */
export const opens = (q: Query, id: string, over: Partial<EscalationRow> = {}) =>
  insertEscalation(q, {
    id,
    about: "channel:c:cap",
    conversation: null,
    channel: "c",
    agent: "agent",
    cause: "cap",
    topic: null,
    reason: "a cap",
    ...over,
  });

/** The contact `id` of escalation `escalation`. */
export const contact = (q: Query, id: string, escalation: string, address = `${id}@example.org`) =>
  addTargets(q, [{ id, escalation, person: id, name: `Name ${id}`, way: "email", address, channel: "c" }]);

export const notice = (
  q: Query,
  id: string,
  of: string,
  kind: "opened" | "reminder" | "message" = "opened",
  inMs = 0,
) => addNotification(q, { id, target: of, kind, subject: "", text: null }, inMs);

// A conversation with a history, for what lists and finds it.

const body = (text: string) => JSON.stringify({ kind: "message", from: { name: "Anna" }, text });

/** A mail that was asked twice, answered, sent at the second attempt and delivered; a refused mail; an escalation. */
export async function withConversation(
  place: NewPlace,
): Promise<{ db: Database; asked: number; refused: number }> {
  const db = await fresh(place);
  return db.tx(async (q) => {
    const asked = await storeEvent(q, "INBOX/1/7", {
      cited: "<hello@example.org>",
      subject: "Lieferung Möbel",
      body: body("Where is it?\u001b[2J"),
      raw: { id: "raw", bytes: Buffer.from("raw bytes") },
    });
    await conversation(q, "k1");
    await bindPlatform(q, "k1", "conv_1");
    await turn(q, "t1", "k1");
    await settleEvent(q, asked, { state: "routed", conversation: "k1", turn: "t1" });
    for (const [outcome, detail] of [
      ["deferred", "503 Service Unavailable"],
      ["sent", null],
    ] as const) {
      await put(q, "turns", "t1", "state = 'waiting'");
      expect(await recordAsking(q, await readTurn(q, "t1"), "node", 1)).toBe(true);
      await endAttempt(q, "t1", outcome, detail);
    }
    await changeTurn(q, "t1", { state: "answered", open: 0, questionId: "msg_question" });
    await draft(q, "d1", "k1");
    await q.run("UPDATE replies SET turn = 't1', state = 'composed', platform_id = 'msg_answer'");
    for (const [outcome, detail] of [
      ["deferred", "451 4.7.1 try again later"],
      ["sent", "250 2.0.0 OK queued as 4F1"],
    ] as const) {
      await put(q, "drafts", "d1", "state = 'queued'");
      const row = await readDraft(q, "d1");
      expect(row && (await recordSending(q, row, "node", 1))).toBe(true);
      await endAttempt(q, "d1", outcome, detail);
    }
    await concludeDraft(q, "d1", { state: "sent", open: 0, externalId: "<reply@bridge.example>" });
    await cite(q, "c", "<reply@bridge.example>", "k1", "d1");
    const receipt = await storeEvent(q, "receipt", {
      kind: "delivery",
      sender: null,
      subject: null,
      body: JSON.stringify({ kind: "delivery", about: { key: "d1" }, state: "delivered" }),
    });
    await settleEvent(q, receipt, { state: "routed", conversation: "k1", reason: "2.1.5 delivered" });
    await opens(q, "e1", { about: "conversation:k1", conversation: "k1", reason: "asked for a human" });
    await addTrigger(q, { key: "s", escalation: "e1", source: "note", detail: "Dora: calls back" });
    await contact(q, "o", "e1");
    await notice(q, "n", "o");
    const refused = await storeEvent(q, "INBOX/1/8", {
      cited: "<news@shop.example>",
      sender: "news@shop.example",
      subject: "50%_off",
    });
    await settleEvent(q, refused, { state: "ignored", code: "bulk", reason: "List-Id header" });
    return { db, asked, refused };
  });
}
