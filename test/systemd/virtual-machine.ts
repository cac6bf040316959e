// A small Debian in QEMU with systemd as its first process: built from packages of the archive without mounting anything,
// and started with its root folder as the kernel's initramfs. A root shell on its second serial port takes the commands.

import { type ChildProcessWithoutNullStreams, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  createWriteStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { need } from "../support/machine/debian.ts";

const run = promisify(execFile);
const shell = (command: string, cwd: string) =>
  run("bash", ["-e", "-o", "pipefail", "-c", command], { cwd, maxBuffer: 2 ** 24 });

/** Why a virtual machine cannot be made here; null when it can. */
export async function noVirtualMachine(): Promise<string | null> {
  if (process.arch !== "x64") return "the virtual machine is an amd64 one";
  if (process.getuid?.() !== 0) return "root is needed";
  const qemu = await need("qemu-system-x86", "/usr/bin/qemu-system-x86_64");
  return qemu ?? (await need("cpio", "/usr/bin/cpio")) ?? (await need("binutils", "/usr/bin/strip"));
}

/** What the machine consists of, apart from the essential packages. The kernel's dependencies build an initramfs: they are
 *  downloaded with it and left out, as is what serves devices and apt. */
const packages = ["?essential", "systemd-sysv", "debconf", "init-system-helpers", "libstdc++6"];
const kernelPackage = "linux-image-cloud-amd64";
const leftOut =
  /^(linux-|initramfs|klibc|libklibc|perl-modules|perl_|usrmerge|libfile-find|libnumber|libtext|udev_|apt_|gpgv|libapt-|debian-archive|busybox)/;
/** Known to dpkg as installed: what the package of Bridgehead depends on. */
const known = ["debconf", "init-system-helpers", "libc6", "libgcc-s1", "libstdc++6", "systemd"];

const rootShell = `#!/bin/bash
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NO_COLOR=1 SYSTEMD_PAGER= SYSTEMD_COLORS=0
stty -F /dev/ttyS1 raw -echo
exec </dev/ttyS1 >/dev/ttyS1 2>&1
echo "--- 0"
while IFS= read -r line; do
  bash -c "$(base64 -d <<<"$line")" </dev/null
  echo "--- $?"
done
`;
const rootShellUnit = "[Service]\nType=idle\nExecStart=/usr/sbin/root-shell\nKillMode=process\n";

/** Makes the root folder in `folder`, with the package unpacked but not configured. */
export async function buildRoot(folder: string, packageFile: string): Promise<string> {
  const [root, archives] = [join(folder, "root"), join(folder, "archives")];
  mkdirSync(join(archives, "partial"), { recursive: true });
  for (const name of ["bin", "sbin", "lib", "lib64"]) {
    mkdirSync(join(root, "usr", name), { recursive: true });
    symlinkSync(`usr/${name}`, join(root, name));
  }
  writeFileSync(join(folder, "status"), "");
  const options = [
    `Dir::State::status=${folder}/status`,
    `Dir::Cache::archives=${archives}`,
    "Debug::NoLocking=1",
  ];
  const download = ["install", "--yes", "--quiet=2", "--no-install-recommends", "--download-only"];
  const get = () =>
    run("apt-get", [...download, ...options.flatMap((one) => ["-o", one]), ...packages, kernelPackage]);
  await get().catch(async () => {
    await run("apt-get", ["update", "-qq"]);
    await get();
  });
  const files = readdirSync(archives).filter((name) => name.endsWith(".deb"));
  const unpack = (name: string, into: string) =>
    `dpkg-deb --fsys-tarfile '${archives}/${name}' | tar -x --keep-directory-symlink -C '${into}'`;
  for (const name of files.filter((one) => !leftOut.test(one))) await shell(unpack(name, root), folder);
  const kernel = files.find((name) => /^linux-image-\d/.test(name)) ?? "";
  mkdirSync(join(folder, "kernel"));
  await shell(`${unpack(kernel, join(folder, "kernel"))} ./boot`, folder);

  for (const name of known) {
    const file = files.find((one) => one.startsWith(`${name}_`)) ?? "";
    const { stdout } = await run("dpkg-deb", ["--field", join(archives, file)]);
    const entry = stdout.replace("\n", "\nStatus: install ok installed\n");
    writeFileSync(join(root, "var/lib/dpkg/status"), `${entry}\n`, { flag: "a" });
  }
  // What the packages' own scripts would do.
  for (const name of ["passwd", "group"])
    copyFileSync(join(root, `usr/share/base-passwd/${name}.master`), join(root, "etc", name));
  copyFileSync(join(root, "usr/share/libc-bin/nsswitch.conf"), join(root, "etc/nsswitch.conf"));
  for (const name of ["doc", "man", "locale", "zoneinfo", "info"])
    rmSync(join(root, "usr/share", name), { recursive: true, force: true });
  writeFileSync(join(root, "etc/machine-id"), "");
  writeFileSync(join(root, "usr/sbin/root-shell"), rootShell);
  chmodSync(join(root, "usr/sbin/root-shell"), 0o755);
  const units = join(root, "etc/systemd/system");
  writeFileSync(join(units, "root-shell.service"), rootShellUnit);
  mkdirSync(join(units, "multi-user.target.wants"), { recursive: true });
  symlinkSync("../root-shell.service", join(units, "multi-user.target.wants/root-shell.service"));
  symlinkSync("/lib/systemd/system/multi-user.target", join(units, "default.target"));
  for (const name of ["getty.target", "serial-getty@.service"]) symlinkSync("/dev/null", join(units, name));
  symlinkSync("/usr/lib/systemd/systemd", join(root, "init"));
  // Unpacked here, because an emulated processor takes a minute for it. The package has no script that runs before.
  mkdirSync(join(root, "var/lib/dpkg/updates"), { recursive: true });
  mkdirSync(join(root, "var/lib/dpkg/info"), { recursive: true });
  await run("dpkg", [`--root=${root}`, `--log=${folder}/log`, "--force-unsafe-io", "--unpack", packageFile]);
  return root;
}

/** A running machine. */
export class VirtualMachine {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly #console: string;

  private constructor(folder: string, kernel: string) {
    this.#console = join(folder, "console");
    // Under load the kernel measures a wrong frequency of the TSC, and its clock would run several times too fast.
    this.#process = spawn(
      "qemu-system-x86_64",
      [
        ..."-nodefaults -no-user-config -display none -no-reboot -machine q35 -smp 2 -m 2048".split(" "),
        ..."-accel tcg,thread=multi,tb-size=1024 -cpu max".split(" "),
        "-kernel",
        kernel,
        "-initrd",
        join(folder, "root.cpio"),
        "-append",
        "console=ttyS0 panic=-1 mitigations=off tsc=unstable clocksource=hpet",
        "-serial",
        `file:${this.#console}`,
        "-serial",
        "stdio",
      ],
      { stdio: "pipe" },
    );
    this.#process.stderr.pipe(createWriteStream(join(folder, "qemu")));
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  /** Resolves when systemd has started everything. */
  static async boot(folder: string): Promise<VirtualMachine> {
    await shell("cd root && find . -print0 | cpio --null -o -H newc --quiet > ../root.cpio", folder);
    const boot = join(folder, "kernel/boot");
    const kernel = readdirSync(boot).find((name) => name.startsWith("vmlinuz")) ?? "";
    const machine = new VirtualMachine(folder, join(boot, kernel));
    await machine.#answer();
    return machine;
  }

  /** Executes a command in the machine's root shell. Standard output and standard error are one stream. */
  async run(command: string): Promise<{ readonly out: string; readonly code: number }> {
    this.#process.stdin.write(`${Buffer.from(command).toString("base64")}\n`);
    return this.#answer();
  }

  /** Runs the command, and returns its output. Rejects when it fails. */
  async must(command: string): Promise<string> {
    const { out, code } = await this.run(command);
    if (code !== 0) throw new Error(`${command}\nended with ${code}:\n${out}`);
    return out;
  }

  /** Writes a file, with a folder that exists. */
  async write(path: string, text: string): Promise<void> {
    await this.must(`base64 -d <<<'${Buffer.from(text).toString("base64")}' > '${path}'`);
  }

  async off(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await ended;
  }

  async #answer(): Promise<{ out: string; code: number }> {
    let out = "";
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done === true)
        throw new Error(`the machine ended:\n${out}\n${readFileSync(this.#console, "utf8").slice(-4000)}`);
      const [, code] = /^--- (\d+)$/.exec(value) ?? [];
      if (code !== undefined) return { out, code: Number(code) };
      out += `${value}\n`;
    }
  }
}
