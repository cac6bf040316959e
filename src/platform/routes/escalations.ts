// Routes that list escalations and the state of their notifications.

import { Hono } from "hono";
import * as z from "zod";
import type { escalation } from "../../wire/agent.ts";
import { pageOf, pageQuery, type Served } from "../../wire/record.ts";
import type { EscalationRow, Notified } from "../store/escalations.ts";
import type { PlatformStore } from "../store/store.ts";
import { type Env, readQuery } from "./exchange.ts";

const listQuery = pageQuery.extend({ orderBy: z.enum(["createdAt"]).default("createdAt") });

export function escalationRoutes(store: PlatformStore): Hono<Env> {
  return new Hono<Env>().get("/", (c) => {
    const query = readQuery(c, listQuery);
    if ("response" in query) return query.response;
    const { page, pageSize, orderDirection } = query.value;
    const agentId = c.var.agent.id;
    const rows = store.escalations.list(agentId, orderDirection, pageSize, (page - 1) * pageSize);
    const shown = rows.map((row) => escalationOf(store, row));
    return c.json(pageOf(shown, page, pageSize, store.escalations.count(agentId)));
  });
}

function escalationOf(store: PlatformStore, row: EscalationRow): Served<typeof escalation> {
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
