// Decisions about responder replies, on loaded rows. Pure. "ok" acknowledges the escalation, commands close
// it or return it to the agent, and other text goes to the customer. Ambiguous replies are not relayed, and
// the responder is notified of that.

import type { MessageEvent, Traits } from "bridgehead/contract";
import type { Instructions } from "../../domain/instructions.ts";
import { machineReply } from "../../domain/machine-reply.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import type { AttachedFile, ReadyFile } from "../../store/tables/files.ts";
import type { TargetRow } from "../../store/tables/responders.ts";
import { quotesNotification } from "../notify/text.ts";
import { selectFiles } from "./files.ts";
import type { Customer } from "./rows.ts";

/** A notification target of the sender, and its escalation. */
export interface Candidate {
  readonly target: TargetRow;
  readonly row: EscalationRow;
}

/** How a message is linked to a notification target. address: by its sender, on a channel with one conversation per
 *  person. thread: by the conversation of a notification, in which the sender takes part. notification: by our message,
 *  which any sender may cite. subject: by the number in the subject, sent from the target's address. */
export interface Link extends Candidate {
  readonly by: "address" | "thread" | "notification" | "subject";
}

/** What is known of the sender of a message. */
export interface Links {
  /** The message continues a conversation in which its sender takes part. */
  readonly inConversation: boolean;
  /** By reference, newest first. */
  readonly links: readonly Link[];
}

export interface Sender {
  /** responder: a reply to a notification of these targets. subject: only the subject names the
   *  escalation. stranger: the notification went to these targets, and another address replied. */
  readonly from: "responder" | "subject" | "stranger";
  /** By reference, newest first; empty for a customer. */
  readonly candidates: readonly Candidate[];
}

/** The event is ignored. `answer`: text for the first candidate. `stranger`: text that informs the first
 *  candidate of another sender. */
export interface Ignored {
  readonly code: string;
  readonly reason: string;
  readonly answer?: string | undefined;
  readonly stranger?: string | undefined;
}

/** Refusal code of an adapter for a message that exceeds its size limit, usually because of attachments. */
const tooLarge = "too-large";
const tooLargeText = "Your message is too large to be read. Nothing was sent to the customer, and nothing was done.";
const sealedText =
  "Your message cannot be read. Nothing was sent to the customer, and nothing was done. Please answer in plain text, without encryption. The reason: ";
const unthreadedText =
  "Your mail is no answer to ours, so nothing of it was sent to the customer. Please answer the mail that notified you.";

/** Decides in which role the sender writes. `address`: the sender's, in lower case. */
export function senderOf(address: string, { inConversation, links }: Links): Sender {
  const { address: owned = [], thread = [], notification = [], subject = [] } = Object.groupBy(links, ({ by }) => by);
  const own = [...owned, ...thread.filter(({ target }) => target.address.toLowerCase() === address)];
  if (own.length > 0) return { from: "responder", candidates: own };
  const notified = thread.length > 0 ? thread : notification;
  if (notified.length > 0) return { from: "stranger", candidates: notified };
  // Some mail programs drop In-Reply-To and keep the subject.
  return { from: "subject", candidates: inConversation ? [] : subject };
}

/** Returns why the message is not handled as a reply of the responder; null when it is. */
export function whyIgnored(event: MessageEvent, { from }: Sender, first: Candidate): Ignored | null {
  const { refusal } = event;
  const { number, state } = first.row;
  if (from === "stranger") {
    // An automatic reply, or one to a closed escalation, needs no message.
    const informs = (!refusal || refusal.hold) && state !== "closed";
    return {
      code: "not-a-recipient",
      reason: "it answers an escalation, and its sender was not notified of it",
      stranger: informs
        ? `${number}: ${event.from.address} has answered our mail to you, and was not notified of this: nothing of it was sent. If that was you, please answer from ${first.target.address}.`
        : undefined,
    };
  }
  const sealed = refusal?.hold === true;
  if (sealed && event.text.trim() === "" && !event.wordless && event.sender !== "unverified")
    return { code: refusal.code, reason: refusal.reason, answer: `${sealedText}${refusal.reason}.` };
  // When only an encrypted file cannot be read, the text counts. The responder learns that the file was not relayed.
  if (refusal && !sealed) {
    const answer = refusal.code === tooLarge ? tooLargeText : undefined;
    return { code: refusal.code, reason: refusal.reason, answer };
  }
  if (event.sender === "unverified")
    return { code: "not-authenticated", reason: "it answers an escalation, and its sender is not proven" };
  if (from === "subject") {
    const reason = "it names an escalation, and answers no mail of ours";
    return { code: "not-threaded", reason, answer: `${number}: ${unthreadedText}` };
  }
  return null;
}

export function perEscalation(candidates: readonly Candidate[]): readonly Candidate[] {
  const found = new Map<string, Candidate>();
  for (const one of candidates) if (!found.has(one.row.id)) found.set(one.row.id, one);
  return [...found.values()];
}

/** Selects the escalations: the one named, the only live one, all for a plain "ok", or the one this
 *  responder acknowledged. */
function choose(known: readonly Candidate[], words: Instructions): readonly Candidate[] | "ask" {
  const live = known.filter(isLive);
  if (words.number !== null) {
    const named = known.filter(({ row }) => row.number === words.number);
    // A number that names a closed escalation does not acknowledge the other open ones. Their notifications
    // would end although no responder knows of the acknowledgement.
    if (named.length > 0) return named.filter(isLive);
    if (words.acknowledge && live.length > 0) return "ask";
  }
  if (live.length <= 1 || words.acknowledge) return live;
  const acknowledged = live.filter(({ row, target }) => row.acknowledged_target === target.id);
  return acknowledged.length === 1 ? acknowledged : "ask";
}

const isLive = ({ row }: Candidate): boolean => row.state !== "closed";

/** Returns the leading number that names none of the responder's escalations, where it may name another
 *  one; else null. The caller loads that escalation for `planReply`. */
export function foreignNumber(
  conversations: Traits["conversations"],
  known: readonly Candidate[],
  words: Instructions,
): number | null {
  const number = words.number ?? words.doubt;
  if (conversations !== "person" || number === null || (words.doubt !== null && known.length > 1)) return null;
  return known.some(({ row }) => row.number === number) ? null : number;
}

export interface ReplyInput {
  readonly traits: Pick<Traits, "platform" | "conversations">;
  readonly event: Pick<MessageEvent, "subject" | "from">;
  /** The operator has released the held message. */
  readonly released: boolean;
  /** The text as typed by the responder. */
  readonly text: string;
  readonly words: Instructions;
  /** One for each escalation; not empty. */
  readonly known: readonly Candidate[];
  readonly files: readonly AttachedFile[];
  /** The escalation with the number of `foreignNumber`. */
  readonly other: Pick<EscalationRow, "state"> | null;
  /** The customers of the known escalations by conversation. Loaded only when text or files may be
   *  relayed, or the agent gets the conversation back. */
  readonly customers: ReadonlyMap<string, Customer>;
  /** The running channel of an escalation. */
  readonly lineOf: (channel: string) => ChannelRuntime | undefined;
}

/** The changes to one escalation, in this order. */
export interface Action extends Candidate {
  /** The name under which the responder acts. */
  readonly by: string;
  readonly note: string | null;
  readonly acknowledge: boolean;
  readonly relay: {
    readonly customer: Customer;
    /** The text is spoken in the current call. */
    readonly inCall: boolean;
    readonly text: string;
    readonly files: readonly ReadyFile[];
  } | null;
  readonly end: "resume" | "close" | null;
  /** Null when the escalation is about a channel; set where the effects need it. */
  readonly customer: Customer | null;
}

export interface ReplyPlan {
  /** How the event is settled when nothing was done; null: it is handled. `level` is logged. */
  readonly automatic: {
    readonly state: "ignored" | "held";
    readonly code: string;
    readonly reason: string;
    readonly level: string;
    /** Text for the first candidate; null for a certain automatic reply. */
    readonly text: string | null;
  } | null;
  readonly actions: readonly Action[];
  /** Our answers to the responder. */
  readonly answers: readonly { readonly target: TargetRow; readonly text: string }[];
}

/** Limit of escalation numbers in one answer; more do not fit into an SMS. */
const mostNumbers = 10;

export function planReply(input: ReplyInput): ReplyPlan {
  const { known, words, text } = input;
  const chosen = choose(known, words);
  const [first] = known;
  if (!first) throw new Error("planning a responder's reply: no escalation is known");
  const automatic = automaticReply(input, first);
  if (automatic !== null) return { automatic, actions: [], answers: [] };
  const onlyAnswer = (answer: string): ReplyPlan => ({
    automatic: null,
    actions: [],
    answers: [{ target: first.target, text: answer }],
  });
  const wrong = whatIsWrong(text, words, input.files.length);
  if (wrong !== null) return onlyAnswer(`${wrong} Nothing was sent to the customer, and nothing was done.`);
  if (chosen === "ask" || mayMeanAnother(input)) {
    const all = known.filter(isLive).map(({ row }) => row.number);
    const numbers = [...all.slice(0, mostNumbers), ...(all.length > mostNumbers ? ["..."] : [])].join(", ");
    return onlyAnswer(`Which one do you mean: ${numbers}? Write its number and a colon first. Nothing was sent.`);
  }
  if (chosen.length === 0) return onlyAnswer("That escalation is closed. Nothing was sent to the customer.");
  const plans = chosen.map((one) => planAction(input, one, chosen.length));
  const answers = plans.flatMap(({ answer, action }) =>
    answer === "" ? [] : [{ target: action.target, text: `${action.row.number}: ${answer}` }],
  );
  // One confirmation for all escalations.
  if (chosen.length > 1 && words.acknowledge && confirms(input)) {
    const unsent = words.ambiguous ? ` "${firstLine(text)}" was sent to no customer.` : "";
    answers.push({ target: first.target, text: `All ${chosen.length} are yours.${unsent}` });
  }
  return { automatic: null, actions: plans.map(({ action }) => action), answers };
}

/** The HTTP response of a webhook's receiver needs no confirmation. */
const confirms = ({ traits }: ReplyInput): boolean => traits.platform !== null;

function planAction(
  input: ReplyInput,
  one: Candidate,
  count: number,
): { readonly action: Action; readonly answer: string } {
  const { words, text: typed, traits, event } = input;
  const { row, target } = one;
  const handed = selectFiles(input.files, words, row, input.lineOf(row.channel));
  // A leading number that names no live escalation is part of the text.
  const text = words.number === null || words.number === row.number ? words.text : words.whole;
  const attached = handed.files.length > 0 || (handed.left !== null && words.note === "");
  const isEmpty = text === "" && handed.files.length === 0;
  const customer = input.customers.get(row.conversation ?? "") ?? null;
  const kind = customer && kindOf(input.lineOf(customer.channel));
  const trouble = isEmpty ? null : whyNotRelayed(customer, kind);
  const action: Action = {
    ...one,
    // Several responders may share one webhook, and its receiver reports the name. In mails and texts the
    // sender's name is not trustworthy.
    by: (traits.platform === null ? event.from.name : undefined) ?? target.name,
    note: words.note === "" ? null : words.note,
    acknowledge: words.acknowledge || text !== "" || attached,
    relay:
      isEmpty || trouble !== null || customer === null
        ? null
        : { customer, inCall: kind === "voice", text, files: handed.files },
    end: words.resume ? "resume" : words.close ? "close" : null,
    customer,
  };
  // A responder who already acknowledged the escalation may have meant this text for the customer.
  const mine = words.acknowledge && words.number === null && row.acknowledged_target === target.id;
  const unsent = row.conversation !== null && (words.ambiguous || mine);
  const parts = [
    trouble === null ? handed.left : `Your answer was not sent: ${trouble}.`,
    count === 1 && words.acknowledge && confirms(input) ? yoursText(row, unsent && typed) : null,
    words.note === "" || !confirms(input) ? null : "The note was kept, and nothing of it was sent.",
  ];
  return { action, answer: parts.filter((part) => part !== null).join(" ") };
}

/** Returns the platform of a channel that can send now, else null. A channel without a platform carries
 *  notifications and no conversations. */
export const kindOf = (line: ChannelRuntime | undefined): Traits["platform"] | null =>
  line?.outbound ? line.traits.platform : null;

/** Returns the reason for the responder when a text cannot be relayed; null when it can. `kind`: the
 *  platform of the customer's channel, null when it cannot send. A text is spoken only in the current
 *  call: the External API has no manual messages for calls. */
export function whyNotRelayed(
  customer: Pick<Customer, "channel" | "person" | "session"> | null,
  kind: Traits["platform"] | null,
): string | null {
  if (customer === null) return "it is about a channel, so there is no customer to answer";
  if (kind === null) return `channel ${customer.channel} cannot send now`;
  return kind === "voice" && customer.session === null ? `the call is over; the number is ${customer.person}` : null;
}

/** Confirms the acknowledgement. `unsent`: text that may have been meant for the customer. */
function yoursText({ conversation }: EscalationRow, unsent: string | false): string {
  if (unsent !== false) return `It is yours. "${firstLine(unsent)}" was not sent to the customer.`;
  return conversation === null ? "It is yours." : "It is yours. What you write now goes to the customer.";
}

const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? "";

/** Keeps automatic replies from acknowledging an escalation and from reaching the customer. The number of an
 *  escalation, a command, or the operator's release of the held message shows that a person wrote it. */
function automaticReply(input: ReplyInput, first: Candidate): ReplyPlan["automatic"] {
  const { number, resume, close, note } = input.words;
  const isNamed = number !== null && input.known.some(({ row }) => row.number === number);
  const isPerson = isNamed || resume || close || note !== "" || input.released;
  // The receiver of a webhook is a program of the operator, so its replies are always intended.
  if (isPerson || input.traits.platform === null) return null;
  const machine = machineReply(input.event.subject, input.text);
  if (machine === null) return null;
  const { level, reason } = machine;
  if (level === "certain") return { state: "ignored", code: "auto-reply", reason, level, text: null };
  const own = first.row.number;
  const text = `${own}: Your message looks like an automatic reply (${reason}), so nothing was sent to the customer, and nothing was done. If you wrote it, send it again and begin it with "${own}:".`;
  return { state: "held", code: "maybe-automatic", reason, level, text };
}

/** Returns the error text for a reply that must not be relayed; null when the reply is acceptable. */
function whatIsWrong(text: string, words: Instructions, files: number): string | null {
  if (words.slip !== null)
    return `"${words.slip.trim().slice(0, 40)}" is no command: those are #resume, #close and #note, each in a line of its own.`;
  // A reaction quotes the message it is attached to, and acknowledges it.
  if (!words.acknowledge && quotesNotification(text)) return "Your answer carries our own message; please remove it.";
  const { number, acknowledge, resume, close, note } = words;
  const empty = words.text === "" && number === null && !(acknowledge || resume || close || note);
  if (files === 0 && text.trim() !== "" && empty) return "There is nothing but a signature in your answer.";
  return null;
}

/** Returns true when the text may be meant for another customer. This is the case when the leading
 *  number names an open escalation of which this responder was not notified. With several known
 *  escalations, an apparent amount that equals the number of one of them counts too. */
function mayMeanAnother({ words, known, other }: ReplyInput): boolean {
  if (words.doubt !== null && known.length > 1) return known.some(({ row }) => row.number === words.doubt);
  return other !== null && other.state !== "closed";
}
