// Logging in with access tokens: renewed before they end, asked for anew when they are rejected.

import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { OAuth2Config } from "../../../adapters/email/config.ts";
import { tokenSource } from "../../../adapters/email/oauth.ts";
import { movableClock } from "../../app/clock.ts";
import { describeReal, need } from "../../real/debian.ts";
import { type Dovecot, startDovecot } from "../../real/dovecot.ts";
import { startSmtpPeer } from "../../real/smtp-peer.ts";
import { adapterFor, attempt, mail, replyTo, type Settings, settingsFor, supervise } from "./core.ts";
import { arrived, ready } from "./mailboxes.ts";
import { startTokenIssuer, type TokenIssuer } from "./token-issuer.ts";

let issuer: TokenIssuer;
beforeAll(async () => {
  issuer = await startTokenIssuer("support");
});
beforeEach(() => {
  issuer.fail(null);
  issuer.lifetime(3600);
});
afterAll(() => issuer.close());

const grant = (): OAuth2Config => ({
  token_url: issuer.tokenUrl,
  client_id: "bridge",
  refresh_token: "refresh",
});
const clock = recordingChannel().clock;

describe("access tokens", () => {
  it("are asked for once and shared", async () => {
    const source = tokenSource(grant(), clock);
    const before = issuer.requests.length;
    const all = await Promise.all([source.get(), source.get(), source.get()]);
    expect(new Set(all.map((token) => token.value)).size).toBe(1);
    expect((await source.get()).value).toBe(all[0]?.value);
    expect(issuer.requests.length).toBe(before + 1);
    expect(Object.fromEntries(issuer.requests.at(-1) ?? [])).toEqual({
      grant_type: "refresh_token",
      client_id: "bridge",
      refresh_token: "refresh",
    });
    expect((await source.get({ fresh: true })).value).not.toBe(all[0]?.value);
  });

  it("are renewed before they end", async () => {
    const later = movableClock();
    const source = tokenSource(grant(), later);
    const first = await source.get();
    expect((await source.get()).value).toBe(first.value);
    later.forward(3_590_000);
    expect(later.now()).toBeLessThan(first.expiresAt);
    expect((await source.get()).value).not.toBe(first.value);
  });

  it.each([
    [{ status: 400, code: "invalid_grant" }, true],
    [{ status: 401, code: "invalid_client" }, true],
    [{ status: 400, code: "temporarily_unavailable" }, false],
    [{ status: 503, code: "" }, false],
  ])("that are refused with %j: certain %s", async (error, certain) => {
    issuer.fail(error);
    await expect(tokenSource(grant(), clock).get()).rejects.toMatchObject({ tokenFailure: { certain } });
  });

  it("that nobody issues are not certain", async () => {
    const nobody = { ...grant(), token_url: "http://127.0.0.1:9/token" };
    await expect(tokenSource(nobody, clock).get()).rejects.toMatchObject({
      tokenFailure: { certain: false },
    });
  });
});

describe("sending with a token", () => {
  const draftOf = (adapter: ReturnType<typeof adapterFor>["adapter"]) =>
    adapter.outbound?.compose(replyTo())[0] as never;

  it("logs in, and with a new token when the old one is rejected", async () => {
    const peer = await startSmtpPeer({ token: (user, token) => issuer.good(user, token) });
    const smtp = { user: "support", oauth2: grant(), connections: 1 } as Settings["smtp"];
    const { adapter, channel } = adapterFor(settingsFor(1, peer.port, { smtp }));
    expect(await adapter.outbound?.send(draftOf(adapter), attempt())).toMatchObject({ kind: "sent" });
    expect(peer.accepted[0]?.user).toBe("support");
    issuer.revokeTokens();
    const fresh = adapterFor(settingsFor(1, peer.port, { smtp })).adapter;
    expect(await fresh.outbound?.send(draftOf(fresh), attempt())).toMatchObject({ kind: "sent" });
    issuer.fail({ status: 400, code: "invalid_grant" });
    const gone = adapterFor(settingsFor(1, peer.port, { smtp }), channel).adapter;
    expect(await gone.outbound?.send(draftOf(gone), attempt())).toMatchObject({
      kind: "deferred",
      scope: "channel",
    });
    expect(channel.statuses.at(-1)?.state).toBe("unauthorized");
    await peer.close();
  });
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("reading with a token", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["support"], introspectionUrl: issuer.introspectionUrl });
  });
  afterAll(() => dovecot?.dispose());
  function open(options: Parameters<typeof recordingChannel>[0] = {}) {
    const settings = settingsFor(dovecot.port, 1);
    const { password: _, ...imap } = settings.imap;
    const { adapter, channel } = adapterFor(
      { ...settings, imap: { ...imap, oauth2: grant() } },
      recordingChannel(options),
    );
    if (!adapter.inbound) throw new Error("no inbound");
    return { channel, supervised: supervise(adapter.inbound, channel) };
  }
  const logins = () =>
    dovecot
      .log()
      .split("\n")
      .filter((line) => line.includes("Login: user=<support>")).length;

  it("changes connections before the token ends, and loses nothing", async () => {
    const later = movableClock();
    const before = logins();
    const { channel, supervised } = open({ clock: later });
    await ready(channel);
    for (let n = 0; n < 10; n++) {
      await dovecot.deliver("support", mail(n));
      // For the reader the token ends in half a minute now; the server would take it for an hour.
      if (n % 4 === 1) later.forward(3_570_000);
      await arrived(channel, n + 1);
      if (n % 4 === 1) await expect.poll(() => logins() - before).toBe(2 + (n - 1) / 4);
    }
    expect(logins() - before).toBe(4);
    expect(supervised.errors).toEqual([]);
    expect(channel.statuses.map((status) => status.state)).toEqual(["connecting", "ready"]);
    expect(channel.messages.map((message) => message.subject)).toEqual(
      Array.from({ length: 10 }, (_, n) => `Mail ${n}`),
    );
    await supervised.stop();
  });

  it("gets another token when the one in hand was revoked", async () => {
    const { channel, supervised } = open();
    await ready(channel);
    issuer.revokeTokens();
    const restarted = channel.until("restart", () => supervised.starts > 1);
    await dovecot.restart();
    await restarted;
    await ready(channel);
    await dovecot.deliver("support", mail("after"));
    await channel.until("the mail", (c) => c.messages.some((message) => message.subject === "Mail after"));
    expect(channel.statuses.some((status) => status.state === "unauthorized")).toBe(false);
    await supervised.stop();
  });

  it("says that the grant is gone", async () => {
    issuer.fail({ status: 400, code: "invalid_grant" });
    const { channel, supervised } = open();
    await channel.until("told", (c) => c.statuses.length > 1);
    expect(channel.statuses.at(-1)).toMatchObject({ state: "unauthorized", code: "token" });
    await supervised.stop();
  });
});
