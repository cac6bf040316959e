// Before every operation: whose key is it, and is there room in their organization's rate?

import type { Clock } from "bridgehead/contract";
import type { MiddlewareHandler } from "hono";
import { forbidden, tooManyRequests } from "../wire/failure.ts";
import type { AgentDefinition } from "./definition.ts";
import type { Limiter } from "./limiter.ts";
import { keyHash } from "./names.ts";
import { type Env, fail } from "./routes/exchange.ts";
import type { PlatformStore } from "./store/store.ts";

/** A wrong key costs nobody's rate: it belongs to no organization. */
export function gate(
  store: PlatformStore,
  agents: readonly AgentDefinition[],
  limiter: Limiter,
  clock: Clock,
): MiddlewareHandler<Env> {
  const byId = new Map(agents.filter((agent) => agent.apiEnabled).map((agent) => [agent.id, agent]));
  return async (c, next) => {
    const key = c.req.header("agent-secret-key");
    const agent = key ? byId.get(store.agentByKeyHash(keyHash(key)) ?? "") : undefined;
    if (!key || !agent) return fail(c, forbidden);
    const admission = limiter.admit(agent.organization.id, clock.monotonic());
    if (!admission.admitted) {
      const seconds = Math.max(1, Math.ceil(admission.waitMs / 1000));
      return fail(c, tooManyRequests, { "retry-after": String(seconds) });
    }
    c.set("agent", agent);
    c.set("key", key);
    return next();
  };
}
