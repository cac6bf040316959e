// bridgehead opt-out on the command line: who is named how, what is printed, and that an error changes nothing.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import { inProcess } from "../support/machine/command.ts";
import { migrated, sqliteDatabase, storeEvent } from "../support/store/databases.ts";

async function setUp() {
  const database = await migrated(sqliteDatabase);
  const db = await database.open();
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-opt-out-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const config = join(folder, "bridgehead.yaml");
  const mail =
    'imap: { host: mail.example.com, user: us@example.com, password: "${env:PASSWORD}" }, smtp: { host: mail.example.com }';
  writeFileSync(config, `channels:\n  mail: { adapter: email, agent: a, ${mail} }\nstore: "sqlite:${database.file}"\n`);
  const run = (...words: readonly string[]) =>
    inProcess(["opt-out", ...words, "--config", config], { SUDO_USER: "dora" });
  return { db, run };
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
  expect(out.split("\n")[0]).toMatch(/^ADDRESS +CHANNEL +SINCE \(UTC\) +AGO +BY +REASON$/);
  expect(out).toMatch(/^anna@example\.org .*operator +opted out by dora: asked by phone$/m);
  expect(out).toMatch(/^bert@example\.org .*operator +opted out by dora$/m);
  expect(out).toMatch(/^carl@example\.org .*stop +the person said STOP \(event 1\)$/m);
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
