// Operations on agents, their users and the platform users with access (External API 4.2), and on webhooks
// (4.3).

import * as z from "zod";
import { agent, escalation, statistic } from "../agent.ts";
import { platformUser, user } from "../conversation.ts";
import { accepted, delivery, registerWebhookRequest, webhook } from "../webhook.ts";
import { dateTime, listParameters, type Operation, pageRecord } from "./operation.ts";

export const agentOperations = {
  getAgent: {
    method: "GET",
    path: "/external/agents/by-api-key",
    key: "agent",
    tag: "agents",
    summary: "The agent behind the key, with its configuration and skills",
    answer: { status: 200, record: agent.exact },
    errors: [404],
  },
  listAgentUsers: {
    method: "GET",
    path: "/external/agents/users",
    key: "agent",
    tag: "agents",
    summary: "The people the agent talks to",
    query: listParameters,
    answer: { status: 200, record: pageRecord(user.exact) },
    errors: [400, 404],
  },
  listAdminUsers: {
    method: "GET",
    path: "/external/agents/admin-users",
    key: "agent",
    tag: "agents",
    summary: "Owners and admins of the agent, and active ones of its organization",
    query: listParameters,
    answer: { status: 200, record: pageRecord(platformUser.exact) },
    errors: [400, 404],
  },
  getStatistic: {
    method: "GET",
    path: "/external/agents/statistic",
    key: "agent",
    tag: "agents",
    summary: "What the agent used in a period, with everybody or with one person",
    query: z.object({
      startDate: dateTime.optional(),
      endDate: dateTime.optional(),
      fkId: z.string().optional(),
      fkUserId: z.string().optional(),
      userId: z.uuid().optional(),
      conversationUserId: z.uuid().optional(),
    }),
    answer: { status: 200, record: statistic.exact },
    errors: [400, 404],
  },
  listUsersOfAgent: {
    method: "GET",
    path: "/external/agents/{id}/users",
    key: "organization",
    tag: "agents",
    summary: "The people one of the organization's agents talks to",
    query: listParameters,
    answer: { status: 200, record: pageRecord(user.exact) },
    errors: [400, 404],
  },
  listPlatformUsers: {
    method: "GET",
    path: "/external/agents/{id}/platform-users",
    key: "organization",
    tag: "agents",
    summary: "Everyone with access to one of the organization's agents",
    query: listParameters,
    answer: { status: 200, record: pageRecord(platformUser.exact) },
    errors: [400, 404],
  },
} as const satisfies { readonly [id: string]: Operation };

export const escalationOperations = {
  listEscalations: {
    method: "GET",
    path: "/external/agents/escalations",
    key: "agent",
    tag: "agents",
    summary: "What was escalated, and what became of telling those who are to know",
    query: listParameters,
    answer: { status: 200, record: pageRecord(escalation.exact) },
    errors: [400],
  },
} as const satisfies { readonly [id: string]: Operation };

export const webhookOperations = {
  registerWebhook: {
    method: "POST",
    path: "/external/agents/webhooks",
    key: "agent",
    tag: "webhooks",
    summary: "Registers a webhook; the answer alone tells the secret its deliveries are signed with",
    body: registerWebhookRequest,
    answer: { status: 201, record: webhook.exact },
    errors: [400],
  },
  listWebhooks: {
    method: "GET",
    path: "/external/agents/webhooks",
    key: "agent",
    tag: "webhooks",
    summary: "The agent's webhooks",
    answer: { status: 200, record: pageRecord(webhook.exact) },
    errors: [],
  },
  deleteWebhook: {
    method: "DELETE",
    path: "/external/agents/webhooks/{id}",
    key: "agent",
    tag: "webhooks",
    summary: "Removes a webhook and its log",
    answer: { status: 204, record: null },
    errors: [404],
  },
  listDeliveries: {
    method: "GET",
    path: "/external/agents/webhooks/{id}/deliveries",
    key: "agent",
    tag: "webhooks",
    summary: "What was delivered to a webhook, or will be, newest first",
    query: listParameters,
    answer: { status: 200, record: pageRecord(delivery.exact) },
    errors: [400, 404],
  },
  fireWebhook: {
    method: "POST",
    path: "/external/agents/webhooks/{id}/fire",
    key: "agent",
    tag: "webhooks",
    summary: "Tells a webhook about a conversation now (trigger `manual`)",
    body: z.looseObject({ conversationId: z.string().min(1) }),
    answer: { status: 202, record: accepted.exact },
    errors: [400, 404],
  },
  resendDelivery: {
    method: "POST",
    path: "/external/agents/webhooks/deliveries/{id}/resend",
    key: "agent",
    tag: "webhooks",
    summary: "Delivers again what was delivered, or failed",
    answer: { status: 202, record: accepted.exact },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: Operation };
