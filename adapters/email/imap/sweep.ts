// One sweep: everything above the cursor, oldest first. It runs on connect, on every announcement, every minute.

import type { ImapFlow } from "imapflow";
import { arrivedSince, type Fetched, list, listOnly, listWithSource } from "./fetch.ts";
import { type Batch, batchesOf, type Core, type Intake } from "./intake.ts";
import type { Progress } from "./progress.ts";

/** Up to this many announced mails are fetched together with their listing, in one round trip. */
const fewMails = 8;
/** In that round trip no more than this much of each. */
const smallMail = 256_000;

export interface Sweeper {
  readonly core: Core;
  readonly client: ImapFlow;
  readonly intake: Intake;
  readonly progress: Progress;
}

/** `announced`: how many new mails the server spoke of, null when unknown. Resolves with the number of mails that
 *  must be looked at again. */
export async function sweep(sweeper: Sweeper, announced: number | null): Promise<number> {
  const { client, intake, progress } = sweeper;
  const from = progress.position.uid + 1;
  // Without a new one `N:*` would bring the last mail once more, so a look of our own only lists.
  const quick = announced !== null && announced > 0 && announced <= fewMails && !progress.gap;
  const found = quick ? await listWithSource(client, from, smallMail) : await list(client, from);
  const open = progress.open(found);
  if (open.length === 0) {
    // What held the cursor has gone from the mailbox.
    progress.settle([]);
    return 0;
  }
  // Only a fresh connection can meet mails that are stored above its cursor.
  const fresh = announced === null ? await notKnown(sweeper, open) : open;
  return intake.take(quick ? quickBatches(fresh as Fetched[]) : batchesOf(fresh), (uids) =>
    progress.settle(uids),
  );
}

/** Looks through what arrived since a time, for the first start and after a change of UIDVALIDITY. The core knows
 *  by the fingerprint what it has. The cursor moves only when all of it is done. */
export async function rescan(sweeper: Sweeper, since: number): Promise<number> {
  const { core, client, intake, progress } = sweeper;
  const limit = progress.position.uid;
  const uids = (await arrivedSince(client, since)).filter((uid) => uid <= limit);
  // INTERNALDATE has whole seconds.
  const listed = (await listOnly(client, uids)).filter((one) => (one.arrived ?? since) + 1000 > since);
  const pending = await intake.take(batchesOf(await notKnown(sweeper, listed)), () => undefined);
  if (pending === 0) await core.accept([], progress.settle([]));
  return pending;
}

async function notKnown<T extends { readonly uid: number }>(
  sweeper: Sweeper,
  listed: readonly T[],
): Promise<T[]> {
  if (listed.length === 0) return [];
  const { core, intake, progress } = sweeper;
  const known = await core.known(listed.map((one) => intake.idOf(one.uid)));
  if (known.size === 0) return [...listed];
  const old = listed.filter((one) => known.has(intake.idOf(one.uid)));
  progress.settle(old.map((one) => one.uid));
  return listed.filter((one) => !known.has(intake.idOf(one.uid)));
}

/** In their order: small mails are there already, the others are fetched as in any sweep. */
function quickBatches(found: readonly Fetched[]): Batch[] {
  const batches: { listed: Fetched[]; here: boolean }[] = [];
  for (const one of found) {
    const here = one.raw !== null || one.size <= smallMail;
    const last = batches.at(-1);
    if (last?.here === here) last.listed.push(one);
    else batches.push({ listed: [one], here });
  }
  return batches.flatMap(({ listed, here }) => (here ? [{ listed, fetched: listed }] : batchesOf(listed)));
}
