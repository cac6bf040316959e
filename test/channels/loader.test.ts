import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { closeAdapter, createAdapter, type LoadError, loadAdapter } from "../../src/channels/loader.ts";
import { findAdapters } from "../../src/config/channels.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);
const put = (path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
};
const traits = '{ attachments: false, conversations: "person", platform: "sms" }';
const adapter = (changes = "", config = "z.strictObject({ tray: z.string() })"): string => `
import * as z from "zod";
export default { name: "fax", contract: 1, config: ${config}, traits: ${traits}, create: () => ({}), ${changes} };`;

beforeAll(() => {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(fileURLToPath(new URL("../../node_modules/zod", import.meta.url)), join(folder, "node_modules/zod"));
});

async function refused(name: string): Promise<LoadError> {
  return loadAdapter(name, folder).then(
    () => expect.fail(`${name} was loaded`),
    (error: LoadError) => error,
  );
}

describe("loadAdapter finds", () => {
  it("the built-in one", async () => {
    expect(await loadAdapter("email", folder)).toMatchObject({ name: "email", contract: 1 });
  });
  it("a file next to the configuration", async () => {
    put("fax.mjs", adapter());
    expect((await loadAdapter("./fax.mjs", folder)).name).toBe("fax");
  });
  it("a folder with an index", async () => {
    put("fax-folder/index.mjs", adapter());
    expect((await loadAdapter("./fax-folder", folder)).name).toBe("fax");
  });
  it.each([
    ["import only", { exports: { ".": { types: "./x.d.ts", import: "./lib/fax.js" } }, type: "module" }],
    ["a plain string", { exports: "./lib/fax.js", type: "module" }],
    ["main", { main: "lib/fax", type: "module" }],
  ])("an installed package that exports by %s", async (label, manifest) => {
    const name = `@acme/${label.replace(/ /g, "-")}`;
    put(`node_modules/${name}/package.json`, JSON.stringify({ name, ...manifest }));
    put(`node_modules/${name}/lib/fax.js`, adapter());
    expect((await loadAdapter(name, folder)).name).toBe("fax");
  });
  it("a CommonJS package whose default export lies one level deeper", async () => {
    put("node_modules/old-fax/index.js", adapterInCommonJs);
    put("node_modules/old-fax/package.json", JSON.stringify({ name: "old-fax" }));
    expect((await loadAdapter("old-fax", folder)).name).toBe("fax");
  });
});

const adapterInCommonJs = `
Object.defineProperty(exports, "__esModule", { value: true });
const z = require("zod");
exports.default = { name: "fax", contract: 1, config: z.strictObject({}), traits: ${traits}, create: () => ({}) };`;

describe("loadAdapter refuses", () => {
  it("a package that is not installed, and says how to get it", async () => {
    const error = await refused("@acme/telex");
    expect(error.message).toContain("there is no adapter @acme/telex");
    expect(error.fix).toBe("npm install @acme/telex");
  });
  it.each([
    ["voise", "voice"],
    ["e-mail", "email"],
    ["SMS", "sms"],
  ])("the misspelled name %s, and suggests the adapter that is built in", async (name, meant) => {
    expect((await refused(name)).fix).toBe(`did you mean ${meant}? If not: npm install ${name}`);
  });
  it("a path that leads nowhere", async () => {
    expect((await refused("./nothing.mjs")).message).toContain("there is no adapter at ./nothing.mjs");
  });
  it("a bare name of something next to the file, with the way to write it", async () => {
    put("beside/index.mjs", adapter());
    expect((await refused("beside")).fix).toContain("./beside");
  });
  it.each([
    ["no default export", "export const name = 'fax';", "has no default export"],
    ["another contract", adapter("contract: 2"), "was written for contract 2, this is contract 1"],
    ["no contract number", adapter("contract: undefined"), "was written for contract undefined"],
    ["no create function", adapter("create: 5"), "has no create function"],
    ["no name", adapter("name: ''"), "has no name"],
    ["the name of a built-in one", adapter("name: 'email'"), "has the name of a built-in one: email"],
    ["no traits", adapter("traits: null"), "has no traits"],
    ["traits of another language", adapter(`traits: { ...${traits}, conversations: "chat" }`), "has wrong traits"],
    ["a platform in capitals", adapter(`traits: { ...${traits}, platform: "LIVE-CHAT" }`), "has wrong traits"],
    [
      "traits without a platform",
      adapter("traits: { attachments: true, conversations: 'thread' }"),
      "has wrong traits",
    ],
    ["a config without zod", adapter("", "{ parse() {} }"), "is not a schema of zod 4"],
    ["a config that lets unknown keys pass", adapter("", "z.object({})"), "lets unknown keys pass"],
    ["a config that is no object", adapter("", "z.string()"), "lets unknown keys pass"],
    ["code that throws", "throw new Error('printer on fire');", "printer on fire"],
    ["a missing dependency", "import 'absent-package';", "absent-package"],
  ])("%s", async (label, source, message) => {
    const file = `${label.replace(/ /g, "-")}.mjs`;
    put(file, source);
    const error = await refused(`./${file}`);
    expect(error.message).toContain(message);
    expect(error.fix).not.toBe("");
  });
});

it("refuses code that never finishes loading", async () => {
  put("endless.mjs", "await new Promise(() => {}); export default {};");
  await expect(loadAdapter("./endless.mjs", folder, 50)).rejects.toMatchObject({
    message: "the adapter ./endless.mjs has not loaded within 0.05 s",
    fix: "its author: await nothing at the top of its files",
  });
});

it("names every wrong trait and the form that it must have", async () => {
  put("traits.mjs", adapter("traits: { attachments: 'no', conversations: 'person', platform: 'Matrix' }"));
  expect((await refused("./traits.mjs")).fix).toBe(
    "its author: in traits, write attachments: true or false; platform: null, or a name of lower-case letters, digits and _",
  );
});

it("a config with a key of the core is refused, with the channel's key and the remedy", async () => {
  put("reserved.mjs", adapter("", "z.strictObject({ tray: z.string(), debounce: z.string() })"));
  const root = { channels: { desk: { adapter: "./reserved.mjs" } } };
  const { adapters, findings } = await findAdapters(root, (name) => loadAdapter(name, folder));
  expect(adapters.size).toBe(0);
  expect(findings).toMatchObject([
    {
      path: ["channels", "desk", "adapter"],
      message: "the config of the adapter ./reserved.mjs has keys that belong to the core: debounce",
      fix: expect.stringContaining("traits.defaults"),
    },
  ]);
});

it("an adapter with the name of another one is refused: they would share stored secrets", async () => {
  put("fax.mjs", adapter());
  put("other-fax.mjs", adapter());
  const channels = {
    desk: { adapter: "./fax.mjs" },
    hall: { adapter: "./fax.mjs" },
    roof: { adapter: "./other-fax.mjs" },
  };
  const { adapters, findings } = await findAdapters({ channels }, (name) => loadAdapter(name, folder));
  expect([...adapters.keys()]).toEqual(["desk", "hall"]);
  expect(findings).toMatchObject([
    {
      path: ["channels", "roof", "adapter"],
      message: "the adapters ./fax.mjs and ./other-fax.mjs have the same name, fax, and would share stored secrets",
    },
  ]);
});

it.each([
  ["throws", "address() { throw new Error('no paper'); }"],
  ["returns a number", "address: () => 5"],
])("an address that %s is none", async (label, changes) => {
  const file = `address-${label.replace(/ /g, "-")}.mjs`;
  put(file, adapter(changes));
  expect((await loadAdapter(`./${file}`, folder)).address?.("+1 555 0100")).toBeNull();
});

it.each([
  ["resolves", "async address() { return 'x'; }"],
  ["rejects", "async address() { throw new Error('no paper'); }"],
])("names an adapter with an asynchronous address that %s", async (label, changes) => {
  put(`address-${label}.mjs`, adapter(changes));
  await expect(loadAdapter(`./address-${label}.mjs`, folder)).rejects.toThrow(
    `the adapter ./address-${label}.mjs has an asynchronous address`,
  );
});

it("an adapter that is an object of a class keeps its methods", async () => {
  const members = `traits = ${traits}; address(text) { return this.name + text; } create() { return {}; }`;
  const fields = 'name = "fax"; contract = 1; config = z.strictObject({});';
  put("class.mjs", `import * as z from "zod"; export default new (class { ${fields} ${members} })();`);
  const definition = await loadAdapter("./class.mjs", folder);
  expect([definition.name, definition.address?.("1")]).toEqual(["fax", "fax1"]);
  expect(createAdapter({ id: "desk", adapter: definition, settings: {} }, recordingChannel())).toEqual({});
});

describe("createAdapter", () => {
  it.each([
    [
      "throws",
      "create: () => { throw new Error('no tray'); }",
      "threw: no tray: correct channels.desk, or repair the adapter",
    ],
    ["throws no error", "create: () => { throw null; }", "threw: null: correct channels.desk, or repair the adapter"],
    ["returns nothing", "create: () => undefined", "returned no adapter: its author must return { inbound,"],
    ["is asynchronous", "create: async () => ({})", "returned no adapter: its author must return { inbound,"],
  ])("names channel, adapter and remedy when create %s", async (label, changes, message) => {
    const file = `create-${label.replace(/ /g, "-")}.mjs`;
    put(file, adapter(changes));
    const definition = await loadAdapter(`./${file}`, folder);
    const create = () => createAdapter({ id: "desk", adapter: definition, settings: {} }, recordingChannel());
    expect(create).toThrow(`channel desk: create of the adapter fax ${message}`);
  });
});

describe("createAdapter refuses an adapter whose", () => {
  const outbound = "{ compose() {}, send() {} }";
  const route = (fields: string) => `[{ kind: "http", method: "POST", path: "/in", handle() {}, ${fields} }]`;
  it.each([
    [
      "parts are missing or misspelt",
      `{ outbond: ${outbound} }`,
      "it has outbond, but no inbound, no outbound and no routes",
    ],
    ["inbound is the function", "{ inbound() {} }", "inbound.run is undefined: it must be a function"],
    ["outbound is null", "{ outbound: null }", "outbound.compose is undefined: it must be a function"],
    ["outbound cannot send", "{ outbound: { compose() {} } }", "outbound.send is undefined: it must be a function"],
    [
      "capacity is a number",
      "{ outbound: { compose() {}, send() {}, capacity: 3 } }",
      "outbound.capacity is number: it must be a function",
    ],
    ["probe is a status", `{ outbound: ${outbound}, probe: null }`, "probe is null: it must be a function"],
    ["routes are one route", "{ routes: {} }", "routes is no array"],
    ["route is null", "{ routes: [null] }", 'routes[0].kind is undefined: it must be "http" or "socket"'],
    [
      "path has no slash",
      `{ routes: ${route('path: "in"')} }`,
      'routes[0].path is "in": it must be a text such as "/inbound"',
    ],
    [
      "method is in lower case",
      `{ routes: ${route('method: "post"')} }`,
      'routes[0].method is "post": it must be "GET" or "POST"',
    ],
    [
      "handler is missing",
      `{ routes: ${route("handle: undefined")} }`,
      "routes[0].handle is undefined: it must be a function",
    ],
    ["path is used twice", `{ routes: [...${route("")}, ...${route("")}] }`, "routes[1] repeats the path /in"],
    [
      "socket lets everyone in",
      '{ routes: [{ kind: "socket", path: "/in", serve() {} }] }',
      "routes[0].authorize is undefined: it must be a function",
    ],
  ])("%s", async (label, made, message) => {
    const file = `parts-${label.replace(/ /g, "-")}.mjs`;
    put(file, adapter(`create: () => (${made})`));
    const definition = await loadAdapter(`./${file}`, folder);
    const create = () => createAdapter({ id: "desk", adapter: definition, settings: {} }, recordingChannel());
    expect(create).toThrow(`channel desk: create of the adapter fax returned a wrong adapter: ${message}`);
  });

  it("not for routes of one path with different methods", async () => {
    const both = `[...${route("")}, ...${route('method: "GET"')}]`;
    put("parts-both.mjs", adapter(`create: () => ({ routes: ${both} })`));
    const definition = await loadAdapter("./parts-both.mjs", folder);
    const made = createAdapter({ id: "desk", adapter: definition, settings: {} }, recordingChannel());
    expect(made.routes).toHaveLength(2);
  });
});

describe("closeAdapter", () => {
  const soon = { close: 5, closeGrace: 5 };

  it("waits for a close that ends with its signal", async () => {
    let reason: unknown;
    const close = (signal: AbortSignal) =>
      new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => {
          reason = signal.reason;
          resolve();
        }),
      );
    await closeAdapter({ close }, systemClock, { ...soon, closeGrace: 60_000 });
    expect(String(reason)).toContain("the time to close is over");
    await closeAdapter({}, systemClock, soon);
  });

  it("does not wait for a close that goes on after its signal", async () => {
    const close = () => new Promise<void>(() => undefined);
    await expect(closeAdapter({ close }, systemClock, soon)).rejects.toThrow("has not ended after its signal");
  });

  it.each([
    ["throws", () => expect.fail("no pool")],
    ["rejects", () => Promise.reject(new Error("no pool"))],
  ])("rejects when close %s", async (_, close) => {
    await expect(closeAdapter({ close }, systemClock, { close: 60_000, closeGrace: 60_000 })).rejects.toThrow(
      "no pool",
    );
  });
});
