// The agent of the measured platform, and its keys.

import { type AgentDefinition, readAgents } from "../../../src/platform/index.ts";
import type { Credential } from "./http-line.ts";

export const agentKey: Credential = { name: "agent-secret-key", key: "bench-key" };
export const organizationKey: Credential = { name: "organization-secret-key", key: "bench-organization-key" };
export const question = "Hello, my order 10023 has not arrived yet. Where is it?";

const text = `
organization: { name: Bench, key: ${organizationKey.key} }
agents:
  support:
    key: ${agentKey.key}
    skills: { email: { email: support@example.com, senderName: Ada, emailSignature: Ada, responseDelaySeconds: 0 } }
    rules:
      - { when: "refund|money back", answer: "Refunds take five days." }
      - { when: "order", answer: "Your order left our warehouse yesterday and should be with you by Friday." }
    default_answer: I do not know that.
`;

export function benchAgents(): readonly AgentDefinition[] {
  return readAgents(text, "bench.yaml");
}

export const startRequest = (email: string, over: object = {}) => ({
  firstName: "Jo",
  lastName: "Doe",
  channel: "email" as const,
  email,
  emailSubject: "My order",
  emailIntroduction: "Thank you for writing.",
  ...over,
});
