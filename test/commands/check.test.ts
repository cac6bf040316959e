import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkConfig, printSchema } from "../../src/commands/doctor/check.ts";
import { type CommandOptions, exitCodes, type Io } from "../../src/commands/io.ts";
import { bridgehead, commandIo } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);

/** A channel whose probe says what its block tells it to. */
writeFileSync(
  join(folder, "stub.mjs"),
  `import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "stub", contract: 1, config: z.strictObject({ says: z.string() }),
  traits: { attachments: false, conversations: "thread", platform: "email" },
  create: (channel, { says }) => says === "nothing" ? {} : ({ probe: async () => {
    if (says === "throw") throw new Error("no route to host");
    return { state: says, code: "x", reason: "because " + channel.url("/a").href };
  } }),
};`,
);

interface Result {
  readonly code: number;
  readonly out: string[];
}
let count = 0;
async function check(text: string, options: Partial<CommandOptions> = {}): Promise<Result> {
  const name = `${count++}.yaml`;
  writeFileSync(join(folder, name), text);
  const out: string[] = [];
  const io = commandIo({
    out: (line) => void out.push(line.replaceAll(`${folder}/${name}`, "FILE").replaceAll(folder, "DIR")),
    err: (line) => void out.push(line),
    env: { KEY: "key-of-ada" },
    cwd: folder,
  });
  return { code: await checkConfig({ config: name, ...options }, io), out };
}

const file = (url: string, says: readonly string[] = ["ready"], more = ""): string => `
platform: { url: "${url}" }
agents: { support: { key: "\${env:KEY}" } }
channels:
${says.map((word) => `  ${word}: { adapter: ./stub.mjs, agent: support, says: ${word} }`).join("\n")}
escalation: { responders: { op: { webhook: { url: "https://ops.example.com" } } }, fallback: { notify: [ op ] } }
http: { listen: "127.0.0.1:0" }
store: sqlite:${more || "absent.db"}
`;
const agents = `
organization: { name: Example, key: key-of-example }
agents:
  ada: { public_name: Ada, key: key-of-ada, status: STATUS, instructions: x, skills: { email: { status: active, email: ada@example.com } } }
`;

describe("check", () => {
  it("says ok, and warns", async () => {
    expect(await check(file("http://127.0.0.1:1"))).toEqual({
      code: exitCodes.ok,
      out: ["FILE: ok, 1 channel"],
    });
    expect((await check(file("http://p.example.com"))).out[0]).toBe(
      "warning: FILE:2:18 platform.url: sends the agents' keys unencrypted (use https)",
    );
  });

  it("warns when no responder is configured", async () => {
    const alone = file("https://p.example.com").replace(/^escalation: .*\n/m, "");
    const { code, out } = await check(alone);
    expect([code, out]).toEqual([
      exitCodes.ok,
      [
        "warning: FILE escalation: is missing: when the agent cannot or must not answer, no responder is notified (add the key escalation, and try it with: bridgehead policy test --config FILE)",
        "FILE: ok, 1 channel",
      ],
    ]);
    const { out: json } = await check(alone, { json: true });
    expect(JSON.parse(json[0] ?? "")).toMatchObject({ ok: true, warnings: [{ key: "escalation" }] });
  });

  it("prints every problem with place and cure, and ends with the configuration's code", async () => {
    const { code, out } = await check(`${file("https://p.example.com")}stroe: x\n`);
    expect(code).toBe(exitCodes.config);
    expect(out).toEqual(["FILE:9:1 stroe: is not a known key (did you mean store?)", "1 problem"]);
  });

  it("prints JSON for machines", async () => {
    const { out } = await check(`${file("https://p.example.com")}stroe: x\n`, { json: true });
    expect(out).toHaveLength(1);
    expect(JSON.parse(out[0] ?? "")).toMatchObject({
      ok: false,
      problems: [{ line: 9, column: 1, key: "stroe", fix: "did you mean store?" }],
    });
  });

  it("prints the configuration as it is understood, without its secrets", async () => {
    const { out } = await check(file("https://p.example.com"), { json: true });
    const { ok, config } = JSON.parse(out[0] ?? "") as { ok: boolean; config: Record<string, unknown> };
    expect(ok).toBe(true);
    expect(config).toMatchObject({
      agents: { support: { key: "********", refresh: 60_000 } },
      channels: { ready: { adapter: "./stub.mjs", says: "ready", on_unknown: "hold" } },
    });
    expect(out[0]).not.toContain("key-of-ada");
  });

  it("names missing, wrong and unknown fields of skills like other keys", async () => {
    const skills = "{ email: { responseDelaySeconds: 3 }, sms: { phoneNumber: 1 }, voice: { stauts: active } }";
    const text = file("embedded")
      .replace('key: "${env:KEY}"', `skills: ${skills}`)
      .replace("channels:", 'model: { url: "http://127.0.0.1:1", name: x }\nchannels:');
    const { code, out } = await check(text);
    expect(code).toBe(exitCodes.config);
    const fix = "(docs/platform.md describes the keys of an agent)";
    expect(out).toEqual([
      `FILE:3:32 agents.support.skills.email.email: is missing: add it ${fix}`,
      `FILE:3:75 agents.support.skills.sms.phoneNumber: must be a text, not a number ${fix}`,
      expect.stringMatching(/^FILE:3:102 agents\.support\.skills\.voice\.stauts: no such key; known here: /),
      "3 problems",
    ]);
    const { out: json } = await check(text, { json: true });
    expect(JSON.parse(json[0] ?? "")).toMatchObject({ problems: [{ line: 3, column: 32 }, {}, {}] });
    const missing = await check(text.replace(skills, "{}, knowledge: [ faq.md, none.md ]"));
    expect(missing.out).toEqual([
      `FILE:3:47 agents.support.knowledge[0]: DIR/faq.md cannot be read (ENOENT) ${fix}`,
      `FILE:3:55 agents.support.knowledge[1]: DIR/none.md cannot be read (ENOENT) ${fix}`,
      "2 problems",
    ]);
  });

  // In a process: an unhandled rejection would end it.
  it("names an adapter whose members are asynchronous by mistake", async () => {
    const members = ["ownAddresses", "startProblem", "exclusive", "review", "create"];
    const flaws = members.map((name) => `async ${name}() { throw new Error("flaw"); }`).join(", ");
    const adapter = (schema: string) => `import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default { name: "slow", contract: 1, config: z.strictObject({})${schema},
  traits: { attachments: false, conversations: "thread", platform: "email" }, ${flaws} };`;
    const config = join(folder, "slow.yaml");
    const notified = "responders: { op: { email: op@example.com } }, fallback: { notify: [ op ] }";
    const text = file("http://127.0.0.1:1").replace("./stub.mjs", "./slow.mjs").replace(", says: ready", "");
    writeFileSync(config, text.replace(/^escalation: .*$/m, `escalation: { ${notified} }`));
    writeFileSync(join(folder, "slow.mjs"), adapter(""));
    const run = (command: string) => bridgehead([command, "--config", config], { KEY: "key-of-ada" });
    const checked = await run("check");
    expect([checked.code, checked.err]).toEqual([exitCodes.ok, ""]);
    for (const name of ["exclusive", "review"])
      expect(checked.out).toContain(`${name} of the adapter slow returned no`);
    writeFileSync(config, text);
    for (const command of ["check", "doctor"])
      expect(await run(command)).toMatchObject({ code: exitCodes.ok, err: "" });
    writeFileSync(join(folder, "slow.mjs"), adapter(`.refine(async () => { throw new Error("flaw"); })`));
    const unread = await run("check");
    expect([unread.code, unread.err]).toEqual([exitCodes.config, ""]);
    expect(unread.out).toContain("the config of the adapter slow threw: a check returned a promise (its author: ");
    writeFileSync(
      join(folder, "slow.mjs"),
      adapter("").replace("async create", 'async address() { return "x"; }, async create'),
    );
    expect((await run("check")).out).toContain("the adapter ./slow.mjs has an asynchronous address (its author: ");
  });

  it("reads the embedded platform's agents as well", async () => {
    const text = (path: string) =>
      file("embedded").replace('"embedded"', `embedded, embedded: { agents: ${path}, database: p.db }`);
    writeFileSync(join(folder, "agents.yaml"), agents.replace("STATUS", "active"));
    writeFileSync(join(folder, "bad.yaml"), agents.replace("STATUS", "asleep"));
    expect((await check(text("agents.yaml"))).code).toBe(exitCodes.ok);
    expect((await check(text("none.yaml"))).out[0]).toContain("DIR/none.yaml: cannot be read (ENOENT)");
    const bad = await check(text("bad.yaml"));
    expect([bad.code, bad.out[0]]).toEqual([
      exitCodes.config,
      expect.stringContaining("DIR/bad.yaml:4:1 agents.ada.status:"),
    ]);
  });
});

describe("schema", () => {
  it("prints a JSON Schema with the built-in adapters", async () => {
    const out: string[] = [];
    const io = { out: (text: string) => void out.push(text), cwd: folder } as unknown as Io;
    expect(await printSchema({}, io)).toBe(exitCodes.ok);
    const printed = JSON.parse(out.join("")) as { $schema: string };
    expect(printed.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
    for (const name of ["email", "sms", "voice"]) expect(JSON.stringify(printed)).toContain(`"const":"${name}"`);
  });
});
