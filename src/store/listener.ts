// The connection on which PostgreSQL tells that another node changed something. A lost one is only a lost wake-up (the
// sweep finds the work), so it comes back in the background and is in nobody's way.

import type { Clock } from "bridgehead/contract";
import { Client, type ClientConfig } from "pg";
import { jitter } from "../ops/clock.ts";

const firstPause = 500;
const longestPause = 30_000;
const goodByeMs = 1000;

/** Resolves when it listens, and rejects when it cannot for the first time; afterwards it connects again by itself. */
export async function listenFor(
  channel: string,
  heard: () => void,
  { setup, clock }: { readonly setup: ClientConfig; readonly clock: Clock },
): Promise<{ close(): Promise<void> }> {
  const stop = new AbortController();

  /** Resolves, once it listens, to the end of the connection. */
  async function connect(): Promise<{ client: Client; ended: Promise<void> }> {
    const client = new Client(setup);
    client.on("notification", heard);
    client.on("error", () => undefined);
    const ended = new Promise<void>((resolve) => client.once("end", resolve));
    try {
      await client.connect();
      await client.query(`LISTEN "${channel}"`);
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
    for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
      if (line) {
        await Promise.race([line.ended, stopped]);
        pause = firstPause;
      }
      if (stop.signal.aborted) return end();
      line = null;
      await clock.sleep(jitter(pause), stop.signal);
      if (stop.signal.aborted) return;
      line = await connect().catch(() => null);
      if (line) heard(); // what was told meanwhile was not heard
    }
  }

  /** A lost line does not say good-bye. */
  async function end(): Promise<void> {
    const patience = new AbortController();
    const ending = line?.client.end().catch(() => undefined);
    await Promise.race([ending, clock.sleep(goodByeMs, patience.signal)]);
    patience.abort();
  }
  const kept = keep();

  return {
    async close() {
      stop.abort();
      // Nobody waits for a connection that is only being made: it ends itself.
      await Promise.race([kept, clock.sleep(goodByeMs)]);
    },
  };
}
