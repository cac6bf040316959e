// What an operator may write, and what is refused before anything connects.

import { describe, expect, it } from "vitest";
import { config } from "../../../adapters/email/config.ts";
import { providerOf } from "../../../adapters/email/providers.ts";

const imap = { host: "imap.example.com", user: "support@example.com", password: "x" };
const smtp = { host: "smtp.example.com" };
const problems = (block: unknown) =>
  (config.safeParse(block).error?.issues ?? []).map((issue) => `${issue.path.join(".")}: ${issue.message}`);

describe("the block of an e-mail channel", () => {
  it("needs no more than servers and a login", () => {
    expect(config.parse({ imap, smtp })).toMatchObject({
      imap: { port: 993, tls: "implicit", mailbox: "INBOX", idle: 240_000, poll: 60_000 },
      smtp: { port: 465, tls: "implicit", connections: 10, timeout: 120_000 },
      reply: "sender",
      mark: { with: "keyword", keyword: "$Bridgehead" },
      sent_folder: "auto",
      first_start: { history: 0 },
      max_size: 25_000_000,
      sender_auth: { mode: "off" },
    });
  });

  it.each([
    [{ imap: { ...imap, tls: "none" }, smtp }, /imap\.tls: .*localhost/],
    [{ imap, smtp: { ...smtp, tls: "none" } }, /smtp\.tls: .*localhost/],
    [{ imap: { ...imap, tls: "none", host: "localhost" }, smtp }, null],
    [{ imap: { ...imap, tls: "none", host: "127.0.0.1.example.com" }, smtp }, /imap\.tls/],
    [{ imap: { host: "x", user: "a@b.c" }, smtp }, /imap\.password/],
    [{ imap: { ...imap, host: "imap.example.com:993" }, smtp }, /imap\.host: must be a host name or an address alone/],
    [{ imap: { ...imap, host: "imaps://imap.example.com" }, smtp }, /imap\.host: /],
    [{ imap, smtp: { host: "https://smtp.example.com/" } }, /smtp\.host: /],
    [{ imap, smtp: { host: "user@smtp.example.com" } }, /smtp\.host: /],
    [{ imap: { ...imap, host: "fd00::1" }, smtp: { host: "fe80::1%eth0" } }, null],
    [{ imap: { ...imap, host: "bücher.example" }, smtp: { host: "192.0.2.1" } }, null],
    [
      { imap: { ...imap, oauth2: { token_url: "google", client_id: "c", refresh_token: "r" } }, smtp },
      /imap\.password/,
    ],
    [{ imap: { ...imap, user: "support" }, smtp }, /address: .*address must be given/],
    [{ imap: { ...imap, user: "support" }, smtp, address: "support@example.com" }, null],
    [{ imap, smtp, sender_auth: { mode: "require", by: "header" } }, /sender_auth\.server/],
    [{ imap: { ...imap, poll: "soon" }, smtp }, /imap\.poll: .*"30s"/],
    [{ imap, smtp, max_size: "large" }, /max_size: .*"25MB"/],
    [{ imap, smtp, surprise: 1 }, /surprise/],
    [{ imap: { ...imap, passwort: 1 }, smtp }, /passwort/],
    [{ imap, smtp, aliases: ["no address"] }, /aliases\.0/],
    [{ imap, smtp, mark: { with: "keyword", keyword: "a) b" } }, /mark\.keyword/],
    [{ imap, smtp, automatic_senders: ["@github.com", "bot@example.com"] }, null],
  ])("%j", (block, expected) => {
    const found = problems(block).join("\n");
    if (expected === null) expect(found).toBe("");
    else expect(found).toMatch(expected);
  });
});

describe("providers", () => {
  it.each([
    ["smtp.gmail.com", true, true],
    ["smtp.office365.com", true, false],
    ["smtp-mail.outlook.com", true, false],
    ["smtp.mail.me.com", true, true],
    ["mail.example.com", false, true],
    ["gmail.com.example.org", false, true],
  ])("%s", (host, filesSent, keepsMessageId) => {
    expect(providerOf(host)).toMatchObject({ filesSent, keepsMessageId });
  });
});
