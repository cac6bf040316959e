// The request line of every operation of the External API. It is apart from the schemas of index.ts, which would cost the
// client memory.

import type { DescribedOperations } from "./index.ts";

/** One entry. `key` is the credential that the operation requires (External API 5). `mayBeMissing`: the interface's own
 *  404 means that an object named by the request does not exist; checked against the operation's errors. */
type RequestLine<Id extends keyof DescribedOperations> = readonly [
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: `/external/${string}`,
  key: "agent" | "organization",
  mayBeMissing: 404 extends DescribedOperations[Id]["errors"][number] ? true : false,
];

export const requestLines = {
  getAgent: ["GET", "/external/agents/by-api-key", "agent", true],
  listAgentUsers: ["GET", "/external/agents/users", "agent", true],
  listAdminUsers: ["GET", "/external/agents/admin-users", "agent", true],
  getStatistic: ["GET", "/external/agents/statistic", "agent", true],
  listEscalations: ["GET", "/external/agents/escalations", "agent", false],
  listUsersOfAgent: ["GET", "/external/agents/{id}/users", "organization", true],
  listPlatformUsers: ["GET", "/external/agents/{id}/platform-users", "organization", true],
  createUser: ["POST", "/external/users", "agent", false],
  searchUser: ["GET", "/external/users/search", "agent", true],
  getUser: ["GET", "/external/users/{id}", "agent", true],
  deleteUser: ["DELETE", "/external/users/{id}", "agent", true],
  uploadFile: ["POST", "/external/agent-files/upload", "agent", false],
  listFiles: ["GET", "/external/agent-files/by-api-key", "agent", true],
  getFileContent: ["GET", "/external/agent-files/{id}/content", "agent", true],
  addFileToAssistant: ["PUT", "/external/agent-files/{id}/add-to-assistant", "agent", true],
  addFileToVectorStore: ["PUT", "/external/agent-files/{id}/add-to-vector-store", "agent", true],
  addFileToVectorStoreAsync: ["PUT", "/external/agent-files/{id}/add-to-vector-store/async", "agent", true],
  removeFileFromVectorStore: ["DELETE", "/external/agent-files/{id}/delete-from-vector-store", "agent", true],
  deleteFile: ["DELETE", "/external/agent-files/{id}/delete", "agent", true],
  deleteFiles: ["DELETE", "/external/agent-files", "agent", false],
  registerWebhook: ["POST", "/external/agents/webhooks", "agent", true],
  listWebhooks: ["GET", "/external/agents/webhooks", "agent", false],
  deleteWebhook: ["DELETE", "/external/agents/webhooks/{id}", "agent", true],
  listDeliveries: ["GET", "/external/agents/webhooks/{id}/deliveries", "agent", true],
  fireWebhook: ["POST", "/external/agents/webhooks/{id}/fire", "agent", true],
  resendDelivery: ["POST", "/external/agents/webhooks/deliveries/{id}/resend", "agent", true],
  startConversation: ["POST", "/external/conversations/start", "agent", false],
  createConversation: ["POST", "/external/conversations", "agent", true],
  listConversations: ["GET", "/external/conversations", "agent", false],
  deleteConversations: ["DELETE", "/external/conversations", "agent", false],
  listConversationStates: ["GET", "/external/conversations/states", "agent", false],
  getConversation: ["GET", "/external/conversations/{id}", "agent", true],
  updateConversation: ["PUT", "/external/conversations/{id}", "agent", true],
  setConversationMode: ["PUT", "/external/conversations/{id}/mode", "agent", true],
  sendMessage: ["POST", "/external/conversations/{id}/messages", "agent", true],
  listMessages: ["GET", "/external/conversations/{id}/messages", "agent", true],
  sendMessageAsync: ["POST", "/external/conversations/{id}/messages/async", "agent", true],
  getResponse: ["GET", "/external/conversations/{id}/messages/{messageId}/response-on", "agent", true],
  sendManualMessage: ["POST", "/external/conversations/{id}/send-manual-message", "agent", true],
  createUploadUrl: ["POST", "/external/conversations/{id}/message-files/upload-url", "agent", true],
  getMessageFileUrl: ["GET", "/external/conversations/{id}/message-files/{fileId}/signed-url", "agent", true],
} as const satisfies { readonly [Id in keyof DescribedOperations]: RequestLine<Id> };
