// Stage route: loads what the decisions about messages need, and writes their results, for several messages at once.

import { type Cap, type Counted, capOfTags } from "../../domain/guards.ts";
import type { Timing } from "../../ops/timing.ts";
import { type Core, isRecent, keyOf, listOf, type Query, type Value } from "../../store/driver.ts";
import { lockLanes, refreshLane } from "../../store/lanes.ts";
import {
  addParticipants,
  bindVia,
  citeAll,
  insertConversations,
  noteOwnAddress,
  takesPart,
} from "../../store/tables/conversations.ts";
import { recordOutcomes } from "../../store/tables/events.ts";
import {
  allOwn,
  appliesTo,
  type ErasedSuppression,
  erasedHash,
  erasedReason,
  erasureKey,
  hashPrefix,
  pastBounces,
  restoreSuppression,
} from "../../store/tables/suppressions.ts";
import { appendTurn, capUse, insertTurns } from "../../store/tables/turns.ts";
import { type ChannelRuntime, consentAddress } from "../channel-runtime.ts";
import type { CapUse, Extension, Facts, Incoming, LastTurn, Plan, Writes } from "./facts.ts";
import { isCallQuestion, personOf, replyTo, untaggedOf } from "./facts.ts";
import { writeUnasked } from "./unasked/rows.ts";

/** A loaded fact: `kind` names the part of the statement, `key` the address or id it is about. */
interface Fact {
  readonly kind: string;
  readonly key: string;
  readonly value: string | null;
  readonly extra: string | null;
  readonly number: number | null;
  readonly place: number | null;
}

const [noText, noNumber] = ["CAST(NULL AS TEXT)", "CAST(NULL AS BIGINT)"];

/** Statements by the kinds and parameters of their parts. */
const statements = new Map<string, string>();
const mostStatements = 100;

/** Builds one statement out of parts. A part runs for each key of a list, one JSON parameter; without keys it is left out. */
class Parts {
  readonly #parts: (() => string)[] = [];
  readonly #values: Value[];
  #shape = "";

  /** `$1` of every part is the channel. */
  constructor(channel: string) {
    this.#values = [channel];
  }

  param(value: Value): string {
    this.#values.push(value);
    return `$${this.#values.length}`;
  }

  /** `part` returns the columns after `kind`, and what follows FROM; `given.value` is the key. It depends on
   *  the kind and on earlier parameters only. */
  add(kind: string, keys: readonly (string | number)[], part: () => readonly [string, string?]): void {
    if (keys.length === 0) return;
    const param = this.param(listOf(keys.map(String)));
    this.#shape += kind + param;
    this.#parts.push(() => {
      const [select, rest = ""] = part();
      return `SELECT '${kind}' AS kind, ${select}
      FROM json_each(${param}) AS given -- only: sqlite
      FROM json_array_elements_text(CAST(${param} AS json)) AS given (value) -- only: postgres
      ${rest}`;
    });
  }

  async load(q: Query): Promise<readonly Fact[]> {
    if (this.#parts.length === 0) return [];
    let text = statements.get(this.#shape);
    if (text === undefined) {
      text = this.#parts.map((part) => part()).join("\n UNION ALL ");
      if (statements.size === mostStatements) statements.clear();
      statements.set(this.#shape, text);
    }
    return q.all<Fact>(text, ...this.#values);
  }
}

const columns = (key: string, value = noText, extra = noText, number = noNumber, place = noNumber): string =>
  `${key} AS key, ${value} AS value, ${extra} AS extra, ${number} AS number, ${place} AS place`;

/** Returns the loaded facts of that kind about that key. */
type Find = (kind: string, key: string | number) => readonly Fact[];

function finderOf(facts: readonly Fact[]): Find {
  const index = Map.groupBy(facts, ({ kind, key }) => `${kind} ${key}`);
  return (kind, key) => index.get(`${kind} ${keyOf(String(key))}`) ?? [];
}

const valueOf = (all: Find, kind: string, key: string): string | null => all(kind, key)[0]?.value ?? null;

/** Conditions on the turns of a scope; each turn satisfies at most one. The CAST keeps SQLite, which has no statistics in
 *  a new store, from reading all recent turns of the channel instead of those of the conversation. */
const scopes = {
  sender: ["turns.channel = $1 AND turns.person = given.value", "turns.channel = $1 AND turns.reply_to = given.value"],
  tags: ["turns.channel = $1 AND turns.untagged = given.value"],
  conversation: ["turns.conversation = given.value AND CAST(turns.channel AS TEXT) = $1"],
};

/** When the newest turn of a conversation was made. Its index has no times, so a count reads each turn on a page of its
 *  own: those of a returning customer are counted only when the newest one is in the window. */
const newestTurn = "(SELECT made_at FROM turns WHERE turns.conversation = given.value ORDER BY turns.seq DESC LIMIT 1)";

/** Adds the counts of turns for the rate caps. */
function addCounts(parts: Parts, name: Counted["name"], keys: readonly string[], caps: readonly Cap[]): void {
  if (keys.length === 0) return;
  for (const [at, { per }] of caps.entries()) {
    const window = parts.param(per);
    const counted = (scope: string) => `(SELECT COUNT(*) FROM turns WHERE ${scope}
      AND ${isRecent("made_at", window)} AND turns.kind = 'question')`;
    const all = scopes[name].map(counted).join(" + ");
    const sum = name === "conversation" ? `CASE WHEN ${newestTurn} > now_ms() - ${window} THEN ${all} ELSE 0 END` : all;
    parts.add(name, keys, () => [columns("given.value", noText, noText, sum, `${at}`)]);
  }
}

/** Adds the look-up of the persons' conversations, and of our own addresses that are to be recorded. */
function addPersons(
  parts: Parts,
  messages: readonly Incoming[],
  senders: readonly string[],
  ownAddressMs: number,
): void {
  parts.add("conversation", senders, () => [
    columns("given.value", "MAX(conversations.id)", "COALESCE(via, '')"),
    "CROSS JOIN conversations WHERE conversations.channel = $1 AND person = given.value GROUP BY given.value, COALESCE(via, '')",
  ]);
  const recent = parts.param(ownAddressMs);
  const own = messages.flatMap(({ event }) => event.to[0]?.address ?? []);
  parts.add("own", own, () => [
    columns("given.value"),
    `WHERE NOT EXISTS (SELECT 1 FROM own_addresses WHERE address = given.value AND own_addresses.channel = $1
     AND received_at > now_ms() - ${recent})`,
  ]);
  // The conversation with the channel's default address, if we opened it and nothing was received in it. Until the
  // platform's conversation is bound nothing has been sent, and the start call may still be looked up under the old key.
  const others = messages.filter((message) => message.event.via !== undefined && !isCallQuestion(message));
  parts.add("opened", others.map(personOf), () => [
    columns("given.value", "conversations.id"),
    `CROSS JOIN conversations WHERE platform_id IS NOT NULL AND conversations.id = (
       SELECT MAX(id) FROM conversations own WHERE own.channel = $1 AND own.person = given.value AND COALESCE(via, '') = '')
     AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.conversation = conversations.id AND turns.event IS NOT NULL)
     AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.channel = $1 AND sessions.conversation = conversations.id)`,
  ]);
}

/** Loads the facts about messages that do not depend on each other, in one statement. */
export async function loadFacts(
  q: Query,
  line: ChannelRuntime,
  messages: readonly Incoming[],
  { ownAddress, bounced }: Timing["route"],
): Promise<Map<Incoming, Facts>> {
  const parts = new Parts(line.channel);
  const past = parts.param(bounced);
  const counted = messages.filter((message) => !isCallQuestion(message));
  const senders = counted.map(personOf);
  const perPerson = line.traits.conversations === "person";
  parts.add("suppressed", messages.map(replyTo), () => [
    columns("given.value", "suppressions.reason", "suppressions.own_address", pastBounces(past)),
    "CROSS JOIN suppressions WHERE suppressions.channel = $1 AND suppressions.address = given.value AND active = 1",
  ]);
  parts.add("hashed", [erasureKey], () => [
    columns("suppressions.address", "(SELECT value FROM secrets WHERE name = given.value)", "suppressions.own_address"),
    `CROSS JOIN suppressions WHERE suppressions.channel = $1 AND active = 1
       AND suppressions.address >= '${hashPrefix}' AND suppressions.address < '${hashPrefix}g' -- only: sqlite
       AND suppressions.address LIKE '${hashPrefix}%' -- only: postgres`,
  ]);
  parts.add("responder", messages.map(personOf), () => [
    columns("given.value"),
    "WHERE EXISTS (SELECT 1 FROM notification_targets WHERE notification_targets.channel = $1 AND notification_targets.address = given.value)",
  ]);
  const ids = messages.map(({ row }) => row.id);
  parts.add("attachment", ids, () => [
    columns("CAST(event AS TEXT)", "name", "media_type", "size", "position"),
    "CROSS JOIN attachments WHERE attachments.event = CAST(given.value AS BIGINT) AND named = 1",
  ]);
  addCounts(parts, "sender", [...senders, ...counted.map(replyTo)], line.rules.caps.sender);
  const tagged = counted.flatMap((message) => untaggedOf(message) ?? []);
  addCounts(parts, "tags", tagged, line.rules.caps.sender);
  if (perPerson) addPersons(parts, messages, senders, ownAddress);
  parts.add(
    "session",
    messages.flatMap(({ event }) => ("session" in event.thread ? [event.thread.session] : [])),
    () => [
      columns("given.value", "sessions.conversation"),
      "CROSS JOIN sessions WHERE sessions.channel = $1 AND sessions.id = given.value",
    ],
  );
  if (!perPerson) for (const message of messages) addReferences(parts, [message]);
  const loaded = await parts.load(q);
  const all = finderOf(loaded);
  const erased = loaded.filter(({ kind }) => kind === "hashed");
  return new Map(messages.map((message) => [message, factsOf(line, message, all, erased)]));
}

/** Returns the suppression of an erased person with that address, or null. */
function erasedSuppression(channel: string, address: string, erased: readonly Fact[]): ErasedSuppression | null {
  const key = erased[0]?.value;
  if (!key) return null;
  const hash = erasedHash(key, channel, address);
  return erased.some((one) => one.key === hash) ? { address, hash } : null;
}

/** Returns why nothing may be sent to the address of the answer, from our address that it will have; or null. */
function suppressedBy(
  line: ChannelRuntime,
  { event }: Incoming,
  restored: ErasedSuppression | null,
  { erased, stored }: { readonly erased: readonly Fact[]; readonly stored: readonly Fact[] },
): string | null {
  if (restored === null && stored.length === 0) return null;
  const own = consentAddress(line, event.via ?? null);
  const applies = ({ extra, number }: Fact) => number === null && appliesTo(extra ?? allOwn, own);
  const isErased = restored !== null && erased.some((one) => one.key === restored.hash && applies(one));
  return isErased ? erasedReason : (stored.find(applies)?.value ?? null);
}

/** Adds the look-up of the conversations that messages of one sender reference. Only conversations in which the sender
 *  takes part count: unrelated senders that reference the same id have conversations of their own with it. */
function addReferences(parts: Parts, messages: readonly Incoming[]): void {
  const [first] = messages;
  const answers = messages.flatMap(({ cites }) => cites.answers);
  const tokens = messages.flatMap(({ cites }) => cites.tokens);
  if (first === undefined || answers.length + tokens.length === 0) return;
  const sender = parts.param(personOf(first));
  const newest =
    () => `(SELECT citations.conversation FROM citations WHERE citations.channel = $1 AND external_id = given.value
     AND ${takesPart("citations.conversation", sender)} ORDER BY citations.conversation DESC LIMIT 1)`;
  parts.add("cited", answers, () => [columns("given.value", newest())]);
  parts.add("token", tokens, () => [
    columns("given.value", "conversations.id"),
    `CROSS JOIN conversations WHERE conversations.channel = $1 AND token = given.value AND ${takesPart("conversations.id", sender)}`,
  ]);
}

/** Returns the conversation that the message references, or null. Ids come before tokens. */
function referenced({ cites: { answers, tokens } }: Incoming, all: Find): string | null {
  const ids = answers.map((id) => valueOf(all, "cited", id));
  return [...ids, ...tokens.map((token) => valueOf(all, "token", token))].find((id) => id !== null) ?? null;
}

/** Loads the conversations that the messages of a channel of threads reference, in one statement for each sender. */
export async function loadReferenced(
  q: Query,
  channel: string,
  messages: readonly Incoming[],
): Promise<ReadonlyMap<Incoming, string | null>> {
  const found = new Map<Incoming, string | null>();
  for (const own of Map.groupBy(messages, personOf).values()) {
    const parts = new Parts(channel);
    addReferences(parts, own);
    const all = finderOf(await parts.load(q));
    for (const message of own) found.set(message, referenced(message, all));
  }
  return found;
}

function factsOf(line: ChannelRuntime, message: Incoming, all: Find, erased: readonly Fact[]): Facts {
  const { event, row } = message;
  const caps = line.rules.caps.sender;
  const [person, answered, untagged] = [personOf(message), replyTo(message), untaggedOf(message)];
  const own = all("conversation", person);
  const via = own.find(({ extra }) => extra === keyOf(event.via ?? ""))?.value ?? null;
  const opened = via === null && event.via !== undefined ? valueOf(all, "opened", person) : null;
  const to = event.to[0]?.address;
  const restored = erasedSuppression(line.channel, answered, erased);
  return {
    suppressed: suppressedBy(line, message, restored, { erased, stored: all("suppressed", answered) }),
    responder: all("responder", person).length > 0,
    conversation: via ?? opened ?? referenced(message, all),
    session: "session" in event.thread ? valueOf(all, "session", event.thread.session) : null,
    binds: opened === null ? null : (event.via ?? null),
    ownAddress: to !== undefined && all("own", to).length > 0 ? to : null,
    restored,
    revived: all("suppressed", answered).some(({ number }) => number !== null) ? answered : null,
    attachments: [...all("attachment", row.id)]
      .sort((a, b) => (a.place ?? 0) - (b.place ?? 0))
      .map(({ value, extra, number }) => ({ name: value ?? "", media_type: extra ?? "", size: number })),
    counts: [
      ...countsOf("sender", caps, all("sender", person)),
      ...(answered === person ? [] : countsOf("sender", caps, all("sender", answered)).map(ofReplyTo)),
      ...(untagged === null ? [] : countsOf("tags", caps.map(capOfTags), all("tags", untagged))),
    ],
    last: null,
    keyword: null,
  };
}

const countsOf = (name: Counted["name"], caps: readonly Cap[], facts: readonly Fact[]) =>
  caps.map((cap, at) => ({ name, cap, count: facts.find(({ place }) => place === at)?.number ?? 0 }));

/** A loop through many senders can have one Reply-To, and one through a single sender many of them: each is counted. */
const ofReplyTo = (counted: Counted): Counted => ({ ...counted, isReplyTo: true });

/** Adds to the facts of messages to ask in known conversations: the counts of their caps, and the last turn, with its lane
 *  locked, for those that may join it. */
export async function loadConversations(
  q: Query,
  { channel, rules: { caps } }: ChannelRuntime,
  facts: Map<Incoming, Facts>,
  { known, joining }: Pick<Plan, "known" | "joining">,
): Promise<void> {
  const idsOf = (messages: readonly Incoming[]) => messages.flatMap((one) => facts.get(one)?.conversation ?? []);
  const parts = new Parts(channel);
  addCounts(parts, "conversation", idsOf(known), caps.conversation);
  const counted = finderOf(await parts.load(q));
  const last = await lastTurns(q, idsOf(joining));
  for (const message of known) {
    const own = facts.get(message) as Facts;
    const id = own.conversation ?? "";
    const counts = countsOf("conversation", caps.conversation, counted("conversation", id));
    facts.set(message, { ...own, counts: [...own.counts, ...counts], last: last.get(id) ?? null });
  }
}

/** Returns the use of the channel's caps. */
export async function loadUses(q: Query, { channel, rules }: ChannelRuntime): Promise<CapUse[]> {
  const uses: CapUse[] = [];
  for (const cap of rules.caps.channel) uses.push({ cap, ...(await capUse(q, channel, cap.per)) });
  return uses;
}

/** Returns the last open turns of these conversations. Locks their lanes; otherwise a turn may be asked concurrently without
 *  the text that is added to it. */
export async function lastTurns(q: Query, conversations: readonly string[]): Promise<Map<string, LastTurn>> {
  if (conversations.length === 0) return new Map();
  await lockLanes(q, conversations, "in");
  const rows = await q.all<LastTurn>(lastOf, listOf(conversations));
  return new Map(rows.map((row) => [row.conversation, row]));
}
const lastOpen = "conversation = listed.value AND open = 1 ORDER BY seq DESC LIMIT 1";
const lastOf = `SELECT turns.conversation, turns.id, turns.trace, question, context, turns.state, person,
     COALESCE(events.received_at, made_at) AS first_at,
     CASE WHEN session IS NULL AND opening IS NULL AND turns.kind = 'question' THEN 1 ELSE 0 END AS own
   FROM (SELECT value FROM json_each($1)) AS listed -- only: sqlite
   CROSS JOIN turns ON turns.id = (SELECT id FROM turns WHERE ${lastOpen}) -- only: sqlite
   FROM json_array_elements_text(CAST($1 AS json)) AS listed (value) -- only: postgres
   CROSS JOIN LATERAL (SELECT * FROM turns WHERE ${lastOpen}) AS turns -- only: postgres
   LEFT JOIN events ON events.id = turns.event`;

/** Adds a later message to the turn, which becomes due at `dueAt`. A turn with failed attempts keeps its
 *  own due time if that is later. */
export async function extendTurn(q: Query, change: Extension): Promise<void> {
  await q.write(
    `UPDATE turns SET question = $2, context = $3, address = $4, reply_to = $8, untagged = $9, received_at = $5, trace = $7,
       updated_at = now_ms(), due_at = CASE WHEN attempts > 0 AND due_at > $6 THEN due_at ELSE $6 END WHERE id = $1`,
    change.turn,
    change.question,
    change.context,
    change.address,
    change.receivedAt,
    change.dueAt,
    change.trace,
    change.replyTo,
    change.untagged,
  );
  await refreshLane(q, change.conversation, "in");
}

/** Writes the results of the decisions about a group of messages. */
export async function write(
  q: Query,
  { line, log }: { readonly line: ChannelRuntime } & Pick<Core, "log">,
  writes: Writes,
): Promise<void> {
  const { channel } = line;
  for (const address of new Set(writes.ownAddresses)) await noteOwnAddress(q, channel, address);
  for (const one of writes.restored) await restoreSuppression(q, channel, one);
  for (const { conversation, via } of writes.bound) await bindVia(q, conversation, via);
  if (writes.conversations.length > 0) await insertConversations(q, writes.conversations);
  if (writes.participants.length > 0) await addParticipants(q, writes.participants);
  await citeAll(q, writes.citations);
  await insertTurns(
    q,
    writes.first.map((turn) => ({ ...turn, seq: 1 })),
  );
  for (const turn of writes.next) await appendTurn(q, turn);
  for (const change of writes.extended) await extendTurn(q, change);
  await recordOutcomes(q, writes.outcomes);
  // The turns do not wait for the next sweep.
  const { debounce } = line.rules;
  if (debounce > 0 && writes.first.length + writes.next.length + writes.extended.length > 0) q.waits.add(debounce);
  if (writes.unasked) await writeUnasked(q, line, log, writes);
}
