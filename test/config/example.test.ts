// config.example.yaml and the JSON Schema describe the same file: they are compared in both directions, and validated
// by an independent validator.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { builtIn, loadAdapter } from "../../src/channels/loader.ts";
import { jsonSchema, loadConfig } from "../../src/config/index.ts";
import { type Shape, shapeOf } from "../../src/config/json-schema.ts";
import { coreChannel } from "../../src/config/schema/channel.ts";
import { folder, line } from "../support/commands/configuration.ts";

const example = fileURLToPath(new URL("../../config.example.yaml", import.meta.url));
const text = readFileSync(example, "utf8");
/** The adapters that the example shows, in its order. The core's keys stand in the first one's block; in the others only
 *  those with defaults of their own. */
const names = [...text.matchAll(/^ {4}adapter: (\S+)$/gm)].map(([, name = ""]) => name);
const adapters = Object.fromEntries(
  await Promise.all(names.map(async (name) => [name, await loadAdapter(name, folder)] as const)),
);
const schema = jsonSchema(adapters);
const validate = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).compile(schema);

/** The same file with every commented key switched on. */
const all = text.replace(/^(\s*)#(?=[a-z_0-9]+:)/gm, "$1");
/** References stand for texts; YAML alone cannot read them without quotes. */
const quoted = (yaml: string): unknown =>
  parse(yaml.replace(/\$\{[^{}\n]*\}/g, (reference) => JSON.stringify(reference)));

interface Key {
  readonly path: string;
  readonly shape: Shape;
}

/** Names that the operator chooses. */
const chosen = ["agents", "escalation.responders"];

/** Every key of the schema; names that the operator chooses are `*`, channels are called by their adapter. */
function keysOf(shape: Shape, path = ""): Key[] {
  const named = Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
    const here = path === "" ? key : `${path}.${key}`;
    return [{ path: here, shape: inner }, ...keysOf(inner, here)];
  });
  const { additionalProperties: rest } = shape;
  if (typeof rest !== "object") return named;
  if (path === "channels")
    return [...named, ...names.flatMap((name) => keysOf(blockOf(name, rest), `${path}.${name}`))];
  return [...named, ...keysOf(rest, `${path}.*`)];
}

const coreKeys = Object.keys(shapeOf(coreChannel).properties ?? {});

/** The keys of an adapter's block that the example has to show. */
function blockOf(name: string, channels: Shape): Shape {
  const block = channels.oneOf?.find(({ properties }) => properties?.["adapter"]?.const === name);
  const shown = ["adapter", "agent", ...Object.keys(adapters[name]?.traits.defaults ?? {})];
  const wanted = (key: string) => name === names[0] || !coreKeys.includes(key) || shown.includes(key);
  return {
    properties: Object.fromEntries(Object.entries(block?.properties ?? {}).filter(([key]) => wanted(key))),
  };
}

function pathsOf(value: unknown, path = ""): string[] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (path === "channels") return pathsOf(inner, `${path}.${(inner as { adapter: string }).adapter}`);
    const here = chosen.includes(path) ? `${path}.*` : path === "" ? key : `${path}.${key}`;
    return chosen.includes(path) ? pathsOf(inner, here) : [here, ...pathsOf(inner, here)];
  });
}

const keys = keysOf(schema);
/** The keys of an escalation's tiers and routes: blocks in lists, which the example shows in comments and on one
 *  line. */
const listed = ["tiers", "routes"].flatMap((key) =>
  keysOf(schema.properties?.["escalation"]?.properties?.[key]?.items ?? {}, key),
);
const valueAt = (value: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((inner, step) => {
    const record = inner as Record<string, unknown>;
    if (step === "*") return Object.values(record)[0];
    // A channel is found by its adapter, which is its name nowhere else.
    const byAdapter = Object.values(record ?? {}).find((one) => Object(one).adapter === step);
    return record?.[step] ?? byAdapter;
  }, value);

describe("config.example.yaml", () => {
  it("shows every built-in adapter, and its first channel names them all", () => {
    expect(names.toSorted()).toEqual([...builtIn].toSorted());
    const [, listed = ""] = /Built in: ([^;]*);/.exec(text) ?? [];
    expect(listed.split(", ")).toEqual(builtIn.map((name) => `"${name}"`));
  });

  it("names the schema for editors in its first line", () => {
    expect(text.split("\n")[0]).toBe("# yaml-language-server: $schema=./bridgehead.schema.json");
  });

  it("is a configuration that loads", async () => {
    const env = Object.fromEntries([...text.matchAll(/\$\{env:(\w+)\}/g)].map(([, name]) => [name, "value"]));
    const loaded = await loadConfig(example, { env, adapters: loadAdapter });
    expect(loaded.ok ? [] : loaded.problems.map(line)).toEqual([]);
    expect(loaded.warnings.map(line)).toEqual([]);
  });

  it("loads with its escalation, and with everything that the comments there show", async () => {
    const block = /^#escalation:\n(?: .*\n)*/m.exec(text)?.[0] ?? "";
    const on = block
      .replace(/^(\s*)# For example: (.*)\n((?:\s*#  .*\n)*)(\s*)#([a-z_]+): .*$/gm, "$1$5: $2")
      .replace(/^(\s*)#(?=[a-z_0-9]+:)/gm, "$1");
    const path = join(folder, "escalation.yaml");
    writeFileSync(
      path,
      text.replace(block, () => on),
    );
    const whsec = `whsec_${Buffer.alloc(32).toString("base64")}`;
    const env = Object.fromEntries([...text.matchAll(/\$\{env:(\w+)\}/g)].map(([, name]) => [name, whsec]));
    const loaded = await loadConfig(path, { env, adapters: loadAdapter });
    expect(loaded.ok ? [] : loaded.problems.map(line)).toEqual([]);
    const escalation = loaded.ok ? loaded.config.escalation : null;
    expect(escalation?.responders.get("anna")).toMatchObject({
      sms: "+15550123",
      webhook: { headers: { "X-Key": whsec } },
      hours: [{ kind: "weekly" }, { days: [5], from: 540, to: 720 }],
    });
    expect(escalation).toMatchObject({
      tiers: [{ notify: ["anna"], by: ["sms", "email"], repeat: 600_000, next: 900_000 }],
      routes: [{ topics: ["billing*"], tiers: [{ by: null, repeat: 600_000 }] }],
      via: { email: "support-mail", sms: "support-sms" },
    });
  });

  it("fits the schema, as it is and with every key switched on", () => {
    for (const yaml of [text, all]) {
      validate(quoted(yaml));
      expect(validate.errors ?? []).toEqual([]);
    }
  });

  it("may have a reference for every number, true and false", async () => {
    const env: Record<string, string> = {};
    for (const [, name = ""] of text.matchAll(/\$\{env:(\w+)\}/g)) env[name] = "value";
    const referring = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(referring);
      if (value !== null && typeof value === "object")
        return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, referring(inner)]));
      if (typeof value !== "number" && typeof value !== "boolean") return value;
      const name = `VALUE_${Object.keys(env).length}`;
      env[name] = String(value);
      return `\${env:${name}}`;
    };
    const path = join(folder, "referring.yaml");
    const loaded = async (value: unknown) => {
      writeFileSync(path, JSON.stringify(value));
      const read = await loadConfig(path, { env, adapters: loadAdapter });
      return read.ok ? read.config : read.problems.map(({ key, message }) => [key, message]);
    };
    for (const yaml of [text, all]) {
      const plain = quoted(yaml);
      const references = referring(plain);
      expect(await loaded(references)).toEqual(await loaded(plain));
      validate(references);
      expect(validate.errors ?? []).toEqual([]);
    }
    expect(Object.keys(env).length).toBeGreaterThan(50);
  });

  it("has every key of the schema, and no other", () => {
    expect(keys.length).toBeGreaterThan(50);
    expect(pathsOf(quoted(all)).sort()).toEqual([...new Set(keys.map(({ path }) => path))].sort());
  });

  it("answers every key's question, and lists the values to choose from", () => {
    const prose = text.replace(/^\s*# ?/gm, "").replace(/\s+/g, " ");
    expect(listed.map(({ path }) => path)).toContain("routes.tiers");
    for (const { path, shape } of [...keys, ...listed]) {
      if (shape.description !== undefined) expect(prose, path).toContain(shape.description.replace(/\s+/g, " "));
      if (Array.isArray(shape["enum"])) expect(prose, path).toContain(`Values: ${shape["enum"].join(" | ")}`);
    }
  });

  it("shows the default of every key that has one", () => {
    const shown = quoted(all);
    for (const { path, shape } of keys) {
      if (shape.default !== undefined && shape.properties === undefined)
        expect(valueAt(shown, path), path).toEqual(shape.default);
    }
  });
});

describe("the JSON Schema", () => {
  const good = (): Record<string, never> => quoted(text) as Record<string, never>;
  const channel = (changes: Record<string, unknown>) => {
    const file = good() as unknown as { channels: Record<string, object> };
    file.channels["support-mail"] = { ...file.channels["support-mail"], ...changes };
    return file;
  };

  it.each([
    ["an unknown key at the top", { ...good(), storage: 1 }],
    ["an unknown key of a channel", channel({ imapp: {} })],
    ["an unknown key of the adapter's blocks", channel({ imap: { host: "h", user: "u", hots: "h" } })],
    ["a value that is not on the list", channel({ on_unknown: "maybe" })],
    ["a channel without an agent", channel({ agent: undefined })],
    ["a duration without a unit", { ...good(), retention: { raw: "30" } }],
    ["a host with a port", channel({ imap: { host: "imap.example.com:993", user: "u", password: "p" } })],
    ["an address without a port", { ...good(), http: { listen: "127.0.0.1" } }],
  ])("refuses %s", (_what, file) => {
    expect(validate(JSON.parse(JSON.stringify(file)))).toBe(false);
  });

  it("accepts the core's keys, and any other, for an adapter it does not know", () => {
    expect(validate(channel({ adapter: "@acme/fax", tray: "upper" }))).toBe(true);
    expect(validate(channel({ adapter: "@acme/fax", concurrency: "many" }))).toBe(false);
  });

  it("agrees with the loader about the example with a mistake in it", async () => {
    const path = join(folder, "mistake.yaml");
    writeFileSync(path, text.replace("    agent: support\n", "    agent: support\n    onunknown: hold\n"));
    const loaded = await loadConfig(path, {
      env: { SUPPORT_KEY: "k", MAIL_PASSWORD: "p", TWILIO_AUTH_TOKEN: "t" },
      adapters: loadAdapter,
    });
    expect(loaded.ok ? [] : loaded.problems.map(({ key, fix }) => [key, fix])).toEqual([
      ["channels.support-mail.onunknown", "did you mean on_unknown?"],
    ]);
  });
});
