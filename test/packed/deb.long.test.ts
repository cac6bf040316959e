// The Debian package: built, checked by lintian, installed into a folder with a dpkg database of its own, and run there
// in a chroot. Nothing is mounted, and no service manager is called.

import { execFile, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { installPrograms, noChroot, phoneConfig, phoneSecrets, root } from "../support/machine/command.ts";
import { describeReal, need, sharedByRun } from "../support/machine/debian.ts";
import { freePort } from "../support/machine/network.ts";
import { newFolder } from "../support/resources.ts";

const run = promisify(execFile);
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
const missing =
  noChroot !== null || !existsSync("/usr/bin/dpkg-deb")
    ? "dpkg, chroot and root are needed"
    : ((await need("lintian", "/usr/bin/lintian")) ?? (await need("binutils", "/usr/bin/strip")));

describeReal("the Debian package", missing, () => {
  const scratch = newFolder(afterAll);
  let packageFile: string;
  const machine = join(scratch, "machine");
  const inMachine = (path: string): string => join(machine, path);
  const calls = join(scratch, "calls");
  const config = inMachine("etc/bridgehead/bridgehead.yaml");
  const enabled = inMachine("etc/systemd/system/multi-user.target.wants/bridgehead.service");

  /** dpkg on the folder. Commands that would change this machine are replaced by ones that record their arguments. */
  const dpkg = (args: readonly string[], env: Record<string, string> = {}) => {
    const options = [
      "--force-script-chrootless",
      "--force-depends",
      "--force-unsafe-io",
      `--log=${join(scratch, "log")}`,
    ];
    return run("dpkg", [`--root=${machine}`, ...options, ...args], {
      env: {
        PATH: `${join(scratch, "bin")}:/usr/sbin:/usr/bin:/sbin:/bin`,
        DEBIAN_FRONTEND: "noninteractive",
        LC_ALL: "C.UTF-8",
        ...env,
      },
    });
  };

  beforeAll(async () => {
    packageFile = await sharedByRun("Debian package");
    for (const folder of ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/cache/debconf", "etc", "tmp", "bin"])
      mkdirSync(inMachine(folder), { recursive: true });
    writeFileSync(inMachine("var/lib/dpkg/status"), "");
    copyFileSync("/etc/debconf.conf", inMachine("etc/debconf.conf"));
    mkdirSync(join(scratch, "bin"));
    for (const name of ["systemctl", "systemd-tmpfiles", "deb-systemd-invoke"]) {
      writeFileSync(join(scratch, "bin", name), `#!/bin/sh\necho "${name} $*" >> ${calls}\n`);
      chmodSync(join(scratch, "bin", name), 0o755);
    }
    // What the package depends on: a shell and the libraries of Node.js.
    await installPrograms(machine, { "/bin/sh": "/bin/sh", "/unused": process.execPath });
  }, 600_000);

  // It starts many programs and takes minutes while other tests run.
  it("has no finding of lintian", { timeout: 600_000 }, async () => {
    const { stdout } = await run("lintian", ["--allow-root", "--tag-display-limit", "0", packageFile]);
    expect(stdout).toBe("");
  });

  it("creates the user, and does not enable or start a service that is not configured", async () => {
    const { stderr } = await dpkg(["-i", packageFile]);
    expect(stderr).toContain("create /etc/bridgehead/bridgehead.yaml");
    expect(readFileSync(inMachine("etc/passwd"), "utf8")).toMatch(/^bridgehead:.*:\/var\/lib\/bridgehead:/m);
    expect(readFileSync(calls, "utf8")).toBe(`systemd-tmpfiles --root=${machine} --create bridgehead.conf\n`);
    expect(existsSync(enabled)).toBe(false);
    for (const file of [
      "usr/lib/systemd/system/bridgehead.service",
      "usr/lib/sysusers.d/bridgehead.conf",
      "usr/lib/tmpfiles.d/bridgehead.conf",
      "usr/share/man/man1/bridgehead.1.gz",
      "usr/share/man/man5/bridgehead.yaml.5.gz",
      "usr/share/bash-completion/completions/bridgehead",
      "usr/share/zsh/vendor-completions/_bridgehead",
      "usr/share/fish/vendor_completions.d/bridgehead.fish",
      "usr/share/doc/bridgehead/examples/bridgehead.yaml",
      "usr/share/doc/bridgehead/docs/operations.md",
      "usr/lib/bridgehead/docs/doctor.md",
    ])
      expect(existsSync(inMachine(file)), file).toBe(true);
  });

  it("runs the daemon as that user", async () => {
    const [, , user = "", group = ""] =
      /^bridgehead:.*$/m.exec(readFileSync(inMachine("etc/passwd"), "utf8"))?.[0].split(":") ?? [];
    for (const [folder, owner] of [
      ["etc/bridgehead", 0],
      ["var/lib/bridgehead", Number(user)],
    ] as const) {
      mkdirSync(inMachine(folder), { recursive: true });
      chownSync(inMachine(folder), owner, Number(group));
    }
    const [port, admin] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    writeFileSync(config, JSON.stringify(phoneConfig(port, admin)));
    const command = [`--userspec=${user}:${group}`, machine, "/usr/bin/bridgehead"];
    const options = { env: { ...phoneSecrets, PATH: "/usr/bin:/bin" } };
    const versions = await run("/usr/sbin/chroot", [...command, "--version"], options);
    expect(versions.stdout).toMatch(new RegExp(`^bridgehead ${version}\nnode 2\\d\\.`));

    const daemon = spawn("/usr/sbin/chroot", [...command, "run"], { ...options, stdio: "ignore" });
    const ended = new Promise<number | null>((resolve) => daemon.once("exit", resolve));
    try {
      const health = () => spawnSync("/usr/sbin/chroot", [...command, "health"], { ...options, encoding: "utf8" });
      await expect.poll(() => health().stdout).toBe("ready\n  calls: ready\n");
    } finally {
      daemon.kill("SIGTERM");
    }
    expect(await ended).toBe(0);
    expect(statSync(inMachine("var/lib/bridgehead/bridgehead.db")).uid).toBe(Number(user));
  });

  it("keeps everything in an upgrade, and starts nothing that was not enabled", async () => {
    const before = readdirSync(inMachine("var/lib/bridgehead"));
    const { stderr } = await dpkg(["-i", packageFile]);
    expect(stderr).not.toContain("create /etc/bridgehead");
    expect(readdirSync(inMachine("var/lib/bridgehead"))).toEqual(before);
    expect(existsSync(config)).toBe(true);
    expect(existsSync(enabled)).toBe(false);
  });

  it("keeps state and configuration when it is removed, and at a purge without a dialog", async () => {
    await dpkg(["-r", "bridgehead"]);
    expect(existsSync(inMachine("usr/lib/bridgehead"))).toBe(false);
    expect(existsSync(inMachine("usr/bin/bridgehead"))).toBe(false);
    await dpkg(["-P", "bridgehead"]);
    expect(existsSync(config)).toBe(true);
    expect(existsSync(inMachine("var/lib/bridgehead/bridgehead.db"))).toBe(true);
    expect(existsSync(inMachine("etc/systemd/system/bridgehead.service"))).toBe(false);
  });

  it("deletes them at a purge after a yes", async () => {
    const asked = join(scratch, "asked");
    const editor = join(scratch, "editor");
    writeFileSync(editor, `#!/bin/sh\ncp "$1" ${asked}\nsed -i 's/^\\(bridgehead.*=\\).*/\\1"yes"/' "$1"\n`);
    chmodSync(editor, 0o755);
    await dpkg(["-i", packageFile]);
    await dpkg(["-P", "bridgehead"], { DEBIAN_FRONTEND: "editor", EDITOR: editor, VISUAL: editor });
    expect(readFileSync(asked, "utf8")).toMatch(/Delete the messages and the configuration of Bridgehead\?\n.*="no"$/m);
    expect(existsSync(inMachine("var/lib/bridgehead"))).toBe(false);
    expect(existsSync(inMachine("etc/bridgehead"))).toBe(false);
    // The service manager was never called: a folder has no running services.
    expect(readFileSync(calls, "utf8").replace(/^systemd-tmpfiles .*\n/gm, "")).toBe("");
  });
});
