// What an adapter's author writes into the schema and into `review` reaches the operator, at the key that it is about.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineAdapter, type Remark } from "bridgehead/contract";
import { expect, it } from "vitest";
import * as z from "zod";
import { loadConfig } from "../../src/config/index.ts";
import { line } from "../support/commands/configuration.ts";
import { newFolder } from "../support/resources.ts";

const config = z.strictObject({
  name: z.string().min(1).max(5).default("desk"),
  secrets: z.array(z.string().min(16, "must have at least 16 characters, as the server writes it")).default([]),
  rooms: z.array(z.string()).min(1).max(2).default(["all"]),
  own: z.array(z.string()).min(1, "must name a room").default(["all"]),
  posts: z.number().min(2).max(9).default(3),
});

async function problems(
  keys: string,
  review?: () => readonly Remark[],
  schema: z.ZodType = config,
): Promise<readonly string[]> {
  const path = join(newFolder(), "bridgehead.yaml");
  writeFileSync(
    path,
    `platform: { url: https://platform.example.com }
agents: { support: { key: "\${env:KEY}" } }
http: { listen: "127.0.0.1:8025" }
channels:
  chat:
    adapter: chat
    agent: support
${keys}`,
  );
  const chat = defineAdapter({
    name: "chat",
    contract: 1,
    config: schema,
    traits: { attachments: false, conversations: "person", platform: "chat" },
    ...(review && { review }),
    create: () => ({}),
  });
  const loaded = await loadConfig(path, { env: { KEY: "a-long-key" }, adapters: async () => chat });
  return [...(loaded.ok ? [] : loaded.problems), ...loaded.warnings].map(line).filter((text) => !text.includes("null"));
}

const own = (keys: string, review?: () => readonly Remark[], schema?: z.ZodType) =>
  problems(keys, review, schema).then((lines) => lines.filter((text) => !/ escalation: /.test(text)));

it.each([
  [
    "secrets: [ short ]",
    "8:16 channels.chat.secrets[0]: must have at least 16 characters, as the server writes it (correct the value)",
  ],
  ["own: []", "8:10 channels.chat.own: must name a room (correct the value)"],
  ["name: reception", "8:11 channels.chat.name: must have at most 5 characters (correct the value)"],
  ['name: ""', "8:11 channels.chat.name: is empty (correct the value)"],
  ["rooms: []", "8:12 channels.chat.rooms: is empty (give it at least one entry)"],
  ["rooms: [ a, b, c ]", "8:12 channels.chat.rooms: must have at most 2 entries (correct the value)"],
  ["posts: 1", "8:12 channels.chat.posts: must be at least 2 (raise it)"],
  ["posts: 10", "8:12 channels.chat.posts: must be at most 9 (lower it)"],
])("the message about %s is the author's, or states the limit", async (key, text) => {
  expect(await own(`    ${key}\n`)).toEqual([text]);
});

it.each([[[".."]], [["..", ".."]]])("a remark about a key of the whole file is found after %j", async (up) => {
  const remark: Remark = { severity: "error", path: [...up, "http", "listen"], message: "is local", fix: "change it" };
  expect(await own("", () => [remark])).toEqual(["3:17 http.listen: is local (change it)"]);
});

it("a review that throws is a warning that names the adapter, and the configuration is used", async () => {
  const failing = () => {
    throw new Error("no such room");
  };
  expect(await own("", failing)).toEqual([
    "5:3 channels.chat: was not reviewed: review of the adapter chat threw: no such room (report it to the author of the adapter)",
  ]);
});

it("a secret that a review quotes is masked", async () => {
  const remark: Remark = { severity: "error", path: ["token"], message: "is old: a-long-key", fix: "not a-long-key" };
  const schema = z.strictObject({ token: z.string().meta({ secret: true }) });
  expect(await own('    token: "${env:KEY}"\n', () => [remark], schema)).toEqual([
    "8:12 channels.chat.token: is old: ******** (not ********)",
  ]);
});

it.each([
  ["a promise", async () => []],
  ["a text", () => "wrong"],
  ["a remark without a path", () => [{ severity: "error", message: "is wrong" }]],
])("a review that returns %s is a warning as well", async (_, review) => {
  const what = "review of the adapter chat returned no array of { severity, path, message, fix }";
  expect(await own("", review as unknown as () => readonly Remark[])).toEqual([
    `5:3 channels.chat: was not reviewed: ${what} (report it to the author of the adapter)`,
  ]);
});

it.each([
  ["throws", () => expect.fail("no room"), "no room"],
  ["is asynchronous", async () => true, "a check returned a promise"],
])("a schema that %s is an error of its channel", async (_, test, message) => {
  const [text] = await own("", undefined, config.refine(test));
  expect(text).toMatch(`5:3 channels.chat: cannot be read: the config of the adapter chat threw: ${message}`);
});
