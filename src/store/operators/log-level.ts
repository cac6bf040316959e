// The log level of a running daemon, as requested by `bridgehead log-level`. The command writes a request to the store, and
// the daemon answers it there. Rows of `meta` carry both, so that it works with either database and without access to the
// daemon's process. A daemon ignores requests from before its start: a changed level survives no restart.

import type { Query } from "../driver.ts";
import { writeMeta } from "../tables/meta.ts";

export interface LogLevelRequest {
  /** Number of the request, increasing. */
  readonly id: number;
  /** Index of the level, or -1 to read the current one. */
  readonly level: number;
  /** Milliseconds until the configured level returns; 0: at the next restart or reload. */
  readonly forMs: number;
}

export interface LogLevelAnswer {
  /** The number of the answered request. */
  readonly id: number;
  readonly level: number;
  /** Epoch milliseconds at which the configured level returns; 0: at the next restart or reload. */
  readonly until: number;
}

/** Writes a request. Returns its number. */
export async function requestLogLevel(q: Query, wanted: Omit<LogLevelRequest, "id">): Promise<number> {
  const { id = 0 } = (await readLogLevelRequest(q)) ?? {};
  await write(q, { "log-request": id + 1, "log-level": wanted.level, "log-for": wanted.forMs });
  return id + 1;
}

/** Returns the newest request; null when there was none. */
export async function readLogLevelRequest(q: Query): Promise<LogLevelRequest | null> {
  const row = await read(q, "log-request", "log-level", "log-for");
  const [id, level, forMs] = row;
  return id === undefined ? null : { id, level: level ?? -1, forMs: forMs ?? 0 };
}

/** Called by the daemon after it has applied the request. */
export async function answerLogLevel(q: Query, { id, level, until }: LogLevelAnswer): Promise<void> {
  await write(q, { "log-answer": id, "log-now": level, "log-until": until });
}

/** Returns the newest answer of a daemon; null when there was none. */
export async function readLogLevelAnswer(q: Query): Promise<LogLevelAnswer | null> {
  const [id, level, until] = await read(q, "log-answer", "log-now", "log-until");
  return id === undefined ? null : { id, level: level ?? 0, until: until ?? 0 };
}

async function read(q: Query, ...names: [string, string, string]): Promise<(number | undefined)[]> {
  const rows = await q.all<{ name: string; value: number }>(
    "SELECT name, value FROM meta WHERE name IN ($1, $2, $3)",
    ...names,
  );
  return names.map((name) => rows.find((row) => row.name === name)?.value);
}

async function write(q: Query, values: Readonly<Record<string, number>>): Promise<void> {
  for (const [name, value] of Object.entries(values)) await writeMeta(q, name, value);
}
