// Several daemons on one PostgreSQL, killed at random failpoints and started again, with the texts of a few dozen people: each
// lane stays in order. A node that ignores the leases of the others, and one that appends to lanes at their front, break it, so
// that the test can fail.

import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { PersonText, ReceivedText } from "../../../src/sandbox/sms-api.ts";
import type { SmsMessage } from "../../../src/sandbox/sms-records.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { eventually } from "../../support/clock.ts";
import { type PhoneDaemon, startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import type { Echo } from "../../support/daemon/platform.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { closeServer, listen } from "../../support/machine/network.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "../../support/process/daemon.ts";
import { generator } from "../../support/process/mail/servers.ts";
import { needPostgres, type SharedPostgres, sharedPostgres, urlOfSchema } from "../../support/store/postgres.ts";

interface Scenario {
  readonly nodes: number;
  readonly people: number;
  /** From each of the people, at least: they continue until the last kill. */
  readonly texts: number;
  readonly kills: number;
  readonly seed: number;
  /** Milliseconds until everything must be answered. */
  readonly patience: number;
}

interface Result {
  /** Number of processes that were killed at a failpoint. */
  readonly kills: number;
  /** Number of processes that asked or sent something. */
  readonly workers: number;
  readonly found: readonly (readonly [Invariant, string])[];
  /** Where something is broken: the turns without a sent answer (`statesIn`). */
  readonly states: string;
}

type Invariant = "lost" | "order" | "asked-twice" | "two-at-once" | "answers" | "stray-conversation" | "unknown";

const points = "event.commit route.commit ask.record ask.cross answer.commit send.record send.cross outcome.commit";
const circumstances = ["short-takeover", "quick-looks"];
const tagIn = (text: string): string => /p\d+-\d+/.exec(text)?.[0] ?? "";
const personOf = (tag: string): string => tag.replace(/-.*/, "");

type Model = Echo & { readonly overlaps: readonly string[] };

/** A model that takes a moment, and notes questions of one person that are asked while it answers another one of them. */
async function startModel(random: () => number, thinking = 20): Promise<Model> {
  const running = new Set<string>();
  const overlaps: string[] = [];
  let asked = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { messages } = (await json(request)) as { messages: { content: string }[] };
    const tag = tagIn(messages.at(-1)?.content ?? "");
    const person = personOf(tag);
    asked += 1;
    if (running.has(person)) overlaps.push(tag);
    running.add(person);
    await sleep(thinking + 100 * random());
    running.delete(person);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content: `This answers ${tag}.` } }] }));
  };
  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  const url = await listen(server);
  return {
    url: `${url}/v1`,
    overlaps,
    asked: () => asked,
    hold: () => undefined,
    release: () => undefined,
    close: () => closeServer(server),
  };
}

/** The nodes of a scenario. A killed one is started again until the scenario ends. */
class Nodes {
  readonly begun = new Set<string>();
  kills = 0;
  /** Number of running processes that will be killed at a failpoint. */
  #doomed = 0;
  readonly #options: Scenario;
  readonly #fixture: PhoneDaemon;
  readonly #random: () => number;
  readonly #running = new Map<Daemon, string>();
  readonly #loops: Promise<void>[] = [];
  #isOver = false;

  constructor(fixture: PhoneDaemon, options: Scenario, random: () => number) {
    this.#fixture = fixture;
    this.#options = options;
    this.#random = random;
  }

  /** Resolves when all are ready; where they are killed, when the first one is. */
  async start(): Promise<void> {
    const { nodes, kills } = this.#options;
    for (let n = 0; n < nodes; n++) this.#loops.push(this.#live());
    await eventually(() => expect(this.#running.size).toBeGreaterThanOrEqual(kills === 0 ? nodes : 1));
  }

  /** The URLs of those that run. */
  urls(): string[] {
    return [...this.#running.values()];
  }

  async stop(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.#isOver = true;
    for (const daemon of this.#running.keys()) daemon.send(signal);
    await Promise.all(this.#loops);
  }

  async #live(): Promise<void> {
    const { file, env } = this.#fixture;
    while (!this.#isOver) {
      const isDoomed = this.kills + this.#doomed < this.#options.kills;
      if (isDoomed) this.#doomed += 1;
      const killAt = isDoomed ? { killAt: this.#death() } : {};
      const daemon = startDaemon({ config: file, env, saysPort: true, plant: circumstances, ...killAt });
      if (await daemon.ready) {
        this.#running.set(daemon, urlOf(daemon));
        if (this.#isOver) daemon.send("SIGKILL");
      }
      await daemon.ended;
      this.#running.delete(daemon);
      if (isDoomed) this.#doomed -= 1;
      const words = daemon.lines.findLast(({ message }) => message === "killed");
      if (words === undefined) continue;
      this.kills += 1;
      for (const draft of words["begun"] as string[]) this.begun.add(draft);
    }
  }

  #death(): string {
    const all = points.split(" ");
    const point = all[Math.floor(this.#random() * all.length)];
    const phase = this.#random() < 0.5 ? "before" : "after";
    return `${point}:${phase}:${2 + Math.floor(this.#random() * 12)}`;
  }
}

const urlOf = ({ lines }: Daemon): string =>
  `http://127.0.0.1:${String(lines.find(({ message }) => message === "listening")?.["port"])}`;
const addressOf = (p: number) => `+1202556${1000 + p}`;

/** Starts the model, the platform and the provider, for nodes that share a store. `timeout`: of a question; the lease of its
 *  lane is longer. */
async function startFixture(
  postgres: SharedPostgres,
  seed: number,
  finished: (end: () => Promise<void>) => void,
  timeout = "5s",
): Promise<{ readonly model: Model; readonly fixture: PhoneDaemon; readonly schema: string }> {
  const model = await startModel(generator(seed));
  const schema = await postgres.schema();
  const fixture = await startPhoneDaemon(finished, {
    model,
    store: urlOfSchema(postgres, schema),
    platform: { timeout },
    // A text whose sender dies twice at the crossing would be held. Here its lookup at the provider is certain.
    sms: { on_unknown: "resend" },
    stopped: true,
  });
  await fixture.config();
  // Receipts would settle the drafts of unknown outcome.
  fixture.api.progress([]);
  return { model, fixture, schema };
}

/** Returns what is broken in the lanes of the people, each of whom wrote these texts. */
function brokenIn(
  fixture: PhoneDaemon,
  model: Model,
  tags: readonly (readonly string[])[],
): (readonly [Invariant, string])[] {
  const found: (readonly [Invariant, string])[] = model.overlaps.map((tag) => ["two-at-once", tag]);
  const questions = fixture.questions();
  for (const [p, own] of tags.entries()) {
    const mine = questions.filter(({ text }) => personOf(tagIn(text)) === `p${p}`);
    const asked = mine.map(({ text }) => tagIn(text));
    for (const tag of own) if (!asked.includes(tag)) found.push(["lost", tag]);
    if (new Set(asked).size < asked.length) found.push(["asked-twice", asked.join()]);
    else if (asked.join() !== own.filter((tag) => asked.includes(tag)).join()) found.push(["order", asked.join()]);
    if (new Set(mine.map(({ conversation }) => conversation)).size > 1) found.push(["stray-conversation", `p${p}`]);
    const answers = fixture.textsTo(addressOf(p)).map(tagIn);
    if (answers.join() !== own.join()) found.push(["answers", answers.join()]);
  }
  return found;
}

/** Runs the scenario and returns what is broken at its end. */
async function run(
  postgres: SharedPostgres,
  options: Scenario,
  finished: (end: () => Promise<void>) => void,
): Promise<Result> {
  const { model, fixture, schema } = await startFixture(postgres, options.seed + 1, finished);
  const nodes = new Nodes(fixture, options, generator(options.seed));
  finished(() => nodes.stop("SIGKILL"));
  await nodes.start();

  const { people, texts, kills, patience } = options;
  const tags = Array.from({ length: people }, (): string[] => []);
  const answered = () => new Set(fixture.api.sent.map(({ body }) => tagIn(body)));
  let sent = 0;
  const post = async (message: SmsMessage | null, text: PersonText): Promise<ReceivedText> =>
    message === null ? fixture.api.receive(text) : { message, tries: await fixture.api.repeat(message) };
  /** The provider repeats a text until a node acknowledges it, and the person writes the next one then. */
  const write = async (p: number, own: string[]) => {
    for (let n = 0; ; n += 1) {
      // The deaths are spread over all texts, and come while there is work.
      await eventually(() => {
        if (nodes.kills < (Math.min(n, texts) * kills) / texts && answered().size < sent)
          throw new Error("not enough deaths yet");
      }, patience);
      if (n >= texts && nodes.kills >= kills) return;
      const tag = `p${p}-${n}`;
      own.push(tag);
      sent += 1;
      let message: SmsMessage | null = null;
      for (let isAcknowledged = false; !isAcknowledged; ) {
        await eventually(() => expect(nodes.urls()).not.toEqual([]));
        const urls = nodes.urls();
        fixture.aim({ url: urls[(p + n) % urls.length] ?? "" });
        const { message: posted, tries } = await post(message, { from: addressOf(p), body: `${tag}?` });
        message = posted;
        isAcknowledged = tries.at(-1)?.status === 200;
      }
    }
  };
  const end = performance.now() + patience;
  await Promise.all(tags.map((own, p) => write(p, own))).catch(() => undefined);
  await eventually(() => expect(answered().size).toBe(sent), Math.max(0, end - performance.now())).catch(
    () => undefined,
  );
  await nodes.stop("SIGTERM");
  const found = brokenIn(fixture, model, tags);
  const states = found.length === 0 ? "" : await statesIn(postgres.url, schema);
  await fixture.start();
  await fixture.idle();
  // Only drafts of unknown outcome are looked up at the provider.
  const unknown = await fixture.rows<{ id: string }>("SELECT id FROM drafts WHERE lookups > 0");
  for (const { id } of unknown) if (!nodes.begun.has(id)) found.push(["unknown", id]);
  const workers = (await fixture.rows("SELECT DISTINCT node FROM attempts")).length;
  if (process.env["STATISTICS"])
    process.stderr.write(
      `${options.nodes} nodes, ${nodes.kills} kills, ${workers} processes, ${unknown.length} unknown\n`,
    );
  return { kills: nodes.kills, workers, found, states };
}

/** Returns the turns that have no sent answer, with their drafts and the attempts of both, as JSON. */
async function statesIn(url: string, schema: string): Promise<string> {
  const db = await openPostgres(url, { schema, connections: 1 });
  const rows = await db.read((q) =>
    q.all(
      `SELECT row_to_json(turns) AS turn, row_to_json(drafts) AS draft, row_to_json(lanes) AS lane,
         (SELECT json_agg(one) FROM attempts one WHERE one.subject IN (turns.id, drafts.id)) AS attempts
       FROM turns LEFT JOIN replies ON replies.turn = turns.id LEFT JOIN drafts ON drafts.reply = replies.id
         LEFT JOIN lanes ON lanes.conversation = turns.conversation AND lanes.direction = 'out'
       WHERE drafts.state IS DISTINCT FROM 'sent'`,
    ),
  );
  await db.close();
  return JSON.stringify(rows, null, 1);
}

const seed = Number(process.env["SEED"] ?? 20_263);

describeReal("lanes of several nodes", await needPostgres(), () => {
  let postgres: SharedPostgres;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });

  for (const [nodes, kills] of [
    [2, 6],
    [4, 10],
  ] as const)
    it.concurrent(`${nodes} nodes, killed ${kills} times: each person's questions are asked in order, one at a time, and answered once (seed ${seed})`, {
      timeout: 1_200_000,
    }, async ({ onTestFinished }) => {
      const scenario = { nodes, kills, people: 24, texts: 8, seed: seed + nodes, patience: 900_000 };
      const { found, kills: died, workers, states } = await run(postgres, scenario, onTestFinished);
      expect(found, states).toEqual([]);
      expect(died).toBe(kills);
      expect(workers, "all nodes have worked, and some that were started again").toBeGreaterThan(nodes);
    });

  /** Starts a node that stops just before it asks the first text and keeps its lane, and then another one with the defect,
   *  to which the later texts go. */
  async function startHolding(defect: string, finished: (end: () => Promise<void>) => void) {
    // The lease of the lane outlasts the start of the other node.
    const { model, fixture, schema } = await startFixture(postgres, seed, finished, "60s");
    const { file: config, env } = fixture;
    const start = async (options: Partial<DaemonOptions>): Promise<Daemon> => {
      const node = startDaemon({ config, env, saysPort: true, ...options });
      finished(async () => {
        node.send("SIGKILL");
        await node.ended;
      });
      expect(await node.ready).toBe(true);
      fixture.aim({ url: urlOf(node) });
      return node;
    };
    const hold = { at: "ask.cross:before:1", until: join(dirname(config), "continue") };
    const holder = await start({ hold });
    void fixture.api.receive({ from: addressOf(0), body: "p0-0?" });
    await eventually(() => expect(holder.lines.map(({ message }) => message)).toContain("held"));
    const other = await start({ plant: [defect] });
    return {
      model,
      fixture,
      schema,
      isPlanted: () => other.lines.some(({ message, plant }) => message === "planted" && plant === defect),
      release: () => writeFileSync(hold.until, ""),
    };
  }

  it.concurrent("finds out that a node ignores the leases of the others", { timeout: 1_200_000 }, async ({
    onTestFinished,
  }) => {
    const { model, fixture, isPlanted, release } = await startHolding("leases-ignored", onTestFinished);
    const asked = (tag: string) => fixture.questions().filter(({ text }) => tagIn(text) === tag).length;

    // The other node has work of the channel, and looks at all lanes.
    await fixture.api.receive({ from: addressOf(1), body: "p1-0?" });
    await eventually(() => expect(asked("p0-0")).toBeGreaterThan(0));
    expect(isPlanted()).toBe(true);
    const before = asked("p0-0");
    release();
    await eventually(() => expect(asked("p0-0")).toBeGreaterThan(before));

    expect(brokenIn(fixture, model, [["p0-0"], ["p1-0"]]).map(([invariant]) => invariant)).toContain("asked-twice");
  });

  it.concurrent("finds out that a node appends texts at the front of their lane", { timeout: 1_200_000 }, async ({
    onTestFinished,
  }) => {
    const { model, fixture, schema, isPlanted, release } = await startHolding("newest-first", onTestFinished);
    const db = await openPostgres(postgres.url, { schema, connections: 1 });
    onTestFinished(() => db.close());

    for (const body of ["p0-1?", "p0-2?"]) await fixture.api.receive({ from: addressOf(0), body });
    await eventually(async () =>
      expect(await db.read((q) => q.all("SELECT id FROM turns WHERE open = 1"))).toHaveLength(3),
    );
    expect(isPlanted()).toBe(true);
    release();
    await eventually(() => expect(fixture.textsTo(addressOf(0))).toHaveLength(3));

    const backwards = "p0-0,p0-2,p0-1";
    expect(brokenIn(fixture, model, [["p0-0", "p0-1", "p0-2"]])).toEqual([
      ["order", backwards],
      ["answers", backwards],
    ]);
  });

  it("notes two questions of one person that are asked at once", async () => {
    const model = await startModel(generator(seed), 100);
    const ask = (tag: string) =>
      fetch(model.url, { method: "POST", body: JSON.stringify({ messages: [{ content: `${tag}?` }] }) });
    await Promise.all(["p1-0", "p1-1", "p2-0"].map(ask));
    await model.close();
    expect(model.overlaps).toHaveLength(1);
  });
});
