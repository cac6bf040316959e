// Starting the embedded platform and its bare opponents.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BareServedOptions } from "./bare-served.ts";
import { type Contestant, start } from "./contestant.ts";
import { freePort } from "./phone-rig.ts";
import type { ServedOptions } from "./served.ts";

export interface ServedContestant extends Contestant {
  readonly port: number;
}

const scriptOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** The platform over `file`, which stays. */
export async function startServed(file: string): Promise<ServedContestant> {
  const port = await freePort();
  const options: ServedOptions = { port, file };
  const argv = ["--conditions=source", scriptOf("./served.ts"), JSON.stringify(options)];
  return { ...(await start("ours", argv, "ready", () => {})), port };
}

export async function startBareServed(
  answers: BareServedOptions["answers"],
  file: string | null,
): Promise<ServedContestant> {
  const port = await freePort();
  const options: BareServedOptions = { port, answers, file };
  const argv = [scriptOf("./bare-served.ts"), JSON.stringify(options)];
  return { ...(await start("bare", argv, "ready", () => {})), port };
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
