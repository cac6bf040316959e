// One attempt to have a text created, and the later look for one whose creation was not answered.

import {
  type Attempt,
  type Channel,
  externalId,
  type PastAttempt,
  type SendKey,
  type SendOutcome,
  type Verdict,
} from "bridgehead/contract";
import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import { unreachable, wordsOf } from "../classes.ts";
import { createClosing } from "../closing.ts";
import type { Health } from "../health.ts";
import { statusEventId, type TextDraft, type TextStatus } from "../provider.ts";
import { type Client, isApiFailure } from "./client.ts";
import { outcomeOf, statusOf } from "./errors.ts";
import { isLocal, type TwilioSettings } from "./settings.ts";
import { keyParameter, statuses } from "./status.ts";

/** A request that we gave up on may still be finished this long after it began; and two looks are this far apart. */
const settleMs = 30_000;
/** How far our clock and the provider's may be apart. */
const skewMs = 10_000;
const day = 24 * 3_600_000;
/** Texts whose owner is remembered: enough for what is sent within the minutes in which a look can confuse two. */
const remembered = 2000;

export interface Sender {
  /** A status came: a text whose draft it names is nobody else's, and what stops one of ours may stop them all. */
  heard(status: TextStatus): void;
  send(text: TextDraft, attempt: Attempt): Promise<SendOutcome>;
  reconcile(text: TextDraft, attempt: PastAttempt, signal: AbortSignal): Promise<Verdict>;
}

export function sender(channel: Channel, settings: TwilioSettings, client: Client, health: Health): Sender {
  const closing = createClosing(channel.clock, health);
  const owners = new Map<string, SendKey>();
  /** When a look first found only texts of others, by draft. */
  const doubts = new Map<SendKey, number>();

  function own(sid: string, key: SendKey): void {
    owners.set(sid, key);
    if (owners.size > remembered) owners.delete(owners.keys().next().value ?? "");
  }

  return {
    heard(status) {
      if (status.key !== null) own(status.id, status.key);
      closing.heard(status);
    },
    async send(text, attempt) {
      const closed = closing.outcome(text);
      if (closed !== null) return closed;
      let crossed = false;
      const crossing = () => {
        attempt.crossing();
        crossed = true;
      };
      try {
        const wish = { ...wishOf(text, settings), ...callbackOf(channel, settings, attempt.key) };
        const { sid } = await client.messages({ signal: attempt.signal, crossing }).create(wish);
        if (typeof sid !== "string" || sid === "")
          return { kind: "unknown", reason: "the answer has no sid" };
        own(sid, attempt.key);
        health.set("account", { state: "ready" });
        return { kind: "sent", id: externalId(sid) };
      } catch (error) {
        if (!isApiFailure(error)) return unanswered(error, crossed);
        const status = statusOf(error.api);
        if (status) health.set("account", status);
        return outcomeOf(error.api);
      }
    },

    async reconcile(text, attempt, signal) {
      const age = channel.clock.now() - attempt.startedAt.getTime();
      if (age < settleMs) return { kind: "unsure", lookAgainAfterMs: settleMs - age };
      const since = attempt.startedAt.getTime() - skewMs;
      const found = await candidates(client, text, since, signal);
      const mine = found.find(({ sid }) => owners.get(sid) === attempt.key);
      if (mine) return { kind: "sent", id: externalId(mine.sid) };
      const free: MessageInstance[] = [];
      const strange = found.filter(({ sid }) => !owners.has(sid));
      for (const one of strange) if (!(await isTaken(channel, one.sid))) free.push(one);
      const [first] = free.sort((a, b) => a.dateCreated.getTime() - b.dateCreated.getTime());
      if (first) {
        own(first.sid, attempt.key);
        return { kind: "sent", id: externalId(first.sid) };
      }
      if (age < 2 * settleMs) return { kind: "unsure", lookAgainAfterMs: settleMs };
      // The same words to the same person, all known before this process began: those are other drafts', or the
      // report on ours is being settled this instant. The next look knows.
      const doubted = doubts.get(attempt.key);
      const now = channel.clock.now();
      if (strange.length > 0 && (doubted === undefined || now - doubted < settleMs)) {
        if (doubted === undefined) doubts.set(attempt.key, now);
        return { kind: "unsure", lookAgainAfterMs: settleMs };
      }
      doubts.delete(attempt.key);
      return { kind: "not-sent" };
    },
  };
}

function wishOf(text: TextDraft, settings: TwilioSettings) {
  return {
    to: text.to,
    body: text.body,
    validityPeriod: Math.min(36_000, Math.max(1, Math.round(settings.validityMs / 1000))),
    ...(text.from === null ? {} : { from: text.from }),
    ...(text.service === null ? {} : { messagingServiceSid: text.service }),
    ...(text.media.length === 0 ? {} : { mediaUrl: [...text.media] }),
  };
}

/** The callback's address names the draft: it settles a send whose answer was lost. */
function callbackOf(channel: Channel, settings: TwilioSettings, key: SendKey): { statusCallback?: string } {
  const url = channel.url("/status");
  // An address of this machine would make a provider elsewhere refuse the whole text.
  if (!settings.statusCallback || (isLocal(url) && !isLocal(settings.apiUrl))) return {};
  url.searchParams.set(keyParameter, key);
  url.hash = settings.callbackOverrides;
  return { statusCallback: url.href };
}

/** Certain before the crossing, unknown after it. */
function unanswered(error: unknown, crossed: boolean): SendOutcome {
  const reason = wordsOf(error);
  if (crossed) return { kind: "unknown", reason: `no answer: ${reason}` };
  return unreachable(error);
}

/** Texts of ours with these words to this person, since then. A text that still waits has no date of sending, so the
 *  newest are looked at without one as well. */
async function candidates(
  client: Client,
  text: TextDraft,
  since: number,
  signal: AbortSignal,
): Promise<readonly MessageInstance[]> {
  const messages = client.messages({ signal });
  const parties = {
    to: text.to,
    ...(text.from === null || text.service !== null ? {} : { from: text.from }),
  };
  // Filters by date are days of GMT at the least: the day it began in, and all after it.
  const dated = await messages.list({
    ...parties,
    dateSentAfter: new Date(Math.floor(since / day) * day),
    pageSize: 1000,
  });
  const newest = await messages.list({ ...parties, pageSize: 100, limit: 100 });
  const all = new Map([...dated, ...newest].map((one) => [one.sid, one]));
  return [...all.values()].filter(
    (one) =>
      one.direction.startsWith("outbound") &&
      (one.body ?? "").trim() === text.body.trim() &&
      // Whole seconds are kept.
      one.dateCreated.getTime() + 1000 > since &&
      (text.service === null || one.messagingServiceSid === text.service),
  );
}

/** True when a draft was sent as this text, in this process or before it, or a status of it was stored: had either been
 *  about the draft that is looked for, that would be settled. */
async function isTaken(channel: Channel, sid: string): Promise<boolean> {
  const ids = [externalId(sid), ...statuses.map((status) => statusEventId(sid, status))];
  return (await channel.known(ids)).size > 0;
}
