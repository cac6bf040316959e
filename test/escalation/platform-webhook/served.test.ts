// The daemon with a real platform: it registers its webhook, accepts the platform's deliveries and notifies responders,
// and the link in a notification acknowledges. The health endpoint reports open escalations first.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFailed, onTestFinished } from "vitest";
import { startMailServer } from "../../../src/sandbox/mail-server.ts";
import { eventually } from "../../support/clock.ts";
import { letter, readReply } from "../../support/email/mails.ts";
import { key } from "../../support/escalation/policy.ts";
import { freePort } from "../../support/machine/network.ts";
import { startPlatformOf } from "../../support/platform/platform.ts";
import { adminOf, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

const office = "support@team.example";
const chief = "chief@people.example";
const agentKey = "11111111-2222-4333-8444-555555555555";
/** A daemon of its own, a platform and a mailbox: several minutes where there is little of a processor. */
const patience = 240_000;

it(
  "is reported by the platform's webhooks, appears in every place, and is satisfied when a link was used",
  async () => {
    const folder = newFolder();
    const url = `http://127.0.0.1:${await freePort()}`;
    const headers = { "X-Bridgehead-Key": key };
    const escalations = [
      {
        topic: "refund",
        escalationPrompt: "",
        autoChangeConversationMode: true,
        response: "A colleague will get back to you.",
        recipients: [{ channel: "webhook", value: `${url}/platform/support/escalation`, headers }],
      },
    ];
    const skills = { email: { email: office, responseDelaySeconds: 0 }, escalation: { escalations } };
    const agents = { organization: { name: "W" }, agents: { support: { key: agentKey, skills } } };
    const platformFile = join(folder, "platform.db");
    const platform = await startPlatformOf(JSON.stringify(agents), { file: platformFile, allowPrivateWebhooks: true });
    onTestFinished(() => platform.close());
    const notices: string[] = [];
    const server = await startMailServer({
      address: office,
      password: "secret",
      others: ({ to, raw }) => {
        const mail = { from: office, to, raw, messageId: "", at: 0, user: null };
        if (to.includes(chief)) void readReply(mail).then(({ text }) => notices.push(text));
      },
    });
    onTestFinished(() => server.close());
    const login = { host: "127.0.0.1", tls: "none", user: office, password: "${env:MAIL}" };
    const config = {
      platform: { url: platform.url },
      agents: { support: { key: "${env:AGENT_KEY}" } },
      channels: {
        mail: {
          adapter: "email",
          agent: "support",
          address: office,
          imap: { ...login, port: server.imapPort, poll: "1s" },
          smtp: { ...login, port: server.smtpPort, login: false },
          sent_folder: "none",
        },
      },
      escalation: {
        responders: { chief: { email: chief } },
        fallback: { notify: ["chief"] },
        group: "0s",
        // Nothing but the webhooks tells in time.
        poll: "12h",
        poll_open: "12h",
        platform_webhook: { key: "${env:HOOK_KEY}" },
      },
      http: { listen: new URL(url).host, admin_listen: "127.0.0.1:0", public_url: url },
      store: "sqlite:store.db",
      log: { format: "json", level: "debug" },
    };
    const file = join(folder, "bridgehead.yaml");
    await writeFile(file, JSON.stringify(config));
    const env = { AGENT_KEY: agentKey, MAIL: "secret", HOOK_KEY: key };
    const daemon = startDaemon({ config: file, env });
    onTestFinished(async () => void (await daemon.stop()));
    onTestFailed(() => void process.stderr.write(`${daemon.lines.map((line) => JSON.stringify(line)).join("\n")}\n`));
    expect(await daemon.ready).toBe(true);
    const admin = adminOf(daemon);
    const health = async () => (await (await fetch(`${admin}/readyz`)).json()) as Record<string, unknown>;
    const logged = (message: string) => daemon.lines.filter((line) => line.message === message);

    await eventually(() => expect(logged("platform webhook registered")).toHaveLength(1), patience);
    const listed = await fetch(`${platform.url}/external/agents/webhooks`, {
      headers: { "agent-secret-key": agentKey },
    });
    expect(await listed.json()).toMatchObject({
      data: [{ url: `${url}/platform/support/message`, triggerCondition: "each_message", headers }],
    });
    expect(await health()).toMatchObject({ escalations: { unacknowledged: 0, says: "" }, ready: true });

    server.deliver(letter(office, { from: "anna@customer.example", text: "I want a refund" }).raw);
    const taken = (kind: string) => logged("platform webhook stored").filter((line) => line["kind"] === kind);
    await eventually(() => {
      expect(taken("escalation")).not.toEqual([]);
      expect(taken("message")).not.toEqual([]);
      expect(notices).toHaveLength(1);
    }, patience);
    expect(notices[0]).toContain("Topic: refund");
    await eventually(async () => {
      const said = await health();
      expect(Object.keys(said)[0]).toBe("escalations");
      expect(said).toMatchObject({
        ready: true,
        escalations: {
          says: "1 ESCALATION NOT ACKNOWLEDGED, the oldest for 0 min; ",
          unacknowledged: 1,
          numbers: [1],
          unreached: 0,
          paths: ["mail"],
          dead: [],
        },
      });
    }, patience);
    expect(await (await fetch(`${admin}/metrics`)).text()).toContain('bridgehead_escalations{state="open"} 1');

    const link = /http:\/\/127\.0\.0\.1:\d+\/escalations\/\w{26}/.exec(notices[0] ?? "")?.[0] ?? "";
    expect((await fetch(link)).status).toBe(200);
    expect(await health()).toMatchObject({ escalations: { unacknowledged: 1 } });
    expect(
      await (await fetch(link, { method: "POST", body: new URLSearchParams({ action: "ack" }) })).text(),
    ).toContain("It is yours");
    expect(await health()).toMatchObject({ escalations: { unacknowledged: 0, acknowledged: 1, says: "" } });
    const token = link.split("/").at(-1);
    expect(daemon.lines.filter((line) => JSON.stringify(line).includes(token ?? "?"))).toEqual([]);
    expect(JSON.stringify(daemon.lines)).not.toContain(key);
  },
  4 * patience,
);
