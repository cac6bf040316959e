// Operations on conversations and their messages (External API 4.3; record formats from the public
// description).

import * as z from "zod";
import {
  conversation,
  conversationState,
  createConversationRequest,
  deleteConversationsRequest,
  modeRequest,
  updateConversationRequest,
} from "../conversation.ts";
import { downloadUrl, uploadUrl, uploadUrlRequest } from "../file.ts";
import { manualMessageRequest, message, responseOn, sendRequest } from "../message.ts";
import { startRequest, startResponse } from "../start.ts";
import { dateTime, type Operation, pageRecord } from "./operation.ts";

const common = { key: "agent", tag: "conversations" } as const;
const listQuery = z.object({
  page: z.int().min(1).optional(),
  pageSize: z.int().min(1).optional(),
  orderBy: z.enum(["createdAt", "updatedAt"]).optional(),
  orderDirection: z.enum(["ASC", "DESC"]).optional(),
  searchKeyword: z.string().optional(),
  userId: z.string().optional(),
  startDate: dateTime.optional(),
  endDate: dateTime.optional(),
  withFeedbacksOnly: z.enum(["true", "false"]).optional(),
});

export const conversationOperations = {
  startConversation: {
    ...common,
    method: "POST",
    path: "/external/conversations/start",
    summary: "Starts a conversation by e-mail, SMS or voice",
    body: startRequest,
    answer: { status: 201, record: startResponse.exact },
    errors: [400],
  },
  createConversation: {
    ...common,
    method: "POST",
    path: "/external/conversations",
    summary: "Opens a conversation that no channel is attached to",
    body: createConversationRequest,
    answer: { status: 201, record: conversation.exact },
    errors: [400, 404],
  },
  listConversations: {
    ...common,
    method: "GET",
    path: "/external/conversations",
    summary: "The agent's conversations",
    query: listQuery,
    answer: { status: 200, record: pageRecord(conversation.exact) },
    errors: [400],
  },
  deleteConversations: {
    ...common,
    method: "DELETE",
    path: "/external/conversations",
    summary: "Removes all conversations of one person",
    body: deleteConversationsRequest,
    answer: { status: 204, record: null },
    errors: [400],
  },
  listConversationStates: {
    ...common,
    method: "GET",
    path: "/external/conversations/states",
    summary: "The labels the organization gives conversations",
    answer: { status: 200, record: pageRecord(conversationState.exact) },
    errors: [],
  },
  getConversation: {
    ...common,
    method: "GET",
    path: "/external/conversations/{id}",
    summary: "One conversation",
    answer: { status: 200, record: conversation.exact },
    errors: [404],
  },
  updateConversation: {
    ...common,
    method: "PUT",
    path: "/external/conversations/{id}",
    summary: "Changes a conversation's title, context, status or label",
    body: updateConversationRequest,
    answer: { status: 200, record: conversation.exact },
    errors: [400, 404],
  },
  setConversationMode: {
    ...common,
    method: "PUT",
    path: "/external/conversations/{id}/mode",
    summary: "Gives the conversation to a person (`manual`) or back to the agent (`ai`)",
    body: modeRequest,
    answer: { status: 200, record: conversation.exact },
    errors: [400, 404],
  },
  sendMessage: {
    ...common,
    method: "POST",
    path: "/external/conversations/{id}/messages",
    summary:
      "Sends a person's message; the answer is the agent's reply, or in manual mode the message itself",
    body: sendRequest,
    answer: { status: 201, record: message.exact },
    errors: [400, 404],
  },
  listMessages: {
    ...common,
    method: "GET",
    path: "/external/conversations/{id}/messages",
    summary: "The messages of a conversation",
    query: z.object({
      page: z.int().min(1).optional(),
      pageSize: z.int().min(1).optional(),
      orderBy: z.enum(["createdAt"]).optional(),
      orderDirection: z.enum(["ASC", "DESC"]).optional(),
      shouldIncludeFeedbacks: z.enum(["true", "false"]).optional(),
    }),
    answer: {
      status: 200,
      record: pageRecord(message.exact).extend({ messages: z.array(message.exact) }),
    },
    errors: [400, 404],
  },
  sendMessageAsync: {
    ...common,
    method: "POST",
    path: "/external/conversations/{id}/messages/async",
    summary: "Sends a person's message without waiting; the answer is the message itself",
    body: sendRequest,
    answer: { status: 201, record: message.exact },
    errors: [400, 404],
  },
  getResponse: {
    ...common,
    method: "GET",
    path: "/external/conversations/{id}/messages/{messageId}/response-on",
    summary: "What became of a message that was sent without waiting",
    answer: { status: 200, record: responseOn.exact },
    errors: [404],
  },
  sendManualMessage: {
    ...common,
    method: "POST",
    path: "/external/conversations/{id}/send-manual-message",
    summary: "Answers in place of the agent; in manual mode only, and not in a call",
    body: manualMessageRequest,
    answer: { status: 200, record: message.exact },
    errors: [400, 404],
  },
  createUploadUrl: {
    ...common,
    method: "POST",
    path: "/external/conversations/{id}/message-files/upload-url",
    summary:
      "An address for a quarter of an hour to PUT a file to, which a message then names by its storagePath",
    body: uploadUrlRequest,
    answer: { status: 200, record: uploadUrl.exact },
    errors: [400, 404],
  },
  getMessageFileUrl: {
    ...common,
    method: "GET",
    path: "/external/conversations/{id}/message-files/{fileId}/signed-url",
    summary: "An address for a quarter of an hour to GET a message's file from",
    answer: { status: 200, record: downloadUrl.exact },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: Operation };
