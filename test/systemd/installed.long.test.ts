// The Debian package and its unit under a real systemd, in a virtual machine without a network. A drop-in extends
// TimeoutStartSec= and WatchdogSec=, because an emulated processor needs a minute and a half to start the daemon, and
// several times as long on a busy machine, and tries what the sandbox has to prevent. Everything else is the shipped unit.
// An emulated machine has no TPM, for LoadCredentialEncrypted=.

import { type ChildProcessWithoutNullStreams, execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { root } from "../support/machine/command.ts";
import { describeReal, need } from "../support/machine/debian.ts";

// A small Debian in QEMU with systemd as its first process: built from packages of the archive without mounting anything,
// and started with its root folder as the kernel's initramfs. A root shell on its second serial port takes the commands.

const run = promisify(execFile);
const shell = (command: string, cwd: string) =>
  run("bash", ["-e", "-o", "pipefail", "-c", command], { cwd, maxBuffer: 2 ** 24 });

/** Why a virtual machine cannot be made here; null when it can. */
async function noVirtualMachine(): Promise<string | null> {
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
DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NO_COLOR=1 SYSTEMD_PAGER= SYSTEMD_COLORS=0
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
async function buildRoot(folder: string, packageFile: string): Promise<string> {
  const [root, archives] = [join(folder, "root"), join(folder, "archives")];
  mkdirSync(join(archives, "partial"), { recursive: true });
  for (const name of ["bin", "sbin", "lib", "lib64"]) {
    mkdirSync(join(root, "usr", name), { recursive: true });
    symlinkSync(`usr/${name}`, join(root, name));
  }
  writeFileSync(join(folder, "status"), "");
  const options = [`Dir::State::status=${folder}/status`, `Dir::Cache::archives=${archives}`, "Debug::NoLocking=1"];
  const download = ["install", "--yes", "--quiet=2", "--no-install-recommends", "--download-only"];
  const get = () => run("apt-get", [...download, ...options.flatMap((one) => ["-o", one]), ...packages, kernelPackage]);
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
  const args = [`--root=${root}`, `--log=${folder}/log`, "--force-unsafe-io", "--unpack", packageFile];
  // dpkg wants the administrator's programs in PATH.
  await run("dpkg", args, { env: { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin:/sbin` } });
  return root;
}

/** A running machine. */
class VirtualMachine {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly #console: string;

  private constructor(folder: string, kernel: string) {
    this.#console = join(folder, "console");
    // Under load the kernel measures a wrong frequency of the TSC, and its clock would run several times too fast.
    // This test has the most work of its lane on one thread. With the priority of the others it would end last, and alone.
    this.#process = spawn(
      "nice",
      [
        ..."-n -5 qemu-system-x86_64".split(" "),
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
    // It is in the machine's memory now, and the tests' files may be in memory, too.
    for (const name of ["root", "root.cpio", "archives"]) rmSync(join(folder, name), { recursive: true });
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

const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
/** For one step in a machine without hardware support, on a computer with other work. */
const patience = 1_800_000;
const missing = await noVirtualMachine();

const configFile = "/etc/bridgehead/bridgehead.yaml";
const token = "0123456789abcdef0123456789abcdef";
const account = "AC0123456789abcdef0123456789abcdef";
const config = (channels: readonly string[]) => `
platform: embedded
model: { url: "http://127.0.0.1:9999/v1", name: any, timeout: 10m, total_timeout: 10m }
agents: { support: {} }
channels:
${channels
  .map(
    (id, index) =>
      `  ${id}: { adapter: sms, agent: support, provider: twilio, account_sid: ${account}, ` +
      `auth_tokens: ["\${credential:token}"], number: "+1555010${index}", api_url: "http://127.0.0.1:9999" }`,
  )
  .join("\n")}
http: { public_url: "https://bridge.example.com" }
`;

/** The model and the provider of text messages. The model answers when /run/answer exists. */
const peer = `
import { existsSync } from "node:fs";
import { createServer } from "node:http";
createServer(async (request, response) => {
  for await (const _ of request);
  console.log(request.method, request.url);
  const isModel = request.url.startsWith("/v1/");
  while (isModel && !existsSync("/run/answer")) await new Promise((resolve) => setTimeout(resolve, 100));
  const message = { role: "assistant", content: "Three working days." };
  const answer = isModel
    ? { choices: [{ index: 0, message, finish_reason: "stop" }] }
    : request.method === "POST" ? { sid: "SM" + "1".repeat(32), status: "queued" } : { messages: [] };
  response.writeHead(request.method === "POST" && !isModel ? 201 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify(answer));
}).listen(9999, "127.0.0.1");
`;

/** What the unit has to prevent: root can do all of it. Prints what is possible. */
const attempts = [
  "touch /usr/probe",
  "touch /etc/bridgehead/probe",
  "cat /etc/bridgehead/secrets/token",
  "cat /root/peer.mjs",
  "unshare --user true",
  "mount -t tmpfs none /srv",
  "hostname probe",
  "test -e /dev/ttyS0",
  "test -e /proc/cmdline",
  "test -d /proc/1",
];
const probe = attempts.map((one) => `${one} >/dev/null 2>&1 && echo "possible: ${one}"`).join("\n");
const dropIn = `[Service]
TimeoutStartSec=1500
WatchdogSec=180
ExecStartPre=-/bin/bash /usr/local/lib/probe
`;

/** A text message as the provider delivers it, signed with the token. */
function textMessage(): string {
  const path = "/channels/texts/inbound";
  const fields = {
    AccountSid: account,
    Body: "How long does shipping take?",
    From: "+15550199",
    MessageSid: `SM${"2".repeat(32)}`,
    NumMedia: "0",
    To: "+15550100",
  };
  const signed = Object.entries(fields).reduce((text, [key, value]) => text + key + value, path);
  const signature = createHmac("sha1", token).update(`https://bridge.example.com${signed}`).digest("base64");
  const body = new URLSearchParams(fields).toString();
  return [
    `POST ${path} HTTP/1.1`,
    "Host: bridge.example.com",
    `X-Twilio-Signature: ${signature}`,
    "Content-Type: application/x-www-form-urlencoded",
    `Content-Length: ${body.length}`,
    "Connection: close",
    "",
    body,
  ].join("\r\n");
}

describeReal("the service under systemd", missing, () => {
  const scratch = mkdtempSync(join(tmpdir(), "bridgehead-systemd-"));
  let machine: VirtualMachine;
  const began = Date.now();
  const show = async (property: string): Promise<string> =>
    (await machine.must(`systemctl show --property=${property} --value bridgehead`)).trim();
  const journal = (args = "") => machine.must(`journalctl --unit bridgehead --output cat ${args}`);
  /** Waits in the machine, so that a slow serial line costs nothing. Most conditions take half a second of the emulated
   *  processor, which the daemon needs. */
  const until = (condition: string) =>
    machine.must(`until ${condition} > /dev/null; do [ $SECONDS -lt 1500 ] || exit 1; sleep 2; done`);
  const is = (state: string) => `systemctl show --property=ActiveState bridgehead | grep -qx ActiveState=${state}`;

  beforeAll(async () => {
    await run("debian/build", [scratch], { cwd: root, env: { ...process.env, COMPRESSION: "none" } });
    const folder = await buildRoot(scratch, join(scratch, `bridgehead-${version}.deb`));
    // As an npm package has them: for the service of an installation without the Debian package.
    cpSync(join(root, "systemd"), join(folder, "usr/lib/bridgehead/systemd"), { recursive: true });
    machine = await VirtualMachine.boot(scratch);
  }, patience);
  afterAll(async () => {
    await machine?.off();
    rmSync(scratch, { recursive: true, force: true });
    process.stderr.write(`systemd: tested in ${Math.round((Date.now() - began) / 1000)} s\n`);
  });

  it("is installed by dpkg, and neither enabled nor started", { timeout: patience }, async () => {
    expect(await machine.must("dpkg --configure bridgehead")).toContain(`create ${configFile}`);
    expect(await show("ActiveState")).toBe("inactive");
    expect(await show("UnitFileState")).toBe("disabled");
    expect(
      await machine.must("stat -c '%U:%G %a %n' /etc/bridgehead /etc/bridgehead/secrets /var/lib/bridgehead"),
    ).toBe(
      "root:bridgehead 750 /etc/bridgehead\nroot:root 700 /etc/bridgehead/secrets\nbridgehead:bridgehead 700 /var/lib/bridgehead\n",
    );
    await machine.must("mkdir -p /usr/local/lib");
    await machine.write("/usr/local/lib/probe", `${probe}\necho "attempted as $(id -un)"\n`);
    await machine.must("mkdir -p /run/systemd/system/bridgehead.service.d");
    await machine.write("/run/systemd/system/bridgehead.service.d/test.conf", dropIn);
  });

  it("ends with 78 for a configuration that is wrong, and is not started again", {
    timeout: patience,
  }, async () => {
    // The secret does not exist yet. The package's unit is hidden, so that the command writes one.
    await machine.write(configFile, config(["texts"]));
    await machine.must(`chmod 600 ${configFile}`);
    await machine.must("mv /usr/lib/systemd/system/bridgehead.service /root");
    const { out, code } = await machine.run("bridgehead service install");
    expect(out).toMatch(/did not start[^]*needs the credential token, which is not in \/run\/credentials/);
    expect(code).toBe(1);
    expect(await show("ExecMainStatus")).toBe("78");
    expect(await show("ActiveState")).toBe("failed");
    expect(await show("NRestarts")).toBe("0");
    expect(await machine.must("grep ^Exec /etc/systemd/system/bridgehead.service")).toMatch(
      /^ExecStart="\/usr\/lib\/bridgehead\/bin\/node" "\/usr\/lib\/bridgehead\/bin\/bridgehead.cjs" run --config /,
    );
    expect(await journal("--priority err")).toContain("needs the credential token");

    expect(await machine.must("bridgehead service uninstall")).toMatch(/removed [^]*kept: /);
    const left = "find /etc/systemd /etc/sysusers.d /etc/tmpfiles.d -name 'bridgehead*'";
    expect(await machine.must(left)).toBe("");
    await machine.must("mv /root/bridgehead.service /usr/lib/systemd/system/ && systemctl daemon-reload");
  });

  it("is active after READY=1, with credentials that only root can read", { timeout: patience }, async () => {
    await machine.write("/root/peer.mjs", peer);
    await machine.must("systemd-run --unit peer /usr/lib/bridgehead/bin/node /root/peer.mjs");
    await machine.must(`umask 077; echo ${token} > /etc/bridgehead/secrets/token`);
    await machine.must("bridgehead service install > /root/installed 2>&1 &");
    await until('test "$(journalctl --unit bridgehead --grep "listening for http" --output cat)"');
    await until("grep -E 'ready:|did not start' /root/installed");
    expect(await machine.must("cat /root/installed")).toMatch(/ready: [01]\/1 channels ready, 0 waiting/);
    const listening = JSON.parse(await journal('--grep "listening for http" --output json')) as Record<string, string>;
    // Not when the process was started: the port is opened before the store and the channels.
    expect(Number(await show("ActiveEnterTimestampMonotonic"))).toBeGreaterThan(
      Number(listening["__MONOTONIC_TIMESTAMP"]),
    );
    expect(await show("UnitFileState")).toBe("enabled");
    await until('systemctl status bridgehead | grep "Status: \\"1/1 channels ready, 0 waiting\\""');
    const status = await machine.run("bridgehead service status");
    expect(status).toMatchObject({
      code: 0,
      out: expect.stringMatching(/active \(running\)[^]*"message":"ready"/),
    });
  });

  it("runs in its sandbox", { timeout: patience }, async () => {
    const pid = await show("MainPID");
    expect(await machine.must(`grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/${pid}/status`)).toMatch(
      /^Uid:(\t[1-9]\d*){4}\nCapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n$/,
    );
    // The same attempts outside of the unit are the control.
    expect(await machine.must("bash /usr/local/lib/probe")).toBe(
      `${attempts.map((one) => `possible: ${one}\n`).join("")}attempted as root\n`,
    );
    const attempted = await journal("--grep '^(possible|attempted)'");
    expect(attempted).toMatch(/^(attempted as bridgehead\n)+$/);
    expect(
      await machine.must(
        "find /var/lib/bridgehead /var/cache/bridgehead -type f ! -user bridgehead -o -perm /077 -type f",
      ),
    ).toBe("");
    // Without BPF in the kernel IPAddressDeny= has no effect, and systemd says so.
    expect((await machine.run("journalctl --grep 'firewalling'")).out).not.toContain("bridgehead");
  });

  it("applies a reload, and refuses one that is wrong", { timeout: patience }, async () => {
    const pid = await show("MainPID");
    await machine.write(configFile, config(["texts"]).replace("auth_tokens", "auth_tokenz"));
    expect((await machine.run("systemctl reload bridgehead")).code).not.toBe(0);
    expect(await journal("--priority err")).toContain("auth_tokenz");
    await machine.write(configFile, config(["texts", "more"]));
    await machine.must("systemctl reload bridgehead");
    await until('systemctl status bridgehead | grep -q "Status: \\"2/2 channels ready"');
    expect(await show("MainPID")).toBe(pid);
  });

  it("writes to the journal with priorities", { timeout: patience }, async () => {
    const lines = (await machine.must("journalctl --output json _SYSTEMD_UNIT=bridgehead.service"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { readonly PRIORITY: string; readonly MESSAGE: string })
      .filter(({ MESSAGE }) => MESSAGE.startsWith("{"));
    const priorities = { debug: "7", info: "6", warn: "4", error: "3" };
    expect(lines.length).toBeGreaterThan(5);
    for (const { PRIORITY, MESSAGE } of lines) {
      const { level } = JSON.parse(MESSAGE) as { readonly level: keyof typeof priorities };
      expect(PRIORITY, MESSAGE).toBe(priorities[level]);
    }
  });

  it("is started again by the watchdog when it hangs", { timeout: patience }, async () => {
    const pid = await show("MainPID");
    expect(Number(pid)).toBeGreaterThan(1);
    // The drop-in replaces the limit that is shipped.
    expect(await machine.must("grep ^WatchdogSec= /usr/lib/systemd/system/bridgehead.service")).toBe(
      "WatchdogSec=60\n",
    );
    await machine.must(`kill -STOP ${pid}`);
    await until(`systemctl show --property=NRestarts bridgehead | grep -qx NRestarts=1 && ${is("active")}`);
    expect(await journal()).toContain("Watchdog timeout (limit 3min)!");
    expect(await show("MainPID")).not.toBe(pid);
  });

  it("finishes running work when it is stopped, and exits with 0", { timeout: patience }, async () => {
    await machine.write("/root/text", textMessage());
    const accepted = "exec 3<>/dev/tcp/127.0.0.1/8025; cat /root/text >&3; head -1 <&3";
    expect(await machine.must(accepted)).toContain("200");
    await until('test "$(journalctl --unit peer --grep "POST /v1/" --output cat)"');
    // One command, because the daemon has 20 seconds.
    const deactivating = `until ${is("deactivating")} || [ $SECONDS -gt 60 ]; do sleep 0.1; done`;
    await machine.must(`systemctl --no-block stop bridgehead; ${deactivating}; touch /run/answer`);
    await until(is("inactive"));
    expect([await show("Result"), await show("ExecMainStatus")]).toEqual(["success", "0"]);
    expect(await journal()).toMatch(/"message":"question answered"[^]*"message":"stopped"/);
  });

  it("is stopped and disabled when its package is removed", { timeout: patience }, async () => {
    await machine.must("dpkg --remove bridgehead");
    expect(await show("LoadState")).not.toBe("loaded");
    await machine.must("test -e /var/lib/bridgehead/bridgehead.db");
  });
});
