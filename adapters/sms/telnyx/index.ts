// Texts through Telnyx: JSON over HTTPS, webhooks signed with Ed25519. There is no list of what was sent, so a send of
// unknown outcome is settled by its webhook, or by the operator's choice for such drafts.

import {
  type Attempt,
  type ChannelStatus,
  externalId,
  type RoutePath,
  type SendOutcome,
} from "bridgehead/contract";
import * as z from "zod";
import { outcomeOf, statusOf, unreachable } from "../classes.ts";
import { createClosing } from "../closing.ts";
import { createLines, type ExchangeAnswer } from "../exchange.ts";
import { health } from "../health.ts";
import { openDownload } from "../media.ts";
import type { Door, Provider, ProviderParts, TextDraft } from "../provider.ts";
import { isLocal } from "../twilio/settings.ts";
import { publicKey, type TelnyxConfig } from "./config.ts";
import { classOf, refusalOf } from "./errors.ts";
import { isProven, keyParameter, readEvent } from "./webhook.ts";

const telnyxUrl = "https://api.telnyx.com";
/** Telnyx answers in well under a second; what takes longer will hardly come. */
const timeoutMs = 30_000;
/** Everything may come to any of the three: a profile knows one address and one for when that fails. */
const paths: readonly RoutePath[] = ["/inbound", "/inbound-fallback", "/status"];

export interface TelnyxOptions {
  readonly apiUrl?: string | undefined;
  /** PEM text of a private authority. */
  readonly ca?: string | undefined;
  /** Bytes of a picture that are fetched at most. */
  readonly maxMedia: number;
}

/** Opens nothing by itself. */
export function telnyx(
  { channel }: Pick<ProviderParts, "channel">,
  config: TelnyxConfig,
  { apiUrl = telnyxUrl, ca, maxMedia }: TelnyxOptions,
): Provider {
  const lines = createLines({ ca });
  const state = health(channel);
  const closing = createClosing(channel.clock, state);
  const keys = config.public_keys.map(publicKey);
  const base = apiUrl.replace(/\/$/, "");

  const ask = (path: string, signal: AbortSignal, body?: object, crossing?: () => void) =>
    lines.exchange({
      method: body === undefined ? "GET" : "POST",
      url: new URL(`${base}/v2${path}`),
      headers: {
        accept: "application/json",
        authorization: `Bearer ${config.api_key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      crossing,
    });

  async function look(signal: AbortSignal): Promise<ChannelStatus> {
    const { messaging_profile: profile } = config;
    const path = profile === undefined ? "s?page[size]=1" : `s/${encodeURIComponent(profile)}`;
    const answer = await ask(`/messaging_profile${path}`, signal);
    if (isYes(answer)) return { state: "ready" };
    const { code, reason } = refusalOf(answer);
    const rejected = classOf(answer) === "login";
    return { state: rejected ? "unauthorized" : "degraded", code, reason };
  }

  return {
    name: "telnyx",
    limits: { maxLength: 1600, media: true },
    doors: paths.map(
      (path): Door => ({
        path,
        async read(request) {
          const body = new Uint8Array(await request.arrayBuffer());
          const now = channel.clock.now();
          const heard = isProven(request, body, keys, now) ? readEvent(body, now) : null;
          for (const status of heard?.statuses ?? []) closing.heard(status);
          return heard;
        },
        answer: () => new Response(null, { status: 200 }),
      }),
    ),
    // Nothing is read here; it tells for as long as it runs whether the interface takes our key.
    async run(_cursor, signal) {
      state.set("list", { state: "connecting" });
      while (!signal.aborted) {
        try {
          state.set("list", await look(signal));
        } catch (error) {
          if (signal.aborted) return;
          const reason = error instanceof Error ? error.message : String(error);
          state.set("list", { state: "degraded", code: "unreachable", reason });
          throw error;
        }
        await channel.clock.sleep(config.check, signal);
      }
    },
    async send(text, attempt) {
      const closed = closing.outcome(text);
      if (closed !== null) return closed;
      let crossed = false;
      const crossing = () => {
        attempt.crossing();
        crossed = true;
      };
      let answer: ExchangeAnswer;
      try {
        answer = await ask("/messages", attempt.signal, bodyOf(text, attempt), crossing);
      } catch (error) {
        if (crossed) throw error;
        return unreachable(error);
      }
      if (isYes(answer)) {
        state.set("account", { state: "ready" });
        return sentAs(answer);
      }
      const [kind, refusal] = [classOf(answer), refusalOf(answer)];
      const told = statusOf(kind, refusal);
      if (told !== null) state.set("account", told);
      return outcomeOf(kind, refusal);
    },
    // Anybody who knows the address may fetch it, so our key stays here.
    fetchMedia(ref, signal) {
      const { url, mediaType } = medium.parse(ref);
      return openDownload({
        url: new URL(url),
        authorization: null,
        mediaType,
        maxSize: maxMedia,
        local: isLocal(base),
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
    },
    probe: (signal) => look(signal),
    close: () => Promise.resolve(lines.close()),
  };

  function bodyOf(text: TextDraft, attempt: Attempt): object {
    const callback = channel.url("/status");
    callback.searchParams.set(keyParameter, attempt.key);
    const profile = text.service ?? config.messaging_profile;
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

function isYes({ status }: ExchangeAnswer): boolean {
  return status >= 200 && status < 300;
}

/** A yes without an id was taken all the same; its webhook, which carries our key, brings the id. */
function sentAs(answer: ExchangeAnswer): SendOutcome {
  try {
    const { data } = Object(JSON.parse(answer.body)) as { data?: { id?: unknown } };
    if (typeof data?.id === "string" && data.id !== "") return { kind: "sent", id: externalId(data.id) };
  } catch {
    // Not JSON: said below.
  }
  return { kind: "unknown", reason: "the interface said yes and gave no id" };
}
