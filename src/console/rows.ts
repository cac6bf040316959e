// The rows of logins. Each is a login link or a session, under the hash of its token.

import { createHash } from "node:crypto";
import type { Timing } from "../ops/timing.ts";
import type { Query } from "../store/driver.ts";

export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");

export async function deleteExpiredLogins(q: Query): Promise<void> {
  await q.run("DELETE FROM logins WHERE until <= now_ms()");
}

/** Adds a login that is valid for `ms` milliseconds. */
export async function insertLogin(q: Query, token: string, kind: "link" | "session", ms: number): Promise<void> {
  await q.run(
    "INSERT INTO logins (hash, kind, made_at, until) VALUES ($1, $2, now_ms(), now_ms() + $3)",
    hashOf(token),
    kind,
    ms,
  );
}

/** Deletes a valid login link. Returns false when it does not exist. */
export const takeLink = async (q: Query, token: string): Promise<boolean> =>
  (await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'link' AND until > now_ms()", hashOf(token))) > 0;

/** Returns the milliseconds for which the session is still valid; null when there is no valid one. */
export async function sessionRemaining(q: Query, token: string): Promise<number | null> {
  const row = await q.one<{ remaining: number }>(
    "SELECT until - now_ms() AS remaining FROM logins WHERE hash = $1 AND kind = 'session' AND until > now_ms()",
    hashOf(token),
  );
  return row?.remaining ?? null;
}

/** Extends a valid session to `idle` milliseconds from now, at most `longest` after its login. */
export async function extendSession(
  q: Query,
  token: string,
  { longest, idle }: Pick<Timing["console"], "longest" | "idle">,
): Promise<void> {
  await q.run(
    `UPDATE logins SET until = CASE WHEN made_at + $2 < now_ms() + $3 THEN made_at + $2 ELSE now_ms() + $3 END
     WHERE hash = $1 AND kind = 'session' AND until > now_ms()`,
    hashOf(token),
    longest,
    idle,
  );
}

export async function deleteSession(q: Query, token: string): Promise<void> {
  await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'session'", hashOf(token));
}
