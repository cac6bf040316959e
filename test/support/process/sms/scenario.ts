// The scenario of a daemon with texts: start, texts, a kill at a failpoint, a second start, waiting until all work has
// ended, and the check of the invariants.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import type { SmsFault } from "../../../../src/sandbox/sms-faults.ts";
import type { SmsMessage } from "../../../../src/sandbox/sms-records.ts";
import { type Daemon, startDaemon } from "../daemon.ts";
import { damageOf, readStored } from "../mail/invariants.ts";
import { lastWords, longWait, until, within } from "../mail/scenario.ts";
import { tagIn } from "../mail/servers.ts";
import { openSmsSetup, type SmsSetup, type SmsSetupOptions, type SmsTestServers, startSmsServers } from "./servers.ts";

export interface SmsScenario {
  /** The failpoints at which the first processes end, in order: `<point>:<before|after>:<n>`. */
  readonly deaths: readonly string[];
  /** `stop`: a person takes back what was asked while the answer waits for its delay. `picture`: the first text has one.
   *  `missed`: the second text is sent before the first one is answered, and its webhook never comes.
   *  Default: two texts of one person and one of another, whose answer is long. */
  readonly plot?: "stop" | "picture" | "missed";
  /** Affects the first text that is sent; it gets no delivery receipt. */
  readonly fault?: SmsFault;
  /** Planted into every process. */
  readonly plant?: readonly string[];
  /** Milliseconds until everything must be settled. */
  readonly patience?: number;
}

/** The people of a place, whom no other place knows. */
const people = (index: number) => ({
  anna: `+120255${60_000 + 2 * index}`,
  bert: `+120255${60_001 + 2 * index}`,
});

function textsOf(scenario: SmsScenario, index: number): Text[] {
  const { anna, bert } = people(index);
  const about = (person: string, tag: string): Text => ({ person, body: `Tell me about ${tag} today.`, tag });
  const first = { ...about(anna, `tag-anna${index}-0`), picture: scenario.plot === "picture" };
  if (scenario.plot === "stop") return [first, { person: anna, body: "STOP", tag: null }];
  if (scenario.plot === "missed") return [first, { ...about(anna, `tag-anna${index}-1`), missed: true }];
  return [first, about(bert, `tag-long${index}-0`), about(anna, `tag-anna${index}-1`)];
}

/** Runs the scenario and returns the violations at its end. Rejects when a planned kill did not happen. */
export async function runTexts(setup: SmsSetup, index: number, scenario: SmsScenario): Promise<TextViolation[]> {
  const { deaths, patience = longWait } = scenario;
  // A look at the provider's list would wait for half a minute. A process that dies at the first look must look early, and so
  // not decide yet: what it does not find late is sent again, and when it has recorded that attempt it is held for an operator.
  const plantOf = (killAt: string | undefined) => [
    scenario.fault === "cut" && killAt !== undefined ? "slow-looks" : "quick-looks",
    ...(scenario.plant ?? []),
  ];
  const texts = textsOf(scenario, index);
  const live = (killAt?: string) =>
    startDaemon({
      config: setup.config,
      env: setup.env,
      plant: plantOf(killAt),
      ...(killAt === undefined ? {} : { killAt }),
    });
  if (scenario.fault !== undefined) {
    setup.api.fault(scenario.fault, { times: 1 });
    setup.api.progress([]);
  }
  const found: TextViolation[] = [];
  let writing: Promise<string[]> | null = null;
  for (const killAt of deaths) {
    const daemon = live(killAt);
    await daemon.ready;
    writing ??= write(setup, texts, daemon);
    const end = await within(daemon.ended);
    if (end?.signal !== "SIGKILL") {
      daemon.send("SIGKILL");
      throw new Error(`${killAt} was not reached: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
    }
    found.push(...(await unkept(setup, await writing)));
  }
  const daemon = live();
  await daemon.ready;
  writing ??= write(setup, texts, daemon);
  const inTime = await settled(setup, scenario, texts.length, patience);
  await writing;
  const end = await within(daemon.stop());
  if (end?.code !== 0) {
    daemon.send("SIGKILL");
    throw new Error(`the daemon did not end well: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
  }
  found.push(...(await textViolations(setup, texts)));
  if (found.length > 0 && process.env["STORY_LOG"]) process.stderr.write(`${lastWords(daemon)}\n`);
  if (!inTime && found.length === 0) found.push({ invariant: "unsettled", detail: "not in time" });
  return found;
}

const jpeg = {
  type: "image/jpeg",
  bytes: Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.alloc(100_000)]),
};

/** People text, one after the other; the sids of what was answered with yes. */
async function write(setup: SmsSetup, texts: readonly Text[], daemon: Daemon): Promise<string[]> {
  const acknowledged: string[] = [];
  let dead = false;
  void daemon.ended.then(() => (dead = true));
  // By webhook: otherwise the first backfill could find texts that arrive while it runs.
  await until("the first look", () => dead || looked(daemon));
  // They are at the provider before the daemon has answered any text.
  const missed = texts.filter((text) => text.missed);
  for (const { person, body, picture } of texts.filter((text) => !text.missed)) {
    // When no answer is to be awaited, the end of the scenario decides.
    if (body === "STOP") await until("an answer waits", async () => dead || (await waits(setup))).catch(() => null);
    const posted = setup.api.receive({ from: person, body, media: picture ? [jpeg] : [] });
    for (const text of missed.splice(0))
      await setup.api.receive({ from: text.person, body: text.body, webhook: false });
    const { message, tries } = await posted;
    if (tries.some(({ status }) => status === 200)) acknowledged.push(message.sid);
  }
  return acknowledged;
}

const looked = ({ lines }: Daemon): boolean =>
  lines.some(
    ({ message, channel, state }) => channel === "sms" && state === "ready" && message.startsWith("channel connect"),
  );

const waits = async ({ store }: SmsSetup): Promise<boolean> =>
  (await readStored(store, "SELECT id FROM drafts WHERE state = 'queued'")).length > 0;

/** Looks into the store until nothing is under way and every text is there, and stays so for a moment. The provider has
 *  reported what it sent: a receipt that comes later may be stored and not routed when the daemon stops. */
async function settled(setup: SmsSetup, { fault }: SmsScenario, texts: number, ms: number): Promise<boolean> {
  const end = Date.now() + ms;
  for (let since = Date.now(); Date.now() < end; ) {
    if (!(fault !== undefined || isReported(setup)) || !(await isSettled(setup, texts))) since = Date.now();
    else if (Date.now() - since > 100) return true;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return false;
}

/** True when the daemon has answered the last receipt of each text, or missed it while it was dead. */
function isReported({ api }: SmsSetup): boolean {
  const delivered = new Set(api.callbacks.filter(({ status }) => status === "delivered").map(({ sid }) => sid));
  return api.sent.every(({ sid }) => delivered.has(sid));
}

async function isSettled({ store }: SmsSetup, texts: number): Promise<boolean> {
  const [row] = await readStored<{ texts: number; busy: number }>(
    store,
    `SELECT (SELECT COUNT(*) FROM events WHERE kind = 'message' AND state <> 'stored') AS texts,
           (SELECT COUNT(*) FROM events WHERE state = 'stored')
             + (SELECT COUNT(*) FROM turns WHERE state IN ('waiting', 'asking', 'unknown'))
             + (SELECT COUNT(*) FROM replies WHERE state = 'ready')
             + (SELECT COUNT(*) FROM drafts WHERE state IN ('queued', 'sending', 'unknown'))
             + (SELECT COUNT(*) FROM attachments WHERE due_at IS NOT NULL) AS busy`,
  );
  return row !== undefined && row.texts >= texts && row.busy === 0;
}

// The matrix of texts: the failpoint at which the daemon dies, and the state of the servers.

export interface TextCase {
  readonly name: string;
  readonly place: SmsSetupOptions;
  readonly scenario: SmsScenario;
}

function both(
  point: FailpointName,
  hit: number,
  variant = "",
  place: SmsSetupOptions = {},
  scenario: Partial<SmsScenario> = {},
): TextCase[] {
  return (["before", "after"] as const).map((phase) => ({
    name: [point, phase, hit, variant].filter(Boolean).join(" "),
    place,
    scenario: { deaths: [`${point}:${phase}:${hit}`], ...scenario },
  }));
}

export const textCases: readonly TextCase[] = [
  // The first commit of events holds none: it only says up to when nothing is missing.
  ...[1, 2, 3].flatMap((hit) => both("event.commit", hit)),
  ...(
    [
      "route.commit",
      "ask.record",
      "open.cross",
      "open.commit",
      "ask.cross",
      "answer.commit",
      "draft.commit",
      "receipt.commit",
    ] as const
  ).flatMap((point) => both(point, 1)),
  // One of the later ones is the second part of a long answer.
  ...(["send.record", "send.cross", "outcome.commit"] as const).flatMap((point) =>
    [1, 2, 3].flatMap((hit) => both(point, hit)),
  ),
  // The provider's list has an answer that the store does not know, newer than the text whose webhook never came.
  ...both("outcome.commit", 1, "missed", {}, { plot: "missed" }).slice(0, 1),
  ...both("reconcile.commit", 1, "unanswered", {}, { fault: "cut-stored" }),
  ...both("reconcile.commit", 1, "lost", {}, { fault: "cut" }),
  ...both("event.commit", 3, "joined", { debounce: "400ms" }),
  ...both("ask.record", 1, "joined", { debounce: "400ms" }),
  // The STOP is not stored before these commits, which are one.
  ...both("event.commit", 3, "stop", { agent: "late" }, { plot: "stop" }).slice(1),
  ...both("route.commit", 2, "stop", { agent: "late" }, { plot: "stop" }).slice(1),
  { name: "unanswered", place: {}, scenario: { deaths: [], fault: "cut-stored" } },
  ...both("event.commit", 2, "picture", {}, { plot: "picture" }),
  ...both("fetch.commit", 1, "picture", {}, { plot: "picture" }),
  { name: "stop during the delay", place: { agent: "late" }, scenario: { deaths: [], plot: "stop" } },
];

/** Returns the case of that name. Throws when it does not exist. */
export function textCaseNamed(name: string): TextCase {
  const found = textCases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon of texts at each of these cases, and states what is left of it after the next start.

/** Defines one test per case. `schemaUrl` returns the URL of an empty PostgreSQL schema; by default the store is SQLite. */
export const matrixOfTexts = (cases: readonly TextCase[], schemaUrl?: () => Promise<string>) =>
  describe("the daemon of texts, killed and started again", () => {
    let servers: SmsTestServers;
    beforeAll(async () => {
      servers = await startSmsServers();
    });
    afterAll(() => servers?.close());

    for (const [index, { name, place: options, scenario }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
        const postgres = schemaUrl && { postgres: await schemaUrl() };
        const setup = await openSmsSetup(servers, { ...options, ...postgres });
        try {
          expect(await runTexts(setup, index, scenario)).toEqual([]);
        } finally {
          await setup.close();
        }
      });
    }
  });

// The oracle for texts. It holds what the provider took and what the platform was asked against the store, read after the
// daemon has ended.

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

/** A customer's text of the scenario. `tag` is a word that occurs in no other; the agent repeats it in its answer. */
export interface Text {
  readonly person: string;
  readonly body: string;
  readonly tag: string | null;
  /** It comes with a picture. */
  readonly picture?: boolean;
  /** Its webhook never comes. */
  readonly missed?: boolean;
}

interface Draft {
  readonly id: string;
  readonly state: string;
  readonly external_id: string | null;
}

type Say = (invariant: TextInvariant, detail: string) => void;

/** Everything that is wrong; empty when all is well. */
async function textViolations(setup: SmsSetup, texts: readonly Text[]): Promise<TextViolation[]> {
  const found: TextViolation[] = [];
  const say: Say = (invariant, detail) => void found.push({ invariant, detail });
  const drafts = await readStore(setup, say);
  const stopped = new Set(texts.filter(({ body }) => body === "STOP").map(({ person }) => person));
  for (const person of new Set(texts.map((text) => text.person))) {
    const theirs = texts.filter((text) => text.person === person && text.tag !== null);
    const sent = setup.api.sent.filter(({ to }) => to === person);
    checkQuestions(setup, theirs, say);
    if (stopped.has(person)) {
      for (const { body } of sent) say("unwanted", body);
    } else checkAnswers(theirs, sent, setup.joined, say);
  }
  checkDrafts(setup, drafts, say);
  return found;
}

/** Texts that were acknowledged to the provider and are missing in the store: read while the daemon is dead. */
async function unkept({ store }: SmsSetup, acknowledged: readonly string[]): Promise<TextViolation[]> {
  const stored = await readStored<{ external_id: string }>(store, "SELECT external_id FROM events");
  const kept = new Set(stored.map(({ external_id }) => external_id));
  return acknowledged
    .filter((sid) => !kept.has(sid))
    .map((sid) => ({ invariant: "acknowledged", detail: `${sid} was answered 200 and is not stored` }));
}

async function readStore({ store }: SmsSetup, say: Say): Promise<Draft[]> {
  for (const damage of await damageOf(store)) say("damaged", damage);
  const open = await readStored<{ what: string; id: string; state: string }>(
    store,
    `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state FROM events WHERE state IN ('stored', 'failed', 'held')
     UNION ALL SELECT 'turn', id, state FROM turns WHERE state NOT IN ('answered', 'dropped')
     UNION ALL SELECT 'draft', id, state FROM drafts WHERE state IN ('queued', 'sending', 'unknown', 'failed')
     UNION ALL SELECT 'attachment', CAST(event AS TEXT), 'without its bytes' FROM attachments WHERE blob IS NULL
     UNION ALL SELECT 'lane', id, 'leased' FROM lanes WHERE lease_until > 0`,
  );
  for (const { what, id, state } of open) say("unsettled", `${what} ${id} is ${state}`);
  return readStored<Draft>(store, "SELECT id, state, external_id FROM drafts");
}

function checkQuestions({ servers }: SmsSetup, texts: readonly Text[], say: Say): void {
  const questions = servers.asked.questions();
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
  const conversations = person === undefined ? 0 : servers.asked.conversationsOf(`bridgehead:sms:${person}`);
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
  if (parts.some((part, index) => part > 1 && parts[index - 1] !== part - 1)) say("order", `parts: ${parts.join()}`);
  const wanted = texts.flatMap(({ tag }) => (tag === null ? [] : [tag]));
  const order = [...new Set(bodies.map(tagIn))].filter((tag) => tag !== null);
  if (wanted.filter((tag) => order.includes(tag)).join() !== order.join()) say("order", `answers: ${order.join()}`);
}

function checkDrafts({ api }: SmsSetup, drafts: readonly Draft[], say: Say): void {
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
