// A reload while escalations are open: they continue with the new policy, and responders who were notified stay known.

import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { loadAdapter } from "../../src/channels/loader.ts";
import { loadConfig } from "../../src/config/index.ts";
import { eventually, movableClock } from "../support/clock.ts";
import {
  chief,
  customer,
  dora,
  type EscalationDaemon,
  emil,
  policy,
  startEscalationDaemon,
} from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

type Block = Record<string, unknown>;
interface File {
  channels: Record<string, Block>;
  escalation: Block;
  http: Block;
}

/** Reloads with the file as `change` leaves it. `restart`: the keys that need one. */
async function reload(
  daemon: EscalationDaemon,
  change: (file: File) => void,
  restart: readonly string[] = [],
): Promise<void> {
  await daemon.config();
  const file = JSON.parse(await readFile(daemon.file, "utf8")) as File;
  change(file);
  const path = join(dirname(daemon.file), "changed.yaml");
  await writeFile(path, JSON.stringify(file));
  const loaded = await loadConfig(path, { env: daemon.env, adapters: loadAdapter });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  expect(await daemon.app().reload(loaded.config)).toEqual(restart);
}

const byText = (who: string, more: Block = {}) => ({
  ...policy,
  tiers: [{ notify: [who], by: ["sms"], repeat: "0s", next: "24h", ...more }],
});
/** A second number of the same account sends the notifications. */
const secondNumber = (file: File) => {
  file.channels["sms2"] = { ...file.channels["sms"], number: "+12025550101" };
  file.escalation["via"] = { sms: "sms2" };
};
const withoutTexts = (file: File) => {
  delete file.channels["sms"];
  delete file.channels["voice"];
};
/** The next text to Dora is put off for an hour, and so is everything else on that channel. */
const pauses = (daemon: EscalationDaemon) =>
  daemon.api.fault({ code: 20429, retryAfter: 3600 }, { to: dora.sms, times: 1 });
const waiting = (daemon: EscalationDaemon) =>
  eventually(async () =>
    expect(await daemon.rows("SELECT state, attempts FROM drafts WHERE recipient = $1", dora.sms)).toEqual([
      { state: "queued", attempts: 1 },
    ]),
  );

it.concurrent("new responders are notified at once, and replies from earlier ones still count", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await reload(daemon, (file) => (file.escalation = { ...byText("emil") }));
  expect(await daemon.textTo(emil.sms)).toContain("Escalation 1:");
  await daemon.quiet();
  // The same again changes nothing.
  await reload(daemon, (file) => (file.escalation = { ...byText("emil") }));
  await daemon.quiet();
  expect([daemon.textsTo(dora.sms).length, daemon.textsTo(emil.sms).length]).toEqual([1, 1]);
  await daemon.text("It is on its way.", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
  expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
  await daemon.escalated("acknowledged");
});

it.concurrent("a shorter tier ends on its new time, and a fallback that was notified once is repeated", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: byText("dora") });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  const once = { notify: ["chief"], repeat: "0s" };
  await reload(daemon, (file) => (file.escalation = { ...byText("dora", { next: "5m" }), fallback: once }));
  await daemon.quiet();
  expect(daemon.mailsTo(chief.email)).toEqual([]);
  clock.forward(6 * 60_000);
  await daemon.mailTo(chief.email);
  await daemon.quiet();
  await reload(
    daemon,
    (file) => (file.escalation = { ...byText("dora", { next: "5m" }), fallback: { ...once, notify: ["emil"] } }),
  );
  expect((await daemon.mailTo(emil.email)).subject).toContain("[Escalation 1]");
  await daemon.quiet();
  // The fallback is for those on duty as well.
  expect([daemon.textsTo(dora.sms).length, daemon.mailsTo(chief.email).length]).toEqual([2, 1]);
});

it.concurrent("a responder with a pending text is notified by mail after the SMS channel is removed", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  pauses(daemon);
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await waiting(daemon);
  await reload(daemon, (file) => {
    withoutTexts(file);
    const responders = { dora: { ...dora, sms: undefined }, emil: { ...emil, sms: undefined }, chief };
    const tiers = [{ notify: ["dora"], repeat: "0s", next: "24h" }];
    file.escalation = { ...policy, responders, tiers };
  });
  const notice = await daemon.mailTo(dora.email);
  await daemon.write({
    from: dora.email,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: "You get it.",
  });
  expect((await daemon.mailTo(customer, 1)).text).toContain("You get it.");
  expect(daemon.textsTo(dora.sms)).toEqual([]);
});

it.concurrent("a responder with a pending text gets it from the number that currently sends texts", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  pauses(daemon);
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await waiting(daemon);
  await reload(daemon, (file) => {
    secondNumber(file);
    withoutTexts(file);
  });
  expect(await daemon.textTo(dora.sms)).toContain("Escalation 1:");
  await daemon.app().scheduler.sweep();
  expect(await daemon.rows("SELECT kind FROM notifications ORDER BY id")).toEqual([
    { kind: "opened" },
    { kind: "reminder" },
  ]);
  expect(daemon.textsTo(dora.sms)).toHaveLength(1);
});

it.concurrent("a reply to the sending number is handled while that number exists", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: byText("dora", { repeat: "10m" }) });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await reload(daemon, secondNumber);
  clock.forward(11 * 60_000);
  await daemon.textTo(dora.sms, 1);
  await daemon.quiet();
  const from = daemon.api.sent.filter(({ to }) => to === dora.sms).map((one) => one.from);
  expect(new Set(from).size, "one conversation with her").toBe(1);
  await daemon.text("It is on its way.", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
  await daemon.text("A refund, please", { from: "+12025550124" });
  expect((await daemon.textTo(dora.sms, 2)).split("\n")[0]).toContain("Escalation 2:");
});

/** Dora acknowledges the customer's escalation by text. */
async function acknowledgedByText(daemon: EscalationDaemon): Promise<void> {
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await daemon.textTo(dora.sms);
  await daemon.text("ok", { from: dora.sms });
  await daemon.escalated("acknowledged");
  await daemon.quiet();
}
/** The customer writes again, in the thread of the agent's answer. */
async function asksAgain(daemon: EscalationDaemon, text: string): Promise<void> {
  const answers = await daemon.mailTo(customer);
  await daemon.write({ subject: `Re: ${answers.subject}`, answers, text });
}
/** Her text of what the customer writes is put off, with the whole channel. */
async function pendingText(daemon: EscalationDaemon): Promise<void> {
  pauses(daemon);
  await asksAgain(daemon, "Are you there?");
  const pending = "SELECT kind, drafts.state FROM notifications JOIN drafts ON drafts.reply = notifications.reply";
  await eventually(async () =>
    expect(await daemon.rows(`${pending} WHERE kind = 'customer'`)).toEqual([{ kind: "customer", state: "queued" }]),
  );
}
/** No responder has a phone number any more, and tier one is `who`. */
const byMail = (who: string, responders: Block) => (file: File) => {
  withoutTexts(file);
  file.escalation = { ...policy, responders, tiers: [{ notify: [who], repeat: "0s", next: "24h" }] };
};
const doraByMail = byMail("dora", { dora: { ...dora, sms: undefined }, chief });

it.concurrent("the customer's messages reach the responder who acknowledged by mail after the SMS channel is removed", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await acknowledgedByText(daemon);
  await reload(daemon, doraByMail);
  await asksAgain(daemon, "Are you there?");
  const notice = await daemon.mailTo(dora.email);
  expect(notice.text).toContain("Are you there?");
  await daemon.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text: "Yes, I am." });
  expect((await daemon.mailTo(customer, 1)).text).toContain("Yes, I am.");
  expect(await daemon.escalated("acknowledged")).toMatchObject([{ acknowledged_by: dora.name }]);
  await daemon.quiet();
  expect([daemon.mailsTo(chief.email), daemon.mailsTo(dora.email).length]).toEqual([[], 1]);
});

it.concurrent("a pending message of the customer moves with the responder who acknowledged to another number", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await acknowledgedByText(daemon);
  const before = daemon.textsTo(dora.sms).length;
  await pendingText(daemon);
  const change = (file: File) => {
    secondNumber(file);
    withoutTexts(file);
  };
  await reload(daemon, change);
  expect(await daemon.textTo(dora.sms, before)).toContain("Are you there?");
  await asksAgain(daemon, "And my money?");
  expect(await daemon.textTo(dora.sms, before + 1)).toContain("And my money?");
  await daemon.app().scheduler.sweep();
  await daemon.restart();
  await daemon.app().scheduler.sweep();
  const from = daemon.api.sent.filter(({ to }) => to === dora.sms).map((one) => one.from);
  expect(from.slice(before)).toEqual(["+12025550101", "+12025550101"]);
  await daemon.escalated("acknowledged");
});

it.concurrent("a pending message of the customer moves with the responder who acknowledged to the mail", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await acknowledgedByText(daemon);
  await pendingText(daemon);
  await reload(daemon, doraByMail);
  expect((await daemon.mailTo(dora.email)).text).toContain("Are you there?");
  await daemon.app().scheduler.sweep();
  await daemon.escalated("acknowledged");
  expect(daemon.mailsTo(chief.email)).toEqual([]);
});

it.concurrent("an acknowledged escalation opens again when the only channel of its responder is removed", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await acknowledgedByText(daemon);
  await pendingText(daemon);
  await reload(daemon, byMail("emil", { emil: { ...emil, sms: undefined }, chief }));
  expect(await daemon.escalated("open")).toMatchObject([{ acknowledged_by: null }]);
  expect((await daemon.mailTo(emil.email)).text).toContain("Are you there?");
});

it.concurrent("links keep the public URL of the start, as the webhooks of the channels do", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: byText("dora") });
  await reload(daemon, (file) => (file.http["public_url"] = "https://new.example.com"), ["http"]);
  await daemon.text("A refund, please");
  expect(await daemon.textTo(dora.sms)).toContain("https://bridge.example.com/escalations/");
});
