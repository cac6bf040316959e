// The stages that one inbound message has passed, with their times. For the playground of the demo.

import type { Query } from "../driver.ts";
import type { DraftRow } from "../tables/drafts.ts";
import type { EventRow } from "../tables/events.ts";
import { type AttemptRow, attemptsOn } from "./outbox.ts";

export interface PassedStage {
  readonly name: "received" | "asked" | "answered" | "queued" | "sent" | "delivered";
  /** Epoch milliseconds. */
  readonly at: number;
  /** What happened when it is not the usual: an outcome, a reason, the number of attempts. */
  readonly detail: string | null;
}

export interface MessageStages {
  readonly passed: readonly PassedStage[];
  /** Where it ended or waits, in words; null while it proceeds, and when it was answered. */
  readonly stopped: string | null;
}

interface StageEvent extends Pick<EventRow, "id" | "state" | "code" | "reason" | "received_at"> {
  readonly turn: string | null;
}

/** Returns the stages of a message of that channel; null when it has not arrived. `pattern`: LIKE pattern of its external
 *  id; `index`: which of the messages that match. */
export async function stagesOf(q: Query, channel: string, pattern: string, index = 0): Promise<MessageStages | null> {
  const event = await q.one<StageEvent>(
    `SELECT id, state, code, reason, turn, received_at FROM events
     WHERE channel = $1 AND kind = 'message' AND external_id LIKE $2 ORDER BY id LIMIT 1 OFFSET $3`,
    channel,
    pattern,
    index,
  );
  if (event === undefined) return null;
  const received: PassedStage = { name: "received", at: event.received_at, detail: null };
  if (event.turn === null) {
    const stopped =
      event.state === "stored"
        ? null
        : event.code === "human"
          ? "handled as the answer of a responder"
          : `${event.state}: ${event.reason ?? event.code ?? ""}`;
    return { passed: [received], stopped };
  }
  return afterRouting(q, event.turn, received);
}

async function afterRouting(q: Query, turn: string, received: PassedStage): Promise<MessageStages> {
  const passed: PassedStage[] = [received];
  const asks = await attemptsOn(q, turn);
  const asked = asks.at(-1);
  if (asked) passed.push({ name: "asked", at: asked.started_at, detail: detailOf(asks) });
  const row = await q.one<{ state: string; reason: string | null }>(
    "SELECT state, reason FROM turns WHERE id = $1",
    turn,
  );
  const reply = await q.one<{ id: string; state: string; reason: string | null; created_at: number }>(
    "SELECT id, state, reason, created_at FROM replies WHERE turn = $1 ORDER BY id LIMIT 1",
    turn,
  );
  if (!reply) {
    const isRunning = ["waiting", "asking", "answered"].includes(row?.state ?? "");
    return { passed, stopped: isRunning ? null : `${row?.state}: ${row?.reason ?? "no answer"}` };
  }
  passed.push({ name: "answered", at: reply.created_at, detail: null });
  const draft = await q.one<Pick<DraftRow, "id" | "state" | "created_at" | "updated_at"> & { reason: string | null }>(
    "SELECT id, state, reason, created_at, updated_at FROM drafts WHERE reply = $1 ORDER BY seq LIMIT 1",
    reply.id,
  );
  if (!draft) return { passed, stopped: reply.state === "failed" ? `failed: ${reply.reason}` : null };
  passed.push({ name: "queued", at: draft.created_at, detail: null });
  const sends = await attemptsOn(q, draft.id);
  const sent = sends.at(-1);
  if (sent) passed.push({ name: "sent", at: sent.started_at, detail: detailOf(sends) });
  if (draft.state === "delivered") passed.push({ name: "delivered", at: draft.updated_at, detail: null });
  const isDone = ["sent", "delivered"].includes(draft.state);
  const isRunning = draft.state === "sending" || (draft.state === "queued" && sends.length === 0);
  if (isDone || isRunning) return { passed, stopped: null };
  const why = draft.reason ?? sent?.detail;
  return {
    passed,
    stopped: `${draft.state === "queued" ? "waits for a retry" : draft.state}${why ? `: ${why}` : ""}`,
  };
}

/** Describes attempts that were not simply sent. */
function detailOf(attempts: readonly AttemptRow[]): string | null {
  const last = attempts.at(-1);
  const outcome = last?.outcome === "sent" || last?.outcome === null ? null : (last?.outcome ?? null);
  const count = attempts.length > 1 ? `attempt ${attempts.length}` : null;
  return [count, outcome].filter((part) => part !== null).join(", ") || null;
}
