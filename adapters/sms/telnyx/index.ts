// Texts through Telnyx: JSON over HTTPS, webhooks signed with Ed25519. The API has no list of sent texts. A
// send of unknown outcome is reconciled by its webhook, or by the operator's configuration for such drafts.

import type { KeyObject } from "node:crypto";
import {
  type Attempt,
  type Channel,
  type ChannelStatus,
  type Cursor,
  type ExchangeAnswer,
  ed25519Key,
  externalId,
  Health,
  HttpConnections,
  isTelnyxSigned,
  type Json,
  type RoutePath,
  type SendOutcome,
  units,
  withTimeout,
} from "bridgehead/contract";
import * as z from "zod";
import type { SmsConfig } from "../config.ts";
import { openDownload } from "../media.ts";
import { outcomeOf, SenderPauses, statusOf } from "../outcomes.ts";
import {
  defineProvider,
  isLocal,
  type Provider,
  type ProviderParts,
  type ReceivedBatch,
  type TextDraft,
  type WebhookEndpoint,
} from "../provider.ts";
import type { SmsTiming } from "../timing.ts";
import { classOf, keyParameter, readEvent, refusalOf } from "./webhook.ts";

const telnyxUrl = "https://api.telnyx.com";
/** Ten segments of 16-bit characters: Telnyx rejects a longer text (40302), because carriers would. */
const mostCharacters = 670;
/** Maximum number of texts that are sent at once, each over a connection of its own. */
const sentAtOnce = 32;
/** Each of the three paths accepts all events, because a profile has one URL and one failover URL. */
const paths: readonly RoutePath[] = ["/inbound", "/inbound-fallback", "/status"];

const { duration } = units(z);

/** The configuration keys of the provider. */
const block = z
  .strictObject({
    api_key: z.string().min(1).describe("What is the API key?").meta({ secret: true }),
    public_keys: z
      .array(
        z
          .string()
          .refine((text) => ed25519Key(text) !== null, "expected the public key from the portal: 32 octets in base64"),
      )
      .min(1)
      .describe("Which public keys verify webhook signatures? A list, so that keys can be rotated."),
    messaging_profile: z
      .string()
      .min(1)
      .optional()
      .describe("Which messaging profile sends? Required for an alphanumeric sender or a number pool."),
    check: duration.prefault("5m").describe("How often is the API key verified?"),
  })
  .describe("How is the API of Telnyx used (provider: telnyx)?");

export const telnyx = defineProvider({
  name: "telnyx",
  block,
  webhooks: true,
  create: (parts, common, config) => new Telnyx(parts, common, config),
});

class Telnyx implements Provider {
  readonly limits = { maxLength: mostCharacters, media: true };
  readonly atOnce = sentAtOnce;
  readonly endpoints: readonly WebhookEndpoint[];
  readonly #channel: Channel;
  readonly #timing: SmsTiming;
  readonly #media: SmsConfig["media"];
  readonly #config: z.output<typeof block>;
  readonly #base: string;
  readonly #sending: HttpConnections;
  /** Connections for checks of the key, so that texts never wait for them. */
  readonly #checking: HttpConnections;
  readonly #state: Health;
  readonly #pauses: SenderPauses;

  constructor(
    { channel, timing }: ProviderParts,
    { api_url: apiUrl = telnyxUrl, ca, media }: SmsConfig,
    config: z.output<typeof block>,
  ) {
    this.#channel = channel;
    this.#timing = timing;
    this.#media = media;
    this.#config = config;
    this.#base = apiUrl.replace(/\/$/, "");
    this.#sending = new HttpConnections({ ca, connections: sentAtOnce });
    this.#checking = new HttpConnections({ ca, connections: 2 });
    this.#state = new Health(channel);
    this.#pauses = new SenderPauses(channel.clock, this.#state, timing);
    const keys = config.public_keys.flatMap((key) => ed25519Key(key) ?? []);
    this.endpoints = paths.map((path) => ({
      path,
      read: (request) => this.#read(path, request, keys),
      answer: () => new Response(null, { status: 200 }),
    }));
  }

  /** Receives no messages. While it runs, it reports whether the API accepts our key. */
  async run(_cursor: Cursor | null, signal: AbortSignal): Promise<void> {
    this.#state.set("list", { state: "connecting" });
    while (!signal.aborted) {
      try {
        this.#state.set("list", await this.probe(signal));
      } catch (error) {
        if (signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        this.#state.set("list", { state: "degraded", code: "unreachable", reason });
        throw error;
      }
      await this.#channel.clock.sleep(this.#config.check, signal);
    }
  }

  send(text: TextDraft, attempt: Attempt): Promise<SendOutcome> {
    return this.#pauses.send(text, attempt, async (crossing) => {
      const answer = await this.#ask("/messages", attempt.signal, this.#bodyOf(text, attempt), crossing);
      if (isSuccess(answer)) {
        this.#state.set("account", { state: "ready" });
        return sentAs(answer);
      }
      const [kind, refusal] = [classOf(answer), refusalOf(answer)];
      const accountStatus = statusOf(kind, refusal);
      if (accountStatus !== null) this.#state.set("account", accountStatus);
      return outcomeOf(kind, refusal, this.#timing);
    });
  }

  /** Media URLs are public, so our key is not sent. */
  fetchMedia(ref: Json, signal: AbortSignal): AsyncIterable<Uint8Array> {
    const { url, mediaType } = medium.parse(ref);
    return openDownload({
      url: new URL(url),
      authorization: null,
      mediaType,
      maxSize: this.#media.max_size,
      local: isLocal(this.#base),
      signal: AbortSignal.any([signal, AbortSignal.timeout(this.#timing.request)]),
    });
  }

  async probe(signal: AbortSignal): Promise<ChannelStatus> {
    const { messaging_profile: profile } = this.#config;
    const path = profile === undefined ? "s?page[size]=1" : `s/${encodeURIComponent(profile)}`;
    const answer = await this.#ask(`/messaging_profile${path}`, signal);
    if (isSuccess(answer)) return { state: "ready" };
    const rejected = classOf(answer) === "login";
    const { code, reason } = refusalOf(answer);
    return { state: rejected ? "unauthorized" : "degraded", code, reason };
  }

  async close(): Promise<void> {
    this.#sending.close();
    this.#checking.close();
  }

  async #read(path: RoutePath, request: Request, keys: readonly KeyObject[]): Promise<ReceivedBatch | null> {
    const body = new Uint8Array(await request.arrayBuffer());
    const now = this.#channel.clock.now();
    const isSigned = (within: number) => isTelnyxSigned(request, body, keys, now, within);
    if (!isSigned(this.#timing.webhookSkew)) {
      const isOld = isSigned(Number.POSITIVE_INFINITY);
      const reason = isOld
        ? "it was signed minutes before or after the time of this machine"
        : "its signature does not hold";
      this.#channel.log.warn({ path, reason }, "webhook rejected");
      return null;
    }
    const heard = readEvent(body, now);
    for (const status of heard.statuses) this.#pauses.handleStatus(status);
    return heard;
  }

  #ask(path: string, signal: AbortSignal, body?: object, crossing?: () => Promise<void>) {
    const connections = crossing === undefined ? this.#checking : this.#sending;
    return withTimeout(this.#channel.clock, signal, this.#timing.request, (limited) =>
      connections.exchange({
        method: body === undefined ? "GET" : "POST",
        url: new URL(`${this.#base}/v2${path}`),
        headers: {
          accept: "application/json",
          authorization: `Bearer ${this.#config.api_key}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: limited,
        crossing,
      }),
    );
  }

  #bodyOf(text: TextDraft, attempt: Attempt): object {
    const callback = this.#channel.url("/status");
    callback.searchParams.set(keyParameter, attempt.key);
    const profile = text.service ?? this.#config.messaging_profile;
    return {
      to: text.to,
      text: text.body,
      ...(text.from === null ? {} : { from: text.from }),
      ...(profile === undefined ? {} : { messaging_profile_id: profile }),
      ...(text.media.length === 0 ? {} : { media_urls: text.media }),
      webhook_url: callback.href,
      webhook_failover_url: callback.href,
      use_profile_webhooks: false,
    };
  }
}

const medium = z.object({ url: z.url(), mediaType: z.string() });

function isSuccess({ status }: ExchangeAnswer): boolean {
  return status >= 200 && status < 300;
}

/** Returns the outcome of a success response. A response without an id was still accepted; its webhook
 *  carries our key and returns the id. */
function sentAs({ status, json }: ExchangeAnswer): SendOutcome {
  const { id } = Object((Object(json) as { data?: unknown }).data) as { id?: unknown };
  return typeof id === "string" && id !== ""
    ? { kind: "sent", id: externalId(id), detail: `${status}` }
    : { kind: "unknown", reason: "the API accepted the message and returned no id" };
}
