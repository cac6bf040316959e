// Starts the embedded platform and its baselines.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../support/machine/network.ts";
import { type Subject, start } from "../subject.ts";
import type { BareServedOptions } from "./bare.ts";
import type { ServedOptions } from "./served.ts";

export interface ServedSubject extends Subject {
  readonly port: number;
}

const scriptOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** The platform with its database at `file`, which is kept. */
export async function startServed(file: string): Promise<ServedSubject> {
  const { subject, ports } = await startServedTogether([file]);
  return { ...subject, port: ports[0] ?? 0 };
}

/** One process with a platform for each of these databases. */
export async function startServedTogether(
  files: readonly string[],
): Promise<{ readonly subject: Subject; readonly ports: readonly number[] }> {
  const ports = await Promise.all(files.map(() => freePort()));
  const options: ServedOptions = { platforms: files.map((file, n) => ({ file, port: ports[n] ?? 0 })) };
  const argv = ["--conditions=source", scriptOf("./served.ts"), JSON.stringify(options)];
  return { subject: await start({ argv, ready: "ready" }), ports };
}

export async function startBareServed(
  answers: BareServedOptions["answers"],
  file: string | null,
): Promise<ServedSubject> {
  const port = await freePort();
  const options: BareServedOptions = { port, answers, file };
  const argv = [scriptOf("./bare.ts"), JSON.stringify(options)];
  return { ...(await start({ argv, ready: "ready" })), port };
}

export interface Directory {
  file(name: string): string;
  remove(): void;
}

export function temporaryDirectory(): Directory {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-platform-"));
  return {
    file: (name) => join(directory, name),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}
