import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { bridgehead, childEnv, inProcess, root, start } from "../support/machine/command.ts";
import { configureIdle } from "../support/process/daemon.ts";
import { newFolder } from "../support/resources.ts";

describe("the command line", () => {
  it("prints the versions of package, Node.js, SQLite and schema, also as JSON", async () => {
    const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { version: string };
    const { code, out, err } = await bridgehead(["--version"]);
    expect([code, err]).toEqual([exitCodes.ok, ""]);
    expect(out).toMatch(
      new RegExp(`^bridgehead ${version}\nnode ${process.versions.node}\nsqlite 3\\.\\d+\\.\\d+\nschema \\d+\n$`),
    );
    const json = JSON.parse((await bridgehead(["--version", "--json"])).out) as Record<string, string>;
    expect(
      Object.entries(json)
        .map(([name, value]) => `${name} ${value}\n`)
        .join(""),
    ).toBe(out);
  });

  it("lists its commands", async () => {
    const { code, out } = await bridgehead(["--help"]);
    expect(code).toBe(exitCodes.ok);
    for (const name of [
      "run",
      "check",
      "demo",
      "schema",
      "outbox",
      "inbox",
      "start",
      "migrate",
      "reload",
      "platform",
      "policy",
      "health",
      "completion",
    ]) {
      expect(out).toMatch(new RegExp(`^  ${name} `, "m"));
    }
  });

  it.each([
    ["an unknown command", ["chekc"], "Did you mean check?"],
    ["a command of other daemons", ["status"], "Did you mean health, channel list or service status?"],
    ["an unknown option", ["doctor", "--onlin"], "Did you mean --online?"],
    [
      "an unknown action",
      ["outbox", "delete"],
      "It must be one of list, show, retry, release, send-now, drop, resend.",
    ],
    ["a count that is none", ["inbox", "list", "--limit", "many"], "It must be a whole number"],
    ["no command at all", [], "Usage: bridgehead"],
  ])("refuses %s with the usage code", async (_what, args, message) => {
    const { code, out, err } = await bridgehead(args);
    expect(err).toContain(message);
    expect([code, out]).toEqual([exitCodes.usage, ""]);
  });

  it("ends with its own code when the store was written by a newer version", async () => {
    const folder = newFolder();
    const db = openSqlite(join(folder, "store.db"), () => systemClock.now());
    await migrate(db);
    await db.tx((q) => q.run("UPDATE meta SET value = 9999 WHERE name = 'schema'"));
    await db.close();
    const config = join(folder, "bridgehead.yaml");
    writeFileSync(
      config,
      'platform: { url: "http://127.0.0.1:9" }\nagents: {}\nchannels: {}\nhttp: { listen: "127.0.0.1:0" }\nstore: sqlite:store.db\n',
    );
    for (const command of [["run"], ["migrate"], ["inbox", "list"]]) {
      const { code, err } = await bridgehead([...command, "--config", config]);
      expect([command, code]).toEqual([command, exitCodes.newerSchema]);
      expect(err).toContain("the store has schema 9999");
    }
  });

  it.each([
    ["an incomplete address of a person", ["erase", "--person", "anna"], '--person "anna" is no complete address'],
    ["missing options of init", ["init", "--yes"], "these options are required: --address <address>"],
  ])("refuses %s with the usage code, too", async (_what, args, message) => {
    const config = join(newFolder(), "bridgehead.yaml");
    if (args[0] === "erase") writeFileSync(config, "store: sqlite:store.db\n");
    const { code, out, err } = await inProcess([...args, "--config", config]);
    expect([code, out]).toEqual([exitCodes.usage, expect.not.stringContaining(message)]);
    expect(err).toContain(message);
  });

  it("removes the folder of the demo when the reader of its output has gone", async () => {
    const folder = newFolder();
    const demo = ["--conditions=source", `${root}src/main.ts`, "demo", "--no-open"];
    const { child, ended } = start(process.execPath, demo, { TMPDIR: folder });
    if (!child.stdout) throw new Error("no pipe");
    await once(child.stdout, "data");
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^bridgehead-demo-/)]);
    child.stdout.destroy();
    expect(await ended).toMatchObject({ code: exitCodes.failed, err: "" });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("survives SIGHUP as soon as its code runs, rejects a reload while the configuration is read, and starts", async () => {
    const config = join(newFolder(), "bridgehead.yaml");
    await promisify(execFile)("mkfifo", [config]);
    // At the first listener that main.ts adds after its own for SIGHUP.
    const preload = "process.on('newListener',(n)=>{if(n==='uncaughtException')process.kill(process.pid,'SIGHUP')})";
    const node = ["--conditions=source", "--import", `data:text/javascript,${preload}`];
    const { child, ended } = start(process.execPath, [...node, `${root}src/main.ts`, "run", "--config", config]);
    // Opens when the daemon does.
    const written = await open(config, "w");
    child.kill("SIGHUP");
    await written.writeFile(
      'platform: { url: "http://127.0.0.1:9" }\nagents: {}\nchannels: {}\nhttp: { listen: "127.0.0.1:0" }\nstore: sqlite:store.db\n',
    );
    await written.close();
    let log = "";
    child.stderr?.on("data", (chunk: string) => {
      log += chunk;
      if (log.includes('"message":"ready"')) child.kill("SIGTERM");
    });
    expect(await ended).toMatchObject({
      code: exitCodes.ok,
      err: expect.stringContaining("configuration reload rejected: the daemon is still starting") as unknown,
    });
  });

  it("offers ids only where a command accepts them", async () => {
    const folder = newFolder();
    const config = join(folder, "bridgehead.yaml");
    writeFileSync(config, "store: sqlite:store.db\n");
    expect((await bridgehead(["migrate", "--config", config])).code).toBe(exitCodes.ok);
    expect(await bridgehead(["retry", "--config", config])).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/give --all with --reason CODE/) as unknown,
    });
    expect(await bridgehead(["inbox", "retry", "--config", config])).toMatchObject({
      err: expect.stringMatching(/give ids, or --all with --reason CODE/) as unknown,
    });
  });

  it.each([
    ["inbox drop 1 --code cap-sender", "inbox drop: give either ids, or --all with --code"],
    ["inbox drop --all --reason spam", "inbox drop: --reason is your text: give --code CODE as well"],
    ["inbox answer abc", "inbox answer: abc is not the number of a message"],
    ["inbox retry 1 --reason too-old", "inbox retry: give either ids, or --all with --code"],
    ["outbox release d1 --state held", "outbox release: give either ids, or --all with --code"],
    ["inbox list 1", "inbox: list takes no argument"],
    ["outbox list d1", "outbox: list takes no argument"],
    ["conversation list anna", "conversation: list takes no argument"],
    ["escalation list 1", "escalation: list takes no argument"],
    ["opt-out list anna@example.com", "opt-out: list takes no argument"],
    ["platform agent list support", "platform: list takes no argument"],
  ])("does not ignore a part of %j", async (line, message) => {
    const folder = newFolder();
    const config = join(folder, "bridgehead.yaml");
    writeFileSync(config, "store: sqlite:store.db\n");
    await inProcess(["migrate", "--config", config]);
    const { code, out, err } = await inProcess([...line.split(" "), "--config", config]);
    expect([code, out]).toEqual([exitCodes.usage, ""]);
    expect(err).toContain(message);
  });

  it.skipIf(!existsSync("/dev/full"))("prints why its output could not be written", async () => {
    const schema = ["--conditions=source", `${root}src/main.ts`, "schema"];
    const { ended } = start("/bin/sh", ["-c", 'exec "$0" "$@" > /dev/full', process.execPath, ...schema]);
    const { code, err } = await ended;
    expect([code, err]).toEqual([
      exitCodes.failed,
      "bridgehead: writing the output: ENOSPC: no space left on device, write\n",
    ]);
  });

  it.skipIf(!existsSync("/dev/full"))("ends well at SIGTERM while the log cannot be written", async () => {
    const folder = newFolder();
    const daemon = [process.execPath, "--conditions=source", `${root}src/main.ts`, "run", "--config"];
    // Its log may be read nowhere: that it has started shows at its file.
    const script = 'exec "$0" "$@" 2> /dev/full';
    const { child, ended } = start("/bin/sh", ["-c", script, ...daemon, configureIdle(folder)], childEnv);
    await expect.poll(() => existsSync(join(folder, "store.db-installation"))).toBe(true);
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: exitCodes.ok, signal: null });
  });

  it("ends with its own code when the configuration is wrong", async () => {
    const ended = await bridgehead(["run", "--config", "/nonexistent/bridgehead.yaml"]);
    expect(ended.code).toBe(exitCodes.config);
    expect(ended.out + ended.err).toContain("/nonexistent/bridgehead.yaml: there is no such file");
  });

  it.each([
    ["exception", "throw new Error('boom')"],
    ["rejection", "void Promise.reject(new Error('boom'))"],
  ])("ends with 70 at an uncaught %s", async (_what, defect) => {
    const { child, ended, close } = await busyCheck(`process.on('SIGUSR2',()=>{${defect}})`);
    child.kill("SIGUSR2");
    const { code, err } = await ended;
    close();
    const said = expect.stringContaining("bridgehead: a defect: Error: boom\n    at ");
    expect([code, err]).toEqual([exitCodes.crashed, said]);
  });

  it.each(["SIGTERM", "SIGINT"] as const)("lets a command end what it does at %s", async (name) => {
    const { child, ended, close } = await busyCheck("");
    child.kill(name);
    const { code, out } = await ended;
    close();
    expect([code, out]).toEqual([exitCodes.failed, expect.stringContaining("platform-unreachable  agent a")]);
  });
});

/** A command that waits for a platform which takes the call and never answers. */
async function busyCheck(preload: string) {
  let called = (): void => {};
  const busy = new Promise<void>((resolve) => (called = resolve));
  const platform = createServer(() => called()).listen(0, "127.0.0.1");
  await once(platform, "listening");
  const file = join(newFolder(), "bridgehead.yaml");
  const url = `http://127.0.0.1:${(platform.address() as AddressInfo).port}`;
  writeFileSync(
    file,
    `platform: { url: "${url}" }\nagents: { a: { key: "\${env:KEY}" } }\nchannels: {}\nstore: sqlite:x.db\n`,
  );
  const args = ["--conditions=source", "--import", `data:text/javascript,${preload}`, `${root}src/main.ts`];
  const { child, ended } = start(process.execPath, [...args, "doctor", "--online", "-c", file], { KEY: "k" });
  await busy;
  const close = (): void => {
    platform.closeAllConnections();
    platform.close();
  };
  return { child, ended, close };
}
