// Members of organizations, as far as a definition cannot say it: their id, and since when they are known.

import type { Db } from "./database.ts";

interface MemberRow {
  readonly id: string;
  readonly organization_id: string;
  /** In lower case. */
  readonly email: string;
  readonly created_at: number;
}

export interface Members {
  /** Notes who is defined now; whoever is known already keeps id and date. */
  define(rows: readonly MemberRow[]): void;
  /** By e-mail address. */
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
