// Platform users. A user belongs to one agent and is identified by fkId, email address or phone number.

import { all, insertInto, type ListPage, one, run, ShelvedList, values } from "./lists.ts";
import type { Db } from "./store.ts";

export interface PersonRow {
  readonly id: string;
  readonly agent_id: string;
  readonly first_name: string;
  readonly last_name: string;
  readonly context: string | null;
  readonly source: string | null;
  readonly fk_id: string | null;
  readonly fk_user_id: string | null;
  readonly email: string | null;
  readonly phone_number: string | null;
  readonly metadata: string | null;
  readonly created_at: number;
  readonly anonymized: 0 | 1;
}

/** Columns that identify a user; absent identifiers are null. */
type Identifiers = Pick<PersonRow, "fk_id" | "email" | "phone_number">;

export interface Wanting {
  readonly ids: readonly string[];
  readonly fkId: string | null;
  readonly fkUserId: string | null;
}

type AddressQuery = { readonly agentId: string; readonly value: string; readonly fkId: string | null };

export function preparePeople(db: Db) {
  const forget = run<[string]>(db, "DELETE FROM usage WHERE scope = ?");
  const remove = run<[string]>(db, "DELETE FROM person WHERE id = ?");
  const update = `UPDATE person SET first_name = @first_name, last_name = @last_name,
       context = coalesce(@context, context), source = coalesce(@source, source),
       fk_id = coalesce(fk_id, @fk_id), fk_user_id = coalesce(@fk_user_id, fk_user_id),
       email = @email, phone_number = @phone_number,
       metadata = coalesce(@metadata, metadata)
     WHERE id = @id AND agent_id = @agent_id`;
  return {
    ...prepareSearches(db),
    insert: run<[PersonRow]>(db, insertInto("person", stored)),
    /** Updates names, addresses and every other field that is not null. */
    update: run<[PersonRow]>(db, update),
    /** Deletes the user. Its conversations must be deleted first. */
    remove: (id: string): void => {
      forget(id);
      remove(id);
    },
    /** Erases all personal data of the user. */
    anonymize: run<[id: string]>(
      db,
      `UPDATE person SET first_name = '', last_name = '', context = NULL, source = NULL, fk_id = NULL, fk_user_id = NULL,
         email = NULL, phone_number = NULL, metadata = NULL, anonymized = 1 WHERE id = ?`,
    ),
  };
}

const stored = (
  "id, agent_id, first_name, last_name, context, source, fk_id, fk_user_id, email, phone_number, " +
  "metadata, created_at"
).split(", ");

function prepareSearches(db: Db) {
  const person = "SELECT * FROM person WHERE agent_id = ?";
  const byId = all<[agentId: string, id: string], PersonRow>(db, `${person} AND id = ?`);
  const byFkId = all<[string, string], PersonRow>(db, `${person} AND fk_id = ? ORDER BY rowid LIMIT 1`);
  const byFkUserId = all<[string, string], PersonRow>(db, `${person} AND fk_user_id = ?`);
  const byAddress = (condition: string) =>
    one<[AddressQuery], PersonRow>(
      db,
      `SELECT * FROM person WHERE agent_id = @agentId AND ${condition}
       AND (fk_id IS NULL OR @fkId IS NULL OR fk_id = @fkId) ORDER BY rowid LIMIT 1`,
    );
  const byEmail = byAddress("email IS NOT NULL AND lower(email) = lower(@value)");
  const byPhone = byAddress("phone_number = @value");
  const byTime = new ShelvedList<PersonRow>(db, { list: "people", table: "person", time: "created_at" });
  const expired = values<[string, number, number, number], string>(
    db,
    `SELECT id FROM person WHERE agent_id = ? AND anonymized = 0 AND created_at < ? AND NOT EXISTS (
         SELECT 1 FROM conversation WHERE person_id = person.id AND last_message_at >= ?)
       ORDER BY created_at LIMIT ?`,
  );
  const candidates = (agentId: string, { ids: [id], fkId, fkUserId }: Wanting): PersonRow[] => {
    if (id !== undefined) return byId(agentId, id);
    if (fkId !== null) return byFkId(agentId, fkId);
    return fkUserId === null ? [] : byFkUserId(agentId, fkUserId);
  };
  return {
    byId: (agentId: string, id: string): PersonRow | undefined => byId(agentId, id)[0],
    /** Looks up by fkId, then by email address, then by phone number. A user with a different fkId never matches. */
    find: (agentId: string, { fk_id, email, phone_number }: Identifiers): PersonRow | undefined =>
      (fk_id === null ? undefined : byFkId(agentId, fk_id)[0]) ??
      (email === null ? undefined : byEmail({ agentId, value: email, fkId: fk_id })) ??
      (phone_number === null ? undefined : byPhone({ agentId, value: phone_number, fkId: fk_id })),
    /** Returns one page of an agent's users, ordered by creation time. */
    list: (agentId: string, direction: "ASC" | "DESC", limit: number, offset: number): ListPage<PersonRow> =>
      byTime.page(agentId, { direction, limit, offset, from: null, until: null }),
    /** Returns the ids of users that match all given filters. */
    matching: (agentId: string, wanted: Wanting): string[] =>
      candidates(agentId, wanted)
        .filter(
          (row) =>
            wanted.ids.every((id) => id === row.id) &&
            (wanted.fkId === null || wanted.fkId === row.fk_id) &&
            (wanted.fkUserId === null || wanted.fkUserId === row.fk_user_id),
        )
        .map(({ id }) => id),
    /** Returns the ids of users of all agents with this address in lower case, or with the conversation of this id.
     *  Only for the command that erases a person: it reads all rows, and is prepared when it is used. */
    holding: (value: string): string[] =>
      values<[{ value: string }], string>(
        db,
        `SELECT id FROM person WHERE @value IN (lower(email), lower(phone_number), lower(fk_id), lower(fk_user_id))
           UNION SELECT person_id FROM conversation WHERE id = @value`,
      )({ value }),
    /** Returns users created before `before` without any message since then; used by data retention. */
    expired: (agentId: string, before: number, limit: number): string[] => expired(agentId, before, before, limit),
  };
}

// Usage as running totals. Each row holds the sums up to its time, so the usage of any period is the
// difference of two rows, regardless of the number of messages.

const columns = [
  "conversations",
  "calls",
  "texts",
  "mails",
  "tokens",
  "seconds",
  "text_conversations",
  "mail_conversations",
  /** Questions that count against the quota: those answered by the agent itself. */
  "questions",
] as const;

/** Sums since the beginning, or within a period. */
export type Totals = { readonly [column in (typeof columns)[number]]: number };

export function prepareUsage(db: Db) {
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
    /** Adds to the totals of the agent and of the user. Call inside a transaction. */
    add(agentId: string, personId: string, at: number, by: Partial<Totals>): void {
      addTo(agentId, at, by);
      addTo(personId, at, by);
    },
    /** Returns the usage of an agent or a user between `from` and `until` (inclusive epoch milliseconds;
     *  null means unbounded). */
    within(scope: string, from: number | null, until: number | null): Totals {
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
