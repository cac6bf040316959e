// Routes for the agent of a key, its platform users, and the members with access to it (External API 4.2).

import { type Context, Hono } from "hono";
import * as z from "zod";
import { statisticQuery } from "../../wire/agent.ts";
import { notFound, pageOf, pageQuery } from "../../wire/record.ts";
import type { AgentDefinition } from "../definition.ts";
import { agentOf, userOf } from "../records.ts";
import { inCharge, withAccess } from "../staff.ts";
import { statisticOf } from "../statistics.ts";
import type { PlatformStore } from "../store/store.ts";
import { type Env, type Exchange, fail, readQuery } from "./exchange.ts";

const listQuery = pageQuery.extend({ orderBy: z.enum(["createdAt"]).default("createdAt") });

/** Routes authenticated by an agent's key. */
export function agentRoutes(store: PlatformStore): Hono<Env> {
  return new Hono<Env>()
    .get("/by-api-key", (c) => c.json(agentOf(c.var.agent, c.var.key)))
    .get("/users", (c) => people(c, store, c.var.agent))
    .get("/statistic", (c) => {
      const query = readQuery(c, statisticQuery);
      if ("response" in query) return query.response;
      return c.json(statisticOf(store, c.var.agent.id, query.value));
    })
    .get("/admin-users", (c) => page(c, inCharge(c.var.agent, members(store, c.var.agent))));
}

/** Routes authenticated by an organization's key. The path names one of its agents. */
export function organizationRoutes(store: PlatformStore): Hono<Env> {
  const agent = (c: Context<Env>) => c.var.agents.find(({ id }) => id === c.req.param("id"));
  return new Hono<Env>()
    .get("/:id/users", (c) => {
      const named = agent(c);
      return named ? people(c, store, named) : fail(c, notFound);
    })
    .get("/:id/platform-users", (c) => {
      const named = agent(c);
      return named ? page(c, withAccess(named, members(store, named))) : fail(c, notFound);
    });
}

const members = (store: PlatformStore, agent: AgentDefinition) => store.members.of(agent.organization.id);

function people(c: Exchange, store: PlatformStore, agent: AgentDefinition): Response {
  const query = readQuery(c, listQuery);
  if ("response" in query) return query.response;
  const { page: number, pageSize, orderDirection } = query.value;
  const { rows, total } = store.people.list(agent.id, orderDirection, pageSize, (number - 1) * pageSize);
  return c.json(pageOf(rows.map(userOf), number, pageSize, total));
}

/** Returns one page of a list held in memory. */
function page(c: Exchange, items: readonly { readonly createdAt: string }[]): Response {
  const query = readQuery(c, listQuery);
  if ("response" in query) return query.response;
  const { page: number, pageSize, orderDirection } = query.value;
  const sign = orderDirection === "ASC" ? 1 : -1;
  const sorted = items.toSorted((a, b) => sign * a.createdAt.localeCompare(b.createdAt));
  const from = (number - 1) * pageSize;
  return c.json(pageOf(sorted.slice(from, from + pageSize), number, pageSize, items.length));
}
