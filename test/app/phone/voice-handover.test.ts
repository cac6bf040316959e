// Calls that are transferred to a human, with and without an answer there; and customers whom we text or call first.

import { expect, it } from "vitest";
import { startConversation as startCommand } from "../../../src/commands/start.ts";
import { type ReplyMail, readReply, startMailServer } from "../../../src/sandbox/mail-server.ts";
import { eventually } from "../../support/clock.ts";
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import { anna, ourNumber, type PhoneDaemon, startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import { commandIo } from "../../support/machine/command.ts";

const office = "+12025550150";
const quick = { collect: "50ms", speaking_rate: 40 };
const sessionIs = (daemon: PhoneDaemon, expected: object) =>
  eventually(async () =>
    expect((await daemon.rows("SELECT * FROM sessions ORDER BY opened_at")).at(-1)).toMatchObject(expected),
  );

/** A mailbox of the team's, as a channel of the same daemon, and what arrives at the people. */
async function teamMail(finished: Finished) {
  const mails: ReplyMail[] = [];
  const server = await startMailServer({
    address: "support@team.example",
    password: "secret",
    others: ({ raw }) => void readReply(raw).then((mail) => mails.push(mail)),
  });
  finished(() => server.close());
  const login = { host: "127.0.0.1", tls: "none", user: "support@team.example", password: "${env:MAIL}" };
  const mail = {
    adapter: "email",
    agent: "support",
    imap: { ...login, port: server.imapPort },
    smtp: { ...login, port: server.smtpPort },
  };
  return { mails, channels: { mail }, env: { MAIL: "secret" } };
}

it.concurrent("one key reaches a human: the sentence first, then the transfer", async ({ onTestFinished }) => {
  const rung: string[] = [];
  const daemon = await startPhoneDaemon(onTestFinished, {
    voice: { ...quick, transfer: { dial: [office] }, digits: { human: "0", pause: "100ms" } },
    phone: { dialed: (target) => (rung.push(target), "completed") },
  });
  const call = await daemon.dial();
  call.say("Where is my lamp?");
  await call.hears(echoed("Where is my lamp?"));
  call.digit("0");
  expect(await call.over).toBe("hangup");
  expect(rung).toEqual([office]);
  const ended = call.requests.find(({ form }) => "HandoffData" in form);
  expect(JSON.parse(ended?.form["HandoffData"] ?? "")).toMatchObject({ reason: "asked" });
  await sessionIs(daemon, { state: "closed", transferring: "asked", reason: "transferred" });
  expect(call.complaints).toEqual([]);
  expect(daemon.log.some((line) => JSON.stringify(line).includes('"digit'))).toBe(false);
});

const at = (path: string) => `https://bridge.example.com/channels/voice/${path}`;
it.concurrent.for<[string, { readonly url?: string; readonly fallback?: string }]>([
  ["a transfer", {}],
  ["a fallback", { url: at("nothing"), fallback: at("fallback") }],
])("the voicemail after %s is mailed to the responders, once", async ([after, dialing], { onTestFinished }) => {
  const team = await teamMail(onTestFinished);
  const daemon = await startPhoneDaemon(onTestFinished, {
    ...team,
    emailSkill: { email: "support@team.example" },
    voice: {
      ...quick,
      transfer: { dial: [office] },
      digits: { human: "0", pause: "100ms" },
      notify: { channel: "mail", to: ["people@team.example"] },
    },
    phone: { dialed: () => "no-answer" },
  });
  const call = await daemon.dial(dialing);
  if (after === "a transfer") call.digit("0");
  expect(await call.over).toBe("hangup");
  expect(call.verbs.map(({ name }) => name)).toContain("Record");
  await sessionIs(daemon, { state: "closed", reason: "voicemail" });
  await eventually(() => expect(team.mails).toHaveLength(1));
  expect(team.mails[0]?.subject).toContain(anna);
  expect(team.mails[0]?.text).toMatch(/Recordings\/RE/);
  await daemon.restart();
  await daemon.idle();
  expect(team.mails).toHaveLength(1);
  expect(daemon.questions()).toEqual([]);
});

it.concurrent("no answer for too long: an apology, then a human", async ({ onTestFinished }) => {
  const phrases = [{ language: "en", apology: "No answer, sorry." }];
  const daemon = await startPhoneDaemon(onTestFinished, {
    voice: { ...quick, phrases, give_up: { after: "400ms" }, transfer: { dial: [office] } },
    platform: { timeout: "10m" },
  });
  daemon.model.hold();
  const call = await daemon.dial();
  call.say("Where is my lamp?");
  await call.hears("No answer, sorry.");
  await call.over;
  expect(call.verbs.map(({ name }) => name)).toContain("Dial");
  daemon.model.release();
  await daemon.idle();
  expect(call.spoken.map(({ text }) => text).join()).not.toContain("You asked");
});

it.concurrent("silence: two prompts, then goodbye", async ({ onTestFinished }) => {
  const phrases = [{ language: "en", still_there: ["Anybody?", "Hello?"], goodbye: "Bye then." }];
  const daemon = await startPhoneDaemon(onTestFinished, {
    voice: { ...quick, phrases, greeting: "Hi", silence: { after: "200ms", asks: 2 } },
  });
  const call = await daemon.dial();
  await call.hears("Bye then.");
  expect(await call.over).toBe("hangup");
  const said = call.spoken.map(({ text }) => text.trim()).join(" ");
  expect(said.indexOf("Anybody?")).toBeLessThan(said.indexOf("Hello?"));
  await sessionIs(daemon, { state: "closed" });
});

/** Runs `bridgehead start` while the daemon runs. */
async function begin(daemon: PhoneDaemon, options: Omit<Parameters<typeof startCommand>[0], "config">) {
  const said: string[] = [];
  const io = commandIo({
    out: (text) => void said.push(text),
    err: (text) => void said.push(text),
    env: daemon.env,
  });
  return { code: await startCommand({ config: daemon.file, wait: 20_000, ...options }, io), said };
}

it.concurrent("we text a person first, and the reply continues there", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, {
    smsSkill: { defaultSmsIntroduction: "Your lamp is ready." },
  });
  const { code, said } = await begin(daemon, { channel: "sms", to: anna, context: "Order 17" });
  expect([code, said.join("\n")]).toEqual([0, expect.stringMatching(/sent|delivered/)]);
  expect(daemon.textsTo()).toEqual(["Your lamp is ready."]);
  await daemon.text("Thanks!");
  await daemon.api.until(({ sent }) => sent.length === 2);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["Thanks!"]);
  expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
});

it.concurrent("we call a person, speak the reason and answer the reply", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, { voice: quick });
  const beginning = begin(daemon, { channel: "voice", to: anna, introduction: "Your lamp is ready." });
  const placed = await daemon.api.until(({ calls }) => calls[0]);
  expect(placed).toMatchObject({ from: ourNumber, to: anna });
  const call = await daemon.dial({
    url: placed.url,
    callSid: placed.sid,
    direction: "outbound-api",
    from: ourNumber,
    to: anna,
  });
  await call.hears("Your lamp is ready.");
  call.say("When can I come?");
  await call.hears(echoed("When can I come?"));
  await call.hangUp();
  await daemon.api.reportCall(placed, "completed");
  const { code, said } = await beginning;
  expect([code, said.join("\n")]).toEqual([0, expect.stringMatching(/sent|delivered/)]);
  expect(daemon.api.calls).toHaveLength(1);
  expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
  await sessionIs(daemon, { state: "closed" });
});
