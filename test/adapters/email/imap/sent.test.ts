// The Sent folder: the same bytes that went out, and what it proves about an attempt of unknown outcome.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { type PastAttempt, sendKey } from "bridgehead/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { adapterFor, attempt, replyTo, type Settings, settingsFor } from "../../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../../support/email/dovecot.ts";
import { type SmtpPeer, startSmtpPeer } from "../../../support/email/smtp-server.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";
import { startTcpProxy } from "../../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("the Sent folder", missing, () => {
  let dovecot: Dovecot;
  let peer: SmtpPeer;
  let next = 0;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["a", "b", "c", "d", "e", "f", "g"] });
    peer = await startSmtpPeer({
      users: { a: "secret", b: "secret", c: "secret", d: "secret", e: "secret", f: "secret", g: "secret" },
    });
  });
  afterAll(async () => {
    await peer?.close();
    await dovecot?.dispose();
  });

  function open(more: Partial<Settings>, imapPort = dovecot.port) {
    const user = "abcdefg"[next++] ?? "";
    const { adapter, channel } = adapterFor(
      settingsFor(imapPort, peer.port, { ...more, imap: { user } as Settings["imap"] }),
    );
    const { outbound } = adapter;
    if (outbound?.reconcile === undefined) throw new Error("no outbound");
    const reconcile = outbound.reconcile.bind(outbound);
    const draftFor = (key: string) => outbound.compose(replyTo({ key: sendKey(key) }))[0] as never;
    return {
      user,
      channel,
      send: (key: string) => outbound.send(draftFor(key), attempt(sendKey(key))),
      look: (key: string, startedAt = new Date(Date.now() - 600_000)) => {
        const past: PastAttempt = { key: sendKey(key), number: 1, startedAt };
        return reconcile(draftFor(key), past, AbortSignal.timeout(60_000));
      },
    };
  }

  it("gets the bytes that went out, and no more than once", async () => {
    const phases: string[] = [];
    const listen = (message: unknown) => void phases.push((message as { phase: string }).phase);
    subscribe("bridgehead:email.sent-copy", listen);
    const { user, send } = open({ sent_folder: "auto" });
    for (const key of ["one1", "two2", "three3"]) expect(await send(key)).toMatchObject({ kind: "sent" });
    await expect.poll(async () => (await dovecot.list(user, "Sent")).length).toBe(3);
    const [first] = await dovecot.list(user, "Sent");
    expect(first?.raw).toBe(peer.accepted.find((mail) => mail.messageId.includes("one1"))?.raw);
    expect(first?.flags).toContain("\\Seen");
    expect(phases).toEqual(["before", "after", "before", "after", "before", "after"]);
    unsubscribe("bridgehead:email.sent-copy", listen);
  });

  it.each([{ sent_folder: "none" }, { sent_folder: "auto", provider_files_sent: true }])(
    "is left alone with %j",
    async (more) => {
      const { user, send, look } = open(more);
      await send("quiet1");
      await look("quiet1");
      expect(await dovecot.list(user, "Sent")).toEqual([]);
    },
  );

  it("changes nothing about the outcome when it is missing or away", async () => {
    const { channel, send } = open({ sent_folder: "Nowhere" });
    expect(await send("gone1")).toMatchObject({ kind: "sent" });
    await channel.until("told", (c) => c.logged.some((line) => line.message.includes("no Sent folder")));
    expect(await send("gone2")).toMatchObject({ kind: "sent" });
    const proxy = await startTcpProxy(dovecot.port);
    proxy.refuse();
    const away = open({ sent_folder: "auto" }, proxy.port);
    expect(await away.send("gone3")).toMatchObject({ kind: "sent" });
    await away.channel.until("told", (c) =>
      c.logged.some((line) => line.message === "filing a copy of sent mail failed"),
    );
    expect(await away.look("gone3")).toMatchObject({ kind: "unsure", lookAgainAfterMs: 60_000 });
    await proxy.close();
  });

  it("proves sending by presence; absence proves nothing where we file", async () => {
    const { user, send, look } = open({ sent_folder: "auto" });
    await send("there1");
    await expect.poll(async () => (await dovecot.list(user, "Sent")).length).toBe(1);
    expect(await look("there1")).toEqual({ kind: "sent", id: "<there1.bridgehead@example.com>" });
    expect(await look("never1")).toEqual({ kind: "unsure" });
  });

  it("proves both, after a while, where the provider files", async () => {
    const { user, look } = open({ sent_folder: "auto", provider_files_sent: true });
    await dovecot.deliver(user, "Message-ID: <there2.bridgehead@example.com>\n\nhi\n", "Sent");
    expect(await look("there2")).toMatchObject({ kind: "sent" });
    expect(await look("never2")).toEqual({ kind: "not-sent" });
    const soon = await look("never2", new Date());
    expect(soon.kind).toBe("unsure");
    expect(soon.kind === "unsure" && (soon.lookAgainAfterMs ?? 0)).toBeGreaterThan(100_000);
  });
});
