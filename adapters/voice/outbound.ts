// Sends drafts: speech into a call connected to this process, or an outbound call (twilio.com/docs/voice/api/call-resource).
// Creating a call is not idempotent. An attempt without a response is looked up in the list of calls and never retried
// blindly.

import {
  type Attempt,
  aheadOf,
  type Channel,
  type ChannelFinding,
  type ChannelStatus,
  countedSends,
  day,
  type ExchangeAnswer,
  type ExchangeRequest,
  type ExternalId,
  externalId,
  type Finding,
  HttpConnections,
  type Json,
  type Outbound,
  type PastAttempt,
  type Reply,
  retryAfterOf,
  type SendKey,
  type SendOutcome,
  sessionId,
  withTimeout,
} from "bridgehead/contract";
import type { VoiceConfig } from "./config.ts";
import type { Call } from "./engine/call.ts";
import type { VoiceChannel } from "./engine/record.ts";
import { phrasesFor } from "./speech/phrases.ts";
import { beginningOf } from "./speech/speakable.ts";

export function outbound(
  { channel, timing }: VoiceChannel,
  find: (call: string) => Call | undefined,
  calls: PlacedCalls | null,
): Outbound<VoiceDraft> {
  const speak = async (draft: SpeechDraft, attempt: Attempt): Promise<SendOutcome> => {
    const live = find(draft.session);
    if (live) return live.answer(draft, attempt);
    const facts = await channel.session(sessionId(draft.session));
    if (facts === null || facts.state === "closed" || facts.transferring !== null)
      return { kind: "refused", code: "ended", reason: "the call is over" };
    const reason = "the call has no line to us now";
    return { kind: "deferred", reason, retryAfterMs: timing.connectionRetry };
  };
  const placing = countedSends<Placing>(placedAtOnce, async (draft, attempt) => {
    if (!draft.wanted)
      return {
        kind: "refused",
        code: "no-call",
        reason: "the reply belongs to no call, and a notification places none",
      };
    if (calls === null)
      return {
        kind: "refused",
        code: "no-account",
        reason: "calling needs the keys account_sid and number of the channel",
      };
    return calls.place(draft, attempt);
  });
  return {
    compose,
    send(stored, attempt) {
      const draft = readDraft(stored);
      return draft.kind === "speech" ? speak(draft, attempt) : placing.send(draft, attempt);
    },
    ...(calls === null
      ? {}
      : { capacity: () => placing.capacity(), unlimitedInSessions: true, reconcile: lookingIn(calls) }),
  };
}

/** Reconciles an attempt. Speech cannot be verified later; an outbound call is in the provider's list. */
const lookingIn =
  (calls: PlacedCalls): NonNullable<Outbound<VoiceDraft>["reconcile"]> =>
  async (stored, attempt, signal) => {
    const draft = readDraft(stored);
    return draft.kind === "speech" ? { kind: "unsure" } : calls.find(draft, attempt, signal);
  };

// The drafts of the voice channel: speech for a live call, or a call to place.

/** `speech`: the agent's text for a live call. It is converted to speakable text on sending, when the call's
 *  language is known. `call`: an outbound call that starts with the text as its greeting. */
export type VoiceDraft =
  | {
      readonly kind: "speech";
      readonly session: string;
      readonly answers: ExternalId | null;
      readonly text: string;
      /** Transfers the call to a human after the text was spoken. */
      readonly transfer?: true;
    }
  | {
      readonly kind: "call";
      readonly to: string;
      readonly text: string;
      /** False for a reply whose call is no longer known: the adapter never calls back on its own. */
      readonly wanted: boolean;
    };

/** Composes drafts from a reply. Signature and introduction are not spoken. */
function compose(reply: Reply): readonly VoiceDraft[] {
  const { session, answers, text } = reply;
  const then = reply.transfer ? { transfer: true as const } : {};
  if (session !== null) return [{ kind: "speech", session, answers, text, ...then }];
  const [to] = reply.to;
  return [{ kind: "call", to: to?.address ?? "", text, wanted: reply.kind === "opening" }];
}

export type SpeechDraft = VoiceDraft & { readonly kind: "speech" };
type Placing = VoiceDraft & { readonly kind: "call" };

const readDraft = (stored: Json): VoiceDraft => stored as unknown as VoiceDraft;

// Outbound calls.

/** The fields of a Call resource that this adapter reads. */
interface CallResource {
  readonly sid?: string;
  readonly direction?: string;
  readonly date_created?: string;
  readonly start_time?: string;
}

const refused: ChannelStatus = {
  state: "unauthorized",
  code: "login",
  reason: "the interface rejects the credentials",
};
const e164 = /^\+[1-9]\d{4,14}$/;

/** `AdapterDefinition.address`: returns a number in customary notation as E.164. Returns null for an address that
 *  cannot be called. */
export function callable(text: string): string | null {
  const number = text.trim().replace(/[\s()./-]/g, "");
  return e164.test(number) ? number : null;
}
const greetingLength = 800;
const remembered = 1000;

/** Maximum number of calls that are being placed at once, each over a connection of its own. The core claims no more
 *  (`Outbound.capacity`). */
const placedAtOnce = 32;
/** Maximum number of connections for all other requests, so that they never wait for calls. */
const mostLookups = 32;

/** Returns null when the configuration has no account and number for outbound calls. */
export function placedCalls(voice: VoiceChannel): PlacedCalls | null {
  const { config } = voice;
  const { account_sid: account, number, api_key: key, api_url: url } = config;
  const logins = key ? [`${key.sid}:${key.secret}`] : (config.auth_tokens ?? []).map((token) => `${account}:${token}`);
  if (account === undefined || number === undefined || logins.length === 0) return null;
  const base = `${url.replace(/\/$/, "")}/2010-04-01/Accounts/${account}`;
  const authorizations = logins.map((login) => `Basic ${Buffer.from(login).toString("base64")}`);
  return new PlacedCalls(voice, { base, number, authorizations });
}

interface CallingAccount {
  readonly base: string;
  readonly number: string;
  readonly authorizations: readonly string[];
}

class PlacedCalls {
  readonly #voice: VoiceChannel;
  readonly #account: CallingAccount;
  /** During a rotation one of the logins is not yet valid, or no longer valid. The last accepted one is tried first. */
  #current = 0;
  readonly #connections = new HttpConnections({ connections: placedAtOnce, once: true });
  readonly #lookups = new HttpConnections({ connections: mostLookups, once: true });
  /** Maps call SIDs to send keys, to exclude the calls of other drafts. The map is empty after a restart; an unknown
   *  call counts as this draft's. */
  readonly #keys = new Map<string, SendKey>();

  constructor(voice: VoiceChannel, account: CallingAccount) {
    this.#voice = voice;
    this.#account = account;
  }

  async place({ to, text }: Placing, attempt: Attempt): Promise<SendOutcome> {
    if (!e164.test(to)) return refusal("no-number", "that is no number to call", "recipient");
    const call = { to, from: this.#account.number, text, key: attempt.key };
    const answer = await this.#ask("POST", "/Calls.json", attempt.signal, {
      body: creation(this.#voice.channel, this.#voice.config, call).toString(),
      crossing: () => attempt.crossing(),
    });
    const outcome = outcomeOf(answer);
    if (answer.status === 401 || answer.status === 403) this.#voice.channel.report(refused);
    if (outcome.kind === "sent") {
      this.#voice.channel.report({ state: "ready" });
      this.#keys.set(outcome.id, attempt.key);
      if (this.#keys.size > remembered) this.#keys.delete(this.#keys.keys().next().value ?? "");
    }
    return outcome;
  }

  async find({ to }: Placing, attempt: PastAttempt, signal: AbortSignal): Promise<Finding> {
    const { lookup, processing, skew } = this.#voice.timing;
    const query = new URLSearchParams({
      To: to,
      From: this.#account.number,
      // A day earlier: the provider's clock may be behind ours.
      "StartTime>": new Date(attempt.startedAt.getTime() - day).toISOString().slice(0, 10),
      PageSize: "200",
    });
    const answer = await this.#ask("GET", `/Calls.json?${query.toString()}`, signal);
    const now = this.#voice.channel.clock.now();
    const since = attempt.startedAt.getTime() + aheadOf(answer, now) - skew;
    if (answer.status !== 200) return { kind: "unsure", lookAgainAfterMs: lookup };
    const { calls = [] } = Object(answer.json) as { calls?: readonly CallResource[] };
    const ours = calls.find(
      ({ sid = "", direction, date_created, start_time }) =>
        direction?.startsWith("outbound") &&
        Date.parse(date_created ?? start_time ?? "") >= since &&
        (this.#keys.get(sid) ?? attempt.key) === attempt.key,
    );
    if (ours?.sid !== undefined) return { kind: "sent", id: externalId(ours.sid) };
    const early = now - attempt.startedAt.getTime() < processing;
    return early ? { kind: "unsure", lookAgainAfterMs: processing / 2 } : { kind: "not-sent" };
  }

  async probe(signal: AbortSignal): Promise<ChannelStatus> {
    const { status } = await this.#ask("GET", ".json", signal);
    if (status === 401 || status === 403) return refused;
    if (status === 200) return { state: "ready" };
    return { state: "degraded", code: "api", reason: `the interface answered ${status}` };
  }

  /** Compares the webhook that is set for our number with our URL. Rejects when the API does not answer. */
  async examine(signal: AbortSignal): Promise<readonly ChannelFinding[]> {
    const query = new URLSearchParams({ PhoneNumber: this.#account.number });
    const { status, json } = await this.#ask("GET", `/IncomingPhoneNumbers.json?${query.toString()}`, signal);
    const { incoming_phone_numbers: found } = Object(json) as { incoming_phone_numbers?: NumberResource[] };
    if (status !== 200 || found === undefined) throw new Error(`the interface answered ${status}`);
    return webhookFindings(this.#account.number, found[0], this.#voice.channel.url("/call"));
  }

  async #ask(
    method: "GET" | "POST",
    path: string,
    signal: AbortSignal,
    more: Pick<ExchangeRequest, "body" | "crossing"> = {},
  ): Promise<ExchangeAnswer> {
    const form = more.body === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" };
    const connections = method === "POST" ? this.#connections : this.#lookups;
    const { base, authorizations } = this.#account;
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const authorization = authorizations[used] ?? "";
      const answer = await withTimeout(this.#voice.channel.clock, signal, this.#voice.timing.request, (limited) =>
        connections.exchange({
          method,
          url: new URL(base + path),
          headers: { authorization, accept: "application/json", ...form },
          signal: limited,
          ...more,
        }),
      );
      if (answer.status !== 401 || tries >= authorizations.length) return answer;
      if (this.#current === used) this.#current = (used + 1) % authorizations.length;
    }
  }
}

interface NumberResource {
  readonly voice_url?: string | null;
  readonly voice_method?: string | null;
  /** A TwiML application, or a SIP trunk, which receives the calls instead. */
  readonly voice_application_sid?: string | null;
  readonly trunk_sid?: string | null;
}

function webhookFindings(number: string, found: NumberResource | undefined, webhook: URL): ChannelFinding[] {
  if (found === undefined) {
    const message = `the account has no number ${number}: it can neither place nor receive calls`;
    return [{ id: "number-missing", severity: "error", message, fix: "correct number and account_sid" }];
  }
  const { voice_url: text, voice_method: method, voice_application_sid: application, trunk_sid: trunk } = found;
  const isPosted = method !== "GET";
  // Twilio's connection overrides are the fragment of the URL.
  if (text?.split("#", 1)[0] === webhook.href && isPosted && !application && !trunk) return [];
  const other = application ? "an application" : trunk ? "a SIP trunk" : null;
  // Without its query, which may contain a key.
  const url = text
    ? text
        .slice(0, 300)
        .replace(/[?#].*$/, "")
        .replace(/[^\x21-\x7e]+/g, " ")
    : "none";
  const message = `Twilio posts calls of ${number} to ${other ?? `another webhook: ${isPosted ? "" : "GET "}${url}`}`;
  const fix = `set the webhook for voice calls of ${number} to ${webhook.href} (POST)${other ? `, and remove ${other}` : ""}`;
  return [{ id: "webhook-mismatch", severity: "error", message, fix }];
}

/** Builds the form of the create request. The text is a parameter of the signed URL that the provider requests on
 *  answer. The process that handles that request need not be the one that placed the call. */
function creation(
  channel: Channel,
  config: VoiceConfig,
  call: { readonly to: string; readonly from: string; readonly text: string; readonly key: SendKey },
): URLSearchParams {
  const { language, max_sentences, detect_machines: detects } = config;
  const words = beginningOf(call.text, language, max_sentences, phrasesFor(config, language)).join(" ");
  const url = channel.url("/call");
  url.search = `say=${Buffer.from(words.slice(0, greetingLength)).toString("base64url")}`;
  const status = channel.url("/status");
  status.search = `key=${call.key}`;
  const form = new URLSearchParams({
    To: call.to,
    From: call.from,
    Url: url.href,
    Method: "POST",
    FallbackUrl: channel.url("/fallback").href,
    StatusCallback: status.href,
    StatusCallbackMethod: "POST",
    // The URL is requested when the machine's own greeting has ended, with `AnsweredBy`.
    ...(detects ? { MachineDetection: "DetectMessageEnd" } : {}),
  });
  for (const event of ["initiated", "answered", "completed"]) form.append("StatusCallbackEvent", event);
  return form;
}

/** Error codes for a recipient that cannot be reached: invalid, not dialable, blocked. */
const unreachable = new Set([13223, 13224, 13225, 13226, 13227, 21211, 21214, 21216, 21217]);

function outcomeOf(answer: ExchangeAnswer): SendOutcome {
  const { status } = answer;
  const { sid, code } = Object(answer.json) as { sid?: unknown; code?: unknown };
  const named = `${status}${typeof code === "number" ? `/${code}` : ""}`;
  const reason = `the interface answered ${named}`;
  if (status >= 200 && status < 300) {
    return typeof sid === "string"
      ? { kind: "sent", id: externalId(sid), detail: `${status}` }
      : { kind: "unknown", reason };
  }
  if (status === 429) {
    const retryAfterMs = retryAfterOf(answer);
    const later = retryAfterMs === null ? {} : { retryAfterMs };
    return { kind: "deferred", reason, ...later, scope: "channel", cause: "rate" };
  }
  if (status === 401 || status === 403) return { kind: "deferred", reason, scope: "channel", cause: "login" };
  if (status >= 400 && status < 500) {
    return refusal(named, reason, unreachable.has(Number(code)) ? "recipient" : "draft");
  }
  return { kind: "unknown", reason };
}

const refusal = (code: string, reason: string, scope: "draft" | "recipient"): SendOutcome => ({
  kind: "refused",
  code,
  reason,
  scope,
});
