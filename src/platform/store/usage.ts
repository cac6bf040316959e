// Usage as running totals. Each row holds the sums up to its time, so the usage of any period is the
// difference of two rows, regardless of the number of messages.

import type { Db } from "./database.ts";

/** Sums since the beginning, or within a period. */
export interface Totals {
  readonly conversations: number;
  readonly calls: number;
  readonly texts: number;
  readonly mails: number;
  readonly tokens: number;
  readonly seconds: number;
  readonly text_conversations: number;
  readonly mail_conversations: number;
  /** Questions that count against the quota: those answered by the agent itself. */
  readonly questions: number;
}

export interface Usage {
  /** Adds to the totals of the agent and of the user. Call inside a transaction. */
  add(agentId: string, personId: string, at: number, by: Partial<Totals>): void;
  /** Returns the usage of an agent or a user between `from` and `until` (inclusive epoch milliseconds;
   *  null means unbounded). */
  within(scope: string, from: number | null, until: number | null): Totals;
}

const columns = [
  "conversations",
  "calls",
  "texts",
  "mails",
  "tokens",
  "seconds",
  "text_conversations",
  "mail_conversations",
  "questions",
] as const;

export function prepareUsage(db: Db): Usage {
  const names = columns.join(", ");
  const last = db.prepare<[string, number], Totals>(
    `SELECT ${names} FROM usage WHERE scope = ? AND at <= ? ORDER BY at DESC LIMIT 1`,
  );
  const newest = db.prepare<[string], { at: number } & Totals>(
    `SELECT at, ${names} FROM usage WHERE scope = ? ORDER BY at DESC LIMIT 1`,
  );
  const insert = db.prepare<[{ scope: string; at: number } & Totals]>(
    `INSERT INTO usage (scope, at, ${names}) VALUES (@scope, @at, ${columns.map((name) => `@${name}`).join(", ")})
     ON CONFLICT (scope, at) DO UPDATE SET ${columns.map((name) => `${name} = excluded.${name}`).join(", ")}`,
  );
  const addTo = (scope: string, at: number, by: Partial<Totals>) => {
    const before = newest.get(scope);
    const sums = combine((name) => (before?.[name] ?? 0) + (by[name] ?? 0));
    // Keeps the rows ordered after a backward clock step.
    insert.run({ scope, at: Math.max(at, before?.at ?? 0), ...sums });
  };
  return {
    add(agentId, personId, at, by) {
      addTo(agentId, at, by);
      addTo(personId, at, by);
    },
    within(scope, from, until) {
      const after = last.get(scope, until ?? Number.MAX_SAFE_INTEGER);
      const before = from === null ? undefined : last.get(scope, from - 1);
      return combine((name) => Math.max(0, (after?.[name] ?? 0) - (before?.[name] ?? 0)));
    },
  };
}

/** Adds the totals of several users. */
export function sum(totals: readonly Totals[]): Totals {
  return combine((name) => totals.reduce((value, each) => value + each[name], 0));
}

function combine(value: (name: (typeof columns)[number]) => number): Totals {
  return Object.fromEntries(columns.map((name) => [name, value(name)])) as unknown as Totals;
}
