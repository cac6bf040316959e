// What the suite is run against: any deployment of the External API, named by the environment, or the embedded platform.
//
//   EXTERNAL_API_URL               base address; without it the embedded platform is started
//   EXTERNAL_API_AGENT_KEY         of an active agent
//   EXTERNAL_API_ORGANIZATION_KEY  of its organization
//   EXTERNAL_API_WEBHOOK_URL       a public HTTPS address for registrations
//
// Against another deployment it leaves conversations with people at example.com and +1 555 01xx behind, and what needs
// a second organization, a fresh rate or a receiver is skipped.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { afterAll } from "vitest";
import { type CallResult, type Client, createClient, createRate } from "../../../src/client/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type PlatformOptions, readAgents, startPlatform } from "../../../src/platform/index.ts";
import { serve } from "../machine/network.ts";
import { silentLog } from "../resources.ts";
import { skillNames, skillTables, tables } from "./tables.ts";

export interface Target {
  readonly url: string;
  readonly agentKey: string;
  readonly organizationKey: string;
  readonly webhookUrl: string;
  /** Another tenant's, where there is one. */
  readonly foreign: {
    readonly agentKey: string;
    readonly organizationKey: string;
    readonly agentId: string;
  } | null;
}

const { env } = process;
const remote = env["EXTERNAL_API_URL"];
/** The suite runs against the platform in the box, which it may treat as it likes. */
export const embedded = remote === undefined;

const keys = {
  agentKey: "0f6c3c1e-7a55-4e0b-9c39-0d3f5c1b2a10",
  organizationKey: "acme-organization-key",
};
const foreignKeys = {
  agentKey: "0f6c3c1e-7a55-4e0b-9c39-0d3f5c1b2a11",
  organizationKey: "other-organization-key",
};

/** Every skill of the interface, with every field it lists. */
const everySkill: unknown = JSON.parse(
  readFileSync(new URL("../../fixtures/every-skill.json", import.meta.url), "utf8"),
);
const acme = (modelUrl: string) => `
organization:
  name: Acme
  key: ${keys.organizationKey}
  users:
    - { email: owner@acme.test, first_name: Olga, last_name: Owner, role: owner, avatar_url: "https://acme.test/o.png" }
    - { email: idle@acme.test, role: admin, status: inactive }
    - { email: editor@acme.test, role: user }
    - { email: lead@acme.test, role: guest }
    - { email: nobody@acme.test, role: manager }
  states: [{ name: Won, description: Bought, color: "#00aa00", persistent: true }, { name: Lost }]
agents:
  support:
    key: ${keys.agentKey}
    description: Answers customers
    instructions: Be brief.
    users: [{ email: editor@acme.test, role: editor }, { email: lead@acme.test, role: admin }]
    model: { url: "${modelUrl}", name: family-5-mini }
    skills: ${JSON.stringify(everySkill)}
    webhooks:
      - { title: CRM, url: "https://hooks.acme.test/", trigger: manual, headers: { authorization: Bearer x } }
`;
const other = `
organization: { name: Other, key: ${foreignKeys.organizationKey} }
agents: { support: { key: ${foreignKeys.agentKey} } }
`;

/** Starts it for the tests of this file. */
export async function startTarget(over: Partial<PlatformOptions> = {}): Promise<Target> {
  if (remote !== undefined)
    return {
      url: remote.replace(/\/+$/, ""),
      agentKey: env["EXTERNAL_API_AGENT_KEY"] ?? "",
      organizationKey: env["EXTERNAL_API_ORGANIZATION_KEY"] ?? "",
      webhookUrl: env["EXTERNAL_API_WEBHOOK_URL"] ?? "https://example.com/",
      foreign: null,
    };
  const model = await startModel();
  const others = readAgents(other, "other.yaml");
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: [...readAgents(acme(model), "acme.yaml"), ...others],
    clock: systemClock,
    log: silentLog,
    durability: "normal",
    ...over,
  });
  afterAll(() => platform.close());
  const foreign = { ...foreignKeys, agentId: others[0]?.id ?? "" };
  // An address in numbers, so that no name is looked up; nothing is ever delivered to it.
  return { url: platform.url, ...keys, webhookUrl: "https://93.184.216.34/hook", foreign };
}

/** A model that has one word for everything. */
async function startModel(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const body = {
        choices: [{ message: { role: "assistant", content: "No." } }],
        usage: { total_tokens: 12 },
      };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
  });
  const url = await serve(server, afterAll);
  return `${url}/v1`;
}

// Two ways to the same interface: plain requests, written from the document's tables of operations, and the client. Both
// answer in one form, so that one test speaks for both.

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
  // Tests read properties of any response.
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
    // The status of the document, or any status that is not a success of the operation.
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
  "conversations.sendAsync": ({ conversations }, ask) => conversations.sendAsync(idOf(ask), ask.body as never),
  "conversations.response": ({ conversations }, ask) => conversations.response(idOf(ask), ask.messageId ?? ""),
  "conversations.sendManual": ({ conversations }, ask) => conversations.sendManual(idOf(ask), ask.body as never),
  "conversations.uploadUrl": ({ conversations }, ask) => conversations.uploadUrl(idOf(ask), ask.body as never),
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

// Holds a value against the tables: every field that is missing, of another type, or of no allowed value.

interface Field {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly allowed: string;
}

const read = new Map<string, readonly Field[]>();

function fieldsOf(table: string): readonly Field[] {
  const known = read.get(table);
  if (known) return known;
  const text = tables[table] ?? skillTables[table];
  if (text === undefined) throw new Error(`no table ${table}`);
  const fields = text.split("\n").flatMap((line): Field[] => {
    // A pattern may have the separator's character, but never with spaces around it.
    const [name = "", type = "", required, allowed = ""] = line.trim().split(" | ");
    return name === "" ? [] : [{ name, type, required: required === "yes", allowed }];
  });
  read.set(table, fields);
  return fields;
}

/** What is wrong with `value` as a record of this table, a line each; none when it conforms. Fields that the table does
 *  not name may be there. */
export function problems(table: string, value: unknown, at = table): string[] {
  if (!isObject(value)) return [`${at}: no object`];
  const own = fieldsOf(table).flatMap((field) => fieldProblems(field, value, at));
  return table === "skill" ? [...own, ...skillProblems(value, at)] : own;
}

/** The fields of its skill, required or not, that `value` has not. */
export function missing(value: { readonly systemName: string; readonly [key: string]: unknown }): string[] {
  const { systemName: name } = value;
  const fields = name in skillTables ? fieldsOf(name) : [];
  return fields.filter((field) => value[keyOf(field, value)] === undefined).map((field) => field.name);
}

function skillProblems(value: { readonly [key: string]: unknown }, at: string): string[] {
  const name = String(value["systemName"]);
  if (!(skillNames as readonly string[]).includes(name)) return [`${at}: no skill is called ${name}`];
  return name in skillTables ? problems(name, value, `${at}(${name})`) : [];
}

/** A name in slashes is a pattern: the document has a placeholder in it. */
function keyOf({ name }: Field, record: { readonly [key: string]: unknown }): string {
  if (!name.startsWith("/")) return name;
  return Object.keys(record).find((key) => new RegExp(name.slice(1, -1)).test(key)) ?? name;
}

function fieldProblems(field: Field, record: { readonly [key: string]: unknown }, at: string): string[] {
  const name = keyOf(field, record);
  const value = record[name];
  if (value === undefined) return field.required ? [`${at}.${name}: is missing`] : [];
  return valueProblems(field.type, field.allowed, value, `${at}.${name}`);
}

function valueProblems(type: string, allowed: string, value: unknown, at: string): string[] {
  const nullable = type.endsWith(" or null");
  if (value === null && nullable) return [];
  const bare = nullable ? type.slice(0, -" or null".length) : type;
  if (bare.startsWith("array of ")) {
    if (!Array.isArray(value)) return [`${at}: no array`];
    return value.flatMap((each, n) => valueProblems(bare.slice("array of ".length), allowed, each, `${at}[${n}]`));
  }
  const test = primitives[bare];
  if (!test) return problems(bare, value, at);
  if (!test(value)) return [`${at}: ${JSON.stringify(value)} is no ${bare}`];
  return allows(allowed, value) ? [] : [`${at}: ${JSON.stringify(value)} is not allowed`];
}

function allows(allowed: string, value: unknown): boolean {
  if (allowed === "") return true;
  const range = /^(\d+)\.\.(\d+)$/.exec(allowed);
  if (range) return Number(value) >= Number(range[1]) && Number(value) <= Number(range[2]);
  if (allowed.startsWith("/")) return new RegExp(allowed.slice(1, -1)).test(String(value));
  return allowed.split(", ").includes(String(value));
}

const matching = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value);

const primitives: { readonly [type: string]: (value: unknown) => boolean } = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  boolean: (value) => typeof value === "boolean",
  object: (value) => isObject(value),
  "date-time": matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/),
  uuid: matching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i),
  day: matching(/^\d{4}-\d\d-\d\d$/),
};

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
