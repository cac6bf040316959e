// Conversations: the record (GET by id, items of the list) and the requests that open and change them.

import * as z from "zod";
import { record } from "./record.ts";
import { user } from "./user.ts";

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

export const titleLimit = 255;
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
  {},
);

/** PUT /external/conversations/{id}/mode; the interface declares the body optional. */
export const modeRequest = z.looseObject({ mode: z.enum(["manual", "ai"]).optional() });
