// Routes that start, read and list conversations and change their mode.

import type { Clock } from "bridgehead/contract";
import { Hono } from "hono";
import * as z from "zod";
import {
  createConversationRequest,
  deleteConversationsRequest,
  modeRequest,
  startRequest,
  updateConversationRequest,
} from "../../wire/conversation.ts";
import { type FailureDetail, instant, internalError, pageOf, pageQuery } from "../../wire/record.ts";
import type { AgentDefinition } from "../agents/definition.ts";
import { addressProblems, conversationRow, removeConversations, startConversation } from "../conversations/start.ts";
import { countOpening } from "../conversations/statistics.ts";
import { conversationOf } from "../records.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { PlatformStore } from "../store/store.ts";
import { fire } from "../webhooks/deliveries.ts";
import { fail, found, type RouteContext, type RouteEnv, readBody, readQuery, refuseAny } from "./exchange.ts";

const listQuery = pageQuery.extend({
  searchKeyword: z.string().optional(),
  userId: z.string().optional(),
  startDate: instant.optional(),
  endDate: instant.optional(),
  withFeedbacksOnly: z.enum(["true", "false"]).optional(),
});

export function conversationRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  const answer = (c: RouteContext, row: PlatformConversationRow, status: 200 | 201 = 200, extra: object = {}) => {
    const person = store.people.byId(row.agent_id, row.person_id);
    return person ? c.json({ ...conversationOf(row, person), ...extra }, status) : fail(c, internalError);
  };
  return new Hono<RouteEnv>()
    .post("/start", async (c) => {
      const body = await readBody(c, startRequest);
      const problems = [...addressProblems(body), ...stateProblems(c.var.agent, body.conversationStateId)];
      refuseAny(problems);
      const agentId = c.var.agent.id;
      const conversationId = await store.commits.write(() => startConversation(store, agentId, body, clock.now()));
      return c.json({ conversationId }, 201);
    })
    .post("/", async (c) => answer(c, await create(c, store, clock), 201))
    .get("/", (c) => list(c, store))
    .get("/states", (c) => {
      const states = store.states.all(c.var.agent.organization.states);
      return c.json(pageOf(states, 1, Math.max(1, states.length), states.length));
    })
    .delete("/", async (c) => {
      const body = await readBody(c, deleteConversationsRequest);
      const person = store.people.byId(c.var.agent.id, body.conversationUserId);
      if (person) await store.commits.write(() => removeConversations(store, person.id));
      return c.body(null, 204);
    })
    .get("/:id", (c) => {
      const row = found(store.conversations.byId(c.var.agent.id, c.req.param("id")));
      return answer(c, row, 200, { feedbacks: [] });
    })
    .put("/:id", async (c) => answer(c, await update(c, store, clock)))
    .put("/:id/mode", async (c) => {
      const { mode } = await readBody(c, modeRequest);
      const [agentId, id] = [c.var.agent.id, c.req.param("id")];
      const row = await store.commits.write(() => {
        const found = store.conversations.byId(agentId, id);
        if (found && mode && mode !== found.mode) store.conversations.setMode(id, mode, clock.now());
        return store.conversations.byId(agentId, id);
      });
      return answer(c, found(row));
    });
}

async function create(c: RouteContext, store: PlatformStore, clock: Clock): Promise<PlatformConversationRow> {
  const body = await readBody(c, createConversationRequest);
  const { title, context, customData, conversationStateId } = body;
  refuseAny(stateProblems(c.var.agent, conversationStateId));
  const person = found(store.people.byId(c.var.agent.id, body.conversationUserId));
  const row = conversationRow(
    {
      agent_id: c.var.agent.id,
      person_id: person.id,
      channel: "api",
      title: title ?? null,
      context: context ?? null,
      state_id: conversationStateId ?? null,
      metadata: customData ? JSON.stringify({ customData }) : null,
    },
    clock.now(),
  );
  await store.commits.write(() => {
    store.conversations.insert(row);
    countOpening(store, row);
    fire(store, clock.now(), "start_dialog", row);
  });
  return row;
}

async function update(c: RouteContext, store: PlatformStore, clock: Clock): Promise<PlatformConversationRow> {
  const { title = null, context = null, status = null, ...rest } = await readBody(c, updateConversationRequest);
  const { conversationStateId: state_id = null } = rest;
  refuseAny(stateProblems(c.var.agent, state_id ?? undefined));
  const [agentId, id] = [c.var.agent.id, c.req.param("id") ?? ""];
  const row = await store.commits.write(() => {
    if (!store.conversations.byId(agentId, id)) return undefined;
    store.conversations.change(id, { title, context, status, state_id }, clock.now());
    return store.conversations.byId(agentId, id);
  });
  return found(row);
}

/** Rejects unknown states if the organization defines states. */
function stateProblems({ organization }: AgentDefinition, stateId: string | undefined): FailureDetail[] {
  if (stateId === undefined || organization.states.length === 0) return [];
  const known = organization.states.some(({ id }) => id === stateId);
  return known ? [] : [{ path: "conversationStateId", message: "the organization has no such state" }];
}

function list(c: RouteContext, store: PlatformStore): Response {
  const { page, pageSize, orderBy, orderDirection, searchKeyword: keyword, ...wanted } = readQuery(c, listQuery);
  const { id: agentId, name } = c.var.agent;
  // The embedded platform collects no feedback, so this filter matches nothing.
  if (wanted.withFeedbacksOnly === "true") return c.json(pageOf([], page, pageSize, 0));
  const filter = {
    orderBy,
    orderDirection,
    personId: wanted.userId || null,
    // A keyword within the agent's own name matches all its conversations.
    keyword: keyword && !name.toLowerCase().includes(keyword.toLowerCase()) ? keyword : null,
    from: wanted.startDate ?? null,
    until: wanted.endDate ?? null,
  };
  const { rows, total } = store.conversations.list(agentId, filter, pageSize, (page - 1) * pageSize);
  const data = rows.flatMap((row) => {
    const person = store.people.byId(agentId, row.person_id);
    return person ? [{ ...conversationOf(row, person), feedbacks: [] }] : [];
  });
  return c.json(pageOf(data, page, pageSize, total));
}
