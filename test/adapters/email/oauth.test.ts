// Logging in with access tokens: renewed before they end, asked for anew when they are rejected.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { type OAuth2Config, config as schema } from "../../../adapters/email/config.ts";
import { endpointOf, KeptToken, TokenSource } from "../../../adapters/email/oauth.ts";
import { standardTiming as timing } from "../../../adapters/email/timing.ts";
import { movableClock } from "../../support/clock.ts";
import {
  adapterFor,
  arrived,
  attempt,
  mail,
  ready,
  replyTo,
  type Settings,
  settingsFor,
  supervise,
} from "../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { startTokenIssuer, type TokenIssuer } from "../../support/email/servers.ts";
import { startSmtpPeer } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

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
  grant: "refresh_token",
  refresh_token: "refresh",
});
const clock = recordingChannel().clock;

describe("access tokens", () => {
  it("are asked for once and shared", async () => {
    const source = new TokenSource(grant(), { clock, timing });
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
    const source = new TokenSource(grant(), { clock: later, timing });
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
    await expect(new TokenSource(grant(), { clock, timing }).get()).rejects.toMatchObject({
      tokenFailure: { certain },
    });
  });

  it("that cannot be issued are not certain", async () => {
    const nobody = { ...grant(), token_url: "http://127.0.0.1:9/token" };
    await expect(new TokenSource(nobody, { clock, timing }).get()).rejects.toMatchObject({
      tokenFailure: { certain: false },
    });
  });
});

it("a token endpoint that does not answer is named so", async () => {
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  onTestFinished(() => silent.closeAllConnections());
  onTestFinished(() => void silent.close());
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const late = { ...grant(), token_url: `http://127.0.0.1:${port}/token` };
  await expect(new TokenSource(late, { clock, timing: { ...timing, tokenRequest: 50 } }).get()).rejects.toThrow(
    "the endpoint does not answer",
  );
});

describe("rotated refresh tokens", () => {
  const { log } = recordingChannel();
  /** A new process on the store that an earlier one has used. */
  const process = (secrets: Map<string, string>, more: Partial<OAuth2Config> = {}) => {
    const channel = recordingChannel({ secrets });
    const configured = { ...grant(), ...more };
    return new TokenSource(configured, { clock, timing }, new KeptToken(configured, channel.secrets, log));
  };
  beforeEach(() => issuer.rotate(true));
  afterAll(() => issuer.rotate(false));

  it("survive a restart, and are not readable in the store", async () => {
    const secrets = new Map<string, string>();
    await process(secrets).get();
    await process(secrets).get({ fresh: true });
    const after = process(secrets);
    await after.get();
    expect((await after.get({ fresh: true })).value).toMatch(/^token-/);
    const stored = JSON.stringify([...secrets]);
    expect(secrets.size).toBe(1);
    expect(stored).not.toContain("refresh-");
    expect(Buffer.from([...secrets.values()][0] ?? "", "base64").toString("latin1")).not.toContain("refresh-");
  });

  it("are replaced by a newer one in the file, and not used for another one", async () => {
    const secrets = new Map<string, string>();
    await process(secrets).get();
    issuer.rotate(true); // the grant was renewed by hand: only the new one is good
    await expect(process(secrets, { client_id: "other" }).get()).resolves.toBeDefined();
    issuer.rotate(true);
    await expect(process(secrets, { refresh_token: "wrong" }).get()).rejects.toMatchObject({
      tokenFailure: { certain: true },
    });
  });

  it("are picked up from another process or channel that has rotated them", async () => {
    const secrets = new Map<string, string>();
    const [one, two] = [process(secrets), process(secrets)];
    await one.get();
    await two.get();
    await one.get({ fresh: true });
    await expect(two.get({ fresh: true })).resolves.toBeDefined();
  });

  it("give way to the configured one when the stored one is void", async () => {
    const secrets = new Map<string, string>();
    await process(secrets).get();
    issuer.rotate(true);
    await expect(process(secrets).get()).resolves.toBeDefined();
  });

  it("do not stop the login when the store is away", async () => {
    const away = {
      read: () => Promise.reject(new Error("away")),
      write: () => Promise.reject(new Error("away")),
    };
    const source = new TokenSource(grant(), { clock, timing }, new KeptToken(grant(), away, log));
    await source.get();
    await expect(source.get({ fresh: true })).resolves.toBeDefined();
  });
});

describe("tokens of an application", () => {
  const app = (): OAuth2Config => ({
    token_url: issuer.tokenUrl,
    client_id: "bridge",
    client_secret: "app secret",
    grant: "client_credentials",
    scope: "https://outlook.office365.com/.default",
  });

  it("are asked for without a refresh token", async () => {
    await new TokenSource(app(), { clock, timing }).get();
    expect(Object.fromEntries(issuer.requests.at(-1) ?? [])).toEqual({
      grant_type: "client_credentials",
      client_id: "bridge",
      client_secret: "app secret",
      scope: "https://outlook.office365.com/.default",
    });
    const wrong = { ...app(), client_secret: "expired" };
    await expect(new TokenSource(wrong, { clock, timing }).get()).rejects.toMatchObject({
      tokenFailure: { certain: true },
    });
  });

  it("go to the tenant's endpoint with Microsoft's default scope", () => {
    const { scope: _, ...rest } = app();
    expect(endpointOf({ ...rest, token_url: "microsoft", tenant: "contoso.test" })).toEqual({
      url: "https://login.microsoftonline.com/contoso.test/oauth2/v2.0/token",
      scope: "https://outlook.office365.com/.default",
    });
    expect(endpointOf({ ...grant(), token_url: "microsoft" }).url).toContain("/common/");
  });

  it.each([
    ["no refresh token", {}, "refresh_token"],
    ["no secret", { grant: "client_credentials", tenant: "t" }, "client_secret"],
    ["no tenant", { grant: "client_credentials", client_secret: "s" }, "tenant"],
    ["Google", { grant: "client_credentials", client_secret: "s", token_url: "google" }, "grant"],
  ])("are refused in the configuration with %s", (_what, more, key) => {
    const oauth2 = { token_url: "microsoft", client_id: "c", ...more };
    const parsed = schema.safeParse({
      imap: { host: "h", user: "a@b.c", oauth2 },
      smtp: { host: "h" },
    });
    expect(parsed.error?.issues.map(({ path }) => path.join("."))).toEqual([`imap.oauth2.${key}`]);
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
