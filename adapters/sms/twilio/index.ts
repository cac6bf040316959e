// Texts over Twilio or a compatible API: webhooks for inbound messages, REST requests for outbound
// messages, polling of the message list to backfill missed messages.

import { type ChannelFinding, type ChannelStatus, finalError, Health, type Json } from "bridgehead/contract";
import type { SmsConfig } from "../config.ts";
import { meaningOf } from "../events.ts";
import { openDownload } from "../media.ts";
import { defineProvider, isLocal, type Provider, type ProviderParts } from "../provider.ts";
import type { SmsTiming } from "../timing.ts";
import { Backfill } from "./backfill.ts";
import { isApiFailure, sentAtOnce, statusOf, TwilioClient } from "./client.ts";
import type { MediaRef } from "./forms.ts";
import { TwilioSender } from "./send.ts";
import { webhookEndpoints } from "./webhook.ts";

export const twilio = defineProvider({
  name: "twilio",
  needs: ["account_sid", "auth_tokens"],
  webhooks: true,
  create: (parts, config) => create(parts, settingsOf(config, parts.timing)),
});

/** SignalWire implements Twilio's API at a separate URL for each customer (`https://SPACE.signalwire.com/api/laml`).
 *  Its webhooks are signed with the project's signing key, in a header of their own or in Twilio's header. It does not
 *  support overrides behind `#` in a callback URL. */
export const signalwire = defineProvider({
  name: "signalwire",
  needs: ["account_sid", "auth_tokens", "api_url"],
  webhooks: true,
  create: (parts, config) =>
    create(parts, {
      ...settingsOf(config, parts.timing),
      signatureHeaders: ["x-signalwire-signature", "x-twilio-signature"],
      callbackOverrides: "",
    }),
});

function create(parts: ProviderParts, settings: TwilioSettings): Provider {
  const { channel } = parts;
  const state = new Health(channel);
  const client = new TwilioClient(settings, channel.clock);
  const sending = new TwilioSender(channel, settings, client, state);
  const backfill = new Backfill(parts, settings, client, state);
  return {
    limits: { maxLength: 1600, media: true },
    atOnce: sentAtOnce,
    endpoints: webhookEndpoints(channel, settings, (status) => sending.handleStatus(status)),
    async run(cursor, signal) {
      const problem = addressProblem(channel.url("/inbound"), settings.apiUrl);
      if (problem) state.set("address", problem);
      await backfill.run(cursor, signal);
    },
    send: (text, attempt) => sending.send(text, attempt),
    reconcile: (text, attempt, signal) => sending.reconcile(text, attempt, signal),
    fetchMedia: (ref: Json, signal) => fetchMedia(ref, settings, client.authorization(), signal),
    probe: (signal) => probe(channel.url("/inbound"), settings, client, signal),
    servers: serversOf(settings),
    examine: (signal) => examine(channel.url("/inbound"), settings, client, signal),
    async close() {
      client.close();
    },
  };
}

const twilioUrl = "https://api.twilio.com";
/** Several retries within the fifteen seconds that a callback may take. */
const callbackOverrides = "rc=3&rp=ct,rt,5xx&rt=4000";

export type TwilioSettings = ReturnType<typeof settingsOf>;

/** Derives the settings of a Twilio-compatible provider from the configuration block. */
function settingsOf(config: SmsConfig, timing: SmsTiming) {
  const { api_key: key, account_sid: account = "", auth_tokens: tokens = [] } = config;
  return {
    name: config.provider,
    timing,
    /** With the path before `/2010-04-01`, if there is one. */
    apiUrl: config.api_url ?? twilioUrl,
    accountSid: account,
    /** Tried in this order. There are several during a token rotation. */
    logins: key ? [{ user: key.sid, password: key.secret }] : tokens.map((password) => ({ user: account, password })),
    /** Keys that can have signed a webhook request. */
    signingKeys: config.signing_keys ?? tokens,
    /** Headers that can contain the signature, in lower case. */
    signatureHeaders: ["x-twilio-signature"] as readonly string[],
    /** Canonical; null when only a messaging service is configured. */
    number: config.number ?? null,
    service: config.messaging_service ?? null,
    /** Canonical: further addresses of this channel. */
    further: config.further_numbers,
    /** How long the provider may try to deliver a text, in milliseconds. */
    validityMs: config.validity,
    statusCallback: config.status_callback,
    /** Appended to the callback URL behind `#`: how the provider retries the callback. It is never signed
     *  and never sent to us. */
    callbackOverrides,
    media: { maxSize: config.media.max_size, hosts: config.media.hosts },
    /** Milliseconds: the polling interval, the overlap of each poll with the last one, and the age at
     *  which a text's webhook counts as missed. */
    backfill: config.backfill,
    /** Returns whether a text to that address consists only of a consent keyword. Such a text is
     *  processed as soon as it is found. */
    isConsent: (body: string, to: string) => meaningOf(config, body, to) !== null,
    ca: config.ca,
  };
}

/** Checks whether the login is accepted and whether the provider can reach us. Sends no messages and
 *  changes nothing. */
async function probe(
  webhook: URL,
  settings: TwilioSettings,
  client: TwilioClient,
  signal: AbortSignal,
): Promise<ChannelStatus> {
  try {
    await client.login(signal);
  } catch (error) {
    if (isApiFailure(error)) {
      const { status } = error.api;
      return statusOf(error.api) ?? { state: "degraded", code: `HTTP ${status}`, reason: error.message };
    }
    const reason = `the provider was not reached: ${error instanceof Error ? error.message : String(error)}`;
    return { state: "degraded", code: "connection", reason };
  }
  return addressProblem(webhook, settings.apiUrl) ?? { state: "ready" };
}

function serversOf({ apiUrl, ca }: TwilioSettings) {
  const { protocol, hostname, port } = new URL(apiUrl);
  if (protocol !== "https:") return [];
  const server = { part: "api_url", host: hostname, port: Number(port || 443), tls: "implicit" } as const;
  return [{ ...server, ...(ca !== undefined && { ca }) }];
}

/** Compares the webhook that is set for our number, or for the messaging service that it belongs to, with our URL. */
async function examine(
  webhook: URL,
  settings: TwilioSettings,
  client: TwilioClient,
  signal: AbortSignal,
): Promise<readonly ChannelFinding[]> {
  const { number, name } = settings;
  if (number === null || !number.startsWith("+")) return [];
  const found = await client.webhookOf(number, signal);
  if (found === null) {
    const message = `the account at ${name} has no number ${number}: it can neither send nor receive texts`;
    return [{ id: "number-missing", severity: "error", message, fix: "correct number and account_sid" }];
  }
  // A restricted API key may not read the services; then a number with a configured service is not judged.
  const service = await client.serviceOf(number, signal).catch(() => null);
  if (service !== null && !service.usesNumber) {
    if (withoutFragment(service.url) === webhook.href) return [];
    const url = service.url === "" ? "none" : shown(service.url);
    const message = `${number} belongs to the messaging service ${shown(service.name)}, which posts its texts to another webhook: ${url}`;
    const fix = `let the service use the webhook of its senders ("Defer to sender's webhook"), or set its URL for incoming messages to ${webhook.href}`;
    return [{ id: "messaging-service-webhook", severity: "error", message, fix }];
  }
  const isUnknown = service === null && settings.service !== null;
  if (withoutFragment(found.url) === webhook.href || isUnknown) return [];
  const fix = found.isOverridden
    ? `remove the application from the number at ${name}, and set its webhook for messages to ${webhook.href}`
    : `set the webhook for messages of ${number} at ${name} to ${webhook.href} (POST)`;
  const url = found.url === "" ? "none" : shown(found.url);
  const message = `${name} posts texts to ${number} to another webhook: ${url}`;
  return [{ id: "webhook-mismatch", severity: "error", message, fix }];
}

/** The provider's overrides are behind `#` and are not sent. */
const withoutFragment = (url: string): string => url.split("#", 1)[0] ?? "";

/** Returns the URL without its query, which may contain a key, and without control characters. */
const shown = (url: string): string =>
  url
    .slice(0, 300)
    .replace(/[?#].*$/, "")
    .replace(/[^\x21-\x7e]+/g, " ");

/** Returns what prevents a remote provider from posting to us; null: no problem that is visible from here. */
function addressProblem(webhook: URL, apiUrl: string): ChannelStatus | null {
  if (isLocal(apiUrl)) return null;
  const problem = (reason: string): ChannelStatus => ({ state: "degraded", code: "public-url", reason });
  if (isLocal(webhook)) {
    return problem("http.public_url is missing, or of this machine: the provider cannot tell us of texts");
  }
  if (webhook.protocol !== "https:") return problem("http.public_url is not https: texts would travel in the open");
  if (webhook.hostname.includes("_"))
    return problem("http.public_url has an underscore in its host, which the provider does not take");
  return null;
}

/** Downloads a picture that a customer sent: only from the provider's hosts, with our login only there,
 *  bounded in size and time. The URL comes from a webhook request. It is checked even though the request
 *  is signed. Rejects with a final error, which names the reason, when the URL is not one of
 *  this message's media. The same applies when the content is not of the announced type. */
async function* fetchMedia(
  ref: Json,
  settings: TwilioSettings,
  authorization: string,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  const { url, message, mediaType } = readRef(ref);
  yield* openDownload({
    url: mediumAddress(url, message, settings),
    authorization,
    mediaType,
    maxSize: settings.media.maxSize,
    // The redirects of a sandbox stay on this machine.
    local: isLocal(settings.apiUrl),
    signal: AbortSignal.any([signal, AbortSignal.timeout(settings.timing.download)]),
  });
}

/** Returns the URL after checking that it names a medium of this message and of our account. Its host
 *  must be the API's or a configured one. */
function mediumAddress(text: string, message: string, settings: TwilioSettings): URL {
  const url = URL.parse(text);
  const api = new URL(settings.apiUrl);
  if (url === null) throw finalError("fetching media: that is no address");
  if (url.username !== "" || url.password !== "") throw finalError("fetching media: the address has a login in it");
  const same = url.origin === api.origin;
  const other = url.protocol === "https:" && url.port === "" && settings.media.hosts.includes(url.hostname);
  if (!(same && (api.protocol === "https:" || isLocal(api))) && !other)
    throw finalError("fetching media: the host is not the provider's");
  const [, account, owner] =
    /\/2010-04-01\/Accounts\/([\w-]+)\/Messages\/([\w-]+)\/Media\/[\w-]+$/.exec(url.pathname) ?? [];
  if (account !== settings.accountSid || owner !== message)
    throw finalError("fetching media: the address is of another account or message");
  return url;
}

function readRef(ref: Json): MediaRef {
  const { url, message, mediaType } = Object(ref) as { [key in keyof MediaRef]?: unknown };
  if (typeof url !== "string" || typeof message !== "string" || typeof mediaType !== "string")
    throw finalError("fetching media: not a reference of this channel");
  return { url, message, mediaType };
}
