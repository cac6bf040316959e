// Backfills texts whose webhook did not reach us. It polls the list of inbound messages at the start and
// every few minutes. The webhook and the list give one text the same id, so the first one counts.

import { type Channel, type Cursor, cursor, externalId, type Health } from "bridgehead/contract";
import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import type { ProviderParts } from "../provider.ts";
import { isApiFailure, statusOf, type TwilioClient } from "./client.ts";
import { textOfRecord } from "./forms.ts";
import type { TwilioSettings } from "./index.ts";

const pageSize = 1000;
const answered = "a text of ours went to its sender afterwards, and the store does not know it";

/** The cursor, in epoch milliseconds. Messages before `first`, the very first start, are not answered.
 *  No message up to `complete` can be missing. */
interface BackfillPosition {
  readonly first: number;
  readonly complete: number;
}

export class Backfill {
  readonly #channel: Channel;
  readonly #accept: ProviderParts["accept"];
  readonly #settings: TwilioSettings;
  readonly #client: TwilioClient;
  readonly #health: Health;
  /** Earlier messages may have been answered by a later state of the database, which was lost. */
  readonly #startedAt: number;

  constructor({ channel, accept }: ProviderParts, settings: TwilioSettings, client: TwilioClient, health: Health) {
    this.#channel = channel;
    this.#accept = accept;
    this.#settings = settings;
    this.#client = client;
    this.#health = health;
    this.#startedAt = channel.clock.now();
  }

  /** `Inbound.run`. Throws the error of a failed poll. */
  async run(start: Cursor | null, signal: AbortSignal): Promise<void> {
    const { clock } = this.#channel;
    // A run that was ended while it worked, as its lease was lost, has to become ready again.
    const state = this.#health.of("list")?.state;
    if (state !== "degraded" && state !== "unauthorized") this.#health.set("list", { state: "connecting" });
    let place = readPlace(start) ?? (await begin(this.#channel));
    while (!signal.aborted) {
      let polled: { readonly place: BackfillPosition; readonly pauseMs: number };
      try {
        polled = await this.#poll(place, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#health.set("list", failed(error));
        throw error;
      }
      place = polled.place;
      if (polled.pauseMs > 0) await clock.sleep(polled.pauseMs, signal);
    }
  }

  /** Reads one piece. Returns the position after it, and the pause before the next one. */
  async #poll(place: BackfillPosition, signal: AbortSignal) {
    const { backfill, timing } = this.#settings;
    const { every, overlap, after } = backfill;
    const { clock } = this.#channel;
    const now = clock.now() + this.#client.ahead;
    // A clock that was ahead has left a cursor in the future.
    const first = Math.min(place.first, clock.now());
    const behind = Math.min(place.complete, now);
    const until = Math.min(now, behind + timing.piece);
    const span = { from: behind - overlap, to: until < now ? until : null };
    const found = await listed(this.#client, this.#settings, await this.#channel.addresses(), span, signal);
    const upTo = Math.min(until, now - after);
    const next = { first, complete: Math.max(behind, upTo) };
    const ours = found.filter((one) => timeOf(one) >= Math.floor(first / 1000) * 1000);
    // The webhook of a young message may still arrive. A STOP must not wait, because queued messages would be sent in
    // the interval.
    const isDue = (one: MessageInstance) => timeOf(one) <= upTo || this.#settings.isConsent(one.body ?? "", one.to);
    await this.#take(ours.filter(isDue), next, signal);
    if (until < now) return { place: next, pauseMs: 0 };
    this.#health.set("list", { state: "ready" });
    const young = await this.#unknown(ours.filter((one) => !isDue(one)));
    return { place: next, pauseMs: young.length > 0 ? Math.min(every, after + 1000) : every };
  }

  /** Returns the messages that the database does not contain. */
  async #unknown(messages: readonly MessageInstance[]): Promise<readonly MessageInstance[]> {
    if (messages.length === 0) return [];
    const stored: ReadonlySet<string> = await this.#channel.known(messages.map(({ sid }) => externalId(sid)));
    return messages.filter(({ sid }) => !stored.has(sid));
  }

  /** Stores the new messages, oldest first, together with the cursor after them. */
  async #take(due: readonly MessageInstance[], place: BackfillPosition, signal: AbortSignal): Promise<void> {
    // Timestamps are whole seconds, and the list begins with the newest message. Reversing it restores the
    // order within one second.
    const fresh = (await this.#unknown(due)).toReversed().sort((a, b) => timeOf(a) - timeOf(b));
    const isAnswered = await this.#answeredBefore(
      fresh.filter((one) => timeOf(one) < this.#startedAt),
      signal,
    );
    const texts = [];
    for (const message of fresh) {
      const text = textOfRecord(message, await this.#mediaOf(message, signal));
      texts.push(isAnswered(message) ? { ...text, handledBefore: { by: "other" as const, reason: answered } } : text);
    }
    if (texts.length > 0)
      this.#channel.log.info({ texts: texts.length }, "backfill found texts that no webhook delivered");
    await this.#accept({ texts, statuses: [] }, cursorOf(place));
  }

  /** Returns whether one of our texts that the database does not contain was sent to the sender
   *  afterwards, from the address that received the message. One list request for each of our addresses. */
  async #answeredBefore(
    old: readonly MessageInstance[],
    signal: AbortSignal,
  ): Promise<(message: MessageInstance) => boolean> {
    if (old.length === 0) return () => false;
    const { number, service, timing } = this.#settings;
    const since = new Date(Math.min(...old.map(timeOf)));
    const sent: MessageInstance[] = [];
    for (const from of new Set(old.map(({ to }) => to)))
      sent.push(...(await this.#client.messages({ signal }).list({ from, dateSentAfter: since, pageSize })));
    const ours = sent.filter(
      (one) => one.direction === "outbound-api" && (number !== null || one.messagingServiceSid === service),
    );
    // A process that was killed after a request has not stored the id of its text. Such texts explain as many of these.
    const unconfirmed = await this.#channel.unconfirmed(new Date(since.getTime() - timing.skew));
    const partiesOf = (our: string, their: string) => `${our} ${their}`;
    const last = new Map<string, number>();
    for (const [parties, texts] of Map.groupBy(await this.#unknown(ours), (one) => partiesOf(one.from, one.to)))
      if (texts.length > unconfirmed.filter((recipient) => recipient === texts[0]?.to.toLowerCase()).length)
        last.set(parties, Math.max(...texts.map(timeOf)));
    const asked = new Set(old);
    return (message) => asked.has(message) && (last.get(partiesOf(message.to, message.from)) ?? 0) >= timeOf(message);
  }

  async #mediaOf(message: MessageInstance, signal: AbortSignal) {
    if (!(Number(message.numMedia) > 0)) return [];
    const { apiUrl, accountSid } = this.#settings;
    try {
      // Requested through the list, because an item of a page does not know its own path (package twilio 6.2).
      const media = await this.#client.messages({ signal }).get(message.sid).media.list({ limit: 10 });
      const base = `${apiUrl.replace(/\/$/, "")}/2010-04-01/Accounts/${accountSid}`;
      return media.map((one) => ({
        url: `${base}/Messages/${message.sid}/Media/${one.sid}`,
        mediaType: one.contentType || "application/octet-stream",
      }));
    } catch (error) {
      // Deleted since. The text of the message is still processed.
      if (isApiFailure(error) && error.api.status === 404) return [];
      throw error;
    }
  }
}

async function begin(channel: Channel): Promise<BackfillPosition> {
  const now = channel.clock.now();
  const place = { first: now, complete: now };
  await channel.accept([], cursorOf(place));
  return place;
}

const cursorOf = ({ first, complete }: BackfillPosition): Cursor => cursor(`${complete}/${first}`);

/** Returns null for the very first start, and for a cursor of this channel's previous provider. */
function readPlace(start: Cursor | null): BackfillPosition | null {
  const [, complete, first] = /^(\d+)\/(\d+)$/.exec(start ?? "") ?? [];
  return complete === undefined ? null : { first: Number(first), complete: Number(complete) };
}

/** Returns the inbound messages of that period at every address of this channel: the configured addresses, and those
 *  that have received texts before. An account may have other addresses, which belong to other channels. */
async function listed(
  client: TwilioClient,
  settings: TwilioSettings,
  used: readonly string[],
  span: { readonly from: number; readonly to: number | null },
  signal: AbortSignal,
): Promise<MessageInstance[]> {
  const { number, service, further } = settings;
  const ours = new Set([...(number === null ? [] : [number]), ...further, ...used]);
  const within = {
    dateSentAfter: new Date(span.from),
    // The provider's clock may be ahead, so the newest piece has no end.
    ...(span.to === null ? {} : { dateSentBefore: new Date(span.to) }),
    pageSize,
  };
  const list = (to?: string) => client.messages({ signal }).list({ ...(to === undefined ? {} : { to }), ...within });
  const found: MessageInstance[] = [];
  // The numbers of a messaging service are known only through the service.
  if (number === null)
    found.push(...(await list()).filter((one) => one.messagingServiceSid === service || ours.has(one.to)));
  else for (const to of ours) found.push(...(await list(to)));
  return found.filter(({ direction }) => direction === "inbound");
}

const timeOf = ({ dateSent, dateCreated }: MessageInstance): number => (dateSent ?? dateCreated).getTime();

function failed(error: unknown) {
  const health = isApiFailure(error) ? statusOf(error.api) : null;
  const reason = error instanceof Error ? error.message : String(error);
  return health ?? ({ state: "degraded", code: "list", reason: `listing texts failed: ${reason}` } as const);
}
