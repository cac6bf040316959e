// What both contestants run against: one IMAP server, one platform, one SMTP sink, and the ledger of what was answered.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { startMailServer } from "../../src/sandbox/mail-server.ts";
import { need } from "../real/debian.ts";
import { startDovecot } from "../real/dovecot.ts";
import type { Surroundings } from "./contestant.ts";
import type { PeersMessage } from "./peers.ts";

/** Milliseconds on the one clock that all processes of a machine share. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export interface Tally {
  readonly lost: number;
  readonly duplicated: number;
}

/** What became of a set of mails. */
export interface Ledger extends Tally {
  /** When each was answered first, by Message-ID. */
  readonly answered: ReadonlyMap<string, number>;
}

export interface Rig {
  readonly imap: string;
  /** Surroundings with `count` mailboxes nobody has used; null when the server does not have so many. */
  surroundings(count?: number): Surroundings | null;
  deliver(user: string, raw: string): Promise<void>;
  /** From now on the platform answers a question after so many milliseconds. */
  answerAfter(ms: number): void;
  /** Watches the answers to these mails from now on. Resolves when each has one, or when nothing has come for long;
   *  and a little later, so that a second answer is seen. */
  watch(ids: readonly string[]): Promise<Ledger>;
  close(): Promise<void>;
}

const mailboxes = 300;
const patienceMs = 20_000;
const afterwardsMs = 300;

export async function startRig(): Promise<Rig> {
  const peers = fork(fileURLToPath(new URL("./peers.ts", import.meta.url)), { stdio: "inherit" });
  const [ports] = (await once(peers, "message")) as [PeersMessage];
  if (ports.kind !== "listening") throw new Error("the peers did not say where they listen");
  const server = await startImap();
  let used = 0;
  let asked = 0;
  peers.on("message", (message: PeersMessage) => {
    if (message.kind === "news") ({ asked } = message);
  });
  return {
    imap: server.name,
    surroundings: (count = 1) => {
      if (used + count > server.users.length) return null;
      const users = server.users.slice(used, used + count);
      used += count;
      return { imapPort: server.port, smtpPort: ports.smtp, httpPort: ports.http, users };
    },
    deliver: (user, raw) => server.deliver(user, raw),
    answerAfter: (ms) => void peers.send({ answerAfter: ms }),
    watch: (ids) => watch(peers, ids, asked),
    close: async () => {
      peers.disconnect();
      await server.close();
    },
  };
}

interface Imap {
  readonly name: string;
  readonly port: number;
  readonly users: readonly string[];
  deliver(user: string, raw: string): Promise<void>;
  close(): Promise<void>;
}

async function startImap(): Promise<Imap> {
  const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
  const users = Array.from({ length: mailboxes }, (_, n) => `box${n}`);
  if (missing === null) {
    const dovecot = await startDovecot({ users });
    return {
      name: "Dovecot",
      port: dovecot.port,
      users,
      deliver: (user, raw) => dovecot.deliver(user, raw),
      close: () => dovecot.dispose(),
    };
  }
  return startSandbox(missing);
}

/** A server holds one mailbox, so each measurement takes the same one; a mail of an earlier run is not new to a later. */
async function startSandbox(missing: string): Promise<Imap> {
  const user = "support@example.com";
  const sandbox = await startMailServer({ address: user, password: "secret", others: () => {} });
  return {
    name: `the sandbox's server (${missing})`,
    port: sandbox.imapPort,
    users: Array.from({ length: 40 }, () => user),
    deliver: async (_user, raw) => sandbox.deliver(raw.replaceAll("\n", "\r\n")),
    close: () => sandbox.close(),
  };
}

function watch(peers: ChildProcess, ids: readonly string[], askedBefore: number): Promise<Ledger> {
  const open = new Set(ids);
  const answered = new Map<string, number>();
  let duplicated = 0;
  let asked = 0;
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      peers.off("message", hear);
      // A question put twice is as bad as a mail sent twice.
      resolve({ answered, lost: open.size, duplicated: duplicated + Math.max(0, asked - ids.length) });
    };
    let timer = setTimeout(end, patienceMs);
    const hear = (message: PeersMessage) => {
      if (message.kind !== "news") return;
      asked = message.asked - askedBefore;
      for (const [id, at] of message.replies) {
        if (open.delete(id)) answered.set(id, at);
        else duplicated += 1;
      }
      clearTimeout(timer);
      timer = setTimeout(end, open.size === 0 ? afterwardsMs : patienceMs);
    };
    peers.on("message", hear);
  });
}
