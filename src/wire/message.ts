// Messages: the record and the requests that add one. The list is `{messages: [...]}` on the platforms seen, while the
// interface's general sentence promises the page envelope: we read either and serve both in one object.

import * as z from "zod";
import { messageFile } from "./message-file.ts";
import { record } from "./record.ts";

/** `conversationMessageId` is the id of the question, on the question and on its answer. */
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
    /** Only where the list was asked for it. */
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

/** GET .../messages/{questionId}/response-on: what became of a question put by .../messages/async. */
export const responseOn = record(
  "response",
  { status: z.enum(["pending", "completed", "failed"]) },
  { message: message.exact.nullable(), error: z.string().nullable() },
  {},
);
