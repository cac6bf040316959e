// Texts keep coming, the provider misbehaves, and the daemon is killed and started again, over and over.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SmsFault } from "../../../src/sandbox/sms-faults.ts";
import { startDaemon } from "../../support/process/daemon.ts";
import { readStored } from "../../support/process/mail/invariants.ts";
import { lastWords, until, within } from "../../support/process/mail/scenario.ts";
import { generator, tagIn } from "../../support/process/mail/servers.ts";
import {
  openSmsSetup,
  type SmsSetup,
  type SmsTestServers,
  startSmsServers,
} from "../../support/process/sms/servers.ts";

const seeds = [20_263];
const killsEach = 6;
const people = 3;
const plant = ["quick-looks", "no-patience", "short-calls"];

/** None of them leaves a text in doubt that the provider does not have: twice in a row, such a text is held by policy. */
const faults: readonly SmsFault[] = [
  { code: 20429, status: 429, retryAfter: 1 },
  { slow: 700 },
  "cut-stored",
  "hang-stored",
];

interface AnsweredText {
  readonly person: string;
  readonly tag: string;
}

describe("the daemon of texts, killed at random times, at a provider with faults", () => {
  let servers: SmsTestServers;
  beforeAll(async () => {
    servers = await startSmsServers();
  });
  afterAll(() => servers?.close());

  for (const seed of seeds)
    it(`loses nothing and repeats nothing (seed ${seed})`, { timeout: 600_000 }, async () => {
      const setup = await openSmsSetup(servers);
      try {
        const random = generator(seed);
        const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
        const texts: AnsweredText[] = [];
        const acknowledged: string[] = [];
        const over = new AbortController();
        const posting: Promise<unknown>[] = [];
        const person = async (index: number) => {
          const from = `+120255${50_000 + (seed % 1000) * 10 + index}`;
          for (let n = 0; !over.signal.aborted; n += 1) {
            const tag = `tag-${index === 0 ? "long" : "p"}${seed}a${index}-${n}`;
            const { message, tries } = await setup.api.receive({ from, body: `Tell me about ${tag} today.` });
            if (tries.some(({ status }) => status === 200)) {
              acknowledged.push(message.sid);
              texts.push({ person: from, tag });
            }
            // The provider repeats a webhook, also one that was answered.
            if (random() < 0.4) posting.push(setup.api.repeat(message));
            await pause(1000 + random() * 5000);
          }
        };
        const misbehave = async () => {
          for (let seen = 0; !over.signal.aborted; ) {
            // A third of the requests.
            if (setup.api.creates.length >= seen) {
              if (random() < 0.33) setup.api.fault(pick(faults), { times: 1 });
              seen = setup.api.creates.length + 1;
            }
            if (random() < 0.03) {
              await setup.api.down();
              await pause(random() * 800);
              await setup.api.up();
            }
            // Receipts come twice and out of order.
            const one = setup.api.sent.length > 0 ? pick(setup.api.sent) : null;
            if (one && random() < 0.5)
              posting.push(setup.api.report(one, pick(["queued", "sent", "sent", "delivered"])));
            await pause(random() * 300);
          }
        };
        let writing: Promise<unknown> | null = null;
        for (let kill = 0; kill < killsEach; kill += 1) {
          const daemon = startDaemon({ config: setup.config, env: setup.env, plant });
          await daemon.ready;
          writing ??= Promise.all([...Array.from({ length: people }, (_, at) => person(at)), misbehave()]);
          const enough = setup.api.creates.length + 1 + Math.floor(random() * 15);
          await until("some sends", () => setup.api.creates.length >= enough, 60_000).catch(() => undefined);
          await pause(random() * 300);
          daemon.send("SIGKILL");
          await daemon.ended;
          if (kill === killsEach - 1) over.abort();
        }
        await writing;
        setup.api.heal();
        await Promise.all(posting);
        const daemon = startDaemon({ config: setup.config, env: setup.env, plant });
        await daemon.ready;
        const open = () =>
          readStored<{ what: string; id: string; state: string; reason: string }>(
            setup.store,
            `SELECT 'event' AS what, CAST(id AS TEXT) AS id, state, reason FROM events WHERE state IN ('stored', 'failed', 'held')
             UNION ALL SELECT 'turn', id, state, reason FROM turns WHERE state NOT IN ('answered', 'dropped')
             UNION ALL SELECT 'draft', id, state, reason FROM drafts WHERE state NOT IN ('sent', 'delivered')`,
          );
        await until("all is done", async () => (await open()).length === 0, 240_000).catch(() => undefined);
        const left = await open();
        expect(await within(daemon.stop(), 60_000), lastWords(daemon)).toEqual({ code: 0, signal: null });
        expect(left, lastWords(daemon)).toEqual([]);
        expect(await wrong(setup, texts, acknowledged)).toEqual([]);
      } finally {
        await setup.close();
      }
    });
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function wrong(
  setup: SmsSetup,
  texts: readonly AnsweredText[],
  acknowledged: readonly string[],
): Promise<string[]> {
  const found: string[] = [];
  const stored = await readStored<{ external_id: string }>(setup.store, "SELECT external_id FROM events");
  const kept = new Set(stored.map((one) => one.external_id));
  for (const sid of acknowledged) if (!kept.has(sid)) found.push(`acknowledged and not stored: ${sid}`);
  const questions = setup.servers.asked.questions();
  for (const { tag } of texts) {
    const asked = questions.filter(({ text }) => new RegExp(`${tag}\\b`).test(text)).length;
    if (asked !== 1) found.push(`${tag} was asked ${asked} times`);
  }
  for (const person of new Set(texts.map((one) => one.person))) {
    const bodies = setup.api.sent.filter(({ to }) => to === person).map(({ body }) => body);
    for (const body of new Set(bodies)) {
      const times = bodies.filter((one) => one === body).length;
      if (times > 1) found.push(`sent ${times} times: ${body.slice(0, 60)}`);
    }
    const wanted = texts.filter((one) => one.person === person).map(({ tag }) => tag);
    const tags = [...new Set(bodies.map(tagIn))].filter((tag) => tag !== null && wanted.includes(tag));
    for (const tag of wanted) if (!tags.includes(tag)) found.push(`no answer to ${tag}`);
    if (wanted.filter((tag) => tags.includes(tag)).join() !== tags.join()) found.push(`order: ${tags.join()}`);
    const parts = bodies.map((body) => Number(/\((\d+)\/\d+\)/.exec(body)?.[1] ?? 0));
    if (parts.some((part, at) => part > 1 && parts[at - 1] !== part - 1)) found.push(`parts: ${parts.join()}`);
  }
  const taken = new Set(setup.api.sent.map(({ sid }) => sid));
  const drafts = await readStored<{ id: string; external_id: string | null }>(
    setup.store,
    "SELECT id, external_id FROM drafts",
  );
  for (const { id, external_id: sid } of drafts)
    if (sid === null || !taken.has(sid)) found.push(`draft ${id} is ${String(sid)} at no provider`);
  for (const sid of taken) if (!drafts.some((one) => one.external_id === sid)) found.push(`${sid} belongs to no draft`);
  return found;
}
