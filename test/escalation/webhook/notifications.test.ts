// Webhook notifications in a whole daemon: receivers are notified, acknowledge by their response, and answer the
// customer.

import { externalId, type MessageEvent, threadToken } from "bridgehead/contract";
import { expect, it } from "vitest";
import { isReady, reportChannels, statusText } from "../../../src/channels/readiness.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import { eventually } from "../../support/clock.ts";
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
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { type Answering, json, type Receiver, startReceiver, status } from "../../support/escalation/policy.ts";

interface Fixture {
  readonly daemon: EscalationDaemon;
  readonly hook: Receiver;
  /** The requests to the receiver, in order of arrival. */
  readonly told: () => Told[];
}

interface Told {
  readonly type: string;
  readonly id: string;
  readonly text: string;
  readonly data: { readonly [key: string]: unknown };
}

/** The pager is notified first, then Emil by mail, then the chief. */
async function servers(finished: Finished, answer: Answering, over: object = {}): Promise<Fixture> {
  const hook = await startReceiver();
  finished(() => hook.close());
  hook.answer(answer);
  const pager = { name: "Pager", webhook: { url: hook.url, headers: { "X-Key": "${env:HOOK_KEY}" } } };
  const daemon = await startEscalationDaemon(finished, {
    escalation: {
      ...policy,
      responders: { pager, dora, emil, chief },
      tiers: [
        { notify: ["pager"], repeat: "0s", next: "12h" },
        { notify: ["emil"], by: ["email"], repeat: "0s", next: "12h" },
      ],
      allow_private: ["127.0.0.1"],
      ...over,
    },
  });
  const told = () =>
    hook.got.map(({ text, headers }) => {
      const body = JSON.parse(text) as Told;
      return { ...body, id: String(headers["webhook-id"]) };
    });
  return { daemon, hook, told };
}

const ask = (daemon: EscalationDaemon) => daemon.text("I want a refund");
const sources = "SELECT kind, state, code FROM events WHERE channel = 'escalations'";

it.concurrent("an escalation is sent with all known details, and acknowledged by the response", async ({
  onTestFinished,
}) => {
  const answer = json({ acknowledge: true, by: "Nora, on duty" });
  const { daemon, hook, told } = await servers(onTestFinished, answer);
  await ask(daemon);
  const [row] = await daemon.escalated("acknowledged");
  expect(row?.acknowledged_by).toBe("Nora, on duty");
  await daemon.quiet();
  const [opened, ...more] = told();
  expect(opened).toMatchObject({
    type: "escalation.opened",
    data: { escalation: row?.number, cause: "topic", topic: "refund", notified: "Pager" },
  });
  expect(JSON.stringify(opened?.data["transcript"])).toContain("I want a refund");
  expect(opened?.data["link"]).toMatch(/^https:\/\/bridge\.example\.com\/escalations\/\w{20,}$/);
  expect(opened?.text, "what a chat shows").toBe(
    `Escalation ${row?.number}: refund (${anna}, sms)\n"I want a refund"\nOpen it: ${String(opened?.data["link"])}`,
  );
  expect(hook.got[0]?.headers["x-key"]).toMatch(/\w/);
  expect(more, "who takes it is not told of it").toEqual([]);
  expect(await daemon.rows(sources)).toEqual([{ kind: "message", state: "routed", code: "human" }]);
  expect(daemon.mailsTo(emil.email)).toEqual([]);
});

it.concurrent("a response with text reaches the customer and the platform", async ({ onTestFinished }) => {
  const { daemon } = await servers(onTestFinished, json({ reply: "We pay you by Friday." }));
  await ask(daemon);
  await eventually(() => expect(daemon.textsTo(anna)).toContain("We pay you by Friday."));
  const [row] = await daemon.escalated("acknowledged");
  expect(row?.acknowledged_by).toBe("Pager");
  await eventually(async () => {
    const said = (await daemon.transcript(anna)).filter((one) => one.includes("by Friday"));
    expect(said).toHaveLength(1);
  });
});

it.concurrent("a delivery with an unknown outcome is repeated under its id, and handled once", async ({
  onTestFinished,
}) => {
  let tries = 0;
  const answer: Answering = (response, got) => {
    if (++tries === 1) response.socket?.destroy();
    else json({ acknowledge: true })(response, got);
  };
  const { daemon, told } = await servers(onTestFinished, answer);
  await ask(daemon);
  await daemon.escalated("acknowledged");
  await daemon.quiet();
  const [first, second, ...more] = told();
  expect(second).toEqual(first);
  expect(more).toEqual([]);
  expect(await daemon.rows(sources)).toHaveLength(1);
});

it.concurrent("a receiver that refuses makes it the next one's turn at once", async ({ onTestFinished }) => {
  const { daemon, told } = await servers(onTestFinished, status(404));
  await ask(daemon);
  expect((await daemon.mailTo(emil.email)).text).toContain("I want a refund");
  await daemon.escalated("open");
  expect(told().map(({ type }) => type)).toEqual(["escalation.opened"]);
  expect(daemon.mailsTo(chief.email)).toEqual([]);
});

it.concurrent("a recipient of the agent at a private address is not requested, and the responders are notified", async ({
  onTestFinished,
}) => {
  const hook = await startReceiver();
  onTestFinished(() => hook.close());
  const topics = [topic("refund", { recipients: [{ channel: "webhook", value: hook.url }] })];
  const daemon = await startEscalationDaemon(onTestFinished, {
    topics,
    escalation: { ...policy, tiers: [], fallback: { notify: ["chief"], repeat: "0s" } },
  });
  await ask(daemon);
  await daemon.mailTo(chief.email);
  await eventually(async () => {
    const [row] = await daemon.rows("SELECT state, reason FROM drafts WHERE channel = 'escalations'");
    expect(row).toMatchObject({ state: "failed", reason: expect.stringContaining("address") });
  });
  expect(hook.got).toEqual([]);
});

it.concurrent("a notified responder learns of another's acknowledgement, and cannot acknowledge it by a reflex", async ({
  onTestFinished,
}) => {
  let answer: Answering = status(204);
  const { daemon, told } = await servers(onTestFinished, (response, got) => answer(response, got), {
    tiers: [{ notify: ["pager", "dora"], repeat: "0s", next: "12h" }],
  });
  await ask(daemon);
  await daemon.textTo(dora.sms);
  await eventually(() => expect(told()).toHaveLength(1));
  await daemon.quiet();
  answer = json({ acknowledge: true, reply: "I always say this." });
  await daemon.text("ok", { from: dora.sms });
  await eventually(() =>
    expect(told().map(({ type }) => type)).toEqual(["escalation.opened", "escalation.acknowledged"]),
  );
  await daemon.quiet();
  const [row] = await daemon.escalated("acknowledged");
  expect(row?.acknowledged_by).toBe(dora.name);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  expect(await daemon.rows(sources)).toEqual([]);
});

it.concurrent("a reply that matches no notification is ignored", async ({ onTestFinished }) => {
  const { daemon, hook } = await servers(onTestFinished, status(204));
  const event: MessageEvent = {
    kind: "message",
    id: externalId("e1"),
    from: { address: hook.url },
    to: [],
    thread: { answers: [], tokens: [threadToken("nobodysmark0000000000")] },
    sentAt: new Date(),
    text: "I want a refund",
  };
  await accept(daemon.app().scheduler, "escalations", [event], null, "n");
  await daemon.quiet();
  expect(await daemon.rows(sources)).toEqual([{ kind: "message", state: "ignored", code: "not-asked" }]);
  expect(await daemon.rows("SELECT id FROM turns")).toEqual([]);
});

it.concurrent("the webhook channel accepts no messages from customers", async ({ onTestFinished }) => {
  const { daemon } = await servers(onTestFinished, status(204));
  const { host, agents } = daemon.app();
  const channels = reportChannels(host, agents);
  const own = channels.filter(({ id }) => id === "escalations");
  expect(own).toMatchObject([
    { adapter: "webhook", state: "ready", not_asking: null, notices_only: true, failures: 0 },
  ]);
  expect(statusText(channels, 0)).toBe(`${channels.length - 1}/${channels.length - 1} channels ready, 0 waiting`);
  const down = channels.map((one) => (one.notices_only ? one : { ...one, state: "degraded" as const }));
  expect([isReady(channels), isReady(down), isReady(own)]).toEqual([true, false, true]);
  await daemon.app().reload({ ...(await daemon.config()), escalation: null });
  expect(host.running().map(({ config }) => String(config.id))).not.toContain("escalations");
});
