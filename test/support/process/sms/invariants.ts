// The oracle for texts. It holds what the provider took and what the platform was asked against the store, read after the
// daemon has ended.

import Database from "better-sqlite3";
import type { SmsMessage } from "../../../../src/sandbox/sms-records.ts";
import { tagIn } from "../mail/servers.ts";
import type { LinesPlace } from "./servers.ts";

export type TextInvariant =
  | "acknowledged" // the provider was told that we have a text, and we have not
  | "lost"
  | "asked-twice"
  | "stray-conversation" // the platform opened one that nobody uses
  | "sent-twice"
  | "order"
  | "unwanted" // sent to somebody who had said STOP
  | "phantom" // the store says sent, the provider has nothing, or the other way round
  | "held"
  | "damaged"
  | "unsettled";

export interface TextViolation {
  readonly invariant: TextInvariant;
  readonly detail: string;
}

/** A person's text of the story. `tag` is a word that occurs in no other; the agent repeats it in its answer. */
export interface Text {
  readonly person: string;
  readonly body: string;
  readonly tag: string | null;
  /** It comes with a picture. */
  readonly picture?: boolean;
}

interface Draft {
  readonly id: string;
  readonly state: string;
  readonly external_id: string | null;
}

type Say = (invariant: TextInvariant, detail: string) => void;

/** Everything that is wrong; empty when all is well. */
export function textViolations(place: LinesPlace, texts: readonly Text[]): TextViolation[] {
  const found: TextViolation[] = [];
  const say: Say = (invariant, detail) => void found.push({ invariant, detail });
  const drafts = readStore(place, say);
  const stopped = new Set(texts.filter(({ body }) => body === "STOP").map(({ person }) => person));
  for (const person of new Set(texts.map((text) => text.person))) {
    const theirs = texts.filter((text) => text.person === person && text.tag !== null);
    const sent = place.api.sent.filter(({ to }) => to === person);
    checkQuestions(place, theirs, say);
    if (stopped.has(person)) {
      for (const { body } of sent) say("unwanted", body);
    } else checkAnswers(theirs, sent, place.joined, say);
  }
  checkDrafts(place, drafts, say);
  return found;
}

/** Texts of which the provider was told that we have them, and that the store lacks: read while the daemon is dead. */
export function unkept(place: LinesPlace, acknowledged: readonly string[]): TextViolation[] {
  const kept = new Set(
    read(place, (db) => db.prepare("SELECT external_id FROM events").pluck().all() as string[]),
  );
  return acknowledged
    .filter((sid) => !kept.has(sid))
    .map((sid) => ({ invariant: "acknowledged", detail: `${sid} was answered 200 and is not stored` }));
}

export function read<T>(place: Pick<LinesPlace, "store">, look: (db: Database.Database) => T): T {
  const db = new Database(place.store, { readonly: true });
  try {
    return look(db);
  } finally {
    db.close();
  }
}

function readStore(place: LinesPlace, say: Say): Draft[] {
  return read(place, (db) => {
    const damage = db.pragma("integrity_check", { simple: true });
    if (damage !== "ok") say("damaged", String(damage));
    const open = db
      .prepare(
        `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state FROM events WHERE state IN ('stored', 'failed', 'held')
         UNION ALL SELECT 'turn', id, state FROM turns WHERE state NOT IN ('answered', 'dropped')
         UNION ALL SELECT 'draft', id, state FROM drafts WHERE state IN ('queued', 'sending', 'unknown', 'failed')
         UNION ALL SELECT 'attachment', CAST(event AS TEXT), 'without its bytes' FROM attachments WHERE blob IS NULL
         UNION ALL SELECT 'lane', id, 'leased' FROM lanes WHERE lease_until > 0`,
      )
      .all() as { what: string; id: string; state: string }[];
    for (const { what, id, state } of open) say("unsettled", `${what} ${id} is ${state}`);
    return db.prepare("SELECT id, state, external_id FROM drafts").all() as Draft[];
  });
}

function checkQuestions({ world }: LinesPlace, texts: readonly Text[], say: Say): void {
  const questions = world.asked.questions();
  const asked = (tag: string) => questions.filter(({ text }) => text.includes(tag));
  const order: string[] = [];
  for (const { tag } of texts) {
    if (tag === null) continue;
    const times = asked(tag).length;
    if (times === 0) say("lost", `${tag} was never asked`);
    if (times > 1) say("asked-twice", `${tag} was asked ${times} times`);
  }
  for (const { text } of questions)
    order.push(...texts.flatMap(({ tag }) => (tag !== null && text.includes(tag) ? [tag] : [])));
  const wanted = texts.flatMap(({ tag }) => (tag !== null && order.includes(tag) ? [tag] : []));
  if ([...new Set(order)].join() !== wanted.join()) say("order", `questions: ${order.join()}`);
  const person = texts[0]?.person;
  const conversations = person === undefined ? 0 : world.asked.conversationsOf(`bridgehead:sms:${person}`);
  if (conversations > 1) say("stray-conversation", `${conversations} with ${person}`);
}

/** One answer to each question, its parts in order, none twice. */
function checkAnswers(texts: readonly Text[], sent: readonly SmsMessage[], joined: boolean, say: Say): void {
  // Where texts are joined, a newer one ends the reply that is not sent yet.
  for (const { tag } of joined ? texts.slice(-1) : texts)
    if (tag !== null && !sent.some(({ body }) => body.includes(tag))) say("lost", `no answer to ${tag}`);
  const bodies = sent.map(({ body }) => body);
  for (const body of new Set(bodies)) {
    const times = bodies.filter((one) => one === body).length;
    if (times > 1) say("sent-twice", `${times} times: ${body.slice(0, 60)}`);
  }
  const parts = bodies.map((body) => Number(/\((\d+)\/\d+\)/.exec(body)?.[1] ?? 0));
  if (parts.some((part, index) => part > 1 && parts[index - 1] !== part - 1))
    say("order", `parts: ${parts.join()}`);
  const wanted = texts.flatMap(({ tag }) => (tag === null ? [] : [tag]));
  const order = [...new Set(bodies.map(tagIn))].filter((tag) => tag !== null);
  if (wanted.filter((tag) => order.includes(tag)).join() !== order.join())
    say("order", `answers: ${order.join()}`);
}

function checkDrafts({ api }: LinesPlace, drafts: readonly Draft[], say: Say): void {
  const taken = new Set(api.sent.map(({ sid }) => sid));
  for (const { id, state, external_id } of drafts) {
    if (state === "held") say("held", `draft ${id}`);
    if (["sent", "delivered"].includes(state) && !(external_id !== null && taken.has(external_id)))
      say("phantom", `draft ${id} is ${state} as ${external_id}, and the provider has nothing`);
  }
  for (const sid of taken)
    if (!drafts.some(({ external_id }) => external_id === sid)) say("phantom", `${sid} belongs to no draft`);
  const keys = api.creates
    .filter(({ sid }) => sid !== null)
    .map(({ form }) => new URL(form["StatusCallback"] ?? "http://none").searchParams.get("draft"));
  if (new Set(keys).size < keys.length) say("sent-twice", `creates: ${keys.join()}`);
}
