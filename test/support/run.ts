// What all test files of a run share: a place for their files, servers, and the Debian package. Vitest's global setup.

import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startDovecot } from "./email/dovecot.ts";
import { serversVariable as variable } from "./machine/debian.ts";
import { startSharedPostgres } from "./store/postgres.ts";

/** They live in Vitest's own process, and start when the first test asks for them. */
const starts: { readonly [name: string]: () => Promise<Started> } = {
  postgres: startSharedPostgres,
  async dovecot() {
    const server = await startDovecot({});
    const { port, dir } = server;
    return { url: JSON.stringify({ port, dir }), stop: () => server.dispose() };
  },
  async "Debian package"() {
    const folder = mkdtempSync(join(tmpdir(), "bridgehead-package-"));
    const env = { ...process.env, COMPRESSION: "gzip" };
    const { stdout } = await promisify(execFile)("debian/build", [folder], { env });
    return { url: stdout.trim(), stop: async () => rmSync(folder, { recursive: true }) };
  },
};

interface Started {
  /** What tests need to reach it: an address, or a path. */
  readonly url: string;
  stop(): Promise<void>;
}

/** One for all projects. The returned function stops and removes everything. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[variable] !== undefined) return undefined;
  // Compiled code of Node.js processes: the test workers and the commands that they start.
  process.env["NODE_COMPILE_CACHE"] ??= join(tmpdir(), "bridgehead-compile-cache");
  const memory = inMemory();
  if (memory !== null) process.env["TMPDIR"] = memory;
  const started = new Map<string, Promise<Started>>();
  const server = createServer((request, response) => {
    const name = decodeURIComponent((request.url ?? "").slice(1));
    const one = started.get(name) ?? starts[name]?.() ?? Promise.reject(new Error("there is no such server"));
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
    if (memory !== null) rmSync(memory, { recursive: true, force: true });
  };
}

/** A folder in memory for temporary files, so that no test waits for the disk; null where there is less than 2 GiB of it, or
 *  programs in it cannot be executed. */
function inMemory(): string | null {
  try {
    const { bavail, bsize } = statfsSync("/dev/shm");
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .find((line) => line.split(" ")[1] === "/dev/shm");
    if (bavail * bsize < 2 ** 31 || mount === undefined || /\bnoexec\b/.test(mount)) return null;
    const folder = mkdtempSync("/dev/shm/bridgehead-test-");
    chmodSync(folder, 0o1777);
    return folder;
  } catch {
    return null;
  }
}
