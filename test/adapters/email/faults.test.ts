// What goes wrong between us and an IMAP server: it stops, it falls silent, it refuses us, it strips encryption.

import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import {
  adapterFor,
  arrived,
  type Mailboxes,
  mail,
  nextSecond,
  ready,
  type Settings,
  settingsFor,
  startMailboxes,
  subjects,
} from "../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";

/** A channel that ends a connection without progress after three polls, whatever the server may have to do. */
const impatient = () => recordingChannel({ since: nextSecond(), timing: { stuck: 1000 } });

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("a mailbox that is hard to reach", missing, () => {
  let boxes: Mailboxes<Dovecot>;
  let dovecot: Dovecot;
  beforeAll(async () => {
    boxes = await startMailboxes(40, (users) => startDovecot({ users, ssl: true }));
    dovecot = boxes.dovecot;
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  it("continues at its cursor when the server is reachable again", async () => {
    const { channel, box, supervised } = await boxes.ready();
    await dovecot.stop();
    await channel.until("degraded", (c) => c.statuses.at(-1)?.state === "degraded");
    await dovecot.deliver(box, mail(1));
    await dovecot.start();
    await arrived(channel, 1);
    expect(supervised.starts).toBeGreaterThan(1);
    await ready(channel);
    await dovecot.deliver(box, mail(2));
    await arrived(channel, 2);
    expect(subjects(channel)).toEqual(["Mail 1", "Mail 2"]);
  });

  it("detects a connection that is cut", async () => {
    const proxy = await startTcpProxy(dovecot.port);
    const { channel, box } = await boxes.ready({}, { port: proxy.port });
    proxy.cut();
    await dovecot.deliver(box, mail(1));
    await arrived(channel, 1);
    expect(proxy.accepted()).toBe(2);
    await proxy.close();
  });

  it("names the store, instead of the connection, when storing mail fails", async () => {
    const { channel, box } = await boxes.ready();
    channel.reject(1, Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" }));
    await dovecot.deliver(box, mail(1));
    await arrived(channel, 1);
    const reason = "storing mail failed: SQLITE_FULL database or disk is full";
    expect(channel.statuses).toContainEqual({ state: "degraded", code: "store", reason });
  });

  it("detects a connection that is open at one end only", async () => {
    const proxy = await startTcpProxy(dovecot.port);
    const { channel, box, supervised } = await boxes.ready({}, { port: proxy.port, poll: "1s" }, impatient());
    proxy.swallow();
    await dovecot.deliver(box, mail(1));
    await channel.until("noticed", (c) => c.statuses.at(-1)?.state === "degraded");
    expect(supervised.errors[0]?.message).toMatch(/did not respond/);
    proxy.resume();
    // A connection that was being opened while bytes vanished never gets an answer.
    proxy.cut();
    await arrived(channel, 1);
    await proxy.close();
  });

  it("stops reading when a commit hangs until its timeout", async () => {
    const { channel, box, supervised } = await boxes.ready({}, { poll: "1s" }, impatient());
    channel.hold();
    await dovecot.deliver(box, mail(1));
    await channel.until("restart", () => supervised.starts > 1);
    channel.release();
    await arrived(channel, 1);
    await ready(channel);
    expect(subjects(channel)).toEqual(["Mail 1"]);
  });

  it("says that the credentials are wrong, once", async () => {
    const { channel, supervised } = boxes.open({}, { password: "wrong" });
    await channel.until("three starts", () => supervised.starts >= 3);
    expect(channel.statuses.map((status) => status.state)).toEqual(["connecting", "unauthorized"]);
  });

  it("says that the mailbox is missing", async () => {
    const { channel } = boxes.open({}, { mailbox: "Nowhere" });
    await channel.until("told", (c) => c.statuses.length > 1);
    expect(channel.statuses.at(-1)).toMatchObject({ state: "degraded", code: "mailbox" });
  });

  it.each(["implicit", "starttls"] as const)("reads under %s with a private CA", async (tls) => {
    const port = tls === "implicit" ? dovecot.tlsPort : dovecot.port;
    const { channel, box } = await boxes.ready({}, { tls, port, ca: dovecot.ca ?? "" });
    await dovecot.deliver(box, mail(1));
    await arrived(channel, 1);
    const stranger = boxes.open({}, { tls, port });
    await stranger.channel.until("told", (c) => c.statuses.length > 1);
    expect(stranger.channel.statuses.at(-1)).toMatchObject({ state: "degraded", code: "tls" });
  });

  it("never logs in without the encryption it was promised", async () => {
    const proxy = await startTcpProxy(dovecot.port);
    let seen = "";
    proxy.rewrite((data) => {
      const text = data.toString("latin1").replace(/ ?STARTTLS/g, "");
      seen += text;
      return Buffer.from(text, "latin1");
    });
    const { channel } = boxes.open({}, { tls: "starttls", port: proxy.port, ca: dovecot.ca ?? "" });
    await channel.until("told", (c) => c.statuses.length > 1);
    expect(channel.statuses.at(-1)?.state).toBe("degraded");
    expect(seen).not.toMatch(/Logged in|AUTHENTICATIONFAILED/);
    await proxy.close();
  });

  it("probes both sides without a trace", async () => {
    const box = boxes.fresh();
    await dovecot.deliver(box, mail(1));
    const imap = { user: box } as Settings["imap"];
    const { adapter, channel } = adapterFor(settingsFor(dovecot.port, 1, { imap }));
    const status = await adapter.probe?.(AbortSignal.timeout(60_000));
    expect(status).toMatchObject({ state: "degraded", reason: expect.stringMatching(/^smtp: /) });
    expect(channel.calls).toEqual([]);
    expect((await dovecot.list(box))[0]?.flags).toContain("\\Recent");
    const wrong = adapterFor(settingsFor(dovecot.port, 1, { imap: { user: box, password: "no" } as Settings["imap"] }));
    const rejected = await wrong.adapter.probe?.(AbortSignal.timeout(60_000));
    expect(rejected).toMatchObject({ state: "unauthorized", reason: expect.stringMatching(/^imap: /) });
    // The report names both sides, quotes the server's response and suggests a remedy.
    expect(rejected?.parts).toMatchObject([
      {
        part: "imap",
        status: {
          state: "unauthorized",
          reason: expect.stringMatching(/^the server rejects the credentials: ".*Authentication failed/),
        },
        fix: "check imap.user and imap.password",
      },
      {
        part: "smtp",
        status: { code: "connection" },
        fix: "check smtp.port: nothing listens on 1 at 127.0.0.1",
      },
    ]);
    const mailbox = { user: box, mailbox: "Support" } as Settings["imap"];
    const lost = await adapterFor(settingsFor(dovecot.port, 1, { imap: mailbox })).adapter.probe?.(
      AbortSignal.timeout(60_000),
    );
    expect(lost?.parts?.[0]).toMatchObject({
      status: { reason: "there is no folder Support" },
      fix: expect.stringMatching(/^set imap\.mailbox to one of: (.*, )?INBOX\b/),
    });
  });
});
