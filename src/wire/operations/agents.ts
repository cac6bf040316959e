// Operations on agents, their users and the platform users with access (External API 4.2), and on webhooks
// (4.3).

import * as z from "zod";
import { agent, escalation, statistic } from "../agent.ts";
import { platformUser, user } from "../conversation.ts";
import { accepted, delivery, registerWebhookRequest, webhook } from "../webhook.ts";
import { dateTime, listParameters, type OperationRecords, pageRecord } from "./operation.ts";

export const agentOperations = {
  getAgent: {
    summary: "The agent behind the key, with its configuration and skills",
    answer: { status: 200, record: agent.exact },
    errors: [404],
  },
  listAgentUsers: {
    summary: "The people the agent talks to",
    query: listParameters,
    answer: { status: 200, record: pageRecord(user.exact) },
    errors: [400, 404],
  },
  listAdminUsers: {
    summary: "Owners and admins of the agent, and active ones of its organization",
    query: listParameters,
    answer: { status: 200, record: pageRecord(platformUser.exact) },
    errors: [400, 404],
  },
  getStatistic: {
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
    summary: "The people one of the organization's agents talks to",
    query: listParameters,
    answer: { status: 200, record: pageRecord(user.exact) },
    errors: [400, 404],
  },
  listPlatformUsers: {
    summary: "Everyone with access to one of the organization's agents",
    query: listParameters,
    answer: { status: 200, record: pageRecord(platformUser.exact) },
    errors: [400, 404],
  },
} as const satisfies { readonly [id: string]: OperationRecords };

export const escalationOperations = {
  listEscalations: {
    summary: "What was escalated, and what became of telling those who are to know",
    query: listParameters,
    answer: { status: 200, record: pageRecord(escalation.exact) },
    errors: [400],
  },
} as const satisfies { readonly [id: string]: OperationRecords };

export const webhookOperations = {
  registerWebhook: {
    summary: "Registers a webhook; the answer alone tells the secret its deliveries are signed with",
    body: registerWebhookRequest,
    answer: { status: 201, record: webhook.exact },
    errors: [400],
  },
  listWebhooks: {
    summary: "The agent's webhooks",
    answer: { status: 200, record: pageRecord(webhook.exact) },
    errors: [],
  },
  deleteWebhook: {
    summary: "Removes a webhook and its log",
    answer: { status: 204, record: null },
    errors: [404],
  },
  listDeliveries: {
    summary: "What was delivered to a webhook, or will be, newest first",
    query: listParameters,
    answer: { status: 200, record: pageRecord(delivery.exact) },
    errors: [400, 404],
  },
  fireWebhook: {
    summary: "Tells a webhook about a conversation now (trigger `manual`)",
    body: z.looseObject({ conversationId: z.string().min(1) }),
    answer: { status: 202, record: accepted.exact },
    errors: [400, 404],
  },
  resendDelivery: {
    summary: "Delivers again what was delivered, or failed",
    answer: { status: 202, record: accepted.exact },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: OperationRecords };
