// Findings about mailboxes, with a real Dovecot, an SMTP server and a DNS server.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { type Fixture, fixture, rest } from "../../support/commands/configuration.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { type SmtpPeer, startSmtpPeer } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { certificate, startDns } from "../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("doctor --online on mailboxes", missing, () => {
  let sound: Dovecot;
  let expired: Dovecot;
  let plain: Dovecot;
  let smtp: SmtpPeer;
  beforeAll(async () => {
    const users = ["anna", "signed", "moved", "refused"];
    [sound, expired, plain, smtp] = await Promise.all([
      startDovecot({ users, ssl: certificate(60) }),
      startDovecot({ users, ssl: certificate(-1) }),
      startDovecot({ users, ssl: true, extra: "protocol imap {\n  imap_capability = IMAP4rev1\n}\n" }),
      startSmtpPeer({ tls: { mode: "starttls", certificate: certificate(60) } }),
    ]);
  });
  afterAll(async () => {
    await Promise.all([sound, expired, plain].map((one) => one?.dispose()));
    await smtp?.close();
  });

  interface Mailbox {
    readonly server: Dovecot;
    readonly user?: string;
    readonly tls?: "implicit" | "starttls";
    readonly password?: string;
    readonly ca?: string | null;
    readonly dns?: string;
  }
  async function examine({ server, user = "anna", tls = "implicit", password = "secret", ...more }: Mailbox) {
    const one: Fixture = fixture();
    const dns = more.dns ?? (await startDns({}));
    const ca = more.ca === undefined ? server.ca : more.ca;
    const pem = (text: string | null) => (text === null ? {} : { ca: text });
    const channel = {
      adapter: "email",
      agent: "support",
      address: "support@sender.example",
      imap: {
        host: "localhost",
        port: tls === "implicit" ? server.tlsPort : server.port,
        tls,
        user,
        password,
        ...pem(ca),
      },
      smtp: {
        host: "localhost",
        port: smtp.port,
        tls: "starttls",
        login: false,
        ...pem(certificate(60).cert),
      },
      sender_auth: { mode: "tag", dns: [dns] },
    };
    const yaml = [
      'platform: { url: "http://127.0.0.1:1" }',
      'agents: { support: { key: "${env:KEY}" } }',
      `channels: ${JSON.stringify({ mail: { ...channel, imap: { ...channel.imap, password: "${file:password}" } } })}`,
      rest,
    ].join("\n");
    writeFileSync(join(one.folder, "password"), password, { mode: 0o600 });
    writeFileSync(one.config, yaml, { mode: 0o600 });
    const run = async () => {
      const { findings, code } = await one.doctor({ online: true });
      return {
        code,
        ids: findings.filter(({ place }) => place.startsWith("channel mail")).map(({ id }) => id),
        findings,
      };
    };
    return { one, run };
  }

  it("reports expired, expiring and untrusted certificates, and rejected logins", async () => {
    const old = await (await examine({ server: expired })).run();
    expect(old.code).toBe(exitCodes.failed);
    expect(old.ids).toEqual(["channel-unreachable", "certificate-expired"]);
    expect(old.findings.find(({ id }) => id === "channel-unreachable")).toMatchObject({
      remedy: expect.stringContaining("renew the certificate of localhost, or correct the clock of this machine"),
    });
    expect(old.findings.find(({ id }) => id === "certificate-expired")).toMatchObject({
      place: `channel mail imap (localhost:${expired.tlsPort})`,
      remedy: expect.stringContaining("openssl s_client -connect localhost"),
    });
    const starttls = await (await examine({ server: expired, tls: "starttls" })).run();
    expect(starttls.ids).toContain("certificate-expired");
    const soon = await (await examine({ server: plain })).run();
    expect(soon.ids).toContain("certificate-expiring");
    const unknown = await (await examine({ server: sound, ca: null })).run();
    expect(unknown.ids).toEqual(["channel-unreachable", "certificate-untrusted"]);
    const rejected = await (await examine({ server: sound, password: "wrong" })).run();
    expect(rejected.ids).toEqual(["channel-login-rejected"]);
  });

  it("reports a silent mailbox, missing capabilities, and records that are missing in the DNS", async () => {
    const { ids, code, findings } = await (await examine({ server: plain })).run();
    expect(ids.toSorted()).toEqual([
      "certificate-expiring",
      "dkim-unknown",
      "dmarc-missing",
      "imap-capability-missing",
      "mailbox-silent",
      "spf-missing",
    ]);
    // The platform and the responder of this file are not reachable.
    expect(code).toBe(exitCodes.failed);
    expect(findings.find(({ id }) => id === "imap-capability-missing")?.cause).toContain("IDLE");
    await sound.deliver("anna", "Subject: x\r\n\r\nx\r\n", "INBOX", new Date(Date.now() - 8 * 86_400_000));
    const old = await (await examine({ server: sound })).run();
    expect(old.findings.find(({ id }) => id === "mailbox-silent")?.cause).toContain("no email for 8 days");
    const unreachable = await (await examine({ server: sound, dns: "127.0.0.1:1" })).run();
    expect(unreachable.ids).toContain("dns-unreachable");
  });

  it("finds nothing in a healthy mailbox, and the missing key of a signature", async () => {
    await sound.deliver(
      "signed",
      "From: support@sender.example\r\nSubject: x\r\nDKIM-Signature: v=1; a=rsa-sha256; d=sender.example;\r\n s=autumn; b=x\r\n\r\nx\r\n",
    );
    const records = {
      "sender.example": ["google-site-verification=x", "v=spf1 include:mail.example ~all"],
      "_dmarc.sender.example": ["v=DMARC1; p=none"],
    };
    const unsigned = await examine({ server: sound, user: "signed", dns: await startDns(records) });
    expect((await unsigned.run()).ids).toEqual(["dkim-key-missing"]);
    const key = { "autumn._domainkey.sender.example": ["v=DKIM1; k=rsa; p=MIIB"] };
    const healthy = await examine({
      server: sound,
      user: "signed",
      dns: await startDns({ ...records, ...key }),
    });
    expect((await healthy.run()).ids).toEqual([]);
  });

  it("reports an address that the SMTP server refuses for the login, without sending a mail", async () => {
    const { run } = await examine({ server: sound, user: "refused" });
    for (const stage of ["mail", "rcpt"] as const) {
      // The first connection is that of the probe, which sends no envelope.
      smtp.fail(stage, {
        kind: "reply",
        code: 553,
        text: "5.7.1 sender address rejected: not owned by user",
      });
      const { ids, findings } = await run();
      smtp.heal();
      expect(ids).toContain("sender-refused");
      expect(findings.find(({ id }) => id === "sender-refused")?.cause).toContain(
        "refuses mail from support@sender.example with the login refused: 553 5.7.1",
      );
    }
    expect((await run()).ids).not.toContain("sender-refused");
    expect(smtp.arrived).toEqual([]);
  });

  it("reports a mailbox whose UIDVALIDITY has changed since the last read", async () => {
    const { one, run } = await examine({ server: sound, user: "moved" });
    await sound.deliver("moved", "Subject: x\r\n\r\nx\r\n");
    const cursor = { v: 1, mailbox: "INBOX", uidValidity: "7", uid: 1, at: 1, since: 1 };
    await one.stored((q) =>
      q.run("INSERT INTO channels (id, since, cursor, cursor_at) VALUES ('mail', 1, $1, 1)", JSON.stringify(cursor)),
    );
    expect((await run()).ids).toContain("uidvalidity-changed");
  });
});
