// The oracle. It compares the logs of the servers (what the relay took, what the platform was asked, what lies in the
// mailboxes) against the store, read after the daemon has ended. The daemon is never asked.

import Database from "better-sqlite3";
import { Pool, types } from "pg";
import type { ReceivedMail } from "../../email/smtp-server.ts";
import { header, type Letter, type MailSetup, tagIn } from "./servers.ts";

export type Invariant =
  | "lost" // a letter without an answer
  | "asked-twice" // a question more than once on the platform
  | "stray-conversation" // the platform opened one that nobody uses
  | "sent-twice" // an answer more often than the policy and the recorded attempts allow
  | "changed-id" // a second copy of an answer under another Message-ID
  | "wrong-thread"
  | "order"
  | "too-early"
  | "held" // not the number of held drafts that the policy asks for
  | "phantom" // the store says sent, the relay has nothing, or the other way round
  | "bounce" // a bounce that was not matched to its draft
  | "copied-twice" // two copies in Sent
  | "unmarked" // a mail that was read and looks as if nobody had
  | "damaged" // the database file
  | "unsettled"; // something is neither done nor held

export interface Violation {
  readonly invariant: Invariant;
  readonly detail: string;
}

export interface Allowed {
  /** Ids of drafts that were between crossing and recorded outcome at a death, once for each death. Null: unknown, so
   *  that the recorded attempts alone excuse second copies. */
  readonly crossed: readonly string[] | null;
  /** Drafts that must be held; null: any number. */
  readonly held: number | null;
  /** Nodes that were killed: on PostgreSQL their leases remain in lanes without work. */
  readonly killed?: readonly string[];
}

interface Draft {
  readonly id: string;
  readonly state: string;
  readonly external_id: string | null;
  readonly unknown: number;
  readonly attempts: number;
  readonly body: string;
}

/** Everything that is wrong; empty when all is well. */
export async function violations(setup: MailSetup, allowed: Allowed): Promise<Violation[]> {
  const found: Violation[] = [];
  const say = (invariant: Invariant, detail: string) => void found.push({ invariant, detail });
  const drafts = await readStore(setup, allowed.killed ?? [], say);
  checkAnswers(setup, drafts, allowed, say);
  checkOrder(setup, say);
  checkDrafts(setup, drafts, allowed, say);
  await checkPlatform(setup, say);
  await checkSent(setup, say);
  await checkMarks(setup, say);
  return found;
}

type Say = (invariant: Invariant, detail: string) => void;

const answersTo = (setup: MailSetup, letter: Letter): ReceivedMail[] =>
  setup.peer.accepted.filter((mail) => header(mail.raw, "in-reply-to") === letter.id);

async function readStore(setup: MailSetup, killed: readonly string[], say: Say): Promise<Draft[]> {
  for (const damage of await damageOf(setup.store)) say("damaged", damage);
  const open = await readStored<{ what: string; id: string; state: string; holder: string | null }>(
    setup.store,
    `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state, NULL AS holder FROM events WHERE state IN ('stored', 'failed', 'held')
     UNION ALL SELECT 'turn', id, state, NULL FROM turns WHERE state <> 'answered'
     UNION ALL SELECT 'reply', id, state, NULL FROM replies WHERE state <> 'composed'
     UNION ALL SELECT 'draft', id, state, NULL FROM drafts WHERE state NOT IN ('sent', 'delivered', 'failed', 'held')
     UNION ALL SELECT 'lane', id, 'leased', holder FROM lanes WHERE lease_until > 0`,
  );
  for (const { what, id, state, holder } of open)
    if (holder === null || !killed.includes(holder)) say("unsettled", `${what} ${id} is ${state}`);
  const bounces = await readStored<{ state: string; code: string | null }>(
    setup.store,
    "SELECT state, code FROM events WHERE kind = 'delivery' AND COALESCE(code, '') <> 'duplicate'",
  );
  for (const { state, code } of bounces) if (state !== "routed") say("bounce", `${state} ${code}`);
  if (bounces.length !== setup.bounced()) say("bounce", `${bounces.length} of ${setup.bounced()} stored`);
  return readStored<Draft>(
    setup.store,
    `SELECT id, state, external_id, body,
       (SELECT COUNT(*) FROM attempts WHERE subject = drafts.id) AS attempts,
       (SELECT COUNT(*) FROM attempts WHERE subject = drafts.id AND outcome = 'unknown') AS unknown
     FROM drafts`,
  );
}

function checkAnswers(setup: MailSetup, drafts: readonly Draft[], allowed: Allowed, say: Say): void {
  const held = new Set(drafts.filter((draft) => draft.state === "held").map((draft) => tagIn(draft.body) ?? ""));
  for (const letter of setup.letters) {
    const answers = answersTo(setup, letter);
    if (answers.length === 0 && !held.has(letter.tag)) say("lost", `no answer to ${letter.tag}`);
    const ids = new Set(answers.map((mail) => mail.messageId));
    const drafted = drafts.filter(({ id }) => [...ids].some((messageId) => messageId.includes(id)));
    if (drafted.length > 1) say("sent-twice", `${letter.tag} was answered by ${drafted.length} drafts`);
    else if (ids.size > 1) say("changed-id", `${letter.tag} was answered under ${[...ids].join(" and ")}`);
    for (const answer of answers) checkThread(setup, letter, answer, say);
  }
  checkCrossings(setup, drafts, allowed, say);
  const strays = setup.peer.arrived.filter(
    (mail) => !setup.letters.some((letter) => header(mail.raw, "in-reply-to") === letter.id),
  );
  for (const mail of strays) say("wrong-thread", `${mail.messageId} answers no letter`);
}

/** How often the final dot of each answer reached the relay, also when it was answered badly or not at all. */
function checkCrossings(setup: MailSetup, drafts: readonly Draft[], { crossed }: Allowed, say: Say): void {
  const { arrived } = setup.peer;
  for (const id of new Set(arrived.map((mail) => mail.messageId))) {
    const times = arrived.filter((mail) => mail.messageId === id).length;
    const draft = drafts.find((one) => id.includes(one.id));
    const unknown = draft?.unknown ?? 0;
    const deaths = crossed?.filter((one) => one === draft?.id).length ?? unknown;
    // A relay that fell silent after the dot is no death, but as unknown.
    const excused = setup.options.onUnknown === "hold" ? 0 : Math.min(unknown, deaths + setup.faults());
    if (times > 1 + excused) say("sent-twice", `${id} crossed ${times} times, excused are ${excused}`);
  }
}

function checkThread(setup: MailSetup, letter: Letter, answer: ReceivedMail, say: Say): void {
  const wrong = (what: string) => say("wrong-thread", `${letter.tag}: ${what}`);
  if (answer.to.join() !== letter.person) wrong(`went to ${answer.to.join()}`);
  if (tagIn(answer.raw) !== letter.tag) wrong(`answers ${tagIn(answer.raw)}`);
  const references = header(answer.raw, "references").split(/\s+/);
  if (references.at(-1) !== letter.id) wrong("References do not end with the letter");
  const root = letter.earlier.length < 10 ? letter.earlier[0] : undefined;
  if (root !== undefined && !references.includes(root)) wrong("References lack the thread's first letter");
  if (!answer.raw.includes("The Bridge")) wrong("the signature is missing");
  const written = setup.letters.find((one) => one.id === letter.id)?.at ?? 0;
  const wait = setup.options.agent === "late" ? setup.servers.lateSeconds * 1000 : 0;
  if (answer.at < written + wait) say("too-early", `${letter.tag} after ${answer.at - written} ms`);
}

/** Within each thread the first copies arrive in the order of the letters. */
function checkOrder(setup: MailSetup, say: Say): void {
  for (const [person, letters] of threads(setup)) {
    const firsts = letters.map((letter) => setup.peer.accepted.findIndex((mail) => answers(mail, letter)));
    const sent = firsts.filter((index) => index >= 0);
    if (sent.some((index, n) => n > 0 && index < (sent[n - 1] ?? 0)))
      say("order", `answers to ${person}: ${sent.join()}`);
  }
}

const answers = (mail: ReceivedMail, letter: Letter) => header(mail.raw, "in-reply-to") === letter.id;

function threads(setup: MailSetup): Map<string, Letter[]> {
  const byPerson = new Map<string, Letter[]>();
  for (const letter of setup.letters) byPerson.set(letter.person, [...(byPerson.get(letter.person) ?? []), letter]);
  return byPerson;
}

function checkDrafts(setup: MailSetup, drafts: readonly Draft[], { held }: Allowed, say: Say): void {
  const count = drafts.filter((draft) => draft.state === "held").length;
  if (held !== null && count !== held) say("held", `${count} drafts are held, not ${held}`);
  const taken = new Set(setup.peer.accepted.map((mail) => mail.messageId));
  for (const { id, state, external_id } of drafts) {
    const there = setup.peer.accepted.find((mail) => mail.messageId.includes(id));
    if (there !== undefined && setup.bouncing(there) && state !== "failed")
      say("bounce", `draft ${id} bounced and is ${state}`);
    if (["sent", "delivered"].includes(state) && !(external_id !== null && taken.has(external_id)))
      say("phantom", `draft ${id} is ${state}, and the relay has nothing`);
    if (state === "failed" && there === undefined) say("phantom", `draft ${id} bounced, and was never sent`);
  }
  for (const messageId of taken)
    if (!drafts.some(({ id }) => messageId.includes(id))) say("phantom", `${messageId} was sent without a draft`);
}

interface Message {
  readonly senderRole: string;
  readonly message: string;
}

async function checkPlatform(setup: MailSetup, say: Say): Promise<void> {
  const { servers, options } = setup;
  for (const [person, letters] of threads(setup)) {
    const user = await servers.read(options.agent, `users/search?email=${encodeURIComponent(person)}`);
    const { conversationIds = [] } = user.body as { conversationIds?: string[] };
    if (conversationIds.length > 1) say("stray-conversation", `${conversationIds.length} conversations with ${person}`);
    const asked: (string | null)[] = [];
    for (const id of conversationIds) {
      const { body } = await servers.read(options.agent, `conversations/${id}/messages?orderDirection=ASC`);
      for (const { senderRole, message } of (body as { messages: Message[] }).messages)
        if (senderRole === "conversation_user") asked.push(tagIn(message));
    }
    for (const { tag } of letters) {
      const times = asked.filter((one) => one === tag).length;
      if (times === 0) say("lost", `${tag} was never asked`);
      if (times > 1) say("asked-twice", `${tag} was asked ${times} times`);
    }
    const order = [...new Set(asked)];
    const wanted = letters.map(({ tag }) => tag).filter((tag) => order.includes(tag));
    if (order.join() !== wanted.join()) say("order", `questions of ${person}: ${order.join()}`);
  }
}

/** Copies in Sent help people to follow; two of one mail would confuse them, and our own later look. */
async function checkSent({ servers, options }: MailSetup, say: Say): Promise<void> {
  const copies = await servers.dovecot.list(options.user, "Sent");
  const ids = copies.map((copy) => header(copy.raw, "message-id"));
  if (new Set(ids).size < ids.length) say("copied-twice", `${ids.length} copies of ${new Set(ids).size} mails`);
}

async function checkMarks(setup: MailSetup, say: Say): Promise<void> {
  for (const { uid, flags } of await unmarked(setup))
    say("unmarked", `message ${uid} in the inbox has the flags ${flags.join(" ")}`);
}

/** Returns the messages in the inbox that look as if nobody had read them. */
export async function unmarked({ servers, options }: MailSetup) {
  if (options.mark === "none") return [];
  const listed = await servers.dovecot.list(options.user);
  return listed.filter(({ flags }) => options.move || !flags.some((flag) => flag.startsWith("$Bridgehead-")));
}

// Reads the store of a daemon under test from outside, on both databases.

export type Row = Readonly<Record<string, unknown>>;

/** Runs one query. Every number in the store, and every COUNT, is a bigint on PostgreSQL; it becomes a number. Rejects when there is no store yet. */
export function readStored<T = Row>(store: string, sql: string): Promise<T[]> {
  return store.startsWith("postgres:") ? onPostgres(store, sql) : Promise.resolve().then(() => onSqlite(store, sql));
}

/** Violations of the schema and of the file format that the database itself finds. PostgreSQL checks each write. */
export async function damageOf(store: string): Promise<string[]> {
  if (store.startsWith("postgres:")) return [];
  const integrity = onSqlite<{ integrity_check: string }>(store, "PRAGMA integrity_check");
  const foreign = onSqlite(store, "PRAGMA foreign_key_check");
  return [
    ...integrity.map((row) => row.integrity_check).filter((found) => found !== "ok"),
    ...foreign.map((row) => JSON.stringify(row)),
  ];
}

function onSqlite<T>(file: string, sql: string): T[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare(sql).all() as T[];
  } finally {
    db.close();
  }
}

/** A connection per store, as long as it is in use. Tests look often, and each new connection is a process of the server. */
const pools = new Map<string, Pool>();

async function onPostgres<T>(url: string, sql: string): Promise<T[]> {
  const pool = pools.get(url) ?? newPool(url);
  pools.set(url, pool);
  // The server may have ended the connection since the last look.
  const { rows } = await pool.query(sql).catch(() => pool.query(sql));
  return rows as T[];
}

function newPool(url: string): Pool {
  const pool = new Pool({
    connectionString: url,
    types: { getTypeParser: (type) => (type === types.builtins.INT8 ? Number : String) },
    max: 1,
    idleTimeoutMillis: 2000,
  });
  return pool.on("error", () => undefined); // one that is not in use: the next look makes another
}
