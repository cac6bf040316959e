// Joint transactions (`TxOptions.joint`): those that wait at the same time are sent in one round trip, from BEGIN to COMMIT,
// and share the commit. One round trip is under way at a time; in the meantime the next ones gather.

import type { PoolClient } from "pg";
import { systemClock } from "../../ops/clock.ts";
import type { Hop } from "../../ops/hops.ts";
import type { Query, StoreObserver, TxOptions, Value } from "../driver.ts";
import { exactlyOne, isDefinite, isFatal, type Result, roundTrip, type Sent } from "./round-trip.ts";

/** The statements of one transaction. They are sent when the work waits for a result. */
class JointQuery implements Query {
  readonly touched: Query["touched"] = new Map();
  readonly waits: Query["waits"] = new Set();
  readonly leases = null;
  readonly statements: Sent[] = [];
  readonly afterwards: (() => void)[] = [];
  readonly hops: Hop[] = [];
  readonly #undos: (() => void)[] = [];
  readonly #result = Promise.withResolvers<Result>();
  readonly #complete = Promise.withResolvers<void>();
  #isComplete = false;

  readonly all = async <T>(sql: string, ...values: Value[]) => (await this.#ask(sql, values)).rows as T[];

  readonly one = async <T>(sql: string, ...values: Value[]) => (await this.#ask(sql, values)).rows[0] as T | undefined;

  readonly run: Query["run"] = async (sql, ...values) => (await this.#ask(sql, values)).count;

  readonly write: Query["write"] = async (sql, ...values) => this.#add({ sql, values });

  readonly writeOne: Query["writeOne"] = async (otherwise, sql, ...values) =>
    this.#add({ sql: exactlyOne(sql), values, otherwise });

  readonly defer: Query["defer"] = () => Promise.reject(new Error("a joint transaction waits for one result only"));

  readonly savepoint: Query["savepoint"] = () => Promise.reject(new Error("a joint transaction has no savepoints"));

  readonly onRollback: Query["onRollback"] = (undo) => void this.#undos.push(undo);

  readonly onDisk: Query["onDisk"] = (act) => void this.afterwards.push(act);

  readonly hop: Query["hop"] = (hop) => void this.hops.push(hop);

  /** Resolves when the work waits for its result. */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  /** Passes the result of its last statement to the work. */
  resume(result: Result | undefined): void {
    if (result) this.#result.resolve(result);
  }

  undo(): void {
    for (const undo of this.#undos.splice(0).reverse()) undo();
  }

  #add(statement: Sent): void {
    if (this.#isComplete) throw new Error("a joint transaction waits for one result only");
    this.statements.push(statement);
  }

  async #ask(sql: string, values: readonly Value[]): Promise<Result> {
    this.#add({ sql, values });
    this.#isComplete = true;
    this.#complete.resolve();
    return this.#result.promise;
  }
}

interface WaitingJoint {
  readonly work: (q: Query) => Promise<unknown>;
  readonly options: TxOptions & { readonly joint: string };
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A transaction whose statements are known. */
interface Prepared {
  readonly one: WaitingJoint;
  readonly q: JointQuery;
  readonly ended: Promise<{ readonly value: unknown } | { readonly error: unknown }>;
}

export class JointTransactions {
  readonly #connect: () => Promise<PoolClient>;
  readonly #timing: { readonly response: number; readonly jointLock: number };
  /** Runs a transaction alone, after a joint one was rolled back. */
  readonly #alone: (work: (q: Query) => Promise<unknown>, options: TxOptions) => Promise<unknown>;
  #waiting: WaitingJoint[] = [];
  #isSending = false;
  observer: StoreObserver | null = null;

  constructor(
    connect: () => Promise<PoolClient>,
    timing: { readonly response: number; readonly jointLock: number },
    alone: (work: (q: Query) => Promise<unknown>, options: TxOptions) => Promise<unknown>,
  ) {
    this.#connect = connect;
    this.#timing = timing;
    this.#alone = alone;
  }

  /** See `Database.tx`. */
  run<T>(work: (q: Query) => Promise<T>, options: TxOptions & { readonly joint: string }): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ work, options, resolve, reject } as WaitingJoint);
      if (!this.#isSending) void this.#sendAll();
    });
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting.length > 0) {
      // What one turn of the event loop starts is sent together.
      await new Promise<void>((resolve) => setImmediate(resolve));
      // Rows are locked in a fixed order, so that two nodes do not wait for each other.
      const batch = this.#waiting.splice(0, mostJoint).sort((a, b) => (a.options.joint < b.options.joint ? -1 : 1));
      const prepared = await Promise.all(batch.map(prepare));
      await this.#send(prepared.filter((one) => one !== null)).catch((error: unknown) => {
        for (const { reject } of batch) reject(error);
      });
    }
    this.#isSending = false;
  }

  async #send(batch: readonly Prepared[]): Promise<void> {
    if (batch.length === 0) return;
    const undo = () => {
      for (const { q } of batch) q.undo();
    };
    const client = await this.#connect().catch((error: unknown) => {
      undo();
      throw error;
    });
    const began = systemClock.monotonic();
    const sent = [
      { sql: "BEGIN", values: [] },
      // A row that is locked for longer delays its own transaction only.
      { sql: `SET LOCAL lock_timeout = ${this.#timing.jointLock}`, values: [] },
      ...batch.flatMap(({ q }) => q.statements),
      { sql: "COMMIT", values: [] },
    ];
    const { error, results } = await roundTrip(client, sent, this.#timing.response);
    if (error === undefined) {
      client.release();
      return this.#committed(batch, results, systemClock.monotonic() - began);
    }
    undo();
    // Whether it was committed is unknown when the connection was lost.
    if (!isDefinite(error)) {
      client.release(error as Error);
      throw error;
    }
    const ended = isFatal(error) ? { error } : await roundTrip(client, rollback, this.#timing.response);
    client.release(ended.error as Error | undefined);
    for (const { one } of batch) this.#alone(one.work, one.options).then(one.resolve, one.reject);
  }

  async #committed(batch: readonly Prepared[], results: readonly Result[], commitMs: number): Promise<void> {
    let sent = 2;
    const hops: Hop[] = [];
    const reports: (() => void)[] = [];
    for (const { one, q, ended } of batch) {
      sent += q.statements.length;
      q.resume(results[sent - 1]);
      const end = await ended;
      if ("error" in end) {
        one.reject(end.error);
        continue;
      }
      hops.push(...q.hops);
      reports.push(() => {
        for (const act of q.afterwards) act();
        one.options.committed?.();
        one.resolve(end.value);
      });
    }
    this.observer?.({ hops, commitMs, syncMs: null });
    for (const report of reports) report();
  }
}

const rollback: readonly Sent[] = [{ sql: "ROLLBACK", values: [] }];

/** At most this many transactions are sent together. */
const mostJoint = 32;

/** Runs the work until it waits for its result. Returns null when it failed before. */
async function prepare(one: WaitingJoint): Promise<Prepared | null> {
  const q = new JointQuery();
  const ended = one.work(q).then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  const early = await Promise.race([q.complete, ended]);
  if (early === undefined || !("error" in early)) return { one, q, ended };
  q.undo();
  one.reject(early.error);
  return null;
}
