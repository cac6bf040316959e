// The servers that email subjects connect to: one IMAP server, one platform and one SMTP server; and the record of replies.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { startMailServer } from "../../../src/sandbox/mail-server.ts";
import { startDovecot } from "../../support/email/dovecot.ts";
import { need } from "../../support/machine/debian.ts";
import type { Tally } from "../clock.ts";
import type { Surroundings } from "../subject.ts";
import type { PeersMessage, PeersOrder, Transactions } from "./peers.ts";

/** The replies to a set of emails. */
export interface Replies extends Tally {
  /** Time of the first reply in `clock` milliseconds, by Message-ID. */
  readonly answered: ReadonlyMap<string, number>;
}

export interface MailServers {
  readonly imap: string;
  /** Surroundings with `count` unused mailboxes. Throws when the server has no more. */
  surroundings(count?: number): Surroundings;
  deliver(user: string, raw: string): Promise<void>;
  /** Watches the replies to these emails. Resolves shortly after each has one, so that a second reply is seen, or when
   *  nothing has arrived for 20 seconds. */
  watch(ids: readonly string[]): Promise<Replies>;
  /** Delays each reply of the SMTP server by `ms`. */
  delaySmtp(ms: number): void;
  /** Delays each answer of the platform by `ms`. */
  delayAnswers(ms: number): void;
  /** Changes the platform's answer to every later question; null: to the usual one. */
  answerWith(text: string | null): void;
  /** SMTP transactions since the last `forgetTransactions`. */
  transactions(): Promise<Transactions>;
  forgetTransactions(): void;
  close(): Promise<void>;
}

const mailboxes = 300;
const patienceMs = 20_000;
const afterwardsMs = 300;

export async function startMailServers(): Promise<MailServers> {
  const peers = fork(fileURLToPath(new URL("./peers.ts", import.meta.url)), { stdio: "inherit" });
  const [ports] = (await once(peers, "message")) as [PeersMessage];
  if (ports.kind !== "listening") throw new Error("the peers did not report their ports");
  const server = await startImap();
  let used = 0;
  let asked = 0;
  peers.on("message", (message: PeersMessage) => {
    if (message.kind === "news") ({ asked } = message);
  });
  const order = (message: PeersOrder) => peers.send(message);
  return {
    imap: server.name,
    surroundings: (count = 1) => {
      if (used + count > server.users.length) throw new Error("the IMAP server has no more unused mailboxes");
      const users = server.users.slice(used, used + count);
      used += count;
      return { imapPort: server.port, smtpPort: ports.smtp, httpPort: ports.http, users };
    },
    deliver: (user, raw) => server.deliver(user, raw),
    watch: (ids) => watch(peers, ids, asked),
    delayAnswers: (ms) => void order({ kind: "answerAfter", ms }),
    answerWith: (text) => void order({ kind: "answerWith", text }),
    delaySmtp: (ms) => void order({ kind: "delay", ms }),
    transactions: () =>
      new Promise((resolve) => {
        const read = (message: PeersMessage) => {
          if (message.kind !== "transactions") return;
          peers.off("message", read);
          resolve(message);
        };
        peers.on("message", read);
        order({ kind: "transactions" });
      }),
    forgetTransactions: () => void order({ kind: "forget" }),
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

/** The sandbox has one mailbox, so all measurements use it; emails of earlier runs are not new to a later one. */
async function startSandbox(missing: string): Promise<Imap> {
  const user = "support@example.com";
  const sandbox = await startMailServer({ address: user, password: "secret", others: () => {} });
  return {
    name: `the sandbox's server (${missing})`,
    port: sandbox.imapPort,
    users: Array.from({ length: 40 }, () => user),
    deliver: async (_user, raw) => void sandbox.deliver(raw.replaceAll("\n", "\r\n")),
    close: () => sandbox.close(),
  };
}

function watch(peers: ChildProcess, ids: readonly string[], askedBefore: number): Promise<Replies> {
  const open = new Set(ids);
  const answered = new Map<string, number>();
  let duplicated = 0;
  let asked = 0;
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      peers.off("message", read);
      // A question that is asked twice counts like a reply that is sent twice.
      resolve({ answered, lost: open.size, duplicated: duplicated + Math.max(0, asked - ids.length) });
    };
    let timer = setTimeout(end, patienceMs);
    const read = (message: PeersMessage) => {
      if (message.kind !== "news") return;
      asked = message.asked - askedBefore;
      for (const [id, at] of message.replies) {
        if (open.delete(id)) answered.set(id, at);
        else duplicated += 1;
      }
      clearTimeout(timer);
      timer = setTimeout(end, open.size === 0 ? afterwardsMs : patienceMs);
    };
    peers.on("message", read);
  });
}
