// A client against a fault server, and what it logged and crossed.

import { onTestFinished } from "vitest";
import type { ReadCall } from "../../../src/agent/calls.ts";
import {
  type AgentClient,
  type AgentClientOptions,
  createAgentClient,
  type EffectOptions,
} from "../../../src/agent/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type FaultServer, startFaultServer } from "./fault-server.ts";

export interface Rig {
  readonly server: FaultServer;
  readonly client: AgentClient;
  readonly warnings: { readonly [name: string]: unknown }[];
  readonly signal: AbortSignal;
  /** Reads as many pages as there are. */
  readonly reading: ReadCall;
  /** A call that counts its crossings. */
  readonly effect: (signal?: AbortSignal) => EffectOptions & { readonly crossings: () => number };
}

export async function startRig(timeoutMs = 60_000): Promise<Rig> {
  const server = await startFaultServer();
  onTestFinished(() => server.close());
  return { server, ...startClient(server.url, timeoutMs) };
}

export function startClient(
  url: string,
  timeoutMs = 60_000,
  agentKey = "agent-key",
  limits: Pick<AgentClientOptions, "connections" | "connectionWaitMs"> = {},
): Omit<Rig, "server"> {
  const warnings: { readonly [name: string]: unknown }[] = [];
  const quiet = () => {};
  const log = {
    debug: quiet,
    info: quiet,
    error: quiet,
    warn: (fields: object) => void warnings.push({ ...fields }),
  };
  const client = createAgentClient({ url, agentKey, timeoutMs, ...limits, clock: systemClock, log });
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
