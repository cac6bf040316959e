// Messages: the record and the requests that add one. The list is `{messages: [...]}` on the known
// platforms, but the interface's general rule promises the page envelope. The client accepts both, and the
// platform serves both in one object.

import * as z from "zod";
import { messageFile } from "./file.ts";
import { record } from "./record.ts";

/** `conversationMessageId` is the id of the question, both on the question and on its answer. */
export const message = record(
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
    files: z.array(messageFile),
  },
);

export type Message = z.output<typeof message.read>;

const files = z.array(z.looseObject({ fileName: z.string(), storagePath: z.string() })).optional();

/** POST /external/conversations/{id}/messages. */
export const sendRequest = z.looseObject({ message: z.string(), context: z.string().optional(), files });

/** POST /external/conversations/{id}/send-manual-message. */
export const manualMessageRequest = z.looseObject({
  message: z.string(),
  conversationMessageId: z.string().optional(),
  authorId: z.string().optional(),
  files,
});

/** GET .../messages/{questionId}/response-on: the status of a question sent with .../messages/async. */
export const responseOn = record(
  "response",
  { status: z.enum(["pending", "completed", "failed"]) },
  { message: message.exact.nullable(), error: z.string().nullable() },
  {},
);
