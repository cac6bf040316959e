// Messages that the agent does not get: held ones with the notifications about them, messages for humans, and the
// confirmations of STOP, START and HELP. Part of stage route. Each reply is written in the event's own transaction, and
// therefore exactly once.

import type { Clock, MessageEvent, Refusal } from "bridgehead/contract";
import { type Cap, isShortCode } from "../../domain/guards.ts";
import { answerTo, attachmentLines, firstTo } from "../../domain/turn.ts";
import { newId, newToken } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import { type Core, logOnDisk, type Query } from "../../store/driver.ts";
import { insertConversation } from "../../store/tables/conversations.ts";
import { countNotices, hasNotice, insertNotice } from "../../store/tables/drafts.ts";
import { countHeld, type EventRow, hasKeywordSince, settleEvent } from "../../store/tables/events.ts";
import type { AttachmentRow } from "../../store/tables/files.ts";
import { lift, suppress } from "../../store/tables/suppressions.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import {
  type ConsentMessage,
  confirmationTo,
  consentCodes,
  contradiction,
  type Facts,
  type HumansMessage,
  type Incoming,
  isLoop,
  personOf,
} from "./decide.ts";

/** Notifies a customer that their messages are held: once per window of the cap, and at most once in
 *  `timing.route.heldNotice`. Recognized machines get no such message. A suppression drops it like any other draft. Called by
 *  stage route. */
export async function notifyHeld(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  cap: Cap,
  conversation: string,
  { clock, timing }: NoticeDeps,
): Promise<void> {
  const text = line.rules.cap_text?.trim();
  if (!text || !line.outbound || (event.hops ?? 0) > 0 || isShortCode(event.from.address)) return;
  const { channel } = line;
  const to = { channel, conversation, person: event.from.address.toLowerCase() };
  if (await hasNotice(q, to, text, Math.max(cap.per, timing.route.heldNotice))) return;
  const address = { ...answerTo(event), cc: [] };
  await insertNotice(q, clock, {
    channel,
    conversation,
    address,
    text,
    forced: false,
    internal: false,
  });
}

/** Forwards a message for humans (a voicemail) to each of the channel's `notify`, in separate
 *  conversations. Without `notify` it is held, and `inbox` lists it. */
export async function forwardToHumans(
  q: Query,
  line: ChannelRuntime,
  { row, event }: HumansMessage,
  { attachments }: Facts,
  conversation: string,
  deps: NoticeDeps,
): Promise<void> {
  const text = textFor(line, event, attachments, event.text);
  if (await notifyHumans(q, line, { subject: event.forHumans.subject, text }, deps))
    return settleEvent(q, row.id, { state: "routed", code: "for-humans", conversation });
  logOnDisk(q, deps.log).warn(
    { channel: line.channel, event: row.id },
    "no recipient configured for messages to humans",
  );
  const reason = "it is for people, and the channel has no notify";
  return settleEvent(q, row.id, { state: "held", code: "for-humans", reason, conversation });
}

interface NoticeDeps extends Omit<Core, "db"> {
  readonly lines: () => ChannelRuntimes;
}

/** Sends the text to each of the channel's `notify`, in separate conversations. Returns false when the
 *  channel has none. */
async function notifyHumans(
  q: Query,
  line: ChannelRuntime,
  { subject, text }: { readonly subject: string; readonly text: string },
  deps: NoticeDeps,
): Promise<boolean> {
  const { notify } = line.rules;
  if (notify === undefined) return false;
  const agent = deps.lines().get(notify.channel)?.agent ?? line.agent;
  for (const person of notify.to) {
    const whom = { channel: notify.channel, agent, person, subject };
    const opened = await openFor(q, whom, deps.clock);
    await insertNotice(q, deps.clock, {
      channel: notify.channel,
      conversation: opened,
      address: firstTo({ address: person }, subject),
      text,
      forced: false,
      internal: true,
    });
  }
  return true;
}

/** From this number of held messages in `timing.route.heldFlood`, one escalation about the channel replaces those about
 *  conversations. */
const floodLimit = 20;

/**
 * A message that only a human can read (encrypted mail). It is held, `inbox list` shows it with its reason, and `inbox
 * answer` releases it. The channel's `notify` and the responders of the escalation policy are notified. A flood of such
 * messages does not become a flood of notifications.
 */
export async function holdForHuman(
  q: Query,
  line: ChannelRuntime,
  { row, event }: Incoming,
  { attachments }: Facts,
  { code, reason }: Refusal,
  conversation: string,
  deps: NoticeDeps,
): Promise<void> {
  const held = await countHeld(q, line.channel, deps.timing.route.heldFlood, floodLimit);
  const flood = held >= floodLimit;
  await settleEvent(q, row.id, { state: "held", code, reason, conversation });
  const what = `${reason}; it is held as number ${row.id} (see bridgehead inbox list)`;
  if (!flood) {
    const subject = `A message needs a human: ${event.subject ?? "(no subject)"}`.slice(0, 200).toWellFormed();
    await notifyHumans(q, line, { subject, text: textFor(line, event, attachments, `${what}.`) }, deps);
  }
  await line.escalation()?.open(q, {
    key: `event:${row.id}`,
    source: "ours",
    cause: "held",
    channel: line.channel,
    agent: line.agent,
    conversation: flood ? null : conversation,
    topic: null,
    reason: what,
    ...(flood ? {} : { news: true as const }),
  });
}

/** Inserts a conversation for a message that we send without an inbound message. The agent takes no part in it. */
export async function openFor(
  q: Query,
  whom: {
    readonly channel: string;
    readonly agent: string;
    readonly person: string;
    readonly subject: string | null;
  },
  clock: Clock,
): Promise<string> {
  const id = newId(clock.now());
  const person = whom.person.toLowerCase();
  await insertConversation(q, { id, ...whom, person, person_name: null, token: newToken() });
  return id;
}

/** Joins `words`, the names of the attachments and the sender. The recipients of the notification see nothing else. */
function textFor(
  line: ChannelRuntime,
  event: MessageEvent,
  attachments: readonly AttachmentRow[],
  words: string,
): string {
  const { name, address } = event.from;
  const parts = [
    words.trim(),
    attachmentLines(attachments),
    `From: ${name ? `${name}, ` : ""}${address} (${line.channel})`,
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

/** Opens an escalation for a held message that only an operator can release. It is about the channel,
 *  because a loop has many conversations. */
export async function escalateHeld(q: Query, line: ChannelRuntime, row: EventRow, reason: string): Promise<void> {
  const { channel, agent } = line;
  const about = { channel, agent, conversation: null, topic: null };
  const key = `event:${row.id}`;
  await line.escalation()?.open(q, { ...about, key, source: "ours", cause: "cap", reason });
}

/** Loads whether a later keyword has replaced this one, and the number of the conversation's notices in the
 *  window of each sender cap. */
async function loadConsent(
  q: Query,
  line: ChannelRuntime,
  message: ConsentMessage,
  conversation: string | null,
  timing: Timing["route"],
): Promise<{ readonly outdated: boolean; readonly notices: readonly number[] }> {
  const other = contradiction(message, timing);
  const outdated =
    other !== null && (await hasKeywordSince(q, line.channel, personOf(message), other.code, other.since));
  const notices: number[] = [];
  if (conversation !== null)
    for (const cap of line.rules.caps.sender) notices.push(await countNotices(q, conversation, cap.per));
  return { outdated, notices };
}

/** Applies an opt-out or opt-in to the address immediately and queues the channel's own confirmation. The
 *  agent never receives these messages under any channel rule: only the keyword decides. Queued drafts to a
 *  suppressed address are dropped when they become due. `place` finds or opens the conversation. */
export async function applyConsent(
  q: Query,
  line: ChannelRuntime,
  message: ConsentMessage,
  facts: Facts,
  place: () => Promise<string>,
  deps: NoticeDeps,
): Promise<void> {
  const { row, event } = message;
  const { word, answer } = event.consent;
  const { channel } = line;
  const code = consentCodes[word];
  const known = facts.session ?? facts.conversation;
  const { outdated, notices } = await loadConsent(q, line, message, known, deps.timing.route);
  if (outdated) {
    logOnDisk(q, deps.log).info({ channel, event: row.id, code }, "opt-out keyword ignored: outdated");
    return settleEvent(q, row.id, { state: "ignored", code, reason: "the person has said otherwise since" });
  }
  if (word === "stop") await suppress(q, channel, event.from.address, `the person said STOP (event ${row.id})`);
  if (word === "start") await lift(q, channel, event.from.address);
  logOnDisk(q, deps.log).info({ channel, event: row.id, code }, "opt-out keyword applied");
  const conversation = answer === undefined || !line.outbound ? null : await place();
  if (answer !== undefined && conversation !== null) {
    if (isLoop(line.rules.caps.sender, notices))
      logOnDisk(q, deps.log).warn({ channel, event: row.id, code }, "message not answered: loop limit");
    else {
      const address = confirmationTo(event);
      await insertNotice(q, deps.clock, {
        channel,
        conversation,
        address,
        text: answer,
        forced: true,
        internal: false,
      });
    }
  }
  const reason = `the person said ${word.toUpperCase()}`;
  return settleEvent(q, row.id, { state: "ignored", code, reason, conversation });
}
