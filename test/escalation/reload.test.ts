// A reload while escalations are open: they continue with the new policy, and responders who were notified stay known.

import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { loadAdapter } from "../../src/channels/loader.ts";
import { loadConfig } from "../../src/config/index.ts";
import { eventually, movableClock } from "../support/clock.ts";
import { chief, customer, type Desk, dora, emil, openDesk, policy } from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

type Block = Record<string, unknown>;
interface File {
  channels: Record<string, Block>;
  escalation: Block;
}

/** Reloads with the file as `change` leaves it. */
async function reload(desk: Desk, change: (file: File) => void): Promise<void> {
  await desk.config();
  const file = JSON.parse(await readFile(desk.file, "utf8")) as File;
  change(file);
  const path = join(dirname(desk.file), "changed.yaml");
  await writeFile(path, JSON.stringify(file));
  const loaded = await loadConfig(path, { env: desk.env, adapters: loadAdapter });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  expect(await desk.app().reload(loaded.config)).toEqual([]);
}

const byText = (who: string, more: Block = {}) => ({
  ...policy,
  tiers: [{ notify: [who], by: ["sms"], repeat: "0s", next: "24h", ...more }],
});
/** Another number of the same account carries what people are told. */
const secondNumber = (file: File) => {
  file.channels["sms2"] = { ...file.channels["sms"], number: "+12025550101" };
  file.escalation["via"] = { sms: "sms2" };
};
const withoutTexts = (file: File) => {
  delete file.channels["sms"];
  delete file.channels["voice"];
};
/** The next text to Dora is put off for an hour, and so is everything else on that channel. */
const pauses = (desk: Desk) => desk.api.fault({ code: 20429, retryAfter: 3600 }, { to: dora.sms, times: 1 });
const waiting = (desk: Desk) =>
  eventually(async () =>
    expect(await desk.rows("SELECT state, attempts FROM drafts WHERE recipient = $1", dora.sms)).toEqual([
      { state: "queued", attempts: 1 },
    ]),
  );

it.concurrent("other people are told at once, and who was told before is heard", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { escalation: byText("dora") });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await reload(desk, (file) => (file.escalation = { ...byText("emil") }));
  expect(await desk.textTo(emil.sms)).toContain("Escalation 1:");
  await desk.quiet();
  // The same again changes nothing.
  await reload(desk, (file) => (file.escalation = { ...byText("emil") }));
  await desk.quiet();
  expect([desk.textsTo(dora.sms).length, desk.textsTo(emil.sms).length]).toEqual([1, 1]);
  await desk.text("It is on its way.", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("It is on its way.");
  expect(await desk.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
  await desk.escalated("acknowledged");
});

it.concurrent("a shorter tier ends when it says, and a fallback that was told once is followed by another", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock, escalation: byText("dora") });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  const once = { notify: ["chief"], repeat: "0s" };
  await reload(desk, (file) => (file.escalation = { ...byText("dora", { next: "5m" }), fallback: once }));
  await desk.quiet();
  expect(desk.mailsTo(chief.email)).toEqual([]);
  clock.forward(6 * 60_000);
  await desk.mailTo(chief.email);
  await desk.quiet();
  await reload(
    desk,
    (file) => (file.escalation = { ...byText("dora", { next: "5m" }), fallback: { ...once, notify: ["emil"] } }),
  );
  expect((await desk.mailTo(emil.email)).subject).toContain("[Escalation 1]");
  await desk.quiet();
  // The fallback is for those on duty as well.
  expect([desk.textsTo(dora.sms).length, desk.mailsTo(chief.email).length]).toEqual([2, 1]);
});

it.concurrent("who waits for a text is told by mail when there are no texts any more", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { escalation: byText("dora") });
  pauses(desk);
  await desk.write({ subject: "My lamp", text: "I want a refund" });
  await waiting(desk);
  await reload(desk, (file) => {
    withoutTexts(file);
    const responders = { dora: { ...dora, sms: undefined }, emil: { ...emil, sms: undefined }, chief };
    const tiers = [{ notify: ["dora"], repeat: "0s", next: "24h" }];
    file.escalation = { ...policy, responders, tiers };
  });
  const notice = await desk.mailTo(dora.email);
  await desk.write({
    from: dora.email,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: "You get it.",
  });
  expect((await desk.mailTo(customer, 1)).text).toContain("You get it.");
  expect(desk.textsTo(dora.sms)).toEqual([]);
});

it.concurrent("who waits for a text gets it from the number that carries texts now", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { escalation: byText("dora") });
  pauses(desk);
  await desk.write({ subject: "My lamp", text: "I want a refund" });
  await waiting(desk);
  await reload(desk, (file) => {
    secondNumber(file);
    withoutTexts(file);
  });
  expect(await desk.textTo(dora.sms)).toContain("Escalation 1:");
  await desk.app().scheduler.sweep();
  expect(await desk.rows("SELECT kind FROM notifications ORDER BY id")).toEqual([
    { kind: "opened" },
    { kind: "reminder" },
  ]);
  expect(desk.textsTo(dora.sms)).toHaveLength(1);
});

it.concurrent("an answer to the number that told is heard while there is one", async ({ onTestFinished }) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock, escalation: byText("dora", { repeat: "10m" }) });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await reload(desk, secondNumber);
  clock.forward(11 * 60_000);
  await desk.textTo(dora.sms, 1);
  await desk.quiet();
  const from = desk.api.sent.filter(({ to }) => to === dora.sms).map((one) => one.from);
  expect(new Set(from).size, "one conversation with her").toBe(1);
  await desk.text("It is on its way.", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("It is on its way.");
  await desk.text("A refund, please", { from: "+12025550124" });
  expect((await desk.textTo(dora.sms, 2)).split("\n")[0]).toContain("Escalation 2:");
});
