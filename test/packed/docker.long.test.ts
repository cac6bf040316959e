// The Dockerfile without Docker: the build stage runs in a folder, the final stage in a chroot, as its unprivileged user.
// Not covered: the base image, and a root file system that is mounted read-only. Instead nothing outside of the volume
// may be written.

import { execFile, spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { installPrograms, noChroot, phoneConfig, phoneSecrets, root } from "../support/machine/command.ts";
import { describeReal } from "../support/machine/debian.ts";
import { freePort } from "../support/machine/network.ts";
import { newFolder } from "../support/resources.ts";

const run = promisify(execFile);

interface Instruction {
  readonly name: string;
  readonly value: string;
}

/** The stages of a Dockerfile: the instructions after each FROM. */
function stagesOf(text: string): Instruction[][] {
  const stages: Instruction[][] = [];
  for (const line of text.replace(/\\\n/g, " ").split("\n")) {
    const [, name = "", value = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    if (name === "FROM") stages.push([{ name, value }]);
    else if (name !== "") stages.at(-1)?.push({ name, value });
  }
  return stages;
}

const [build = [], final = []] = stagesOf(readFileSync(join(root, "Dockerfile"), "utf8"));
const one = (name: string): string => final.find((instruction) => instruction.name === name)?.value ?? "";
const words = (value: string): string[] => JSON.parse(value.slice(value.indexOf("["))) as string[];

describeReal("the image", noChroot, () => {
  const scratch = newFolder(afterAll);
  const building = join(scratch, "build");
  const machine = join(scratch, "machine");
  const volume = one("VOLUME");
  const [uid, gid] = [1000, 1000];

  beforeAll(async () => {
    // The build stage, below a folder: every absolute path is moved there.
    const moved = (text: string) => text.replace(/(^|[ =])\/(?=[a-z])/g, `$1${building}/`);
    mkdirSync(join(building, "tmp"), { recursive: true });
    let folder = building;
    for (const { name, value } of build) {
      if (name === "WORKDIR") mkdirSync((folder = moved(value)), { recursive: true });
      else if (name === "COPY") {
        expect(value).toBe(". .");
        const { stdout } = await run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
          cwd: root,
          maxBuffer: 2 ** 24,
        });
        for (const file of stdout.split("\0").filter((path) => path !== "" && existsSync(join(root, path))))
          cpSync(join(root, file), join(folder, file));
      } else if (name === "RUN" && value.startsWith("npm ci"))
        // packed.long.test.ts runs npm ci.
        symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
      else if (name === "RUN") await run("sh", ["-c", moved(value)], { cwd: folder, maxBuffer: 2 ** 24 });
    }
    // The base image, as far as it is needed: https://hub.docker.com/_/node
    await installPrograms(machine, {
      "/bin/sh": "/bin/sh",
      "/bin/ln": "/bin/ln",
      "/usr/bin/env": "/usr/bin/env",
      "/usr/bin/install": "/usr/bin/install",
      "/usr/local/bin/node": process.execPath,
    });
    mkdirSync(join(machine, "etc/bridgehead"), { recursive: true });
    writeFileSync(join(machine, "etc/passwd"), `root:x:0:0::/root:/bin/sh\nnode:x:${uid}:${gid}::/home/node:/bin/sh\n`);
    writeFileSync(join(machine, "etc/group"), `root:x:0:\nnode:x:${gid}:\n`);
    for (const { name, value } of final) {
      const [, from = "", to = ""] = /^--from=build (\S+) (\S+)$/.exec(value) ?? [];
      if (name === "COPY") cpSync(join(building, from), join(machine, to), { recursive: true, verbatimSymlinks: true });
      if (name === "RUN") await inMachine(["sh", "-c", value], "0:0");
    }
  }, 600_000);

  const variables = final
    .filter(({ name }) => name === "ENV")
    .map(({ value }) => value.replaceAll('"', "").split(/=(.*)/));
  const env = { PATH: "/usr/local/bin:/usr/bin:/bin", ...Object.fromEntries(variables), ...phoneSecrets };
  const chroot = (command: readonly string[], user = `${uid}:${gid}`) => [`--userspec=${user}`, machine, ...command];
  const inMachine = (command: readonly string[], user?: string) =>
    run("/usr/sbin/chroot", chroot(command, user), { env });

  it("runs unprivileged, keeps state in a volume, and starts without a shell", () => {
    expect(one("USER")).toBe("node");
    expect(statSync(join(machine, volume))).toMatchObject({ uid, gid });
    expect(words(one("ENTRYPOINT"))).toEqual(["bridgehead"]);
    expect(one("HEALTHCHECK")).toMatch(/ CMD \[/);
    // The base image has a recent Node.js: the package installs no second one.
    expect(
      readdirSync(join(machine, "opt/bridgehead/node_modules")).filter((name) => /^node-(linux|darwin)/.test(name)),
    ).toEqual([]);
  });

  it("is healthy while the daemon is ready, drains at SIGTERM, and writes to the volume only", async () => {
    const before = await changed();
    const [port, admin] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    writeFileSync(join(machine, "etc/bridgehead/bridgehead.yaml"), JSON.stringify(phoneConfig(port, admin)));
    const health = () => spawnSync("/usr/sbin/chroot", chroot(words(one("HEALTHCHECK"))), { env }).status;
    expect(health()).toBe(69);
    const daemon = spawn("/usr/sbin/chroot", chroot([...words(one("ENTRYPOINT")), ...words(one("CMD"))]), {
      env,
      stdio: "ignore",
    });
    const ended = new Promise<number | null>((resolve) => daemon.once("exit", resolve));
    try {
      await expect.poll(health).toBe(0);
    } finally {
      daemon.kill("SIGTERM");
    }
    expect(await ended).toBe(0);
    expect(existsSync(join(machine, volume, "bridgehead.db"))).toBe(true);
    expect((await changed()).filter((path) => !before.includes(path))).toEqual([
      expect.stringMatching(/^etc\/bridgehead\/bridgehead\.yaml /),
    ]);
  });

  /** Every file outside of the volume with the time of its last change. */
  async function changed(): Promise<string[]> {
    const args = [".", "-path", `.${volume}`, "-prune", "-o", "-type", "f", "-printf", "%P %T@\n"];
    const { stdout } = await run("find", args, { cwd: machine, maxBuffer: 2 ** 24 });
    return stdout.trim().split("\n");
  }
});
