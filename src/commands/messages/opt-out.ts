// bridgehead opt-out: opts persons out of a channel, undoes it, and lists the addresses that get nothing. A person is
// named by the number of a message, or by an address and its channel.

import { loadChannel } from "../../config/index.ts";
import type { Database, Query } from "../../store/driver.ts";
import {
  type Lifted,
  listOptOuts,
  type OptedOut,
  type OptOut,
  type OptOutTarget,
  optOut as optOutIn,
  senderOf,
  undoOptOut,
} from "../../store/operators/opt-outs.ts";
import { allOwn, hashPrefix } from "../../store/tables/suppressions.ts";
import { exitCodes, fail, type Io, type ListOptions } from "../io.ts";
import { addressFor, wantedForm } from "../start.ts";
import { failUnknownChannel, load, useStore, withStore } from "../store/open.ts";
import { clean, jsonText, type ListColumn, operatorOf, printList, timeColumns } from "../text.ts";

interface OptOutOptions extends ListOptions {
  readonly action: "add" | "remove" | "list";
  /** Numbers of messages; with `channel` addresses. */
  readonly persons: readonly string[];
  readonly reason?: string;
}

type FindTarget = (q: Query) => Promise<OptOutTarget>;

export async function optOut(options: OptOutOptions, io: Io): Promise<number> {
  const { action, persons, channel: id } = options;
  if (action === "list") return withStore(options, io, (db) => list(db, options, io));
  if (persons.length === 0)
    fail(`opt-out ${action} needs the number of a message (inbox list), or --channel and an address`, exitCodes.usage);
  if (id === undefined) return withStore(options, io, (db) => change(db, persons.map(ofMessage), options, io));
  const loaded = await load((path, given) => loadChannel(path, id, given), options, io);
  const { channel, ids } = loaded;
  if (!channel) return failUnknownChannel(id, ids, loaded.file);
  const wanted = persons.map((text): FindTarget => {
    const address = addressFor(channel.adapter, text);
    if (address === null)
      return fail(`${text} is no address of channel ${id}: give ${wantedForm(channel.adapter)}`, exitCodes.usage);
    return async () => ({ channel: id, addresses: [address] });
  });
  return useStore(loaded, io, (db) => change(db, wanted, options, io));
}

function ofMessage(text: string): FindTarget {
  if (!/^[1-9]\d{0,14}$/.test(text))
    fail(`${text} is not the number of a message (inbox list); an address needs --channel`, exitCodes.usage);
  return (q) => senderOf(q, Number(text));
}

/** Changes all persons in one transaction: all of them, or after an error none. */
async function change(
  db: Database,
  wanted: readonly FindTarget[],
  { action, reason, json }: OptOutOptions,
  io: Io,
): Promise<number> {
  const operator = { actor: operatorOf(io), reason: clean(reason ?? "") || undefined };
  const lines: string[] = [];
  const results: unknown[] = [];
  await db
    .tx(async (q) => {
      lines.length = results.length = 0;
      for (const one of wanted) {
        const person = await one(q);
        const done = action === "add" ? await optOutIn(q, person, operator) : await undoOptOut(q, person, operator);
        results.push(...done);
        lines.push(...done.map((line) => ("waiting" in line ? addedText(line) : removedText(line))));
      }
      await db.wake(q);
    })
    .catch((error: Error) => fail(`${error.message}; nothing was changed`));
  if (json) io.out(jsonText(results));
  else for (const line of lines) io.out(line);
  return exitCodes.ok;
}

const addedText = ({ channel, address, waiting, earlier }: OptedOut): string =>
  `${address} gets nothing from channel ${channel} any more${earlier === null ? "" : ` (before: ${clean(earlier.reason)})`}${
    waiting === 0 ? "" : `; replies that wait and are dropped: ${waiting}`
  }`;

const removedText = ({ channel, address, reason, stays }: Lifted): string =>
  `${address} gets messages from channel ${channel} again (was: ${clean(reason)})${
    stays.length === 0 ? "" : `, except from ${stays.join(", ")}, which it opted out of`
  }`;

const columns: readonly ListColumn<OptOut>[] = [
  {
    head: "ADDRESS",
    cell: ({ address }) => (address.startsWith(hashPrefix) ? "(an erased person)" : address),
    flexible: true,
  },
  { head: "CHANNEL", cell: ({ channel }) => channel },
  { head: "OUR ADDRESS", cell: ({ own_address }) => (own_address === allOwn ? "all" : own_address) },
  ...timeColumns<OptOut>("SINCE", ({ updated_at }) => updated_at),
  { head: "BY", cell: ({ source }) => source },
  { head: "REASON", cell: ({ reason }) => reason, flexible: true },
];

async function list(db: Database, options: OptOutOptions, io: Io): Promise<number> {
  printList(await db.read((q) => listOptOuts(q, options)), columns, options, io);
  return exitCodes.ok;
}
