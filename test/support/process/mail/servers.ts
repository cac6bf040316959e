// The servers around the daemon: a mail store, a mail relay, a platform and its model. They run in the test's own
// process and survives every death of the daemon, so its logs can be held against the daemon's store.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Platform } from "../../../../src/platform/index.ts";
import { type Dovecot, startDovecot } from "../../email/dovecot.ts";
import { type ReceivedMail, type SmtpPeer, startSmtpPeer } from "../../email/smtp-server.ts";
import { bodyServer, listen } from "../../machine/network.ts";
import { startPlatformOf } from "../../platform/platform.ts";

export const agentKeys = { prompt: "prompt-key-1", late: "late-key-2" };
export interface MailTestServers {
  /** What the agent `late` waits before its answers go out. */
  readonly lateSeconds: number;
  readonly dovecot: Dovecot;
  readonly platform: Platform;
  /** GET below /external/, under an agent's key. */
  read(agent: Agent, path: string): Promise<{ readonly status: number; readonly body: unknown }>;
  close(): Promise<void>;
}
export type Agent = keyof typeof agentKeys;

/** One mail store and one platform for many places. */
export async function startMailServers(users: readonly string[], lateSeconds = 25): Promise<MailTestServers> {
  const dovecot = await startDovecot({ users });
  const model = await startModel();
  const agent = (name: Agent, delay: number) => `
  ${name}:
    key: ${agentKeys[name]}
    model: { url: "${model.url}/v1", name: echo }
    skills:
      email: { email: support@bridge.test, emailSignature: The Bridge, responseDelaySeconds: ${delay} }`;
  const platform = await startPlatformOf(
    `organization: { name: Acme }\nagents:${agent("prompt", 0)}${agent("late", lateSeconds)}\n`,
  );
  return {
    lateSeconds,
    dovecot,
    platform,
    async read(agent_, path) {
      const response = await fetch(`${platform.url}/external/${path}`, {
        headers: { "agent-secret-key": agentKeys[agent_] },
      });
      return { status: response.status, body: await response.json() };
    },
    async close() {
      await platform.close();
      await model.close();
      await dovecot.dispose();
    },
  };
}

/** Answers every question with the tags it finds in it; at length where one of them is `long`. */
export async function startModel(): Promise<Served> {
  const server = bodyServer((body, response) => {
    const { messages } = JSON.parse(body) as { messages: { content: string }[] };
    const question = messages.at(-1)?.content ?? "";
    const tags = question.match(anyTag) ?? [tagIn(question)];
    const sentence = `This is the answer to ${tags.join(" and ")}.`;
    const content = tags.some((tag) => tag?.includes("long")) ? `${sentence} `.repeat(12) : sentence;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content } }] }));
  });
  return serve(server);
}

/** Stands before the platform and keeps the answers to questions back until they are let go, then and later. */
async function startDetour(to: string): Promise<Served & { underway(): number; release(): void }> {
  let underway = 0;
  const gate = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => void forward(Buffer.concat(chunks)));
    async function forward(body: Buffer): Promise<void> {
      const { method = "GET", url = "/", headers } = request;
      const key = String(headers["agent-secret-key"]);
      const asked = method === "POST" && url.endsWith("/messages");
      if (asked) underway += 1;
      const answer = await fetch(`${to}${url}`, {
        method,
        headers: { "agent-secret-key": key, "content-type": "application/json" },
        ...(method === "POST" ? { body: body.toString() } : {}),
      });
      const text = await answer.text();
      if (asked) await gate.promise;
      response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
      if (asked) underway -= 1;
    }
  });
  return { ...(await serve(server)), underway: () => underway, release: () => gate.resolve() };
}

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

async function serve(server: Server): Promise<Served> {
  const url = await listen(server);
  return {
    url,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

export interface MailSetupOptions {
  readonly user: string;
  readonly agent?: Agent;
  readonly onUnknown?: "hold" | "resend";
  readonly opening?: "start" | "create";
  /** Marks by moving to Archive instead of by keyword. */
  readonly move?: boolean;
  /** `none`: no marks at all. Default: as `move` says. */
  readonly mark?: "none" | "usual";
  /** Mail to people whose name begins with `bert` bounces. */
  readonly bounces?: boolean;
  /** Keeps copies in Sent, where a later look finds them. */
  readonly copies?: boolean;
  /** The relay resets the line after this many final dots. */
  readonly resets?: number;
  /** The platform's answers to questions are on the way until the place lets them go. */
  readonly slow?: boolean;
  /** How long a call may take. */
  readonly timeout?: string;
  /** URL of a PostgreSQL schema for the store; by default it is a SQLite file. */
  readonly postgres?: string | null;
}

/** One mailbox with its relay, its people, and the folder of the daemon that serves it. */
export interface MailSetup {
  readonly servers: MailTestServers;
  readonly options: Required<MailSetupOptions>;
  readonly peer: SmtpPeer;
  readonly config: string;
  /** SQLite file, or URL of the PostgreSQL schema. */
  readonly store: string;
  readonly env: Readonly<Record<string, string>>;
  /** What was put into the mailbox, in this order. Only grows. */
  readonly letters: readonly (Letter & { readonly at: number })[];
  /** True when the mail cannot be delivered, so that a bounce is returned. */
  bouncing(mail: ReceivedMail): boolean;
  /** Bounces put into the mailbox so far. */
  bounced(): number;
  /** Questions whose answer is still on its way to the daemon; always 0 unless `slow`. */
  underway(): number;
  /** Lets those answers go, and all later ones. */
  letGo(): void;
  /** How often the relay fell silent after a final dot. */
  faults(): number;
  deliver(...letters: Letter[]): Promise<void>;
  close(): Promise<void>;
}

export async function openMailSetup(servers: MailTestServers, given: MailSetupOptions): Promise<MailSetup> {
  const options: Required<MailSetupOptions> = {
    agent: "prompt",
    onUnknown: "resend",
    opening: "start",
    move: false,
    mark: "usual",
    bounces: true,
    copies: true,
    resets: 0,
    slow: false,
    timeout: "20s",
    postgres: null,
    ...given,
  };
  const { user } = options;
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-place-"));
  const letters: (Letter & { at: number })[] = [];
  let bounced = 0;
  const bouncing = (mail: ReceivedMail) => options.bounces && mail.to.some((address) => address.startsWith("bert"));
  const peer = await startSmtpPeer({
    deliver: async (mail) => {
      if (!bouncing(mail)) return;
      bounced += 1;
      await servers.dovecot.deliver(user, rawBounce(mail, bounced));
    },
  });
  if (options.resets > 0) peer.fail("dot", { kind: "reset" }, options.resets);
  if (options.move) {
    const client = await servers.dovecot.connect(user);
    await client.mailboxCreate("Archive");
    await client.logout();
  }
  const detour = options.slow ? await startDetour(servers.platform.url) : null;
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(config, configFile(detour?.url ?? servers.platform.url, servers.dovecot, peer, options));
  return {
    servers,
    options,
    peer,
    config,
    store: options.postgres ?? join(folder, "bridgehead.db"),
    env: { AGENT_KEY: agentKeys[options.agent], MAIL_PASSWORD: servers.dovecot.password },
    letters,
    bouncing,
    bounced: () => bounced,
    underway: () => detour?.underway() ?? 0,
    letGo: () => detour?.release(),
    faults: () => Math.min(options.resets, peer.arrived.length),
    async deliver(...added) {
      for (const one of added) {
        letters.push({ ...one, at: Date.now() });
        await servers.dovecot.deliver(user, rawLetter(one));
      }
    },
    async close() {
      await peer.close();
      await detour?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configFile(platform: string, dovecot: Dovecot, peer: SmtpPeer, options: Required<MailSetupOptions>): string {
  const usual = options.move ? "mark: { with: move, folder: Archive }" : "mark: { with: keyword }";
  const mark = options.mark === "none" ? "mark: { with: none }" : usual;
  return `
platform: { url: "${platform}", timeout: ${options.timeout}, absent_after: 1s, rate: { requests: 100000, per: 60s } }
agents: { support: { key: "\${env:AGENT_KEY}" } }
channels:
  mail:
    adapter: email
    agent: support
    address: support@bridge.test
    imap: { host: 127.0.0.1, port: ${dovecot.port}, tls: none, user: ${options.user}, password: "\${env:MAIL_PASSWORD}", poll: 10s }
    smtp: { host: 127.0.0.1, port: ${peer.port}, tls: none, login: false }
    first_start: { history: 1h }
    sent_folder: ${options.copies ? "auto" : "none"}
    opening: ${options.opening}
    on_unknown: ${options.onUnknown}
    unknown_window: 300ms
    caps: { sender: [], conversation: [], channel: [] }
    ${mark}
http: { listen: "127.0.0.1:0" }
store: ${JSON.stringify(options.postgres ?? "sqlite:bridgehead.db")}
log: { level: debug, format: json }
`;
}

// What people and mail servers write: letters with their place in a thread, and bounces.

/** A mail of a person. `tag` is a word that occurs in no other letter; the agent repeats it in its answer. */
export interface Letter {
  readonly id: string;
  readonly person: string;
  readonly tag: string;
  readonly subject: string;
  /** Ids of earlier letters of the thread, oldest first. */
  readonly earlier: readonly string[];
}

/** The `number`-th letter (from 0) of a person; all letters of one person are one thread. */
export function letter(person: string, number: number): Letter {
  const [name = ""] = person.split("@");
  const id = (n: number) => `<${name}.${n}@people.test>`;
  return {
    id: id(number),
    person,
    tag: `tag-${name}-${number}`,
    subject: number === 0 ? `About ${name}` : `Re: About ${name}`,
    earlier: Array.from({ length: number }, (_, n) => id(n)),
  };
}

function rawLetter({ id, person, tag, subject, earlier }: Letter): string {
  return [
    `From: ${person}`,
    "To: support@bridge.test",
    `Subject: ${subject}`,
    `Message-ID: ${id}`,
    `Date: ${new Date().toUTCString()}`,
    ...(earlier.length > 0 ? [`In-Reply-To: ${earlier.at(-1)}`, `References: ${earlier.slice(-10).join("\n ")}`] : []),
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "",
    `Please say something about ${tag} today.`,
    "",
  ].join("\n");
}

const anyTag = /tag-[a-z0-9-]+-\d+/g;

/** The word by which a text belongs to a letter. */
export const tagIn = (text: string): string | null => /tag-[a-z0-9-]+-\d+/.exec(text)?.[0] ?? null;

/** A header's value, unfolded; "" without one. */
export function header(raw: string, name: string): string {
  const head = raw.slice(0, raw.search(/\r?\n\r?\n/)).replace(/\r?\n[ \t]+/g, " ");
  return new RegExp(`^${name}:[ \\t]*(.*)$`, "im").exec(head)?.[1]?.trim() ?? "";
}

/** A delivery report (RFC 3464) of a permanent failure. */
function rawBounce(mail: ReceivedMail, number: number): string {
  return [
    "From: Mail Delivery System <MAILER-DAEMON@people.test>",
    "To: support@bridge.test",
    "Subject: Undelivered Mail Returned to Sender",
    `Message-ID: <bounce.${number}.${mail.messageId.slice(1, -1)}>`,
    `Date: ${new Date().toUTCString()}`,
    "Auto-Submitted: auto-replied",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=delivery-status; boundary="cut"',
    "",
    "--cut",
    "Content-Type: text/plain",
    "",
    `<${mail.to[0]}>: user unknown`,
    "--cut",
    "Content-Type: message/delivery-status",
    "",
    "Reporting-MTA: dns; mx.people.test",
    "",
    `Final-Recipient: rfc822; ${mail.to[0]}`,
    "Action: failed",
    "Status: 5.1.1",
    "Diagnostic-Code: smtp; 550 5.1.1 user unknown",
    "",
    "--cut",
    "Content-Type: text/rfc822-headers",
    "",
    `Message-ID: ${mail.messageId}`,
    `From: ${mail.from}`,
    `To: ${mail.to[0]}`,
    "",
    "--cut--",
    "",
  ].join("\n");
}

/** Returns a generator of numbers in [0, 1), the same ones for the same seed (mulberry32). */

export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a function that gives a number in [0, 1) for a text: the same one for the same seed, whatever runs at once, and
 *  another one each time. */
export function luck(seed: number): (what: string) => number {
  const tries = new Map<string, number>();
  return (what) => {
    const count = (tries.get(what) ?? 0) + 1;
    tries.set(what, count);
    let hash = seed * 31 + count;
    for (const letter of what) hash = (Math.imul(hash, 16777619) ^ letter.charCodeAt(0)) | 0;
    return generator(hash)();
  };
}
