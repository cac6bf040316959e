// The connection for LISTEN and NOTIFY between nodes. A NOTIFY inside a transaction makes its commit wait for
// every other commit with a NOTIFY, so wake-ups are sent here after the commit, several at once. A lost
// connection only loses wake-ups (the sweep finds the work), so it reconnects in the background with backoff.

import type { Clock } from "bridgehead/contract";
import { Client, type ClientConfig } from "pg";
import { jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";

/** Resolves when the connection is listening. Rejects when the first connection fails; later it
 *  reconnects automatically. */
export async function listenFor(
  channel: string,
  heard: () => void,
  options: { readonly setup: ClientConfig; readonly clock: Clock; readonly timing: Timing["postgres"] },
): Promise<{ notify(): void; close(): Promise<void> }> {
  const { setup, clock, timing } = options;
  const stop = new AbortController();

  /** Resolves when the connection is listening; `ended` resolves when it closes. */
  async function connect(): Promise<{ client: Client; ended: Promise<void> }> {
    const client = new Client(setup);
    let own: number | undefined;
    client.on("notification", ({ processId }) => {
      if (processId !== own) heard();
    });
    client.on("error", () => undefined);
    const ended = new Promise<void>((resolve) => client.once("end", resolve));
    try {
      await client.connect();
      // A notification must not wait for the disk: after a crash of the server the sweep finds the work.
      await client.query("SET synchronous_commit = off");
      await client.query(`LISTEN "${channel}"`);
      own = (await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")).rows[0]?.pid;
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    return { client, ended };
  }

  let line: Awaited<ReturnType<typeof connect>> | null = await connect();
  const stopped = new Promise<void>((resolve) =>
    stop.signal.addEventListener("abort", () => resolve(), { once: true }),
  );

  async function keep(): Promise<void> {
    for (let pause = timing.listenRetry; ; pause = Math.min(pause * 2, timing.listenRetryLongest)) {
      if (line) {
        await Promise.race([line.ended, stopped]);
        pause = timing.listenRetry;
      }
      if (stop.signal.aborted) return end();
      line = null;
      await clock.sleep(jitter(pause), stop.signal);
      if (stop.signal.aborted) return;
      line = await connect().catch(() => null);
      if (line) heard(); // notifications during the outage were lost
    }
  }

  /** Closes the connection; a lost one may never confirm, so the wait has a timeout. */
  async function end(): Promise<void> {
    const patience = new AbortController();
    const ending = line?.client.end().catch(() => undefined);
    await Promise.race([ending, clock.sleep(timing.listenClose, patience.signal)]);
    patience.abort();
  }
  const kept = keep();

  let isDue = false;
  let isPaused = false;
  let sent: Promise<unknown> = Promise.resolve();
  function send(): void {
    if (!isDue || isPaused) return;
    isDue = false;
    isPaused = true;
    sent = line?.client.query(`NOTIFY "${channel}"`).catch(() => undefined) ?? sent;
    void clock.sleep(timing.notifyInterval, stop.signal).then(() => {
      isPaused = false;
      send();
    });
  }

  return {
    /** Wakes the other nodes. Call after the commit. */
    notify() {
      isDue = true;
      send();
    },
    async close() {
      isPaused = false;
      send();
      await Promise.race([sent, clock.sleep(timing.listenClose)]);
      stop.abort();
      // A connection attempt in progress is not awaited beyond the timeout; it closes when it completes.
      await Promise.race([kept, clock.sleep(timing.listenClose)]);
    },
  };
}
