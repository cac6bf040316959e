// Acknowledgement without a text: the link of a notification, a command, and the response of a webhook receiver; and
// the outcome of a call that a responder answers by mail.

import { expect, it } from "vitest";
import { escalation as escalationCommand } from "../../../src/commands/escalation.ts";
import { outbox as outboxCommand } from "../../../src/commands/messages/outbox.ts";
import { eventually } from "../../support/clock.ts";
import {
  chief,
  dora,
  type EscalationDaemon,
  emil,
  policy,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { commandIo } from "../../support/machine/command.ts";
import { bodyServer, closeServer, listen } from "../../support/machine/network.ts";

async function acknowledgedBy(daemon: EscalationDaemon, name: string): Promise<void> {
  await eventually(async () =>
    expect(await daemon.rows("SELECT state, acknowledged_by, due_at FROM escalations")).toEqual([
      { state: "acknowledged", acknowledged_by: name, due_at: null },
    ]),
  );
}

it.concurrent("by the link in a text: looking changes nothing, the form acknowledges once", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const link = /https:\S+$/.exec(await daemon.textTo(dora.sms))?.[0] ?? "";
  await daemon.textTo(emil.sms);
  await daemon.quiet();
  const open = async (method: string, url = link) =>
    (
      await daemon.app().web.escalations(
        new Request(url, {
          method,
          body: method === "POST" ? new URLSearchParams({ action: "ack" }) : null,
        }),
      )
    ).status;
  expect([await open("GET"), await open("HEAD"), await open("GET")]).toEqual([200, 200, 200]);
  expect(await open("POST", link.replace(/....$/, "0000"))).toBe(404);
  await daemon.escalated("open");
  expect(await open("POST")).toBe(303);
  await acknowledgedBy(daemon, dora.name);
  expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
  // A repetition changes nothing.
  expect(await open("POST")).toBe(303);
  // The customer's next message goes to the responder who acknowledged the escalation.
  await daemon.text("Is anybody there?");
  expect(await daemon.textTo(dora.sms, 1)).toContain("Is anybody there?");
});

it.concurrent("by a command while the daemon runs, which also replies and gives back", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(emil.sms);
  await daemon.quiet();
  const said: string[] = [];
  const note = (line: string) => void said.push(line);
  const io = commandIo({ env: daemon.env, out: note, err: note });
  const number = String((await daemon.escalations())[0]?.number);
  const command = (action: "ack" | "reply" | "resume", text?: string) =>
    escalationCommand(
      { config: daemon.file, action, number, limit: 10, by: "olga", ...(text === undefined ? {} : { text }) },
      io,
    );
  expect([await command("ack"), said.join("\n")]).toEqual([0, expect.stringContaining("olga")]);
  expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by olga");
  await acknowledgedBy(daemon, "olga");
  expect(await command("reply", "Here is Olga.")).toBe(0);
  expect(await daemon.textTo(anna, 1)).toBe("Here is Olga.");
  expect(await command("resume")).toBe(0);
  await daemon.escalated("closed");
  await eventually(async () => expect((await daemon.transcript(anna)).at(-1)).toBe("manual_assistant: Here is Olga."));
});

it.concurrent("a conversation that was closed with a silent agent is given back by a command, without a responder", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("#close", { from: dora.sms });
  await daemon.escalated("closed");
  const said: string[] = [];
  const note = (line: string) => void said.push(line);
  const io = commandIo({ env: daemon.env, out: note, err: note });
  const resume = () =>
    escalationCommand({ config: daemon.file, action: "resume", number: "1", limit: 10, by: "olga" }, io);
  await daemon.text("And my lamp?");
  await daemon.escalated("closed", "open");
  expect([await resume(), said.at(-1)]).toEqual([1, expect.stringContaining("it was closed by Dora Dahl")]);
  await daemon.text("#close", { from: dora.sms });
  await daemon.escalated("closed", "closed");
  await daemon.quiet();
  expect([await resume(), said.at(-1)]).toEqual([0, "1: returned to the agent"]);
  await daemon.quiet();
  expect(await resume(), "once").toBe(1);
  await daemon.text("Are there lamps?");
  await eventually(() => expect(daemon.textsTo(anna)).toHaveLength(2));
});

it.concurrent("by the response of a webhook receiver", async ({ onTestFinished }) => {
  const got: string[] = [];
  const pager = bodyServer((body, response) => {
    got.push(body);
    response.writeHead(200, { "content-type": "application/json" }).end('{"acknowledge":true}');
  });
  const url = `${await listen(pager)}/page`;
  onTestFinished(() => closeServer(pager));
  const escalation = {
    ...policy,
    responders: { pager: { name: "The pager", webhook: { url } }, emil, chief },
    tiers: [{ notify: ["pager", "emil"], repeat: "10m", next: "15m" }],
    allow_private: ["127.0.0.1"],
  };
  const daemon = await startEscalationDaemon(onTestFinished, { escalation });
  await daemon.text("A refund, please");
  await acknowledgedBy(daemon, "The pager");
  await daemon.quiet();
  expect(got.map((body) => (JSON.parse(body) as { type: string }).type)).toEqual(["escalation.opened"]);
  expect(daemon.mailsTo(chief.email)).toEqual([]);
  // Its path is a key.
  const said: string[] = [];
  const io = commandIo({ env: daemon.env, out: (line: string) => void said.push(line), err: () => undefined });
  expect(await outboxCommand({ config: daemon.file, action: "list", limit: 50 }, io)).toBe(0);
  expect(said.join("\n")).toContain(`${new URL(url).origin}/...`);
  expect(said.join("\n")).not.toContain(url);
});

it.concurrent("a responder's reply is spoken in the call while it lasts; later replies report that it is over", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { voice: { collect: "50ms" } });
  const call = await daemon.dial();
  call.say("I want a refund");
  await daemon.textTo(dora.sms);
  await daemon.text("You get it back.", { from: dora.sms });
  await call.hears("You get it back.");
  await call.hangUp();
  await eventually(async () => expect(await daemon.rows("SELECT state FROM sessions")).toEqual([{ state: "closed" }]));
  await daemon.text("On Monday.", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain(anna);
  await daemon.quiet();
  expect(call.spoken.filter(({ text }) => text.includes("Monday"))).toEqual([]);
  expect(daemon.textsTo(anna)).toEqual([]);
});
