// Members of organizations: their ids and creation times, which definitions cannot contain.

import type { Db } from "./database.ts";

interface MemberRow {
  readonly id: string;
  readonly organization_id: string;
  /** In lower case. */
  readonly email: string;
  readonly created_at: number;
}

export interface Members {
  /** Stores the defined members. Existing members keep their id and creation time. */
  define(rows: readonly MemberRow[]): void;
  /** Returns the members by email address. */
  of(organizationId: string): ReadonlyMap<string, MemberRow>;
}

export function prepareMembers(db: Db): Members {
  const insert = db.prepare<[MemberRow]>(
    `INSERT INTO member (id, organization_id, email, created_at) VALUES (@id, @organization_id, @email, @created_at)
     ON CONFLICT (organization_id, email) DO NOTHING`,
  );
  const of = db.prepare<[string], MemberRow>("SELECT * FROM member WHERE organization_id = ?");
  return {
    define: (rows) =>
      db.transaction(() => {
        for (const row of rows) insert.run(row);
      })(),
    of: (organizationId) => new Map(of.all(organizationId).map((row) => [row.email, row])),
  };
}
