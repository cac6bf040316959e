// The platform reports in three ways that a human is needed. Each alone opens an escalation, and all together open one,
// in any order, also when a report arrives after the escalation was closed.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../../support/clock.ts";
import {
  chief,
  colleague,
  dora,
  type EscalationDaemon,
  emil,
  policy,
  startEscalationDaemon,
  topic,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const sources = async (daemon: EscalationDaemon) =>
  (await daemon.rows("SELECT source FROM triggers WHERE source <> 'ours' ORDER BY recorded_at, key")).map(
    ({ source }) => String(source),
  );

it.concurrent("the conversation's mode alone is enough, read by the poll; and its end ends it", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const escalation = { ...policy, poll: "5m", poll_open: "1m" };
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation });
  await daemon.text("Hello?");
  await daemon.textTo(anna);
  await daemon.quiet();
  await daemon.setMode(anna, "manual");
  expect(await daemon.escalations()).toEqual([]);
  clock.forward(5 * 60_000);
  await daemon.textTo(dora.sms);
  await daemon.mailTo(dora.email);
  await daemon.quiet();
  expect(await daemon.escalated("open")).toMatchObject([{ cause: "topic", topic: null }]);
  expect(await sources(daemon)).toEqual(["mode"]);
  await daemon.setMode(anna, "ai");
  clock.forward(60_000);
  await daemon.escalated("closed");
  await daemon.quiet();
  clock.forward(3_600_000);
  await daemon.quiet();
  expect(daemon.mailsTo(chief.email)).toEqual([]);
  expect(daemon.textsTo(dora.sms)).toHaveLength(1);
});

it.concurrent("the platform's webhook alone is enough, however often it comes", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("Hello?");
  await daemon.textTo(anna);
  await Promise.all([daemon.hook(anna, "msg_1", "lawyer"), daemon.hook(anna, "msg_1", "lawyer")]);
  await daemon.hook(anna, "msg_1", "lawyer");
  expect(await daemon.textTo(dora.sms)).toContain("lawyer");
  await daemon.quiet();
  expect(await daemon.escalated("open")).toMatchObject([{ cause: "topic", topic: "lawyer" }]);
  expect(await sources(daemon)).toEqual(["webhook"]);
});

/** What comes first, second and third; the mode is read while nothing is asked, so it never comes before the answer. */
const orders = [
  ["webhook", "response", "mode"],
  ["response", "webhook", "mode"],
  ["response", "mode", "webhook"],
] as const;

for (const order of orders)
  it.concurrent(`all three are one: ${order.join(", ")}; whenever it is closed`, async ({ onTestFinished }) => {
    const topics = [topic("refund", { autoChangeConversationMode: false })];
    const daemon = await startEscalationDaemon(onTestFinished, { topics });
    // Closed after so many of them; after none of three: not at all.
    for (const [at, closedAfter] of [1, 2, 3, 4].entries()) {
      const person = `+1202555017${at}`;
      await daemon.text("Hello?", { from: person });
      await daemon.textTo(person);
      await daemon.quiet();
      daemon.model.hold();
      const asked = daemon.model.asked();
      await daemon.text("A refund, please", { from: person });
      await eventually(() => expect(daemon.model.asked()).toBeGreaterThan(asked));
      for (const [index, source] of order.entries()) {
        if (source === "webhook") await daemon.hook(person, `msg_${person}`, "refund");
        if (source === "response") daemon.model.release();
        if (source === "response") expect(await daemon.textTo(person, 1)).toBe(colleague);
        if (source === "mode") await daemon.setMode(person, "manual");
        if (source === "mode") await daemon.look(person);
        const known = await noticed(daemon, person, index + 1);
        if (index + 1 === closedAfter) await daemon.text(`#close\n${known.number}`, { from: dora.sms });
        const state = index + 1 >= closedAfter ? "closed" : "open";
        await eventually(async () => expect(await daemon.escalations()).toContainEqual({ ...known, state }));
      }
    }
    await daemon.quiet();
    await daemon.escalated("closed", "closed", "closed", "open");
    const told = `SELECT COUNT(*) AS count FROM notifications JOIN notification_targets ON notification_targets.id = notifications.target
      WHERE kind IN ('opened', 'reminder') GROUP BY escalation`;
    expect((await daemon.rows(told)).map(({ count }) => Number(count))).toEqual([4, 4, 4, 4]);
  });

/** The one escalation about that person, noticed in so many ways. */
async function noticed(daemon: EscalationDaemon, person: string, times: number) {
  const sql = `SELECT e.id, (SELECT COUNT(*) FROM triggers WHERE escalation = e.id AND source IN ('webhook', 'response', 'mode')) AS times
    FROM escalations e JOIN conversations c ON c.id = e.conversation WHERE c.person = $1`;
  await eventually(async () =>
    expect(await daemon.rows(sql, person)).toEqual([{ id: expect.any(String) as string, times }]),
  );
  const [row] = await daemon.rows<{ id: string }>(sql, person);
  const found = (await daemon.escalations()).find(({ id }) => id === row?.id);
  if (!found) throw new Error("there is no escalation");
  return found;
}

it.concurrent("is another one when the person has written since, and needs a human again", async ({
  onTestFinished,
}) => {
  const topics = [topic("refund", { autoChangeConversationMode: false })];
  const daemon = await startEscalationDaemon(onTestFinished, { topics });
  for (const [at, states] of [["open"], ["closed", "open"]].entries()) {
    await daemon.text("A refund, please");
    await daemon.textTo(anna, at);
    const number = (await daemon.escalated(...states)).at(-1)?.number;
    await daemon.textTo(dora.sms, at);
    if (at === 0) await daemon.text(`#close\n${number}`, { from: dora.sms });
    if (at === 0) await daemon.escalated("closed");
  }
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toEqual([colleague, colleague]);
  expect(daemon.textsTo(dora.sms)).toHaveLength(2);
});

it.concurrent("detects an unanswered customer again after the escalation was closed", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("#close", { from: dora.sms });
  await daemon.escalated("closed");
  await daemon.text("Hello? Anybody?");
  expect(await daemon.textTo(dora.sms, 1)).toContain("Hello? Anybody?");
  await daemon.quiet();
  expect((await daemon.escalated("closed", "open"))[1]).toMatchObject({ cause: "silent" });
});

it.concurrent("says once what a person says in the platform's own interface, found by the poll", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: { ...policy, poll_open: "1m" } });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.sayManually(anna, "Here is Cleo. I look into it.");
  clock.forward(60_000);
  expect(await daemon.textTo(anna, 1)).toBe("Here is Cleo. I look into it.");
  const taken = "Escalation 1 is acknowledged by a responder on the platform. Nothing to do for you.";
  expect(await daemon.textTo(dora.sms, 1)).toBe(taken);
  expect((await daemon.mailTo(emil.email, 1)).text).toContain(taken);
  expect(await daemon.escalated("acknowledged")).toMatchObject([{ acknowledged_by: "a responder on the platform" }]);
  // No second notification is sent.
  clock.forward(3_600_000);
  await daemon.quiet();
  expect([daemon.textsTo(dora.sms).length, daemon.mailsTo(chief.email).length]).toEqual([2, 0]);
  await daemon.text("It goes on here.", { from: dora.sms });
  expect(await daemon.textTo(anna, 2)).toBe("It goes on here.");
  await eventually(async () => expect(await daemon.transcript(anna)).toHaveLength(4));
  await daemon.sayManually(anna, "And here.");
  for (let looks = 0; looks < 3; looks++) {
    await daemon.quiet();
    clock.forward(60_000);
  }
  expect(await daemon.textTo(anna, 3)).toBe("And here.");
  await daemon.stop();
  await daemon.start();
  await daemon.look(anna);
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(4);
  expect(await daemon.transcript(anna)).toEqual([
    "conversation_user: A refund, please",
    `assistant: ${colleague}`,
    "manual_assistant: Here is Cleo. I look into it.",
    "manual_assistant: It goes on here.",
    "manual_assistant: And here.",
  ]);
});

it.concurrent("relays an external message once, as soon as the platform's webhook reports it", async ({
  onTestFinished,
}) => {
  // Polling pauses for twelve hours.
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("Hello?");
  await daemon.textTo(anna);
  await daemon.quiet();
  await daemon.hookMessage(anna, "msg_1");
  await daemon.quiet();
  expect(daemon.textsTo(anna), "our own answer").toEqual([echoed("Hello?")]);
  // The agent sends messages outside our requests: a scheduled one, or an answer through another channel.
  await daemon.askElsewhere(anna, "Remind her");
  await daemon.hookMessage(anna, "msg_2");
  expect(await daemon.textTo(anna, 1)).toBe(echoed("Remind her"));
  await daemon.quiet();
  await daemon.setMode(anna, "manual");
  await daemon.sayManually(anna, "Here is Cleo.");
  await daemon.hookMessage(anna, "msg_3");
  expect(await daemon.textTo(anna, 2)).toBe("Here is Cleo.");
  await daemon.quiet();
  await daemon.hookMessage(anna, "msg_3");
  await daemon.hookMessage(anna, "msg_4");
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(3);
});
