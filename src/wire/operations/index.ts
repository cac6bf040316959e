// Every operation of the External API, by its name: what it takes and returns. The description is generated from this
// table, and the client is checked against the platform with it. Record formats come from the public description.

import * as z from "zod";
import {
  agent,
  agentFile,
  deleteFilesRequest,
  downloadUrl,
  escalation,
  statistic,
  uploadUrl,
  uploadUrlRequest,
} from "../agent.ts";
import {
  conversation,
  conversationState,
  createConversationRequest,
  createUserRequest,
  deleteConversationsRequest,
  manualMessageRequest,
  message,
  modeRequest,
  platformUser,
  responseOn,
  sendRequest,
  startRequest,
  startResponse,
  updateConversationRequest,
  user,
  userSearch,
} from "../conversation.ts";
import { accepted, delivery, registerWebhookRequest, webhook } from "../webhook.ts";
import { requestLines } from "./requests.ts";

interface OperationRecords {
  readonly summary: string;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The body is a form with a file. */
  readonly upload?: true;
  readonly answer: {
    readonly status: 200 | 201 | 202 | 204;
    /** JSON, no content, or the bytes of a document. */
    readonly record: z.ZodType | null | "bytes";
  };
  /** In addition to 403, 429 and 500, which every operation has. */
  readonly errors: readonly (400 | 404 | 413)[];
}

/** An operation with its request line. */
export interface Operation extends OperationRecords {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Contains parameters in braces. */
  readonly path: `/external/${string}`;
  /** The credential that the operation requires (External API 5). */
  readonly key: "agent" | "organization";
  readonly tag: "agents" | "conversations" | "users" | "files" | "webhooks";
}

type Operations = { readonly [id: string]: OperationRecords };

/** Date and time in a request. */
const dateTime = z.string().meta({ format: "date-time" });

/** The shared list parameters (External API 4.1). */
const listParameters = z.object({
  page: z.int().min(1).optional(),
  pageSize: z.int().min(1).optional(),
  orderBy: z.enum(["createdAt"]).optional(),
  orderDirection: z.enum(["ASC", "DESC"]).optional(),
});

const pageRecord = (item: z.ZodType) =>
  z.looseObject({
    currentPage: z.number(),
    pageSize: z.number(),
    totalItems: z.number(),
    totalPages: z.number(),
    hasNextPage: z.boolean(),
    hasPreviousPage: z.boolean(),
    data: z.array(item),
  });

type ServedRecord = { readonly exact: z.ZodType };
/** The responses of operations: one record, a page of records (External API 2.1), or no content. */
const found = ({ exact }: ServedRecord) => ({ status: 200, record: exact }) as const;
const created = ({ exact }: ServedRecord) => ({ status: 201, record: exact }) as const;
const queued = { status: 202, record: accepted.exact } as const;
const pageOf = ({ exact }: ServedRecord) => ({ status: 200, record: pageRecord(exact) }) as const;
const done = { status: 200, record: null } as const;
const deleted = { status: 204, record: null } as const;

/** The agent, its users, the platform users with access, and its escalations (External API 4.2). */
const agents = {
  getAgent: {
    summary: "The agent of the key, with its configuration and skills",
    answer: found(agent),
    errors: [404],
  },
  listAgentUsers: {
    summary: "The users of the agent",
    query: listParameters,
    answer: pageOf(user),
    errors: [400, 404],
  },
  listAdminUsers: {
    summary: "Owners and admins of the agent, and active ones of its organization",
    query: listParameters,
    answer: pageOf(platformUser),
    errors: [400, 404],
  },
  getStatistic: {
    summary: "The usage of the agent in a period, with all users or with one",
    query: z.object({
      startDate: dateTime.optional(),
      endDate: dateTime.optional(),
      fkId: z.string().optional(),
      fkUserId: z.string().optional(),
      userId: z.uuid().optional(),
      conversationUserId: z.uuid().optional(),
    }),
    answer: found(statistic),
    errors: [400, 404],
  },
  listUsersOfAgent: {
    summary: "The users of one of the organization's agents",
    query: listParameters,
    answer: pageOf(user),
    errors: [400, 404],
  },
  listPlatformUsers: {
    summary: "Everyone with access to one of the organization's agents",
    query: listParameters,
    answer: pageOf(platformUser),
    errors: [400, 404],
  },
  listEscalations: {
    summary: "The escalations, with the results of their notifications",
    query: listParameters,
    answer: pageOf(escalation),
    errors: [400],
  },
} as const satisfies Operations;

/** Conversations and their messages (External API 4.3). */
const conversations = {
  startConversation: {
    summary: "Starts a conversation by e-mail, SMS or voice",
    body: startRequest,
    answer: created(startResponse),
    errors: [400],
  },
  createConversation: {
    summary: "Opens a conversation without a channel",
    body: createConversationRequest,
    answer: created(conversation),
    errors: [400, 404],
  },
  listConversations: {
    summary: "The agent's conversations",
    query: listParameters.extend({
      orderBy: z.enum(["createdAt", "updatedAt"]).optional(),
      searchKeyword: z.string().optional(),
      userId: z.string().optional(),
      startDate: dateTime.optional(),
      endDate: dateTime.optional(),
      withFeedbacksOnly: z.enum(["true", "false"]).optional(),
    }),
    answer: pageOf(conversation),
    errors: [400],
  },
  deleteConversations: {
    summary: "Removes all conversations of one person",
    body: deleteConversationsRequest,
    answer: deleted,
    errors: [400],
  },
  listConversationStates: {
    summary: "The organization's labels for conversations",
    answer: pageOf(conversationState),
    errors: [],
  },
  getConversation: { summary: "One conversation", answer: found(conversation), errors: [404] },
  updateConversation: {
    summary: "Changes a conversation's title, context, status or label",
    body: updateConversationRequest,
    answer: found(conversation),
    errors: [400, 404],
  },
  setConversationMode: {
    summary: "Gives the conversation to a person (`manual`) or back to the agent (`ai`)",
    body: modeRequest,
    answer: found(conversation),
    errors: [400, 404],
  },
  sendMessage: {
    summary: "Sends a person's message; the answer is the agent's reply, or in manual mode the message itself",
    body: sendRequest,
    answer: created(message),
    errors: [400, 404],
  },
  listMessages: {
    summary: "The messages of a conversation",
    query: listParameters.extend({ shouldIncludeFeedbacks: z.enum(["true", "false"]).optional() }),
    answer: { status: 200, record: pageRecord(message.exact).extend({ messages: z.array(message.exact) }) },
    errors: [400, 404],
  },
  sendMessageAsync: {
    summary: "Sends a person's message without waiting; the answer is the message itself",
    body: sendRequest,
    answer: created(message),
    errors: [400, 404],
  },
  getResponse: {
    summary: "The result of a message that was sent without waiting",
    answer: found(responseOn),
    errors: [404],
  },
  sendManualMessage: {
    summary: "Answers in place of the agent; in manual mode only, and not in a call",
    body: manualMessageRequest,
    answer: found(message),
    errors: [400, 404],
  },
  createUploadUrl: {
    summary:
      "A URL, valid for a quarter of an hour, to PUT a file of a message to; the message names it by its storagePath",
    body: uploadUrlRequest,
    answer: found(uploadUrl),
    errors: [400, 404],
  },
  getMessageFileUrl: {
    summary: "A URL, valid for a quarter of an hour, to GET a message's file from",
    answer: found(downloadUrl),
    errors: [404],
  },
} as const satisfies Operations;

const users = {
  createUser: {
    summary: "Creates a person with an fkId, e-mail address or phone number",
    body: createUserRequest,
    answer: created(user),
    errors: [400],
  },
  searchUser: {
    summary: "Finds a person and their conversations",
    query: z.object({
      email: z.string().optional(),
      phoneNumber: z.string().optional(),
      fkId: z.string().optional(),
    }),
    answer: found(userSearch),
    errors: [400, 404],
  },
  getUser: { summary: "One person", answer: found(user), errors: [404] },
  deleteUser: {
    summary: "Removes a person with all conversations",
    answer: deleted,
    errors: [404],
  },
} as const satisfies Operations;

const files = {
  uploadFile: {
    summary: "Uploads a document: text, Markdown, HTML, PDF or Word",
    upload: true,
    answer: found(agentFile),
    errors: [400, 413],
  },
  listFiles: {
    summary: "The agent's documents",
    query: listParameters,
    answer: pageOf(agentFile),
    errors: [400, 404],
  },
  getFileContent: {
    summary: "A document as it was uploaded",
    answer: { status: 200, record: "bytes" },
    errors: [404],
  },
  addFileToAssistant: {
    summary: "Adds a document to the agent, which then searches it",
    answer: done,
    errors: [400, 404],
  },
  addFileToVectorStore: { summary: "The same operation under another name", answer: done, errors: [400, 404] },
  addFileToVectorStoreAsync: {
    summary: "The same without waiting until it is indexed",
    answer: done,
    errors: [404],
  },
  removeFileFromVectorStore: {
    summary: "Removes a document from the agent; the document is kept",
    answer: done,
    errors: [404],
  },
  deleteFile: { summary: "Removes a document", answer: done, errors: [404] },
  deleteFiles: {
    summary: "Removes several documents",
    body: deleteFilesRequest,
    answer: done,
    errors: [400],
  },
} as const satisfies Operations;

const webhooks = {
  registerWebhook: {
    summary: "Registers a webhook; only this response contains the secret that signs its deliveries",
    body: registerWebhookRequest,
    answer: created(webhook),
    errors: [400, 404],
  },
  listWebhooks: { summary: "The agent's webhooks", answer: pageOf(webhook), errors: [] },
  deleteWebhook: { summary: "Removes a webhook and its log", answer: deleted, errors: [404] },
  listDeliveries: {
    summary: "The deliveries of a webhook, also those to come, newest first",
    query: listParameters,
    answer: pageOf(delivery),
    errors: [400, 404],
  },
  fireWebhook: {
    summary: "Sends a conversation to a webhook now (trigger `manual`)",
    body: z.looseObject({ conversationId: z.string().min(1) }),
    answer: queued,
    errors: [400, 404],
  },
  resendDelivery: { summary: "Sends a delivery again that was delivered or failed", answer: queued, errors: [404] },
} as const satisfies Operations;

export type DescribedOperations = typeof agents & typeof conversations & typeof users & typeof files & typeof webhooks;

/** The names of the groups are the tags of the description. */
const groups: { readonly [tag in Operation["tag"]]: Operations } = {
  agents,
  conversations,
  users,
  files,
  webhooks,
};

export const operations = Object.fromEntries(
  Object.entries(groups).flatMap(([tag, group]) =>
    Object.entries(group).map(([id, records]) => {
      const [method, path, key] = requestLines[id as keyof DescribedOperations];
      return [id, { method, path, key, tag, ...records }];
    }),
  ),
) as unknown as {
  readonly [Id in keyof DescribedOperations]: DescribedOperations[Id] & Omit<Operation, keyof OperationRecords>;
};
