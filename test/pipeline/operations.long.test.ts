// Random sequences of what customers, operators, responders, the platform, the provider and the machine do, on one pipeline and each
// database. In the end every message has one result that an operator can see, and nothing was asked, answered or kept more often than it
// may. A seed gives one sequence, but for the order of what runs at once. SEEDS=9-400 runs others.

import { externalId, type Finding, type MessageEvent, type SendOutcome, sendKey } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { firstTo } from "../../src/domain/turn.ts";
import { enqueueRelay } from "../../src/escalation/actions.ts";
import { pollStage } from "../../src/escalation/poll/stage.ts";
import { readCustomers } from "../../src/escalation/reply/rows.ts";
import { newId, steadyNow } from "../../src/ops/clock.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { begin } from "../../src/pipeline/outbound.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { endLeases } from "../../src/store/leases.ts";
import { pause, resume } from "../../src/store/operators/channels.ts";
import { optOut, undoOptOut } from "../../src/store/operators/opt-outs.ts";
import { type Repair, repair } from "../../src/store/operators/repair.ts";
import { erasePerson } from "../../src/store/person/erase.ts";
import { findPerson } from "../../src/store/person/find.ts";
import { answeredBefore, holdOpenWork } from "../../src/store/restored.ts";
import { forget } from "../../src/store/retention.ts";
import { schedulePolls } from "../../src/store/tables/conversations.ts";
import { insertReply } from "../../src/store/tables/drafts.ts";
import { clearLanes } from "../../src/store/tables/takeover.ts";
import { messageRecord } from "../support/client/client.ts";
import { policyOf, raising } from "../support/escalation/policy.ts";
import { describeReal } from "../support/machine/debian.ts";
import {
  mail,
  openPipeline,
  type TestClock,
  type TestPipeline,
  type TestPipelineOptions,
  testClock,
} from "../support/pipeline/pipeline.ts";
import { cutting, listen, receipt, refusing, startPlatform, watched } from "../support/pipeline/stage.ts";
import { generator, luck } from "../support/process/mail/servers.ts";
import { clockedPostgres, sqliteDatabase } from "../support/store/databases.ts";
import { needPostgres } from "../support/store/postgres.ts";

const [firstSeed = 1, lastSeed = 8] = (process.env["SEEDS"] ?? "1-8").split("-").map(Number);
const seeds = Array.from({ length: lastSeed - firstSeed + 1 }, (_, at) => firstSeed + at);
const steps = 60;
const [second, minute, hour] = [1000, 60_000, 3_600_000];
const people = ["ada@example.org", "ben@example.org", "cleo@example.org"] as const;
const requests = ["ask", "say", "start", "look", "search", "mode"] as const;
const refusals = [refusing(500), refusing(429), refusing(503, { "retry-after": "2" })];
const operator = { actor: "op", reason: "a test" };

interface Written {
  /** Occurs in no other message. */
  readonly word: string;
  readonly event: MessageEvent;
}

/** What a send has done, by draft. */
interface Sent {
  readonly to: string;
  readonly text: string;
}

type NewStore = (clock: TestClock) => Promise<Database>;
function declare(some: readonly number[], newStore: NewStore): void {
  const name = "explains every message and repeats nothing (seed %i)";
  it.each(some)(name, { timeout: 300_000 }, (seed) => sequence(seed, newStore));
}
describe("on SQLite", () => declare(seeds, (clock) => watched(() => sqliteDatabase(steadyNow(clock)))));
describeReal("on PostgreSQL", await needPostgres(), () =>
  declare(seeds.slice(-2), (clock) => clockedPostgres(steadyNow(clock))),
);

async function sequence(seed: number, newStore: NewStore): Promise<void> {
  const random = generator(seed);
  const luckOf = luck(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const chance = (p: number): boolean => random() < p;

  const sent: Sent[] = [];
  const delivered = new Set<string>();
  const optedOut = new Set<string>();
  const problems: string[] = [];
  const written: Written[] = [];
  /** What responders have written in place of the agent. */
  const relayed: { readonly word: string; readonly to: string }[] = [];
  /** Words that the store must not contain any more. */
  const erased = new Set<string>();
  /** Drafts of the agent that were not sent when a human answered in their place. */
  const replaced = new Set<string>();
  let isProviderWell = false;
  let isProviderDown = false;
  let gate: Promise<void> | null = null;
  let atGate = 0;
  let mode: "live" | "shadow" = "live";
  /** What humans have written in the platform's interface, and what operators have opened conversations with. */
  const external: { readonly word: string; readonly to: string; readonly there: string | null }[] = [];
  const raised = raising();

  const outcomeOf = (key: string, { text }: Sent, deliver: () => void): SendOutcome => {
    const dice = isProviderWell ? 1 : luckOf(text);
    const reason = "a fault of the test";
    if (isProviderDown) return { kind: "deferred", reason, scope: "channel" };
    if (dice < 0.08) return { kind: "deferred", reason };
    if (dice < 0.12) return { kind: "deferred", reason, scope: "channel" };
    if (dice < 0.17) return { kind: "refused", code: "550", reason, scope: luckOf(text) < 0.5 ? "draft" : "recipient" };
    if (dice < 0.22) return { kind: "unknown", reason };
    deliver();
    return dice < 0.3 ? { kind: "unknown", reason } : { kind: "sent", id: externalId(`sent-${key}`) };
  };
  const debounce = pick([0, 0, 3 * second]);
  const clock = testClock(true);
  const platform = await startPlatform();
  platform.continues = chance(0.5);
  const db = await newStore(clock);
  const options = {
    clock,
    db,
    platform,
    line: (line: ChannelRuntime): ChannelRuntime => ({
      ...raised(line),
      get rules() {
        return { ...line.rules, mode };
      },
    }),
    stages: (deps: Parameters<NonNullable<TestPipelineOptions["stages"]>>[0]) => [
      pollStage({ ...deps, policy: () => policyOf() }),
    ],
    rules: {
      debounce,
      caps: { sender: chance(0.5) ? [{ max: 8, per: 10 * minute }] : [], conversation: [], channel: [] },
      on_permanent_failure: pick(["continue", "block"] as const),
      on_new_message: pick(["send", "drop"] as const),
    },
    outbound: {
      /** The answers to some messages have two parts. */
      compose({ text, to }: { text: string; to: readonly { address: string }[] }) {
        const [address = "", word = ""] = [to[0]?.address, /word\d+x/.exec(text)?.[0]];
        const parts = /[02468]x/.test(word) ? [text, `the rest of ${word}`] : [text];
        return parts.map((part) => ({ text: part, to: address }));
      },
      async send(body: unknown, attempt: { key: string; crossing(): void | Promise<void> }): Promise<SendOutcome> {
        const draft = body as Sent;
        const waits = gate;
        await attempt.crossing();
        if (optedOut.has(draft.to)) problems.push(`sent to ${draft.to} after the opt-out: ${draft.text}`);
        atGate += 1;
        await waits;
        atGate -= 1;
        return outcomeOf(attempt.key, draft, () => {
          sent.push(draft);
          delivered.add(attempt.key);
        });
      },
      async reconcile(body: unknown, { key }: { key: string }): Promise<Finding> {
        if (luckOf(`find ${(body as Sent).text}`) < 0.4) return { kind: "unsure" };
        return delivered.has(key) ? { kind: "sent", id: externalId(`sent-${key}`) } : { kind: "not-sent" };
      },
    },
  };
  let pipeline: TestPipeline = await openPipeline(options);
  const store = {
    db,
    commit: <T>(write: Parameters<typeof pipeline.scheduler.commit<T>>[0]) => pipeline.scheduler.commit(write),
  };

  /** What waits for its turn in the platform's rate goes on waiting. */
  const settles = (): Promise<void> => pipeline.passes(1, 1);
  const newMail = (from: string = pick(people)): MessageEvent => {
    const word = `word${written.length}x`;
    const own = written.filter(({ event }) => event.from.address === from);
    const cited = own.length > 0 && chance(0.5) ? [pick(own).event.id] : [];
    const event = mail({
      text: `tell me ${word}`,
      from: { address: from },
      fingerprint: word,
      thread: { answers: cited },
      sentAt: new Date(clock.now()),
    });
    written.push({ word, event });
    return event;
  };
  const erase = async (person: string): Promise<void> => {
    const records = await db.read((q) => findPerson(q, [person]));
    const own = written.filter(({ event }) => event.from.address === person);
    await erasePerson(db, records, () => undefined, standardTiming);
    for (const { word } of [...own, ...relayed.filter(({ to }) => to === person)]) erased.add(word);
  };
  const repairs = async (): Promise<void> => {
    const box = pick(["inbox", "outbox"] as const);
    const actions: readonly Repair[] = ["retry", "release", "drop"];
    const action = pick<Repair>(box === "inbox" ? actions : [...actions, "send-now"]);
    const found = await db.read((q) =>
      q.all<{ id: string | number; code: string | null; state: string }>(
        box === "inbox"
          ? "SELECT id, code, state FROM events WHERE state IN ('held', 'failed', 'ignored') AND kind = 'message' ORDER BY id"
          : "SELECT id, code, state FROM drafts WHERE state NOT IN ('sent', 'delivered') ORDER BY body, id",
      ),
    );
    // What may have been delivered is not sent again by hand: that may repeat it.
    // A later part that is released by hand goes out alone.
    const isSafe = ({ id, code, state }: (typeof found)[number]) =>
      code !== "unknown-outcome" && code !== answeredBefore && state !== "dropped" && !/p\d+$/.test(String(id));
    const safe = found.filter((one) => action === "drop" || isSafe(one));
    if (safe.length > 0) await repair(store, box, action, { ids: [pick(safe).id] }, operator);
  };
  const conversations = () =>
    db.read((q) =>
      q.all<{ id: string; person: string; drafts: number }>(
        `SELECT id, person, (SELECT COUNT(*) FROM drafts WHERE conversation = conversations.id AND state IN ('queued', 'held'))
           AS drafts FROM conversations WHERE person <> '' ORDER BY person, opened_at`,
      ),
    );
  /** A responder answers in place of the agent. */
  const relays = async (): Promise<void> => {
    const open = await conversations();
    if (open.length === 0) return;
    const { id } = pick(open);
    const word = `human${relayed.length}x`;
    await pipeline.scheduler.commit(async (q) => {
      const customer = (await readCustomers(q, [id])).get(id);
      if (customer === undefined) return;
      await enqueueRelay(q, customer, { text: `${word} says`, inCall: false }, { clock, log: listen().log });
      relayed.push({ word, to: customer.person });
    });
  };
  const consents = async (): Promise<unknown> => {
    const person = pick(people);
    const target = { channel: "c", addresses: [person] };
    if (optedOut.delete(person)) return pipeline.scheduler.commit((q) => undoOptOut(q, target, operator));
    await pipeline.scheduler.commit((q) => optOut(q, target, operator));
    return optedOut.add(person);
  };
  const pauses = (): Promise<unknown> =>
    chance(0.5) ? pause(db, { channel: "c", reason: "a test", forMs: chance(0.5) ? minute : null }) : resume(db, "c");
  /** A late delivery receipt, which tells the truth. */
  const receives = async (): Promise<void> => {
    const all = await db.read((q) =>
      q.all<{ id: string }>("SELECT id FROM drafts WHERE attempts > 0 ORDER BY body, id"),
    );
    if (all.length === 0) return;
    const { id } = pick(all);
    const state = delivered.has(id) ? pick(["accepted", "delivered"] as const) : "failed";
    const event = receipt({ id: externalId(`receipt-${random()}`), about: { key: sendKey(id) }, state });
    await pipeline.accepts("c", event);
  };
  /** A human answers a customer while the provider is down: one whose answer waits if there is one. */
  const humans = async (): Promise<void> => {
    isProviderDown = true;
    await pipeline.accepts("c", newMail(), newMail());
    await settles();
    isProviderDown = false;
    const all = await conversations();
    const waiting = all.filter(({ drafts }) => drafts > 0);
    if (all.length === 0) return;
    const { id: conversation, person } = pick(waiting.length > 0 ? waiting : all);
    const [id, address] = [newId(clock.now()), JSON.stringify(firstTo({ address: person }, null))];
    await pipeline.scheduler.commit(async (q) => {
      const unsent = await q.all<{ id: string }>(
        `SELECT drafts.id FROM drafts JOIN replies ON replies.id = drafts.reply WHERE drafts.conversation = $1
           AND drafts.state IN ('queued', 'held') AND drafts.released = 0 AND replies.kind = 'answer'
           AND COALESCE(drafts.code, '') <> '${answeredBefore}'
           AND NOT EXISTS (SELECT 1 FROM drafts part JOIN attempts ON attempts.subject = part.id
             WHERE part.reply = drafts.reply AND COALESCE(attempts.outcome, '') <> 'deferred')`,
        conversation,
      );
      await clearLanes(q, conversation);
      const text = { kind: "human", text: `a human answers ${id}`, platformId: null } as const;
      await insertReply(q, { id, conversation, channel: "c", turn: null, address, ...text });
      for (const draft of unsent) replaced.add(draft.id);
    });
  };
  /** A human writes in the platform's interface. */
  const writesThere = async (): Promise<void> => {
    const bound = await db.read((q) =>
      q.all<{ id: string; person: string; polled: number }>(
        `SELECT platform_id AS id, MAX(person) AS person, MAX(CASE WHEN EXISTS (SELECT 1 FROM polls WHERE conversation = conversations.id
             AND due_at IS NOT NULL AND mark IS NOT NULL) THEN 1 ELSE 0 END) AS polled
         FROM conversations WHERE platform_id IS NOT NULL AND person <> '' GROUP BY platform_id ORDER BY person, MIN(opened_at)`,
      ),
    );
    if (bound.length === 0) return;
    const { id, person, polled } = pick(bound);
    const word = `there${external.length}x`;
    const messages = platform.messages.get(id) ?? [];
    const question = messages.findLast(({ senderRole }) => senderRole === "conversation_user");
    const over = question !== undefined && chance(0.5) ? { conversationMessageId: question.id } : {};
    messages.push(messageRecord(word, "manual_assistant", `${word} writes a human`, over));
    external.push({ word, to: person, there: polled === 1 ? id : null });
  };
  /** What `bridgehead start` does. */
  const opens = async (): Promise<void> => {
    const [word, address] = [`opening${external.length}x`, pick(people)];
    const opening = { introduction: `${word} says hello`, subject: null, context: null, speak: true };
    await db.tx((q) => begin(q, clock, { channel: "c", agent: "agent", address, name: null, opening }));
    external.push({ word, to: address, there: null });
  };
  const looks = (): Promise<unknown> =>
    pipeline.scheduler.commit(async (q) =>
      schedulePolls(q, await q.all("SELECT id, channel FROM conversations WHERE platform_id IS NOT NULL"), 0),
    );
  const operates = (): Promise<unknown> =>
    pick([repairs, repairs, consents, pauses, relays, looks, chance(0.3) ? () => erase(pick(people)) : receives])();
  /** `begins`: what the next start does before it works. */
  const dies = async (begins?: (q: Query) => Promise<unknown>, channels = ["c"]): Promise<void> => {
    await pipeline.scheduler.drain(0);
    await db.tx(endLeases);
    if (begins !== undefined) await db.tx(begins);
    pipeline = await openPipeline({ ...options, channels });
  };
  /** The channel is removed from the configuration, and added again. */
  const removes = (): Promise<void> =>
    dies(undefined, ["other"])
      .then(() => pipeline.passes(pick([minute, hour])))
      .then(() => dies());
  /** Both happen while the platform, or the provider, leaves what it is asked without an answer. The platform has performed
   *  most questions by then, and reads what it has at the end. A question may wait for its turn in the rate. */
  const overlaps = async (first: () => unknown, second: () => unknown, isAsk = true): Promise<void> => {
    const held = { ask: [] as (() => void)[], look: [] as (() => void)[] };
    const opened = Promise.withResolvers<void>();
    if (!isAsk) gate = opened.promise;
    else {
      platform.faults.ask = (asked) => {
        const dice = luckOf(asked.words);
        const answer = dice < 0.2 ? null : asked.perform();
        held.ask.push(() => (dice < 0.4 ? asked.cut() : asked.answer(200, answer)));
      };
      platform.faults.look = (asked) => void held.look.push(() => asked.answer(200, asked.perform()));
    }
    const isHeld = () => pipeline.scheduler.running() <= held.ask.length + held.look.length + atGate + clock.sleeping();
    const rests = async (isAwaited = true): Promise<void> => {
      await pipeline.scheduler.sweep();
      if (isAwaited) await expect.poll(isHeld, { interval: 1 }).toBe(true);
    };
    await first();
    clock.forward(debounce);
    await rests(chance(0.7));
    await second();
    clock.forward(debounce);
    await rests();
    for (const operation of ["look", "ask"] as const) {
      delete platform.faults[operation];
      for (const answer of held[operation].splice(0)) answer();
      await rests();
    }
    gate = null;
    opened.resolve();
    await settles();
  };
  const interrupts = (): Promise<void> => overlaps(() => pipeline.accepts("c", newMail()), operates, chance(0.5));
  /** A customer writes, often in another thread, while a thread in the same conversation of the platform is polled. */
  const crosses = async (): Promise<void> => {
    await resume(db, "c");
    const bound = await db.read((q) =>
      q.all<{ id: string; channel: string; person: string }>(
        "SELECT id, channel, person FROM conversations WHERE platform_id IS NOT NULL ORDER BY person, opened_at",
      ),
    );
    const threads = bound.filter(({ person }) => person !== "" && !optedOut.has(person));
    if (threads.length === 0) return;
    const thread = pick(threads);
    const asks = () => pipeline.accepts("c", newMail(thread.person));
    const polls = () => pipeline.scheduler.commit((q) => schedulePolls(q, [thread], 0));
    await (chance(0.5) ? overlaps(asks, polls) : overlaps(polls, asks));
  };
  const clears = (): void => {
    for (const operation of requests) delete platform.faults[operation];
  };
  const acts: readonly (readonly [weight: number, act: () => unknown])[] = [
    [10, async () => pipeline.accepts("c", ...Array.from({ length: chance(0.2) ? 3 : 1 }, () => newMail()))],
    [
      2,
      async () =>
        written.length > 0 && pipeline.accepts("c", { ...pick(written).event, id: externalId(`again-${random()}`) }),
    ],
    [5, repairs],
    [2, consents],
    [2, relays],
    [2, pauses],
    [0.4, () => erase(pick(people))],
    [1, () => db.tx((q) => forget(q, { rawMs: minute, eventsMs: 30 * minute }, hour))],
    [2, receives],
    [2, humans],
    [3, interrupts],
    [4, crosses],
    [2, () => void (platform.faults[pick(requests)] = pick([...refusals, cutting("before"), cutting("after")]))],
    [3, clears],
    [1, () => dies()],
    [3, writesThere],
    [3, looks],
    [1, opens],
    [1, () => void (platform.mode = pick(["ai", "manual"] as const))],
    [0.7, () => void (mode = pick(["live", "shadow"] as const))],
    // The wall clock is set; the store's does not go back.
    [0.7, () => clock.set(pick([-1, 1]) * pick([second, 10 * minute]))],
    [0.4, () => dies((q) => holdOpenWork(q, null))],
    [0.4, removes],
    [6, () => pipeline.passes(pick([second, 10 * second, 2 * minute, 20 * minute]))],
  ];
  const total = acts.reduce((sum, [weight]) => sum + weight, 0);
  for (let step = 0; step < steps; step += 1) {
    let dice = random() * total;
    const [, act] = acts.find(([weight]) => (dice -= weight) < 0) ?? [0, clears];
    await act();
    await settles();
  }

  // Calm: everything works again, and what blocks is dropped by an operator.
  isProviderWell = true;
  mode = "live";
  platform.mode = "ai";
  clears();
  await resume(db, "c");
  for (let round = 0; round < 3; round += 1) {
    await pipeline.passes(8 * hour, 20 * minute);
    await repair(store, "outbox", "drop", { states: ["failed", "held"] }, operator);
    await repair(store, "inbox", "drop", { states: ["failed", "held"] }, operator);
  }
  const effects = () => [sent.length, platform.calls.filter((call) => !/^(look|mode)/.test(call)).length];
  const before = effects();
  await dies();
  await pipeline.passes(2 * hour, 20 * minute);
  expect(effects(), "a second start does nothing").toEqual(before);

  expect(problems).toEqual([]);
  const sentTexts = sent.map(({ text }) => text);
  const listed = (role: string) =>
    [...platform.messages.values()].flat().flatMap(({ senderRole, message }) => (senderRole === role ? [message] : []));
  const [asked, said] = [listed("conversation_user"), listed("manual_assistant")];
  const within = (texts: readonly string[], word: string) => texts.filter((text) => text.includes(word));
  const repeated = written.flatMap(({ word }) => {
    const texts = within(sentTexts, word);
    const times = [within(asked, word).length, texts.length - new Set(texts).size + 1];
    // Behind a part that blocks its conversation, an operator's drop lets the rest through.
    const isBackward = texts[0]?.startsWith("the rest") && options.rules.on_permanent_failure === "continue";
    return times.some((count) => count > 1) || isBackward ? [`${word}: asked ${times[0]} times: ${texts.join()}`] : [];
  });
  expect(repeated).toEqual([]);
  const isRepeated = (word: string) => [sentTexts, said].some((texts) => within(texts, word).length > 1);
  expect(relayed.filter(({ word }) => isRepeated(word))).toEqual([]);
  expect(external.filter(({ word }) => within(sentTexts, word).length > 1)).toEqual([]);
  const owners = [...written.map(({ word, event }) => ({ word, to: event.from.address })), ...relayed, ...external];
  const fetched = await db.read((q) =>
    q.all<{ id: string }>(
      `SELECT platform_id AS id FROM replies WHERE platform_id IS NOT NULL
       UNION ALL SELECT platform_id FROM conversations WHERE person = ''`,
    ),
  );
  const isUnread = ({ word, there }: (typeof external)[number]) =>
    there !== null && !fetched.some(({ id }) => id === word || id === there);
  expect(external.filter(isUnread)).toEqual([]);
  const astray = owners.flatMap((own) => sent.filter(({ text, to }) => text.includes(own.word) && to !== own.to));
  expect(astray).toEqual([]);
  const late = await db.read((q) =>
    q.all<{ id: string }>(
      `SELECT id FROM drafts WHERE state IN ('sent', 'delivered')
         AND NOT EXISTS (SELECT 1 FROM actions WHERE actions.draft = drafts.id AND action = 'resend')`,
    ),
  );
  expect(late.filter(({ id }) => replaced.has(id))).toEqual([]);
  const byHumans = sentTexts.filter((text) => text.startsWith("a human"));
  expect(byHumans).toEqual([...new Set(byHumans)]);
  const events = await db.read((q) =>
    q.all<Readonly<Record<string, string | null>>>(
      `SELECT events.external_id, events.state, events.code, turns.state AS turn, replies.state AS reply, drafts.state AS draft
       FROM events LEFT JOIN turns ON turns.id = events.turn LEFT JOIN replies ON replies.turn = turns.id
       LEFT JOIN drafts ON drafts.reply = replies.id WHERE events.kind = 'message'`,
    ),
  );
  const unexplained = written.filter(({ word, event }) => {
    if (erased.has(word)) return false;
    const row = events.find(({ external_id }) => external_id === event.id);
    if (row === undefined || row["state"] === "stored") return true;
    if (row["state"] !== "routed") return row["code"] === null;
    const isEnded = row["turn"] === "answered" && row["reply"] === "composed";
    return !isEnded || !["sent", "delivered", "dropped"].includes(row["draft"] ?? "");
  });
  expect(unexplained.map(({ event }) => events.find(({ external_id }) => external_id === event.id))).toEqual([]);
  const open = await db.read((q) =>
    q.all(
      `SELECT 'turn', id, state FROM turns WHERE open = 1 UNION ALL SELECT 'draft', id, state FROM drafts WHERE open = 1
       UNION ALL SELECT 'reply', id, state FROM replies WHERE state = 'ready'
       -- What a poll has found after a restore is recorded, and not sent.
       UNION ALL SELECT 'human', replies.id, drafts.state FROM replies LEFT JOIN drafts ON drafts.reply = replies.id
         WHERE kind = 'human' AND COALESCE(drafts.state, '') NOT IN ('sent', 'delivered', 'dropped')
           AND NOT (replies.state = 'composed' AND turn IS NULL AND drafts.id IS NULL)
       UNION ALL SELECT 'attempt', subject, kind FROM attempts WHERE outcome IS NULL
       UNION ALL SELECT 'lane', id, direction FROM lanes WHERE due_at IS NOT NULL
       UNION ALL SELECT 'stored twice', platform_id, MAX(kind) FROM replies GROUP BY platform_id HAVING COUNT(platform_id) > 1`,
    ),
  );
  expect(open).toEqual([]);
  const kept = await db.read((q) =>
    q.all<{ text: string }>(
      `SELECT body || COALESCE(subject, '') || COALESCE(reason, '') AS text FROM events UNION ALL SELECT question FROM turns
       UNION ALL SELECT text FROM replies UNION ALL SELECT body FROM drafts UNION ALL SELECT COALESCE(detail, '') FROM attempts`,
    ),
  );
  expect([...erased].filter((word) => kept.some(({ text }) => text.includes(word)))).toEqual([]);
}
