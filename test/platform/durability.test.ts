// Acknowledged writes survive any end of the process.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { PlatformCommits } from "../../src/platform/store/store.ts";
import { childEnv, root } from "../support/machine/command.ts";
import { keys, saying, startByEmail, startModel, startTestPlatform, startWith } from "../support/platform/platform.ts";
import { newFolder } from "../support/resources.ts";

const newFile = (): string => join(newFolder(), "platform.db");

test("a restart keeps conversations, modes and people, and no key in clear", async () => {
  const file = newFile();
  const first = await startTestPlatform({ file });
  const id = await first.open();
  await first.call("POST", `conversations/${id}/messages`, { message: "refund" });
  await first.call("PUT", `conversations/${id}/mode`, { mode: "manual" });
  const before = await first.call("GET", `conversations/${id}/messages`);
  await first.platform.close();

  const db = new Database(file, { readonly: true });
  const stored = JSON.stringify(db.prepare("SELECT * FROM agent").all());
  db.close();
  for (const key of Object.values(keys)) expect(stored).not.toContain(key);

  const second = await startTestPlatform({ file });
  expect((await second.call("GET", `conversations/${id}/messages`)).body).toEqual(before.body);
  expect((await second.call("GET", `conversations/${id}`)).body).toMatchObject({ mode: "manual" });
  expect(await second.open()).toBe(id);
});

test("a rotated key replaces the old one, and the agent keeps its conversations", async () => {
  const file = newFile();
  const text = (key: string) => `organization: { name: A }\nagents: { a: { key: ${key} } }`;
  const first = await startWith({ file, agents: readAgents(text("old-key-1"), "a.yaml") });
  const id = await first.open("jo@example.test", "old-key-1");
  await first.platform.close();
  const second = await startWith({ file, agents: readAgents(text("new-key-1"), "a.yaml") });
  expect((await second.call("GET", `conversations/${id}`, undefined, "old-key-1")).status).toBe(403);
  expect((await second.call("GET", `conversations/${id}`, undefined, "new-key-1")).status).toBe(200);
});

test("agents may swap their keys, and a removed one's opens nothing", async () => {
  const file = newFile();
  const text = (...agents: [string, string][]) =>
    `organization: { name: A }\nagents: { ${agents.map(([name, key]) => `${name}: { key: ${key} }`).join(", ")} }`;
  const start = (...agents: [string, string][]) => startWith({ file, agents: readAgents(text(...agents), "a.yaml") });
  const name = async (fixture: Awaited<ReturnType<typeof start>>, key: string) =>
    (await fixture.call("GET", "agents/by-api-key", undefined, key)).body.name;
  const first = await start(["a", "some-key-1"], ["b", "some-key-2"]);
  expect(await name(first, "some-key-1")).toBe("a");
  await first.platform.close();
  const second = await start(["a", "some-key-2"], ["b", "some-key-1"]);
  expect(await name(second, "some-key-1")).toBe("b");
  await second.platform.close();
  const third = await start(["a", "some-key-2"]);
  expect(await name(third, "some-key-1")).toBe("FORBIDDEN_ERROR");
});

test("a file of a newer version is refused", async () => {
  const file = newFile();
  const db = new Database(file);
  db.pragma("user_version = 99");
  db.close();
  await expect(startTestPlatform({ file })).rejects.toThrow("newer version (99)");
});

test("a process that ends while it creates the file leaves none that is refused", async () => {
  const file = newFile();
  const source = `import { openPlatformStore } from ${JSON.stringify(`${root}src/platform/store/store.ts`)};
openPlatformStore(${JSON.stringify(file)}, "full").close();`;
  const create = (before: string) => {
    const script = `${before}exec "$0" --conditions=source --input-type=module --eval "$1"`;
    return once(spawn("sh", ["-c", script, process.execPath, source], { env: childEnv, stdio: "ignore" }), "exit");
  };
  // It can write no byte.
  expect(await create("ulimit -f 0; ")).toEqual([1, null]);
  expect(readdirSync(dirname(file))).toEqual([]);
  expect(await create("")).toEqual([0, null]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("a question cut off by a stop is answered at the next start", async () => {
  const file = newFile();
  const model = await startModel();
  model.say(() => {});
  const text = `organization: { name: A }\nagents: { a: { key: some-key-1, model: { url: "${model.url}", name: m } } }`;
  const agents = readAgents(text, "a.yaml");
  const first = await startWith({ file, agents });
  const at = `conversations/${await first.open("jo@example.test", "some-key-1")}/messages`;
  const cut = first.call("POST", at, { message: "Hi" }, "some-key-1");
  await expect.poll(() => model.asked.length).toBe(1);
  await first.platform.close();
  expect((await cut).status).toBe(500);

  model.say(saying("Better late."));
  const second = await startWith({ file, agents });
  const messages = async () => (await second.call("GET", at, undefined, "some-key-1")).body.messages;
  await expect.poll(async () => (await messages()).length).toBe(2);
  const [question, reply] = await messages();
  expect(reply).toMatchObject({ message: "Better late.", conversationMessageId: question.id });
});

test("a kill loses nothing that was answered", async () => {
  const file = newFile();
  const config = join(dirname(file), "agents.yaml");
  writeFileSync(
    config,
    "organization: { name: A }\nagents: { a: { key: some-key-1, rules: [{ when: hi, answer: Hello. }] } }",
  );
  const start = async () => {
    const args = ["platform", "--config", config, "--database", file, "--listen", "127.0.0.1:0"];
    const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, ...args], {
      env: childEnv,
      stdio: ["ignore", "ignore", "pipe"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    let log = "";
    child.stderr.on("data", (text) => (log += String(text)));
    await expect.poll(() => log).toContain("platform listening");
    return { child, url: /http:\/\/127\.0\.0\.1:\d+/.exec(log)?.[0] ?? "" };
  };
  const call = async (url: string, path: string, body?: object) => {
    const response = await fetch(`${url}/external/${path}`, {
      method: body ? "POST" : "GET",
      headers: { "agent-secret-key": "some-key-1" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return JSON.parse(await response.text());
  };
  const { child, url } = await start();
  const { conversationId } = await call(url, "conversations/start", startByEmail("jo@example.test"));
  const answered: string[] = [];
  const asking = Array.from({ length: 8 }, async () => {
    for (;;) {
      answered.push((await call(url, `conversations/${conversationId}/messages`, { message: "hi" })).id);
      if (answered.length === 60) child.kill("SIGKILL");
    }
  });
  await Promise.allSettled(asking);
  expect(answered.length).toBeGreaterThanOrEqual(60);

  const again = await start();
  const read = async () => (await call(again.url, `conversations/${conversationId}/messages`)).messages;
  const messages = await read();
  const stored = new Set(messages.map((each: { id: string }) => each.id));
  expect(answered.filter((id) => !stored.has(id))).toEqual([]);
  await expect.poll(async () => unanswered(await read())).toEqual([]);
});

type Listed = { readonly id: string; readonly senderRole: string; readonly conversationMessageId: string };
function unanswered(messages: readonly Listed[]): string[] {
  const replies = new Set(
    messages.filter(({ senderRole }) => senderRole === "assistant").map((each) => each.conversationMessageId),
  );
  return messages.flatMap(({ id, senderRole }) => (senderRole === "assistant" || replies.has(id) ? [] : [id]));
}

test("writes share a commit, and one that fails takes no other with it", async () => {
  const statements: string[] = [];
  const db = new Database(":memory:", { verbose: (sql) => statements.push(String(sql)) });
  onTestFinished(() => void db.close());
  db.exec("CREATE TABLE t (a INTEGER UNIQUE)");
  const commits = new PlatformCommits(db);
  const insert = db.prepare("INSERT INTO t VALUES (?)");
  const write = (...values: number[]) =>
    commits.write(() => {
      for (const value of values) insert.run(value);
      return db.inTransaction;
    });
  const results = await Promise.allSettled([write(1), write(2, 1), write(3)]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(statements.filter((sql) => sql === "COMMIT")).toHaveLength(1);
  expect(db.prepare("SELECT a FROM t ORDER BY a").pluck().all()).toEqual([1, 3]);
  const pending = write(4);
  db.close();
  await expect(pending).rejects.toThrow();
});

test("a commit that fails rejects every waiting caller", async () => {
  const db = new Database(":memory:");
  onTestFinished(() => void db.close());
  db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)");
  db.pragma("foreign_keys = ON");
  const commits = new PlatformCommits(db);
  const insert = db.prepare("INSERT INTO t VALUES (?, ?)");
  const results = await Promise.allSettled([
    commits.write(() => insert.run(1, null)),
    commits.write(() => insert.run(2, 99)),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(db.prepare("SELECT * FROM t").all()).toEqual([]);
  await expect(commits.write(() => insert.run(3, null).changes)).resolves.toBe(1);
});
