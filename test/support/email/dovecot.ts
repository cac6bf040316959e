// A real Dovecot on private ports and directories: started, stopped, restarted and looked into by tests.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rename, utimes, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ImapFlow } from "imapflow";
import { type Certificate, certificate, freePort, listening } from "../machine/network.ts";

const run = promisify(execFile);

export interface DovecotOptions {
  /** Mailbox users; all with the password `secret`. */
  readonly users: readonly string[];
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

export interface Dovecot {
  readonly port: number;
  readonly tlsPort: number;
  /** PEM of the CA when `ssl`. */
  readonly ca: string | null;
  readonly password: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  restart(): Promise<void>;
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
  /** What it logged so far. */
  log(): string;
  /** Stops it and removes its directories. */
  dispose(): Promise<void>;
}

/** Starts one and resolves when its port answers. Needs the Debian package `dovecot-imapd`. */
export async function startDovecot(options: DovecotOptions): Promise<Dovecot> {
  const dir = mkdtempSync(join(tmpdir(), "bridgehead-dovecot-"));
  chmodSync(dir, 0o755);
  const owner = mailOwner();
  const [port, tlsPort] = [await freePort(), await freePort()];
  const ssl = options.ssl === true ? certificate() : options.ssl || null;
  const configFile = join(dir, "dovecot.conf");
  writeFileSync(configFile, dovecotConfig({ dir, port, tlsPort, owner, ...options, ssl }));
  for (const user of options.users) for (const box of ["INBOX", "Sent"]) makeMaildir(user, box);
  let child: ChildProcess | null = null;
  let sequence = 0;
  process.once("exit", () => child !== null && signalGroup(child, "SIGKILL"));

  function maildir(user: string, mailbox: string): string {
    const root = join(dir, "mail", user);
    return mailbox === "INBOX" ? root : join(root, `.${mailbox}`);
  }
  function makeMaildir(user: string, mailbox: string): void {
    const made = maildir(user, mailbox);
    for (const sub of ["cur", "new", "tmp"]) mkdirSync(join(made, sub), { recursive: true });
    for (const path of [join(dir, "mail"), made, ...["cur", "new", "tmp"].map((sub) => join(made, sub))])
      if (process.getuid?.() === 0) chownSync(path, owner.uid, owner.gid);
  }

  async function start(): Promise<void> {
    const started = spawn("/usr/sbin/dovecot", ["-F", "-c", configFile], {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
    });
    let complaint = "";
    started.stderr.on("data", (data) => (complaint += data));
    child = started;
    await listening(port, 20_000, () =>
      started.exitCode === null ? null : `dovecot ended: ${complaint}${log()}`,
    );
  }
  async function stop(): Promise<void> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    // Its master waits seconds for processes that linger; the whole group is told, then made, to go.
    signalGroup(running, "SIGTERM");
    const impatient = setTimeout(() => signalGroup(running, "SIGKILL"), 300);
    await ended;
    clearTimeout(impatient);
    signalGroup(running, "SIGKILL");
  }
  async function connect(user: string): Promise<ImapFlow> {
    const client = new ImapFlow({
      host: "127.0.0.1",
      port,
      secure: false,
      doSTARTTLS: false,
      auth: { user, pass: "secret" },
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
  const log = (): string => {
    try {
      return readFileSync(join(dir, "dovecot.log"), "utf8");
    } catch {
      return "";
    }
  };

  await start();
  return {
    port,
    tlsPort,
    ca: ssl?.cert ?? null,
    password: "secret",
    start,
    stop,
    connect,
    log,
    restart: async () => {
      await stop();
      await start();
    },
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
      await run("doveadm", [
        "-c",
        configFile,
        "mailbox",
        "update",
        "--uid-validity",
        value,
        "-u",
        user,
        mailbox,
      ]);
    },
    remove: (user, uid, mailbox = "INBOX") =>
      within(user, mailbox, async (client) => void (await client.messageDelete(String(uid), { uid: true }))),
    dispose: async () => {
      await stop();
      rmSync(dir, { recursive: true, force: true });
    },
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
  readonly users: readonly string[];
  readonly ssl: Certificate | null;
  readonly introspectionUrl?: string;
  readonly extra?: string;
}

/** Also writes the files it refers to into `dir`. */
function dovecotConfig(instance: Instance): string {
  const { dir, owner } = instance;
  mkdirSync(join(dir, "mail"), { recursive: true });
  writeFileSync(join(dir, "users"), instance.users.map((user) => `${user}:{PLAIN}secret\n`).join(""));
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
  driver = passwd-file
  args = ${dir}/users
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
