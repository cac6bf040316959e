// The daemon as the shipped unit runs it: its commands, environment, credentials and folders are read from the unit and
// the README, with /etc and /var/lib moved into a scratch folder. systemd itself is not started.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { childEnv, launcher, root, start } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";

const unit = readFileSync(`${root}systemd/bridgehead.service`, "utf8");
const readme = readFileSync(`${root}README.md`, "utf8");
const settings = (key: string): string[] =>
  [...unit.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value]) => value ?? "");
const setting = (key: string): string => {
  const [value, ...others] = settings(key);
  if (value === undefined || others.length > 0) throw new Error(`${key} is not set once`);
  return value;
};

/** What systemd makes of the unit before it starts a command (systemd.exec(5)), in `folder`. */
function prepare(folder: string) {
  const moved = (text: string): string =>
    text.replaceAll("/etc/bridgehead", join(folder, "etc")).replaceAll("/var/lib/bridgehead", join(folder, "state"));
  const env: Record<string, string> = {};
  for (const folderName of ["etc/secrets", "state", "run", "credentials", "bin"])
    mkdirSync(join(folder, folderName), { recursive: true });
  for (const assignment of settings("Environment")) {
    const [, name = "", value = ""] = /^(\w+)=(.*)$/.exec(assignment) ?? [];
    env[name] = value;
  }
  const environmentFile = moved(setting("EnvironmentFile")).replace(/^-/, "");
  /** Done at every start: the credentials and the environment are copied then. */
  const load = (): Record<string, string> => {
    if (existsSync(environmentFile))
      for (const line of readFileSync(environmentFile, "utf8").split("\n")) {
        const [, name, value = ""] = /^(\w+)=(.*)$/.exec(line) ?? [];
        if (name !== undefined) env[name] = value;
      }
    for (const given of settings("LoadCredential")) {
      const [id = "", path = ""] = moved(given).split(":");
      // A folder's files get the id, an underscore and their name.
      if (statSync(path).isDirectory())
        for (const file of readdirSync(path)) cpSync(join(path, file), join(folder, "credentials", `${id}_${file}`));
      else cpSync(path, join(folder, "credentials", id));
    }
    return env;
  };
  const folders = ["StateDirectory", "RuntimeDirectory", "CacheDirectory"];
  expect(folders.map(setting)).toEqual(["bridgehead", "bridgehead", "bridgehead"]);
  Object.assign(env, {
    CREDENTIALS_DIRECTORY: join(folder, "credentials"),
    STATE_DIRECTORY: join(folder, "state"),
    RUNTIME_DIRECTORY: join(folder, "run"),
    CACHE_DIRECTORY: join(folder, "cache"),
    NOTIFY_SOCKET: join(folder, "notify"),
    PATH: `${join(folder, "bin")}:${process.env["PATH"] ?? ""}`,
  });
  // systemd-notify, writing down what it is to send.
  const told = join(folder, "told");
  writeFileSync(join(folder, "bin/systemd-notify"), `#!/bin/sh\nprintf '%s|' "$@" >> ${told}\necho >> ${told}\n`);
  chmodSync(join(folder, "bin/systemd-notify"), 0o755);
  const argsOf = (key: string): string[] => {
    const [program, ...args] = moved(setting(key)).split(" ");
    expect(program).toBe("bridgehead");
    return args;
  };
  return { moved, load, argsOf, told: () => (existsSync(told) ? readFileSync(told, "utf8") : "") };
}

const firstConfiguration = (): string => {
  const section = readme.slice(readme.indexOf("## A first real configuration"));
  return /```yaml\n([^]*?)```/.exec(section)?.[1] ?? "";
};

it("starts the README's first configuration under the unit, and fails a reload that is rejected", async () => {
  const folder = newFolder();
  const { moved, load, argsOf, told } = prepare(folder);
  // The only change: the ports, which other processes of this machine may have.
  const text = `${moved(firstConfiguration())}http: { listen: "127.0.0.1:0" }\n`;
  const file = join(folder, "etc/bridgehead.yaml");
  writeFileSync(file, text);
  // As the README's section on the service says.
  const steps = readme.slice(readme.indexOf("## As a service"), readme.indexOf("service install"));
  const secrets = [...steps.matchAll(/\/etc\/bridgehead\/secrets\/([\w-]+)/g)].map(([, name]) => name ?? "");
  expect(secrets).toEqual(["support-key", "mail-password"]);
  for (const name of secrets) writeFileSync(join(folder, "etc/secrets", name), `value-of-${name}\n`, { mode: 0o600 });

  const log = join(folder, "journal");
  const journal = openSync(log, "w");
  const { dev, ino } = fstatSync(journal);
  const env = { ...load(), JOURNAL_STREAM: `${dev}:${ino}` };
  const child = spawn(
    "/bin/sh",
    ["-c", 'umask 000; exec "$0" "$@"', process.execPath, launcher, ...argsOf("ExecStart")],
    { cwd: join(folder, "state"), env, stdio: ["ignore", "ignore", journal] },
  );
  closeSync(journal);
  onTestFinished(() => void child.kill("SIGTERM"));
  const ended = once(child, "exit");
  const lines = () => readFileSync(log, "utf8").split("\n").filter(Boolean);
  await expect.poll(told).toContain("READY=1|STATUS=");
  const reload = () =>
    start(process.execPath, [launcher, ...argsOf("ExecReload")], { ...env, MAINPID: String(child.pid) }).ended;

  // Files that only the daemon's user may read, although the umask takes nothing away.
  const modes = readdirSync(join(folder, "state")).map((name) => [
    name,
    (statSync(join(folder, "state", name)).mode & 0o777).toString(8),
  ]);
  expect(modes.map(([name]) => name)).toEqual(
    expect.arrayContaining(["bridgehead.db", "bridgehead.db-wal", "bridgehead.db-shm"]),
  );
  for (const mode of modes) expect(mode).toEqual([mode[0], "600"]);

  writeFileSync(file, text.replace("imap:", "imapp:"));
  expect(await reload()).toMatchObject({
    code: exitCodes.config,
    err: expect.stringMatching(/imapp: is not a known key \(did you mean imap\?\)[^]*the old one stays in use/),
  });
  await expect.poll(() => lines().filter((line) => /^<3>.*imapp: is not a known key/.test(line))).toHaveLength(1);
  const wrong = text.replace("url: https", 'url: "http').replace(".com\n", '.com"\n');
  writeFileSync(file, `${wrong}log: { format: json }\n`);
  expect(await reload()).toMatchObject({
    code: exitCodes.ok,
    out: "these keys take effect at the next restart: platform, log.format\nconfiguration reloaded\n",
  });
  expect(child.exitCode).toBeNull();

  // Every line of the journal has its priority.
  for (const line of lines()) expect(line).toMatch(/^<[3-7]>/);
  child.kill("SIGTERM");
  expect(await ended).toEqual([exitCodes.ok, null]);
  expect(told()).toContain("STOPPING=1");
  // The process has ended: a reload fails.
  expect(await reload()).toMatchObject({ code: exitCodes.failed });
});

it("gives fatal errors the journal's priority err", async () => {
  const folder = newFolder();
  const crash = "data:text/javascript,process.nextTick(()=>{throw new Error('boom')})";
  const runs = [
    { node: [], args: ["run", "--config", join(folder, "absent.yaml")], code: exitCodes.config },
    { node: [], args: ["run", "--absent"], code: exitCodes.usage },
    { node: ["--import", crash], args: ["run"], code: exitCodes.crashed },
  ];
  for (const [index, { node, args, code }] of runs.entries()) {
    const log = join(folder, String(index));
    const journal = openSync(log, "w");
    const { dev, ino } = fstatSync(journal);
    const child = spawn(process.execPath, ["--conditions=source", ...node, `${root}src/main.ts`, ...args], {
      env: { ...childEnv, JOURNAL_STREAM: `${dev}:${ino}` },
      stdio: ["ignore", "ignore", journal],
    });
    closeSync(journal);
    const [ended] = (await once(child, "exit")) as [number];
    const lines = readFileSync(log, "utf8").split("\n").filter(Boolean);
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatch(/^<3>/);
    expect(ended).toBe(code);
  }
});
