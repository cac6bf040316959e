// Login links and sessions of the web console. The store has the hash of every token, so that a copy of the store opens
// nothing. A link is created by `bridgehead console`, another process on the same store.

import { createHash } from "node:crypto";
import { sameText } from "bridgehead/contract";
import { newToken } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import type { Query } from "../store/driver.ts";

type LoginTiming = Pick<Timing["console"], "link" | "idle" | "longest" | "renewal">;

/** 150 bits: cannot be guessed, so attempts need no limit. */
const tokenLength = 30;

const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");

/** Creates a login link and returns its token. It can be used once, within `timing.link`. */
export async function createLoginLink(q: Query, timing: LoginTiming): Promise<string> {
  await q.run("DELETE FROM logins WHERE until <= now_ms()");
  const token = newToken(tokenLength);
  await insert(q, token, "link", timing.link);
  return token;
}

/** Uses a login link up and returns the token of a new session. Null when the link is unknown, was used, or has
 *  expired. */
export async function useLoginLink(q: Query, link: string, timing: LoginTiming): Promise<string | null> {
  const used = await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'link' AND until > now_ms()", hashOf(link));
  if (used === 0) return null;
  const token = newToken(tokenLength);
  await insert(q, token, "session", timing.idle);
  return token;
}

async function insert(q: Query, token: string, kind: "link" | "session", ms: number): Promise<void> {
  await q.run(
    "INSERT INTO logins (hash, kind, made_at, until) VALUES ($1, $2, now_ms(), now_ms() + $3)",
    hashOf(token),
    kind,
    ms,
  );
}

/** State of a session: `stale` is valid, and should be renewed with `renewSession`. */
export async function checkSession(
  q: Query,
  token: string,
  timing: LoginTiming,
): Promise<"valid" | "stale" | "invalid"> {
  const row = await q.one<{ remaining: number }>(
    "SELECT until - now_ms() AS remaining FROM logins WHERE hash = $1 AND kind = 'session' AND until > now_ms()",
    hashOf(token),
  );
  if (!row) return "invalid";
  return row.remaining < timing.idle - timing.renewal ? "stale" : "valid";
}

/** Extends a session that is in use, up to `timing.longest` after its login. */
export async function renewSession(q: Query, token: string, timing: LoginTiming): Promise<void> {
  await q.run(
    `UPDATE logins SET until = CASE WHEN made_at + $2 < now_ms() + $3 THEN made_at + $2 ELSE now_ms() + $3 END
     WHERE hash = $1 AND kind = 'session' AND until > now_ms()`,
    hashOf(token),
    timing.longest,
    timing.idle,
  );
}

/** Ends a session on all nodes. */
export async function endSession(q: Query, token: string): Promise<void> {
  await q.run("DELETE FROM logins WHERE hash = $1 AND kind = 'session'", hashOf(token));
}

/** Returns the CSRF token of a session, which every form carries. */
export const csrfToken = (session: string): string => hashOf(`csrf/${session}`);

/** Compares in constant time. */
export function isCsrfToken(given: unknown, session: string): boolean {
  return typeof given === "string" && sameText(csrfToken(session), given);
}
