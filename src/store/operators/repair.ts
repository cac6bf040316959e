// Repair of messages and replies that stopped or wait: retry, release, send now or drop many of them, selected by id, or by
// state, code and channel. For the command line and the web console. Each item is changed alone, by the function of
// inbox.ts or outbox.ts for one item; the transactions are small, so the daemon may run in the meantime.

import { failpoints } from "../../ops/failpoints.ts";
import type { Database, Query } from "../driver.ts";
import { listedDrafts } from "../tables/drafts.ts";
import { dropEvent, releaseEvent } from "./inbox.ts";
import { dropDraft, notDropped, resendDraft, sendDraftNow } from "./outbox.ts";

/** `inbox`: received messages · `outbox`: drafts. */
export type Box = "inbox" | "outbox";

/** `retry`: ask or send again what was refused, failed or is held · `release`: what is held · `send-now`: drafts that wait
 *  for their delay or their next attempt · `drop`: close it without an answer. */
export type Repair = "retry" | "release" | "send-now" | "drop";

export interface Selection {
  /** Numbers of messages, or ids of drafts. Without ids: everything that matches the other members. */
  readonly ids?: readonly (string | number)[];
  /** Only items in one of these states. Default: all from which the repair starts, without what an operator has
   *  dropped. */
  readonly states?: readonly string[];
  /** The code of a message or draft; for one without a code its state. */
  readonly code?: string;
  readonly channel?: string;
}

export interface Operator {
  /** The operator's name, for the history. */
  readonly actor: string;
  /** The operator's reason, stored with each dropped item. */
  readonly reason?: string | undefined;
}

/** A number of items that a selection matches. */
export interface RepairGroup {
  readonly channel: string;
  readonly state: string;
  readonly code: string | null;
  readonly count: number;
}

export interface RepairCounts {
  /** Number of items that the selection matched. */
  readonly matched: number;
  readonly changed: number;
  /** Items that could not be changed, with the reason. Items that changed in the meantime, or together with another
   *  item (the parts of one reply, the messages of one question), are neither changed nor skipped. */
  readonly skipped: readonly { readonly id: string; readonly why: string }[];
}

export interface RepairStore {
  readonly db: Pick<Database, "read">;
  /** Runs a transaction and starts the work that became due. */
  commit<T>(write: (q: Query) => Promise<T>): Promise<T>;
}

/** The store as a command repairs it: the daemon, another process, is notified. */
export const besideDaemon = (db: Database): RepairStore => ({
  db,
  commit: (write) =>
    db.tx(async (q) => {
      const result = await write(q);
      await db.wake(q);
      return result;
    }),
});

/** Items per transaction. Limits the time for which the daemon's writes wait. */
const batch = 50;
/** Items per call of `repair` without ids. */
const most = 100_000;

const startStates: Readonly<Record<Box, Readonly<Record<Repair, readonly string[]>>>> = {
  inbox: {
    retry: ["held", "failed", "ignored"],
    release: ["held"],
    "send-now": [],
    drop: ["held", "failed"],
  },
  outbox: {
    retry: ["held", "failed"],
    release: ["held"],
    "send-now": ["queued"],
    drop: ["held", "failed"],
  },
};
const tables = { inbox: "events", outbox: "drafts" } as const;

/** Counts what `repair` would change, by channel, state and code. Changes nothing. */
export async function previewRepair(
  db: Pick<Database, "read">,
  box: Box,
  action: Repair,
  selection: Selection,
): Promise<readonly RepairGroup[]> {
  const found = await db.read((q) => matching(q, box, action, selection));
  const groups = Map.groupBy(found, ({ channel, state, code }) => JSON.stringify([channel, state, code]));
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { channel, state, code } = first;
    return [{ channel, state, code, count: 1 + others.length }];
  });
}

/** Changes every item that the selection matches now, at most 100,000 in one call. Items that begin to match later are
 *  left alone, so it always ends. A retried or released item may stop again for another reason. */
export async function repair(
  store: RepairStore,
  box: Box,
  action: Repair,
  selection: Selection,
  operator: Operator,
): Promise<RepairCounts> {
  const found = await store.db.read((q) => matching(q, box, action, selection));
  const skipped: { id: string; why: string }[] = [];
  let changed = 0;
  for (let at = 0; at < found.length; at += batch) {
    const some = found.slice(at, at + batch);
    const results = await store.commit(async (q) => {
      const tried: { id: string; why: string | null }[] = [];
      for (const item of some)
        if (selection.ids !== undefined || (await isStill(q, box, action, item)))
          tried.push({ id: String(item.id), why: await tryOne(q, box, action, item.id, operator) });
      failpoints["repair.commit"].publish({ phase: "before" });
      return tried;
    });
    failpoints["repair.commit"].publish({ phase: "after" });
    for (const { id, why } of results)
      if (why === null) changed += 1;
      else skipped.push({ id, why });
  }
  return { matched: found.length, changed, skipped };
}

/** Returns why the item was not changed; null when it was. */
async function tryOne(
  q: Query,
  box: Box,
  action: Repair,
  id: string | number,
  operator: Operator,
): Promise<string | null> {
  try {
    await q.savepoint(() => change(q, box, action, id, operator));
    return null;
  } catch (error) {
    // An error of the database itself ends the repair; the refusals of a change name the item.
    if (!(error instanceof Error) || !error.message.includes(`${id}: `)) throw error;
    return error.message.slice(error.message.indexOf(": ") + 2);
  }
}

function change(q: Query, box: Box, action: Repair, id: string | number, { actor, reason }: Operator): Promise<void> {
  if (box === "inbox")
    return action === "drop" ? dropEvent(q, Number(id), actor, reason) : releaseEvent(q, Number(id), actor);
  if (action === "drop") return dropDraft(q, String(id), actor, reason);
  return (action === "send-now" ? sendDraftNow : resendDraft)(q, String(id), actor);
}

interface Item {
  readonly id: string | number;
  readonly channel: string;
  readonly state: string;
  readonly code: string | null;
}

async function matching(q: Query, box: Box, action: Repair, selection: Selection): Promise<Item[]> {
  const { ids, states, code = "", channel = "" } = selection;
  const found: Item[] = [];
  for (const id of new Set(ids ?? [])) {
    const item = await q.one<Item>(`SELECT id, channel, state, code FROM ${tables[box]} WHERE id = $1`, id);
    // `change` reports an id that does not exist.
    found.push(item ?? { id, channel: "", state: "missing", code: null });
  }
  if (ids !== undefined) return found;
  // The condition of a partial index; without it the databases would scan the whole table.
  const listed = (state: string) =>
    box === "inbox" ? "state IN ('ignored', 'held', 'failed') AND kind = 'message'" : listedDrafts(state);
  // The first part of a reply takes the later parts with it.
  const order = box === "inbox" ? "id" : "conversation, seq";
  for (const state of startStates[box][action].filter((one) => states?.includes(one) ?? true)) {
    const rows = await q.all<Item>(
      `SELECT id, channel, state, code FROM ${tables[box]} WHERE ${listed(state)} AND state = $1 ${states === undefined ? `AND ${notDropped}` : ""}
         AND (COALESCE(code, state) = $2 OR $2 = '') AND (channel = $3 OR $3 = '') ORDER BY ${order} LIMIT $4`,
      state,
      code,
      channel,
      most - found.length,
    );
    found.push(...rows);
  }
  return found;
}

/** False when the item has changed since it was selected, also as a part of another one. */
async function isStill(q: Query, box: Box, action: Repair, { id, state }: Item): Promise<boolean> {
  const waits = action === "send-now" ? "AND (released = 0 OR due_at > now_ms())" : "";
  return (await q.one(`SELECT 1 FROM ${tables[box]} WHERE id = $1 AND state = $2 ${waits}`, id, state)) !== undefined;
}
