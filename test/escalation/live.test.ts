// In the whole daemon: calls that are transferred to a human, missed calls, and a channel that stays down.

import { expect, it } from "vitest";
import { startMailServer } from "../../src/sandbox/mail-server.ts";
import { eventually } from "../support/clock.ts";
import { colleague, topic } from "../support/daemon/escalation-daemon.ts";
import type { Finished } from "../support/daemon/mail-daemon.ts";
import { anna, type PhoneDaemon, type PhoneDaemonOptions, startPhoneDaemon } from "../support/daemon/phone-daemon.ts";
import { startTcpProxy } from "../support/machine/network.ts";

const office = "+12025550150";
const dora = { name: "Dora Dahl", sms: "+12025550191" };
const escalation = {
  responders: { dora },
  tiers: [{ notify: ["dora"], repeat: "10m", next: "15m" }],
  fallback: { notify: ["dora"] },
  group: "0s",
  poll: "12h",
  poll_open: "12h",
  down_after: "1s",
};
/** No filler is played and no timeout expires, even on a slow machine. */
const quick = {
  collect: "50ms",
  speaking_rate: 40,
  fillers: { first: "10m", second: "20m" },
  silence: { after: "10m" },
  give_up: { after: "10m" },
};

const openFixture = (finished: Finished, options: PhoneDaemonOptions): Promise<PhoneDaemon> =>
  startPhoneDaemon(finished, { escalation, skills: { escalation: { escalations: [topic("refund")] } }, ...options });

/** The texts to Dora, as soon as there are so many. */
async function textsTo(daemon: PhoneDaemon, count: number): Promise<string[]> {
  await eventually(() => expect(daemon.textsTo(dora.sms)).toHaveLength(count));
  return daemon.textsTo(dora.sms);
}

const escalations = (daemon: PhoneDaemon) =>
  daemon.rows<{ about: string; state: string; cause: string }>(
    "SELECT about, state, cause FROM escalations ORDER BY number",
  );

it.concurrent("the answer that escalates is spoken, then the call goes to a human, and responders are notified", async ({
  onTestFinished,
}) => {
  const rung: string[] = [];
  const daemon = await openFixture(onTestFinished, {
    voice: { ...quick, transfer: { dial: [office] } },
    phone: { dialed: (target) => (rung.push(target), "completed") },
  });
  const call = await daemon.dial();
  call.say("I want a refund");
  await call.hears(colleague);
  expect(await call.over).toBe("hangup");
  expect(rung).toEqual([office]);
  expect(call.spoken.at(-1)?.text.trim()).toBe(colleague);
  await eventually(async () =>
    expect(await daemon.rows("SELECT transferring, reason FROM sessions")).toEqual([
      { transferring: "escalated", reason: "transferred" },
    ]),
  );
  expect((await textsTo(daemon, 1))[0]).toContain("Escalation 1: refund");
  await daemon.idle();
  expect(await escalations(daemon)).toMatchObject([{ state: "open", cause: "topic" }]);
});

it.concurrent("the transfer is not answered: the notified responders receive the voicemail", async ({
  onTestFinished,
}) => {
  const daemon = await openFixture(onTestFinished, {
    voice: { ...quick, transfer: { dial: [office] } },
    phone: { dialed: () => "no-answer" },
  });
  const call = await daemon.dial();
  call.say("I want a refund");
  expect(await call.over).toBe("hangup");
  const texts = await textsTo(daemon, 2);
  expect(texts.filter((text) => text.includes("Escalation 1: refund"))).toHaveLength(1);
  expect(texts.filter((text) => /^1: Voicemail from .*Recordings\/RE/.test(text))).toHaveLength(1);
  await daemon.idle();
  expect(await escalations(daemon)).toHaveLength(1);
});

it.concurrent("a call is given up: responders are notified once, and of the result", async ({ onTestFinished }) => {
  const daemon = await openFixture(onTestFinished, {
    voice: { ...quick, give_up: { after: "400ms" } },
    platform: { timeout: "10m" },
  });
  daemon.model.hold();
  const call = await daemon.dial();
  call.say("Where is my lamp?");
  expect(await call.over).toBe("hangup");
  const [text] = await textsTo(daemon, 1);
  expect(text).toContain(`Escalation 1: Missed call from ${anna}`);
  daemon.model.release();
  await daemon.idle();
  expect(await escalations(daemon)).toMatchObject([{ state: "open", cause: "call" }]);
  expect(daemon.textsTo(dora.sms)).toHaveLength(1);
});

it.concurrent("a channel stays down: responders are notified, and again when it works", async ({ onTestFinished }) => {
  const address = "support@team.example";
  const server = await startMailServer({ address, password: "secret", others: () => undefined });
  const proxy = await startTcpProxy(server.imapPort);
  onTestFinished(async () => {
    await proxy.close();
    await server.close();
  });
  const login = { host: "127.0.0.1", tls: "none", user: address, password: "${env:MAIL}" };
  const mail = {
    adapter: "email",
    agent: "support",
    imap: { ...login, port: proxy.port },
    smtp: { ...login, port: server.smtpPort },
  };
  const daemon = await openFixture(onTestFinished, {
    channels: { mail },
    emailSkill: { email: address },
    env: { MAIL: "secret" },
  });
  proxy.refuse();
  proxy.cut();
  await eventually(async () =>
    expect((await escalations(daemon))[0]).toEqual({
      about: "channel:mail:channel-down",
      state: "open",
      cause: "channel-down",
    }),
  );
  expect((await textsTo(daemon, 1))[0]).toContain("Escalation 1: channel mail is degraded");
  proxy.resume();
  await eventually(async () => expect((await escalations(daemon))[0]?.state).toBe("closed"));
  const said = "Escalation 1 is closed: channel mail works again.";
  await eventually(() => expect(daemon.textsTo(dora.sms)).toContain(said));
});
