// Operations on conversations and their messages, on agent users and on agent files (External API 4.3; record formats
// from the public description).

import * as z from "zod";
import { agentFile, deleteFilesRequest, downloadUrl, uploadUrl, uploadUrlRequest } from "../agent.ts";
import {
  conversation,
  conversationState,
  createConversationRequest,
  createUserRequest,
  deleteConversationsRequest,
  manualMessageRequest,
  message,
  modeRequest,
  responseOn,
  sendRequest,
  startRequest,
  startResponse,
  updateConversationRequest,
  user,
  userSearch,
} from "../conversation.ts";
import { dateTime, listParameters, type OperationRecords, pageRecord } from "./operation.ts";

const listQuery = listParameters.extend({
  orderBy: z.enum(["createdAt", "updatedAt"]).optional(),
  searchKeyword: z.string().optional(),
  userId: z.string().optional(),
  startDate: dateTime.optional(),
  endDate: dateTime.optional(),
  withFeedbacksOnly: z.enum(["true", "false"]).optional(),
});

export const conversationOperations = {
  startConversation: {
    summary: "Starts a conversation by e-mail, SMS or voice",
    body: startRequest,
    answer: { status: 201, record: startResponse.exact },
    errors: [400],
  },
  createConversation: {
    summary: "Opens a conversation that no channel is attached to",
    body: createConversationRequest,
    answer: { status: 201, record: conversation.exact },
    errors: [400, 404],
  },
  listConversations: {
    summary: "The agent's conversations",
    query: listQuery,
    answer: { status: 200, record: pageRecord(conversation.exact) },
    errors: [400],
  },
  deleteConversations: {
    summary: "Removes all conversations of one person",
    body: deleteConversationsRequest,
    answer: { status: 204, record: null },
    errors: [400],
  },
  listConversationStates: {
    summary: "The labels the organization gives conversations",
    answer: { status: 200, record: pageRecord(conversationState.exact) },
    errors: [],
  },
  getConversation: {
    summary: "One conversation",
    answer: { status: 200, record: conversation.exact },
    errors: [404],
  },
  updateConversation: {
    summary: "Changes a conversation's title, context, status or label",
    body: updateConversationRequest,
    answer: { status: 200, record: conversation.exact },
    errors: [400, 404],
  },
  setConversationMode: {
    summary: "Gives the conversation to a person (`manual`) or back to the agent (`ai`)",
    body: modeRequest,
    answer: { status: 200, record: conversation.exact },
    errors: [400, 404],
  },
  sendMessage: {
    summary:
      "Sends a person's message; the answer is the agent's reply, or in manual mode the message itself",
    body: sendRequest,
    answer: { status: 201, record: message.exact },
    errors: [400, 404],
  },
  listMessages: {
    summary: "The messages of a conversation",
    query: listParameters.extend({ shouldIncludeFeedbacks: z.enum(["true", "false"]).optional() }),
    answer: {
      status: 200,
      record: pageRecord(message.exact).extend({ messages: z.array(message.exact) }),
    },
    errors: [400, 404],
  },
  sendMessageAsync: {
    summary: "Sends a person's message without waiting; the answer is the message itself",
    body: sendRequest,
    answer: { status: 201, record: message.exact },
    errors: [400, 404],
  },
  getResponse: {
    summary: "What became of a message that was sent without waiting",
    answer: { status: 200, record: responseOn.exact },
    errors: [404],
  },
  sendManualMessage: {
    summary: "Answers in place of the agent; in manual mode only, and not in a call",
    body: manualMessageRequest,
    answer: { status: 200, record: message.exact },
    errors: [400, 404],
  },
  createUploadUrl: {
    summary:
      "An address for a quarter of an hour to PUT a file to, which a message then names by its storagePath",
    body: uploadUrlRequest,
    answer: { status: 200, record: uploadUrl.exact },
    errors: [400, 404],
  },
  getMessageFileUrl: {
    summary: "An address for a quarter of an hour to GET a message's file from",
    answer: { status: 200, record: downloadUrl.exact },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: OperationRecords };

const done = { status: 200, record: null } as const;

export const userOperations = {
  createUser: {
    summary: "Makes a person known, by fkId, e-mail address or phone number",
    body: createUserRequest,
    answer: { status: 201, record: user.exact },
    errors: [400],
  },
  searchUser: {
    summary: "Finds a person and their conversations",
    query: z.object({
      email: z.string().optional(),
      phoneNumber: z.string().optional(),
      fkId: z.string().optional(),
    }),
    answer: { status: 200, record: userSearch.exact },
    errors: [400, 404],
  },
  getUser: {
    summary: "One person",
    answer: { status: 200, record: user.exact },
    errors: [404],
  },
  deleteUser: {
    summary: "Removes a person and everything that was said with them",
    answer: { status: 204, record: null },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: OperationRecords };

export const fileOperations = {
  uploadFile: {
    summary: "Takes in a document: text, Markdown, HTML, PDF or Word",
    upload: true,
    answer: { status: 200, record: agentFile.exact },
    errors: [400, 413],
  },
  listFiles: {
    summary: "The agent's documents",
    query: listParameters,
    answer: { status: 200, record: pageRecord(agentFile.exact) },
    errors: [400],
  },
  getFileContent: {
    summary: "A document as it was uploaded",
    answer: { status: 200, record: "bytes" },
    errors: [404],
  },
  addFileToAssistant: {
    summary: "Makes a document searchable: the agent answers from it",
    answer: done,
    errors: [400, 404],
  },
  addFileToVectorStore: {
    summary: "The same under its other name",
    answer: done,
    errors: [400, 404],
  },
  addFileToVectorStoreAsync: {
    summary: "The same without waiting until it is read",
    answer: done,
    errors: [404],
  },
  removeFileFromVectorStore: {
    summary: "The agent answers from it no more; the document stays",
    answer: done,
    errors: [404],
  },
  deleteFile: {
    summary: "Removes a document",
    answer: done,
    errors: [404],
  },
  deleteFiles: {
    summary: "Removes several documents",
    body: deleteFilesRequest,
    answer: done,
    errors: [400],
  },
} as const satisfies { readonly [id: string]: OperationRecords };
