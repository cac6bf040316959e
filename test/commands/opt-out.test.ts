// bridgehead opt-out on the command line: who is named how, what is printed, and that an error changes nothing. The option
// --channel of all commands.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exitCodes, type Io } from "../../src/commands/io.ts";
import { createProgram } from "../../src/commands/program.ts";
import { type CommandDefinition, definitionOf, eachCommand } from "../../src/commands/reference/definition.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import { inProcess } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";
import { migrated, sqliteDatabase, storeEvent } from "../support/store/databases.ts";

async function setUp() {
  const database = await migrated(sqliteDatabase);
  const db = await database.open();
  const config = join(newFolder(), "bridgehead.yaml");
  const mail =
    'imap: { host: mail.example.com, user: us@example.com, password: "${env:PASSWORD}" }, smtp: { host: mail.example.com }';
  writeFileSync(config, `channels:\n  mail: { adapter: email, agent: a, ${mail} }\nstore: "sqlite:${database.file}"\n`);
  const program = (...words: readonly string[]) => inProcess([...words, "--config", config], { SUDO_USER: "dora" });
  const run = (...words: readonly string[]) => program("opt-out", ...words);
  return { db, run, program };
}

it("names a person by a message or by an address, and lists who gets nothing with its cause", async () => {
  const { db, run } = await setUp();
  const id = await db.tx((q) => storeEvent(q, "e", { channel: "mail", sender: "anna@example.org" }));
  expect(await run("list")).toEqual({ code: exitCodes.ok, out: "nothing\n", err: "" });
  expect(await run("add", String(id), "--reason", "asked\u001b[31m by phone")).toEqual({
    code: exitCodes.ok,
    out: "anna@example.org gets nothing from channel mail any more\n",
    err: "",
  });
  expect(await run("add", "Bert@Example.org", "--channel", "mail")).toMatchObject({ code: exitCodes.ok });
  await db.tx((q) => suppress(q, "mail", "carl@example.org", "the person said STOP (event 1)"));
  const { out } = await run("list", "--channel", "mail");
  expect(out.split("\n")[0]).toMatch(/^ADDRESS +CHANNEL +OUR ADDRESS +SINCE \(UTC\) +AGO +BY +REASON$/);
  expect(out).toMatch(/^anna@example\.org .*operator +opted out by dora: asked by phone$/m);
  expect(out).toMatch(/^bert@example\.org .*operator +opted out by dora$/m);
  expect(out).toMatch(/^carl@example\.org .*stop +the person said STOP \(event 1\)$/m);
  await db.tx((q) => ensureChannel(q, "other"));
  expect((await run("list", "--channel", "other")).out).toBe("nothing\n");
  const removed = await run("remove", "anna@example.org", "bert@example.org", "--channel", "mail", "--json");
  expect(JSON.parse(removed.out)).toMatchObject([{ source: "operator" }, { address: "bert@example.org" }]);
});

it("changes all persons or none", async () => {
  const { db, run } = await setUp();
  const id = await db.tx((q) => storeEvent(q, "e", { channel: "mail", sender: "anna@example.org" }));
  await db.tx((q) => suppress(q, "mail", "carl@example.org", "the person said STOP (event 1)"));
  expect(await run("add", String(id), "4711")).toEqual({
    code: exitCodes.failed,
    out: "",
    err: "there is no message 4711 (see inbox list); nothing was changed\n",
  });
  expect((await run("list")).out).not.toContain("anna");
  await run("add", "anna@example.org", "--channel", "mail");
  const refused = await run("remove", "anna@example.org", "carl@example.org", "--channel", "mail");
  expect(refused).toMatchObject({ code: exitCodes.failed, err: expect.stringContaining("only their START lifts it") });
  expect((await run("list")).out).toContain("anna");
});

it("says which form a person needs", async () => {
  const { run } = await setUp();
  const wrong = [
    [["add"], "the number of a message (inbox list), or --channel and an address"],
    [["add", "anna@example.org"], "an address needs --channel"],
    [["remove", "anna", "--channel", "mail"], "give a mailbox, such as anna@example.com"],
    [["add", "anna@example.org", "--channel", "texts"], "there is no channel texts"],
  ] as const;
  for (const [words, text] of wrong) {
    const { code, err } = await run(...words);
    expect([code, err]).toEqual([exitCodes.usage, expect.stringContaining(text)]);
  }
});

describe("an unknown channel", () => {
  const commands: CommandDefinition[] = [];
  const io = { out() {}, err() {} } as unknown as Io;
  eachCommand(definitionOf(createProgram(io, "1.2.3", () => {})), (command) => void commands.push(command));
  const words: Readonly<Record<string, readonly string[]>> = {
    inbox: ["list"],
    outbox: ["release", "--all", "--code", "held"],
    retry: ["--all", "--code", "held"],
    "opt-out": ["list"],
    conversation: ["list"],
    start: ["--to", "anna@example.org"],
    escalation: ["list"],
    policy: ["test"],
    pause: [],
    resume: [],
  };

  it("is a usage error that names the known channels, in every command that takes one", async () => {
    const { run, program } = await setUp();
    expect((await run("list", "--channel", "mail")).code).toBe(exitCodes.ok);
    const taking = commands.filter(
      ({ options, arguments: given }) =>
        options.some(({ names }) => names.includes("--channel")) || given.some(({ name }) => name === "channel"),
    );
    expect(taking.map(({ name }) => name).toSorted()).toEqual(Object.keys(words).toSorted());
    for (const { name, options } of taking) {
      const option = options.some(({ names }) => names.includes("--channel")) ? ["--channel", "nope"] : ["nope"];
      const { code, err } = await program(name, ...(words[name] ?? []), ...option);
      expect([name, code, err]).toEqual([name, exitCodes.usage, expect.stringMatching(/no channel nope.*\bmail\b/)]);
    }
  });

  it("does not include one that only the store has", async () => {
    const { db, program } = await setUp();
    await db.tx((q) => ensureChannel(q, "removed"));
    expect(await program("inbox", "list", "--channel", "removed")).toMatchObject({ code: exitCodes.ok });
  });
});
