// bridgehead inbox|outbox retry, release and drop, and bridgehead retry for both: repairs many messages and replies at
// once, selected by number or by the code for which they stopped. --dry-run counts and changes nothing.

import type { Database } from "../../store/driver.ts";
import {
  type Box,
  besideDaemon,
  previewRepair,
  type Repair,
  type RepairCounts,
  type RepairGroup,
  repair,
  type Selection,
} from "../../store/operators/repair.ts";
import { exitCodes, fail, type Io, type ListOptions } from "../io.ts";
import { withStore } from "../store/open.ts";
import { jsonText, type ListColumn, listing, operatorOf } from "../text.ts";

/** Options of the commands about messages, of which each has some. */
export interface MessageOptions<Action = string, State = string> extends ListOptions {
  readonly action: Action;
  /** Only items in this state. */
  readonly state?: State;
  readonly ids?: readonly string[];
  readonly query?: readonly string[];
  readonly all?: boolean;
  readonly code?: string;
  /** retry, release: the same as `code`; drop: the operator's reason. */
  readonly reason?: string;
  readonly dryRun?: boolean;
  /** list: only items after this one in the list. */
  readonly after?: string;
  readonly raw?: boolean;
  readonly full?: boolean;
}

/** bridgehead retry: both the inbox and the outbox. */
export const retryMessages = (options: MessageOptions, io: Io): Promise<number> =>
  withStore(options, io, (db) => runRepair(db, ["inbox", "outbox"], "retry", options, io));

/** Repairs the selection in the boxes. Returns the exit code: `failed` when an item could not be changed. */
export async function runRepair(
  db: Database,
  boxes: readonly Box[],
  action: Repair,
  options: MessageOptions,
  io: Io,
): Promise<number> {
  const [box = "inbox"] = boxes;
  const selection = selectionOf(boxes, action, options);
  if (typeof selection === "string")
    fail(`${boxes.length > 1 ? action : `${box} ${options.action}`}: ${selection}`, exitCodes.usage);
  if (options.dryRun) {
    const groups = [];
    for (const one of boxes)
      for (const group of await previewRepair(db, one, action, selection)) groups.push({ box: one, ...group });
    io.out(options.json ? jsonText(groups) : previewText(action, groups, io));
    return exitCodes.ok;
  }
  const reason = action === "drop" ? options.reason : undefined;
  const operator = { actor: operatorOf(io), ...(reason === undefined ? {} : { reason }) };
  const counts: RepairCounts[] = [];
  for (const one of boxes) counts.push(await repair(besideDaemon(db), one, action, selection, operator));
  const matched = counts.reduce((sum, one) => sum + one.matched, 0);
  const changed = counts.reduce((sum, one) => sum + one.changed, 0);
  const skipped = counts.flatMap((one) => one.skipped);
  if (options.json) io.out(jsonText({ matched, changed, skipped }));
  else {
    io.out(`${changed} of ${matched} ${done[action]}`);
    if (matched === 0 && "code" in selection)
      io.err(`nothing has the code ${selection.code}: give another one with --code (see the CODE column of list)`);
    for (const { id, why } of skipped.slice(0, mostShown)) io.err(`${id}: not changed: ${why}`);
    if (skipped.length > mostShown) io.err(`and ${skipped.length - mostShown} more (--json lists all)`);
  }
  return skipped.length > 0 ? exitCodes.failed : exitCodes.ok;
}

const mostShown = 20;
const done = {
  retry: "will be tried again",
  release: "released",
  "send-now": "will be sent now",
  drop: "dropped",
} as const;

function selectionOf(
  boxes: readonly Box[],
  action: Repair,
  { ids = [], all, state, code, reason, channel }: MessageOptions,
): Selection | string {
  const [box] = boxes;
  const selects = code ?? state ?? channel ?? (action === "drop" ? undefined : reason);
  if (ids.length > 0 && all) return "give either ids or --all";
  if (ids.length > 0) {
    if (selects !== undefined)
      return `give either ids, or --all with --code, --channel${action === "drop" ? "" : ", --reason"} and --state`;
    const wrong = ids.find((id) => box === "inbox" && !/^[1-9]\d{0,14}$/.test(id));
    if (wrong !== undefined) return `${wrong} is not the number of a message (see inbox list)`;
    return { ids: box === "inbox" ? ids.map(Number) : ids };
  }
  const wanted = action === "drop" ? code : (code ?? reason ?? (action === "send-now" ? "queued" : undefined));
  if (action === "drop" && all && wanted === undefined && reason !== undefined)
    return "--reason is your text: give --code CODE as well, what is dropped (see the CODE column of list)";
  if (!all || wanted === undefined)
    return `give ${boxes.length > 1 ? "" : "ids, or "}--all with ${action === "drop" ? "--code" : "--reason"} CODE (see the CODE column of list)`;
  return {
    code: wanted,
    ...(state === undefined ? {} : { states: [state] }),
    ...(channel === undefined ? {} : { channel }),
  };
}

type PreviewRow = RepairGroup & { readonly box: Box };

const columns: readonly ListColumn<PreviewRow>[] = [
  { head: "IN", cell: ({ box }) => box },
  { head: "CHANNEL", cell: ({ channel }) => channel },
  { head: "STATE", state: true, cell: ({ state }) => state },
  { head: "CODE", cell: ({ code }) => code },
  { head: "COUNT", right: true, cell: ({ count }) => count },
];

function previewText(action: Repair, groups: readonly PreviewRow[], io: Io): string {
  const total = groups.reduce((sum, { count }) => sum + count, 0);
  const summary = `${action} would change ${total}; nothing was changed (--dry-run)`;
  return groups.length === 0 ? summary : `${listing(columns, groups, io)}\n${summary}`;
}
