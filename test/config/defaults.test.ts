// What a channel block leaves out: the core's defaults, those of the adapter's kind of channel, and what follows from
// other keys.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { AdapterDefinition, Json } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { jsonSchema, loadChannel, loadConfig } from "../../src/config/index.ts";
import { fax, folder, good, line } from "../support/commands/configuration.ts";

let count = 0;
const written = (text: string): string => {
  const path = join(folder, `defaults-${count++}.yaml`);
  writeFileSync(path, text);
  return path;
};

/** The fax adapter with defaults, and a telephone adapter without. */
function adapters(defaults: { readonly [key: string]: Json } = {}) {
  const own: AdapterDefinition = { ...fax, traits: { ...fax.traits, defaults } };
  const address = (text: string) => (text.startsWith("+") ? text.replaceAll(" ", "") : null);
  const phone: AdapterDefinition = { ...fax, name: "phone", address, traits: { ...fax.traits, platform: "voice" } };
  const texts: AdapterDefinition = { ...fax, name: "texts", address };
  return async (name: string) => ({ fax: own, phone, texts })[name as "fax"] ?? Promise.reject(new Error(name));
}

const env = { KEY: "k" };
async function core(text: string, defaults: { readonly [key: string]: Json } = {}) {
  const loaded = await loadConfig(written(text), { env, adapters: adapters(defaults) });
  if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
  return loaded.config.channels[0]?.core;
}
async function problems(text: string, defaults: { readonly [key: string]: Json } = {}) {
  const loaded = await loadConfig(written(text), { env, adapters: adapters(defaults) });
  return loaded.ok ? [] : loaded.problems.map(line);
}

describe("an adapter's defaults", () => {
  const defaults = {
    debounce: "3s",
    concurrency: 500,
    on_unknown: "drop",
    caps: { sender: [{ max: 30, per: "1m" }], channel: [] },
  };

  it("stand where the file says nothing", async () => {
    expect(await core(good, defaults)).toMatchObject({
      debounce: 3000,
      concurrency: 500,
      on_unknown: "drop",
      caps: {
        sender: [{ max: 30, per: 60_000 }],
        conversation: [{ max: 10, per: 600_000 }],
        channel: [],
      },
    });
  });

  it("give way to what is written, key by key", async () => {
    const text = `${good}    debounce: 0s\n    caps: { sender: [ { max: 1, per: 1h } ] }\n`;
    expect(await core(text, defaults)).toMatchObject({
      debounce: 0,
      on_new_message: "send",
      concurrency: 500,
      caps: { sender: [{ max: 1, per: 3_600_000 }], channel: [] },
    });
  });

  it("do not hide that a key is empty", async () => {
    expect(await problems(`${good}    debounce:\n`, defaults)).toEqual([
      "9:5 channels.office.debounce: is empty (give it a value, or remove the key)",
    ]);
  });

  it.each<[string, { readonly [key: string]: Json }]>([
    ["debounce must be at most 60s", { debounce: "2m" }],
    ["concurrency must be a number, not a text", { concurrency: "many" }],
    ["pages is not a known key", { pages: 3 }],
    ["agent is not a known key", { agent: "support" }],
  ])("are refused when wrong: %s", async (what, wrong) => {
    expect(await problems(good, wrong)).toEqual([
      `6:14 channels.office.adapter: the adapter fax has wrong defaults: ${what} (its author: see Traits.defaults)`,
    ]);
  });

  it("are shown in the JSON Schema of that adapter's block alone", () => {
    const own: AdapterDefinition = { ...fax, traits: { ...fax.traits, defaults } };
    const schema = jsonSchema({ own, fax });
    new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
    const channels = schema.properties?.["channels"]?.additionalProperties;
    const blocks = typeof channels === "object" ? channels.oneOf : [];
    const shown = blocks?.map(({ properties }) => [
      properties?.["debounce"]?.default,
      properties?.["concurrency"]?.default,
      properties?.["caps"]?.properties?.["channel"]?.default,
    ]);
    const plain = ["0s", 64, [{ max: 60, per: "15m" }]];
    expect(shown).toEqual([["3s", 500, []], plain, plain]);
  });
});

describe("on_new_message", () => {
  it.each([
    ["", "send"],
    ["    debounce: 3s\n", "drop"],
    ["    debounce: 3s\n    on_new_message: send\n", "send"],
    ["    on_new_message: drop\n", "drop"],
  ])("after %j is %s", async (keys, expected) => {
    expect((await core(good + keys))?.on_new_message).toBe(expected);
  });
});

describe("debounce", () => {
  it("is at most a minute", async () => {
    expect(await problems(`${good}    debounce: 61s\n`)).toEqual([
      expect.stringContaining("9:15 channels.office.debounce: must be at most 60s"),
    ]);
  });
});

describe("notify", () => {
  const two = (notify: string, second = "adapter: texts") =>
    `${good}    notify: ${notify}\n  phones: { ${second}, agent: support, host: h.example.com }\n`;

  it("are reached through another channel, at addresses in its form", async () => {
    const text = two('{ channel: phones, to: [ "+1 555 0100" ] }');
    expect((await core(text))?.notify).toEqual({ channel: "phones", to: ["+15550100"] });
  });

  it.each([
    [
      "{ channel: phnes, to: [ +1 ] }",
      "9:24 channels.office.notify.channel: names a channel that is not defined: phnes (did you mean phones?)",
    ],
    [
      "{ channel: phones, to: [ ops ] }",
      "9:38 channels.office.notify.to[0]: is no address that phones can reach: ops (correct the address)",
    ],
    ["{ channel: phones }", "9:5 channels.office.notify.to: is missing (add to (Which addresses receive them?))"],
  ])("%s is refused", async (notify, expected) => {
    expect(await problems(two(notify.replace("+1 ]", '"+1" ]')))).toEqual([expected]);
  });

  it("are not called, nor reached where nothing runs", async () => {
    const notify = '{ channel: phones, to: [ "+1" ] }';
    expect(await problems(two(notify, "adapter: phone"))).toEqual([
      expect.stringContaining("names a voice channel: phones"),
    ]);
    expect(await problems(two(notify, "adapter: texts, enabled: false"))).toEqual([
      expect.stringContaining("names a channel that does not run: phones"),
    ]);
  });
});

describe("the part of the file that concerns one channel", () => {
  const text = `${good}    pin: "\${credential:not-here}"\n  broken: { adapter: nowhere, agent: other }\nstore: sqlite:data.db\n`;
  const read = (id: string, file = text) => loadChannel(written(file), id, { env: {}, adapters: adapters() });

  it("is read without the secrets of the service, despite other errors", async () => {
    expect(await read("office")).toMatchObject({
      ok: true,
      store: { kind: "sqlite", file: join(folder, "data.db") },
      ids: ["office", "broken"],
      channel: { agent: "support", enabled: true, adapter: { name: "fax" } },
    });
  });

  it("names the channels there are when there is no such one", async () => {
    expect(await read("offce")).toMatchObject({ ok: true, channel: null, ids: ["office", "broken"] });
  });

  it.each([
    ["broken", text, "channels.broken.adapter: nowhere"],
    ["office", text.replace("agent: support\n", "agent: 7\n"), "channels.office.agent: must be a text"],
    ["office", text.replace("sqlite:data.db", "mysql://x"), "store: must be"],
  ])("tells what is wrong with it: %s", async (id, file, expected) => {
    const loaded = await read(id, file);
    expect(loaded.ok ? [] : loaded.problems.map(line).join()).toContain(expected);
  });
});
