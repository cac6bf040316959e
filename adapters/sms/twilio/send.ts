// Creates one text for each attempt, and later searches for a text whose create request got no response.

import {
  type Attempt,
  type Channel,
  day,
  externalId,
  type Finding,
  type Health,
  type PastAttempt,
  type SendKey,
  type SendOutcome,
} from "bridgehead/contract";
import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import { SenderPauses } from "../outcomes.ts";
import { isLocal, statusEventId, type TextDraft, type TextStatus } from "../provider.ts";
import { isApiFailure, type MessageForm, outcomeOf, statusOf, type TwilioClient } from "./client.ts";
import { keyParameter, statuses } from "./forms.ts";
import type { TwilioSettings } from "./index.ts";

/** Maximum number of texts whose draft is cached. It covers the texts sent within the minutes in which
 *  reconcile can confuse two. */
const remembered = 2000;

export class TwilioSender {
  readonly #channel: Channel;
  readonly #settings: TwilioSettings;
  readonly #client: TwilioClient;
  readonly #health: Health;
  readonly #pauses: SenderPauses;
  readonly #callback: string | null;
  /** The drafts of texts by their SIDs. */
  readonly #owners = new Map<string, SendKey>();
  /** Time at which reconcile first found only texts of other drafts, by draft. */
  readonly #doubts = new Map<SendKey, number>();

  constructor(channel: Channel, settings: TwilioSettings, client: TwilioClient, health: Health) {
    this.#channel = channel;
    this.#settings = settings;
    this.#client = client;
    this.#health = health;
    this.#pauses = new SenderPauses(channel.clock, health, settings.timing);
    this.#callback = callbackOf(channel, settings);
  }

  /** Handles a status callback: binds the SID to its draft, and pauses the sender or the account on
   *  errors that affect all texts. */
  handleStatus(status: TextStatus): void {
    if (status.key !== null) this.#own(status.id, status.key);
    this.#pauses.handleStatus(status);
  }

  send(text: TextDraft, attempt: Attempt): Promise<SendOutcome> {
    return this.#pauses.send(text, attempt, async (crossing) => {
      const callback = this.#callbackOf(attempt.key);
      try {
        const form = { ...creationOf(text, this.#settings), ...callback };
        const { sid, status } = await this.#client.create(form, { signal: attempt.signal, crossing });
        if (typeof sid !== "string" || sid === "") return { kind: "unknown", reason: "the answer has no sid" };
        this.#own(sid, attempt.key);
        this.#health.set("account", { state: "ready" });
        return { kind: "sent", id: externalId(sid), detail: `201 ${String(status)}` };
      } catch (error) {
        if (!isApiFailure(error)) throw error;
        const status = statusOf(error.api);
        if (status) this.#health.set("account", status);
        return outcomeOf(error.api, this.#settings.timing);
      }
    });
  }

  /** The callback settles a send whose response was lost. */
  #callbackOf(key: SendKey): { StatusCallback?: string } {
    if (this.#callback === null) return {};
    const { callbackOverrides: overrides } = this.#settings;
    const suffix = overrides === "" ? "" : `#${overrides}`;
    return { StatusCallback: `${this.#callback}?${keyParameter}=${key}${suffix}` };
  }

  async reconcile(text: TextDraft, attempt: PastAttempt, signal: AbortSignal): Promise<Finding> {
    const { processing, skew } = this.#settings.timing;
    const age = this.#channel.clock.now() - attempt.startedAt.getTime();
    if (age < processing) return { kind: "unsure", lookAgainAfterMs: processing - age };
    const listed = await candidates(this.#client, text, attempt.startedAt.getTime() - skew, signal);
    const found = listed.filter((one) => bodyOf(one) !== "");
    const mine = found.find(({ sid }) => this.#owners.get(sid) === attempt.key);
    if (mine) return { kind: "sent", id: externalId(mine.sid) };
    const free: MessageInstance[] = [];
    const strange = found.filter(({ sid }) => !this.#owners.has(sid));
    for (const one of strange) if (!(await isTaken(this.#channel, one.sid))) free.push(one);
    const [first] = free.sort((a, b) => a.dateCreated.getTime() - b.dateCreated.getTime());
    if (first) {
      this.#own(first.sid, attempt.key);
      return { kind: "sent", id: externalId(first.sid) };
    }
    // A redacted text may be ours.
    const isRedacted = listed.some((one) => bodyOf(one) === "" && !this.#owners.has(one.sid));
    if (isRedacted || age < 2 * processing) return { kind: "unsure", lookAgainAfterMs: processing };
    // Identical messages to the same recipient, all known before this process began. They belong to other
    // drafts, or the status of our own text is being stored at this moment. The next poll decides.
    const doubted = this.#doubts.get(attempt.key) ?? this.#channel.clock.now();
    if (strange.length > 0 && this.#channel.clock.now() - doubted < processing) {
      this.#doubts.set(attempt.key, doubted);
      return { kind: "unsure", lookAgainAfterMs: processing };
    }
    this.#doubts.delete(attempt.key);
    return { kind: "not-sent" };
  }

  #own(sid: string, key: SendKey): void {
    this.#owners.set(sid, key);
    if (this.#owners.size > remembered) this.#owners.delete(this.#owners.keys().next().value ?? "");
  }
}

function creationOf(text: TextDraft, settings: TwilioSettings): MessageForm {
  return {
    To: text.to,
    Body: text.body,
    ValidityPeriod: Math.min(36_000, Math.max(1, Math.round(settings.validityMs / 1000))),
    ...(text.from === null ? {} : { From: text.from }),
    ...(text.service === null ? {} : { MessagingServiceSid: text.service }),
    ...(text.media.length === 0 ? {} : { MediaUrl: text.media }),
  };
}

/** Returns the status callback URL without the parameter that names the draft; null: none is sent. */
function callbackOf(channel: Channel, settings: TwilioSettings): string | null {
  const url = channel.url("/status");
  // A remote provider would refuse the whole text if the callback URL were on this machine.
  return !settings.statusCallback || (isLocal(url) && !isLocal(settings.apiUrl)) ? null : url.href;
}

/** Returns the body as we sent it; the empty string when it was redacted (POST of an empty Body). Trial accounts
 *  send each text with a prefix. Source: Twilio's documentation of trial accounts and of message redaction. */
const bodyOf = ({ body }: MessageInstance): string =>
  (body ?? "").replace(/^Sent from your Twilio trial account - /, "").trim();

/** Returns the letters and digits of a body. A messaging service replaces characters that would make a text more expensive by
 *  similar ones (1/2 for ½), also in the stored body. Source: Twilio's list of characters of Smart Encoding, none of which turns
 *  a letter or a digit into another one. */
const withoutSigns = (body: string): string => body.normalize("NFKD").replace(/[^\p{L}\p{N}]/gu, "");

/** Returns our texts with this body, or a redacted one, to this recipient since `from`, in milliseconds of our clock. A
 *  queued text has no send date, so the newest texts are also listed without a date. */
async function candidates(
  client: TwilioClient,
  text: TextDraft,
  from: number,
  signal: AbortSignal,
): Promise<readonly MessageInstance[]> {
  const messages = client.messages({ signal });
  const parties = {
    to: text.to,
    ...(text.from === null || text.service !== null ? {} : { from: text.from }),
  };
  const newest = await messages.list({ ...parties, pageSize: 100, limit: 100 });
  const since = from + client.ahead;
  // Date filters have a resolution of GMT days: the list starts with the day in which the attempt began.
  const dated = await messages.list({
    ...parties,
    dateSentAfter: new Date(Math.floor(since / day) * day),
    pageSize: 1000,
  });
  const all = new Map([...dated, ...newest].map((one) => [one.sid, one]));
  const ours = [...all.values()].filter(
    (one) =>
      one.direction.startsWith("outbound") &&
      // The API returns whole seconds.
      one.dateCreated.getTime() + 1000 > since &&
      (text.service === null || one.messagingServiceSid === text.service),
  );
  const body = text.body.trim();
  const isExact = ours.some((one) => bodyOf(one) === body) || withoutSigns(body) === "";
  const isSame = (listed: string) => (isExact ? listed === body : withoutSigns(listed) === withoutSigns(body));
  return ours.filter((one) => bodyOf(one) === "" || isSame(bodyOf(one)));
}

/** Returns true when a draft was sent as this text, in this process or before it, or when a status of it
 *  is stored. If either were about the draft in question, that draft would be settled. */
async function isTaken(channel: Channel, sid: string): Promise<boolean> {
  const ids = [externalId(sid), ...statuses.map((status) => statusEventId(sid, status))];
  return (await channel.known(ids)).size > 0;
}
