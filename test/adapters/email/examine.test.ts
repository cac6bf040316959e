// Whether the SMTP server accepts the address in From, as `doctor --online` asks it.

import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { adapterFor, settingsFor } from "../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { type Fault, type SmtpPeer, type Stage, startSmtpPeer } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startDns } from "../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("the check of the address in From", missing, () => {
  let imap: Dovecot;
  let smtp: SmtpPeer;
  beforeAll(async () => {
    [imap, smtp] = await Promise.all([startDovecot({ users: ["support"] }), startSmtpPeer()]);
  });
  afterEach(() => smtp.heal());
  afterAll(async () => {
    await imap?.dispose();
    await smtp?.close();
  });

  /** Returns the stages that the report shows as refused, and the stages that the server saw. */
  async function refused(signal = new AbortController().signal) {
    const before = smtp.stages.length;
    const settings = settingsFor(imap.port, smtp.port, {
      address: "support@sender.example",
      sender_auth: { mode: "tag", dns: [await startDns({})] },
      // The timeout is longer than the test: only the signal ends the wait.
      smtp: { host: "127.0.0.1", timeout: "300s", login: false },
    });
    const { adapter } = adapterFor(settings);
    const findings = (await adapter.examine?.(null, signal)) ?? [];
    await adapter.close?.(AbortSignal.timeout(60_000));
    const causes = findings.flatMap(({ id, message }) => (id === "sender-refused" ? [message] : []));
    return { causes, stages: smtp.stages.slice(before) };
  }
  const reply = (code: number, text: string): Fault => ({ kind: "reply", code, text });
  const envelope: readonly Stage[] = ["connect", "ehlo", "mail", "rcpt"];

  it("finds nothing when both commands are accepted, and sends no mail", async () => {
    expect(await refused()).toEqual({ causes: [], stages: envelope });
    expect(smtp.arrived).toEqual([]);
  });

  it.each<[Stage, number, string]>([
    ["mail", 553, "5.7.1 not permitted"],
    ["mail", 550, "5.7.1 <support@sender.example>: access denied"],
    ["rcpt", 553, "5.7.1 <support@sender.example>: Sender address rejected: not owned by user support"],
    ["rcpt", 550, "5.1.8 bad address"],
    ["rcpt", 550, "5.7.60 SMTP; Client does not have permissions"],
  ])("reports the refusal of the sender at %s: %i %s", async (stage, code, text) => {
    smtp.fail(stage, reply(code, text));
    const { causes, stages } = await refused();
    expect(causes).toEqual([expect.stringContaining(`${code} ${text}`)]);
    expect(stages).toEqual(stage === "mail" ? envelope.slice(0, 3) : envelope);
  });

  it.each<[Stage, number, string]>([
    ["mail", 421, "4.3.2 closing the connection"],
    ["mail", 450, "4.7.1 try later"],
    ["mail", 451, "4.7.1 sender address rejected: greylisted"],
    ["rcpt", 421, "4.7.0 too many connections of this sender"],
    ["rcpt", 450, "4.7.1 sender address rejected: greylisted"],
    ["rcpt", 503, "5.5.1 need the sender first: MAIL FROM"],
    ["rcpt", 550, "5.1.1 <support@sender.example>: Recipient address rejected: User unknown"],
    ["rcpt", 554, "5.7.1 <support@sender.example>: Relay access denied"],
  ])("ends without a finding at %s: %i %s", async (stage, code, text) => {
    smtp.fail(stage, reply(code, text));
    expect(await refused()).toEqual({
      causes: [],
      stages: stage === "mail" ? envelope.slice(0, 3) : envelope,
    });
  });

  it.each<[Stage]>([["mail"], ["rcpt"]])("ends when the connection is lost at %s", async (stage) => {
    smtp.fail(stage, { kind: "reset" });
    expect((await refused()).causes).toEqual([]);
  });

  it.each<[Stage]>([["mail"], ["rcpt"]])("ends with its signal when the server is silent at %s", async (stage) => {
    smtp.fail(stage, { kind: "silence" });
    const stop = new AbortController();
    const before = smtp.stages.length;
    const result = refused(stop.signal);
    await expect.poll(() => smtp.stages.slice(before)).toContain(stage);
    stop.abort(new Error("enough"));
    expect((await result).causes).toEqual([]);
  });
});
