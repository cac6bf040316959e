// Users, conversations and messages: the records, and the requests that create, find and change them.
// - agent users, the persons an agent talks to (External API 2.2), and platform users, the members of the organization
//   with access to an agent (2.3)
// - conversations (GET by id, items of the list), and POST /external/conversations/start (4.3): one body per channel, one
//   field in the response
// - messages. The list is `{messages: [...]}` on the known platforms, but the interface's general rule promises the page
//   envelope. The client accepts both, and the platform serves both in one object.

import * as z from "zod";
import { record } from "./record.ts";

const names = { firstName: z.string(), lastName: z.string() };

/** `customData` of a request is returned as `metadata.customData`. */
export const user = record(
  "user",
  { id: z.string() },
  { ...names, isAnonymized: z.boolean() },
  {
    context: z.string(),
    source: z.string(),
    fkId: z.string(),
    fkUserId: z.string(),
    email: z.string(),
    phoneNumber: z.string(),
    metadata: z.record(z.string(), z.unknown()),
  },
);

/** Fields that every request about a user may contain. */
const personFields = {
  ...names,
  context: z.string().optional(),
  source: z.string().optional(),
  fkId: z.string().optional(),
  fkUserId: z.string().optional(),
  customData: z.record(z.string(), z.unknown()).optional(),
  skipPhoneNumberValidation: z.boolean().optional(),
  skipEmailValidation: z.boolean().optional(),
};

/** POST /external/users: at least one of phoneNumber, email and fkId. */
export const createUserRequest = z
  .looseObject({ ...personFields, email: z.string().optional(), phoneNumber: z.string().optional() })
  .refine((body) => Boolean(body.email || body.phoneNumber || body.fkId), {
    message: "one of phoneNumber, email and fkId is required",
    path: ["fkId"],
  });

/** GET /external/users/search: returns the user and their conversations. */
export const userSearch = record("users/search", { user: user.read, conversationIds: z.array(z.string()) });

const status = z.enum(["active", "inactive"]).nullable();

export const agentRoles = ["owner", "admin", "editor", "user", "copilot_user", "copilot_admin"] as const;
export const organizationRoles = [
  "owner",
  "admin",
  "manager",
  "user",
  "copilot_user",
  "copilot_admin",
  "guest",
] as const;

/** `accessSource`: a role on the agent itself, or owner or admin of its organization. */
export const platformUser = record(
  "platform user",
  { id: z.string() },
  {
    email: z.string(),
    firstName: z.string(),
    lastName: z.string(),
    accessSource: z.enum(["agent", "organization"]),
    createdAt: z.string(),
  },
  {
    avatarUrl: z.string().nullable(),
    /** Null without a direct assignment to the agent, like its status. */
    agentRole: z.enum(agentRoles).nullable(),
    agentAccessStatus: status,
    organizationRole: z.enum(organizationRoles).nullable(),
    organizationStatus: status,
  },
);

/** `mode` is `ai` or `manual`. It is read as any string, because the interface names only "manual". */
export const conversation = record(
  "conversation",
  { id: z.string() },
  {
    conversationUserId: z.string(),
    aiConversationId: z.string(),
    user: user.read,
    createdAt: z.string(),
    updatedAt: z.string(),
    isAnonymized: z.boolean(),
  },
  {
    mode: z.string(),
    title: z.string(),
    score: z.number(),
    summary: z.string(),
    metadata: z.record(z.string(), z.unknown()),
    aiCallId: z.string(),
    conversationStateId: z.string(),
    assignedUser: z.looseObject({}).nullable(),
    feedbacks: z.array(z.looseObject({})),
  },
);

/** Returns who answers: a human if, and only if, the platform returns "manual". */
export function modeOf(record: { readonly mode?: string | undefined }): "ai" | "manual" {
  return record.mode?.toLowerCase() === "manual" ? "manual" : "ai";
}

const titleLimit = 255;
export const contextLimit = 256_000;

/** POST /external/conversations. */
export const createConversationRequest = z.looseObject({
  conversationUserId: z.string().min(1),
  title: z.string().max(titleLimit).optional(),
  context: z.string().max(contextLimit).optional(),
  customData: z.record(z.string(), z.unknown()).optional(),
  conversationStateId: z.string().optional(),
});

/** PUT /external/conversations/{id}. The status is write-only; no record contains it. */
export const updateConversationRequest = z.looseObject({
  title: z.string().max(titleLimit).optional(),
  context: z.string().max(contextLimit).optional(),
  status: z.enum(["active", "inactive", "archived"]).optional(),
  conversationStateId: z.string().optional(),
});

/** DELETE /external/conversations: deletes all conversations of one user, within the agent. */
export const deleteConversationsRequest = z.looseObject({ conversationUserId: z.string().min(1) });

/** A label that an organization assigns to conversations; independent of the mode. */
export const conversationState = record(
  "conversation state",
  { id: z.string() },
  {
    name: z.string(),
    description: z.string().nullable(),
    color: z.string().nullable(),
    isPersistent: z.boolean(),
    createdAt: z.string(),
    updatedAt: z.string(),
  },
);

/** PUT /external/conversations/{id}/mode; the interface declares the body optional. */
export const modeRequest = z.looseObject({ mode: z.enum(["manual", "ai"]).optional() });

/** A file in a message's list; `openAIFileId` is the id at the model's provider. */
export const messageFile = record(
  "message file",
  { id: z.string(), fileName: z.string() },
  { openAIFileId: z.string(), createdAt: z.string(), updatedAt: z.string() },
  { size: z.number().nullable() },
);

/** `conversationMessageId` is the id of the question, both on the question and on its answer. */
export const message = { read: messageWith(messageFile.read).read, exact: messageWith(messageFile.exact).exact };

function messageWith<F extends z.ZodType>(file: F) {
  return record(
    "message",
    { id: z.string().min(1), message: z.string(), senderRole: z.string() },
    {
      conversationId: z.string(),
      conversationMessageId: z.string(),
      source: z.string(),
      createdAt: z.string(),
      isAnonymized: z.boolean(),
    },
    {
      rawMessage: z.string(),
      /** Present only when the request of the list asks for it. */
      conversationMessageFeedbacks: z.array(z.looseObject({})),
      fullAIResponse: z.looseObject({
        reasoning: z.array(z.string()).nullish(),
        outputText: z.string().nullish(),
        urlCitations: z.array(z.looseObject({ url: z.string(), title: z.string() })).nullish(),
        fileCitations: z.array(z.looseObject({ fileId: z.string(), filename: z.string() })).nullish(),
      }),
      subagentId: z.string().nullable(),
      expandedMessage: z.string().nullable(),
      files: z.array(file),
    },
  );
}

export type Message = z.output<typeof message.read>;

const files = z.array(z.looseObject({ fileName: z.string(), storagePath: z.string() })).optional();

/** Maximum characters of a message; the interface names no limit. An email without its attachments is below it. */
const messageLimit = 1_000_000;

/** POST /external/conversations/{id}/messages. */
export const sendRequest = z.looseObject({
  message: z.string().max(messageLimit),
  context: z.string().optional(),
  files,
});

/** POST /external/conversations/{id}/send-manual-message. */
export const manualMessageRequest = z.looseObject({
  message: z.string().max(messageLimit),
  conversationMessageId: z.string().optional(),
  authorId: z.string().optional(),
  files,
});

/** GET .../messages/{questionId}/response-on: the status of a question sent with .../messages/async. */
export const responseOn = { read: responseWith(message.read).read, exact: responseWith(message.exact).exact };

function responseWith<M extends z.ZodType>(reply: M) {
  const needs = { status: z.enum(["pending", "completed", "failed"]) };
  return record("response", needs, { message: reply.nullable(), error: z.string().nullable() });
}

const common = {
  ...personFields,
  conversationContext: z.string().optional(),
  conversationStateId: z.string().optional(),
  authorId: z.string().optional(),
};

export const startRequest = z.discriminatedUnion("channel", [
  z.looseObject({
    ...common,
    channel: z.literal("email"),
    email: z.string().min(1),
    phoneNumber: z.string().optional(),
    emailSubject: z.string(),
    emailIntroduction: z.string(),
    includeSignatureInEmail: z.boolean().optional(),
    resetConversation: z.boolean().optional(),
  }),
  z.looseObject({
    ...common,
    channel: z.literal("sms"),
    phoneNumber: z.string().min(1),
    email: z.string().optional(),
    smsIntroduction: z.string(),
    includeSignatureInSms: z.boolean().optional(),
    resetConversation: z.boolean().optional(),
  }),
  z.looseObject({
    ...common,
    channel: z.literal("voice"),
    phoneNumber: z.string().min(1),
    email: z.string().optional(),
    firstMessage: z.string(),
  }),
]);

export const startResponse = record("conversation start", { conversationId: z.string().min(1) });
