// The platform reports in three ways that a human is needed. Each alone opens an escalation, and all together open one,
// in any order, also when a report arrives after the escalation was closed.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import {
  chief,
  colleague,
  type Desk,
  dora,
  emil,
  openDesk,
  policy,
  topic,
} from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";

const sources = async (desk: Desk) =>
  (await desk.rows("SELECT source FROM triggers WHERE source <> 'ours' ORDER BY recorded_at, key")).map(({ source }) =>
    String(source),
  );

it.concurrent("the conversation's mode alone is enough, read by the poll; and its end ends it", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const escalation = { ...policy, poll: "5m", poll_open: "1m" };
  const desk = await openDesk(onTestFinished, { clock, escalation });
  await desk.text("Hello?");
  await desk.textTo(anna);
  await desk.quiet();
  await desk.setMode(anna, "manual");
  expect(await desk.escalations()).toEqual([]);
  clock.forward(5 * 60_000);
  await desk.textTo(dora.sms);
  await desk.mailTo(dora.email);
  await desk.quiet();
  expect(await desk.escalated("open")).toMatchObject([{ cause: "topic", topic: null }]);
  expect(await sources(desk)).toEqual(["mode"]);
  await desk.setMode(anna, "ai");
  clock.forward(60_000);
  await desk.escalated("closed");
  await desk.quiet();
  clock.forward(3_600_000);
  await desk.quiet();
  expect(desk.mailsTo(chief.email)).toEqual([]);
  expect(desk.textsTo(dora.sms)).toHaveLength(1);
});

it.concurrent("the platform's webhook alone is enough, however often it comes", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("Hello?");
  await desk.textTo(anna);
  await Promise.all([desk.hook(anna, "msg_1", "lawyer"), desk.hook(anna, "msg_1", "lawyer")]);
  await desk.hook(anna, "msg_1", "lawyer");
  expect(await desk.textTo(dora.sms)).toContain("lawyer");
  await desk.quiet();
  expect(await desk.escalated("open")).toMatchObject([{ cause: "topic", topic: "lawyer" }]);
  expect(await sources(desk)).toEqual(["webhook"]);
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
    const desk = await openDesk(onTestFinished, { topics });
    // Closed after so many of them; after none of three: not at all.
    for (const [at, closedAfter] of [1, 2, 3, 4].entries()) {
      const person = `+1202555017${at}`;
      await desk.text("Hello?", { from: person });
      await desk.textTo(person);
      await desk.quiet();
      desk.model.hold();
      const asked = desk.model.asked();
      await desk.text("A refund, please", { from: person });
      await eventually(() => expect(desk.model.asked()).toBeGreaterThan(asked));
      for (const [index, source] of order.entries()) {
        if (source === "webhook") await desk.hook(person, `msg_${person}`, "refund");
        if (source === "response") desk.model.release();
        if (source === "response") expect(await desk.textTo(person, 1)).toBe(colleague);
        if (source === "mode") await desk.setMode(person, "manual");
        if (source === "mode") await desk.look(person);
        const known = await noticed(desk, person, index + 1);
        if (index + 1 === closedAfter) await desk.text(`#close\n${known.number}`, { from: dora.sms });
        const state = index + 1 >= closedAfter ? "closed" : "open";
        await eventually(async () => expect(await desk.escalations()).toContainEqual({ ...known, state }));
      }
    }
    await desk.quiet();
    await desk.escalated("closed", "closed", "closed", "open");
    const told = `SELECT COUNT(*) AS count FROM notifications JOIN notification_targets ON notification_targets.id = notifications.target
      WHERE kind IN ('opened', 'reminder') GROUP BY escalation`;
    expect((await desk.rows(told)).map(({ count }) => Number(count))).toEqual([4, 4, 4, 4]);
  });

/** The one escalation about that person, noticed in so many ways. */
async function noticed(desk: Desk, person: string, times: number) {
  const sql = `SELECT e.id, (SELECT COUNT(*) FROM triggers WHERE escalation = e.id AND source IN ('webhook', 'response', 'mode')) AS times
    FROM escalations e JOIN conversations c ON c.id = e.conversation WHERE c.person = $1`;
  await eventually(async () =>
    expect(await desk.rows(sql, person)).toEqual([{ id: expect.any(String) as string, times }]),
  );
  const [row] = await desk.rows<{ id: string }>(sql, person);
  const found = (await desk.escalations()).find(({ id }) => id === row?.id);
  if (!found) throw new Error("there is no escalation");
  return found;
}

it.concurrent("is another one when the person has written since, and needs a human again", async ({
  onTestFinished,
}) => {
  const topics = [topic("refund", { autoChangeConversationMode: false })];
  const desk = await openDesk(onTestFinished, { topics });
  for (const [at, states] of [["open"], ["closed", "open"]].entries()) {
    await desk.text("A refund, please");
    await desk.textTo(anna, at);
    const number = (await desk.escalated(...states)).at(-1)?.number;
    await desk.textTo(dora.sms, at);
    if (at === 0) await desk.text(`#close\n${number}`, { from: dora.sms });
    if (at === 0) await desk.escalated("closed");
  }
  await desk.quiet();
  expect(desk.textsTo(anna)).toEqual([colleague, colleague]);
  expect(desk.textsTo(dora.sms)).toHaveLength(2);
});

it.concurrent("finds somebody again when it was closed, and the person writes to nobody", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("#close", { from: dora.sms });
  await desk.escalated("closed");
  await desk.text("Hello? Anybody?");
  expect(await desk.textTo(dora.sms, 1)).toContain("Hello? Anybody?");
  await desk.quiet();
  expect((await desk.escalated("closed", "open"))[1]).toMatchObject({ cause: "silent" });
});

it.concurrent("says once what a person says in the platform's own interface, found by the poll", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock, escalation: { ...policy, poll_open: "1m" } });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.sayManually(anna, "Here is Cleo. I look into it.");
  clock.forward(60_000);
  expect(await desk.textTo(anna, 1)).toBe("Here is Cleo. I look into it.");
  const taken = "Escalation 1 is acknowledged by somebody who answers on the platform. Nothing to do for you.";
  expect(await desk.textTo(dora.sms, 1)).toBe(taken);
  expect((await desk.mailTo(emil.email, 1)).text).toContain(taken);
  expect(await desk.escalated("acknowledged")).toMatchObject([
    { acknowledged_by: "somebody who answers on the platform" },
  ]);
  // Nobody is told again.
  clock.forward(3_600_000);
  await desk.quiet();
  expect([desk.textsTo(dora.sms).length, desk.mailsTo(chief.email).length]).toEqual([2, 0]);
  await desk.text("It goes on here.", { from: dora.sms });
  expect(await desk.textTo(anna, 2)).toBe("It goes on here.");
  await eventually(async () => expect(await desk.transcript(anna)).toHaveLength(4));
  await desk.sayManually(anna, "And here.");
  for (let looks = 0; looks < 3; looks++) {
    await desk.quiet();
    clock.forward(60_000);
  }
  expect(await desk.textTo(anna, 3)).toBe("And here.");
  await desk.stop();
  await desk.start();
  await desk.look(anna);
  await desk.quiet();
  expect(desk.textsTo(anna)).toHaveLength(4);
  expect(await desk.transcript(anna)).toEqual([
    "conversation_user: A refund, please",
    `assistant: ${colleague}`,
    "manual_assistant: Here is Cleo. I look into it.",
    "manual_assistant: It goes on here.",
    "manual_assistant: And here.",
  ]);
});

it.concurrent("says once what is said elsewhere, as soon as the platform's webhook tells of it", async ({
  onTestFinished,
}) => {
  // Nothing is looked at by itself for twelve hours.
  const desk = await openDesk(onTestFinished);
  await desk.text("Hello?");
  await desk.textTo(anna);
  await desk.quiet();
  await desk.hookMessage(anna, "msg_1");
  await desk.quiet();
  expect(desk.textsTo(anna), "our own answer").toEqual([echoed("Hello?")]);
  // What the agent says without us: something scheduled, or an answer to somebody else.
  await desk.askElsewhere(anna, "Remind her");
  await desk.hookMessage(anna, "msg_2");
  expect(await desk.textTo(anna, 1)).toBe(echoed("Remind her"));
  await desk.quiet();
  await desk.setMode(anna, "manual");
  await desk.sayManually(anna, "Here is Cleo.");
  await desk.hookMessage(anna, "msg_3");
  expect(await desk.textTo(anna, 2)).toBe("Here is Cleo.");
  await desk.quiet();
  await desk.hookMessage(anna, "msg_3");
  await desk.hookMessage(anna, "msg_4");
  await desk.quiet();
  expect(desk.textsTo(anna)).toHaveLength(3);
});
