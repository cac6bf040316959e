// What the suite is run against: any deployment of the External API, named by the environment, or the embedded platform.
//
//   EXTERNAL_API_URL               base address; without it the embedded platform is started
//   EXTERNAL_API_AGENT_KEY         of an active agent
//   EXTERNAL_API_ORGANIZATION_KEY  of its organization
//   EXTERNAL_API_WEBHOOK_URL       a public HTTPS address for registrations
//
// Against another deployment it leaves conversations with people at example.com and +1 555 01xx behind, and what needs
// a second organization, a fresh rate or a receiver is skipped.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { type PlatformOptions, readAgents, startPlatform } from "../../../src/platform/index.ts";
import { closeServer, listen } from "../client/fault-server.ts";
import { everySkill } from "./every-skill.ts";

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
  - name: support
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
agents: [{ name: support, key: ${foreignKeys.agentKey} }]
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
  const quiet = () => {};
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: [...readAgents(acme(model), "acme.yaml"), ...others],
    clock: systemClock,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
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
  await listen(server);
  afterAll(() => closeServer(server));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}
