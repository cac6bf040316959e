// One round trip to PostgreSQL: prepared statements that are sent together, with one Sync at the end. The server runs
// them in order and responds once. After an error it skips the rest, including a COMMIT.

import { type ClientBase, type Connection, DatabaseError, type FieldDef, types as pgTypes, type Submittable } from "pg";
import { dialect, integral, type Row, type Value } from "../driver.ts";

interface QueuedStatement {
  readonly text: string;
  /** Name of the prepared statement; "" beyond `mostPrepared`. */
  readonly name: string;
}
/** By the SQL text of the callers. Each connection parses and plans a named statement once. */
const statements = new Map<string, QueuedStatement>();
/** Bounds what a connection keeps on the server. Lists of placeholders make texts without limit. */
const mostPrepared = 500;

/** Set for every connection (`settingsOf`). */
const clockStep = "CAST(current_setting('bridgehead.clock_step') AS BIGINT)";

function statementOf(sql: string): QueuedStatement {
  let known = statements.get(sql);
  if (known === undefined) {
    const text = dialect(sql, "postgres").replaceAll("clock_step()", clockStep);
    if (statements.size >= mostPrepared) return { text, name: "" };
    known = { text, name: `s${statements.size}` };
    statements.set(sql, known);
  }
  return known;
}

/** A statement with its values, as callers write them. */
export interface Sent {
  readonly sql: string;
  readonly values: readonly Value[];
  /** Given for a statement that must change or lock one row (`exactlyOne`): the error when it did not. */
  readonly otherwise?: (() => Error) | undefined;
}

const single = new Map<string, string>();

/** Returns the statement with a check by the server, which skips the statements after one that did not change, or did not
 *  lock, exactly one row. A statement with RETURNING returns that row. */
export function exactlyOne(sql: string): string {
  let text = single.get(sql);
  if (text === undefined) {
    text = sql.includes("RETURNING")
      ? `WITH changed AS (${sql}\n) SELECT changed.*, 1 / CAST((SELECT COUNT(*) FROM changed) = 1 AS INTEGER) AS checked
         FROM (SELECT 1) AS always LEFT JOIN changed ON true`
      : `WITH changed AS (${sql}\n${sql.startsWith("SELECT") ? "" : "RETURNING 1"})
         SELECT 1 / CAST(COUNT(*) = 1 AS INTEGER) FROM changed`;
    single.set(sql, text);
  }
  return text;
}

/** Returns the error for the callers: that of `otherwise` when the check of `exactlyOne` failed with a division by zero. */
export const failureOf = (error: unknown, { otherwise }: Partial<Sent> = {}): unknown =>
  otherwise && (error as { code?: string }).code === "22012" ? otherwise() : error;

export interface Result {
  /** First word of the command tag, such as COMMIT. */
  readonly command: string;
  readonly rows: readonly Row[];
  /** The number of rows that were changed or returned. */
  readonly count: number;
}

// int8 (20) and numeric (1700) arrive as text by default; all integers of the store fit a double.
const integers: ReadonlySet<number> = new Set([20, 1700]);
const standardParser = pgTypes.getTypeParser as (oid: number, format: "text") => (text: string) => unknown;

interface ResultColumn {
  readonly name: string;
  read(text: string): unknown;
}
const columnOf = ({ name, dataTypeID }: FieldDef): ResultColumn => ({
  name,
  read: integers.has(dataTypeID) ? Number : standardParser(dataTypeID, "text"),
});

/** A prepared statement of a connection. The server keeps its columns: when a migration changes them, it refuses
 *  to run the statement again. */
interface PreparedStatement {
  columns: readonly ResultColumn[];
  /** False after a failed round trip: the server may or may not know the statement. */
  isCertain: boolean;
}
const preparedOn = new WeakMap<ClientBase, Map<string, PreparedStatement>>();

/** What the server responded: results in the order of the statements, up to the first that failed. */
export interface RoundTripOutcome {
  /** Of the first statement without a result, or of the connection; undefined when none failed. */
  readonly error?: unknown;
  readonly results: readonly Result[];
}

/** Sends the statements. Never rejects; a server that does not respond within `timeoutMs` is an error. One call
 *  per client at a time. */
export function roundTrip(client: ClientBase, sent: readonly Sent[], timeoutMs: number): Promise<RoundTripOutcome> {
  const prepared = preparedOn.get(client) ?? new Map<string, PreparedStatement>();
  preparedOn.set(client, prepared);
  return new Promise((resolve) => {
    client.query(new RoundTrip(sent, prepared, timeoutMs, resolve));
  });
}

/** pg calls the `handle...` members for the messages of the server. */
class RoundTrip implements Submittable {
  /** pg wraps it with the timeout, and calls it with an error when that expires. */
  callback: (error?: unknown) => void;
  readonly query_timeout: number;
  readonly #sent: readonly Sent[];
  readonly #prepared: Map<string, PreparedStatement>;
  readonly #running: PreparedStatement[] = [];
  readonly #results: Result[] = [];
  #rows: Row[] = [];

  constructor(
    sent: readonly Sent[],
    prepared: Map<string, PreparedStatement>,
    timeoutMs: number,
    done: (outcome: RoundTripOutcome) => void,
  ) {
    this.#sent = sent;
    this.#prepared = prepared;
    this.query_timeout = timeoutMs;
    const callback = (error?: unknown) => done({ error, results: this.#results });
    this.callback = callback;
  }

  submit(connection: Connection): void {
    connection.stream.cork();
    for (const { sql, values } of this.#sent) {
      const { text, name } = statementOf(sql);
      let prepared = this.#prepared.get(name);
      if (prepared === undefined || !prepared.isCertain || name === "") {
        // Closing an unknown statement is no error.
        if (prepared !== undefined && name !== "") connection.close({ type: "S", name }, true);
        prepared = { columns: [], isCertain: true };
        this.#prepared.set(name, prepared);
        connection.parse({ name, text, types: [] }, true);
        connection.bind({ statement: name, values: values.map(toParameter) }, true);
        connection.describe({ type: "P" }, true);
      } else connection.bind({ statement: name, values: values.map(toParameter) }, true);
      this.#running.push(prepared);
      connection.execute(null, true);
    }
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription({ fields }: { readonly fields: readonly FieldDef[] }): void {
    const prepared = this.#running[this.#results.length];
    if (prepared) prepared.columns = fields.map(columnOf);
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const row: Row = {};
    const columns = this.#running[this.#results.length]?.columns ?? [];
    for (let at = 0; at < columns.length; at++) {
      const column = columns[at] as ResultColumn;
      const text = fields[at] ?? null;
      row[column.name] = text === null ? null : column.read(text);
    }
    this.#rows.push(row);
  }

  /** The tag is a word, or words and the number of rows: `INSERT 0 1`. */
  handleCommandComplete({ text }: { readonly text: string }): void {
    const [command = ""] = text.split(" ", 1);
    const count = Number(text.slice(text.lastIndexOf(" ") + 1)) || 0;
    this.#results.push({ command, rows: this.#rows, count });
    this.#rows = [];
  }

  handleEmptyQuery(): void {
    this.#results.push({ command: "", rows: [], count: 0 });
  }

  handleError(error: unknown): void {
    // Statements that were parsed before the error are known to the server, the others are not.
    for (const prepared of this.#running.slice(this.#results.length)) prepared.isCertain = false;
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.callback();
  }
}

/** SQLSTATE read_only_sql_transaction: a standby, or a session with default_transaction_read_only. */
export const readOnly = "25006";

/** Errors after which the connection is closed: its own, those that end the session, those that its prepared statements
 *  do not survive, and a refused write: a new connection has the present setting, and reaches the present primary. */
export const isFatal = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || error.severity === "FATAL" || error.code === readOnly || isOutdated(error);

/** Another node has migrated the schema, and a statement prepared before returns other columns now. */
export const isOutdated = (error: unknown): boolean =>
  (error as { code?: string }).code === "0A000" && String(error).includes("cached plan");

/** Returns whether the server reported that it has rolled back. After other errors the outcome of a commit is unknown. The
 *  server may translate the severity, so these codes tell as much: none of them ends a session. */
export const isDefinite = (error: unknown): boolean =>
  error instanceof DatabaseError &&
  (error.severity === "ERROR" ||
    /^(?:2[123]|4[024]|55|0A|57014)/.test(error.code === "40003" ? "" : (error.code ?? "")));

/** PostgreSQL text cannot contain NUL. NULs are removed, so that an external message cannot block intake. */
function toParameter(value: Value): Buffer | string | null {
  if (typeof value === "string") return value.includes("\0") ? value.replaceAll("\0", "") : value;
  if (value === null) return null;
  if (typeof value === "number") return String(integral(value));
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
