// Operations on the agent and what belongs to it (External API 4.2, 4.3; record formats from the public description):
// - its users, its admins and its usage, and agent users, the persons it talks to (2.2)
// - files, the documents that it answers from
// - webhooks: their registration (4.3, 6) and their delivery log, an addition of Bridgehead's own platform

import { agent, agentFile, escalation, statistic } from "../wire/agent.ts";
import { platformUser, user, userSearch } from "../wire/conversation.ts";
import { accepted, delivery, webhook } from "../wire/webhook.ts";
import type { OperationCaller } from "./caller.ts";
import type { Methods } from "./operations.ts";
import type {
  Agent,
  AgentFile,
  CallOptions,
  Delivery,
  Escalation,
  Page,
  PlatformUser,
  Statistic,
  User,
  UserSearch,
  Webhook,
} from "./options.ts";
import { type BodyContent, nothing, one, pageOf } from "./reading.ts";

export type Agents = ReturnType<typeof agentsOf>;

export function agentsOf({ json }: OperationCaller, { plain, queried, queriedById }: Methods) {
  const record: BodyContent<Agent> = json(one(agent.read));
  const people: BodyContent<Page<User>> = json(pageOf(user.read));
  const colleagues: BodyContent<Page<PlatformUser>> = json(pageOf(platformUser.read));
  const usage: BodyContent<Statistic> = json(one(statistic.read));
  const escalated: BodyContent<Page<Escalation>> = json(pageOf(escalation.read));
  return {
    /** GET /external/agents/by-api-key: returns the agent of the key, with its configuration and skills (2.4). */
    get: plain("getAgent", record),
    /** GET /external/agents/users: returns one page of the agent's users (2.2). */
    users: queried("listAgentUsers", people),
    /** GET /external/agents/admin-users: returns one page of its owners and admins, and active ones of its
     *  organization (2.3). */
    adminUsers: queried("listAdminUsers", colleagues),
    /** GET /external/agents/statistic: returns the usage of a period or of one user (2.7). */
    statistic: queried("getStatistic", usage),
    /** GET /external/agents/escalations: returns past escalations and the notified recipients.
     *  Bridgehead's own platform provides this list; the interface does not define it. */
    escalations: queried("listEscalations", escalated),
    /** GET /external/agents/{id}/users: returns the users of one of the organization's agents. Requires
     *  the organization's key. `missing`: the organization has no such agent. */
    usersOf: queriedById("listUsersOfAgent", people),
    /** GET /external/agents/{id}/platform-users: returns all platform users with access to one of the
     *  organization's agents (4.2, rule 1). Requires the organization's key. */
    platformUsersOf: queriedById("listPlatformUsers", colleagues),
  };
}

export type Users = ReturnType<typeof usersOf>;

export function usersOf({ json }: OperationCaller, { queried, posted, byId }: Methods) {
  const record: BodyContent<User> = json(one(user.read));
  const found: BodyContent<UserSearch> = json(one(userSearch.read));
  return {
    /** POST /external/users: creates a user by fkId, e-mail address or phone number. `refused` (400) when
     *  the user already exists or the data is invalid. */
    create: posted("createUser", record),
    /** GET /external/users/search: returns a user and the ids of their conversations, by one of the three.
     *  `missing`: no such user exists. */
    search: queried("searchUser", found),
    /** GET /external/users/{id}. `missing`: the user does not exist. */
    get: byId("getUser", record),
    /** DELETE /external/users/{id}: deletes a user with all their conversations. */
    delete: byId("deleteUser", nothing),
  };
}

export interface Upload {
  readonly fileName: string;
  /** The whole file, held in memory. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Default: derived from the file name, which most platforms use. */
  readonly mediaType?: string;
  /** Adds the file to the search index immediately. */
  readonly autoAddToVectorStore?: boolean;
}

export type Files = ReturnType<typeof filesOf>;

export function filesOf({ call, json }: OperationCaller, { queried, byId }: Methods) {
  const record: BodyContent<AgentFile> = json(one(agentFile.read));
  const page: BodyContent<Page<AgentFile>> = json(pageOf(agentFile.read));
  const bytes: BodyContent<Uint8Array> = { form: "bytes", read: (body) => body };
  return {
    /** POST /external/agent-files/upload: uploads one file as a form. It is searchable after `addToAssistant`. */
    upload: async (file: Upload, options?: CallOptions) =>
      call("uploadFile", { form: await formOf(file), answer: record }, options),
    /** GET /external/agent-files/by-api-key: returns one page. */
    list: queried("listFiles", page),
    /** GET /external/agent-files/{id}/content: returns the document as it was uploaded. */
    content: byId("getFileContent", bytes),
    /** PUT /external/agent-files/{id}/add-to-assistant: makes the document available to the agent's answers. */
    addToAssistant: byId("addFileToAssistant", nothing),
    /** PUT /external/agent-files/{id}/add-to-vector-store: another name of the same operation. */
    addToVectorStore: byId("addFileToVectorStore", nothing),
    /** PUT /external/agent-files/{id}/add-to-vector-store/async: the same operation, without waiting until
     *  the document is read. */
    addToVectorStoreAsync: byId("addFileToVectorStoreAsync", nothing),
    /** DELETE /external/agent-files/{id}/delete-from-vector-store: removes it from the agent's index. The
     *  document remains stored. */
    removeFromVectorStore: byId("removeFileFromVectorStore", nothing),
    /** DELETE /external/agent-files/{id}/delete. `missing`: the file does not exist. */
    delete: byId("deleteFile", nothing),
    /** DELETE /external/agent-files: deletes several files. Unknown ids are ignored. */
    deleteMany: (fileIds: readonly string[], options?: CallOptions) =>
      call("deleteFiles", { body: { fileIds }, answer: nothing }, options),
  };
}

/** Returns the form's bytes and its content type with the boundary. */
async function formOf({ fileName, bytes, mediaType, autoAddToVectorStore }: Upload) {
  const form = new FormData();
  form.set("file", new File([bytes], fileName, mediaType === undefined ? {} : { type: mediaType }));
  if (autoAddToVectorStore !== undefined) form.set("autoAddToVectorStore", String(autoAddToVectorStore));
  const encoded = new Response(form);
  const type = encoded.headers.get("content-type") ?? "multipart/form-data";
  return { type, bytes: new Uint8Array(await encoded.arrayBuffer()) };
}

export type Webhooks = ReturnType<typeof webhooksOf>;

export function webhooksOf({ call, json }: OperationCaller, { plain, posted, byId, queriedById }: Methods) {
  const record: BodyContent<Webhook> = json(one(webhook.read));
  const page: BodyContent<Page<Webhook>> = json(pageOf(webhook.read));
  const log: BodyContent<Page<Delivery>> = json(pageOf(delivery.read));
  const queued: BodyContent<{ readonly id: string }> = json(one(accepted.read));
  return {
    /** POST /external/agents/webhooks: registers a webhook. Only this response contains the secret that
     *  signs deliveries. `refused`: the address is not a public HTTPS address. */
    register: posted("registerWebhook", record),
    /** GET /external/agents/webhooks. */
    list: plain("listWebhooks", page),
    /** DELETE /external/agents/webhooks/{id}: deletes a webhook with its log. */
    delete: byId("deleteWebhook", nothing),
    /** GET /external/agents/webhooks/{id}/deliveries: returns one page of past and pending deliveries, newest first. */
    deliveries: queriedById("listDeliveries", log),
    /** POST /external/agents/webhooks/{id}/fire: sends a delivery for a conversation now. */
    fire: (id: string, conversationId: string, options?: CallOptions) =>
      call("fireWebhook", { names: { id }, body: { conversationId }, answer: queued }, options),
    /** POST /external/agents/webhooks/deliveries/{id}/resend. */
    resend: byId("resendDelivery", queued),
  };
}
