// HTTP routes of webhooks. Registration is part of the interface. The list, the log, manual firing,
// resending and deleting are Bridgehead's additions, because only the platform can provide them.

import { randomBytes } from "node:crypto";
import type { Clock } from "bridgehead/contract";
import { Hono } from "hono";
import * as z from "zod";
import { judge } from "../../ops/address.ts";
import { type FailureDetail, notFound, pageOf, pageQuery, type Served } from "../../wire/record.ts";
import { registerWebhookRequest, type webhook } from "../../wire/webhook.ts";
import { headerProblem } from "../agents/skills.ts";
import { newUuid } from "../ids.ts";
import type { PlatformStore } from "../store/store.ts";
import type { AgentWebhook, DeliveryRow } from "../store/webhooks.ts";
import { deliverTo } from "../webhooks/deliveries.ts";
import {
  found,
  listPage,
  RequestRefused,
  type RouteContext,
  type RouteEnv,
  readBody,
  readQuery,
  refuseAny,
} from "./exchange.ts";

const fireRequest = z.looseObject({ conversationId: z.string().min(1) });
const maxWebhooks = 100;

export function webhookRoutes(store: PlatformStore, clock: Clock, allowPrivate: boolean): Hono<RouteEnv> {
  const named = (c: RouteContext) => store.webhooks.byId(c.var.agent.id, c.req.param("id") ?? "");
  return new Hono<RouteEnv>()
    .post("/", (c) => register(c, store, clock, allowPrivate))
    .get("/", (c) => {
      const rows = store.webhooks.list(c.var.agent.id).map(shown);
      return c.json(pageOf(rows, 1, Math.max(1, rows.length), rows.length));
    })
    .delete("/:id", async (c) => {
      const row = found(named(c));
      await store.commits.write(() => store.webhooks.remove(row.id));
      return c.body(null, 204);
    })
    .get("/:id/deliveries", (c) => {
      const query = readQuery(c, pageQuery);
      const { id } = found(named(c));
      const { log, logged } = store.webhooks;
      return listPage(c, query, (_, ...page) => ({ rows: log(id, ...page), total: logged(id) }), entryOf);
    })
    .post("/:id/fire", async (c) => {
      const body = await readBody(c, fireRequest);
      const row = named(c);
      const conversation = store.conversations.byId(c.var.agent.id, body.conversationId);
      if (!row || !conversation) throw new RequestRefused(notFound);
      const id = await store.commits.write(() => deliverTo(store, clock.now(), row, "manual", conversation));
      return c.json({ id }, 202);
    })
    .post("/deliveries/:id/resend", async (c) => {
      const row = found(store.webhooks.delivery(c.var.agent.id, c.req.param("id")));
      const again = { state: "pending", attempts: 0, due_at: clock.now(), ended_at: null } as const;
      await store.commits.write(() =>
        store.webhooks.conclude(row.id, { ...again, status: row.status, error: row.error }),
      );
      return c.json({ id: row.id }, 202);
    });
}

async function register(c: RouteContext, store: PlatformStore, clock: Clock, allowPrivate: boolean): Promise<Response> {
  const { title, description, url, triggerCondition, headers } = await readBody(c, registerWebhookRequest);
  const problems = Object.entries(headers ?? {}).flatMap(([name, value]): FailureDetail[] => {
    const message = headerProblem(name, value);
    return message === null ? [] : [{ path: `headers.${name}`, message }];
  });
  const judged = await judge(url, allowPrivate ? "everything" : []);
  if (!judged.ok) problems.push({ path: "url", message: judged.reason });
  if (store.webhooks.list(c.var.agent.id).length >= maxWebhooks)
    problems.push({ path: "", message: `an agent has at most ${maxWebhooks} webhooks` });
  refuseAny(problems);
  const now = clock.now();
  const row: AgentWebhook = {
    id: newUuid(now),
    agent_id: c.var.agent.id,
    title,
    description,
    url,
    trigger: triggerCondition,
    headers: headers ? JSON.stringify(headers) : null,
    // 32 random bytes, as Standard Webhooks requires.
    secret: `whsec_${randomBytes(32).toString("base64")}`,
    status: "active",
    defined: 0,
    created_at: now,
    updated_at: now,
  };
  await store.commits.write(() => store.webhooks.insert(row));
  return c.json({ ...shown(row), secret: row.secret }, 201);
}

function shown(row: AgentWebhook): Served<typeof webhook> {
  return {
    id: row.id,
    agentId: row.agent_id,
    title: row.title,
    description: row.description,
    url: row.url,
    triggerCondition: row.trigger,
    ...(row.headers === null ? {} : { headers: JSON.parse(row.headers) as { [name: string]: string } }),
    status: row.status,
    createdAt: new Date(row.created_at).toISOString(),
    updatedAt: new Date(row.updated_at).toISOString(),
  };
}

function entryOf(row: DeliveryRow) {
  return {
    id: row.id,
    conversationId: row.conversation_id,
    triggerCondition: row.trigger,
    state: row.state,
    attempts: row.attempts,
    status: row.status,
    error: row.error,
    nextAttemptAt: row.state === "pending" ? new Date(row.due_at).toISOString() : null,
    createdAt: new Date(row.created_at).toISOString(),
  };
}
