// Commands that run next to the daemon: of the configuration they need the key `store` only.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exitCodes, runCommand } from "../../../src/commands/io.ts";
import { inbox } from "../../../src/commands/messages/inbox.ts";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel, recordOutcome } from "../../../src/store/tables/events.ts";
import { commandIo, inProcess, root, start } from "../../support/machine/command.ts";
import { newFolder } from "../../support/resources.ts";

/** The service's secrets are not to be had in a shell. */
const configuration = (store: string): string => `
platform: { url: https://platform.example.com, organization_key: "\${credential:organization}" }
agents: { support: { key: "\${env:ABSENT}" } }
channels:
  office: { adapter: "@acme/not-installed-here", agent: support, password: "\${file:/nonexistent/password}" }
store: ${store}
`;

async function withStore(): Promise<{ file: string; store: string }> {
  const home = newFolder();
  const file = join(home, "bridgehead.yaml");
  writeFileSync(file, configuration('"sqlite:data/store.db"'));
  mkdirSync(join(home, "data"));
  const migrated = await inProcess(["migrate", "--config", file]);
  expect(migrated).toMatchObject({ code: exitCodes.ok, out: expect.stringContaining("up to date") });
  return { file, store: join(home, "data/store.db") };
}

describe("outbox, inbox and migrate", () => {
  it("work without the secrets and adapters of the service", async () => {
    const { file } = await withStore();
    expect(await inProcess(["outbox", "list", "--config", file])).toMatchObject({
      code: exitCodes.ok,
      out: "nothing\n",
    });
    expect(await inProcess(["inbox", "list", "--json", "--config", file])).toMatchObject({
      code: exitCodes.ok,
      out: "[]\n",
    });
  });

  it("say what is wrong with the store's key, and with it alone", async () => {
    const file = join(newFolder(), "bridgehead.yaml");
    writeFileSync(file, configuration("mysql://here"));
    const refused = await inProcess(["outbox", "list", "--config", file]);
    expect(refused.code).toBe(exitCodes.config);
    expect(refused.err).toMatch(/^\S+:6:8 store: must be "sqlite:<path>"[^\n]*\n$/);
    writeFileSync(file, configuration('"postgres://b:${env:PGPASSWORD}@127.0.0.1/b"'));
    const unresolved = await inProcess(["migrate", "--config", file]);
    expect(unresolved.code).toBe(exitCodes.config);
    expect(unresolved.err).toContain("store: needs the environment variable PGPASSWORD");
  });

  it("name the remedy for a store of another version", async () => {
    const { file, store } = await withStore();
    const run = async (schema: number) => {
      const db = openSqlite(store, Date.now);
      await db.tx((q) => q.run("UPDATE meta SET value = $1 WHERE name = 'schema'", schema));
      await db.close();
      const { code, err } = await inProcess(["inbox", "list", "--config", file]);
      return [code, err];
    };
    const newer = [exitCodes.newerSchema, expect.stringContaining("run the newer Bridgehead that wrote it")];
    expect(await run(999)).toEqual(newer);
    expect(await run(1)).toEqual([exitCodes.failed, expect.stringContaining("run bridgehead migrate")]);
  });

  it("print what a pause replaces", async () => {
    const { file } = await withStore();
    const pause = async (...words: string[]) => (await inProcess(["pause", ...words, "--config", file])).err;
    expect(await pause("office", "--reason", "wrong prices")).toBe("");
    expect(await pause("--for", "1h")).toBe("");
    expect(await pause("office", "--for", "2h")).toMatch(
      /^this replaces the pause since [\d-]+ [\d:]+ until resumed \(wrong prices\)\n$/,
    );
    expect(await pause("office")).toMatch(
      /^this replaces the pause since .+ until [\d-]+ [\d:]+ \(no reason given\)\n$/,
    );
  });

  it("refuse states that there are not, and name those that there are", async () => {
    for (const [command, named] of [
      ["outbox", "queued, sending, unknown, sent, delivered, failed, held, dropped"],
      ["inbox", "held, failed, ignored, waiting, answered, all"],
    ] as const) {
      const ended = await inProcess([command, "list", "--state", "hold"]);
      expect(ended.code).toBe(exitCodes.usage);
      expect(ended.err).toContain(`must be one of ${named}`);
    }
  });

  it.each([
    ["", /^\S+:1:1: is not a configuration: it has no keys \(name another file\)\n$/],
    ["- store: sqlite:store.db\n", /^\S+:1:1: is not a configuration: it has no keys \(name another file\)\n$/],
    ["storage: sqlite:store.db\n", /^\S+:1:1 storage: is not a known key \(did you mean store\?\)\n$/],
  ])("do not use the default store when the file is %j", async (text, problem) => {
    const file = join(newFolder(), "bridgehead.yaml");
    writeFileSync(file, text);
    for (const command of [["migrate"], ["outbox", "list"], ["inbox", "list"], ["escalation", "list"]]) {
      const ended = await inProcess([...command, "--config", file]);
      expect([command, ended.code, ended.out]).toEqual([command, exitCodes.config, ""]);
      expect(ended.err).toMatch(problem);
    }
  });

  it.each([
    [["outbox", "resend", "nope"], "there is none (see outbox list)"],
    [["outbox", "drop", "nope"], "there is none (see outbox list)"],
    [["inbox", "answer", "7"], "there is none (see inbox list)"],
  ])("name the list when %j names no row", async (command, message) => {
    const { file } = await withStore();
    const { code, err } = await inProcess([...command, "--config", file]);
    expect(err).toContain(message);
    expect([code, err.split("\n").length]).toEqual([exitCodes.failed, 2]);
  });

  it("make no store where none is", async () => {
    const home = newFolder();
    const file = join(home, "bridgehead.yaml");
    writeFileSync(file, configuration("sqlite:mistyped/store.db"));
    for (const command of ["outbox", "inbox"]) {
      const ended = await inProcess([command, "list", "--config", file]);
      expect(ended.code).toBe(exitCodes.failed);
      expect(ended.err).toContain(`there is no store ${join(home, "mistyped/store.db")}`);
      expect(ended.err).toContain("or create it with bridgehead migrate");
    }
    expect(existsSync(join(home, "mistyped"))).toBe(false);
  });

  it("give a raw message byte by byte", async () => {
    const { file, store } = await withStore();
    const bytes = Buffer.from([0x46, 0xfc, 0x72, 0x00, 0xff, 0xfe, 0x0d, 0x0a, 0xe4]); // no UTF-8, no line end
    const db = openSqlite(store, Date.now);
    await db.tx(async (q) => {
      await ensureChannel(q, "office");
      const event = {
        channel: "office",
        kind: "message",
        sender: null,
        subject: null,
        sentAt: null,
      } as const;
      const common = { ...event, fingerprint: null, body: "{}", attachments: [] };
      await insertEvents(q, [
        { ...common, externalId: "1", raw: { id: "raw", bytes } },
        { ...common, externalId: "2", raw: null },
      ]);
      for (const id of [1, 2]) await recordOutcome(q, id, { state: "ignored" });
    });
    await db.close();
    const said = { out: [] as string[], err: [] as string[], bytes: [] as Uint8Array[] };
    const io = commandIo({
      out: (text: string) => void said.out.push(text),
      err: (text: string) => void said.err.push(text),
      write: (some: Uint8Array) => void said.bytes.push(some),
    });
    const show = { config: file, action: "show", limit: 1, raw: true } as const;
    expect(await runCommand(inbox, { ...show, ids: ["1"] }, io)).toBe(exitCodes.ok);
    expect([Buffer.concat(said.bytes), said.out, said.err]).toEqual([bytes, [], []]);
    expect(await runCommand(inbox, { ...show, ids: ["2"] }, io)).toBe(exitCodes.failed);
    expect(said.err[0]).toContain("was not kept");
  });
});

describe("the demo", () => {
  // On a busy machine the reply may be there before the signal.
  it("ends at once and well when it is interrupted while the first reply is awaited", {
    retry: 2,
  }, async () => {
    const given = ["--conditions=source", `${root}src/main.ts`, "demo"];
    const { child, ended } = start(process.execPath, given);
    let said = "";
    const writes = new Promise<void>((resolve) =>
      child.stdout?.on("data", (chunk: Buffer | string) => {
        said += chunk.toString();
        if (said.includes("> Subject")) resolve();
      }),
    );
    await writes;
    child.kill("SIGINT");
    const { code, err } = await ended;
    expect([code, err]).toEqual([exitCodes.ok, ""]);
    expect(said).not.toContain("< Subject");
  });
});
