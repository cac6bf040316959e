// Actions of operators on messages and drafts, for the history of a conversation.

import type { Query } from "../driver.ts";

export interface ActionRow {
  readonly id: number;
  readonly action: string;
  /** The operator: the login name of a command, or the name in the console. */
  readonly actor: string;
  readonly detail: string | null;
  readonly event: number | null;
  readonly draft: string | null;
  readonly made_at: number;
}

export const actionColumns = "id, action, actor, detail, event, draft, made_at";

/** The actor of an action whose caller does not know the operator. */
export const someOperator = "an operator";

interface NewAction {
  /** What was done, as a verb: `answer`, `drop`, `resend`. */
  readonly action: string;
  readonly actor: string;
  readonly detail?: string | null;
}

/** Records an action on a message or a draft, in the transaction that performs it. */
export async function recordAction(
  q: Query,
  { action, actor, detail = null }: NewAction,
  on: { readonly event: number } | { readonly draft: string },
): Promise<void> {
  const [table, column, id] = "event" in on ? ["events", "event", on.event] : ["drafts", "draft", on.draft];
  await q.write(
    `INSERT INTO actions (action, actor, detail, channel, conversation, ${column}, made_at)
     SELECT CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), channel, conversation, id, now_ms() FROM ${table} WHERE id = $1`,
    id,
    action,
    actor,
    detail,
  );
}
