// Starting, stopping, reloading; several mailboxes in one process; a person who takes a conversation over.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const users = ["inflight", "drain", "sending", "manual", "password", "reload", "again", "silent"];
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("the daemon's life", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(users);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("stopped while a question is being answered: the answer is fetched after the next start", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "inflight",
      platform: { timeout: "1h" },
    });
    daemon.model.hold();
    const mail = await daemon.write();
    await eventually(() => expect(daemon.model.asked()).toBe(1));
    // A stop that waited for the platform would wait for an hour.
    await daemon.stop(300);
    daemon.model.release();
    await daemon.start();
    await daemon.settled([mail]);
    expect(daemon.proxy.calls.filter((call) => call.method === "POST" && call.path.endsWith("/messages"))).toHaveLength(
      1,
    );
  });

  it.concurrent("stopped in time: what is running ends well first", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "drain", platform: { timeout: "1h" } });
    daemon.model.hold();
    const mail = await daemon.write();
    await eventually(() => expect(daemon.model.asked()).toBe(1));
    const stopping = daemon.stop(60_000);
    daemon.model.release();
    await stopping;
    await daemon.start();
    await daemon.settled([mail]);
    expect(await daemon.rows("SELECT outcome FROM attempts WHERE outcome = 'unknown'")).toEqual([]);
    expect(daemon.proxy.calls.filter((call) => call.method === "GET" && call.path.includes("/messages"))).toEqual([]);
  });

  it.concurrent("stopped while a mail is being sent: it is not sent again", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "sending",
      channel: { unknown_window: "1s" },
    });
    daemon.smtp.fail("dot", { kind: "silence" }, 1);
    await daemon.write();
    await eventually(() => expect(daemon.smtp.arrived).toHaveLength(1));
    await daemon.stop(300);
    await daemon.start();
    await eventually(async () => expect(await daemon.rows("SELECT state FROM drafts")).toEqual([{ state: "held" }]));
    expect(daemon.smtp.arrived).toHaveLength(1);
  });

  it.concurrent("an SMTP server that falls silent before the end of the mail is tried again", async ({
    onTestFinished,
  }) => {
    const channel = { smtp: { timeout: "1s" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "silent", channel });
    daemon.smtp.fail("data", { kind: "silence" }, 1);
    await daemon.write();
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, attempts FROM drafts")).toEqual([{ state: "queued", attempts: 1 }]),
    );
  });

  it.concurrent("says nothing where a person answers on the platform", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "manual" });
    const first = await daemon.write();
    await daemon.settled([first]);
    const [conversation] = daemon.questions().map((one) => one.conversation);
    const mode = (value: string) =>
      fetch(`${daemon.proxy.url}/external/conversations/${conversation}/mode`, {
        method: "PUT",
        headers: { "agent-secret-key": daemon.env["AGENT_KEY"] ?? "", "content-type": "application/json" },
        body: JSON.stringify({ mode: value }),
      });
    expect((await mode("manual")).status).toBe(200);
    const second = await daemon.write({ answers: first });
    await eventually(async () =>
      expect(await daemon.rows("SELECT state FROM turns ORDER BY id")).toEqual([
        { state: "answered" },
        { state: "silent" },
      ]),
    );
    expect(await daemon.replies()).toHaveLength(1);
    await mode("ai");
    const third = await daemon.write({ answers: second });
    await daemon.replyTo(third);
    expect(daemon.questions()).toHaveLength(3);
    expect(await daemon.replies()).toHaveLength(2);
  });

  it.concurrent("reports rejected credentials, and continues after a reload with valid ones", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "password", stopped: true });
    const good = await daemon.config();
    const [block] = good.channels;
    if (!block) throw new Error("no channel");
    const settings = block.settings as { imap: object };
    const bad = {
      ...good,
      channels: [{ ...block, settings: { ...settings, imap: { ...settings.imap, password: "wrong" } } }],
    };
    await daemon.start(bad);
    await daemon.reports({ state: "unauthorized" });
    expect(await daemon.app().reload(good)).toEqual([]);
    const otherNode = { ...good, node: "another" };
    expect(await daemon.app().reload(otherNode)).toEqual(["node"]);
    expect(await daemon.app().reload(otherNode), "still not in effect").toEqual(["node"]);
    expect(await daemon.app().reload(good), "in effect since the start").toEqual([]);
    await daemon.reports({ state: "ready" });
    const mail = await daemon.write();
    await daemon.settled([mail]);
  });

  it.concurrent("reads another mailbox after a reload, and leaves the first one as it is", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "reload" });
    const config = await daemon.config();
    const [block] = config.channels;
    if (!block) throw new Error("no channel");
    const settings = block.settings as { imap: object };
    const address = "again@again.example";
    const added = {
      ...block,
      id: `${block.id}-again` as typeof block.id,
      settings: { ...settings, address, imap: { ...settings.imap, user: dovecot.login("again") } },
    };
    const { since } = daemon.report();
    await daemon.app().reload({ ...config, channels: [block, added] });
    const state = () =>
      daemon
        .app()
        .host.running()
        .map((one) => one.state.status.state);
    await eventually(() => expect(state()).toEqual(["ready", "ready"]));
    expect(daemon.report().since, "the first was not touched").toBe(since);
    const mail = await daemon.write();
    const other = await daemon.write({ to: address, subject: "Not for this one" });
    await dovecot.deliver("again", other.raw);
    const replies = async () => (await daemon.replies()).map((reply) => [reply.inReplyTo, reply.from.address]);
    await eventually(async () => {
      expect(await replies()).toContainEqual([mail.messageId, daemon.address]);
      expect(await replies()).toContainEqual([other.messageId, address]);
    });
    await daemon.app().reload(config);
    expect(daemon.app().host.running()).toHaveLength(1);
    expect(await daemon.replies(), "who is in Bcc only is not answered from there").toHaveLength(2);
  });
});
