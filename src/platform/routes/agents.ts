// Routes for the agent of a key, its platform users, and the members with access to it (External API 4.2).

import { type Context, Hono } from "hono";
import * as z from "zod";
import type { escalation } from "../../wire/agent.ts";
import { statisticQuery } from "../../wire/agent.ts";
import type { Served } from "../../wire/record.ts";
import { pageOf, pageQuery } from "../../wire/record.ts";
import { type AgentDefinition, inCharge, withAccess } from "../agents/definition.ts";
import { statisticOf } from "../conversations/statistics.ts";
import { agentOf, userOf } from "../records.ts";
import type { PlatformStore } from "../store/store.ts";
import type { Notified, PlatformEscalationRow } from "../store/webhooks.ts";
import { found, type RouteContext, type RouteEnv, readQuery } from "./exchange.ts";

const listQuery = pageQuery.extend({ orderBy: z.enum(["createdAt"]).default("createdAt") });

/** Routes authenticated by an agent's key. */
export function agentRoutes(store: PlatformStore): Hono<RouteEnv> {
  return new Hono<RouteEnv>()
    .get("/by-api-key", (c) => c.json(agentOf(c.var.agent, c.var.key)))
    .get("/users", (c) => people(c, store, c.var.agent))
    .get("/statistic", (c) => c.json(statisticOf(store, c.var.agent.id, readQuery(c, statisticQuery))))
    .get("/admin-users", (c) => page(c, inCharge(c.var.agent, members(store, c.var.agent))));
}

/** Routes authenticated by an organization's key. The path names one of its agents. */
export function organizationRoutes(store: PlatformStore): Hono<RouteEnv> {
  const agent = (c: Context<RouteEnv>) => found(c.var.agents.find(({ id }) => id === c.req.param("id")));
  return new Hono<RouteEnv>()
    .get("/:id/users", (c) => people(c, store, agent(c)))
    .get("/:id/platform-users", (c) => {
      const named = agent(c);
      return page(c, withAccess(named, members(store, named)));
    });
}

const members = (store: PlatformStore, agent: AgentDefinition) => store.members.of(agent.organization.id);

function people(c: RouteContext, store: PlatformStore, agent: AgentDefinition): Response {
  const { page: number, pageSize, orderDirection } = readQuery(c, listQuery);
  const { rows, total } = store.people.list(agent.id, orderDirection, pageSize, (number - 1) * pageSize);
  return c.json(pageOf(rows.map(userOf), number, pageSize, total));
}

/** Returns one page of a list held in memory. */
function page(c: RouteContext, items: readonly { readonly createdAt: string }[]): Response {
  const { page: number, pageSize, orderDirection } = readQuery(c, listQuery);
  const sign = orderDirection === "ASC" ? 1 : -1;
  const sorted = items.toSorted((a, b) => sign * a.createdAt.localeCompare(b.createdAt));
  const from = (number - 1) * pageSize;
  return c.json(pageOf(sorted.slice(from, from + pageSize), number, pageSize, items.length));
}

// Routes that list escalations and the state of their notifications.

export function escalationRoutes(store: PlatformStore): Hono<RouteEnv> {
  return new Hono<RouteEnv>().get("/", (c) => {
    const { page, pageSize, orderDirection } = readQuery(c, listQuery);
    const agentId = c.var.agent.id;
    const rows = store.escalations.list(agentId, orderDirection, pageSize, (page - 1) * pageSize);
    const shown = rows.map((row) => escalationOf(store, row));
    return c.json(pageOf(shown, page, pageSize, store.escalations.count(agentId)));
  });
}

function escalationOf(store: PlatformStore, row: PlatformEscalationRow): Served<typeof escalation> {
  return {
    id: row.id,
    conversationId: row.conversation_id,
    messageId: row.message_id,
    topic: row.topic,
    response: row.response,
    notifications: (JSON.parse(row.notified) as Notified[]).map(({ channel, value, delivery }) => ({
      channel,
      value,
      state:
        delivery === null ? "stored" : (store.webhooks.delivery(row.agent_id, delivery)?.state ?? "removed"),
    })),
    createdAt: new Date(row.created_at).toISOString(),
  };
}
