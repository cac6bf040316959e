// Operations on the agent and what belongs to it (External API 4.2, 4.3; record formats from the public description):
// - its users, its admins and its usage, and agent users, the persons it talks to (2.2)
// - files, the documents that it answers from
// - webhooks: their registration (4.3, 6) and their delivery log, an addition of Bridgehead's own platform

import { agent, agentFile, escalation, statistic } from "../wire/agent.ts";
import { platformUser, user, userSearch } from "../wire/conversation.ts";
import type { Page } from "../wire/record.ts";
import { accepted, delivery, webhook } from "../wire/webhook.ts";
import type { OperationCaller } from "./caller.ts";
import type { BodyOf, OperationId, QueryOf } from "./operations.ts";
import type {
  Agent,
  AgentFile,
  CallOptions,
  Delivery,
  Escalation,
  PlatformUser,
  Statistic,
  User,
  UserSearch,
  Webhook,
} from "./options.ts";
import { one, pageOf } from "./reading.ts";
import type { CallResult } from "./result.ts";

export interface Agents {
  /** GET /external/agents/by-api-key: returns the agent of the key, with its configuration and skills
   *  (2.4). */
  get(options?: CallOptions): Promise<CallResult<Agent>>;
  /** GET /external/agents/users: returns one page of the agent's users (2.2). */
  users(query?: QueryOf<"listAgentUsers">, options?: CallOptions): Promise<CallResult<Page<User>>>;
  /** GET /external/agents/admin-users: returns one page of its owners and admins, and active ones of its
   *  organization (2.3). */
  adminUsers(
    query?: QueryOf<"listAdminUsers">,
    options?: CallOptions,
  ): Promise<CallResult<Page<PlatformUser>>>;
  /** GET /external/agents/statistic: returns the usage of a period or of one user (2.7). */
  statistic(query?: QueryOf<"getStatistic">, options?: CallOptions): Promise<CallResult<Statistic>>;
  /** GET /external/agents/escalations: returns past escalations and the notified recipients.
   *  Bridgehead's own platform provides this list; the interface does not define it. */
  escalations(
    query?: QueryOf<"listEscalations">,
    options?: CallOptions,
  ): Promise<CallResult<Page<Escalation>>>;
  /** GET /external/agents/{id}/users: returns the users of one of the organization's agents. Requires
   *  the organization's key. `missing`: the organization has no such agent. */
  usersOf(
    agentId: string,
    query?: QueryOf<"listUsersOfAgent">,
    options?: CallOptions,
  ): Promise<CallResult<Page<User>>>;
  /** GET /external/agents/{id}/platform-users: returns all platform users with access to one of the
   *  organization's agents (4.2, rule 1). Requires the organization's key. */
  platformUsersOf(
    agentId: string,
    query?: QueryOf<"listPlatformUsers">,
    options?: CallOptions,
  ): Promise<CallResult<Page<PlatformUser>>>;
}

export function agentsOf({ call, json }: OperationCaller): Agents {
  const record = json(one(agent.read));
  const people = json(pageOf(user.read));
  const colleagues = json(pageOf(platformUser.read));
  const numbers = json(one(statistic.read));
  const escalated = json(pageOf(escalation.read));
  return {
    get: (options) => call("getAgent", { answer: record }, options),
    users: (query, options) => call("listAgentUsers", { query, answer: people }, options),
    adminUsers: (query, options) => call("listAdminUsers", { query, answer: colleagues }, options),
    statistic: (query, options) => call("getStatistic", { query, answer: numbers }, options),
    escalations: (query, options) => call("listEscalations", { query, answer: escalated }, options),
    usersOf: (id, query, options) =>
      call("listUsersOfAgent", { names: { id }, query, answer: people }, options),
    platformUsersOf: (id, query, options) =>
      call("listPlatformUsers", { names: { id }, query, answer: colleagues }, options),
  };
}

export interface Users {
  /** POST /external/users: creates a user by fkId, e-mail address or phone number. `refused` (400) when
   *  the user already exists or the data is invalid. */
  create(body: BodyOf<"createUser">, options?: CallOptions): Promise<CallResult<User>>;
  /** GET /external/users/search: returns a user and the ids of their conversations, by one of the three.
   *  `missing`: no such user exists. */
  search(query: QueryOf<"searchUser">, options?: CallOptions): Promise<CallResult<UserSearch>>;
  /** GET /external/users/{id}. `missing`: the user does not exist. */
  get(id: string, options?: CallOptions): Promise<CallResult<User>>;
  /** DELETE /external/users/{id}: deletes a user with all their conversations. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
}

export function usersOf({ call, json }: OperationCaller): Users {
  const record = json(one(user.read));
  const found = json(one(userSearch.read));
  return {
    create: (body, options) => call("createUser", { body, answer: record }, options),
    search: (query, options) => call("searchUser", { query, answer: found }, options),
    get: (id, options) => call("getUser", { names: { id }, answer: record }, options),
    delete: (id, options) =>
      call("deleteUser", { names: { id }, answer: { form: "nothing", value: undefined } }, options),
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

export interface Files {
  /** POST /external/agent-files/upload: uploads one file as a form. It is searchable after
   *  `addToAssistant`. */
  upload(file: Upload, options?: CallOptions): Promise<CallResult<AgentFile>>;
  /** GET /external/agent-files/by-api-key: returns one page. */
  list(query?: QueryOf<"listFiles">, options?: CallOptions): Promise<CallResult<Page<AgentFile>>>;
  /** GET /external/agent-files/{id}/content: returns the document as it was uploaded. */
  content(id: string, options?: CallOptions): Promise<CallResult<Uint8Array>>;
  /** PUT /external/agent-files/{id}/add-to-assistant: makes the document available to the agent's
   *  answers. */
  addToAssistant(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** PUT /external/agent-files/{id}/add-to-vector-store: another name of the same operation. */
  addToVectorStore(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** PUT /external/agent-files/{id}/add-to-vector-store/async: the same operation, without waiting until
   *  the document is read. */
  addToVectorStoreAsync(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files/{id}/delete-from-vector-store: removes it from the agent's index. The
   *  document remains stored. */
  removeFromVectorStore(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files/{id}/delete. `missing`: the file does not exist. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files: deletes several files. Unknown ids are ignored. */
  deleteMany(ids: readonly string[], options?: CallOptions): Promise<CallResult<void>>;
}

export function filesOf({ call, json }: OperationCaller): Files {
  const record = json(one(agentFile.read));
  const page = json(pageOf(agentFile.read));
  const bytes = { form: "bytes", read: (body: Uint8Array) => body } as const;
  const nothing = { form: "nothing", value: undefined } as const;
  const done = (operation: OperationId) => (id: string, options?: CallOptions) =>
    call<void>(operation, { names: { id }, answer: nothing }, options);
  return {
    async upload(file, options) {
      return call("uploadFile", { form: await formOf(file), answer: record }, options);
    },
    list: (query, options) => call("listFiles", { query, answer: page }, options),
    content: (id, options) => call("getFileContent", { names: { id }, answer: bytes }, options),
    addToAssistant: done("addFileToAssistant"),
    addToVectorStore: done("addFileToVectorStore"),
    addToVectorStoreAsync: done("addFileToVectorStoreAsync"),
    removeFromVectorStore: done("removeFileFromVectorStore"),
    delete: done("deleteFile"),
    deleteMany: (fileIds, options) => call("deleteFiles", { body: { fileIds }, answer: nothing }, options),
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

type AcceptedRecord = { readonly id: string };

export interface Webhooks {
  /** POST /external/agents/webhooks: registers a webhook. Only this response contains the secret that
   *  signs deliveries. `refused`: the address is not a public HTTPS address. */
  register(body: BodyOf<"registerWebhook">, options?: CallOptions): Promise<CallResult<Webhook>>;
  /** GET /external/agents/webhooks. */
  list(options?: CallOptions): Promise<CallResult<Page<Webhook>>>;
  /** DELETE /external/agents/webhooks/{id}: deletes a webhook with its log. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** GET /external/agents/webhooks/{id}/deliveries: returns one page of past and pending deliveries,
   *  newest first. */
  deliveries(
    id: string,
    query?: QueryOf<"listDeliveries">,
    options?: CallOptions,
  ): Promise<CallResult<Page<Delivery>>>;
  /** POST /external/agents/webhooks/{id}/fire: sends a delivery for a conversation now. */
  fire(id: string, conversationId: string, options?: CallOptions): Promise<CallResult<AcceptedRecord>>;
  /** POST /external/agents/webhooks/deliveries/{id}/resend. */
  resend(deliveryId: string, options?: CallOptions): Promise<CallResult<AcceptedRecord>>;
}

export function webhooksOf({ call, json }: OperationCaller): Webhooks {
  const record = json(one(webhook.read));
  const page = json(pageOf(webhook.read));
  const log = json(pageOf(delivery.read));
  const queued = json(one(accepted.read));
  return {
    register: (body, options) => call("registerWebhook", { body, answer: record }, options),
    list: (options) => call("listWebhooks", { answer: page }, options),
    delete: (id, options) =>
      call("deleteWebhook", { names: { id }, answer: { form: "nothing", value: undefined } }, options),
    deliveries: (id, query, options) =>
      call("listDeliveries", { names: { id }, query, answer: log }, options),
    fire: (id, conversationId, options) =>
      call("fireWebhook", { names: { id }, body: { conversationId }, answer: queued }, options),
    resend: (id, options) => call("resendDelivery", { names: { id }, answer: queued }, options),
  };
}
