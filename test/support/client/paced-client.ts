// A client against a server that misbehaves as told, with a clock whose pauses take no time and are written down.

import { onTestFinished } from "vitest";
import { type Client, type ClientOptions, createClient } from "../../../src/client/index.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type FaultServer, startFaultServer } from "./fault-server.ts";

interface Rig {
  readonly server: FaultServer;
  readonly client: Client;
  readonly dropped: string[];
  /** The pauses between tries, in milliseconds. */
  readonly pauses: number[];
}

export async function startRig(
  over: Partial<ClientOptions> & { readonly prefix?: string } = {},
): Promise<Rig> {
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
