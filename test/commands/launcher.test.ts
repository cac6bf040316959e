// The launcher under real Node.js versions, from copies of the package in which one thing or another is missing.

import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { launcher, root, start, systemNode } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";

const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { version: string };
const isOld =
  systemNode !== undefined && !supported((await start(systemNode, ["-p", "process.versions.node"]).ended).out);
const folder = newFolder(afterAll);
const oldNode = isOld && systemNode !== undefined ? systemNode : pretendOld();

function supported(text: string): boolean {
  const [major = 0, minor = 0] = text.trim().split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 19);
}

/** Where no old Node.js is installed: ours, saying that it is 12. */
function pretendOld(): string {
  const file = join(folder, "old-node");
  const lie = "data:text/javascript,Object.defineProperty(process.versions,'node',{value:'12.22.0'})";
  writeFileSync(file, `#!/bin/sh\nexec "${process.execPath}" --import "${lie}" "$@"\n`);
  chmodSync(file, 0o755);
  return file;
}

/** A package with the launcher and a program of its own. */
function packageWith(name: string, parts: { built?: string; source?: string; node?: boolean }): string {
  const home = join(folder, name);
  mkdirSync(join(home, "bin"), { recursive: true });
  cpSync(launcher, join(home, "bin/bridgehead.cjs"));
  writeFileSync(join(home, "package.json"), '{ "type": "module" }');
  for (const [path, text] of [
    ["dist/src/main.js", parts.built],
    ["src/main.ts", parts.source],
  ] as const) {
    if (text === undefined) continue;
    mkdirSync(join(home, path, ".."), { recursive: true });
    writeFileSync(join(home, path), text);
  }
  if (parts.node === true) {
    const brought = join(home, `node_modules/node-${process.platform}-${process.arch}`);
    mkdirSync(join(brought, "bin"), { recursive: true });
    writeFileSync(join(brought, "package.json"), "{}");
    symlinkSync(process.execPath, join(brought, "bin/node"));
  }
  return join(home, "bin/bridgehead.cjs");
}

const tell = "console.log(JSON.stringify({ node: process.versions.node, args: process.argv.slice(2) }));";

describe("the launcher", () => {
  it("runs this checkout under an old Node.js, through the one that was brought", async () => {
    expect(await start(oldNode, [launcher, "--version"]).ended).toMatchObject({
      code: 0,
      out: expect.stringMatching(`^bridgehead ${version}\n`),
      err: "",
    });
  });

  it("runs it under a new Node.js as well", async () => {
    expect(await start(process.execPath, [launcher, "--version"]).ended).toMatchObject({
      code: 0,
      out: expect.stringMatching(`^bridgehead ${version}\n`),
    });
  });

  it("prefers what was built, and passes the arguments on", async () => {
    const file = packageWith("built", { built: tell, source: "throw 1", node: true });
    for (const node of [oldNode, process.execPath]) {
      const { out, code } = await start(node, [file, "check", "--config", "a b"]).ended;
      expect(code).toBe(0);
      expect(JSON.parse(out)).toEqual({ node: process.versions.node, args: ["check", "--config", "a b"] });
    }
  });

  it("uses the compile cache of systemd's CacheDirectory", async () => {
    const built = "import { getCompileCacheDir } from 'node:module'; console.log(getCompileCacheDir() ?? 'none');";
    const file = packageWith("cache", { built, node: true });
    const cache = join(folder, "cache-directory");
    for (const node of [oldNode, process.execPath]) {
      const { code, out } = await start(node, [file], { CACHE_DIRECTORY: cache }).ended;
      expect(code).toBe(0);
      expect(out.startsWith(`${cache}/`)).toBe(true);
    }
  });

  it("uses no compile cache that other users can write to, or that cannot be created", async () => {
    const built = "import { getCompileCacheDir } from 'node:module'; console.log(getCompileCacheDir() ?? 'none');";
    const file = packageWith("no-cache", { built, node: true });
    const shared = join(folder, "shared-cache");
    mkdirSync(shared);
    chmodSync(shared, 0o777);
    for (const node of [oldNode, process.execPath])
      for (const cache of [shared, join(file, "below-a-file")])
        expect(await start(node, [file], { CACHE_DIRECTORY: cache }).ended).toMatchObject({
          code: 0,
          out: "none\n",
          err: "",
        });
  });

  it("says in one line that there is no Node.js to run under", async () => {
    const { code, out, err } = await start(oldNode, [packageWith("alone", { built: tell }), "run"]).ended;
    expect([code, out]).toEqual([exitCodes.oldNode, ""]);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
    expect(err).toContain("bridgehead needs Node.js 22.19 or newer; this is ");
  });

  it("passes the exit code on", async () => {
    const file = packageWith("code", { built: "process.exit(78)", node: true });
    expect((await start(oldNode, [file]).ended).code).toBe(78);
  });

  it("passes signals on and ends by the signal that ended the program", async () => {
    const source = "process.on('SIGHUP', () => console.log('again')); setInterval(() => {}, 1000); console.log('up');";
    const { child, ended } = start(oldNode, [packageWith("signal", { built: source, node: true })]);
    let seen = "";
    child.stdout?.on("data", (data: string) => (seen += data));
    await expect.poll(() => seen).toBe("up\n");
    child.kill("SIGHUP");
    await expect.poll(() => seen).toBe("up\nagain\n");
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: null, signal: "SIGTERM" });
  });

  it("ends well when SIGTERM comes before the daemon is loaded", async () => {
    // A program that never finishes loading and has no signal handler.
    const built = "console.log('loading'); await new Promise(() => setInterval(() => {}, 1000));";
    const file = packageWith("loading", { built, node: true });
    for (const node of [oldNode, process.execPath])
      for (const [command, end] of [
        ["run", { code: exitCodes.ok }],
        ["check", { code: null, signal: "SIGTERM" }],
      ] as const) {
        const { child, ended } = start(node, [file, command]);
        let seen = "";
        child.stdout?.on("data", (data: string) => (seen += data));
        await expect.poll(() => seen).toBe("loading\n");
        child.kill("SIGTERM");
        expect(await ended).toMatchObject(end);
      }
  });

  it("lets the program exit normally when it was asked to", async () => {
    const source =
      "process.on('SIGTERM', () => { console.log('drained'); process.exit(0); }); setInterval(() => {}, 1000); console.log('up');";
    const { child, ended } = start(oldNode, [packageWith("drain", { built: source, node: true })]);
    let seen = "";
    child.stdout?.on("data", (data: string) => (seen += data));
    await expect.poll(() => seen).toBe("up\n");
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: 0, out: "up\ndrained\n" });
  });
});

describe("main", () => {
  it("says in one line that this Node.js is too old, before it loads anything", async () => {
    const lie = "data:text/javascript,Object.defineProperty(process.versions,'node',{value:'20.11.1'})";
    const { code, err } = await start(process.execPath, ["--conditions=source", "--import", lie, `${root}src/main.ts`])
      .ended;
    expect([code, err]).toEqual([71, "bridgehead needs Node.js 22.19 or newer; this is 20.11.1\n"]);
  });
});
