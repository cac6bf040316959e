// Escalations with two nodes on one PostgreSQL: each responder is notified once, the customer receives a responder's
// answer once, and one responder owns the escalation in the end.

import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { eventually } from "../../support/clock.ts";
import {
  chief,
  colleague,
  customer,
  dora,
  type EscalationDaemon,
  emil,
  policy,
  startEscalationDaemon,
  topic,
} from "../../support/daemon/escalation-daemon.ts";
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import { anna, type LinesNode } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { startDaemon } from "../../support/process/daemon.ts";
import { needPostgres, newSchemaUrl } from "../../support/store/postgres.ts";

/** A clock that can be moved ahead of the machine's clock: a process that reads it seems to have run that long
 *  already. */
function windable() {
  let ahead = 0;
  const monotonic = () => performance.now() + ahead;
  return { ...systemClock, monotonic, wind: (ms: number) => void (ahead += ms) };
}

/** Keeps everybody from opening one. */
const opening = "LOCK TABLE escalations IN SHARE ROW EXCLUSIVE MODE";
/** How an escalation is locked. */
// PostgreSQL shows the first 1,024 characters of a statement.
const lockedOne = "%escalations%";

/** A node that reads nothing, because another one does, and has waited long enough to send. */
async function standby(daemon: EscalationDaemon): Promise<LinesNode> {
  const clock = windable();
  const node = await daemon.another(clock);
  clock.wind(31_000);
  return node;
}

/** Releases everything that a dead node had claimed, as if claimed some minutes ago. */
async function timePasses(url: string): Promise<void> {
  const minutes = 5 * 60_000;
  const db = await openPostgres(url);
  await db.tx(async (q) => {
    for (const what of ["lanes SET lease_until = 0, holder = NULL", "leases SET until = 0"])
      await q.run(`UPDATE ${what}`);
    await q.run("UPDATE attempts SET started_at = started_at - $1", minutes);
    await q.run("UPDATE drafts SET tried_at = tried_at - $1 WHERE tried_at IS NOT NULL", minutes);
  });
  await db.close();
}

describeReal("on PostgreSQL", await needPostgres(), () => {
  async function two(finished: Finished, options: Parameters<typeof startEscalationDaemon>[1] = {}) {
    const daemon = await startEscalationDaemon(finished, { ...options, store: await newSchemaUrl() });
    return { daemon, one: daemon.node(), other: await standby(daemon) };
  }

  /** Holds back every transaction that writes what `sql` locks until `count` of them wait for it, and lets them go together. */
  async function together(daemon: EscalationDaemon, sql: string, at: string, count: number) {
    const gate = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const holding = daemon.app().db.tx(async (q) => {
      await q.run("SET LOCAL idle_in_transaction_session_timeout = 0");
      await q.all(sql);
      locked.resolve();
      await gate.promise;
    });
    await locked.promise;
    onTestFinished(() => gate.resolve());
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    return async () => {
      await eventually(async () => expect(await daemon.rows(waiting, at)).toHaveLength(count));
      gate.resolve();
      await holding;
    };
  }

  /** A transaction aborted by a deadlock is retried, and no deadlock is logged. */
  const noDeadlock = (daemon: EscalationDaemon) => {
    const codes = daemon.log.map(({ fields }) => (fields["err"] as { code?: unknown } | undefined)?.code);
    expect(codes.filter((code) => code === "40P01" || code === "40001")).toEqual([]);
  };

  it("notifies responders once, relays both ways, and gives back, on either node", async ({ onTestFinished }) => {
    const { daemon, one, other } = await two(onTestFinished);
    daemon.aim(other);
    await daemon.text("A refund, please");
    await daemon.textTo(anna);
    await Promise.all([dora, emil].flatMap((who) => [daemon.textTo(who.sms), daemon.mailTo(who.email)]));
    daemon.aim(one);
    await daemon.text("It is on its way.", { from: dora.sms });
    expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
    expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
    expect((await daemon.mailTo(emil.email, 1)).text).toContain("is acknowledged by Dora Dahl");
    daemon.aim(other);
    await daemon.text("When?");
    expect(await daemon.textTo(dora.sms, 1)).toContain("When?");
    daemon.aim(one);
    await daemon.text("On Monday.\n#resume", { from: dora.sms });
    expect(await daemon.textTo(anna, 2)).toBe("On Monday.");
    await daemon.escalated("closed");
    await daemon.quiet();
    daemon.aim(other);
    await daemon.text("And my lamp?");
    expect(await daemon.textTo(anna, 3)).toBe(echoed("And my lamp?"));
    await daemon.quiet();
    expect([dora, emil].map(({ sms }) => daemon.textsTo(sms).length)).toEqual([2, 2]);
    expect([dora, emil].map(({ email }) => daemon.mailsTo(email).length)).toEqual([1, 2]);
    expect(daemon.textsTo(anna)).toHaveLength(4);
    expect(await daemon.transcript(anna)).toEqual([
      "conversation_user: A refund, please",
      `assistant: ${colleague}`,
      "manual_assistant: It is on its way.",
      "conversation_user: When?",
      "manual_assistant: On Monday.",
      "conversation_user: And my lamp?",
      `assistant: ${echoed("And my lamp?")}`,
    ]);
    await daemon.escalated("closed");
    noDeadlock(daemon);
  });

  it("opens one escalation when both nodes record the trigger at the same instant", async ({ onTestFinished }) => {
    const { daemon, other } = await two(onTestFinished);
    daemon.model.hold();
    await daemon.text("A refund, please");
    await eventually(() => expect(daemon.model.asked()).toBe(1));
    const atOnce = await together(daemon, opening, "%INSERT INTO escalations%", 2);
    daemon.model.release();
    const hooked = daemon.hook(anna, "msg_1", "refund", other.app);
    await atOnce();
    await hooked;
    expect(await daemon.textTo(anna)).toBe(colleague);
    await Promise.all([dora, emil].flatMap((who) => [daemon.textTo(who.sms), daemon.mailTo(who.email)]));
    await daemon.hook(anna, "msg_1", "refund", other.app);
    await daemon.look(anna);
    await daemon.quiet();
    await daemon.escalated("open");
    const sources = await daemon.rows("SELECT source FROM triggers ORDER BY source");
    expect(sources.map(({ source }) => source)).toEqual(["mode", "response", "webhook"]);
    expect([dora, emil].map(({ sms }) => daemon.textsTo(sms).length)).toEqual([1, 1]);
    expect([dora, emil].map(({ email }) => daemon.mailsTo(email).length)).toEqual([1, 1]);
    expect(daemon.mailsTo(chief.email)).toEqual([]);
    noDeadlock(daemon);
  });

  it("two responders reply at the same instant: the customer gets both, one owns it, the other is informed", async ({
    onTestFinished,
  }) => {
    const { daemon, other } = await two(onTestFinished);
    await daemon.write({ subject: "My lamp", text: "I want a refund" });
    await Promise.all([dora, emil].map((who) => daemon.textTo(who.sms)));
    const notice = await daemon.mailTo(emil.email);
    await daemon.quiet();
    const atOnce = await together(daemon, "SELECT 1 FROM escalations FOR UPDATE", lockedOne, 2);
    daemon.aim(other);
    const texted = daemon.text("Dora says: it is on its way.", { from: dora.sms });
    await daemon.write({
      from: emil.email,
      subject: `Re: ${notice.subject}`,
      text: "Emil says: on Monday.",
      answers: notice,
    });
    await atOnce();
    await texted;
    await daemon.mailTo(customer, 2);
    await daemon.quiet();
    const [row] = await daemon.escalated("acknowledged");
    const [owner, loser] = row?.acknowledged_by === dora.name ? [dora, emil] : [emil, dora];
    expect(row?.acknowledged_by).toBe(owner.name);
    expect(daemon.textsTo(loser.sms).slice(1)).toEqual([expect.stringContaining(`is acknowledged by ${owner.name}`)]);
    const words = daemon.mailsTo(customer).map(({ text }) => /(Dora|Emil) says/.exec(text)?.[1] ?? "the agent");
    expect(words.toSorted()).toEqual(["Dora", "Emil", "the agent"]);
    const said = (await daemon.transcript(customer)).filter((line) => line.startsWith("manual_assistant"));
    expect(said).toHaveLength(2);
    noDeadlock(daemon);
  });

  it("a link of one node opens at the other; pressed at both at once it acknowledges once", async ({
    onTestFinished,
  }) => {
    const { daemon, one, other } = await two(onTestFinished);
    await daemon.text("A refund, please");
    const link = /https:\S+$/.exec(await daemon.textTo(dora.sms))?.[0] ?? "";
    await daemon.textTo(emil.sms);
    await daemon.quiet();
    const open = ({ app }: LinesNode, method: string) => {
      const body = method === "POST" ? new URLSearchParams({ action: "ack" }) : null;
      return app.web.escalations(new Request(link, { method, body }));
    };
    for (const node of [one, other]) {
      const shown = await open(node, "GET");
      expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining(">Acknowledge</button>")]);
    }
    await daemon.escalated("open");
    const atOnce = await together(daemon, "SELECT 1 FROM escalations FOR UPDATE", lockedOne, 4);
    const pressed = [one, other, one, other].map((node) => open(node, "POST"));
    await atOnce();
    const answers = await Promise.all(pressed);
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 303]);
    expect((await daemon.escalated("acknowledged"))[0]?.acknowledged_by).toBe(dora.name);
    expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
    await daemon.quiet();
    expect(daemon.textsTo(emil.sms)).toHaveLength(2);
    expect(daemon.textsTo(dora.sms)).toHaveLength(1);
    noDeadlock(daemon);
  });

  const deaths = [
    { at: "notify.commit:before:1", when: "before anybody is told" },
    { at: "notify.commit:after:1", when: "when it is written whom it tells" },
  ];
  for (const { at, when } of deaths)
    it(`a node is killed ${when}: another takes over, and each responder is notified once`, async ({
      onTestFinished,
    }) => {
      // By text: that none went out can be looked up.
      const tiers = [{ notify: ["dora", "emil"], by: ["sms"], repeat: "0s", next: "24h" }];
      const url = await newSchemaUrl();
      const escalation = { ...policy, tiers };
      const daemon = await startEscalationDaemon(onTestFinished, { stopped: true, store: url, escalation });
      await daemon.config();
      const doomed = startDaemon({ config: daemon.file, env: daemon.env, killAt: `${at}:armed`, saysPort: true });
      onTestFinished(async () => {
        doomed.send("SIGKILL");
        await doomed.ended;
      });
      expect(await doomed.ready).toBe(true);
      const said = (words: object) => expect(doomed.lines).toContainEqual(expect.objectContaining(words));
      for (const channel of ["sms", "mail"]) await eventually(() => said({ channel, state: "ready" }));
      doomed.send("SIGUSR2");
      await eventually(() => said({ message: "armed" }));
      const port = Number(doomed.lines.find(({ message }) => message === "listening")?.["port"]);
      daemon.aim({ url: `http://127.0.0.1:${port}` });
      await daemon.text("A refund, please");
      expect(await doomed.ended).toMatchObject({ signal: "SIGKILL" });

      // The first node was alone until then: otherwise the second one might have sent the notifications.
      await timePasses(url);
      await daemon.start();
      expect(await daemon.textTo(anna)).toBe(colleague);
      await Promise.all([daemon.textTo(dora.sms), daemon.textTo(emil.sms)]);
      await daemon.quiet();
      await daemon.escalated("open");
      expect([anna, dora.sms, emil.sms].map((person) => daemon.textsTo(person).length)).toEqual([1, 1, 1]);
      await daemon.text("It is on its way.", { from: dora.sms });
      expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
      expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
    });

  it("a storm: two hundred from both nodes, acknowledged at the same time, two of them twice at once", async ({
    onTestFinished,
  }) => {
    const topics = [topic("refund", { autoChangeConversationMode: false })];
    const tiers = [{ notify: ["dora", "emil"], by: ["sms"], repeat: "10m", next: "15m" }];
    const escalation = { ...policy, tiers, group: "5s" };
    const { daemon, one, other } = await two(onTestFinished, { topics, escalation });
    const people = Array.from({ length: 200 }, (_, at) => `+1202556${String(at).padStart(4, "0")}`);
    const at = async (node: LinesNode, from: string, text: string) => {
      daemon.aim(node);
      await daemon.text(text, { from });
    };
    const known = "SELECT number FROM escalations ORDER BY number";
    const taking = (async () => {
      for (let count = 1; count <= people.length; count += 5) {
        await eventually(async () => expect((await daemon.rows(known)).length).toBeGreaterThanOrEqual(count));
        const number = String((await daemon.rows(known))[count - 1]?.["number"]);
        await Promise.all([at(one, dora.sms, `ok ${number}`), at(other, emil.sms, `ok ${number}`)]);
      }
    })();
    for (let begun = 0; begun < people.length; begun += 20) {
      const some = people.slice(begun, begun + 20);
      await Promise.all(some.map((from, index) => at(index % 2 ? one : other, from, "A refund, please")));
    }
    await taking;
    const all = "SELECT 1 FROM escalations HAVING COUNT(*) = $1";
    await eventually(async () => expect(await daemon.rows(all, people.length)).toHaveLength(1), 300_000);
    // Acknowledges all that are left while some notifications are still being sent.
    await at(other, emil.sms, "ok");
    await daemon.idle(300_000);
    await daemon.escalated(...people.map(() => "acknowledged"));
    await daemon.quiet();
    for (const person of people) expect(daemon.textsTo(person)).toEqual([colleague]);
    const opened = "SELECT person FROM conversations GROUP BY person HAVING COUNT(*) > 1";
    expect(await daemon.rows(opened), "one conversation a person").toEqual([]);
    for (const { sms } of [dora, emil]) {
      const told = daemon.textsTo(sms).flatMap((text) => text.match(/(?<=^|Escalation )\d+(?=: refund)/gm) ?? []);
      expect(told.length, "of each once").toBe(new Set(told).size);
    }
    noDeadlock(daemon);
  }, 600_000);
});
