// Two ways to the same interface: plain requests, written from the document's tables of operations, and the client. Both
// answer in one form, so that one test speaks for both.

import { afterAll } from "vitest";
import { type CallResult, type Client, createClient, createRate } from "../../../src/client/index.ts";
import { embedded, type Target } from "./target.ts";

export interface Ask {
  readonly id?: string;
  readonly messageId?: string;
  readonly fileId?: string;
  readonly query?: { readonly [name: string]: string };
  readonly body?: unknown;
  readonly file?: { readonly name: string; readonly text: string };
  /** In place of the target's. */
  readonly key?: string;
}
export interface Answer {
  /** Any 2xx is 200 through the client, which does not tell them apart. */
  readonly status: number;
  // The tests look into whatever comes.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}
export type Driver = (operation: OperationName, ask?: Ask) => Promise<Answer>;

/** External API 4.2, 4.3, and the public description: method, path, credential, the status of a success. */
export const operations = {
  "agents.usersOf": ["GET", "agents/{id}/users", "organization", 200],
  "agents.platformUsersOf": ["GET", "agents/{id}/platform-users", "organization", 200],
  "agents.users": ["GET", "agents/users", "agent", 200],
  "agents.adminUsers": ["GET", "agents/admin-users", "agent", 200],
  "agents.get": ["GET", "agents/by-api-key", "agent", 200],
  "agents.statistic": ["GET", "agents/statistic", "agent", 200],
  "conversations.start": ["POST", "conversations/start", "agent", 201],
  "conversations.send": ["POST", "conversations/{id}/messages", "agent", 201],
  "conversations.get": ["GET", "conversations/{id}", "agent", 200],
  "conversations.messages": ["GET", "conversations/{id}/messages", "agent", 200],
  "conversations.create": ["POST", "conversations", "agent", 201],
  "conversations.list": ["GET", "conversations", "agent", 200],
  "conversations.update": ["PUT", "conversations/{id}", "agent", 200],
  "conversations.setMode": ["PUT", "conversations/{id}/mode", "agent", 200],
  "conversations.states": ["GET", "conversations/states", "agent", 200],
  "conversations.sendAsync": ["POST", "conversations/{id}/messages/async", "agent", 201],
  "conversations.response": ["GET", "conversations/{id}/messages/{messageId}/response-on", "agent", 200],
  "conversations.sendManual": ["POST", "conversations/{id}/send-manual-message", "agent", 200],
  "conversations.uploadUrl": ["POST", "conversations/{id}/message-files/upload-url", "agent", 200],
  "conversations.fileUrl": ["GET", "conversations/{id}/message-files/{fileId}/signed-url", "agent", 200],
  "conversations.deleteAll": ["DELETE", "conversations", "agent", 204],
  "users.create": ["POST", "users", "agent", 201],
  "users.search": ["GET", "users/search", "agent", 200],
  "users.get": ["GET", "users/{id}", "agent", 200],
  "users.delete": ["DELETE", "users/{id}", "agent", 204],
  "files.upload": ["POST", "agent-files/upload", "agent", 200],
  "files.list": ["GET", "agent-files/by-api-key", "agent", 200],
  "files.addToAssistant": ["PUT", "agent-files/{id}/add-to-assistant", "agent", 200],
  "files.addToVectorStore": ["PUT", "agent-files/{id}/add-to-vector-store", "agent", 200],
  "files.addToVectorStoreAsync": ["PUT", "agent-files/{id}/add-to-vector-store/async", "agent", 200],
  "files.removeFromVectorStore": ["DELETE", "agent-files/{id}/delete-from-vector-store", "agent", 200],
  "files.delete": ["DELETE", "agent-files/{id}/delete", "agent", 200],
  "files.deleteMany": ["DELETE", "agent-files", "agent", 200],
  "webhooks.register": ["POST", "agents/webhooks", "agent", 201],
} as const;
export type OperationName = keyof typeof operations;

/** A deployment that others use as well is asked no faster than it allows, by two processes of this suite together. */
const rate = embedded ? undefined : createRate({ requests: 450 });
const always = new AbortController().signal;

const header = { agent: "Agent-Secret-Key", organization: "Organization-Secret-Key" } as const;

/** Requests as the document describes them. */
function plainly(target: Target): Driver {
  return async (operation, { id = "", messageId = "", fileId = "", query, body, file, key } = {}) => {
    const [method, path, credential, success] = operations[operation];
    const address = path.replace("{id}", id).replace("{messageId}", messageId).replace("{fileId}", fileId);
    const search = query ? `?${new URLSearchParams(query).toString()}` : "";
    const form = file ? new FormData() : undefined;
    if (file) form?.set("file", new File([file.text], file.name));
    const own = credential === "agent" ? target.agentKey : target.organizationKey;
    await rate?.turn(always);
    const response = await fetch(`${target.url}/external/${address}${search}`, {
      method,
      headers: {
        [header[credential]]: key ?? own,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: form ?? (body === undefined ? null : JSON.stringify(body)),
    });
    const text = await response.text();
    // The document's status, or it is none of its successes.
    const status = response.status === success || !response.ok ? response.status : -response.status;
    return { status: status === success ? 200 : status, body: text === "" ? undefined : JSON.parse(text) };
  };
}

const statusOf = { unauthorized: 403, missing: 404, deferred: 429, unknown: 500 } as const;

/** The same through the client. */
function throughClient(target: Target): Driver {
  const clients = new Map<string, Client>();
  afterAll(async () => {
    for (const client of clients.values()) await client.close();
  });
  const under = (key: string | undefined): Client => {
    const { url, agentKey, organizationKey } = target;
    const known = clients.get(key ?? "");
    if (known) return known;
    const keys = key === undefined ? { agentKey, organizationKey } : { agentKey: key, organizationKey: key };
    const client = createClient({ url, timeoutMs: 30_000, tries: 1, ...keys, ...(rate && { rate }) });
    clients.set(key ?? "", client);
    return client;
  };
  return async (operation, ask = {}) => {
    const result = await methods[operation](under(ask.key), ask);
    if (result.kind === "ok") return { status: 200, body: result.value };
    return { status: result.kind === "refused" ? result.status : statusOf[result.kind], body: undefined };
  };
}

type Method = (client: Client, ask: Ask) => Promise<CallResult<unknown>>;
const idOf = ({ id = "" }: Ask) => id;
const encoded = ({ file }: Ask) => ({
  fileName: file?.name ?? "",
  bytes: new TextEncoder().encode(file?.text ?? ""),
});

// Bodies and queries are given wrong ones too: the compiler's word on them is not asked for.
const methods: { readonly [name in OperationName]: Method } = {
  "agents.usersOf": ({ agents }, ask) => agents.usersOf(idOf(ask), ask.query),
  "agents.platformUsersOf": ({ agents }, ask) => agents.platformUsersOf(idOf(ask), ask.query),
  "agents.users": ({ agents }, ask) => agents.users(ask.query),
  "agents.adminUsers": ({ agents }, ask) => agents.adminUsers(ask.query),
  "agents.get": ({ agents }) => agents.get(),
  "agents.statistic": ({ agents }, ask) => agents.statistic(ask.query),
  "conversations.start": ({ conversations }, ask) => conversations.start(ask.body as never),
  "conversations.send": ({ conversations }, ask) => conversations.send(idOf(ask), ask.body as never),
  "conversations.get": ({ conversations }, ask) => conversations.get(idOf(ask)),
  "conversations.messages": async ({ conversations }, ask) => {
    const result = await conversations.messages(idOf(ask), ask.query);
    return result.kind === "ok" ? { kind: "ok", value: { messages: result.value.data } } : result;
  },
  "conversations.create": ({ conversations }, ask) => conversations.create(ask.body as never),
  "conversations.list": ({ conversations }, ask) => conversations.list(ask.query),
  "conversations.update": ({ conversations }, ask) => conversations.update(idOf(ask), ask.body as never),
  "conversations.setMode": ({ conversations }, ask) =>
    conversations.setMode(idOf(ask), (ask.body as { mode: "ai" }).mode),
  "conversations.states": ({ conversations }) => conversations.states(),
  "conversations.sendAsync": ({ conversations }, ask) =>
    conversations.sendAsync(idOf(ask), ask.body as never),
  "conversations.response": ({ conversations }, ask) =>
    conversations.response(idOf(ask), ask.messageId ?? ""),
  "conversations.sendManual": ({ conversations }, ask) =>
    conversations.sendManual(idOf(ask), ask.body as never),
  "conversations.uploadUrl": ({ conversations }, ask) =>
    conversations.uploadUrl(idOf(ask), ask.body as never),
  "conversations.fileUrl": ({ conversations }, ask) => conversations.fileUrl(idOf(ask), ask.fileId ?? ""),
  "conversations.deleteAll": ({ conversations }, ask) => conversations.deleteAll(ask.body as never),
  "users.create": ({ users }, ask) => users.create(ask.body as never),
  "users.search": ({ users }, ask) => users.search(ask.query ?? {}),
  "users.get": ({ users }, ask) => users.get(idOf(ask)),
  "users.delete": ({ users }, ask) => users.delete(idOf(ask)),
  "files.upload": ({ files }, ask) => files.upload(encoded(ask)),
  "files.list": ({ files }, ask) => files.list(ask.query),
  "files.addToAssistant": ({ files }, ask) => files.addToAssistant(idOf(ask)),
  "files.addToVectorStore": ({ files }, ask) => files.addToVectorStore(idOf(ask)),
  "files.addToVectorStoreAsync": ({ files }, ask) => files.addToVectorStoreAsync(idOf(ask)),
  "files.removeFromVectorStore": ({ files }, ask) => files.removeFromVectorStore(idOf(ask)),
  "files.delete": ({ files }, ask) => files.delete(idOf(ask)),
  "files.deleteMany": ({ files }, ask) => files.deleteMany((ask.body as { fileIds: string[] }).fileIds),
  "webhooks.register": ({ webhooks }, ask) => webhooks.register(ask.body as never),
};

/** Both, by name. */
export const drivers = { "plain requests": plainly, "the client": throughClient } as const;
