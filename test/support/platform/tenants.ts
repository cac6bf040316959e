// A platform of two organizations, with things of each kind in every agent's hands.

import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { type PlatformOptions, readAgents, startPlatform } from "../../../src/platform/index.ts";
import { type Operation, operations as table } from "../../../src/wire/operations/index.ts";

export const keys = { own: "own-agent-key", sister: "sister-agent-key", foreign: "foreign-agent-key" };
export const organizationKeys = { own: "own-organization-key", foreign: "foreign-organization-key" };
export type Tenant = keyof typeof keys;

const own = `
organization: { name: Own, key: ${organizationKeys.own}, states: [{ name: Open }] }
agents:
  own: { key: ${keys.own}, rules: [{ when: open, answer: From nine to five. }] }
  sister: { key: ${keys.sister} }
`;
const foreign = `
organization:
  name: Foreign
  key: ${organizationKeys.foreign}
  states: [{ name: Done }]
  users: [{ email: boss@foreign.test, role: owner }]
agents: { foreign: { key: ${keys.foreign} } }
`;

export interface Grounds {
  readonly port: number;
  readonly url: string;
  /** What was logged as an error of the platform's own. */
  readonly errors: unknown[];
  /** Over one kept connection; a body that is no string or bytes is sent as JSON. */
  readonly ask: (asked: Omit<Asked, "body"> & { readonly body?: unknown }) => Promise<Answered>;
  /** The agent of each tenant. */
  readonly agents: { readonly [tenant in Tenant]: string };
  /** Before its test ends, to see what was logged until then. */
  readonly stop: () => Promise<void>;
}

/** Stops with its test. */
export async function startGrounds(over: Partial<PlatformOptions> = {}): Promise<Grounds> {
  const errors: unknown[] = [];
  const quiet = () => undefined;
  const agents = [...readAgents(own, "own.yaml"), ...readAgents(foreign, "foreign.yaml")];
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents,
    clock: systemClock,
    log: { debug: quiet, info: quiet, warn: quiet, error: (fields: object) => void errors.push(fields) },
    rate: { requests: 1_000_000, perSeconds: 60 },
    durability: "normal",
    allowPrivateWebhooks: true,
    ...over,
  });
  const connection = keptConnection(platform.port);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    connection.close();
    stopped ??= platform.close();
    return stopped;
  };
  onTestFinished(stop);
  const idOf = (name: Tenant) => agents.find((agent) => agent.name === name)?.id ?? "";
  return {
    port: platform.port,
    url: platform.url,
    errors,
    stop,
    agents: { own: idOf("own"), sister: idOf("sister"), foreign: idOf("foreign") },
    ask: ({ body, ...asked }) =>
      connection.ask({
        ...asked,
        body:
          body === undefined || typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
  };
}

/** One thing of each kind under a tenant's key. `word` stands in everything that is theirs alone. */
export async function furnish(
  { ask, agents, errors }: Grounds,
  tenant: Tenant,
  word = `secret-of-${tenant}`,
): Promise<Things> {
  const headers = { "agent-secret-key": keys[tenant] };
  const done = async (method: string, path: string, body?: unknown) => {
    const answered = await ask({ method, path: `/external/${path}`, headers, body });
    if (answered.status >= 300) throw new Error(`${method} ${path}: ${answered.text} ${JSON.stringify(errors)}`);
    return JSON.parse(answered.text || "null");
  };
  const person = { firstName: word, lastName: word, fkId: `fk-${word}`, fkUserId: `fku-${word}` };
  const user = (await done("POST", "users", { ...person, email: `${word}@example.test` })).id as string;
  const opened = { conversationUserId: user, title: `About ${word}`, customData: { word } };
  const conversation = (await done("POST", "conversations", opened)).id as string;
  const announced = { fileName: `${word}.txt`, contentType: "text/plain" };
  const up = await done("POST", `conversations/${conversation}/message-files/upload-url`, announced);
  const address = new URL(up.signedUrl as string);
  await ask({ method: "PUT", path: address.pathname + address.search, body: `A file of ${word}` });
  const { storagePath } = up as { storagePath: string };
  const files = [{ fileName: `${word}.txt`, storagePath }];
  await done("POST", `conversations/${conversation}/messages`, { message: `I am ${word}`, files });
  const { messages } = await done("GET", `conversations/${conversation}/messages`);
  const { id: message, files: attached } = messages[0] as { id: string; files: { id: string }[] };
  const form = `--b\r\ncontent-disposition: form-data; name="file"; filename="${word}.txt"\r\n\r\nA document of ${word}\r\n--b--\r\n`;
  const uploaded = await ask({
    method: "POST",
    path: "/external/agent-files/upload",
    headers: { ...headers, "content-type": "multipart/form-data; boundary=b" },
    body: form,
  });
  const registered = { ...bodies.registerWebhook(nothing), title: word, headers: { "x-token": word } };
  const webhook = (await done("POST", "agents/webhooks", registered)).id as string;
  const fired = await done("POST", `agents/webhooks/${webhook}/fire`, { conversationId: conversation });
  return {
    agent: agents[tenant],
    conversation,
    user,
    message,
    messageFile: attached[0]?.id ?? "",
    storagePath,
    file: JSON.parse(uploaded.text).id as string,
    webhook,
    delivery: fired.id as string,
  };
}

const nothing: Things = {
  agent: "",
  conversation: "",
  user: "",
  message: "",
  messageFile: "",
  storagePath: "",
  file: "",
  webhook: "",
  delivery: "",
};

/** The header that opens an operation to a tenant. */
export function credential(key: "agent" | "organization", tenant: Tenant): { readonly [name: string]: string } {
  return key === "agent"
    ? { "agent-secret-key": keys[tenant] }
    : { "organization-secret-key": tenant === "foreign" ? organizationKeys.foreign : organizationKeys.own };
}

/** What is wrong with an error's body as the interface documents it; null when nothing is. */
export function formProblem({ status, headers, text }: Answered): string | null {
  if (!/^application\/json\b/.test(String(headers["content-type"]))) return `no JSON: ${text.slice(0, 200)}`;
  const body = JSON.parse(text) as { [name: string]: unknown };
  const { name, message, details } = body;
  const whole =
    body["status"] === status &&
    typeof name === "string" &&
    typeof message === "string" &&
    Array.isArray(details) &&
    details.every((each: unknown) => isDetail(each)) &&
    Object.keys(body).length === 4;
  return whole ? null : `another form: ${text.slice(0, 200)}`;
}

function isDetail(each: unknown): boolean {
  const { path, message } = (each ?? {}) as { path?: unknown; message?: unknown };
  return typeof path === "string" && typeof message === "string";
}

// Every operation with what it needs to succeed, by the table of the wire: a new operation without an entry here does not
// compile.

export type OperationName = keyof typeof table;
export const operations: { readonly [name in OperationName]: Operation } = table;
export const operationNames = Object.keys(table) as OperationName[];

/** Things of one tenant, by what they are. */
export interface Things {
  readonly agent: string;
  readonly conversation: string;
  readonly user: string;
  readonly message: string;
  /** Uploaded and named by `message`. */
  readonly messageFile: string;
  readonly storagePath: string;
  readonly file: string;
  readonly webhook: string;
  readonly delivery: string;
}
export type Thing = keyof Things;

type WithBody = {
  [Name in OperationName]: (typeof table)[Name] extends { readonly body: unknown } ? Name : never;
}[OperationName];

/** What is right to send, given what there is. */
export const bodies: {
  readonly [name in WithBody]: (things: Things) => { readonly [field: string]: unknown };
} = {
  startConversation: () => ({
    firstName: "Jo",
    lastName: "Doe",
    channel: "email",
    email: "jo@example.test",
    emailSubject: "A question",
    emailIntroduction: "Thank you for writing.",
  }),
  createConversation: ({ user }) => ({ conversationUserId: user, title: "Lamps" }),
  deleteConversations: ({ user }) => ({ conversationUserId: user }),
  updateConversation: () => ({ title: "Lamps", context: "In the kitchen", status: "active" }),
  setConversationMode: () => ({ mode: "manual" }),
  sendMessage: () => ({ message: "Are you open?", context: "At night" }),
  sendMessageAsync: () => ({ message: "Are you open?" }),
  sendManualMessage: () => ({ message: "From a colleague" }),
  createUploadUrl: () => ({ fileName: "lamp.txt", contentType: "text/plain" }),
  createUser: () => ({ firstName: "Jo", lastName: "Doe", fkId: "somebody-new" }),
  deleteFiles: ({ file }) => ({ fileIds: [file] }),
  registerWebhook: () => ({
    title: "W",
    description: "D",
    url: "https://127.0.0.1:9/hook",
    triggerCondition: "manual",
    headers: { "x-token": "t" },
  }),
  fireWebhook: ({ conversation }) => ({ conversationId: conversation }),
};

export const hasBody = (name: OperationName): name is WithBody => name in bodies;

/** What the parameters of an operation's path name, in their order. */
export function namedBy(name: OperationName): Thing[] {
  const { path } = operations[name];
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => {
    if (parameter === "messageId") return "message";
    if (parameter === "fileId") return "messageFile";
    const [, area = ""] = /^\/external\/([\w/-]+?)\/\{id\}/.exec(path) ?? [];
    const thing = areas[area];
    if (thing === undefined) throw new Error(`what does {id} of ${path} name?`);
    return thing;
  });
}

const areas: { readonly [area: string]: Thing } = {
  agents: "agent",
  conversations: "conversation",
  users: "user",
  "agent-files": "file",
  "agents/webhooks": "webhook",
  "agents/webhooks/deliveries": "delivery",
};

/** The path with these in place of its parameters, as they are. */
export function pathOf(name: OperationName, ids: readonly string[]): string {
  let next = 0;
  return operations[name].path.replaceAll(/\{\w+\}/g, () => ids[next++] ?? "");
}

// Requests as they are, past every client that knows better: over a kept connection, or byte by byte.

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers?: { readonly [name: string]: string | string[] };
  readonly body?: string | Uint8Array | undefined;
}
export interface Answered {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly text: string;
}

/** One connection, used again and again as long as the server keeps it. */
function keptConnection(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = ({ method, path, headers = {}, body }: Asked) =>
    new Promise<Answered | "idle too long">((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
      const all = { ...headers, ...length };
      const asking = request({ host: "127.0.0.1", port, method, path, headers: all, agent }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      });
      // The server closes idle connections, also between our choice of one and the write to it.
      asking.on("error", (error) => (asking.reusedSocket ? resolve("idle too long") : reject(error)));
      asking.end(body);
    });
  return {
    async ask(asked: Asked): Promise<Answered> {
      const answered = await once(asked);
      if (answered !== "idle too long") return answered;
      agent.destroy();
      const again = await once(asked);
      if (again === "idle too long") throw new Error("a new connection was not kept for one request");
      return again;
    },
    close: () => agent.destroy(),
  };
}

export interface RawConnection {
  readonly socket: Socket;
  /** Sends bytes; resolves when they are handed over. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** All that has come, once the server has ended its side. */
  ended: Promise<string>;
  /** The first answer, once all of it is there; the connection may stay. */
  answer(): Promise<Answered>;
}

/** A connection without any protocol. Ends with its test. */
export async function rawConnection(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  let received = Buffer.alloc(0);
  const looking = new Set<() => void>();
  const look = () => {
    for (const each of looking) each();
  };
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    look();
  });
  // A reset ends it as well; what came before counts.
  socket.on("error", () => undefined);
  const ended = new Promise<string>((resolve) => {
    const end = () => {
      resolve(received.toString());
      look();
    };
    socket.once("end", end);
    socket.once("close", end);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return {
    socket,
    ended,
    send: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
    answer: () =>
      new Promise((resolve, reject) => {
        const find = () => {
          const found = parse(received);
          if (!found && !socket.readableEnded && !socket.destroyed) return;
          looking.delete(find);
          if (found) resolve(found);
          else reject(new Error(`no whole answer: ${received.toString()}`));
        };
        looking.add(find);
        find();
      }),
  };
}

/** The first answer with a length in these bytes that is more than a 1xx; null until it is there. */
function parse(bytes: Buffer): Answered | null {
  const at = bytes.indexOf("\r\n\r\n");
  if (at < 0) return null;
  const [first = "", ...lines] = bytes.subarray(0, at).toString().split("\r\n");
  const rest = bytes.subarray(at + 4);
  const status = Number(first.split(" ")[1]);
  if (status < 200) return parse(rest);
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const length = Number(headers["content-length"] ?? 0);
  return rest.length < length ? null : { status, headers, text: rest.subarray(0, length).toString() };
}
