// A platform of two organizations, with things of each kind in every agent's hands.

import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { type PlatformOptions, readAgents, startPlatform } from "../../../src/platform/index.ts";
import { type Answered, type Asked, keptConnection } from "./connection.ts";
import { bodies, type Things } from "./operations.ts";

export const keys = { own: "own-agent-key", sister: "sister-agent-key", foreign: "foreign-agent-key" };
export const organizationKeys = { own: "own-organization-key", foreign: "foreign-organization-key" };
export type Tenant = keyof typeof keys;

const own = `
organization: { name: Own, key: ${organizationKeys.own}, states: [{ name: Open }] }
agents:
  - { name: own, key: ${keys.own}, rules: [{ when: open, answer: From nine to five. }] }
  - { name: sister, key: ${keys.sister} }
`;
const foreign = `
organization:
  name: Foreign
  key: ${organizationKeys.foreign}
  states: [{ name: Done }]
  users: [{ email: boss@foreign.test, role: owner }]
agents: [{ name: foreign, key: ${keys.foreign} }]
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
          body === undefined || typeof body === "string" || body instanceof Uint8Array
            ? body
            : JSON.stringify(body),
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
    if (answered.status >= 300)
      throw new Error(`${method} ${path}: ${answered.text} ${JSON.stringify(errors)}`);
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
export function credential(
  key: "agent" | "organization",
  tenant: Tenant,
): { readonly [name: string]: string } {
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
