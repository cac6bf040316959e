// Starting, stopping, reloading; several mailboxes in one process; a person who takes a conversation over.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { openWorld } from "../support/daemon/mail-daemon.ts";
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
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "inflight",
      platform: { timeout: "1h" },
    });
    world.model.hold();
    const mail = await world.write();
    await eventually(() => expect(world.model.asked()).toBe(1));
    // A stop that waited for the platform would wait for an hour.
    await world.stop(300);
    world.model.release();
    await world.start();
    await world.settled([mail]);
    expect(world.front.calls.filter((call) => call.method === "POST" && call.path.endsWith("/messages"))).toHaveLength(
      1,
    );
  });

  it.concurrent("stopped in time: what is running ends well first", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "drain", platform: { timeout: "1h" } });
    world.model.hold();
    const mail = await world.write();
    await eventually(() => expect(world.model.asked()).toBe(1));
    const stopping = world.stop(60_000);
    world.model.release();
    await stopping;
    await world.start();
    await world.settled([mail]);
    expect(await world.rows("SELECT outcome FROM attempts WHERE outcome = 'unknown'")).toEqual([]);
    expect(world.front.calls.filter((call) => call.method === "GET" && call.path.includes("/messages"))).toEqual([]);
  });

  it.concurrent("stopped while a mail is being sent: it is not sent again", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "sending",
      channel: { unknown_window: "1s" },
    });
    world.smtp.fail("dot", { kind: "silence" }, 1);
    await world.write();
    await eventually(() => expect(world.smtp.arrived).toHaveLength(1));
    await world.stop(300);
    await world.start();
    await eventually(async () => expect(await world.rows("SELECT state FROM drafts")).toEqual([{ state: "held" }]));
    expect(world.smtp.arrived).toHaveLength(1);
  });

  it.concurrent("an SMTP server that falls silent before the end of the mail is tried again", async ({
    onTestFinished,
  }) => {
    const channel = { smtp: { timeout: "1s" } };
    const world = await openWorld(onTestFinished, { dovecot, user: "silent", channel });
    world.smtp.fail("data", { kind: "silence" }, 1);
    await world.write();
    await eventually(async () =>
      expect(await world.rows("SELECT state, attempts FROM drafts")).toEqual([{ state: "queued", attempts: 1 }]),
    );
  });

  it.concurrent("says nothing where a person answers on the platform", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "manual" });
    const first = await world.write();
    await world.settled([first]);
    const [conversation] = world.questions().map((one) => one.conversation);
    const mode = (value: string) =>
      fetch(`${world.front.url}/external/conversations/${conversation}/mode`, {
        method: "PUT",
        headers: { "agent-secret-key": world.env["AGENT_KEY"] ?? "", "content-type": "application/json" },
        body: JSON.stringify({ mode: value }),
      });
    expect((await mode("manual")).status).toBe(200);
    const second = await world.write({ answers: first });
    await eventually(async () =>
      expect(await world.rows("SELECT state FROM turns ORDER BY id")).toEqual([
        { state: "answered" },
        { state: "silent" },
      ]),
    );
    expect(await world.replies()).toHaveLength(1);
    await mode("ai");
    const third = await world.write({ answers: second });
    await world.replyTo(third);
    expect(world.questions()).toHaveLength(3);
    expect(await world.replies()).toHaveLength(2);
  });

  it.concurrent("reports rejected credentials, and continues after a reload with valid ones", async ({
    onTestFinished,
  }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "password", stopped: true });
    const good = await world.config();
    const [block] = good.channels;
    if (!block) throw new Error("no channel");
    const settings = block.settings as { imap: object };
    const bad = {
      ...good,
      channels: [{ ...block, settings: { ...settings, imap: { ...settings.imap, password: "wrong" } } }],
    };
    await world.start(bad);
    await world.reports({ state: "unauthorized" });
    expect(await world.app().reload(good)).toEqual([]);
    const otherNode = { ...good, node: "another" };
    expect(await world.app().reload(otherNode)).toEqual(["node"]);
    expect(await world.app().reload(otherNode), "still not in effect").toEqual(["node"]);
    expect(await world.app().reload(good), "in effect since the start").toEqual([]);
    await world.reports({ state: "ready" });
    const mail = await world.write();
    await world.settled([mail]);
  });

  it.concurrent("reads another mailbox after a reload, and leaves the first one as it is", async ({
    onTestFinished,
  }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "reload" });
    const config = await world.config();
    const [block] = config.channels;
    if (!block) throw new Error("no channel");
    const settings = block.settings as { imap: object };
    const address = "again@again.example";
    const added = {
      ...block,
      id: `${block.id}-again` as typeof block.id,
      settings: { ...settings, address, imap: { ...settings.imap, user: dovecot.login("again") } },
    };
    const { since } = world.report();
    await world.app().reload({ ...config, channels: [block, added] });
    const state = () =>
      world
        .app()
        .host.running()
        .map((one) => one.state.status.state);
    await eventually(() => expect(state()).toEqual(["ready", "ready"]));
    expect(world.report().since, "the first was not touched").toBe(since);
    const mail = await world.write();
    const other = await world.write({ to: address, subject: "Not for this one" });
    await dovecot.deliver("again", other.raw);
    const replies = async () => (await world.replies()).map((reply) => [reply.inReplyTo, reply.from.address]);
    await eventually(async () => {
      expect(await replies()).toContainEqual([mail.messageId, world.address]);
      expect(await replies()).toContainEqual([other.messageId, address]);
    });
    await world.app().reload(config);
    expect(world.app().host.running()).toHaveLength(1);
    expect(await world.replies(), "who is in Bcc only is not answered from there").toHaveLength(2);
  });
});
