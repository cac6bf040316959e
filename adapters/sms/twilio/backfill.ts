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
/** After a long downtime the past is read in pieces of this length, each with a separate commit.
 *  Milliseconds. */
const pieceMs = 2 * 3_600_000;

/** The cursor, in epoch milliseconds. Messages before `first`, the very first start, are not answered.
 *  No message up to `complete` can be missing. */
interface BackfillPosition {
  readonly first: number;
  readonly complete: number;
}

/** `Inbound.run`. Throws the error of a failed poll. */
export function backfill(
  { channel, hear }: ProviderParts,
  settings: TwilioSettings,
  client: TwilioClient,
  health: Health,
): (start: Cursor | null, signal: AbortSignal) => Promise<void> {
  // Earlier messages may have been answered by a later state of the database, which was lost.
  const startedAt = channel.clock.now();
  return async (start, signal) => {
    if (health.of("list") === null) health.set("list", { state: "connecting" });
    let place = readPlace(start) ?? (await begin(channel));
    while (!signal.aborted) {
      let pause = settings.backfill.every;
      try {
        const now = channel.clock.now();
        // A clock that was ahead has left a cursor in the future.
        const behind = Math.min(place.complete, now);
        const until = Math.min(now, behind + pieceMs);
        const span = { from: behind - settings.backfill.overlap, to: until < now ? until : null };
        const found = await listed(client, settings, await channel.addresses(), span, signal);
        const upTo = Math.min(until, now - settings.backfill.after);
        const next = { ...place, complete: Math.max(behind, upTo) };
        const [due, young] = sorted(found, place.first, upTo);
        await take(due, next, signal);
        place = next;
        if (until < now) continue;
        health.set("list", { state: "ready" });
        if (await anyNew(young)) pause = Math.min(pause, settings.backfill.after + 1000);
      } catch (error) {
        if (signal.aborted) return;
        health.set("list", failed(error));
        throw error;
      }
      await channel.clock.sleep(pause, signal);
    }
  };

  /** Returns the messages to store now, and those whose webhook may still arrive. The latter are polled
   *  again after that time. */
  function sorted(found: readonly MessageInstance[], first: number, upTo: number) {
    const ours = found.filter((one) => timeOf(one) >= Math.floor(first / 1000) * 1000);
    // A STOP must not wait, because queued messages would be sent in the interval.
    const isDue = (one: MessageInstance) => timeOf(one) <= upTo || settings.isConsent(one.body ?? "", one.to);
    return [ours.filter(isDue), ours.filter((one) => !isDue(one))] as const;
  }

  async function anyNew(young: readonly MessageInstance[]): Promise<boolean> {
    if (young.length === 0) return false;
    const stored: ReadonlySet<string> = await channel.known(young.map(({ sid }) => externalId(sid)));
    return stored.size < young.length;
  }

  /** Stores the new messages, oldest first, together with the cursor after them. */
  async function take(
    due: readonly MessageInstance[],
    place: BackfillPosition,
    signal: AbortSignal,
  ): Promise<void> {
    const stored: ReadonlySet<string> =
      due.length === 0 ? new Set() : await channel.known(due.map(({ sid }) => externalId(sid)));
    // Timestamps are whole seconds, and the list begins with the newest message. Reversing it restores the
    // order within one second.
    const fresh = due
      .filter(({ sid }) => !stored.has(sid))
      .reverse()
      .sort((a, b) => timeOf(a) - timeOf(b));
    const isAnswered = await answeredBefore(
      fresh.filter((one) => timeOf(one) < startedAt),
      signal,
    );
    const texts = [];
    for (const message of fresh) {
      const text = textOfRecord(message, await mediaOf(message, signal));
      texts.push(
        isAnswered(message) ? { ...text, handledBefore: { by: "other" as const, reason: answered } } : text,
      );
    }
    if (texts.length > 0)
      channel.log.info({ texts: texts.length }, "backfill found texts that no webhook delivered");
    await hear({ texts, statuses: [] }, cursorOf(place));
  }

  /** Returns whether one of our texts that the database does not contain was sent to the sender
   *  afterwards. One list request serves all messages. */
  async function answeredBefore(
    old: readonly MessageInstance[],
    signal: AbortSignal,
  ): Promise<(message: MessageInstance) => boolean> {
    if (old.length === 0) return () => false;
    const sent = await client.messages({ signal }).list({
      ...(settings.number === null ? {} : { from: settings.number }),
      dateSentAfter: new Date(Math.min(...old.map(timeOf))),
      pageSize,
    });
    const ours = sent.filter(
      (one) =>
        one.direction === "outbound-api" &&
        (settings.number !== null || one.messagingServiceSid === settings.service),
    );
    const stored: ReadonlySet<string> = await channel.known(ours.map(({ sid }) => externalId(sid)));
    const last = new Map<string, number>();
    for (const one of ours)
      if (!stored.has(one.sid)) last.set(one.to, Math.max(last.get(one.to) ?? 0, timeOf(one)));
    const candidates = new Set(old);
    return (message) => candidates.has(message) && (last.get(message.from) ?? 0) >= timeOf(message);
  }

  async function mediaOf(message: MessageInstance, signal: AbortSignal) {
    if (!(Number(message.numMedia) > 0)) return [];
    try {
      // Requested through the list, because an item of a page does not know its own path (package twilio
      // 6.2).
      const media = await client.messages({ signal }).get(message.sid).media.list({ limit: 10 });
      const base = `${settings.apiUrl.replace(/\/$/, "")}/2010-04-01/Accounts/${settings.accountSid}`;
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

/** Returns the inbound messages of that period at every address of this channel: the configured
 *  addresses, and those that have received texts before. An account may have other addresses, which
 *  belong to other channels. */
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
  const list = (to?: string) =>
    client.messages({ signal }).list({ ...(to === undefined ? {} : { to }), ...within });
  const found: MessageInstance[] = [];
  // The numbers of a messaging service are known only through the service.
  if (number === null)
    found.push(...(await list()).filter((one) => one.messagingServiceSid === service || ours.has(one.to)));
  else for (const to of ours) found.push(...(await list(to)));
  return found.filter(({ direction }) => direction === "inbound");
}

const timeOf = ({ dateSent, dateCreated }: MessageInstance): number => (dateSent ?? dateCreated).getTime();

function failed(error: unknown) {
  const told = isApiFailure(error) ? statusOf(error.api) : null;
  const reason = error instanceof Error ? error.message : String(error);
  return told ?? ({ state: "degraded", code: "list", reason: `listing texts failed: ${reason}` } as const);
}
