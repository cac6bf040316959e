// The rows of logins. Each is a login link or a session, under the hash of its token.

import type { Query } from "../store/driver.ts";

type LoginKind = "link" | "session";

export async function deleteExpiredLogins(q: Query): Promise<void> {
  await q.run("DELETE FROM logins WHERE until <= now_ms()");
}

/** Adds a login that is valid for `ms` milliseconds. */
export async function insertLogin(q: Query, hash: string, kind: LoginKind, ms: number): Promise<void> {
  await q.run(
    "INSERT INTO logins (hash, kind, made_at, until) VALUES ($1, $2, now_ms(), now_ms() + $3)",
    hash,
    kind,
    ms,
  );
}

/** Deletes a valid login link. Returns false when it does not exist. */
export const takeLink = async (q: Query, hash: string): Promise<boolean> =>
  (await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'link' AND until > now_ms()", hash)) > 0;

/** Returns the milliseconds for which the session is still valid; null when there is no valid one. */
export async function sessionRemaining(q: Query, hash: string): Promise<number | null> {
  const row = await q.one<{ remaining: number }>(
    "SELECT until - now_ms() AS remaining FROM logins WHERE hash = $1 AND kind = 'session' AND until > now_ms()",
    hash,
  );
  return row?.remaining ?? null;
}

/** Extends a valid session to `idle` milliseconds from now, at most `longest` after its login. */
export async function extendSession(q: Query, hash: string, longest: number, idle: number): Promise<void> {
  await q.run(
    `UPDATE logins SET until = CASE WHEN made_at + $2 < now_ms() + $3 THEN made_at + $2 ELSE now_ms() + $3 END
     WHERE hash = $1 AND kind = 'session' AND until > now_ms()`,
    hash,
    longest,
    idle,
  );
}

export async function deleteSession(q: Query, hash: string): Promise<void> {
  await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'session'", hash);
}
