// Stage route: the decisions about messages that are not asked, as pure functions: keywords of consent (STOP, START, HELP),
// messages for humans, held ones with the notifications about them, messages that wait at the channel's cap, and the
// pause of the channel at its limits. Each notice is written in the event's own transaction, and therefore exactly once.

import type { MessageEvent, Refusal } from "bridgehead/contract";
import { commandText } from "../../../domain/command-text.ts";
import { limitText } from "../../../domain/duration-text.ts";
import { type Cap, type Counted, channelRoom, isShortCode } from "../../../domain/guards.ts";
import { answerTo, attachmentLines, firstTo } from "../../../domain/turn.ts";
import type { Timing } from "../../../ops/timing.ts";
import { cappedCode } from "../../../store/tables/events.ts";
import type { PauseCode } from "../../../store/tables/pauses.ts";
import { allOwn } from "../../../store/tables/suppressions.ts";
import { type ChannelRuntime, consentAddress } from "../../channel-runtime.ts";
import type { EscalationTrigger } from "../../escalation.ts";
import type {
  CapUse,
  ConsentMessage,
  Context,
  EffectDecision,
  Facts,
  HumansMessage,
  Incoming,
  KeywordLookUp,
  RouteDecision,
  Run,
  UnaskedLookUps,
  Wait,
  Writes,
} from "../facts.ts";

/** Adds the writes of a decision not to ask. `place` finds or opens the conversation of the message. */
export function addUnasked(
  writes: Writes,
  context: Context,
  run: Run,
  message: Incoming,
  facts: Facts,
  decision: EffectDecision,
  place: () => string,
): void {
  switch (decision.kind) {
    case "consent":
      return addConsent(writes, context, decision.message, facts, place);
    case "hold":
      return addHeld(writes, context, run, message, facts, decision.refusal, place());
    case "humans":
      return addForHumans(writes, context, run, decision.message, facts, place());
    case "words":
      writes.spoken.push({ message, facts, session: decision.session });
      return;
    case "over":
      run.loop = message.row;
      run.held += 1;
      return addOver(writes, context, message, decision.over, place);
    case "wait":
      return addWait(writes, context, run, message.row.preferred === 1, decision.waits);
  }
}

/** Returns the text that notifies a customer that their messages are held; null when they get none. Recognized machines
 *  get none, and neither do a Reply-To and all tags of an address at their cap: each sender or tag would cause one. */
function capNotice({ outbound, rules }: ChannelRuntime, event: MessageEvent, over: Counted): string | null {
  const text = rules.cap_text?.trim();
  const isMachine = (event.hops ?? 0) > 0 || isShortCode(event.from.address);
  return !text || !outbound || isMachine || over.isReplyTo || over.name === "tags" ? null : text;
}

/** Holds a message over a cap of its sender or conversation; only an operator can release it. The customer is notified once
 *  per window of the cap, and at most once in `timing.route.heldNotice`; a suppression drops this like any other draft. The
 *  escalation is about the channel, because a loop has many conversations. */
function addOver(
  writes: Writes,
  context: Context,
  message: Incoming,
  over: Refusal & Counted,
  place: () => string,
): void {
  const { row, event } = message;
  const { code, reason } = over;
  const { line, ids, timing } = context;
  const { channel, rules } = line;
  writes.outcomes.push({ id: row.id, state: "held", code, reason });
  writes.hops.push({ name: "capped", channel, trace: "", code });
  const conversation = rules.cap_text ? place() : null;
  const text = capNotice(line, event, over);
  if (conversation !== null && text !== null) {
    const address = { ...answerTo(event), cc: [] };
    const once = {
      person: event.from.address.toLowerCase(),
      withinMs: Math.max(over.cap.per, timing.route.heldNotice),
    };
    writes.notices.push({ id: ids.id(), channel, conversation, address, text, forced: false, internal: false, once });
  }
  const who = over.name === "conversation" ? over.name : "sender";
  const what = `messages of one ${who} are held: ${reason} (see ${commandText(`inbox show ${row.id}`, line.config)})`;
  writes.escalations.push(aboutChannel(line, { key: `event:${row.id}`, reason: what }));
}

/** An escalation about the whole channel, because of a cap or a limit. */
const aboutChannel = (
  { channel, agent }: ChannelRuntime,
  what: Pick<EscalationTrigger, "key" | "reason" | "news">,
): EscalationTrigger => ({ channel, agent, conversation: null, topic: null, source: "ours", cause: "cap", ...what });

/** Forwards a message for humans (a voicemail) to each of the channel's `notify`, in separate
 *  conversations. Without `notify` it is held, and `inbox` lists it. */
function addForHumans(
  writes: Writes,
  context: Context,
  run: Run,
  message: HumansMessage,
  { attachments }: Facts,
  conversation: string,
): void {
  const { row, event } = message;
  const { line } = context;
  const code = "for-humans";
  const text = textFor(line, event, attachments, event.text);
  if (addNotices(writes, context, event.forHumans.subject, text))
    writes.outcomes.push({ id: row.id, state: "routed", code, conversation });
  else {
    const { channel } = line;
    writes.lines.push((log) => log.warn({ channel, event: row.id }, "no recipient configured for messages to humans"));
    const reason = "it is for people, and the channel has no notify";
    writes.outcomes.push({ id: row.id, state: "held", code, reason, conversation });
    run.held += 1;
  }
  writes.forHumans.push({ message, conversation });
}

/** Adds a notice to each of the channel's `notify`, in separate conversations, which the agent takes no part in. Returns
 *  false when the channel has none. */
function addNotices(writes: Writes, { line, ids, agentOf }: Context, subject: string, text: string): boolean {
  const { notify } = line.rules;
  if (notify === undefined) return false;
  const { channel } = notify;
  for (const address of notify.to) {
    const person = address.toLowerCase();
    const agent = agentOf(channel) ?? line.agent;
    const conversation = ids.id();
    const token = ids.token();
    writes.conversations.push({ id: conversation, channel, agent, person, person_name: null, subject, token });
    const to = firstTo({ address }, subject);
    writes.notices.push({ id: ids.id(), channel, conversation, address: to, text, forced: false, internal: true });
  }
  return true;
}

/** From this number of held messages in `timing.route.heldFlood`, one escalation about the channel replaces those about
 *  conversations. */
export const floodLimit = 20;

/**
 * A message that only a human can read (encrypted mail). It is held, `inbox list` shows it with its reason, and `inbox
 * answer` releases it. The channel's `notify` and the responders of the escalation policy are notified. A flood of such
 * messages does not become a flood of notifications.
 */
function addHeld(
  writes: Writes,
  context: Context,
  run: Run,
  { row, event }: Incoming,
  { attachments }: Facts,
  { code, reason }: Refusal,
  conversation: string,
): void {
  const { line } = context;
  const { channel, agent } = line;
  const flood = run.held >= floodLimit;
  run.held += 1;
  writes.outcomes.push({ id: row.id, state: "held", code, reason, conversation });
  const what = `${reason}; it is held as number ${row.id} (see ${commandText("inbox list", line.config)})`;
  if (!flood) {
    const subject = `A message needs a human: ${event.subject ?? "(no subject)"}`.slice(0, 200).toWellFormed();
    addNotices(writes, context, subject, textFor(line, event, attachments, `${what}.`));
  }
  const about = { channel, agent, conversation: flood ? null : conversation, topic: null, reason: what };
  const news = flood ? {} : { news: true as const };
  writes.escalations.push({ key: `event:${row.id}`, source: "ours", cause: "held", ...about, ...news });
}

/** Joins `words`, the names of the attachments and the sender. The recipients of the notification see nothing else. */
function textFor(
  { channel }: ChannelRuntime,
  event: MessageEvent,
  attachments: Facts["attachments"],
  words: string,
): string {
  const { name, address } = event.from;
  const parts = [words.trim(), attachmentLines(attachments), `From: ${name ? `${name}, ` : ""}${address} (${channel})`];
  return parts.filter((part) => part !== "").join("\n\n");
}

const consentCodes = { stop: "opt-out", start: "opt-in", help: "help" } as const;

/** Returns what the decisions about these messages look up. `guarded`: see `Plan`. */
export function lookUpsOf(
  { line, timing }: Pick<Context, "line" | "timing">,
  facts: ReadonlyMap<Incoming, Facts>,
  guarded: ReadonlyMap<Incoming, RouteDecision | null>,
): UnaskedLookUps {
  let held = false;
  const keywords: KeywordLookUp[] = [];
  for (const [message, decision] of guarded) {
    held ||= decision?.kind === "hold";
    if (decision?.kind !== "consent") continue;
    const { session = null, conversation = null } = facts.get(message) ?? {};
    const replacing = contradiction(decision.message, timing.route);
    const { via = null } = message.event;
    // Where consent applies to single addresses, a keyword to another one contradicts nothing.
    const to = consentAddress(line, via) === allOwn ? undefined : via;
    keywords.push({ message, opposite: replacing && { ...replacing, to }, conversation: session ?? conversation });
  }
  return { held, keywords };
}

/** Returns the keyword that would replace this one if it was sent after `since` (epoch milliseconds).
 *  Keywords that arrive without delay count in the order of arrival, independent of all clocks: null. A late
 *  one was found by a backfill, and newer messages may have been processed before it. */
export function contradiction(
  { row, event: { consent, sentAt } }: ConsentMessage,
  { lateArrival, consentOrder }: Timing["route"],
): { readonly code: "opt-out" | "opt-in"; readonly since: number } | null {
  const said = sentAt.getTime();
  if (consent.word === "help" || row.received_at - said < lateArrival) return null;
  return consent.word === "start"
    ? { code: consentCodes.stop, since: said }
    : { code: consentCodes.start, since: said + consentOrder };
}

/** Two machines that answer each other's keywords would loop without end. Confirmations therefore count
 *  against the sender's caps, as answers do. `notices` are the counts for each cap. */
export const isLoop = (caps: readonly Cap[], notices: readonly number[]): boolean =>
  caps.some(({ max }, at) => (notices[at] ?? 0) >= max);

/** Applies an opt-out or opt-in to the address immediately and queues the channel's own confirmation. The
 *  agent never receives these messages under any channel rule: only the keyword decides. Queued drafts to a
 *  suppressed address are dropped when they become due. */
function addConsent(
  writes: Writes,
  { line, ids }: Context,
  { row, event }: ConsentMessage,
  { keyword }: Facts,
  place: () => string,
): void {
  const { word, answer } = event.consent;
  const { channel } = line;
  const { address } = event.from;
  const code = consentCodes[word];
  if (keyword?.outdated) {
    writes.lines.push((log) => log.info({ channel, event: row.id, code }, "opt-out keyword ignored: outdated"));
    writes.outcomes.push({ id: row.id, state: "ignored", code, reason: "the person has said otherwise since" });
    return;
  }
  const own = consentAddress(line, event.via ?? null);
  if (word === "stop") writes.suppressed.push({ address, own, reason: `the person said STOP (event ${row.id})` });
  if (word === "start") writes.lifted.push({ address, own });
  writes.lines.push((log) => log.info({ channel, event: row.id, code }, "opt-out keyword applied"));
  const conversation = answer === undefined || !line.outbound ? null : place();
  if (answer !== undefined && conversation !== null) {
    if (isLoop(line.rules.caps.sender, keyword?.notices ?? []))
      writes.lines.push((log) => log.warn({ channel, event: row.id, code }, "message not answered: loop limit"));
    else {
      const to = { ...answerTo(event), to: [event.from], cc: [] };
      const notice = { channel, conversation, address: to, text: answer, forced: true, internal: false };
      writes.notices.push({ id: ids.id(), ...notice });
    }
  }
  const reason = `the person said ${word.toUpperCase()}`;
  writes.outcomes.push({ id: row.id, state: "ignored", code, reason, conversation });
}

/** Returns what messages of such senders wait for under the channel's caps; nothing when it has room for them. */
export const waitsOf = (uses: readonly CapUse[], preferred: boolean): readonly Wait[] =>
  uses.flatMap((use) => {
    const room = channelRoom(use.cap, preferred, use);
    return room === null ? [] : [{ cap: use.cap, ...room }];
  });

/** Lets the messages wait for whose senders the loaded `run.uses` have no room. */
export function addWaits(writes: Writes, context: Context, run: Run): void {
  // Where preferred senders have no room, the others have none.
  for (const preferred of [true, false]) {
    const waits = waitsOf(run.uses ?? [], preferred);
    if (waits.length === 0) continue;
    writes.unasked = true;
    return addWait(writes, context, run, preferred, waits);
  }
}

/** The channel is at its cap because of a storm or the backlog of a long outage. The message and all
 *  others of its kind stay queued without a decision. Responders are notified once, and again when the
 *  cap lasts for more than an hour after they closed that escalation. */
function addWait(
  writes: Writes,
  { line, now, timing }: Context,
  run: Run,
  preferred: boolean,
  waits: readonly Wait[],
): void {
  const { channel } = line;
  run.room.noneForOthers = true;
  if (preferred) run.room.none = true;
  const ms = Math.max(0, ...waits.map((wait) => ("ms" in wait ? wait.ms : 0)));
  const rooms = waits.flatMap((wait) => ("below" in wait ? [{ below: wait.below, per: wait.cap.per }] : []));
  writes.postponed.push({ preferred, ms, rooms, isNew: !run.capped });
  run.capped = true;
  writes.hops.push({ name: "capped", channel, trace: "", code: cappedCode });
  const key = `cap:${channel}:${Math.floor(now / timing.route.capEscalation)}`;
  const reason = "the channel is at its cap: messages are queued, those of authenticated and known senders first";
  writes.escalations.push(aboutChannel(line, { key, reason }));
}

/** The counts of one run that `pause_on` limits, for each of its caps. */
export interface LimitCounts {
  readonly loops: readonly { readonly cap: Cap; readonly count: number }[];
  readonly replies: readonly { readonly cap: Cap; readonly count: number }[];
}

/** An automatic pause of a channel. Only an operator ends it; earlier messages do not count again then. */
export interface LimitPause {
  readonly code: PauseCode;
  readonly reason: string;
  /** The last message that counted. */
  readonly event: number | null;
  readonly trigger: EscalationTrigger;
}

/** Returns the pause of the channel when the messages of this run exceed one of its `pause_on` limits, else null. */
export function pauseAt({ line, now }: Context, run: Run, { loops, replies }: LimitCounts): LimitPause | null {
  const isOver = ({ cap, count }: LimitCounts["loops"][number]) => count > cap.max;
  const loop = loops.find(isOver);
  const over = loop ?? replies.find(isOver);
  if (over === undefined) return null;
  const { channel } = line;
  const { max, per } = over.cap;
  const what = loop
    ? `messages of more than ${max} senders were refused as loops or held by a cap`
    : `more than ${max} messages were to be answered`;
  const reason = `${what} within ${limitText(per)}`;
  const event = run.loop?.id ?? null;
  const last = event === null ? "" : `; the last one: ${commandText(`inbox show ${event}`, line.config)}`;
  const trigger = aboutChannel(line, {
    key: `pause:${channel}:${now}`,
    reason: `the channel is paused: ${reason}${last}. Nothing is answered until: ${commandText(`resume ${channel}`, line.config)}`,
    news: true,
  });
  return { code: loop ? "loops" : "replies", reason, event, trigger };
}
