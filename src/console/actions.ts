// The actions on listed messages and replies: release, and drop with a reason. Each item is decided by the store, so an item
// that has changed since the page was loaded is skipped, and the operator is told why.

import type { Query } from "../store/driver.ts";
import { dropEvent, releaseEvent } from "../store/operators/inbox.ts";
import { dropDraft, resendDraft } from "../store/operators/outbox.ts";
import {
  type ListedItem,
  type ListFilter,
  listMessages,
  listReplies,
  type MessageState,
} from "../store/operators/worklists.ts";
import type { ConsoleContext } from "./context.ts";

export type ItemKind = "messages" | "replies" | "failed";

export interface ItemAction {
  readonly kind: ItemKind;
  readonly action: "release" | "drop";
  /** Why the items are dropped. */
  readonly why: string;
}

interface ActionResult {
  readonly done: number;
  readonly skipped: number;
  /** Why the first of the skipped items was skipped. */
  readonly why: string | null;
}

/** The operator in the recorded history; sessions have no names. */
const actor = "the console";

/** Items per transaction. Limits the time for which the daemon's writes wait. */
const batch = 100;

const heldStates: readonly MessageState[] = ["held", "failed"];

/** Returns the items of a kind that wait for an operator. */
export const listOf = (q: Query, kind: ItemKind, filter: ListFilter): Promise<ListedItem[]> =>
  kind === "messages"
    ? listMessages(q, heldStates, filter)
    : listReplies(q, kind === "failed" ? "failed" : "held", filter);

/** Applies the action to these items. */
export async function actOn(
  context: ConsoleContext,
  action: ItemAction,
  ids: readonly string[],
): Promise<ActionResult> {
  let [done, skipped] = [0, 0];
  let why: string | null = null;
  for (let from = 0; from < ids.length; from += batch) {
    const results = await context.commit(async (q) => {
      const problems: (string | null)[] = [];
      for (const id of ids.slice(from, from + batch)) problems.push(await tryOne(q, action, id));
      return problems;
    });
    const problems = results.filter((one) => one !== null);
    done += results.length - problems.length;
    skipped += problems.length;
    why ??= problems[0] ?? null;
  }
  return { done, skipped, why };
}

/** Applies the action to every item of a group, however many there are. */
export async function actOnGroup(
  context: ConsoleContext,
  action: ItemAction,
  group: { readonly channel: string; readonly reason: string },
): Promise<ActionResult> {
  let [done, skipped] = [0, 0];
  let why: string | null = null;
  let after: string | undefined;
  for (;;) {
    const items = await context.db.read((q) => listOf(q, action.kind, { ...group, after, limit: batch }));
    const last = items.at(-1);
    if (last === undefined) return { done, skipped, why };
    const result = await actOn(
      context,
      action,
      items.map(({ id }) => id),
    );
    done += result.done;
    skipped += result.skipped;
    why ??= result.why;
    after = last.position;
  }
}

/** Returns why the item was skipped; null when the action was applied. */
async function tryOne(q: Query, { kind, action, why }: ItemAction, id: string): Promise<string | null> {
  try {
    await q.savepoint(async () => {
      if (kind === "messages")
        await (action === "release"
          ? releaseEvent(q, Number(id), actor)
          : dropEvent(q, Number(id), actor, why));
      else await (action === "release" ? resendDraft(q, id, actor) : dropDraft(q, id, actor, why));
    });
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
