// Calls: the daemon dies during a call, and the next process continues it.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/ops/clock.ts";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import { begin } from "../../../../src/pipeline/outbound.ts";
import { openPostgres } from "../../../../src/store/postgres.ts";
import { openSqlite } from "../../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../../src/store/tables/events.ts";
import { startDaemon } from "../daemon.ts";
import { readStored } from "../mail/invariants.ts";
import { lastWords, longWait, until, within } from "../mail/scenario.ts";
import { openSmsSetup, ourNumber, publicUrl, type SmsSetup, type SmsTestServers, startSmsServers } from "./servers.ts";

interface Death {
  readonly point: FailpointName;
  readonly hit: number;
  /** True where the first question is stored by then and its answer is not yet being sent: it is certainly spoken. A
   *  sentence that may have been spoken is not repeated. */
  readonly kept: readonly ["before" | "after", boolean][];
}
const always: Death["kept"] = [
  ["before", true],
  ["after", true],
];
const death = (point: FailpointName, hit = 1, kept = always): Death => ({ point, hit, kept });

const deaths: readonly Death[] = [
  // Of sms's look for missed texts, of the call's beginning, of the first question.
  death("event.commit", 2, [["after", false]]),
  death("event.commit", 3, [
    ["before", false],
    ["after", true],
  ]),
  death("session.commit", 1, [
    ["before", false],
    ["after", false],
  ]),
  death("ask.cross"),
  death("answer.commit"),
  // That commit records the attempt to speak as well.
  ...(["draft.commit", "send.record"] as const).map((point) =>
    death(point, 1, [
      ["before", true],
      ["after", false],
    ]),
  ),
  ...(["send.cross", "outcome.commit"] as const).map((point) =>
    death(point, 1, [
      ["before", false],
      ["after", false],
    ]),
  ),
];
const cases = deaths.flatMap(({ point, hit, kept }) =>
  kept.map(([phase, certain]) => ({ point, hit, phase, certain })),
);

/** More calls than the adapter places at once. The provider takes each and does not answer. */
const [placedAtOnce, wanted] = [32, 40];

/** Kills the daemon of a call at each failpoint of a call, and the daemon that places calls. `schemaUrl` makes a schema of
 *  PostgreSQL for each; default: SQLite. */
export function deathsInCalls(schemaUrl?: () => Promise<string>): void {
  describe("the daemon of a call, killed and started again", () => {
    let servers: SmsTestServers;
    beforeAll(async () => {
      servers = await startSmsServers();
    });
    afterAll(() => servers?.close());

    for (const [index, { point, hit, phase, certain }] of cases.entries()) {
      it.concurrent(`at ${point} ${phase} ${hit}`, { timeout: 600_000 }, async () => {
        const setup = await openSmsSetup(servers, schemaUrl && { postgres: await schemaUrl() });
        try {
          await tellCall(setup, `+120255${70_000 + index}`, `${point}:${phase}:${hit}`, certain);
        } finally {
          await setup.close();
        }
      });
    }
  });

  describe("the daemon of a caller who is put through to a human, killed in the words that say so", () => {
    it("puts the caller through after the next start", { timeout: 600_000 }, async () => {
      const servers = await startSmsServers();
      const postgres = schemaUrl && { postgres: await schemaUrl() };
      const setup = await openSmsSetup(servers, { ...postgres, transfer: "+12025550199" });
      try {
        const first = startDaemon({ config: setup.config, env: setup.env });
        expect(await first.ready, lastWords(first)).toBe(true);
        const parties = { from: "+12025579998", to: ourNumber };
        const call = await setup.phone.dial({ url: `${publicUrl}/channels/voice/call`, ...parties });
        call.digit("0");
        await call.hears("putting you through", longWait);
        first.send("SIGKILL");
        await first.ended;
        const second = startDaemon({ config: setup.config, env: setup.env });
        expect(await second.ready, lastWords(second)).toBe(true);
        await within(call.over);
        expect(call.verbs.map(({ name }) => name)).toContain("Dial");
        expect(await within(second.stop())).toEqual({ code: 0, signal: null });
        expect(await sessions(setup)).toEqual([{ id: call.sid, state: "closed" }]);
      } finally {
        await setup.close();
        await servers.close();
      }
    });
  });

  describe("the daemon that places calls, killed and started again", () => {
    it("leaves those that it could not place yet queued, and places each call once", { timeout: 600_000 }, async () => {
      const servers = await startSmsServers();
      const setup = await openSmsSetup(servers, schemaUrl && { postgres: await schemaUrl() });
      try {
        setup.api.fault("hang-stored", { on: "call" });
        const first = startDaemon({ config: setup.config, env: setup.env });
        expect(await first.ready, lastWords(first)).toBe(true);
        await openCalls(setup);
        await until("all drafts, and as many calls as are placed at once", async () => {
          const stored = await readStored(setup.store, "SELECT id FROM drafts");
          return stored.length === wanted && setup.api.calls.length >= placedAtOnce;
        });
        const call = await setup.phone.dial({
          url: `${publicUrl}/channels/voice/call`,
          from: "+12025579999",
          to: ourNumber,
        });
        call.say("Tell me about tag-live-1");
        await call.hears("tag-live-1", longWait);
        const ofCalls = "FROM drafts WHERE session IS NULL";
        expect(
          await readStored(
            setup.store,
            `SELECT state, attempts, COUNT(*) AS n ${ofCalls} GROUP BY state, attempts ORDER BY state`,
          ),
        ).toEqual([
          { state: "queued", attempts: 0, n: wanted - placedAtOnce },
          { state: "sending", attempts: 1, n: placedAtOnce },
        ]);
        expect(setup.api.calls).toHaveLength(placedAtOnce);
        first.send("SIGKILL");
        expect((await within(first.ended))?.signal).toBe("SIGKILL");

        setup.api.heal();
        const second = startDaemon({ config: setup.config, env: setup.env });
        expect(await second.ready, lastWords(second)).toBe(true);
        const unsettled = `SELECT id ${ofCalls} AND state NOT IN ('sent', 'delivered')`;
        await until("the calls are settled", async () => (await readStored(setup.store, unsettled)).length === 0);
        expect(await within(second.stop())).toEqual({ code: 0, signal: null });
        expect(new Set(setup.api.calls.map(({ to }) => to)).size).toBe(wanted);
        expect(setup.api.calls).toHaveLength(wanted);
      } finally {
        await setup.close();
        await servers.close();
      }
    });
  });
}

async function tellCall(setup: SmsSetup, from: string, killAt: string, certain: boolean): Promise<void> {
  const tag = (n: number) => `tag-call${from.slice(1)}-${n}`;
  const first = startDaemon({ config: setup.config, env: setup.env, killAt });
  expect(await first.ready, lastWords(first)).toBe(true);
  const call = await setup.phone.dial({ url: `${publicUrl}/channels/voice/call`, from, to: ourNumber });
  call.say(`Tell me about ${tag(1)}`);
  const end = await within(first.ended);
  if (end?.signal !== "SIGKILL") first.send("SIGKILL");
  expect(end?.signal, `${killAt} was not reached\n${lastWords(first)}`).toBe("SIGKILL");

  const second = startDaemon({ config: setup.config, env: setup.env });
  expect(await second.ready, lastWords(second)).toBe(true);
  await call.until(({ connections }) => connections > 1, longWait);
  const spoken = () => call.spoken.map(({ text }) => text).join(" ");
  if (certain) await call.hears(tag(1), longWait);
  call.say(`Tell me about ${tag(2)}`);
  await call.hears(tag(2), longWait);
  await call.hangUp();
  await until("the call is over", async () => {
    const [unrouted, live] = [
      await readStored(setup.store, "SELECT id FROM events WHERE state = 'stored'"),
      (await sessions(setup)).filter(({ state }) => state !== "closed"),
    ];
    return unrouted.length + live.length === 0;
  });
  expect(await within(second.stop())).toEqual({ code: 0, signal: null });

  expect(await sessions(setup)).toEqual([{ id: call.sid, state: "closed" }]);
  for (const n of [1, 2]) {
    expect(spoken().split(tag(n)).length - 1, `times that ${tag(n)} was spoken of`).toBeLessThanOrEqual(1);
    const asked = setup.servers.asked.questions().filter(({ text }) => text.includes(tag(n)));
    expect(asked.length, `times that ${tag(n)} was asked`).toBeLessThanOrEqual(1);
  }
  expect(setup.servers.asked.conversationsOf(`bridgehead:voice:${from}`)).toBe(1);
  expect(
    await readStored(
      setup.store,
      `SELECT id, state FROM turns WHERE state NOT IN ('answered', 'dropped')
       UNION ALL SELECT id, state FROM drafts WHERE state NOT IN ('sent', 'dropped')
       UNION ALL SELECT CAST(id AS TEXT), state FROM events WHERE state NOT IN ('routed', 'ignored')`,
    ),
  ).toEqual([]);
}

/** What `bridgehead start` stores for each person. */
async function openCalls(setup: SmsSetup): Promise<void> {
  const db = setup.store.startsWith("postgres:")
    ? await openPostgres(setup.store, { connections: 2 })
    : openSqlite(setup.store, Date.now);
  await db.tx(async (q) => {
    await ensureChannel(q, "voice");
    for (let n = 0; n < wanted; n += 1) {
      const opening = { introduction: `Good day, number ${n}.`, subject: null, context: null, speak: true };
      await begin(q, systemClock, {
        channel: "voice",
        agent: "support",
        address: `+120255${80_000 + n}`,
        name: null,
        opening,
      });
    }
  });
  await db.close();
}

const sessions = ({ store }: SmsSetup) =>
  readStored<{ id: string; state: string }>(store, "SELECT id, state FROM sessions");
