// The email adapter: reads one mailbox by IMAP and sends responses by SMTP. This file only connects the
// parts.

import { type Adapter, defineAdapter } from "bridgehead/contract";
import { config, type EmailConfig, type OAuth2Config } from "./config.ts";
import { health } from "./health.ts";
import { identity } from "./identity.ts";
import type { ConnectionOptions } from "./imap/connection.ts";
import { marker } from "./imap/marks.ts";
import { reader } from "./imap/reader.ts";
import { mailbox, mailboxOf } from "./mailbox.ts";
import { keptToken, type TokenSource, tokenSource } from "./oauth.ts";
import { outbound } from "./outbound.ts";
import { sharedParser } from "./parse/index.ts";
import type { ParseContext } from "./parse/types.ts";
import { probe } from "./probe.ts";
import { providerOf } from "./providers.ts";
import { review } from "./review.ts";
import { sentFolder } from "./sent/folder.ts";
import { lines, type SmtpOptions } from "./smtp/connection.ts";
import type { Draft } from "./smtp/draft.ts";

export default defineAdapter({
  name: "email",
  contract: 1,
  config,
  traits: {
    attachments: true,
    conversations: "thread",
    platform: "email",
  },
  address: mailbox,
  exclusive: (settings) => [mailboxOf(settings.imap)],
  review,
  create(channel, settings): Adapter<Draft> {
    const self = identity(settings.address ?? settings.imap.user, settings.aliases);
    const state = health(channel);
    const tokens = grants((grant) =>
      tokenSource(grant, channel.clock, keptToken(grant, channel.secrets, channel.log)),
    );
    const imap: ConnectionOptions = {
      imap: settings.imap,
      maxSource: settings.max_size,
      tokens: tokens(settings.imap.oauth2),
    };
    const smtp = lines(smtpOptions(settings, tokens));
    const folder = sentFolder({
      connection: imap,
      folder: settings.sent_folder === "none" ? "auto" : settings.sent_folder,
      log: channel.log,
    });
    const read = reader({
      channel,
      sent: folder,
      connection: imap,
      health: state,
      reading: { config: settings, self },
      context: parseContext(settings, self.addresses),
      mark: marker(settings.mark, channel.log),
      idleLimit: providerOf(settings.imap.host).idleLimit ?? Number.POSITIVE_INFINITY,
      parser: () => sharedParser(channel.clock),
    });
    const sending = outbound({ channel, config: settings, self, health: state, lines: smtp, folder });
    return {
      inbound: { run: read },
      outbound: sending.outbound,
      close: (signal) => sending.close(signal),
      probe: (signal) => probe(channel, settings, imap, smtp, signal),
    };
  },
});

/** Creates one token source per grant, also when both sides use the same grant. */
function grants(
  make: (grant: OAuth2Config) => TokenSource,
): (grant: OAuth2Config | undefined) => TokenSource | null {
  const made = new Map<string, TokenSource>();
  return (grant) => {
    if (grant === undefined) return null;
    const name = JSON.stringify(grant);
    const source = made.get(name) ?? make(grant);
    made.set(name, source);
    return source;
  };
}

/** SMTP logs in with the credentials of IMAP unless it has its own. */
function smtpOptions(settings: EmailConfig, tokens: ReturnType<typeof grants>): SmtpOptions {
  const { imap } = settings;
  const connections = Math.min(settings.smtp.connections, providerOf(settings.smtp.host).connections);
  const smtp = { ...settings.smtp, connections };
  if (!smtp.login) return { smtp, login: null };
  const own = smtp.password !== undefined || smtp.oauth2 !== undefined;
  const password = own ? smtp.password : imap.password;
  const grant = own ? smtp.oauth2 : imap.oauth2;
  return { smtp, login: { user: smtp.user ?? imap.user, password: password ?? "", tokens: tokens(grant) } };
}

function parseContext({ sender_auth }: EmailConfig, own: readonly string[]): ParseContext {
  if (sender_auth.mode === "off") return { own, senderAuth: { mode: "off" } };
  if (sender_auth.by === "header") {
    return { own, senderAuth: { mode: "header", authservId: sender_auth.server ?? "" } };
  }
  return {
    own,
    senderAuth: { mode: "mailauth", ...(sender_auth.dns ? { dns: { servers: sender_auth.dns } } : {}) },
  };
}
