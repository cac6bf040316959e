// One example for each record, request and response of the description. All are consistent with one
// scenario. Tests validate them against the schemas, and send the page's requests.

import { pageOf } from "../../wire/record.ts";

const at = (time: string): string => `2026-03-02T${time}.000Z`;
const personId = "019cadf0-7a10-7c31-9d54-5f2b1c8e0a01";
const conversationId = "019cadf0-7a11-7e02-8b1f-3f6f2f1d0b02";
const questionId = "019cadf0-9c20-7d13-a6a0-0f8c4e7d0c03";
const answerId = "019cadf0-a0f8-7a44-b5c1-6d3e9b2a0d04";
const fileId = "019cadf1-1b34-7f55-8e92-2a7d5c6b0e05";
const agentId = "5c0f6f4e-2a53-5b1c-9f0e-7d1a3b5c0f06";
const webhookId = "019cadf2-2c45-7a66-9da3-3b8e6d7c0f07";
const deliveryId = "019cadf2-3d56-7b77-8eb4-4c9f7e8d0a08";
const stateId = "8d1a7b2c-3e4f-5a6b-8c7d-9e0f1a2b0c09";
const stored = { createdAt: at("09:30:00"), updatedAt: at("09:31:12") };

const user = {
  id: personId,
  firstName: "Anna",
  lastName: "Berg",
  email: "anna@example.com",
  fkId: "customer-7",
  metadata: { customData: { plan: "gold" } },
  isAnonymized: false,
};

const conversation = {
  id: conversationId,
  conversationUserId: personId,
  title: "Your order 7",
  aiConversationId: "conv_0b8f2c4d6e",
  mode: "ai",
  user,
  ...stored,
  isAnonymized: false,
};

const question = {
  id: questionId,
  message: "Where is my order?",
  rawMessage: "Where is my order?",
  conversationId,
  senderRole: "conversation_user",
  conversationMessageId: questionId,
  source: "api",
  createdAt: at("09:31:10"),
  isAnonymized: false,
};

const reply = {
  ...question,
  id: answerId,
  message: "It ships today.",
  rawMessage: "It ships today.",
  senderRole: "assistant",
  createdAt: at("09:31:12"),
  fullAIResponse: { outputText: "It ships today.", fileCitations: [{ fileId, filename: "shipping.md" }] },
};

const file = {
  id: fileId,
  fileName: "shipping.md",
  url: `https://platform.example.com/external/agent-files/${fileId}/content`,
  createdAt: at("08:00:00"),
  isUploadedToVectorStore: true,
  vectorStoreUploadStatus: "done",
  vectorStoreUploadError: null,
  vectorStoreFileId: `file-${fileId}`,
  uploadedToVectorStoreAt: at("08:00:02"),
};

const agent = {
  organizationId: "1b7e9d3c-5f2a-5c4e-8a6d-0f1e2d3c0b0a",
  organizationName: "Acme",
  id: agentId,
  name: "support",
  publicName: "Acme Support",
  role: "assistant",
  vectorStoreId: "vs_3f2a5c4e",
  aiConfig: {
    id: "2c8f0e4d-6a3b-5d5f-9b7e-1a2f3e4d0c0b",
    model: "some-5-mini",
    temperature: 0.2,
    topP: 1,
    instructions: "Be brief.",
    isCodeInterpreterEnabled: false,
    isFileSearchEnabled: true,
    fileSearchMaxNumResults: 5,
    outputJsonSchema: "",
  },
  status: "active",
  skills: [
    { systemName: "EMAIL", status: "active", email: "support@acme.example", emailSignature: "Acme Support" },
    { systemName: "API", status: "active", apiKey: "the key that was sent" },
  ],
};

const colleague = {
  id: "3d9a1f5e-7b4c-5e6a-8c8f-2b3a4f5e0d0c",
  email: "owner@acme.example",
  firstName: "Otto",
  lastName: "Ek",
  agentRole: null,
  agentAccessStatus: null,
  organizationRole: "owner",
  organizationStatus: "active",
  accessSource: "organization",
  createdAt: at("07:00:00"),
};

const state = {
  id: stateId,
  name: "Complete",
  description: null,
  color: "#2e7d32",
  isPersistent: true,
  createdAt: at("07:00:00"),
  updatedAt: at("07:00:00"),
};

const registration = {
  title: "Turns to the desk",
  description: "Every turn, to the help desk",
  url: "https://hooks.example.com/turns",
  triggerCondition: "each_message",
  headers: { Authorization: "Bearer something-of-yours" },
};

const webhook = { id: webhookId, agentId, ...registration, status: "active", ...stored };

const delivery = {
  id: deliveryId,
  conversationId,
  triggerCondition: "each_message",
  state: "delivered",
  attempts: 1,
  status: 204,
  error: null,
  nextAttemptAt: null,
  createdAt: at("09:31:12"),
};

const escalation = {
  id: "019cadf3-4e67-7c88-9fc5-5daf8f9e0b0d",
  conversationId,
  messageId: questionId,
  topic: "a human",
  response: "A colleague will answer you.",
  notifications: [{ channel: "email", value: "desk@acme.example", state: "stored" }],
  createdAt: at("09:31:12"),
};

const statistic = {
  tokensUsed: 5120,
  tokensPerConversation: 1280,
  vapiSecondsUsed: 240,
  averageCallDuration: 120,
  smsUsed: 6,
  smsPerConversation: 3,
  emailsUsed: 4,
  emailsPerConversation: 2,
};

const webhookDelivery = {
  triggerCondition: "each_message",
  timestamp: at("09:31:12"),
  conversationId,
  userId: personId,
  messageId: answerId,
  message: "It ships today.",
  agent: { id: agentId, name: "support" },
  user,
  conversation,
  messages: [question, reply],
  score: null,
};

export const recordExamples: { readonly [record: string]: unknown } = {
  Agent: agent,
  AgentFile: file,
  AgentUser: user,
  Conversation: conversation,
  ConversationState: state,
  Delivery: delivery,
  Escalation: escalation,
  Message: reply,
  PlatformUser: colleague,
  Statistic: statistic,
  Webhook: webhook,
  WebhookDelivery: webhookDelivery,
};

const person = { firstName: "Anna", lastName: "Berg" };

/** Request examples by operation, each under a short title. */
export const requestExamples: { readonly [operation: string]: { readonly [words: string]: unknown } } = {
  startConversation: {
    "By e-mail": {
      channel: "email",
      ...person,
      email: "anna@example.com",
      fkId: "customer-7",
      emailSubject: "Your order 7",
      emailIntroduction: "Thank you for your order.",
    },
    "By SMS": {
      channel: "sms",
      ...person,
      phoneNumber: "+15550123",
      smsIntroduction: "Hello, this is Acme.",
    },
    "By voice": {
      channel: "voice",
      ...person,
      phoneNumber: "+15550123",
      firstMessage: "Hello, this is Acme.",
    },
  },
  createConversation: { "For a known person": { conversationUserId: personId, title: "Your order 7" } },
  deleteConversations: { "All of one person": { conversationUserId: personId } },
  updateConversation: { "A new title": { title: "Your order 7" }, "To the archive": { status: "archived" } },
  setConversationMode: { "To a person": { mode: "manual" }, "Back to the agent": { mode: "ai" } },
  sendMessage: { "A question": { message: "Where is my order?" } },
  sendMessageAsync: { "A question": { message: "Where is my order?" } },
  sendManualMessage: { "An answer": { message: "I have looked: it ships today." } },
  createUploadUrl: { "A picture": { fileName: "lamp.png", contentType: "image/png" } },
  createUser: { "A customer": { ...person, email: "anna@example.com", fkId: "customer-7" } },
  deleteFiles: { "One document": { fileIds: [fileId] } },
  registerWebhook: { "Every turn": registration },
  fireWebhook: { "About a conversation": { conversationId } },
};

const address = "https://platform.example.com/message-files/4e6f?expires=1772444772000&signature=kF3w";
const pageWith = (item: unknown): object => pageOf([item], 1, 20, 1);

/** Examples of successful responses by operation. */
export const answerExamples: { readonly [operation: string]: unknown } = {
  getAgent: agent,
  listAgentUsers: pageWith(user),
  listAdminUsers: pageWith(colleague),
  getStatistic: statistic,
  listUsersOfAgent: pageWith(user),
  listPlatformUsers: pageWith(colleague),
  listEscalations: pageWith(escalation),
  startConversation: { conversationId },
  createConversation: conversation,
  listConversations: pageWith(conversation),
  listConversationStates: pageWith(state),
  getConversation: conversation,
  updateConversation: conversation,
  setConversationMode: { ...conversation, mode: "manual" },
  sendMessage: reply,
  listMessages: { messages: [question, reply], ...pageOf([question, reply], 1, 2, 2) },
  sendMessageAsync: question,
  getResponse: { status: "completed", message: reply, error: null },
  sendManualMessage: { ...reply, message: "I have looked: it ships today.", senderRole: "manual_assistant" },
  createUploadUrl: { signedUrl: address, storagePath: `conversations/${conversationId}/4e6f/lamp.png` },
  getMessageFileUrl: { signedUrl: address, fileId },
  createUser: user,
  searchUser: { user, conversationIds: [conversationId] },
  getUser: user,
  uploadFile: file,
  listFiles: pageWith(file),
  registerWebhook: { ...webhook, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  listWebhooks: pageWith(webhook),
  listDeliveries: pageWith(delivery),
  fireWebhook: { id: deliveryId },
  resendDelivery: { id: deliveryId },
};
