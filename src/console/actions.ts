// The actions on listed messages and replies: release, and drop with a reason. Each item is decided by the store, so an item
// that has changed since the page was loaded is skipped, and the operator is told why.

import type { Query } from "../store/driver.ts";
import { dropEvent, releaseEvent } from "../store/operators/inbox.ts";
import { dropDraft, resendDraft } from "../store/operators/outbox.ts";
import { type ListedItem, type ListFilter, listMessages, listReplies } from "../store/operators/worklists.ts";
import type { ConsoleContext } from "./context.ts";

export type ItemKind = "messages" | "replies" | "failed";

export interface ItemAction {
  readonly kind: ItemKind;
  readonly action: "release" | "drop";
  /** Why the items are dropped. */
  readonly why: string;
}

interface ItemsResult {
  readonly done: number;
  readonly skipped: number;
  /** Why the first of the skipped items was skipped. */
  readonly why: string | null;
}

/** Items per transaction. Limits the time for which the daemon's writes wait. */
const batch = 50;

/** The operator that the history of a message names. */
const actor = "the web console";

/** Returns the items of a kind that wait for an operator. */
export const listOf = (q: Query, kind: ItemKind, filter: ListFilter): Promise<ListedItem[]> =>
  kind === "messages"
    ? listMessages(q, ["held", "failed"], filter)
    : listReplies(q, kind === "failed" ? "failed" : "held", filter);

/** Applies the action to these items. */
export async function actOn(
  context: ConsoleContext,
  action: ItemAction,
  ids: readonly string[],
): Promise<ItemsResult> {
  const results: (string | null)[] = [];
  for (let from = 0; from < ids.length; from += batch)
    results.push(
      ...(await context.commit(async (q) => {
        const some: (string | null)[] = [];
        for (const id of ids.slice(from, from + batch)) some.push(await tryOne(q, action, id));
        return some;
      })),
    );
  return resultOf(results);
}

/** Applies the action to every item of a group, however many there are. An item that changed together with another one, such
 *  as the next part of a reply, is not reported. */
export async function actOnGroup(
  context: ConsoleContext,
  action: ItemAction,
  group: { readonly channel: string; readonly reason: string },
): Promise<ItemsResult> {
  const results: (string | null)[] = [];
  let after: string | undefined;
  for (;;) {
    const filter = { ...group, after, limit: batch };
    const items = await context.db.read((q) => listOf(q, action.kind, filter));
    const last = items.at(-1);
    if (last === undefined) return resultOf(results);
    after = last.position;
    results.push(
      ...(await context.commit(async (q) => {
        const some: (string | null)[] = [];
        for (const item of items)
          if (await isStill(q, action.kind, item)) some.push(await tryOne(q, action, item.id));
        return some;
      })),
    );
  }
}

function resultOf(results: readonly (string | null)[]): ItemsResult {
  const problems = results.filter((one) => one !== null);
  return { done: results.length - problems.length, skipped: problems.length, why: problems[0] ?? null };
}

/** False when the item has changed since it was listed. */
async function isStill(q: Query, kind: ItemKind, { id, state }: ListedItem): Promise<boolean> {
  const sql =
    kind === "messages" ? "SELECT state FROM events WHERE id = $1" : "SELECT state FROM drafts WHERE id = $1";
  const row = await q.one<{ state: string }>(sql, kind === "messages" ? Number(id) : id);
  return row?.state === state;
}

/** Returns why the item was skipped; null when the action was applied. */
async function tryOne(q: Query, { kind, action, why }: ItemAction, id: string): Promise<string | null> {
  try {
    await q.savepoint(async () => {
      if (kind !== "messages")
        await (action === "release" ? resendDraft(q, id, actor) : dropDraft(q, id, actor, why));
      else if (action === "release") await releaseEvent(q, Number(id), actor);
      else await dropEvent(q, Number(id), actor, why);
    });
    return null;
  } catch (error) {
    // An error of the database itself ends the action; the store's refusals name the item.
    if (!(error instanceof Error) || !error.message.includes(`${id}: `)) throw error;
    return error.message;
  }
}
