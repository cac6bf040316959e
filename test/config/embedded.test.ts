// `platform: embedded` and `model` in the configuration: defaults that depend on other keys, and keys that do not go
// together.

import { join } from "node:path";
import { expect, it } from "vitest";
import { maskSecrets, secretValues } from "../../src/config/index.ts";
import { folder, line, load, problems } from "../support/commands/configuration.ts";

const text = (more = "", model = "", agent = "{}") => `platform: embedded
model: { url: "http://127.0.0.1:11434/v1", name: tiny${model} }
agents: { support: ${agent} }
channels: { office: { adapter: fax, agent: support, host: fax.example.com } }
${more}`;

async function config(yaml: string, env: Record<string, string> = {}) {
  const loaded = await load(yaml, env);
  if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
  return loaded.config;
}

it("keeps the platform's data next to the store, and waits longer for a request than for the model", async () => {
  const read = await config(text("store: sqlite:data/b.db\n", ", total_timeout: 3m"));
  expect(read.platform).toMatchObject({
    url: "embedded",
    timeout: 190_000,
    embedded: { database: join(folder, "data/platform.db"), listen: { host: "127.0.0.1", port: 0 } },
  });
  const written = text("store: sqlite:data/b.db\n").replace(
    "platform: embedded",
    "platform: { url: embedded, timeout: 5m, embedded: { database: own.db } }",
  );
  expect((await config(written)).platform).toMatchObject({
    timeout: 300_000,
    embedded: { database: join(folder, "own.db") },
  });
});

it("asks a question again sooner than another platform, which may list it late", async () => {
  expect((await config(text())).platform).toMatchObject({ absent_after: 5000 });
  const written = text().replace("platform: embedded", "platform: { url: embedded, absent_after: 20s }");
  expect((await config(written)).platform).toMatchObject({ absent_after: 20_000 });
});

it("gives an agent without a key one that stays the same when the file is read again", async () => {
  const first = await config(text("", "", "{ knowledge: [ faq.md ] }"));
  const second = await config(text());
  expect(first.agents["support"]?.key).toMatch(/^[\w-]{43}$/);
  expect(second.agents["support"]?.key).toBe(first.agents["support"]?.key);
  expect(first.agents["support"]?.knowledge).toEqual([join(folder, "faq.md")]);
});

it("masks the key of the model, and rejects one that is written as plain text", async () => {
  const read = await config(text("", ', key: "${env:MODEL_KEY}"'), { MODEL_KEY: "model-key-1" });
  expect(secretValues(read)).toContain("model-key-1");
  expect(JSON.stringify(maskSecrets(read))).not.toContain("model-key-1");
  expect(await problems(text("", ", key: plain-1"))).toEqual([
    expect.stringContaining("model.key: is a secret written as plain text"),
  ]);
});

it("reports keys that do not go together", async () => {
  const both = text().replace("embedded\n", "{ url: embedded, embedded: { agents: a.yaml } }\n");
  expect(await problems(both)).toEqual([
    expect.stringContaining("model: is not used: the agents and their models are in platform.embedded.agents"),
    expect.stringContaining("agents.support.key: is missing"),
  ]);
  const elsewhere = text("", "", '{ key: "${env:KEY}", instructions: Be brief. }').replace(
    "embedded\n",
    "{ url: https://platform.test }\n",
  );
  expect(await problems(elsewhere, { KEY: "k-1" })).toEqual([
    expect.stringContaining("model: is only used by the embedded platform"),
    expect.stringContaining("agents.support.instructions: is only used with the key model"),
  ]);
  expect(await problems(text().replace("http://", "ftp://"))).toEqual([
    expect.stringContaining("model.url: must be an http(s) URL"),
  ]);
});

it("warns about a store that several nodes may share", async () => {
  const loaded = await load(text("store: postgres://db.example.com/bridgehead\n"));
  expect(loaded.warnings.map(({ key, fix }) => [key, fix])).toContainEqual([
    "platform",
    expect.stringContaining("run one node only"),
  ]);
});
