// The connection for LISTEN and NOTIFY between nodes, whose end shows that of the process. A NOTIFY inside a transaction makes
// its commit wait for every other commit with a NOTIFY, so wake-ups are sent here after the commit, several at once. A lost
// connection only loses wake-ups (the sweep finds the work), so it reconnects in the background with backoff.

import type { Clock } from "bridgehead/contract";
import { Client, type ClientConfig, type QueryConfig } from "pg";
import { endsWithin, jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import { lockProcess } from "../leases.ts";
import type { RefusedConnections } from "./refusals.ts";

interface ListeningClient {
  readonly client: Client;
  /** Its process on the server. */
  readonly process: number;
  /** Resolves when the connection is closed. */
  readonly ended: Promise<void>;
}

interface WakeOptions {
  readonly setup: ClientConfig;
  /** Sets the settings of a connection. */
  readonly settings: QueryConfig;
  readonly clock: Clock;
  readonly timing: Timing["postgres"];
  readonly refused: RefusedConnections;
}

/** One per open store. */
export class WakeListener {
  readonly #channel: string;
  readonly #options: WakeOptions;
  readonly #stop = new AbortController();
  readonly #stopped: Promise<void>;
  readonly #listeners: (() => void)[] = [];
  #listening: ListeningClient | null = null;
  #kept: Promise<void> = Promise.resolve();
  /** The process whose lock the connection holds. */
  #process: string | null = null;
  #isDue = false;
  #isPaused = false;
  #sent: Promise<unknown> = Promise.resolve();

  constructor(channel: string, options: WakeOptions) {
    this.#channel = channel;
    this.#options = options;
    this.#stopped = new Promise((resolve) =>
      this.#stop.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  }

  /** Resolves to its process on the server when the connection is listening. Rejects when this first connection fails; later
   *  it reconnects automatically. */
  async open(): Promise<number> {
    this.#listening = await this.#connect();
    this.#kept = this.#keep();
    return this.#listening.process;
  }

  /** Holds the lock of the process (`lockProcess`) on this connection, and on the one that replaces it. */
  async hold(process: string): Promise<void> {
    this.#process = process;
    await this.#listening?.client.query(lockProcess, [process]);
  }

  /** Registers a callback for notifications of other nodes. */
  onNotification(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Wakes the other nodes. Call after the commit. */
  notify(): void {
    this.#isDue = true;
    this.#send();
  }

  async close(): Promise<void> {
    const { listenClose } = this.#options.timing;
    // One query at a time: what is due is sent behind the notification in progress.
    const isSent = this.#sent.then(() => {
      this.#isPaused = false;
      this.#send();
      return this.#sent;
    });
    await endsWithin(isSent, listenClose, this.#options.clock);
    this.#stop.abort();
    // A connection attempt in progress is not awaited beyond the timeout; it closes when it completes.
    await endsWithin(this.#kept, listenClose, this.#options.clock);
  }

  async #connect(): Promise<ListeningClient> {
    const client = new Client(this.#options.setup);
    let process = 0;
    client.on("notification", ({ processId }) => {
      if (processId !== process) this.#notified();
    });
    client.on("error", () => undefined);
    const ended = new Promise<void>((resolve) => client.once("end", resolve));
    try {
      await client.connect();
      await client.query(this.#options.settings);
      // A notification must not wait for the disk: after a crash of the server the sweep finds the work.
      await client.query("SET synchronous_commit = off");
      await client.query(`LISTEN "${this.#channel}"`);
      if (this.#process !== null) await client.query(lockProcess, [this.#process]);
      process = (await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")).rows[0]?.pid ?? 0;
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    return { client, process, ended };
  }

  #notified(): void {
    for (const listener of this.#listeners) listener();
  }

  async #keep(): Promise<void> {
    const { listenRetry, listenRetryLongest } = this.#options.timing;
    const { signal } = this.#stop;
    for (let pause = listenRetry; ; pause = Math.min(pause * 2, listenRetryLongest)) {
      if (this.#listening) {
        await Promise.race([this.#listening.ended, this.#stopped]);
        pause = listenRetry;
      }
      if (signal.aborted) return this.#end();
      this.#listening = null;
      await this.#options.clock.sleep(jitter(pause), signal);
      if (signal.aborted) return;
      this.#listening = await this.#connect().catch((error: unknown) => {
        this.#options.refused.note(error);
        return null;
      });
      if (this.#listening) this.#notified(); // notifications during the outage were lost
    }
  }

  /** Closes the connection; a lost one may never confirm, so the wait has a timeout. */
  async #end(): Promise<void> {
    const ending = this.#listening?.client.end().catch(() => undefined);
    if (ending) await endsWithin(ending, this.#options.timing.listenClose, this.#options.clock);
  }

  #send(): void {
    if (!this.#isDue || this.#isPaused) return;
    this.#isDue = false;
    this.#isPaused = true;
    const sent = this.#listening?.client.query(`NOTIFY "${this.#channel}"`);
    this.#sent = sent?.catch(() => undefined) ?? this.#sent;
    const interval = this.#options.clock.sleep(this.#options.timing.notifyInterval, this.#stop.signal);
    void Promise.all([interval, this.#sent]).then(() => {
      this.#isPaused = false;
      this.#send();
    });
  }
}
