// A folder that is the root of a chroot: a machine with a few programs and nothing else.

import { execFile } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Copies programs and the shared libraries that they need. `programs`: path in the machine -> path here. */
export async function installPrograms(
  machine: string,
  programs: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [path, source] of Object.entries(programs)) {
    const { stdout } = await run("ldd", [source]);
    for (const [library] of stdout.matchAll(/\/\S+/g)) copy(library, join(machine, library));
    copy(source, join(machine, path));
    chmodSync(join(machine, path), 0o755);
  }
}

function copy(from: string, to: string): void {
  if (existsSync(to)) return;
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

/** Why a chroot is impossible here; null when it is possible. */
export const noChroot =
  process.getuid?.() === 0 && existsSync("/usr/sbin/chroot") ? null : "root and chroot are needed";

/** The configuration of a daemon that becomes ready without any account: calls are answered on its own port. */
export const phoneConfig = (listen: string, admin: string) => ({
  platform: { url: "http://127.0.0.1:9" },
  agents: { support: { key: "${env:KEY}" } },
  channels: {
    calls: { adapter: "voice", agent: "support", dialect: "twilio", auth_tokens: ["${env:TOKEN}"] },
  },
  http: { listen, admin_listen: admin, public_url: "https://bridge.example.com" },
});
export const phoneSecrets = { KEY: "key", TOKEN: "0123456789abcdef0123456789abcdef" };
