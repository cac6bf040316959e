// Defects to plant: each is what somebody could plausibly write, and each must be caught by a case of the matrix. They
// prove that the matrix can fail.

import type { Invariant } from "./invariants.ts";
import { type Defects, keepDatabase } from "./planting.ts";

const ask = "src/pipeline/ask/stage.ts";
const answer = "src/pipeline/ask/outcomes.ts";
const concluding = "src/pipeline/ask/crossing.ts";
const accept = "src/pipeline/accept/stage.ts";
const acceptedRow = "src/pipeline/accept/decide.ts";
const send = "src/pipeline/send/stage.ts";
const settle = "src/pipeline/reconcile/stage.ts";
const lanes = "src/store/lanes.ts";
const intake = "adapters/email/imap/intake.ts";

export const defects: Defects<Invariant> = {
  "marks-first": {
    what: "a mail is moved out of the mailbox before it is committed",
    caught: "event.commit before 2 move",
    by: ["lost"],
    endless: true,
    edits: [
      {
        file: intake,
        find: "await core.accept(events, cursorAfter(uids));",
        put: "await options.mark(client, uids); await core.accept(events, cursorAfter(uids));",
      },
    ],
  },
  "cursor-first": {
    what: "the cursor is written in a transaction of its own, before the events",
    caught: "event.commit before 2",
    by: ["lost"],
    endless: true,
    edits: [
      { file: accept, find: "if (position) await moveCursor(q, channel, position);", put: "" },
      {
        file: accept,
        find: "const accepted = await scheduler.commit(",
        put: "if (position) await scheduler.commit((q) => moveCursor(q, channel, position));\n  const accepted = await scheduler.commit(",
      },
    ],
  },
  "cursor-last-no-dedupe": {
    what: "the cursor follows in a transaction of its own, and ids are not recognised",
    caught: "event.commit after 2",
    by: ["asked-twice"],
    edits: [
      { file: accept, find: "if (position) await moveCursor(q, channel, position);", put: "" },
      {
        file: accept,
        find: "  return accepted;",
        put: "  if (position) await scheduler.commit((q) => moveCursor(q, channel, position));\n  return accepted;",
      },
      {
        file: acceptedRow,
        find: "externalId: event.id,",
        put: "externalId: `${event.id}?${Math.random()}`,",
      },
      {
        file: acceptedRow,
        find: 'fingerprint: ("fingerprint" in event ? event.fingerprint : undefined) ?? null,',
        put: "fingerprint: null,",
      },
    ],
  },
  "no-fingerprint": {
    what: "copies under another position in the mailbox are not recognised",
    caught: "outcome.commit after 1 renumbered",
    // The mark on a copy keeps it from being answered twice: it is held instead.
    by: ["asked-twice", "held"],
    edits: [
      {
        file: acceptedRow,
        find: 'fingerprint: ("fingerprint" in event ? event.fingerprint : undefined) ?? null,',
        put: "fingerprint: null,",
      },
    ],
  },
  "attempt-not-recorded": {
    what: "a question is put before the attempt is written down",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    edits: [
      {
        file: concluding,
        find: 'if (asking.turn.state === "waiting") await record(asking, deps);',
        put: "",
      },
    ],
  },
  "asked-blindly-again": {
    what: "a question of unknown outcome is put again without looking",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    edits: [
      {
        file: ask,
        find: "return repeated ? lookUp(asking, platformId, signal, deps) : ask(asking, platformId, signal, deps);",
        put: "return ask(asking, platformId, signal, deps);",
      },
    ],
  },
  "opened-blindly-again": {
    what: "the conversation of an unanswered opening is not looked for",
    caught: "open.cross after 1 create",
    by: ["stray-conversation"],
    edits: [{ file: ask, find: "if (repeated) return findOpened(asking, signal, deps);", put: "" }],
  },
  "binding-with-the-answer": {
    what: "the platform's conversation is only remembered when it has answered",
    caught: "ask.cross after 1",
    by: ["asked-twice"],
    edits: [
      {
        file: ask,
        find: "return concluded(asking, result, deps, (started) => (q) => leave.bound(q, asking, started.conversationId));",
        put: `if (result.kind !== "ok") return concluded(asking, result, deps, () => async () => undefined);
  const { bindPlatform } = await import("../store/conversations.ts");
  const question = effect("ask.cross", { ...asking, turn: { ...asking.turn, state: "asking" } }, signal, deps);
  const said = await line.client.ask(result.value.conversationId, { text: asking.turn.question }, question);
  question.crossed();
  return concluded(asking, said, deps, (answer: Answer) => async (q) => {
    await bindPlatform(q, conversation.id, result.value.conversationId);
    await leave.answered(q, asking, answer, deps.clock);
  });`,
      },
    ],
  },
  "reply-outside": {
    what: "the reply is stored in a transaction after the one that closes the turn",
    caught: "answer.commit after 1",
    by: ["lost"],
    endless: true,
    edits: [
      {
        file: answer,
        find: "await insertReply(q, {",
        put: "void clock.sleep(50).then(() => globalThis.plantedDb.tx((later) => insertReply(later, {",
      },
      {
        file: answer,
        find: "    rendered,\n  });",
        put: "    rendered,\n  })));",
      },
      keepDatabase,
    ],
  },
  "bounce-outside": {
    what: "what a bounce says of its draft is written after the bounce itself",
    caught: "receipt.commit after 1",
    by: ["bounce"],
    edits: [
      {
        file: "src/pipeline/reconcile/receipts.ts",
        find: "await apply(q, line, draft, found.certain, event, log);",
        put: "setTimeout(() => void globalThis.plantedDb.tx((later) => apply(later, line, draft, found.certain, event, log)), 50);",
      },
      keepDatabase,
    ],
  },
  "sent-in-advance": {
    what: "a draft counts as sent when its attempt begins",
    caught: "send.record after 1",
    by: ["phantom"],
    edits: [
      {
        file: "src/store/tables/drafts.ts",
        find: "UPDATE drafts SET state = 'sending', attempts",
        put: "UPDATE drafts SET state = 'sent', open = 0, attempts",
      },
    ],
  },
  "unknown-sent-again": {
    what: "a draft of unknown outcome is sent again, whatever the policy says",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    edits: [
      {
        file: send,
        find: "work: (signal) => (fresh ? send(sending, signal, deps) : settle(sending, signal, deps)),",
        put: "work: (signal) => send(sending, signal, deps),",
      },
    ],
  },
  "sending-not-recorded": {
    what: "a draft is sent before the attempt is written down",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    endless: true,
    edits: [
      {
        file: send,
        find: 'if (sending.draft.state === "queued") await recordSending(q, sending.draft, deps.node, lease.token);',
        put: "",
      },
    ],
  },
  "silence-is-no": {
    what: "no reply after the final dot is taken for a refusal that may be repeated",
    caught: "silent relay hold",
    by: ["sent-twice"],
    edits: [
      {
        file: "adapters/email/smtp/outcome.ts",
        find: '{ kind: "unknown", reason: `no reply after the message: ${brief(error)}` }',
        put: '{ kind: "deferred", reason: brief(error), retryAfterMs: 100 }',
      },
    ],
  },
  "fresh-message-id": {
    what: "every attempt has a Message-ID of its own",
    caught: "send.cross after 1",
    by: ["changed-id"],
    edits: [
      {
        file: "adapters/email/smtp/message.ts",
        find: "messageId: clean(draft.messageId, 1000),",
        put: 'messageId: draft.messageId.replace("@", `.${Math.random()}@`),',
      },
    ],
  },
  "policy-ignored": {
    what: "`hold` resends",
    caught: "send.cross after 1 hold",
    by: ["sent-twice"],
    edits: [{ file: settle, find: "switch (rules.on_unknown) {", put: 'switch ("resend" as string) {' }],
  },
  "leases-left": {
    what: "leases of a dead process are waited for",
    caught: "ask.record after 1",
    by: ["lost", "unsettled"],
    endless: true,
    edits: [
      {
        file: lanes,
        find: '"UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE lease_until > 0"',
        put: '"UPDATE lanes SET holder = NULL WHERE lease_until > 0"',
      },
    ],
  },
  "delay-forgotten": {
    what: "after a restart everything is due",
    caught: "answer.commit after 1 late",
    by: ["too-early"],
    edits: [
      {
        file: lanes,
        find: "export async function endLeases(q: Query): Promise<void> {",
        put: `export async function endLeases(q: Query): Promise<void> {
  await q.run("UPDATE drafts SET due_at = 0 WHERE state = 'queued'");
  await q.run("UPDATE lanes SET due_at = 0 WHERE due_at IS NOT NULL");`,
      },
    ],
  },
  "youngest-first": {
    what: "a lane is worked from its end",
    caught: "route.commit after 1",
    by: ["order"],
    edits: [
      {
        file: "src/store/tables/turns.ts",
        find: "FROM turns WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1",
        put: "FROM turns WHERE conversation = $1 AND open = 1 ORDER BY seq DESC LIMIT 1",
      },
    ],
  },
  "no-guard": {
    what: "a holder whose lease was taken over writes all the same",
    caught: "stalled holder",
    by: ["sent-twice"],
    edits: [
      {
        file: lanes,
        find: "if (changed !== 1) throw new LeaseLost(lease.lane);\n}",
        put: "void changed;\n}",
      },
      {
        file: lanes,
        find: "if (!lane) throw new LeaseLost(lease.lane);",
        put: "if (!lane) return;",
      },
    ],
  },
};
