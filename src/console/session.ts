// Login links and sessions of the web console. The store has the hash of every token, so that a copy of the store opens
// nothing. A link is created by `bridgehead console`, another process on the same store.

import { sameText } from "bridgehead/contract";
import { newToken } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import type { Query } from "../store/driver.ts";
import { deleteExpiredLogins, hashOf, insertLogin, sessionRemaining, takeLink } from "./rows.ts";

type LoginTiming = Pick<Timing["console"], "link" | "idle" | "longest" | "renewal">;

/** 150 bits: cannot be guessed, so attempts need no limit. */
const tokenLength = 30;

/** Creates a login link and returns its token. It can be used once, within `timing.link`. */
export async function createLoginLink(q: Query, timing: LoginTiming): Promise<string> {
  await deleteExpiredLogins(q);
  const token = newToken(tokenLength);
  await insertLogin(q, token, "link", timing.link);
  return token;
}

/** Uses a login link up and returns the token of a new session. Null when the link is unknown, was used, or has
 *  expired. */
export async function useLoginLink(q: Query, link: string, timing: LoginTiming): Promise<string | null> {
  if (!(await takeLink(q, link))) return null;
  const token = newToken(tokenLength);
  await insertLogin(q, token, "session", timing.idle);
  return token;
}

/** State of a session: `stale` is valid, and should be renewed with `extendSession`. */
export async function checkSession(
  q: Query,
  token: string,
  timing: LoginTiming,
): Promise<"valid" | "stale" | "invalid"> {
  const remaining = await sessionRemaining(q, token);
  if (remaining === null) return "invalid";
  return remaining < timing.idle - timing.renewal ? "stale" : "valid";
}

/** Returns the CSRF token of a session, which every form carries. */
export const csrfToken = (session: string): string => hashOf(`csrf/${session}`);

/** Compares in constant time. */
export function isCsrfToken(given: unknown, session: string): boolean {
  return typeof given === "string" && sameText(csrfToken(session), given);
}
