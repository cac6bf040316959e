// The same on PostgreSQL, and with two nodes on one mailbox: one reads, both ask and send, and when one dies the other
// takes its place.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { App } from "../../../src/app.ts";
import { lockChannel } from "../../../src/store/tables/events.ts";
import { eventually } from "../../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import type { Letter } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";
import { adminOf, startDaemon } from "../../support/process/daemon.ts";
import { needPostgres, type SharedPostgres, sharedPostgres, urlOfSchema } from "../../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());

/** `count` people write a first mail each. */
async function people(daemon: MailDaemon, count: number, prefix: string): Promise<Letter[]> {
  const letters: Letter[] = [];
  for (let index = 0; index < count; index++)
    letters.push(await daemon.write({ from: `${prefix}${index}@customer.example` }));
  return letters;
}

describeReal("on PostgreSQL", missing, () => {
  let dovecot: Dovecot;
  let postgres: SharedPostgres;
  const schemas = { main: "", two: "", killed: "", apart: "", standby: "", outage: "" };
  beforeAll(async () => {
    [dovecot, postgres] = await Promise.all([
      startDovecot({ users: ["main", "two", "killed", "apart", "standby", "outage"] }),
      sharedPostgres(),
    ]);
    for (const user of ["main", "two", "killed", "apart", "standby", "outage"] as const)
      schemas[user] = await postgres.schema();
  });
  afterAll(async () => {
    await dovecot?.dispose();
  });
  const store = (schema: keyof typeof schemas) => urlOfSchema(postgres, schemas[schema]);

  it.concurrent("answers in the thread, after the delay, over a restart", async ({ onTestFinished }) => {
    const skill = { responseDelaySeconds: 2, emailSignature: "Ada" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "main", store: store("main"), skill });
    const first = await daemon.write();
    const reply = await daemon.replyTo(first);
    expect(reply.text).toContain(echoed(first.text));
    const [turn] = await daemon.rows("SELECT received_at FROM turns");
    expect(reply.at - Number(turn?.["received_at"])).toBeGreaterThanOrEqual(2000);
    const second = await daemon.write({ answers: reply });
    await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts")).toHaveLength(2));
    await daemon.stop();
    await daemon.start();
    await daemon.settled([first, second]);
    expect(daemon.conversations()).toBe(1);
  });

  it.concurrent("two nodes: one reads, both work, each mail is answered once and in order", async ({
    onTestFinished,
  }) => {
    // Less than the mails that wait, so that one node cannot take all of them.
    const channel = { concurrency: 2 };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "two", channel, store: store("two") });
    const other = await daemon.another();
    let stopped = false;
    onTestFinished(async () => {
      if (!stopped) await other.stop(2000);
    });
    const holder = async (app: App) => {
      const sql = "SELECT holder FROM leases WHERE name = $1";
      return (await app.db.read((q) => q.one<{ holder: string | null }>(sql, `channel:${daemon.channel}`)))?.holder;
    };
    const reader = await holder(other);
    const letters = await people(daemon, 10, "first");
    await daemon.settled(letters);
    expect(await holder(other), "one node reads").toBe(reader);
    for (const first of letters.slice(0, 10))
      for (const text of ["Second?", "Third?"])
        letters.push(await daemon.write({ from: first.from, answers: first, text: `${first.from} ${text}` }));
    await daemon.settled(letters);
    const questions = daemon.questions();
    for (const conversation of new Set(questions.map((one) => one.conversation))) {
      const said = questions.filter((one) => one.conversation === conversation).map((one) => one.text);
      expect(said.slice(1).map((text) => text.split(" ").at(-1))).toEqual(["Second?", "Third?"]);
    }
    const nodes = await daemon.rows("SELECT DISTINCT node FROM attempts");
    expect(nodes, "both nodes have asked and sent").toHaveLength(2);

    // The reader leaves: the other one reads.
    await daemon.stop();
    letters.push(await daemon.write({ from: "late@customer.example" }));
    await eventually(async () => {
      expect(await holder(other)).toEqual(expect.any(String));
      expect(await holder(other)).not.toBe(reader);
    });
    await eventually(() => expect(daemon.smtp.accepted).toHaveLength(letters.length));
    await other.stop(2000);
    stopped = true;
    await daemon.start();
    await daemon.settled(letters);
  });

  it.concurrent("two nodes: the one on standby is ready, for it asks, sends and serves", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "standby", store: store("standby") });
    const { file } = await daemon.config();
    // Its start does not wait for a connection that it will not make.
    const other = startDaemon({ config: file, env: daemon.env, plant: ["patient-start"] });
    onTestFinished(async () => void (await other.stop()));
    expect(await other.ready).toBe(true);
    const answer = await fetch(`${adminOf(other)}/readyz`);
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { ready: true, channels: [{ state: "standby", not_asking: null }] },
    ]);
  });

  it.concurrent("a node is killed: the other takes over within its lease, nothing is lost, nothing done twice", async ({
    onTestFinished,
  }) => {
    const platform = { timeout: "5s" };
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "killed",
      store: store("killed"),
      platform,
      stopped: true,
    });
    const { file } = await daemon.config();
    const doomed = startDaemon({ config: file, env: daemon.env });
    onTestFinished(async () => {
      doomed.send("SIGKILL");
      await doomed.ended;
    });
    expect(await doomed.ready).toBe(true);
    await eventually(() => expect(doomed.lines.some((line) => line["state"] === "ready")).toBe(true));
    const letters = await people(daemon, 3, "before");
    await eventually(() => expect(daemon.smtp.accepted).toHaveLength(3));

    // It dies while four questions are being answered; the answers are lost with it.
    daemon.model.hold();
    letters.push(...(await people(daemon, 4, "during")));
    await eventually(() => expect(daemon.model.asked()).toBe(7));
    await daemon.start();
    doomed.send("SIGKILL");
    await doomed.ended;
    const died = Date.now();
    daemon.model.release();
    letters.push(...(await people(daemon, 3, "after")));
    await daemon.reports({ state: "ready" }, 150_000);
    expect(Date.now() - died, "a lease lasts 30 s, and is looked at every 10 s").toBeLessThan(120_000);
    await daemon.settled(letters);
    expect(daemon.conversations()).toBe(10);
  }, 300_000);

  it.concurrent("a node loses its database in the middle of a transaction: its locks and leases block no other node", async ({
    onTestFinished,
  }) => {
    const direct = store("apart");
    const apart = Promise.withResolvers<void>();
    const url = new URL(direct);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    onTestFinished(() => proxy.close());
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "apart", store: url.href });
    // Registered later, so undone earlier: the node must be able to stop.
    onTestFinished(async () => {
      apart.resolve();
      proxy.resume();
      proxy.cut();
    });
    const letters = await people(daemon, 2, "before");
    await daemon.settled(letters);

    const stuck = daemon.app().db.tx(async (q) => {
      await lockChannel(q, daemon.channel);
      proxy.swallow();
      await apart.promise;
    });
    stuck.catch(() => undefined);
    await eventually(() => expect(proxy.open()).toBeGreaterThan(0));
    const config = await daemon.config();
    const other = await daemon.another({ ...config, store: { kind: "postgres", url: direct } });
    onTestFinished(() => other.stop(2000));
    letters.push(...(await people(daemon, 3, "during")));
    await eventually(() => expect(daemon.smtp.accepted).toHaveLength(letters.length), 150_000);

    proxy.resume();
    proxy.cut();
    apart.resolve();
    await expect(stuck).rejects.toThrow();
    letters.push(...(await people(daemon, 2, "after")));
    await daemon.settled(letters);
  }, 300_000);

  it.concurrent("logs one line when the database is lost, and one when it is back", async ({ onTestFinished }) => {
    const url = new URL(store("outage"));
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    onTestFinished(() => proxy.close());
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "outage", store: url.href });
    onTestFinished(async () => proxy.resume());
    const letters = await people(daemon, 2, "before");
    await daemon.settled(letters);
    const began = daemon.log.length;
    proxy.refuse();
    proxy.cut();
    const lost = proxy.accepted();
    letters.push(...(await people(daemon, 2, "during")));
    // A sweep a second, renewals of the leases, draws from the rate limit.
    await eventually(() => expect(proxy.accepted() - lost).toBeGreaterThan(60), 150_000);
    proxy.resume();
    await daemon.settled(letters, 150_000);
    // Messages may be answered before the first sweep.
    await eventually(() => expect(daemon.log.some(({ message }) => message === "store available again")).toBe(true));
    const lines = daemon.log.slice(began);
    const about = lines.filter(({ message }) => message.startsWith("store "));
    expect(about.map(({ message }) => message)).toEqual([
      "store unavailable: scheduler sweep failed",
      "store available again",
    ]);
    const problems = lines.filter(({ level }) => level === "warn" || level === "error").map(({ message }) => message);
    expect(
      problems.filter((one, at) => problems.indexOf(one) !== at),
      "nothing is repeated",
    ).toEqual([]);
  }, 300_000);
});
