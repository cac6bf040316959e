// Servers that all test files of a run share. They live in Vitest's own process; each starts when the first test asks for it.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startPostgres } from "./store/postgres.ts";

const variable = "BRIDGEHEAD_TEST_SERVERS";

/** Each resolves with the server's address and how it is stopped. */
const starts = {
  postgres: async () => {
    const { url, stop } = await startPostgres();
    return { url, stop };
  },
};

/** Vitest's global setup: one for all projects. The returned function stops everything that was started. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[variable] !== undefined) return undefined;
  const started = new Map<string, ReturnType<(typeof starts)["postgres"]>>();
  const server = createServer((request, response) => {
    const name = (request.url ?? "").slice(1) as keyof typeof starts;
    const one = started.get(name) ?? starts[name]();
    started.set(name, one);
    one.then(
      ({ url }) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  process.env[variable] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return async () => {
    server.closeAllConnections();
    server.close();
    for (const one of started.values()) await (await one).stop();
  };
}

/** The address of a server of the run. Rejects when it could not be started. */
export async function serverOfRun(name: keyof typeof starts): Promise<string> {
  const response = await fetch(`${process.env[variable]}/${name}`);
  const text = await response.text();
  if (!response.ok) throw new Error(`starting ${name} for this run: ${text}`);
  return text;
}
