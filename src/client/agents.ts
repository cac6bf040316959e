// Operations on the agent and what belongs to it (External API 4.2, 4.3; record formats from the public description):
// - its users, its admins and its usage, and agent users, the persons it talks to (2.2)
// - files, the documents that it answers from
// - webhooks: their registration (4.3, 6) and their delivery log, an addition of Bridgehead's own platform

import { agent, agentFile, escalation, statistic } from "../wire/agent.ts";
import { platformUser, user, userSearch } from "../wire/conversation.ts";
import type { Page } from "../wire/record.ts";
import { accepted, delivery, webhook } from "../wire/webhook.ts";
import type { BodyOf, OperationCaller, OperationFields, QueryOf } from "./caller.ts";
import type { CallResult } from "./exchange.ts";
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

const ofAgent = { method: "GET", key: "agent", mayBeMissing: true } as const;
const organizations = { ...ofAgent, key: "organization" } as const;
const getLine: OperationFields<"getAgent"> = { ...ofAgent, path: "/external/agents/by-api-key" };
const usersLine: OperationFields<"listAgentUsers"> = { ...ofAgent, path: "/external/agents/users" };
const adminsLine: OperationFields<"listAdminUsers"> = { ...ofAgent, path: "/external/agents/admin-users" };
const statisticLine: OperationFields<"getStatistic"> = { ...ofAgent, path: "/external/agents/statistic" };
const escalationsLine: OperationFields<"listEscalations"> = {
  ...ofAgent,
  path: "/external/agents/escalations",
  mayBeMissing: false,
};
const usersOfLine: OperationFields<"listUsersOfAgent"> = {
  ...organizations,
  path: "/external/agents/{id}/users",
};
const platformUsersLine: OperationFields<"listPlatformUsers"> = {
  ...organizations,
  path: "/external/agents/{id}/platform-users",
};

export function agentsOf({ call, json }: OperationCaller): Agents {
  const record = json(one(agent.read));
  const people = json(pageOf(user.read));
  const colleagues = json(pageOf(platformUser.read));
  const numbers = json(one(statistic.read));
  const escalated = json(pageOf(escalation.read));
  return {
    get: (options) => call(getLine, { answer: record }, options),
    users: (query, options) => call(usersLine, { query, answer: people }, options),
    adminUsers: (query, options) => call(adminsLine, { query, answer: colleagues }, options),
    statistic: (query, options) => call(statisticLine, { query, answer: numbers }, options),
    escalations: (query, options) => call(escalationsLine, { query, answer: escalated }, options),
    usersOf: (id, query, options) => call(usersOfLine, { names: { id }, query, answer: people }, options),
    platformUsersOf: (id, query, options) =>
      call(platformUsersLine, { names: { id }, query, answer: colleagues }, options),
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

const createLine: OperationFields<"createUser"> = {
  method: "POST",
  path: "/external/users",
  key: "agent",
  mayBeMissing: false,
};
const named = { key: "agent", mayBeMissing: true } as const;
const searchLine: OperationFields<"searchUser"> = { ...named, method: "GET", path: "/external/users/search" };
const userLine: OperationFields<"getUser"> = { ...named, method: "GET", path: "/external/users/{id}" };
const deleteLine: OperationFields<"deleteUser"> = {
  ...named,
  method: "DELETE",
  path: "/external/users/{id}",
};

export function usersOf({ call, json }: OperationCaller): Users {
  const record = json(one(user.read));
  const found = json(one(userSearch.read));
  return {
    create: (body, options) => call(createLine, { body, answer: record }, options),
    search: (query, options) => call(searchLine, { query, answer: found }, options),
    get: (id, options) => call(userLine, { names: { id }, answer: record }, options),
    delete: (id, options) =>
      call(deleteLine, { names: { id }, answer: { form: "nothing", value: undefined } }, options),
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

const unnamed = { key: "agent", mayBeMissing: false } as const;
const ofFile = "/external/agent-files/{id}";
const uploadLine: OperationFields<"uploadFile"> = {
  ...unnamed,
  method: "POST",
  path: "/external/agent-files/upload",
};
const filesLine: OperationFields<"listFiles"> = {
  ...unnamed,
  method: "GET",
  path: "/external/agent-files/by-api-key",
};
const contentLine: OperationFields<"getFileContent"> = { ...named, method: "GET", path: `${ofFile}/content` };
const assistantLine: OperationFields<"addFileToAssistant"> = {
  ...named,
  method: "PUT",
  path: `${ofFile}/add-to-assistant`,
};
const storeLine: OperationFields<"addFileToVectorStore"> = {
  ...named,
  method: "PUT",
  path: `${ofFile}/add-to-vector-store`,
};
const storeAsyncLine: OperationFields<"addFileToVectorStoreAsync"> = {
  ...named,
  method: "PUT",
  path: `${ofFile}/add-to-vector-store/async`,
};
const removeLine: OperationFields<"removeFileFromVectorStore"> = {
  ...named,
  method: "DELETE",
  path: `${ofFile}/delete-from-vector-store`,
};
const deleteFileLine: OperationFields<"deleteFile"> = {
  ...named,
  method: "DELETE",
  path: `${ofFile}/delete`,
};
const deleteManyLine: OperationFields<"deleteFiles"> = {
  ...unnamed,
  method: "DELETE",
  path: "/external/agent-files",
};

export function filesOf({ call, json }: OperationCaller): Files {
  const record = json(one(agentFile.read));
  const page = json(pageOf(agentFile.read));
  const bytes = { form: "bytes", read: (body: Uint8Array) => body } as const;
  const nothing = { form: "nothing", value: undefined } as const;
  const done =
    (
      line:
        | typeof assistantLine
        | typeof storeLine
        | typeof storeAsyncLine
        | typeof removeLine
        | typeof deleteFileLine,
    ) =>
    (id: string, options?: CallOptions) =>
      call<void>(line, { names: { id }, answer: nothing }, options);
  return {
    async upload(file, options) {
      return call(uploadLine, { form: await formOf(file), answer: record }, options);
    },
    list: (query, options) => call(filesLine, { query, answer: page }, options),
    content: (id, options) => call(contentLine, { names: { id }, answer: bytes }, options),
    addToAssistant: done(assistantLine),
    addToVectorStore: done(storeLine),
    addToVectorStoreAsync: done(storeAsyncLine),
    removeFromVectorStore: done(removeLine),
    delete: done(deleteFileLine),
    deleteMany: (fileIds, options) => call(deleteManyLine, { body: { fileIds }, answer: nothing }, options),
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

const webhooks = "/external/agents/webhooks";
const ofWebhook = "/external/agents/webhooks/{id}";
const registerLine: OperationFields<"registerWebhook"> = { ...unnamed, method: "POST", path: webhooks };
const webhooksLine: OperationFields<"listWebhooks"> = { ...unnamed, method: "GET", path: webhooks };
const unregisterLine: OperationFields<"deleteWebhook"> = { ...named, method: "DELETE", path: ofWebhook };
const deliveriesLine: OperationFields<"listDeliveries"> = {
  ...named,
  method: "GET",
  path: `${ofWebhook}/deliveries`,
};
const fireLine: OperationFields<"fireWebhook"> = { ...named, method: "POST", path: `${ofWebhook}/fire` };
const resendLine: OperationFields<"resendDelivery"> = {
  ...named,
  method: "POST",
  path: "/external/agents/webhooks/deliveries/{id}/resend",
};

export function webhooksOf({ call, json }: OperationCaller): Webhooks {
  const record = json(one(webhook.read));
  const page = json(pageOf(webhook.read));
  const log = json(pageOf(delivery.read));
  const queued = json(one(accepted.read));
  return {
    register: (body, options) => call(registerLine, { body, answer: record }, options),
    list: (options) => call(webhooksLine, { answer: page }, options),
    delete: (id, options) =>
      call(unregisterLine, { names: { id }, answer: { form: "nothing", value: undefined } }, options),
    deliveries: (id, query, options) => call(deliveriesLine, { names: { id }, query, answer: log }, options),
    fire: (id, conversationId, options) =>
      call(fireLine, { names: { id }, body: { conversationId }, answer: queued }, options),
    resend: (id, options) => call(resendLine, { names: { id }, answer: queued }, options),
  };
}
