// A running platform with two agents of one organization and one of another, and a caller.

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import {
  type Platform,
  type PlatformOptions,
  readAgents,
  startPlatform,
} from "../../../src/platform/index.ts";
import { closeServer, listen } from "../client/fault-server.ts";

export const keys = { support: "support-key-1", sales: "sales-key-2", other: "other-key-3" };

const acme = `
organization: { name: Acme, key: acme-organization-key }
agents:
  - name: support
    public_name: Acme Support
    key: ${keys.support}
    description: Answers customers
    instructions: Be brief.
    skills:
      email:
        email: support@acme.test
        senderName: Ada from Acme
        emailSignature: "Ada\\nAcme"
        responseDelaySeconds: 5
      sms: { phoneNumber: "+15550100", smsSignature: { en: "- Ada" } }
    rules:
      - { when: "refund|money back", answer: "Refunds take five days." }
      - { when: "/order\\\\s+#?\\\\d+/", answer: "That order ships today." }
    knowledge:
      - { title: Opening hours, text: "The shop is open from nine to five on weekdays." }
      - { title: Shipping, text: "Parcels to Norway take four days and cost twelve euros." }
    default_answer: I do not know that.
  - { name: sales, key: ${keys.sales} }
`;
const other = `
organization: { name: Other }
agents: [{ name: support, key: ${keys.other} }]
`;

const quiet = () => {};

export function startRig(over: Partial<PlatformOptions> = {}): Promise<Rig> {
  return startWith({
    agents: [...readAgents(acme, "acme.yaml"), ...readAgents(other, "other.yaml")],
    ...over,
  });
}

export interface Rig {
  readonly platform: Platform;
  readonly errors: unknown[];
  /** One request under a key; `body` is sent as JSON, or as it is when it is a string. */
  readonly call: (method: string, path: string, body?: unknown, key?: string) => Promise<Answered>;
  /** Opens a conversation by e-mail and gives its id. */
  readonly open: (email?: string, key?: string) => Promise<string>;
}
interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // The tests look into whatever comes.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

export async function startWith(
  options: Partial<PlatformOptions> & Pick<PlatformOptions, "agents">,
): Promise<Rig> {
  const errors: unknown[] = [];
  const note = (fields: object) => void errors.push({ ...fields });
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log: { debug: quiet, info: quiet, warn: note, error: note },
    rate: { requests: 100_000, perSeconds: 60 },
    ...options,
  });
  onTestFinished(() => platform.close());
  const call: Rig["call"] = async (method, path, body, key = keys.support) => {
    const response = await fetch(`${platform.url}/external/${path}`, {
      method,
      headers: { ...(key ? { "Agent-Secret-Key": key } : {}), "content-type": "application/json" },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text && JSON.parse(text) };
  };
  return {
    platform,
    errors,
    call,
    async open(email = "jo@example.test", key = keys.support) {
      const answered = await call("POST", "conversations/start", startByEmail(email), key);
      return answered.body.conversationId as string;
    },
  };
}

export const startByEmail = (email: string, over: object = {}) => ({
  firstName: "Jo",
  lastName: "Doe",
  channel: "email",
  email,
  emailSubject: "A question",
  emailIntroduction: "Thank you for writing.",
  ...over,
});

// A webhook's receiver, over a real socket.

export interface Delivered {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // The tests look into whatever comes.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** A receiver that answers as it is told, 204 at first. */
export async function receiver() {
  const got: Delivered[] = [];
  let status = 204;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += String(chunk)));
    request.on("end", () => {
      got.push({ headers: request.headers, text, body: JSON.parse(text) });
      response.writeHead(status, { location: "/elsewhere" }).end();
    });
  });
  await listen(server);
  onTestFinished(() => closeServer(server));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return { url, got, answer: (next: number) => void (status = next) };
}

// Requests that share no connection: a server that stood still for a while closes an idle one just as the next request
// goes out on it.

/** As fetch, on a connection of its own. */

export const fetchFresh = (url: string, init: RequestInit = {}): Promise<Response> => {
  const headers = new Headers(init.headers);
  headers.set("connection", "close");
  return fetch(url, { ...init, headers });
};
