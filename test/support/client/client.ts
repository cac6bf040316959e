// A client against a fault server, and what it logged and crossed.

import { onTestFinished } from "vitest";
import type { ReadCall } from "../../../src/agent/calls.ts";
import {
  type AgentClient,
  type AgentClientOptions,
  createAgentClient,
  type EffectOptions,
} from "../../../src/agent/index.ts";
import { type Client, type ClientOptions, createClient } from "../../../src/client/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import { type FaultServer, startFaultServer } from "../machine/network.ts";

export interface AgentClientFixture {
  readonly server: FaultServer;
  readonly client: AgentClient;
  readonly warnings: { readonly [name: string]: unknown }[];
  readonly signal: AbortSignal;
  /** Reads as many pages as there are. */
  readonly reading: ReadCall;
  /** A call that counts its crossings. */
  readonly effect: (signal?: AbortSignal) => EffectOptions & { readonly crossings: () => number };
}

export async function startAgentClient(timeoutMs = 60_000): Promise<AgentClientFixture> {
  const server = await startFaultServer();
  onTestFinished(() => server.close());
  return { server, ...startClient(server.url, timeoutMs) };
}

export function startClient(
  url: string,
  timeoutMs = 60_000,
  agentKey = "agent-key",
  { timing, ...limits }: Pick<AgentClientOptions, "connections"> & { readonly timing?: TimingOverrides } = {},
): Omit<AgentClientFixture, "server"> {
  const warnings: { readonly [name: string]: unknown }[] = [];
  const quiet = () => {};
  const log = {
    debug: quiet,
    info: quiet,
    error: quiet,
    warn: (fields: object) => void warnings.push({ ...fields }),
  };
  const client = createAgentClient({
    url,
    agentKey,
    timeoutMs,
    ...limits,
    clock: systemClock,
    log,
    timing: timingWith(timing),
  });
  onTestFinished(() => client.close());
  const signal = new AbortController().signal;
  return {
    client,
    warnings,
    signal,
    reading: { signal, more: async () => true },
    effect(given = signal) {
      let count = 0;
      return { signal: given, crossing: () => void count++, crossings: () => count };
    },
  };
}

// A client against a scripted server that misbehaves, with a clock whose pauses take no time and are recorded.

interface PacedClient {
  readonly server: FaultServer;
  readonly client: Client;
  readonly dropped: string[];
  /** The pauses between tries, in milliseconds. */
  readonly pauses: number[];
}

export async function startPacedClient(
  over: Partial<ClientOptions> & { readonly prefix?: string } = {},
): Promise<PacedClient> {
  const { prefix = "", ...options } = over;
  const server = await startFaultServer();
  onTestFinished(() => server.close());
  const dropped: string[] = [];
  const pauses: number[] = [];
  const client = createClient({
    url: server.url + prefix,
    agentKey: "agent-key",
    organizationKey: "organization-key",
    timeoutMs: 60_000,
    dropped: (record, field) => void dropped.push(`${record}.${field}`),
    clock: {
      ...systemClock,
      sleep: async (ms) => void pauses.push(ms),
    },
    ...options,
  });
  onTestFinished(() => client.close());
  return { server, client, dropped, pauses };
}

// Records as the interface describes them, for tests.

export const agentRecord = (skills: readonly object[] = [], over: object = {}) => ({
  organizationId: "5f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
  organizationName: "Acme",
  id: "6f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
  name: "Support",
  publicName: "Acme Support",
  role: "support",
  vectorStoreId: "vs_1",
  aiConfig: {
    id: "ai_1",
    model: "o3-mini",
    temperature: 0.2,
    topP: 1,
    instructions: "Be brief.",
    isCodeInterpreterEnabled: false,
    isFileSearchEnabled: true,
    fileSearchMaxNumResults: 5,
    outputJsonSchema: "",
  },
  status: "active",
  skills,
  ...over,
});

export const emailSkill = (over: object = {}) => ({
  systemName: "EMAIL",
  status: "active",
  email: "support@acme.test",
  senderName: "Ada from Acme",
  defaultSubject: "Your question",
  defaultEmailIntroduction: "Thank you for writing.",
  emailSignature: "Ada\nAcme",
  responseDelaySeconds: 90,
  ...over,
});

let clock = Date.parse("2026-11-20T10:00:00.000Z");

export const messageRecord = (id: string, senderRole: string, message: string, over: object = {}) => ({
  id,
  message,
  conversationId: "c-1",
  senderRole,
  conversationMessageId: id,
  source: "api",
  createdAt: new Date((clock += 1000)).toISOString(),
  isAnonymized: false,
  ...over,
});

export const conversationRecord = (over: object = {}) => ({
  id: "c-1",
  conversationUserId: "u-1",
  aiConversationId: "conv_1",
  user: { id: "u-1", firstName: "Jo", lastName: "Doe", isAnonymized: false },
  createdAt: "2026-11-20T10:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z",
  isAnonymized: false,
  ...over,
});
