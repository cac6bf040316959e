// The Debian package and its unit under a real systemd, the first process of a container without a network. A drop-in tries
// what the sandbox has to prevent. Everything else is the shipped unit. A container has no TPM, for LoadCredentialEncrypted=.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { root } from "../support/machine/command.ts";
import { describeReal, need, sharedByRun } from "../support/machine/debian.ts";

// A small Debian, built from packages of the archive. It shares the kernel with the machine, and can change nothing there.

const run = promisify(execFile);
const shell = (command: string, cwd: string) =>
  run("bash", ["-e", "-o", "pipefail", "-c", command], { cwd, maxBuffer: 2 ** 24 });

/** The cgroup of the container, below that of this process. It has no controllers, which systemd does not need. */
const cgroup = join(
  "/mnt",
  /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1] ?? "/",
  `bridgehead-${process.pid}`,
);
const mountCgroups = "mount -t cgroup2 cgroup2 /mnt";

/** Executes a script in that cgroup, with namespaces of its own. */
function contained(script: string, ...args: string[]): [command: string, args: string[]] {
  const enter = `${mountCgroups}
mkdir -p '${cgroup}'
echo $$ > '${cgroup}/cgroup.procs'
umount /mnt
exec unshare --cgroup bash -ec "$@"`;
  const namespaces = "--pid --fork --kill-child --mount --uts --ipc --net --propagation private".split(" ");
  return ["unshare", [...namespaces, "bash", "-ec", enter, "bash", script, ...args]];
}

/** Call when its processes have ended. */
async function removeCgroup(): Promise<void> {
  const remove = `${mountCgroups}\nfind '${cgroup}' -depth -type d -exec rmdir {} +`;
  await run("unshare", ["--mount", "--propagation", "private", "bash", "-ec", remove]);
}

/** Why a container cannot be made here; null when it can. */
async function noContainer(): Promise<string | null> {
  if (process.getuid?.() !== 0) return "root is needed";
  try {
    await run(...contained(mountCgroups));
    await removeCgroup();
  } catch (error) {
    const reason = `a container with cgroups cannot be made here: ${(error as { stderr?: string }).stderr ?? String(error)}`;
    if (process.env["BRIDGEHEAD_REQUIRE_ALL"] === "1") throw new Error(reason, { cause: error });
    return reason.replaceAll("\n", " ");
  }
  return need("binutils", "/usr/bin/strip");
}

/** What the container consists of, apart from the essential packages. */
const packages = ["?essential", "systemd-sysv", "debconf", "init-system-helpers", "libstdc++6"];
/** Known to dpkg as installed: what the package of Bridgehead depends on. */
const known = ["debconf", "init-system-helpers", "libc6", "libgcc-s1", "libstdc++6", "systemd"];

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
  const get = () => run("apt-get", [...download, ...options.flatMap((one) => ["-o", one]), ...packages]);
  await get().catch(async () => {
    await run("apt-get", ["update", "-qq"]);
    await get();
  });
  const files = readdirSync(archives).filter((name) => name.endsWith(".deb"));
  for (const name of files)
    await shell(`dpkg-deb --fsys-tarfile '${archives}/${name}' | tar -x --keep-directory-symlink -C '${root}'`, folder);

  for (const name of known) {
    const file = files.find((one) => one.startsWith(`${name}_`)) ?? "";
    const { stdout } = await run("dpkg-deb", ["--field", join(archives, file)]);
    const entry = stdout.replace("\n", "\nStatus: install ok installed\n");
    writeFileSync(join(root, "var/lib/dpkg/status"), `${entry}\n`, { flag: "a" });
  }
  rmSync(archives, { recursive: true });
  // What the packages' own scripts would do.
  for (const name of ["passwd", "group"])
    copyFileSync(join(root, `usr/share/base-passwd/${name}.master`), join(root, "etc", name));
  copyFileSync(join(root, "usr/share/libc-bin/nsswitch.conf"), join(root, "etc/nsswitch.conf"));
  writeFileSync(join(root, "etc/machine-id"), "");
  const units = join(root, "etc/systemd/system");
  symlinkSync("/lib/systemd/system/multi-user.target", join(units, "default.target"));
  for (const name of ["getty.target", "console-getty.service"]) symlinkSync("/dev/null", join(units, name));
  // The package has no script that runs before it is unpacked.
  mkdirSync(join(root, "var/lib/dpkg/updates"), { recursive: true });
  mkdirSync(join(root, "var/lib/dpkg/info"), { recursive: true });
  const args = [`--root=${root}`, `--log=${folder}/log`, "--force-unsafe-io", "--unpack", packageFile];
  // dpkg wants the administrator's programs in PATH.
  await run("dpkg", args, { env: { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin:/sbin` } });
  return root;
}

/** Makes the first argument the root folder, with the devices that a program expects, and starts systemd. */
const firstProcess = `mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
  touch dev/$name
  mount --bind /dev/$name dev/$name
done
ln -s /proc/self/fd dev/fd
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/probe
pivot_root . .
umount -l .
mount --make-rshared /
exec setpriv --bounding-set=-sys_module,-sys_time,-syslog \
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin container=test /usr/lib/systemd/systemd`;

/** A running container. */
class Container {
  readonly #process: ChildProcess;
  /** Systemd's process; 0 before it exists. */
  #pid = 0;

  private constructor(root: string, log: string) {
    const [command, args] = contained(firstProcess, root);
    const output = openSync(log, "a");
    this.#process = spawn(command, args, { stdio: ["ignore", output, output] });
  }

  /** Resolves when systemd has started everything. */
  static async boot(root: string, log: string): Promise<Container> {
    const container = new Container(root, log);
    const { pid } = container.#process;
    const children = () => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    const isReady = async () => {
      container.#pid = Number(children());
      return /^(running|degraded)/.test((await container.run("systemctl is-system-running --wait")).out);
    };
    while (!(await isReady())) {
      if (container.#process.exitCode !== null) throw new Error(`the container ended: ${readFileSync(log, "utf8")}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return container;
  }

  /** Executes a command as root. Standard output and standard error are one stream. */
  async run(command: string): Promise<{ readonly out: string; readonly code: number }> {
    const bash = ["/bin/bash", "-c", `exec 2>&1\n${command}`];
    const environment = "DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NO_COLOR=1 SYSTEMD_PAGER= SYSTEMD_COLORS=0";
    const inside = ["--target", `${this.#pid}`, "--all", "env", "-i", `PATH=${process.env["PATH"]}:/usr/sbin:/sbin`];
    return run("nsenter", [...inside, ...environment.split(" "), ...bash], { maxBuffer: 2 ** 26 }).then(
      ({ stdout }) => ({ out: stdout, code: 0 }),
      (error: { stdout: string; code: number }) => ({ out: error.stdout, code: error.code }),
    );
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

  /** Ends all its processes. */
  async off(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, "exit");
    // With the first process of a namespace the others are killed.
    if (this.#pid > 0) process.kill(this.#pid, "SIGKILL");
    await ended;
    await removeCgroup();
  }
}

const missing = await noContainer();

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
  "test -e /dev/probe",
  "test -e /proc/cmdline",
  "test -d /proc/1",
];
const probe = attempts.map((one) => `${one} >/dev/null 2>&1 && echo "possible: ${one}"`).join("\n");
const dropIn = `[Service]
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
  let container: Container;
  const show = async (property: string): Promise<string> =>
    (await container.must(`systemctl show --property=${property} --value bridgehead`)).trim();
  const journal = (args = "") => container.must(`journalctl --unit bridgehead --output cat ${args}`);
  const until = (condition: string) =>
    container.must(`until ${condition} > /dev/null; do [ $SECONDS -lt 170 ] || exit 1; sleep 0.2; done`);
  const is = (state: string) => `systemctl show --property=ActiveState bridgehead | grep -qx ActiveState=${state}`;

  beforeAll(async () => {
    const folder = await buildRoot(scratch, await sharedByRun("Debian package"));
    // As an npm package has them: for the service of an installation without the Debian package.
    cpSync(join(root, "systemd"), join(folder, "usr/lib/bridgehead/systemd"), { recursive: true });
    container = await Container.boot(folder, join(scratch, "console"));
  }, 600_000);
  afterAll(async () => {
    await container?.off();
    rmSync(scratch, { recursive: true, force: true });
  });

  it("is installed by dpkg, and neither enabled nor started", async () => {
    expect(await container.must("dpkg --configure bridgehead")).toContain(`create ${configFile}`);
    expect(await show("ActiveState")).toBe("inactive");
    expect(await show("UnitFileState")).toBe("disabled");
    expect(
      await container.must("stat -c '%U:%G %a %n' /etc/bridgehead /etc/bridgehead/secrets /var/lib/bridgehead"),
    ).toBe(
      "root:bridgehead 750 /etc/bridgehead\nroot:root 700 /etc/bridgehead/secrets\nbridgehead:bridgehead 700 /var/lib/bridgehead\n",
    );
    await container.must("mkdir -p /usr/local/lib");
    await container.write("/usr/local/lib/probe", `${probe}\necho "attempted as $(id -un)"\n`);
    await container.must("mkdir -p /run/systemd/system/bridgehead.service.d");
    await container.write("/run/systemd/system/bridgehead.service.d/test.conf", dropIn);
  });

  it("ends with 78 for a configuration that is wrong, and is not started again", async () => {
    // The secret does not exist yet. The package's unit is hidden, so that the command writes one.
    await container.write(configFile, config(["texts"]));
    await container.must(`chown root:root ${configFile} && chmod 640 ${configFile}`);
    await container.must("chmod 750 /usr/lib/bridgehead");
    const closed = await container.run("bridgehead service install");
    expect([closed.code, closed.out]).toEqual([
      78,
      expect.stringContaining("umask 022, or: chmod -R go+rX /usr/lib/bridgehead"),
    ]);
    await container.must("chmod 755 /usr/lib/bridgehead");
    await container.must("mv /usr/lib/systemd/system/bridgehead.service /root");
    const { out, code } = await container.run("bridgehead service install");
    expect(out).toMatch(/did not start[^]*needs the credential token, which is not in \/run\/credentials/);
    expect(code).toBe(1);
    expect(await show("ExecMainStatus")).toBe("78");
    expect(await show("ActiveState")).toBe("failed");
    expect(await show("NRestarts")).toBe("0");
    expect(await container.must("grep ^Exec /etc/systemd/system/bridgehead.service")).toMatch(
      /^ExecStart="\/usr\/lib\/bridgehead\/bin\/node" "\/usr\/lib\/bridgehead\/bin\/bridgehead.cjs" run --config /,
    );
    expect(await journal("--priority err")).toContain("needs the credential token");

    expect(await container.must("bridgehead service uninstall")).toMatch(/removed [^]*kept: /);
    const left = "find /etc/systemd /etc/sysusers.d /etc/tmpfiles.d -name 'bridgehead*'";
    expect(await container.must(left)).toBe("");
    await container.must("mv /root/bridgehead.service /usr/lib/systemd/system/ && systemctl daemon-reload");
  });

  it("is active after READY=1, with credentials that only root can read", async () => {
    await container.write("/root/peer.mjs", peer);
    await container.must("systemd-run --unit peer /usr/lib/bridgehead/bin/node /root/peer.mjs");
    await container.must(`umask 077; echo ${token} > /etc/bridgehead/secrets/token`);
    // As an editor of root leaves it under a strict umask.
    await container.must(`chown root:root ${configFile} && chmod 600 ${configFile}`);
    await container.must("bridgehead service install > /root/installed 2>&1 &");
    await until('test "$(journalctl --unit bridgehead --grep "listening for http" --output cat)"');
    await until("grep -E 'ready:|did not start' /root/installed");
    expect(await container.must("cat /root/installed")).toMatch(/ready: [01]\/1 channels ready, 0 waiting/);
    const listening = JSON.parse(await journal('--grep "listening for http" --output json')) as Record<string, string>;
    // Not when the process was started: the port is opened before the store and the channels.
    expect(Number(await show("ActiveEnterTimestampMonotonic"))).toBeGreaterThan(
      Number(listening["__MONOTONIC_TIMESTAMP"]),
    );
    expect(await show("UnitFileState")).toBe("enabled");
    await until('systemctl status bridgehead | grep "Status: \\"1/1 channels ready, 0 waiting\\""');
    const status = await container.run("bridgehead service status");
    expect(status).toMatchObject({
      code: 0,
      out: expect.stringMatching(/active \(running\)[^]*"message":"ready"/),
    });
  });

  it("runs in its sandbox", async () => {
    const pid = await show("MainPID");
    expect(await container.must(`grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/${pid}/status`)).toMatch(
      /^Uid:(\t[1-9]\d*){4}\nCapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n$/,
    );
    // The same attempts outside of the unit are the control.
    expect(await container.must("bash /usr/local/lib/probe")).toBe(
      `${attempts.map((one) => `possible: ${one}\n`).join("")}attempted as root\n`,
    );
    const attempted = await journal("--grep '^(possible|attempted)'");
    expect(attempted).toMatch(/^(attempted as bridgehead\n)+$/);
    expect(
      await container.must(
        "find /var/lib/bridgehead /var/cache/bridgehead -type f ! -user bridgehead -o -perm /077 -type f",
      ),
    ).toBe("");
    // Without BPF in the kernel IPAddressDeny= has no effect, and systemd says so.
    expect((await container.run("journalctl --grep 'firewalling'")).out).not.toContain("bridgehead");
  });

  it("is examined by root with its secrets, and names the page of its findings", async () => {
    const { findings } = JSON.parse((await container.run("bridgehead doctor --json")).out) as {
      readonly findings: readonly { readonly id: string; readonly docs: string }[];
    };
    expect(findings.map(({ id }) => id)).toEqual(["escalation-missing"]);
    await container.must(`test -e '${findings[0]?.docs.split("#")[0]}'`);
    const own = await container.run("setpriv --reuid=bridgehead --regid=bridgehead --clear-groups bridgehead check");
    expect([own.code, own.out]).toEqual([78, expect.stringContaining("needs the credential token")]);
  });

  it("applies a reload, and refuses one that is wrong", async () => {
    const pid = await show("MainPID");
    await container.write(configFile, config(["texts"]).replace("auth_tokens", "auth_tokenz"));
    expect((await container.run("systemctl reload bridgehead")).code).not.toBe(0);
    expect(await journal("--priority err")).toContain("auth_tokenz");
    await container.write(configFile, config(["texts", "more"]));
    await container.must("systemctl reload bridgehead");
    await until('systemctl status bridgehead | grep -q "Status: \\"2/2 channels ready"');
    expect(await show("MainPID")).toBe(pid);
  });

  it("writes to the journal with priorities", async () => {
    const lines = (await container.must("journalctl --output json _SYSTEMD_UNIT=bridgehead.service"))
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

  it("is started again by the watchdog when it hangs", async () => {
    const pid = await show("MainPID");
    expect(Number(pid)).toBeGreaterThan(1);
    await container.must(`kill -STOP ${pid}`);
    await until(`systemctl show --property=NRestarts bridgehead | grep -qx NRestarts=1 && ${is("active")}`);
    expect(await journal()).toContain("Watchdog timeout (limit 1min)!");
    expect(await show("MainPID")).not.toBe(pid);
  });

  it("finishes running work when it is stopped, and exits with 0", async () => {
    await container.write("/root/text", textMessage());
    const accepted = "exec 3<>/dev/tcp/127.0.0.1/8025; cat /root/text >&3; head -1 <&3";
    expect(await container.must(accepted)).toContain("200");
    await until('test "$(journalctl --unit peer --grep "POST /v1/" --output cat)"');
    // One command, because the daemon has 20 seconds.
    const deactivating = `until ${is("deactivating")} || [ $SECONDS -gt 60 ]; do sleep 0.1; done`;
    await container.must(`systemctl --no-block stop bridgehead; ${deactivating}; touch /run/answer`);
    await until(is("inactive"));
    expect([await show("Result"), await show("ExecMainStatus")]).toEqual(["success", "0"]);
    expect(await journal()).toMatch(/"message":"question answered"[^]*"message":"stopped"/);
  });

  it("is stopped and disabled when its package is removed", async () => {
    await container.must("dpkg --remove bridgehead");
    expect(await show("LoadState")).not.toBe("loaded");
    await container.must("test -e /var/lib/bridgehead/bridgehead.db");
  });
});
