// erase --platform with a platform that fails, and what a repetition finds; folders with backups that do not exist.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import {
  duePlatformWebhooks,
  endPlatformWebhooks,
  insertPlatformWebhook,
} from "../../../src/escalation/platform-webhook/rows.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { forget } from "../../../src/store/retention.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { notFound } from "../../../src/wire/record.ts";
import { inProcess, phoneSecrets } from "../../support/machine/command.ts";
import { serve } from "../../support/machine/network.ts";
import { newFolder } from "../../support/resources.ts";
import { conversation } from "../../support/store/databases.ts";

const person = "anna@customer.example";

/** A platform with two conversations of two users; `fails` names the requests that it answers with 500. */
async function startPlatform() {
  const users = new Map([
    ["p1", "u1"],
    ["p2", "u2"],
  ]);
  const state = { fails: "", deleted: [] as string[] };
  const server = createServer((request, response) => {
    const [kind = "", id = ""] = (request.url ?? "").split("/").slice(-2);
    const answer = (status: number, body: object) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (`${request.method} ${id}` === state.fails) answer(500, {});
    else if (request.method === "DELETE") {
      state.deleted.push(id);
      for (const [one, user] of users) if (user === id) users.delete(one);
      answer(200, {});
    } else if (kind === "conversations" && users.has(id)) answer(200, { id, conversationUserId: users.get(id) });
    else answer(notFound.status, notFound);
  });
  const url = await serve(server);
  return { state, url };
}

async function setUp(agent = "a") {
  const { state, url } = await startPlatform();
  const folder = newFolder();
  const config = join(folder, "bridgehead.yaml");
  const channel = { adapter: "voice", agent, dialect: "twilio", auth_tokens: ["${env:TOKEN}"] };
  const http = { public_url: "https://bridge.example.com" };
  const agents = { [agent]: { key: "${env:KEY}" } };
  const keys = { platform: { url }, agents, channels: { calls: channel }, http, store: "sqlite:store.db" };
  writeFileSync(config, JSON.stringify(keys));
  const db = openSqlite(join(folder, "store.db"), Date.now);
  onTestFinished(() => db.close());
  await migrate(db);
  await db.tx(async (q) => {
    await ensureChannel(q, "c");
    for (const n of [1, 2]) {
      await conversation(q, `c${n}`, "c", person);
      await q.run("UPDATE conversations SET platform_id = $2, agent = 'a' WHERE id = $1", `c${n}`, `p${n}`);
    }
  });
  const erase = (...more: string[]) =>
    inProcess(["erase", "--person", person, "--config", config, ...more], phoneSecrets);
  const people = async () =>
    (await db.read((q) => q.all<{ person: string }>("SELECT person FROM conversations ORDER BY id"))).map(
      (row) => row.person,
    );
  return { state, folder, db, erase, people };
}

it.each(["GET p2", "DELETE u2"])(
  "erases nothing in the store while the platform fails (%s), and can be repeated",
  async (fails) => {
    const { state, erase, people } = await setUp();
    state.fails = fails;
    const failed = await erase("--platform");
    expect(failed.code).toBe(exitCodes.failed);
    expect(failed.out).not.toContain("erased:");
    expect(failed.err).toContain(
      `not deleted on the platform: ${fails === "GET p2" ? "conversation p2" : "user u2"}: HTTP 500`,
    );
    expect(failed.err).toContain("nothing was erased from the store");
    expect(failed.err).toContain("run this again");
    expect(await people()).toEqual([person, person]);
    state.fails = "";
    const repeated = await erase("--platform");
    expect([repeated.code, repeated.err]).toEqual([exitCodes.ok, ""]);
    expect(state.deleted.sort()).toEqual(["u1", "u2"]);
    expect(await people()).toEqual(["", ""]);
    expect((await erase()).out).toContain("the platform has no conversations of this person");
  },
);

it("counts all other addresses with the same name", async () => {
  const { db, erase } = await setUp();
  await db.tx(async (q) => {
    for (let n = 1; n <= 30; n++) await conversation(q, `other${n}`, "c", `anna${n}@other.example`);
    await q.run("UPDATE conversations SET person_name = 'Anna Berg'");
  });
  expect((await erase()).out).toContain("30 other addresses have the same name");
});

it("finds a person of a chat by the address that its adapter knows, and refuses one that is a common word", async () => {
  const { folder, db, people } = await setUp();
  const user = "k3j5h7g9f1d2s4a6p8o0i2u4y6";
  await db.tx((q) => conversation(q, "chat", "c", user));
  const config = join(folder, "chat.yaml");
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(fileURLToPath(new URL("../../../node_modules/zod", import.meta.url)), join(folder, "node_modules/zod"));
  const traits = '{ attachments: false, conversations: "person", platform: "live_chat" }';
  writeFileSync(
    join(folder, "chat.mjs"),
    `import * as z from "zod";
export default { name: "chat", contract: 1, config: z.strictObject({}), traits: ${traits}, create: () => ({}),
  address: (text) => (/^[a-z0-9]+$/i.test(text.trim()) ? text.trim().toLowerCase() : null) };`,
  );
  const keys = {
    platform: { url: "http://127.0.0.1:9" },
    agents: { a: { key: "${env:KEY}" } },
    store: "sqlite:store.db",
  };
  writeFileSync(config, JSON.stringify({ ...keys, channels: { chat: { adapter: "./chat.mjs", agent: "a" } } }));
  const erase = (one: string) => inProcess(["erase", "--person", one, "--config", config], phoneSecrets);
  for (const one of ["anna", "12345678"]) {
    const refused = await erase(one);
    expect([refused.code, refused.err]).toEqual([
      exitCodes.usage,
      expect.stringContaining("or an address of chat with"),
    ]);
  }
  const done = await erase(` ${user.toUpperCase()}`);
  expect([done.code, done.err]).toEqual([exitCodes.ok, ""]);
  expect((await people()).toSorted()).toEqual(["", person, person]);
});

it("exports nothing into a folder below one that does not exist", async () => {
  const { folder } = await setUp();
  const options = ["--person", person, "--config", join(folder, "bridgehead.yaml"), "--to", join(folder, "none/anna")];
  expect(await inProcess(["export", ...options], phoneSecrets)).toEqual({
    code: exitCodes.failed,
    out: "",
    err: `the folder ${join(folder, "none")} does not exist\n`,
  });
});

it("refuses when the configuration has no key of an agent", async () => {
  const { erase, people } = await setUp("other");
  const failed = await erase("--platform");
  expect(failed.code).toBe(exitCodes.failed);
  expect(failed.err).toContain("conversation p1: the configuration has no key of its agent a");
  expect(await people()).toEqual([person, person]);
});

it("finds the platform's conversations of a person who was erased without --platform, also after retention", async () => {
  const { state, db, erase, people } = await setUp();
  const first = await erase();
  expect(first.code).toBe(exitCodes.ok);
  expect(first.out).toContain("the platform still has 2 conversations");
  expect(await people()).toEqual(["", ""]);
  await db.tx(async (q) => {
    await q.run("UPDATE actions SET made_at = 1");
    await forget(q, { rawMs: 1, eventsMs: 1 }, standardTiming.upkeep.retentionRecheck);
  });
  const second = await erase("--platform");
  expect(second).toMatchObject({ code: exitCodes.ok, out: expect.stringContaining("platform: 2 users deleted") });
  expect(state.deleted.sort()).toEqual(["u1", "u2"]);
  expect((await erase()).out).toContain("the platform has no conversations of this person");
  const stored = await db.read((q) => q.all("SELECT * FROM actions"));
  expect(JSON.stringify(stored)).not.toContain(person);
});

it("erases the platform's webhooks about the person: one that waits is lost, a processed one stays done", async () => {
  const { db, erase } = await setUp();
  const body = (id: string) => JSON.stringify({ conversationId: id });
  await db.tx(async (q) => {
    for (const [id, platformId] of [
      ["done", "p1"],
      ["waits", "p2"],
      ["other", "q1"],
    ] as const)
      await insertPlatformWebhook(q, { agent: "a", id, kind: "escalation", body: body(platformId) }, null);
    const row = (await duePlatformWebhooks(q, 9)).find(({ id }) => id === "done");
    if (row) await endPlatformWebhooks(q, [{ row, state: "done" }]);
  });
  expect((await erase()).code).toBe(exitCodes.ok);
  const columns = "id, state, body, due_at IS NULL AS ended";
  expect(await db.read((q) => q.all(`SELECT ${columns} FROM platform_webhooks ORDER BY id`))).toEqual([
    { id: "done", state: "done", body: "", ended: 1 },
    { id: "other", state: "stored", body: body("q1"), ended: 0 },
    { id: "waits", state: "lost", body: "", ended: 1 },
  ]);
});

it("erases nothing when a folder with backups does not exist", async () => {
  const { folder, erase, people } = await setUp();
  for (const path of [join(folder, "typo"), join(folder, "bridgehead.yaml")]) {
    const failed = await erase("--backups", folder, "--backups", path);
    expect(failed).toMatchObject({ code: exitCodes.failed, out: "" });
    expect(failed.err).toContain(`there is no folder ${path}`);
  }
  expect(await people()).toEqual([person, person]);
});
