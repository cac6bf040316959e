// A connection in use: the statements of one transaction, or of reads. Statements whose result the work does not wait for
// are sent with the next one that it waits for, or with COMMIT, in one round trip.

import type { ClientBase } from "pg";
import type { Hop } from "../../ops/hops.ts";
import type { DeferredRows, Query, Row, Value } from "../driver.ts";
import { exactlyOne, failureOf, isFatal, isOutdated, type Result, roundTrip, type Sent } from "./round-trip.ts";

/** A statement that is sent with the next one that the work waits for. */
interface Queued extends Sent {
  /** The work waits for its result. The failure of any other statement ends the transaction. */
  readonly isAwaited: boolean;
  readonly isInSavepoint: boolean;
  /** See `Query.defer`. */
  readonly use?: ((rows: readonly Row[]) => void) | undefined;
}

/** Thrown into a transaction without savepoints when a savepoint's work failed: it runs again with them. */
export class NeedsSavepoints extends Error {}

/** At most this many statements are sent together. */
const mostQueued = 100;

/** A statement whose caller must not continue: the transaction was aborted. */
const never = () => new Promise<never>(() => undefined);

interface Transaction {
  /** Aborts the transaction: it must run again, or a statement failed that the work does not wait for. The statement that
   *  the work waits for then never settles, because the caller would mistake the error for a failure of its own. */
  readonly interrupt: (error: unknown) => void;
  /** Makes the savepoints of `Query.savepoint`. */
  readonly saving: boolean;
}

/** A connection in use, for one transaction or, without one, for reads. The members of `Query` are properties, so that
 *  callers may pass them on. */
export class PostgresConnection implements Query {
  readonly touched: Query["touched"] = new Map();
  readonly waits: Query["waits"] = new Set();
  readonly leases = null;
  /** See `Query.onDisk` and `Query.hop`. */
  readonly afterwards: (() => void)[] = [];
  readonly hops: Hop[] = [];
  /** The first failure that was not an error response of the server, or that prepared statements cannot survive. The
   *  connection is then closed. */
  lost: Error | undefined;
  readonly #client: ClientBase;
  readonly #queryMs: number;
  readonly #transaction: Transaction | null;
  readonly #undos: (() => void)[] = [];
  #depth = 0;
  #failed: unknown;
  #ended = false;
  #isBegun = false;
  #queued: Queued[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: ClientBase, queryMs: number, transaction: Transaction | null = null) {
    this.#client = client;
    this.#queryMs = queryMs;
    this.#transaction = transaction;
  }

  readonly all = async <T>(sql: string, ...values: Value[]) => (await this.#ask(sql, values)).rows as T[];

  readonly one = async <T>(sql: string, ...values: Value[]) => (await this.#ask(sql, values)).rows[0] as T | undefined;

  readonly run: Query["run"] = async (sql, ...values) => (await this.#ask(sql, values)).count;

  readonly write: Query["write"] = (sql, ...values) => this.#write(sql, { values });

  readonly writeOne: Query["writeOne"] = (otherwise, sql, ...values) =>
    this.#write(exactlyOne(sql), { values, otherwise });

  readonly defer = <T>({ use, otherwise }: DeferredRows<T>, sql: string, ...values: Value[]) =>
    this.#write(otherwise ? exactlyOne(sql) : sql, {
      values,
      otherwise,
      use: use as (rows: readonly unknown[]) => void,
    });

  readonly savepoint = async <T>(work: () => Promise<T>): Promise<T> => {
    const name = `s${this.#depth + 1}`;
    const saving = this.#transaction?.saving === true;
    if (saving) await this.#ask(`SAVEPOINT ${name}`); // fails for statements that were queued before it
    if (this.#ended) return never();
    this.#depth++;
    const [undos, later, hops] = [this.#undos.length, this.afterwards.length, this.hops.length];
    try {
      const result = await work();
      if (saving) await this.#ask(`RELEASE ${name}`);
      return result;
    } catch (error) {
      if (this.#ended) return await never();
      if (!saving && this.#transaction) {
        this.#ended = true;
        this.#transaction.interrupt(new NeedsSavepoints());
        return await never();
      }
      const cause = this.#failed ?? error;
      this.undo(undos);
      this.afterwards.length = later;
      this.hops.length = hops;
      if (!this.lost && saving) {
        this.#failed = undefined;
        this.#queued = [];
        for (const sql of [`ROLLBACK TO ${name}`, `RELEASE ${name}`])
          this.#queue({ sql, isInSavepoint: this.#depth > 1 });
      }
      throw cause;
    } finally {
      this.#depth--;
    }
  };

  readonly onRollback: Query["onRollback"] = (undo) => void this.#undos.push(undo);

  readonly onDisk: Query["onDisk"] = (act) => void this.afterwards.push(act);

  readonly hop: Query["hop"] = (hop) => void this.hops.push(hop);

  /** Queues BEGIN or SET. */
  post(sql: string): void {
    this.#queue({ sql });
  }

  /** Sends the queued statements and COMMIT. Rejects unless the transaction is committed. */
  async commit(): Promise<void> {
    await this.#last;
    if (this.#ended) throw this.#failed;
    this.#queue({ sql: "COMMIT" });
    const command = (await this.#send()).at(-1)?.command;
    // When `work` catches the error of a failed statement, the commit becomes a rollback without an error.
    if (command !== "COMMIT")
      throw new Error("committing: the transaction was rolled back after a failed statement", {
        cause: this.#failed,
      });
  }

  /** Ends the use of the connection and calls the `onRollback` callbacks, then rolls back what was sent; what was queued is
   *  dropped. Work that was abandoned sends nothing any more: its next statement never settles. */
  async rollback(): Promise<void> {
    this.#ended = true;
    this.undo(0);
    this.#queued = [];
    // A lost connection is closed, and the server rolls back its transaction.
    if (this.lost || !this.#isBegun) return;
    this.#queue({ sql: "ROLLBACK" });
    await this.#send().catch(() => undefined);
  }

  /** Calls the `onRollback` callbacks down to this number. */
  undo(length: number): void {
    while (this.#undos.length > length) this.#undos.pop()?.();
  }

  #queue(statement: Partial<Queued> & { readonly sql: string }): void {
    this.#queued.push({ values: [], isAwaited: false, isInSavepoint: this.#depth > 0, ...statement });
  }

  /** Sends the queued statements, after those that were sent before. */
  #send(): Promise<readonly Result[]> {
    const sent = this.#queued;
    this.#queued = [];
    this.#isBegun = true;
    const results = this.#last.then(() => this.#exchange(sent));
    this.#last = results.catch(() => undefined);
    return results;
  }

  async #exchange(sent: readonly Queued[]): Promise<readonly Result[]> {
    const outcome = await roundTrip(this.#client, sent, this.#queryMs);
    if (outcome.error !== undefined) {
      if (isFatal(outcome.error)) this.lost ??= outcome.error as Error;
      const failed = sent[outcome.results.length];
      throw this.#fail(failureOf(outcome.error, failed), failed);
    }
    for (const [at, { use }] of sent.entries()) use?.(outcome.results[at]?.rows ?? []);
    return outcome.results;
  }

  /** Records the first failure. Returns the error that the waiting statement rejects with. */
  #fail(error: unknown, statement: Queued | undefined): unknown {
    if (!this.#transaction) return error;
    if (this.#failed !== undefined) return this.#failed; // the server refuses every statement after the first failure
    const { interrupt, saving } = this.#transaction;
    const isUnsaved = statement?.isInSavepoint === true && !saving;
    this.#failed = isUnsaved && !transient(error) ? new NeedsSavepoints() : error;
    const mayHandle = statement?.isAwaited === true || statement?.isInSavepoint === true;
    if (isUnsaved || transient(error) || !mayHandle) {
      this.#ended = true;
      interrupt(this.#failed);
    }
    return this.#failed;
  }

  async #ask(sql: string, values: readonly Value[] = [], otherwise?: () => Error): Promise<Result> {
    if (this.#ended) return never();
    this.#queue({ sql, values, otherwise, isAwaited: true });
    try {
      const result = (await this.#send()).at(-1);
      if (this.#failed === undefined && result !== undefined) return result;
      throw this.#failed;
    } catch (error) {
      if (this.#ended) return never();
      throw error;
    }
  }

  async #write(sql: string, statement: Pick<Queued, "values" | "otherwise" | "use">): Promise<void> {
    const { values, otherwise, use } = statement;
    if (!this.#transaction) {
      const { rows } = await this.#ask(sql, values, otherwise);
      return use?.(rows);
    }
    if (this.#ended) return never();
    this.#queue({ sql, ...statement });
    if (this.#queued.length >= mostQueued) this.#send().catch(() => undefined);
  }
}

/** Serialization failures, deadlocks and lock timeouts: the transaction was rolled back and may be retried. */
export const transient = (error: unknown): boolean =>
  ["40001", "40P01", "55P03"].includes((error as { code?: string }).code ?? "") || isOutdated(error);
