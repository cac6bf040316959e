// The package as npm delivers it: packed from a clean copy of the sources, installed into an empty folder with the
// Node.js of the machine, and used from there.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { root, systemNode } from "../support/machine/command.ts";
import { describeReal, needChromium, startChromium, visit } from "../support/machine/debian.ts";
import { listen } from "../support/machine/network.ts";
import { newFolder } from "../support/resources.ts";

const run = promisify(execFile);
const scratch = newFolder(afterAll);

/** The machine's own Node.js and npm, without the one that runs the tests: older than ours on many machines. */
const path = systemNode === undefined ? dirname(process.execPath) : dirname(systemNode);
const env = { ...process.env, PATH: `${path}:/usr/local/bin:/usr/bin:/bin` };
// The machine's certificates stay: without them npm tries for minutes to reach a registry behind a proxy, then uses its cache.
for (const name of Object.keys(env))
  if (/^npm_|^NODE_(?!EXTRA_CA_CERTS$)/i.test(name)) Reflect.deleteProperty(env, name);

/** Folders with a Node.js and its npm: the machine's, and the one that runs the tests. */
const nodes = [
  ...(systemNode === undefined ? [] : [["the machine's Node.js", dirname(systemNode)]]),
  ["the Node.js of the package", dirname(process.execPath)],
];

const clean = join(scratch, "clean");
let tarball = "";
let files: readonly string[] = [];

beforeAll(async () => {
  // As git would clone it, with what is not committed yet: nothing that was built, nothing that is ignored.
  const { stdout } = await run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    maxBuffer: 2 ** 24,
  });
  for (const file of stdout
    .split("\0")
    .filter((name) => !["", "node_modules"].includes(name) && existsSync(join(root, name))))
    cpSync(join(root, file), join(clean, file));
  symlinkSync(join(root, "node_modules"), join(clean, "node_modules"));
  const packed = await run("npm", ["pack", "--json", "--pack-destination", scratch], { cwd: clean, env });
  // What `prepack` prints comes first.
  const [report] = JSON.parse(packed.stdout.slice(packed.stdout.search(/^\[\s*\{/m))) as [
    { readonly filename: string; readonly files: readonly { readonly path: string }[] },
  ];
  tarball = join(scratch, report.filename);
  files = report.files.map((file) => file.path);
});

/** Relative links of a Markdown file, outside of code. */
const linksIn = (text: string): string[] =>
  [
    ...text
      .replace(/```[^]*?```/g, "")
      .replace(/`[^`]*`/g, "")
      .matchAll(/\]\(([^)\s]+)\)/g),
  ]
    .map(([, target]) => target ?? "")
    .filter((target) => !/^[a-z]+:/.test(target));

/** The anchors of a Markdown file's headings, as GitHub and npm make them. */
const anchorsIn = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );

describe("the package", () => {
  it("contains the code, the guide for adapters and its examples, without tests or sources", () => {
    for (const file of [
      "bin/bridgehead.cjs",
      "dist/src/main.js",
      "dist/src/client/index.js",
      "dist/src/client/index.d.ts",
      "dist/src/contract/index.js",
      "dist/src/contract/testing/index.js",
      "dist/adapters/email/index.js",
      "dist/adapters/sms/index.js",
      "dist/adapters/voice/index.js",
      "config.example.yaml",
      "systemd/bridgehead.service",
      "dist/share/man/man1/bridgehead.1",
      "dist/share/man/man5/bridgehead.yaml.5",
      "dist/share/bash-completion/completions/bridgehead",
      "CONTRIBUTING.md",
      "SECURITY.md",
      "docs/troubleshooting.md",
      "README.md",
      "CHANGELOG.md",
      "LICENSE",
      "src/contract/README.md",
      "test/contract/line-adapter.ts",
    ])
      expect(files).toContain(file);
    expect(
      files.filter((file) =>
        /^test\/(?!contract\/|support\/machine\/ports\.ts|adapters\/voice\/dialects\/plain-dialect\.ts)|\.test\.|\.tsbuildinfo$/.test(
          file,
        ),
      ),
    ).toEqual([]);
    const sources = files.filter((file) => /^(adapters|src)\//.test(file) && !file.endsWith("/README.md"));
    expect(sources.filter((file) => !file.startsWith("src/contract/"))).toEqual([]);
  });

  it("has links that lead somewhere inside it", () => {
    const pages = files.filter((file) => file.endsWith(".md"));
    expect(pages).toEqual(expect.arrayContaining(["README.md", "src/README.md", "src/contract/README.md"]));
    let walked = 0;
    for (const page of pages) {
      const text = readFileSync(join(clean, page), "utf8");
      for (const link of linksIn(text)) {
        const [target = "", anchor] = link.split("#");
        const file = target === "" ? page : normalize(join(dirname(page), target));
        expect(files, `${page}: ${link}`).toContain(file);
        if (anchor !== undefined)
          expect(anchorsIn(readFileSync(join(clean, file), "utf8")), `${page}: ${link}`).toContain(anchor);
        walked += 1;
      }
    }
    expect(walked).toBeGreaterThan(8);
    // A section that is there twice has one anchor.
    const anchors = anchorsIn(readFileSync(join(clean, "README.md"), "utf8").replace(/```[^]*?```/g, ""));
    expect(anchors).toEqual([...new Set(anchors)]);
  });
});

const missing = await run("npm", ["ping"], { env, timeout: 60_000 }).then(
  () => null,
  () => "npm's registry cannot be reached",
);
if (missing !== null && process.env["BRIDGEHEAD_REQUIRE_ALL"] === "1") throw new Error(missing);

const noBrowser = missing ?? (await needChromium());
describeReal("a checkout", missing, () => {
  const checkout = join(scratch, "checkout");

  it("is installed by npm ci without warnings, under the machine's own Node.js", async () => {
    const modules = join(clean, "node_modules");
    cpSync(clean, checkout, {
      recursive: true,
      filter: (path) => path !== modules && path !== join(clean, "dist"),
    });
    const { stdout, stderr } = await run("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline"], {
      cwd: checkout,
      env,
    });
    expect([stdout.trim(), stderr]).toEqual([expect.stringMatching(/^added \d+ packages in \d+(?:ms|s|m)$/), ""]);
  });

  it.skipIf(noBrowser !== null)("answers the first message in its console soon after npm ci", async () => {
    const began = performance.now();
    const demo = spawn("npm", ["run", "--silent", "demo", "--", "--no-open"], {
      cwd: checkout,
      env,
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    const ended = once(demo, "exit");
    onTestFinished(async () => {
      if (demo.pid !== undefined) process.kill(-demo.pid, "SIGTERM");
      await ended;
    });
    let out = "";
    demo.stdout.on("data", (chunk: Buffer) => void (out += chunk.toString()));
    await expect.poll(() => out, { timeout: 150_000 }).toMatch(/http\S+\/login\/\S+/);
    const browser = await startChromium();
    onTestFinished(() => browser.close());
    const { page } = await visit(browser, /http\S+\/login\/\S+/.exec(out)?.[0] ?? "");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByLabel("Subject").fill("Bulbs");
    await page.getByLabel("Mail", { exact: true }).fill("Which bulbs fit your lamps?");
    await page.getByRole("button", { name: "Send the mail" }).click();
    await page.locator("ol.said > li").filter({ hasText: "E27 bulbs" }).first().waitFor();
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    process.stderr.write(`fresh clone: first message answered in the console ${seconds} s after npm ci\n`);
  });

  it("has a lockfile that keeps npm 10 from compiling better-sqlite3", () => {
    // npm writes the lockfile without it. After a change of dependencies: add "gypfile": false by hand.
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
      readonly packages: Readonly<Record<string, { readonly gypfile?: boolean }>>;
    };
    expect(lock.packages["node_modules/better-sqlite3"]).toMatchObject({ gypfile: false });
  });
});

describeReal("the installed package", missing, () => {
  const home = join(scratch, "empty");
  const inside = (command: string, args: readonly string[], more: Record<string, string> = {}) =>
    run(command, args, { cwd: home, env: { ...env, ...more }, timeout: 120_000 });
  const bridgehead = join(home, "node_modules/.bin/bridgehead");

  beforeAll(async () => {
    mkdirSync(home);
    await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball], { cwd: home, env });
  }, 600_000);

  it("runs the demo", async () => {
    const { stdout, stderr } = await inside(bridgehead, ["demo", "--once"]);
    expect(stdout).toMatch(/< Subject: Re: [^]*two to four working days/);
    expect(stderr).toBe("");
  });

  it.each(nodes)(
    "is installed globally by npm 10 under %s, without compiling or running anything",
    async (name, folder) => {
      const prefix = mkdtempSync(join(scratch, "global-"));
      // 400 MB, which may be in memory.
      onTestFinished(() => rmSync(prefix, { recursive: true, force: true }));
      const under = { cwd: scratch, env: { ...env, PATH: `${folder}:/usr/bin:/bin` }, timeout: 600_000 };
      const began = performance.now();
      const options = ["--global", "--prefix", prefix, "--no-audit", "--no-fund", "--prefer-offline"];
      await run("npx", ["--yes", "npm@10", "install", ...options, tarball], under);
      const seconds = Math.round((performance.now() - began) / 1000);
      const { stdout } = await run(join(prefix, "bin/bridgehead"), ["--version"], under);
      expect(stdout).toMatch(/^bridgehead \d\S*\nnode 2[2-9]\.\S+\nsqlite \d\S+\nschema \d+\n$/);
      const modules = join(prefix, "lib/node_modules/bridgehead/node_modules");
      expect(existsSync(join(modules, "better-sqlite3/build"))).toBe(false);
      for (const page of ["man1/bridgehead.1", "man5/bridgehead.yaml.5"])
        expect(existsSync(join(prefix, "share/man", page)), page).toBe(true);
      const size = await run("du", ["--summarize", "--block-size=MB", prefix]);
      process.stderr.write(`npm 10 under ${name}: ${seconds} s, ${size.stdout.split("\t")[0]}\n`);
    },
    600_000,
  );

  it("is 200 MB smaller without its Node.js, and runs under one that is new enough", async () => {
    const folder = mkdtempSync(join(scratch, "omitted-"));
    const under = {
      cwd: folder,
      env: { ...env, PATH: `${dirname(process.execPath)}:/usr/bin:/bin` },
      timeout: 600_000,
    };
    await run("npm", ["install", "--omit=optional", "--no-audit", "--no-fund", "--prefer-offline", tarball], under);
    expect(readdirSync(join(folder, "node_modules")).filter((name) => /^node-(linux|darwin)/.test(name))).toEqual([]);
    const { stdout } = await run(join(folder, "node_modules/.bin/bridgehead"), ["--version"], under);
    expect(stdout).toContain(`\nnode ${process.versions.node}\n`);
  }, 600_000);

  it("checks a configuration, also one with the guide's example as an adapter", async () => {
    cpSync(join(home, "node_modules/bridgehead/test/contract/line-adapter.ts"), join(home, "line.ts"));
    const text = `platform: { url: "https://platform.example.com" }
agents: { support: { key: "\${env:KEY}" } }
channels:
  mail:
    adapter: email
    agent: support
    imap: { host: imap.example.com, user: support@example.com, password: "\${env:KEY}" }
    smtp: { host: smtp.example.com }
  line: { adapter: ./line.ts, agent: support, server: { host: 127.0.0.1, port: 7000 }, token: "\${env:KEY}" }
escalation: { responders: { op: { webhook: { url: "https://ops.example.com" } } }, fallback: { notify: [ op ] } }
store: sqlite:store.db
`;
    writeFileSync(join(home, "good.yaml"), text);
    writeFileSync(join(home, "wrong.yaml"), text.replace("imap:", "imapp:"));
    const good = await inside(bridgehead, ["check", "--config", "good.yaml"], { KEY: "a-key" });
    expect(good.stdout).toBe(`${join(home, "good.yaml")}: ok, 2 channels\n`);
    await expect(inside(bridgehead, ["check", "--config", "wrong.yaml"], { KEY: "a-key" })).rejects.toMatchObject({
      code: 78,
      stdout: expect.stringContaining("did you mean imap?"),
    });
  });

  it("serves programs as a client, under the machine's own Node.js", async () => {
    const asked: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(401, { "content-type": "application/json" }).end('{"message":"Unauthorized"}');
    });
    const url = await listen(server);
    writeFileSync(
      join(home, "client.mjs"),
      `import { createClient, createRate } from "bridgehead/client";
const client = createClient({ url: ${JSON.stringify(url)}, agentKey: "key", timeoutMs: 10_000, rate: createRate() });
const agent = await client.agents.get();
console.log(JSON.stringify(agent));
await client.close();
`,
    );
    const { stdout } = await inside("node", ["client.mjs"]);
    server.close();
    expect(asked).toEqual(["GET /external/agents/by-api-key"]);
    expect(JSON.parse(stdout)).toMatchObject({ kind: "unauthorized" });
  });
});
