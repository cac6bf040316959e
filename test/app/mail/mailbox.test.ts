// What happens to the mailbox and the line to it: marks, a new UIDVALIDITY, a server that goes away, a line that is
// only half there, tokens that end.

import type { Clock } from "bridgehead/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { eventually } from "../../support/clock.ts";
import { startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { letter } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { bodyServer, closeServer, listen, startTcpProxy } from "../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("the mailbox and the line to it", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({
      users: ["keyword", "flag", "move", "copy", "validity", "halfopen", "slow", "cut", "again", "sealed", "deleted"],
    });
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("marks handled mail by a keyword, and changes no visible flag", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "keyword" });
    const mail = await daemon.write();
    await daemon.settled([mail]);
    await eventually(async () =>
      expect((await dovecot.list("keyword")).map((one) => one.flags)).toEqual([
        expect.arrayContaining(["$Bridgehead"]),
      ]),
    );
    expect((await dovecot.list("keyword"))[0]?.flags).not.toContain("\\Seen");
  });

  it.concurrent("answers a mail that arrived during a stop although its sender has used the Message-ID before", async ({
    onTestFinished,
  }) => {
    const channel = { sent_folder: "auto" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "again", channel });
    const first = await daemon.write();
    await daemon.replyTo(first);
    await eventually(async () => expect(await dovecot.list("again", "Sent")).toHaveLength(1));
    await daemon.stop();
    const headers = { "Message-ID": first.messageId };
    const second = letter(daemon.address, { from: "mallory@elsewhere.example", headers });
    await daemon.deliver(second.raw);
    await daemon.start();
    await eventually(async () =>
      expect((await daemon.replies()).map(({ to }) => to)).toEqual([[first.from], [second.from]]),
    );
    expect(await daemon.rows("SELECT code FROM events WHERE state <> 'routed'")).toEqual([]);
  });

  it.concurrent("holds an encrypted mail that was handled before the store was restored, like any other", async ({
    onTestFinished,
  }) => {
    const channel = { sent_folder: "auto", first_start: { history: "1h" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "sealed", channel, stopped: true });
    const text = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----";
    const mail = await daemon.write({ text });
    const answer = { "X-Bridgehead-Hops": "1", "In-Reply-To": mail.messageId };
    await dovecot.deliver("sealed", letter(mail.from, { from: daemon.address, headers: answer }).raw, "Sent");
    await daemon.start();
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, code FROM events")).toEqual([
        { state: "held", code: "answered-before-restore" },
      ]),
    );
  });

  it.concurrent("marks it as read where that is wanted, also what is not answered", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "flag",
      channel: { mark: { with: "flag" } },
    });
    const mail = await daemon.write();
    await daemon.write({ headers: { "List-Id": "<news.example>" } });
    await daemon.settled([mail]);
    await eventually(async () =>
      expect((await dovecot.list("flag")).map((one) => one.flags.includes("\\Seen"))).toEqual([true, true]),
    );
  });

  it.concurrent("moves it where that is wanted, and still finds the thread", async ({ onTestFinished }) => {
    const client = await dovecot.connect("move");
    await client.mailboxCreate("Done");
    await client.logout();
    const channel = { mark: { with: "move", folder: "Done" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "move", channel });
    const first = await daemon.write();
    const second = await daemon.write({ answers: await daemon.replyTo(first) });
    await daemon.settled([first, second]);
    await eventually(async () => expect(await dovecot.list("move")).toEqual([]));
    expect(await dovecot.list("move", "Done")).toHaveLength(2);
    expect(daemon.conversations()).toBe(1);
  });

  it.concurrent("files a copy of what it sends, the same bytes", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "copy",
      channel: { sent_folder: "auto" },
    });
    const mail = await daemon.write();
    const { messageId } = await daemon.replyTo(mail);
    await eventually(async () => expect(await dovecot.list("copy", "Sent")).toHaveLength(1));
    const [copy] = await dovecot.list("copy", "Sent");
    expect(copy?.raw).toContain(messageId);
    expect(copy?.raw.trimEnd()).toBe(daemon.smtp.accepted[0]?.raw.trimEnd());
  });

  it.concurrent("answers nothing twice and loses nothing after a UIDVALIDITY change", async ({ onTestFinished }) => {
    const channel = { imap: { poll: "2s" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "validity", channel });
    const letters = [await daemon.write(), await daemon.write({ from: "ben@customer.example" })];
    await daemon.settled(letters);
    await daemon.stop();
    await dovecot.changeUidValidity("validity");
    letters.push(await daemon.write({ from: "carl@customer.example" }));
    await daemon.start();
    await daemon.settled(letters);
    // And once more under the running daemon.
    await dovecot.changeUidValidity("validity");
    letters.push(await daemon.write({ from: "dora@customer.example" }));
    await daemon.settled(letters);
    await daemon.reports({ state: "ready" });
  });

  it.concurrent("reports a deleted folder in the log and the state, and reads it once it exists again", async ({
    onTestFinished,
  }) => {
    const client = await dovecot.connect("deleted");
    onTestFinished(() => client.logout());
    await client.mailboxCreate("Support");
    const channel = { imap: { poll: "2s", mailbox: "Support" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "deleted", channel });
    await client.mailboxDelete("Support");
    await daemon.reports({ state: "degraded", reason: "imap: the mailbox does not exist" });
    expect(daemon.log.some(({ fields }) => fields.reason === "imap: the mailbox does not exist")).toBe(true);
    await client.mailboxCreate("Support");
    await daemon.reports({ state: "ready" });
  });

  it.concurrent("detects a half-open connection, and continues over a new one", async ({ onTestFinished }) => {
    const proxy = await startTcpProxy(dovecot.port);
    onTestFinished(() => proxy.close());
    const channel = { imap: { port: proxy.port, poll: "2s" } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "halfopen", channel });
    const first = await daemon.write();
    await daemon.settled([first]);
    proxy.swallow();
    const lines = proxy.accepted();
    const second = await daemon.write({ answers: first });
    await daemon.reports({ state: "degraded" });
    proxy.resume();
    await daemon.settled([first, second]);
    expect(proxy.accepted()).toBeGreaterThan(lines);
    await daemon.reports({ state: "ready" });
  });

  it.concurrent("keeps its connection to a server that is slower than its polls", async ({ onTestFinished }) => {
    const proxy = await startTcpProxy(dovecot.port);
    onTestFinished(() => proxy.close());
    const poll = 210;
    const channel = { imap: { port: proxy.port, poll: `${poll}ms` } };
    // The watchdog of the connection looks once in the time of a poll.
    let looks = 0;
    const clock: Clock = {
      ...systemClock,
      async sleep(ms, signal) {
        await systemClock.sleep(ms, signal);
        if (ms === poll) looks += 1;
      },
    };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "slow", channel, clock });
    const first = await daemon.write();
    await daemon.settled([first]);
    const lines = proxy.accepted();
    proxy.hold();
    const second = await daemon.write({ answers: first });
    const before = looks;
    // More than three polls.
    await eventually(() => expect(looks).toBeGreaterThan(before + 5));
    proxy.release();
    await daemon.settled([first, second]);
    expect(proxy.accepted()).toBe(lines);
  });

  it.concurrent("reads on after lines that were cut, again and again", async ({ onTestFinished }) => {
    const proxy = await startTcpProxy(dovecot.port);
    onTestFinished(() => proxy.close());
    const channel = { imap: { port: proxy.port } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "cut", channel });
    const letters = [];
    for (let round = 0; round < 3; round++) {
      letters.push(await daemon.write({ from: `person${round}@customer.example` }));
      proxy.cut();
      await daemon.settled(letters);
    }
  });
});

describeReal("a mail server that is stopped and started", missing, () => {
  it("is waited for; messages that arrived in between are answered", async ({ onTestFinished }) => {
    const dovecot = await startDovecot({ users: ["stop"] });
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "stop" });
    onTestFinished(() => dovecot.dispose());
    const first = await daemon.write();
    await daemon.settled([first]);
    await dovecot.stop();
    await daemon.reports({ state: "degraded" });
    const second = await daemon.write({ from: "ben@customer.example" });
    await dovecot.start();
    await daemon.settled([first, second]);
    await daemon.reports({ state: "ready" });
  });
});

/** An issuer of tokens that live for some seconds, and the mail server's way to ask it about them. */
async function startIssuer(seconds: number) {
  const until = new Map<string, number>();
  let issued = 0;
  let refusing = false;
  const server = bodyServer((body, response, request) => {
    const form = new URLSearchParams(body);
    const answer = (status: number, value: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (request.url === "/introspect") {
      const token = form.get("token") ?? "";
      return void answer(200, { active: (until.get(token) ?? 0) > Date.now(), username: "token" });
    }
    if (refusing || form.get("refresh_token") !== "granted") return void answer(400, { error: "invalid_grant" });
    const token = `token-${++issued}`;
    until.set(token, Date.now() + seconds * 1000);
    answer(200, { access_token: token, expires_in: seconds, token_type: "Bearer" });
  });
  const url = await listen(server);
  return {
    url,
    issued: () => issued,
    good: (token: string) => (until.get(token) ?? 0) > Date.now(),
    revoke: () => {
      refusing = true;
      until.clear();
    },
    grant: () => void (refusing = false),
    close: () => closeServer(server),
  };
}

describeReal("a login by token", missing, () => {
  it("continues when tokens expire; a revoked grant is reported, and a new one is used", async ({ onTestFinished }) => {
    const issuer = await startIssuer(4);
    const dovecot = await startDovecot({ users: ["token"], introspectionUrl: `${issuer.url}/introspect` });
    const oauth2 = {
      token_url: `${issuer.url}/token`,
      client_id: "bridgehead",
      client_secret: "${env:SECRET}",
      refresh_token: "${env:GRANT}",
    };
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "token",
      channel: { imap: { password: null, oauth2 }, smtp: { login: true } },
      smtp: { token: (_user, token) => issuer.good(token) },
    });
    onTestFinished(() => dovecot.dispose());
    onTestFinished(() => issuer.close());
    const letters = [];
    for (let round = 0; round < 3; round++) {
      const before = issuer.issued();
      letters.push(await daemon.write({ from: `person${round}@customer.example` }));
      await daemon.settled(letters);
      await eventually(() => expect(issuer.issued()).toBeGreaterThan(before));
    }
    expect(daemon.log.filter((line) => line.level === "error")).toEqual([]);
    expect(daemon.smtp.accepted.every((mail) => mail.user === "token")).toBe(true);

    issuer.revoke();
    await daemon.reports({ state: "unauthorized" });
    letters.push(await daemon.write());
    issuer.grant();
    await daemon.settled(letters);
    await daemon.reports({ state: "ready" });
  });
});
