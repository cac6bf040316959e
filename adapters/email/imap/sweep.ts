// One sweep reads all messages above the cursor, oldest first. It runs on connect, on every announcement of
// new messages, and every minute.

import type { ImapFlow } from "imapflow";
import { arrivedSince, type Fetched, list, listOnly, listWithSource } from "./fetch.ts";
import { type Batch, batchesOf, type Core, type Intake } from "./intake.ts";
import type { Progress } from "./progress.ts";

/** Up to this many announced messages are fetched together with their listing, in one round trip. */
const fewMails = 8;
/** In that round trip at most this many bytes of each message are fetched. */
const smallMail = 256_000;

export interface Sweeper {
  readonly core: Core;
  readonly client: ImapFlow;
  readonly intake: Intake;
  readonly progress: Progress;
}

/** `announced`: the number of new messages the server announced, null when unknown. Resolves with the
 *  number of messages to retry. */
export async function sweep(sweeper: Sweeper, announced: number | null): Promise<number> {
  const { client, intake, progress } = sweeper;
  const from = progress.position.uid + 1;
  // Without a new message `N:*` would download the last message again, so a scheduled poll only lists.
  const quick = announced !== null && announced > 0 && announced <= fewMails && !progress.gap;
  const found = quick ? await listWithSource(client, from, smallMail) : await list(client, from);
  const open = progress.open(found);
  if (open.length === 0) {
    // The message that blocked the cursor was deleted from the mailbox.
    progress.settle([]);
    return 0;
  }
  // Only a new connection can find messages above its cursor that are already stored.
  const fresh = announced === null ? await notKnown(sweeper, open) : open;
  return intake.take(quick ? quickBatches(fresh as Fetched[]) : batchesOf(fresh), (uids) =>
    progress.settle(uids),
  );
}

/** Rescans the messages that arrived since a time, at the first start and after a change of UIDVALIDITY.
 *  The core deduplicates known messages by fingerprint. The cursor advances only when the rescan is
 *  complete. */
export async function rescan(sweeper: Sweeper, since: number): Promise<number> {
  const { core, client, intake, progress } = sweeper;
  const limit = progress.position.uid;
  const uids = (await arrivedSince(client, since)).filter((uid) => uid <= limit);
  // INTERNALDATE has a resolution of one second.
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

/** Returns batches in order. Small messages are already fetched; the others are fetched as in any sweep. */
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
