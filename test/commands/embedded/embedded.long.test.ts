// The daemon with `platform: embedded` and `model`: one file connects a mailbox to an OpenAI-compatible endpoint.

import { copyFileSync, existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { countInFile } from "../../../src/store/person/mentions.ts";
import { platformReader } from "../../support/daemon/platform.ts";
import { answers, startMailbox } from "../../support/email/servers.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { saying } from "../../support/platform/platform.ts";
import { type Daemon, startDaemon } from "../../support/process/daemon.ts";

const customer = "ann@customer.test";

async function running(config: string): Promise<Daemon> {
  const daemon = startDaemon({ config });
  onTestFinished(() => daemon.send("SIGKILL"));
  expect(await daemon.ready, daemon.complaints.join("\n")).toBe(true);
  return daemon;
}

const failures = ({ lines }: Daemon) => lines.filter(({ message }) => message === "model request failed");

it("answers a mail with the model, and keeps the conversation next to the store across a restart", async () => {
  const mailbox = await startMailbox();
  const agent = "{ instructions: You sell lamps., knowledge: [ faq.md ] }";
  writeFileSync(join(mailbox.folder, "faq.md"), "# Shipping\nParcels to Norway take three days.\n");
  const config = mailbox.configure({ agent });
  const daemon = await running(config);
  mailbox.receive(customer, "Norway", "Do you ship parcels to Norway?");
  expect(await answers(mailbox, customer, 1)).toEqual([expect.stringContaining("Hello from the model.")]);
  const [first] = mailbox.model.asked;
  expect(first).toMatchObject({ authorization: "Bearer model-key-12345", model: "some-model" });
  expect(first?.messages[0]?.content).toContain("You sell lamps.");
  expect(first?.messages[0]?.content).toContain("Parcels to Norway take three days.");
  expect(statSync(join(mailbox.folder, "platform.db")).mode & 0o077).toBe(0);
  expect(JSON.stringify(daemon.lines)).not.toContain("model-key-12345");
  expect((await daemon.stop()).code).toBe(0);

  await running(config);
  mailbox.receive(customer, "Re: Norway", "And to Sweden?");
  await answers(mailbox, customer, 2);
  expect(platformReader(() => join(mailbox.folder, "platform.db")).questions()).toHaveLength(2);
});

it.each(["running", "stopped"])("is erased with the person while the daemon is %s", async (state) => {
  const mailbox = await startMailbox();
  const config = mailbox.configure();
  const daemon = await running(config);
  mailbox.receive(customer, "Norway", "My zebra question");
  await answers(mailbox, customer, 1);
  mailbox.receive(`jo${customer}`, "Norway", `${customer} told jo${customer}, me, to ask`);
  await answers(mailbox, `jo${customer}`, 1);
  if (state === "stopped") await daemon.stop();
  const erase = (person: string) => bridgehead(["erase", "--person", person, "--config", config]);
  for (const [person, code, why] of [
    ["@customer.test", 2, "is no complete address"],
    ["support-mail", 2, "is no complete address"],
    ["support@bridge.test", 1, "is the address of a channel"],
  ] as const)
    expect(await erase(person)).toMatchObject({ code, err: expect.stringContaining(why) });
  const file = join(mailbox.folder, "platform.db");
  const aside = `${file}.before-restore-1`;
  if (state === "stopped") copyFileSync(file, aside);
  const { code, out, err } = await erase(customer);
  expect([code, err]).toEqual([0, expect.any(String)]);
  expect(out).toContain(`embedded platform: 1 users deleted in ${file}`);
  const texts = platformReader(() => file)
    .questions()
    .map(({ text }) => text);
  expect(texts).toHaveLength(1);
  expect(texts[0]).toContain(`[erased] told jo${customer}, me, to ask`);
  for (const path of [file, `${file}-wal`]) expect(countInFile(path, ["zebra question"])).toBe(0);
  if (state === "stopped") {
    expect(out).toContain(`a backup still contains the address: ${aside}`);
    return;
  }
  mailbox.receive(customer, "Again", "A new question");
  await answers(mailbox, customer, 2);
  expect((await daemon.stop()).code).toBe(0);
});

it("gives a running agent the instructions of a reloaded file, and rejects a file that cannot be read", async () => {
  const mailbox = await startMailbox();
  const config = mailbox.configure({ agent: "{ instructions: Be brief. }" });
  const daemon = await running(config);
  mailbox.configure({ agent: "{ knowledge: [ missing.md ] }" });
  daemon.send("SIGHUP");
  await expect.poll(() => JSON.stringify(daemon.lines)).toContain("reloading the configuration failed");
  expect(JSON.stringify(daemon.lines)).toContain("missing.md cannot be read (ENOENT)");
  mailbox.configure({ agent: "{ instructions: Be thorough. }" });
  daemon.send("SIGHUP");
  await expect.poll(() => daemon.lines.map(({ message }) => message)).toContain("configuration reloaded");
  mailbox.receive(customer, "Lamps", "What is a lamp?");
  await answers(mailbox, customer, 1);
  expect(mailbox.model.asked[0]?.messages[0]?.content).toBe("Be thorough.");
});

it("asks again with backoff while the endpoint rejects the key or answers unreadably, and answers once", async () => {
  const mailbox = await startMailbox();
  mailbox.model.say((response) => {
    const refused = mailbox.model.asked.length === 1;
    if (refused) response.writeHead(401).end("{}");
    else saying(mailbox.model.asked.length < 3 ? undefined : "Back again.")(response);
  });
  const daemon = await running(mailbox.configure({ platform: "{ url: embedded, absent_after: 1s }" }));
  mailbox.receive(customer, "Hello", "Is anyone there?");
  expect(await answers(mailbox, customer, 1)).toEqual([expect.stringContaining("Back again.")]);
  const reasons = failures(daemon).map(({ agent, reason, fix }) => [agent, reason, fix]);
  expect(reasons[0]).toEqual(["support", "HTTP 401", "check model.key"]);
  expect(reasons).toHaveLength(mailbox.model.asked.length - 1);
  expect(platformReader(() => join(mailbox.folder, "platform.db")).questions()).toHaveLength(1);
});

it("notifies a responder while the endpoint rejects the key, and again when a question is answered", async () => {
  const mailbox = await startMailbox();
  mailbox.model.say((response) => response.writeHead(401).end("{}"));
  const more = `escalation:
  responders: { ben: { email: ben@bridge.test } }
  fallback: { notify: [ ben ] }
  group: 0s
  down_after: 1s
`;
  const daemon = await running(mailbox.configure({ more }));
  mailbox.receive(customer, "Hello", "Is anyone there?");
  const [outage] = await answers(mailbox, "ben@bridge.test", 1);
  expect(outage).toContain("agent support cannot be asked: the platform's model rejects the request: HTTP 503");
  expect(outage).toContain("check model.key");
  mailbox.model.say(saying("Here I am."));
  expect(await answers(mailbox, customer, 1)).toEqual([expect.stringContaining("Here I am.")]);
  const [, recovery] = await answers(mailbox, "ben@bridge.test", 2);
  expect(recovery).toContain("channel support-mail works again");
  const states = daemon.lines.flatMap(({ message }) => (/^platform (rejects|accepts)/.test(message) ? [message] : []));
  expect(states).toEqual(["platform rejects the agent's requests", "platform accepts the agent's requests again"]);
});

it("answers once after the process was killed while the model was answering", async () => {
  const mailbox = await startMailbox();
  const asked = Promise.withResolvers<void>();
  mailbox.model.say(() => asked.resolve());
  const config = mailbox.configure();
  const first = await running(config);
  mailbox.receive(customer, "Hello", "Is anyone there?");
  await asked.promise;
  first.send("SIGKILL");
  await first.ended;
  mailbox.model.say(saying("Here I am."));
  const second = await running(config);
  expect(await answers(mailbox, customer, 1)).toEqual([expect.stringContaining("Here I am.")]);
  mailbox.receive("bob@customer.test", "Later", "And later?");
  await answers(mailbox, "bob@customer.test", 1);
  expect(await mailbox.sent(customer)).toHaveLength(1);
  expect(platformReader(() => join(mailbox.folder, "platform.db")).questions()).toHaveLength(2);
  expect(await second.stop()).toMatchObject({ code: 0 });
});

it("hands a conversation over to the first responder when the customer asks for a human", async () => {
  const mailbox = await startMailbox();
  mailbox.model.say((response) => {
    const system = mailbox.model.asked.at(-1)?.messages[0]?.content ?? "";
    saying(system.startsWith("You decide") ? "yes" : "Hello")(response);
  });
  const more = `escalation:
  responders: { ben: { email: ben@bridge.test } }
  fallback: { notify: [ ben ] }
  group: 0s
  poll: 1s
`;
  await running(mailbox.configure({ more }));
  mailbox.receive(customer, "Complaint", "Let me speak to a human.");
  const [handover] = await answers(mailbox, customer, 1);
  expect(handover).toContain("A colleague will read it and answer you.");
  const [notification] = await answers(mailbox, "ben@bridge.test", 1);
  expect(notification).toContain("Let me speak to a human.");
});

it("reports every problem of the agents and of keys that do not go together", async () => {
  const mailbox = await startMailbox();
  const agent = "{ knowledge: [ missing.md ], skills: { email: { emial: x } } }";
  const check = async () => (await bridgehead(["check", "--config", config])).out;
  const config = mailbox.configure({ agent });
  expect(await check()).toMatch(/agents\.support\.skills\.email/);
  mailbox.configure({ agent: "{ knowledge: [ missing.md ] }" });
  expect(await check()).toContain("agents.support.knowledge[0]: ");
  mailbox.configure({ platform: "{ url: https://platform.test }" });
  const said = await check();
  expect(said).toContain("model: is only used by the embedded platform");
  expect(said).toContain("agents.support.key: is missing");
  expect(existsSync(join(mailbox.folder, "platform.db"))).toBe(false);
});

it("refuses a second daemon with the same configuration, naming the process and the remedy", async () => {
  const mailbox = await startMailbox();
  const config = mailbox.configure();
  const first = await running(config);
  const second = await bridgehead(["run", "--config", config]);
  expect(second.code).toBe(1);
  expect(second.err).toContain(`another Bridgehead process is running on it (pid ${first.pid}): a daemon with this`);
  expect(await first.stop()).toMatchObject({ code: 0 });
});
