// The platform as a process of its own, and the administration of its agents while it runs.

import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { runProgram } from "../../src/commands/program.ts";
import { commandIo, root } from "../support/machine/command.ts";
import { listen } from "../support/machine/network.ts";
import { newFolder } from "../support/resources.ts";

const agents = `organization: { name: Acme }
agents:
  support: { key: support-key-1, default_answer: I cannot say. }
`;

/** The command line in this process: only the platform that serves needs one of its own. */
async function bridgehead(args: readonly string[]) {
  let out = "";
  let err = "";
  const io = commandIo({
    out: (text: string) => void (out += `${text}\n`),
    err: (text: string) => void (err += `${text}\n`),
  });
  const code = await runProgram(args, io, "1.0.0").catch((error: Error & { exitCode?: number }) => {
    if (error.exitCode === undefined) err += error.message;
    return error.exitCode === undefined ? exitCodes.failed : exitCodes.usage;
  });
  return { code, out, err };
}

function folder() {
  const path = newFolder();
  const write = (name: string, text: string) => {
    writeFileSync(join(path, name), text);
    return join(path, name);
  };
  const config = write("agents.yaml", agents);
  const database = join(path, "platform.db");
  const agent = (...args: string[]) => bridgehead(["platform", "agent", ...args, "--database", database]);
  return { write, config, database, agent };
}

/** A running platform; `stop` sends SIGTERM and gives how it ended. */
async function serve(config: string, database: string, ...more: string[]) {
  const args = ["--config", config, "--database", database, "--listen", "127.0.0.1:0", ...more];
  const command = ["--conditions=source", `${root}src/main.ts`, "platform", ...args];
  const child = execFile(process.execPath, command, { timeout: 60_000 });
  onTestFinished(() => void child.kill("SIGKILL"));
  let log = "";
  const ended = new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)));
  child.stderr?.on("data", (text) => (log += String(text)));
  await expect.poll(() => log).toContain("platform listening");
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(log)?.[0] ?? "";
  const ask = async (key: string) => {
    const headers = { "Agent-Secret-Key": key };
    const response = await fetch(`${url}/external/agents/by-api-key`, { headers });
    return { status: response.status, body: (await response.json()) as { [name: string]: unknown } };
  };
  const stop = () => {
    child.kill("SIGTERM");
    return ended;
  };
  return { ask, stop, log: () => log };
}

test("serves until SIGTERM, and says once what it does not do", async () => {
  const { config, write, database } = folder();
  const skills = "skills: { web_search: { webSearchServiceType: x, prompt: y }, function: { status: inactive } }";
  write("agents.yaml", agents.replace("key:", `${skills}, key:`));
  const { ask, stop, log } = await serve(config, database);
  expect(await ask("support-key-1")).toMatchObject({ status: 200, body: { name: "support" } });
  expect((await ask("wrong-key")).status).toBe(403);
  expect(await stop()).toBe(exitCodes.ok);
  expect(log().match(/do nothing here/g)).toHaveLength(1);
  expect(log()).toMatch(/WEB_SEARCH/);
  expect(log()).not.toMatch(/FUNCTION/);
  expect(log()).toContain("stopped");
});

test("a second one on the same file is refused before it changes the agents' keys", async () => {
  const { config, write, database } = folder();
  const first = await serve(config, database);
  const other = write("other.yaml", agents.replace("support-key-1", "support-key-2"));
  const second = await bridgehead(["platform", "--config", other, "--database", database, "--listen", "127.0.0.1:0"]);
  expect(second).toMatchObject({ code: exitCodes.failed });
  expect(second.err).toContain("another Bridgehead process");
  expect((await first.ask("support-key-1")).status).toBe(200);
  await first.stop();
});

test.each(["platform", "agent"])("refuses an empty file, which has lost its content: %s", async (what) => {
  const { config, database, write, agent } = folder();
  write("platform.db", "");
  const serving = ["platform", "--config", config, "--database", database, "--listen", "127.0.0.1:0"];
  const refused = await (what === "agent" ? agent("create", "sales") : bridgehead(serving));
  expect(refused.err).toContain(
    `opening the platform's file ${database}: it is empty; remove it if this platform is new`,
  );
  expect(readFileSync(database, "utf8")).toBe("");
});

test("names the option of an address that is taken, and a remedy", async () => {
  const { config, database } = folder();
  const server = createServer();
  const address = new URL(await listen(server)).host;
  onTestFinished(() => void server.close());
  const taken = await bridgehead(["platform", "--config", config, "--database", database, "--listen", address]);
  expect(taken).toMatchObject({
    code: exitCodes.failed,
    err: expect.stringContaining(`listening on ${address} (--listen): listen EADDRINUSE`),
  });
  expect(taken.err).toMatch(/\(end the other program \(ss -ltnp 'sport = :\d+'\), or choose another port\)/);
});

test("refuses a wrong file of agents with line and key, and a wrong command line", async () => {
  const { config, write } = folder();
  write("agents.yaml", agents.replace("default_answer: I cannot say.", "colour: blue"));
  const wrong = await bridgehead(["platform", "--config", config]);
  expect(wrong).toMatchObject({ code: exitCodes.config, out: "" });
  expect(wrong.err).toContain("agents.yaml:3: agents.support.colour: no such key");
  expect((await bridgehead(["platform", "--config", `${config}.none`])).code).toBe(exitCodes.config);
  expect((await bridgehead(["platform"])).code).toBe(exitCodes.usage);
  expect((await bridgehead(["platform", "--listen", "nowhere"])).code).toBe(exitCodes.usage);
  expect((await bridgehead(["platform", "agent", "update"])).code).toBe(exitCodes.usage);
});

test("a file of a newer version is left alone, with an exit code of its own", async () => {
  const { config, database, agent } = folder();
  const db = new Database(database);
  db.pragma("user_version = 999");
  db.close();
  const served = await bridgehead(["platform", "--config", config, "--database", database]);
  expect([served.code, (await agent("list")).code]).toEqual([exitCodes.newerSchema, exitCodes.newerSchema]);
  expect(served.err).toContain("it was written by a newer version (999)");
});

test("agents are created, changed and given new keys while the platform runs", async () => {
  const { config, database, write, agent } = folder();
  const platform = await serve(config, database);
  write("faq.md", "# Returns\n\nWithin thirty days.\n");
  const from = write("sales.yaml", "knowledge: [{ file: faq.md }]\ninstructions: Sell.\n");

  const made = await agent("create", "sales", "--from", from);
  expect(made).toMatchObject({ code: exitCodes.ok });
  const first = made.out.trim();
  expect(await platform.ask(first)).toMatchObject({
    status: 200,
    body: { name: "sales", organizationName: "Acme", aiConfig: { instructions: "Sell." } },
  });
  // As the interface has keys (External API 2.6, API).
  expect(first).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);

  expect((await agent("update", "sales", "--status", "inactive", "--public-name", "Acme Sales")).code).toBe(0);
  expect((await platform.ask(first)).body).toMatchObject({ status: "inactive", publicName: "Acme Sales" });

  const second = (await agent("rotate-key", "sales")).out.trim();
  expect(second).not.toBe(first);
  expect([(await platform.ask(first)).status, (await platform.ask(second)).status]).toEqual([403, 200]);
  // Neither key is anywhere in the file.
  const kept = readFileSync(database, "latin1") + readFileSync(`${database}-wal`, "latin1");
  expect([kept.includes(first), kept.includes(second), kept.includes("support-key-1")]).toEqual([false, false, false]);

  const listed = JSON.parse((await agent("list", "--json")).out) as object[];
  expect(listed).toMatchObject([
    { name: "sales", from: "command", key: "set" },
    { name: "support", from: "file", key: "set" },
  ]);
  await platform.stop();

  // Another start knows them, too.
  const again = await serve(config, database);
  expect((await again.ask(second)).body).toMatchObject({ name: "sales", status: "inactive" });
});

test("a file's agent gets a new key as well, which counts until the file names another", async () => {
  const { config, database, write, agent } = folder();
  const platform = await serve(config, database);
  const rotated = (await agent("rotate-key", "support")).out.trim();
  expect([(await platform.ask("support-key-1")).status, (await platform.ask(rotated)).status]).toEqual([403, 200]);
  await platform.stop();
  const again = await serve(config, database);
  expect([(await again.ask("support-key-1")).status, (await again.ask(rotated)).status]).toEqual([403, 200]);
  await again.stop();
  write("agents.yaml", agents.replace("support-key-1", "support-key-2"));
  const renewed = await serve(config, database);
  expect([(await renewed.ask("support-key-2")).status, (await renewed.ask(rotated)).status]).toEqual([200, 403]);
});

test("reports what cannot be created or changed", async () => {
  const { config, database, write, agent } = folder();
  await (await serve(config, database)).stop();
  const wrong = write("wrong.yaml", "name: x\nstatus: asleep\n");
  expect(await agent("create", "x", "--from", wrong)).toMatchObject({
    code: exitCodes.config,
    err: expect.stringContaining("wrong.yaml:2: status:"),
  });
  const missing = write("missing.yaml", "knowledge:\n  - { file: none.md }\n");
  expect((await agent("create", "x", "--from", missing)).err).toContain("missing.yaml:2: knowledge[0].file: reading");
  for (const [args, why] of [
    [["create", "support"], "there is another agent support"],
    [["update", "support", "--status", "draft"], "is defined in the file of agents"],
    [["update", "nobody", "--status", "draft"], "there is no agent nobody"],
    [["rotate-key", "nobody"], "there is no agent nobody"],
  ] as const) {
    const ended = await agent(...args);
    expect([ended.code, ended.out]).toEqual([exitCodes.failed, ""]);
    expect(ended.err).toContain(why);
  }
});

test("files that cannot be read or opened are named with a remedy, and none is created", async () => {
  const { config, database, agent } = folder();
  const home = dirname(config);
  for (const action of [["list"], ["rotate-key", "x"], ["update", "x"]]) {
    expect(await agent(...action)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining(`there is no platform database ${database} (name it with --database)`),
    });
  }
  expect(existsSync(database)).toBe(false);
  expect((await agent("create", "x", "--from", join(home, "none.yaml"))).err).toContain(
    `${join(home, "none.yaml")}: there is no such file`,
  );
  const served = (from: string, at: string) => bridgehead(["platform", "--config", from, "--database", at]);
  expect((await served(home, database)).err).toContain(`${home}: is a directory`);
  expect((await served(config, config)).err).toContain(`opening the platform's file ${config}: file is not a`);
  expect((await served(config, join(home, "none/p.db"))).err).toContain("none/p.db");
  expect((await bridgehead(["platform", "--help"])).out).toContain("(default: 127.0.0.1:8026)");
});

test.each(["agents.example.com", "ftp://agents.example.com", ""])("%j is no public address", async (address) => {
  const { config, database } = folder();
  const { code, err } = await bridgehead([
    "platform",
    "--config",
    config,
    "--database",
    database,
    "--public-url",
    address,
  ]);
  expect(code).toBe(exitCodes.usage);
  expect(err).toContain("It must be an address such as https://agents.example.com.");
});
