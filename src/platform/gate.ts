// Middleware for every operation: authenticates the key and enforces the organization's rate limit.

import type { Clock } from "bridgehead/contract";
import type { Context, MiddlewareHandler } from "hono";
import { forbidden, tooManyRequests } from "../wire/record.ts";
import type { Limiter } from "./limiter.ts";
import type { Roster } from "./roster.ts";
import { type Env, fail } from "./routes/exchange.ts";

/** Operations with an agent in their path require the organization's key (External API 4.2, rule 3). */
const ofOrganization = /^\/external\/agents\/(?!webhooks\/)[^/]+\/(users|platform-users)$/;

/** A request with an invalid key consumes no rate, because it belongs to no organization. */
export function gate(roster: Roster, limiter: Limiter, clock: Clock): MiddlewareHandler<Env> {
  /** Returns the id of the organization; null when the key is invalid here. */
  function caller(c: Context<Env>): string | null {
    const organizations = ofOrganization.test(c.req.path);
    const key = c.req.header(organizations ? "organization-secret-key" : "agent-secret-key");
    if (!key) return null;
    const agent = organizations ? undefined : roster.byKey(key);
    const own = organizations ? roster.ofOrganizationKey(key) : [];
    const [first] = agent ? [agent] : own;
    if (!first) return null;
    if (agent) c.set("agent", agent);
    c.set("agents", own);
    c.set("key", key);
    return first.organization.id;
  }

  return async (c, next) => {
    const organization = caller(c);
    if (organization === null) return fail(c, forbidden);
    const admission = limiter.admit(organization, clock.monotonic());
    if (!admission.admitted) {
      const seconds = Math.max(1, Math.ceil(admission.waitMs / 1000));
      return fail(c, tooManyRequests, { "retry-after": String(seconds) });
    }
    return next();
  };
}
