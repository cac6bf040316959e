// Runs one channel's inbound under the channel's lease until the process ends. Restarts it with backoff and
// jitter when it ends. The supervisor alone reconnects; adapters do not.

import type { Inbound } from "bridgehead/contract";
import { cursor } from "bridgehead/contract";
import { jitter } from "../ops/clock.ts";
import type { ReaderLease } from "../pipeline/accept/stage.ts";
import type { Core } from "../store/driver.ts";
import { dropLease, takeLease } from "../store/leases.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";
import { readCursor } from "../store/tables/events.ts";

export interface Supervised extends Core {
  readonly channel: string;
  readonly inbound: Inbound;
  /** Sets the lease under which accept() may write the cursor; null without a lease. `end` ends the run with an error. */
  setReader(reader: ReaderLease | null, end?: (error: unknown) => void): void;
  /** Returns whether the adapter has reported `ready`, or accepted something, since then (clock milliseconds). */
  hasWorked(since: number): boolean;
  /** Called in every iteration. The watchdog uses it to detect a stuck supervisor. */
  tick(): void;
  /** Called while this node does not read the channel. `held`: another node has the lease; false: the
   *  store did not answer. */
  standby(held: boolean): void;
  /** Called when the run ended unexpectedly. `againInMs`: delay before the restart. */
  fell(error: unknown, againInMs: number): void;
}

/** Runs until the signal aborts and the running inbound has ended. */
export async function supervise(one: Supervised, signal: AbortSignal): Promise<void> {
  const lease = `channel:${one.channel}`;
  const { renewal, restart, restartLongest, stableRun } = one.timing.channels;
  let backOff = restart;
  while (!signal.aborted) {
    one.tick();
    const token = await tryLease(one, lease);
    if (typeof token !== "number") {
      one.standby(token === "held");
      await one.clock.sleep(jitter(renewal), signal);
      continue;
    }
    const [began, since] = [one.clock.monotonic(), one.clock.now()];
    const error = await runOnce(one, { lease, token }, signal);
    if (signal.aborted) break;
    // A connection that is lost as soon as it is ready must not log in every second.
    if (one.clock.monotonic() - began > (one.hasWorked(since) ? backOff : stableRun)) backOff = restart;
    const pause = jitter(backOff);
    one.fell(error, pause);
    await one.clock.sleep(pause, signal);
    backOff = Math.min(backOff * 2, restartLongest);
  }
  await one.db.tx((q) => dropLease(q, lease, one.node)).catch(() => undefined);
}

/** Returns the lease's token; `held` when another node has the lease, `failed` when the store cannot be queried. */
async function tryLease(one: Supervised, lease: string): Promise<number | "held" | "failed"> {
  try {
    return (await one.db.tx((q) => takeLease(q, lease, one.node, one.timing.channels.lease))) ?? "held";
  } catch (error) {
    // The scheduler has one line for a store that is lost.
    const fields = { channel: one.channel, err: error };
    if (isUnreachable(error)) one.log.debug(fields, "taking the channel's lease failed, the store is unreachable");
    else one.log.error(fields, "taking the channel's lease failed");
    return "failed";
  }
}

async function runOnce(one: Supervised, reader: ReaderLease, signal: AbortSignal): Promise<unknown> {
  const stop = new AbortController();
  const life = AbortSignal.any([signal, stop.signal]);
  one.setReader(reader, (error) => stop.abort(error));
  const renewing = renew(one, reader, life).finally(() => stop.abort(new Error("the channel's lease was lost")));
  try {
    const position = await one.db.read((q) => readCursor(q, one.channel));
    // The signal aborted during the query. An adapter that only listens for the abort event would miss it.
    if (life.aborted) return null;
    await one.inbound.run(position === null ? null : cursor(position), life);
    return stop.signal.aborted ? stop.signal.reason : new Error("the adapter's run ended by itself");
  } catch (error) {
    return stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    stop.abort();
    await renewing;
    one.setReader(null);
  }
}

/** Renews the lease regularly. Ends when the lease is lost, also according to this process's own clock. */
async function renew(one: Supervised, reader: ReaderLease, life: AbortSignal): Promise<void> {
  const { lease, renewal } = one.timing.channels;
  let renewedAt = one.clock.monotonic();
  for (;;) {
    await one.clock.sleep(renewal, life);
    if (life.aborted) return;
    one.tick();
    const token = await tryLease(one, reader.lease);
    if (token === reader.token) renewedAt = one.clock.monotonic();
    else if (token !== "failed" || one.clock.monotonic() - renewedAt > lease - renewal) {
      one.log.warn({ channel: one.channel }, "channel lease lost");
      return;
    }
  }
}
