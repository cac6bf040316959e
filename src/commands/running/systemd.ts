// bridgehead service: installs the systemd service, waits until it is ready, shows its state, and removes it.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import { commandText, defaultConfig } from "../../domain/command-text.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import { exitCodes, type Io } from "../io.ts";

const unit = "bridgehead.service";
/** The unit of the Debian package, which dpkg updates and removes. */
const packagedUnit = `/usr/lib/systemd/system/${unit}`;
/** Files of the folder systemd/, and where they are installed. */
const files = {
  "bridgehead.service": `/etc/systemd/system/${unit}`,
  "bridgehead.sysusers": "/etc/sysusers.d/bridgehead.conf",
  "bridgehead.tmpfiles": "/etc/tmpfiles.d/bridgehead.conf",
} as const;

const installation = new URL(import.meta.url.endsWith(".ts") ? "../../../" : "../../../../", import.meta.url);
const launcher = fileURLToPath(new URL("bin/bridgehead.cjs", installation));

export async function service(
  { action, config }: { readonly action: "install" | "uninstall" | "status"; readonly config: string },
  io: Io,
): Promise<number> {
  const problem = action === "install" ? obstacle(config) : null;
  if (problem !== null) {
    io.err(`service install: ${problem}`);
    return exitCodes.config;
  }
  if (!existsSync("/run/systemd/system")) {
    io.err("service: systemd does not run on this machine");
    return exitCodes.failed;
  }
  if (action === "status") return showState(io);
  if (process.getuid?.() !== 0) {
    io.err(`service ${action}: needs root; run it with sudo`);
    return exitCodes.failed;
  }
  return action === "install" ? install(config, io) : uninstall(io);
}

async function install(config: string, io: Io): Promise<number> {
  if (!existsSync(packagedUnit)) {
    const program = [process.execPath, launcher].map(quoted).join(" ");
    for (const [name, path] of Object.entries(files)) {
      const text = readFileSync(new URL(`systemd/${name}`, installation), "utf8")
        .replace(/^(Exec\w+=)bridgehead /gm, (_, key) => `${key}${program} `)
        .replace(`--config ${defaultConfig}`, () => `--config ${quoted(config)}`);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text, { mode: 0o644 });
      io.out(`wrote ${path}`);
    }
    await must(io, "systemd-sysusers", files["bridgehead.sysusers"]);
    await must(io, "systemd-tmpfiles", "--create", files["bridgehead.tmpfiles"]);
    await must(io, "systemctl", "daemon-reload");
  }
  // Written by `init` before the user existed, or with a strict umask.
  if ((statSync(config).mode & 0o004) === 0) {
    await must(io, "chgrp", "bridgehead", config);
    await must(io, "chmod", "g+r", config);
  }
  await must(io, "systemctl", "enable", "--quiet", unit);
  io.out("starting, and waiting until the daemon is ready");
  const since = clock.now();
  const started = await execute(io, "systemctl", "restart", unit);
  if (started.code === 0) {
    const status = await must(io, "systemctl", "show", "--property=StatusText", "--value", unit);
    io.out(`the service is ready: ${status.trim()}`);
    return exitCodes.ok;
  }
  const log = await execute(
    io,
    "journalctl",
    `--unit=${unit}`,
    "--lines=20",
    "--output=cat",
    `--since=@${Math.floor(since / 1000)}`,
  );
  io.err(`service install: the service did not start; it is enabled. The end of its log:\n${log.out}`);
  return exitCodes.failed;
}

/** Why the service cannot be installed with this configuration file; null when it can. */
function obstacle(config: string): string | null {
  if (existsSync(packagedUnit)) {
    if (config !== defaultConfig) return `the unit of the Debian package reads ${defaultConfig}; use that file`;
    const other = files[unit];
    if (existsSync(other)) return `${other} replaces the unit of the Debian package; run service uninstall first`;
  }
  if (!isAbsolute(config)) return `--config ${config}: must be an absolute path`;
  if (!existsSync(config)) return `${config}: there is no such file (write one with ${commandText("init", config)})`;
  const hidden = [process.execPath, realpathSync(launcher)].find((path) => /^\/(home|root|run\/user)\//.test(path));
  if (hidden !== undefined)
    return `${hidden}: the service does not see files below /home and /root; install it elsewhere`;
  const closed = [process.execPath, realpathSync(launcher)].flatMap((path) => closedPart(path) ?? [])[0];
  if (closed !== undefined)
    return `${closed}: the service's user may not read it; install the program with umask 022, or: chmod -R go+rX ${closed}`;
  // Secrets and store of a configuration elsewhere are next to it, where the service may neither read nor write.
  return dirname(config) === dirname(defaultConfig)
    ? null
    : `${config}: the service reads ${dirname(defaultConfig)} only; move the file and its secrets there`;
}

/** Returns the first folder above `path`, or the file itself, that other users may not use; undefined when they can. */
function closedPart(path: string): string | undefined {
  const parts = path.split("/").map((_, at, all) => all.slice(0, at + 1).join("/"));
  return parts.slice(1).find((part) => (statSync(part).mode & (part === path ? 0o004 : 0o001)) === 0);
}

async function uninstall(io: Io): Promise<number> {
  await execute(io, "systemctl", "disable", "--quiet", "--now", unit);
  for (const path of Object.values(files)) {
    if (!existsSync(path)) continue;
    rmSync(path);
    io.out(`removed ${path}`);
  }
  await must(io, "systemctl", "daemon-reload");
  if (existsSync(packagedUnit)) io.out("stopped and disabled; apt remove bridgehead removes the unit");
  io.out("kept: /etc/bridgehead, /var/lib/bridgehead, and the user bridgehead");
  return exitCodes.ok;
}

async function showState(io: Io): Promise<number> {
  const { code, out } = await execute(io, "systemctl", "status", "--no-pager", "--full", "--lines=10", unit);
  io.out(out);
  return code === 0 ? exitCodes.ok : exitCodes.failed;
}

/** A word of a command line of a unit (systemd.service(5)). */
const quoted = (text: string): string => `"${text.replace(/[\\"]/g, "\\$&").replace(/[%$]/g, "$&$&")}"`;

/** Standard output and standard error of a command, and its exit code. */
function execute(io: Io, command: string, ...args: readonly string[]): Promise<{ code: number; out: string }> {
  const env = { ...io.env, SYSTEMD_COLORS: io.screen?.color === true ? "1" : "0" };
  return new Promise((resolve) => {
    const child = execFile(command, args, { env, signal: io.signal }, (error, out, err) => {
      const ended = child.exitCode !== null;
      resolve({ code: child.exitCode ?? 1, out: out + err + (ended ? "" : (error?.message ?? "")) });
    });
  });
}

async function must(io: Io, command: string, ...args: readonly string[]): Promise<string> {
  const { code, out } = await execute(io, command, ...args);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} failed: ${out.trim()}`);
  return out;
}
