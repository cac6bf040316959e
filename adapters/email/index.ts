// The email adapter: reads one mailbox by IMAP and sends responses by SMTP. This file only connects the parts.

import {
  type Adapter,
  type Channel,
  countedSends,
  defineAdapter,
  Health,
  type Inbound,
  type Outbound,
  sendKey,
  timingOf,
} from "bridgehead/contract";
import { Canary } from "./canary.ts";
import { config, type EmailConfig, type OAuth2Config, review } from "./config.ts";
import { examine, tlsServers } from "./examine.ts";
import type { ConnectionOptions } from "./imap/connection.ts";
import { marker } from "./imap/mailbox.ts";
import { MailboxReader } from "./imap/reader.ts";
import { type Filing, reconcile, SentFolder } from "./imap/sent.ts";
import { KeptToken, TokenSource } from "./oauth.ts";
import { type Identity, identity } from "./parse/headers.ts";
import type { SenderAuthSettings } from "./parse/mail.ts";
import { sharedParser } from "./parse/parser.ts";
import { probe } from "./probe.ts";
import { mailbox, mailboxOf, providerOf } from "./providers.ts";
import { compose, isLong } from "./smtp/compose.ts";
import { type SmtpOptions, SmtpPool } from "./smtp/connection.ts";
import { prepare } from "./smtp/long-markdown.ts";
import { type EmailDraft, readDraft, sender } from "./smtp/send.ts";
import { brief } from "./status.ts";
import { type EmailTiming, standardTiming } from "./timing.ts";

export default defineAdapter({
  name: "email",
  contract: 1,
  config,
  traits: { attachments: true, conversations: "thread", platform: "email" },
  address: mailbox,
  ownAddresses: ({ address, aliases, imap }) => [address ?? Object(imap).user, aliases].flat(),
  exclusive: (settings) => [mailboxOf(settings.imap)],
  review,
  create(channel, settings): Adapter<EmailDraft> {
    const self = identity(settings.address ?? settings.imap.user, settings.aliases);
    const state = new Health(channel);
    const timing = timingOf(channel, standardTiming);
    const { clock } = channel;
    const tokens = grants(
      (grant) => new TokenSource(grant, { clock, timing }, new KeptToken(grant, channel.secrets, channel.log)),
    );
    const imap: ConnectionOptions = {
      imap: settings.imap,
      timing,
      maxSource: settings.max_size,
      tokens: tokens(settings.imap.oauth2),
    };
    const smtp = new SmtpPool({ ...smtpOptions(settings, tokens), timing }, (error) =>
      channel.log.info({ reason: brief(error) }, "smtp server accepts no more connections"),
    );
    const canary = settings.canary && canaryOf(channel, settings.canary, self, { health: state, pool: smtp, timing });
    const folder = new SentFolder({
      connection: imap,
      folder: settings.sent_folder === "none" ? "auto" : settings.sent_folder,
      log: channel.log,
    });
    const reader = new MailboxReader({
      channel,
      sent: folder,
      connection: imap,
      health: state,
      config: settings,
      self,
      context: { own: self.addresses, senderAuth: senderAuthOf(settings, timing) },
      mark: marker(settings.mark, channel.log),
      idleLimit: providerOf(settings.imap.host).idleLimit ?? Number.POSITIVE_INFINITY,
      parser: () => sharedParser({ clock, timing }),
      ...(canary ? { isCanary: (raw: Uint8Array) => canary.take(raw) } : {}),
    });
    const run: Inbound["run"] = (cursor, signal) => reader.run(cursor, signal);
    const sending = outbound({ channel, timing, config: settings, self, health: state, pool: smtp, folder });
    return {
      inbound: { run: canary ? beside(canary, channel, run) : run },
      outbound: sending.outbound,
      close: (signal) => sending.close(signal),
      probe: (signal) => probe(channel, settings, imap, smtp, signal),
      servers: tlsServers(settings),
      examine: (cursor, signal) => examine(settings, imap, smtp, cursor, channel.clock.now(), signal),
    };
  },
});

function canaryOf(
  channel: Channel,
  settings: NonNullable<EmailConfig["canary"]>,
  self: Identity,
  side: Pick<OutboundParts, "health" | "pool" | "timing">,
): Canary {
  const send = sender({ ...side, sent: () => undefined });
  return new Canary({
    channel,
    settings,
    timing: side.timing,
    self,
    send: (draft, signal) =>
      send(draft, {
        key: sendKey(draft.key),
        number: 1,
        signal,
        crossing: async () => undefined,
        read: async () => new Uint8Array(),
      }),
  });
}

/** Runs the canary while the channel reads: under the channel's lease, so that one node sends it. */
function beside(canary: Canary, { log }: Channel, read: Inbound["run"]): Inbound["run"] {
  return async (cursor, signal) => {
    await canary.load();
    const ending = new AbortController();
    const watching = canary
      .run(AbortSignal.any([signal, ending.signal]))
      .catch((error: unknown) => log.warn({ err: error }, "the canary failed"));
    try {
      await read(cursor, signal);
    } finally {
      ending.abort();
      await watching;
    }
  };
}

/** Creates one token source per grant, also when both sides use the same grant. */
function grants(make: (grant: OAuth2Config) => TokenSource): (grant: OAuth2Config | undefined) => TokenSource | null {
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
function smtpOptions(settings: EmailConfig, tokens: ReturnType<typeof grants>): Omit<SmtpOptions, "timing"> {
  const { imap } = settings;
  const connections = Math.min(settings.smtp.connections, providerOf(settings.smtp.host).connections);
  const smtp = { ...settings.smtp, connections };
  if (!smtp.login) return { smtp, login: null };
  const own = smtp.password !== undefined || smtp.oauth2 !== undefined;
  const password = own ? smtp.password : imap.password;
  const grant = own ? smtp.oauth2 : imap.oauth2;
  return { smtp, login: { user: smtp.user ?? imap.user, password: password ?? "", tokens: tokens(grant) } };
}

function senderAuthOf(
  { sender_auth: { mode, by, server = "", dns: servers } }: EmailConfig,
  { dns, dnsAnswer }: EmailTiming,
): SenderAuthSettings {
  if (mode === "off") return { mode };
  if (by === "header") return { mode: "header", authservId: server };
  return { mode: "mailauth", limits: { dns, dnsAnswer }, ...(servers ? { dns: { servers } } : {}) };
}

export interface OutboundParts {
  readonly channel: Channel;
  readonly timing: EmailTiming;
  readonly config: EmailConfig;
  readonly self: Identity;
  readonly health: Health;
  readonly pool: SmtpPool;
  readonly folder: SentFolder;
}

/** Opens no connection until the first send. `close` ends the connections that sending has opened. */
export function outbound({ channel: { clock }, timing, config, self, health, pool, folder }: OutboundParts): {
  readonly outbound: Outbound<EmailDraft>;
  close(signal: AbortSignal): Promise<void>;
} {
  const filing = filingOf(config);
  const send = sender({ pool, health, sent: copier(config, filing, folder) });
  return {
    outbound: {
      attachmentLimit: config.attachments.max_sent_bytes,
      prepare: (markdown) => (isLong(markdown) ? (signal) => prepare({ clock, timing }, markdown, signal) : null),
      compose: (reply) => compose(config, self, reply),
      ...countedSends<EmailDraft>(
        () => pool.connections,
        (draft, attempt) => send(readDraft(draft), attempt),
      ),
      recipients: (draft) => {
        const { to, cc } = readDraft(draft);
        return [...to, ...cc].map(({ address }) => address);
      },
      reconcile: (draft, attempt, signal) =>
        reconcile(folder, filing, { clock, timing }, readDraft(draft), attempt, signal),
    },
    async close(signal) {
      pool.close();
      await folder.close(signal);
    },
  };
}

/** Returns how the provider files sent mail, from the configuration or from the provider table. */
function filingOf(config: EmailConfig): Filing {
  const { filesSent, keepsMessageId } = providerOf(config.smtp.host);
  const said = config.provider_files_sent;
  return { byProvider: said === "auto" ? filesSent : said, keepsMessageId };
}

function copier(config: EmailConfig, filing: Filing, folder: SentFolder): (draft: EmailDraft, bytes: Buffer) => void {
  // A folder that the configuration names gets copies even when the provider files its own copies elsewhere.
  const wanted = config.sent_folder === "auto" ? !filing.byProvider : config.sent_folder !== "none";
  return (draft, bytes) => {
    if (wanted) folder.file(draft.messageId, bytes);
  };
}
