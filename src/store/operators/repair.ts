// Repair of messages and replies that stopped: retry, release or drop many of them, selected by id, code or channel. For
// the command line and the web console. Each item is changed alone, by the function of inbox.ts or outbox.ts that the
// single commands use; the transactions are small, so the daemon may run meanwhile.

import { failpoint } from "../../ops/failpoints.ts";
import type { Database, Query } from "../driver.ts";
import { dropEvent, releaseEvent } from "./inbox.ts";
import { dropDraft, resendDraft } from "./outbox.ts";

/** `inbox`: received messages · `outbox`: drafts. */
export type Box = "inbox" | "outbox";

/** `retry`: ask or send again what was refused, failed or is held · `release`: what is held · `drop`: close it without
 *  an answer. */
export type Repair = "retry" | "release" | "drop";

export interface Selection {
  /** Numbers of messages, or ids of drafts. Without ids: everything that matches the other members. */
  readonly ids?: readonly (string | number)[];
  /** The code of a message or draft; for one without a code its state. */
  readonly code?: string;
  readonly channel?: string;
}

export interface Operator {
  /** The operator's name, for the history. */
  readonly actor: string;
  /** The operator's reason, stored with each dropped item. */
  readonly reason?: string;
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

/** Items per transaction. Limits the time for which the daemon's writes wait. */
const batch = 50;
/** Items per call of `repair` without ids. */
const most = 100_000;

/** The states that each repair starts from. Codes select among them. */
const startStates: Readonly<Record<Box, Readonly<Record<Repair, readonly string[]>>>> = {
  inbox: {
    retry: ["held", "failed", "ignored"],
    release: ["held"],
    drop: ["held", "failed"],
  },
  outbox: { retry: ["held", "failed"], release: ["held"], drop: ["held", "failed"] },
};
const tables = { inbox: "events", outbox: "drafts" } as const;

/** Counts what `repair` would change, by channel, state and code. Changes nothing. */
export async function previewRepair(
  db: Database,
  box: Box,
  action: Repair,
  selection: Selection,
): Promise<readonly RepairGroup[]> {
  const found = await db.read((q) => matching(q, box, action, selection));
  const groups = new Map<string, RepairGroup>();
  for (const { channel, state, code } of found) {
    const key = JSON.stringify([channel, state, code]);
    const { count } = groups.get(key) ?? { count: 0 };
    groups.set(key, { channel, state, code, count: count + 1 });
  }
  return [...groups.values()];
}

/** Changes every item that the selection matches now, at most 100,000 in one call. Items that begin to match later are
 *  left alone, so it always ends. A retried or released item may stop again for another reason. `progress` is called
 *  after each transaction. */
export async function repair(
  db: Database,
  box: Box,
  action: Repair,
  selection: Selection,
  operator: Operator,
  progress: (done: number, all: number) => void = () => undefined,
): Promise<RepairCounts> {
  const found = await db.read((q) => matching(q, box, action, selection));
  const skipped: { id: string; why: string }[] = [];
  let changed = 0;
  for (let at = 0; at < found.length; at += batch) {
    const some = found.slice(at, at + batch);
    const done = await db.tx(async (q) => {
      const result = { changed: 0, skipped: [] as { id: string; why: string }[] };
      for (const item of some) {
        const { id } = item;
        if (selection.ids === undefined && !(await isStill(q, box, item))) continue;
        try {
          await q.savepoint(() => change(q, box, action, id, operator));
          result.changed += 1;
        } catch (error) {
          if (!(error instanceof Error) || !error.message.includes(`${id}: `)) throw error;
          result.skipped.push({ id: String(id), why: error.message.slice(error.message.indexOf(": ") + 2) });
        }
      }
      await db.wake(q);
      failpoint("repair.commit", "before");
      return result;
    });
    failpoint("repair.commit", "after");
    changed += done.changed;
    skipped.push(...done.skipped);
    progress(at + some.length, found.length);
  }
  return { matched: found.length, changed, skipped };
}

function change(
  q: Query,
  box: Box,
  action: Repair,
  id: string | number,
  { actor, reason }: Operator,
): Promise<void> {
  if (box === "inbox")
    return action === "drop" ? dropEvent(q, Number(id), actor, reason) : releaseEvent(q, Number(id), actor);
  return action === "drop" ? dropDraft(q, String(id), actor, reason) : resendDraft(q, String(id), actor);
}

interface Item {
  readonly id: string | number;
  readonly channel: string;
  readonly state: string;
  readonly code: string | null;
}

async function matching(q: Query, box: Box, action: Repair, selection: Selection): Promise<Item[]> {
  const { ids, code = "", channel = "" } = selection;
  const found: Item[] = [];
  for (const id of new Set(ids ?? [])) {
    const item = await q.one<Item>(`SELECT id, channel, state, code FROM ${tables[box]} WHERE id = $1`, id);
    // `change` reports an id that does not exist.
    found.push(item ?? { id, channel: "", state: "missing", code: null });
  }
  if (ids !== undefined) return found;
  // The condition of the partial index; without it the databases would scan all events.
  const listed = box === "inbox" ? "state IN ('ignored', 'held', 'failed') AND kind = 'message' AND" : "";
  // The first part of a reply takes the later parts with it.
  const order = box === "inbox" ? "id" : "conversation, seq";
  for (const state of startStates[box][action]) {
    const rows = await q.all<Item>(
      `SELECT id, channel, state, code FROM ${tables[box]} WHERE ${listed} state = $1
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

/** False when the item has changed since it was selected. */
async function isStill(q: Query, box: Box, { id, state }: Item): Promise<boolean> {
  const row = await q.one<{ state: string }>(`SELECT state FROM ${tables[box]} WHERE id = $1`, id);
  return row?.state === state;
}
