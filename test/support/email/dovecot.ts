// A real Dovecot: the one of the run, in which each test has users of its own, and private ones that tests start, stop and
// configure.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rename, utimes, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ImapFlow } from "imapflow";
import { sharedByRun } from "../machine/debian.ts";
import { type Certificate, certificate, freePort, listening } from "../machine/network.ts";

const run = promisify(execFile);

export interface DovecotOptions {
  /** Mailbox users; all with the password `secret`. Default: any name. */
  readonly users?: readonly string[];
  /** STARTTLS on the plain port and IMAPS on `tlsPort`, under a self-made certificate. */
  readonly ssl?: boolean | Certificate;
  /** Lets tokens in that this RFC 7662 endpoint calls active: `http://127.0.0.1:…/introspect`. */
  readonly introspectionUrl?: string;
  /** Appended to dovecot.conf. */
  readonly extra?: string;
}

export interface StoredMail {
  readonly uid: number;
  readonly flags: readonly string[];
  readonly raw: string;
}

/** Users and their mailboxes. */
export interface MailStore {
  readonly port: number;
  readonly password: string;
  /** The name under which that user logs in. */
  login(user: string): string;
  /** Puts a mail where a delivery agent would (rename into the maildir's `new`). LF becomes CRLF for the readers.
   *  `arrived` becomes its INTERNALDATE. */
  deliver(user: string, raw: string | Uint8Array, mailbox?: string, arrived?: Date): Promise<void>;
  /** Everything in a mailbox, by UID, through IMAP. */
  list(user: string, mailbox?: string): Promise<StoredMail[]>;
  /** Gives the mailbox another UIDVALIDITY, as a restore from backup does. */
  changeUidValidity(user: string, mailbox?: string): Promise<void>;
  /** Removes one mail. */
  remove(user: string, uid: number, mailbox?: string): Promise<void>;
  /** A connected client, for what is not covered here. Log it out yourself. */
  connect(user: string): Promise<ImapFlow>;
  /** Removes what belongs to this store. */
  dispose(): Promise<void>;
}

/** A server of the test's own. */
export interface Dovecot extends MailStore {
  readonly dir: string;
  readonly tlsPort: number;
  /** PEM of the CA when `ssl`. */
  readonly ca: string | null;
  start(): Promise<void>;
  stop(): Promise<void>;
  restart(): Promise<void>;
  /** What it logged so far. */
  log(): string;
}

/** Users of the server of the run, whom no other test has. It starts with its first use (run.ts). */
export async function sharedDovecot(users: readonly string[]): Promise<MailStore> {
  const { port, dir } = JSON.parse(await sharedByRun("dovecot")) as { port: number; dir: string };
  const suffix = randomBytes(4).toString("hex");
  const store = mailStore(dir, port, users, (user) => `${user}-${suffix}`);
  return {
    ...store,
    async dispose() {
      // The server may still write the index of a connection that has just ended.
      const options = { recursive: true, force: true, maxRetries: 10 };
      for (const user of users) rmSync(join(dir, "mail", store.login(user)), options);
    },
  };
}

/** Starts one and resolves when its port answers. Needs the Debian package `dovecot-imapd`. */
export async function startDovecot(options: DovecotOptions): Promise<Dovecot> {
  const dir = mkdtempSync(join(tmpdir(), "bridgehead-dovecot-"));
  chmodSync(dir, 0o755);
  const [port, tlsPort] = [await freePort(), await freePort()];
  const ssl = options.ssl === true ? certificate() : options.ssl || null;
  writeFileSync(join(dir, "dovecot.conf"), dovecotConfig({ dir, port, tlsPort, owner: mailOwner(), ...options, ssl }));
  let child: ChildProcess | null = null;
  const killed = () => child !== null && signalGroup(child, "SIGKILL");
  process.once("exit", killed);

  async function start(): Promise<void> {
    const started = spawn("/usr/sbin/dovecot", ["-F", "-c", join(dir, "dovecot.conf")], {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
    });
    let complaint = "";
    started.stderr.on("data", (data) => (complaint += data));
    child = started;
    await listening(port, 20_000, () => (started.exitCode === null ? null : `dovecot ended: ${complaint}${log()}`));
  }
  async function stop(): Promise<void> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    // Its master waits seconds for lingering processes; the whole group gets SIGTERM, then SIGKILL.
    signalGroup(running, "SIGTERM");
    const impatient = setTimeout(() => signalGroup(running, "SIGKILL"), 300);
    await ended;
    clearTimeout(impatient);
    signalGroup(running, "SIGKILL");
  }
  const log = (): string => {
    try {
      return readFileSync(join(dir, "dovecot.log"), "utf8");
    } catch {
      return "";
    }
  };

  const store = mailStore(dir, port, options.users ?? []);
  await start();
  return {
    ...store,
    dir,
    tlsPort,
    ca: ssl?.cert ?? null,
    start,
    stop,
    log,
    restart: async () => {
      await stop();
      await start();
    },
    dispose: async () => {
      await stop();
      process.removeListener("exit", killed);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The mailboxes below `dir`, which the server at `port` serves. */
function mailStore(
  dir: string,
  port: number,
  users: readonly string[],
  login: MailStore["login"] = (user) => user,
): Omit<MailStore, "dispose"> {
  const owner = mailOwner();
  let sequence = 0;
  const maildir = (user: string, mailbox: string): string =>
    join(dir, "mail", login(user), mailbox === "INBOX" ? "" : `.${mailbox}`);
  function makeMaildir(user: string, mailbox: string): void {
    const made = maildir(user, mailbox);
    for (const sub of ["cur", "new", "tmp"]) mkdirSync(join(made, sub), { recursive: true });
    for (const path of [join(dir, "mail"), made, ...["cur", "new", "tmp"].map((sub) => join(made, sub))])
      if (process.getuid?.() === 0) chownSync(path, owner.uid, owner.gid);
  }
  for (const user of users) for (const box of ["INBOX", "Sent"]) makeMaildir(user, box);

  async function connect(user: string): Promise<ImapFlow> {
    const client = new ImapFlow({
      host: "127.0.0.1",
      port,
      secure: false,
      doSTARTTLS: false,
      auth: { user: login(user), pass: "secret" },
      logger: false,
    });
    client.on("error", () => {});
    await client.connect();
    return client;
  }
  async function within<T>(user: string, mailbox: string, use: (client: ImapFlow) => Promise<T>): Promise<T> {
    const client = await connect(user);
    try {
      await client.mailboxOpen(mailbox);
      return await use(client);
    } finally {
      await client.logout().catch(() => client.close());
    }
  }
  return {
    port,
    password: "secret",
    login,
    connect,
    deliver: async (user, raw, mailbox = "INBOX", arrived) => {
      const name = `${Date.now()}.${process.pid}_${String(sequence++).padStart(6, "0")}.test`;
      const box = maildir(user, mailbox);
      await writeFile(join(box, "tmp", name), raw, { mode: 0o644 });
      if (arrived !== undefined) await utimes(join(box, "tmp", name), arrived, arrived);
      await rename(join(box, "tmp", name), join(box, "new", name));
    },
    list: (user, mailbox = "INBOX") =>
      within(user, mailbox, async (client) => {
        if (client.mailbox === false || client.mailbox.exists === 0) return [];
        const mails = await client.fetchAll("1:*", { uid: true, flags: true, source: true }, { uid: true });
        return mails
          .map((m) => ({ uid: m.uid, flags: [...(m.flags ?? [])], raw: m.source?.toString("latin1") ?? "" }))
          .sort((a, b) => a.uid - b.uid);
      }),
    changeUidValidity: async (user, mailbox = "INBOX") => {
      const value = String(Math.floor(Date.now() / 1000) + 1000 + sequence++);
      const update = ["mailbox", "update", "--uid-validity", value, "-u", login(user), mailbox];
      await run("doveadm", ["-c", join(dir, "dovecot.conf"), ...update]);
    },
    remove: (user, uid, mailbox = "INBOX") =>
      within(user, mailbox, async (client) => void (await client.messageDelete(String(uid), { uid: true }))),
  };
}

/** Dovecot refuses to handle mail as root, so root hands it to Debian's `mail` user. */
function mailOwner(): { uid: number; gid: number; name: string } {
  const me = userInfo();
  return me.uid === 0 ? { uid: 8, gid: 8, name: "mail" } : { uid: me.uid, gid: me.gid, name: me.username };
}

function signalGroup(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // Already gone.
  }
}

// The text of dovecot.conf for one private instance (Dovecot 2.3).

interface Instance {
  readonly dir: string;
  readonly port: number;
  readonly tlsPort: number;
  readonly owner: { readonly uid: number; readonly gid: number; readonly name: string };
  readonly users?: readonly string[];
  readonly ssl: Certificate | null;
  readonly introspectionUrl?: string;
  readonly extra?: string;
}

/** Also writes the files it refers to into `dir`. */
function dovecotConfig(instance: Instance): string {
  const { dir, owner } = instance;
  mkdirSync(join(dir, "mail"), { recursive: true });
  const { users } = instance;
  if (users !== undefined) writeFileSync(join(dir, "users"), users.map((user) => `${user}:{PLAIN}secret\n`).join(""));
  const asUser = process.getuid?.() !== 0;
  return `
base_dir = ${dir}/run
state_dir = ${dir}/state
log_path = ${dir}/dovecot.log
protocols = imap
listen = 127.0.0.1
${asUser ? `default_internal_user = ${owner.name}\ndefault_login_user = ${owner.name}\n` : ""}
mail_location = maildir:${dir}/mail/%u
mail_uid = ${owner.uid}
mail_gid = ${owner.gid}
first_valid_uid = 1
mail_fsync = never
disable_plaintext_auth = no
auth_mechanisms = plain login${instance.introspectionUrl ? " xoauth2 oauthbearer" : ""}
auth_failure_delay = 0
auth_verbose = yes
imap_idle_notify_interval = 30s
mail_max_userip_connections = 1000
service anvil {
  chroot =
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service imap-login {
  chroot =
  inet_listener imap {
    port = ${instance.port}
  }
  inet_listener imaps {
    port = ${instance.ssl ? instance.tlsPort : 0}
    ssl = yes
  }
}
${tls(instance)}
namespace inbox {
  inbox = yes
  separator = .
  mailbox Sent {
    auto = subscribe
    special_use = \\Sent
  }
}
${oauth2(instance)}
passdb {
  ${users === undefined ? "driver = static\n  args = password=secret" : `driver = passwd-file\n  args = ${dir}/users`}
}
userdb {
  driver = static
  args = uid=${owner.uid} gid=${owner.gid} home=${dir}/mail/%u
}
${instance.extra ?? ""}
`;
}

function tls({ dir, ssl }: Instance): string {
  if (ssl === null) return "ssl = no\n";
  writeFileSync(join(dir, "cert.pem"), ssl.cert);
  writeFileSync(join(dir, "key.pem"), ssl.key, { mode: 0o600 });
  return `ssl = yes\nssl_cert = <${dir}/cert.pem\nssl_key = <${dir}/key.pem\n`;
}

function oauth2({ dir, introspectionUrl }: Instance): string {
  if (introspectionUrl === undefined) return "";
  const file = join(dir, "oauth2.conf.ext");
  writeFileSync(
    file,
    `introspection_url = ${introspectionUrl}
introspection_mode = post
username_attribute = username
active_attribute = active
active_value = true
use_grant_password = no
`,
  );
  return `passdb {\n  driver = oauth2\n  mechanisms = xoauth2 oauthbearer\n  args = ${file}\n}\n`;
}
