// Routes for the agent of a key, its users, and the members with access to it (External API 4.2).

import type { Clock } from "bridgehead/contract";
import { type Context, Hono } from "hono";
import { type escalation, statisticQuery } from "../../wire/agent.ts";
import { createUserRequest, type platformUser } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import type { AgentDefinition } from "../agents/definition.ts";
import { addressProblems, dialled, personRow, removeConversations } from "../conversations/start.ts";
import { statisticOf } from "../conversations/statistics.ts";
import { agentOf, userOf } from "../records.ts";
import type { PlatformStore } from "../store/store.ts";
import type { Notified, PlatformEscalationRow } from "../store/webhooks.ts";
import {
  found,
  listPage,
  listQuery,
  type RouteContext,
  type RouteEnv,
  readBody,
  readQuery,
  refuseAny,
  refused,
} from "./exchange.ts";

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
      const all = accesses(named, members(store, named));
      // With a direct assignment in any role, or owner or admin of the organization.
      const isIn = ({ agentRole, organizationRole }: Access) =>
        Boolean(agentRole) || leading.has(organizationRole ?? "");
      return page(c, all.filter(isIn));
    });
}

const members = (store: PlatformStore, agent: AgentDefinition) => store.members.of(agent.organization.id);

function people(c: RouteContext, store: PlatformStore, agent: AgentDefinition): Response {
  return listPage(c, readQuery(c, listQuery), (...page) => store.people.list(agent.id, ...page), userOf);
}

/** Returns one page of a list held in memory. */
function page(c: RouteContext, items: readonly { readonly createdAt: string }[]): Response {
  const read = (direction: "ASC" | "DESC", limit: number, offset: number) => {
    const sign = direction === "ASC" ? 1 : -1;
    const sorted = items.toSorted((a, b) => sign * a.createdAt.localeCompare(b.createdAt));
    return { rows: sorted.slice(offset, offset + limit), total: items.length };
  };
  return listPage(c, readQuery(c, listQuery), read, (item) => item);
}

// Routes that list escalations and the state of their notifications.

export function escalationRoutes(store: PlatformStore): Hono<RouteEnv> {
  const { escalations } = store;
  return new Hono<RouteEnv>().get("/", (c) => {
    const { id } = c.var.agent;
    const query = readQuery(c, listQuery);
    return listPage(
      c,
      query,
      (...page) => ({ rows: escalations.list(id, ...page), total: escalations.count(id) }),
      (row) => escalationOf(store, row),
    );
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
      state: delivery === null ? "stored" : (store.webhooks.delivery(row.agent_id, delivery)?.state ?? "removed"),
    })),
    createdAt: new Date(row.created_at).toISOString(),
  };
}

// POST /external/users, GET /external/users/search, GET /external/users/{id}.

export function userRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  return new Hono<RouteEnv>()
    .post("/", async (c) => {
      const body = await readBody(c, createUserRequest);
      const problems = addressProblems(body);
      refuseAny(problems);
      const row = personRow(c.var.agent.id, body, clock.now());
      const made = await store.commits.write(() => {
        if (store.people.find(row.agent_id, row)) return false;
        store.people.insert(row);
        return true;
      });
      if (!made) throw refused([{ path: "", message: "user already exists" }]);
      return c.json(userOf(row), 201);
    })
    .get("/search", (c) => {
      const { fkId, email, phoneNumber } = c.req.query();
      if (!fkId && !email && !phoneNumber)
        throw refused([{ path: "", message: "one of email, phoneNumber and fkId is needed" }]);
      const person = found(
        store.people.find(c.var.agent.id, {
          fk_id: fkId || null,
          email: email || null,
          // A plus sign that was not encoded arrives as a space.
          phone_number: dialled(phoneNumber?.replace(/^ /, "+") ?? "") || null,
        }),
      );
      return c.json({ user: userOf(person), conversationIds: store.conversations.ofPerson(person.id) });
    })
    .delete("/:id", async (c) => {
      const person = found(store.people.byId(c.var.agent.id, c.req.param("id")));
      await store.commits.write(() => {
        removeConversations(store, person.id);
        store.people.remove(person.id);
      });
      return c.body(null, 204);
    })
    .get("/:id", (c) => {
      return c.json(userOf(found(store.people.byId(c.var.agent.id, c.req.param("id")))));
    });
}

// Platform users with access to an agent, and the source of their access (External API 2.3, 4.2 rules 1 and 2).

type KnownMembers = ReturnType<PlatformStore["members"]["of"]>;
type Access = Served<typeof platformUser>;

const leading: ReadonlySet<string> = new Set(["owner", "admin"]);

/** Returns the administrators: owner or admin of the agent, and active owners and admins of the organization. */
function inCharge(agent: AgentDefinition, known: KnownMembers): Access[] {
  return accesses(agent, known).flatMap((access): Access[] => {
    if (leading.has(access.agentRole ?? "")) return [{ ...access, accessSource: "agent" }];
    const leads = leading.has(access.organizationRole ?? "") && access.organizationStatus === "active";
    return leads ? [{ ...access, accessSource: "organization" }] : [];
  });
}

/** Returns every member with both of their roles. `known` is keyed by lower-case e-mail address. */
function accesses(agent: AgentDefinition, known: KnownMembers): Access[] {
  return agent.organization.members.flatMap((member) => {
    const stored = known.get(member.email.toLowerCase());
    if (!stored) return [];
    const own = agent.assignments.find(({ email }) => email.toLowerCase() === member.email.toLowerCase());
    return [
      {
        id: stored.id,
        email: member.email,
        firstName: member.firstName,
        lastName: member.lastName,
        avatarUrl: member.avatarUrl,
        agentRole: own?.role ?? null,
        agentAccessStatus: own?.status ?? null,
        organizationRole: member.role,
        organizationStatus: member.status,
        accessSource: own ? ("agent" as const) : ("organization" as const),
        createdAt: new Date(stored.created_at).toISOString(),
      },
    ];
  });
}
