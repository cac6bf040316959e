// Handles a responder's reply to a notification. "ok" acknowledges the escalation, commands close it or
// return it to the agent, and other text goes to the customer. Ambiguous replies are not relayed, and the
// responder is notified of that.

import type { Clock, Log, MessageEvent } from "bridgehead/contract";
import { type Instructions, readInstructions } from "../../domain/instructions.ts";
import { machineReply } from "../../domain/machine-reply.ts";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import type { Query } from "../../store/driver.ts";
import { addNotice, type ContactRow, countSaid } from "../../store/tables/contacts.ts";
import {
  type EscalationRow,
  escalationByNumber,
  lockEscalations,
  readEscalation,
} from "../../store/tables/escalations.ts";
import type { EventRow } from "../../store/tables/events.ts";
import { meantFiles } from "../../store/tables/files.ts";
import { addSource } from "../../store/tables/sources.ts";
import { carriesNotice } from "../notify/templates.ts";
import { close, resume, take } from "./acknowledge.ts";
import { type HandedOn, handOn } from "./files.ts";
import { relay } from "./relay.ts";

export interface HearDeps {
  readonly lines: () => ChannelRuntimes;
  readonly clock: Clock;
  readonly log: Log;
}

/** Limit of our answers to one contact within `loopMs`. */
const mostSaid = 20;
const loopMs = 3_600_000;

/** Limit of escalation numbers in one answer; more do not fit into an SMS. */
const mostNamed = 10;

interface Live {
  readonly contact: ContactRow;
  readonly row: EscalationRow;
}

/** State and reason that settle the event of a reply that was neither relayed nor accepted as an
 *  acknowledgement. */
export interface Unheeded {
  readonly state: "ignored" | "held";
  readonly code: string;
  readonly reason: string;
}

/** Applies the reply. `contacts`: the contacts of the sender for the notifications it answers, newest
 *  first. Returns null when the message was handled. Otherwise it looks like an automatic reply, and
 *  nothing was done. */
export async function heed(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: MessageEvent,
  contacts: readonly ContactRow[],
  deps: HearDeps,
): Promise<Unheeded | null> {
  // Locked, so that a close at another node happens before or after this transaction.
  const rows = await lockEscalations(
    q,
    contacts.map(({ escalation }) => escalation),
  );
  const known = new Map<string, Live>();
  for (const contact of contacts) {
    const row = rows.get(contact.escalation);
    if (row && !known.has(row.id)) known.set(row.id, { contact, row });
  }
  const live = [...known.values()].filter(({ row: { state } }) => state !== "closed");
  const [first] = contacts;
  if (!first) return null;
  const say = (contact: ContactRow, text: string) => answer(q, row, contact, text, deps);
  // The HTTP response of a webhook's receiver needs no confirmation.
  const confirms = line.traits.platform !== null;
  const files = await meantFiles(q, row.id);
  // A message with files and no text of the sender contains only our notification or a signature.
  const text = event.wordless && files.length > 0 ? "" : event.text;
  const names = line.traits.platform === null ? [] : [first.name, event.from.name ?? ""];
  const words = readInstructions(text, names, known.size > 1);
  const machine = await automatic(q, { line, row, event, text, words, known, first }, deps);
  if (machine !== null) return machine;
  const wrong = whatIsWrong(text, words, files.length);
  if (wrong !== null) {
    await say(first, `${wrong} Nothing was sent to the customer, and nothing was done.`);
    return null;
  }
  const strange = await mayMeanAnother(q, line, words, [...known.values()]);
  const chosen = strange ? "ask" : choose([...known.values()], live, words);
  if (chosen === "ask") {
    const all = live.map((one) => one.row.number);
    const numbers = [...all.slice(0, mostNamed), ...(all.length > mostNamed ? ["..."] : [])].join(", ");
    await say(
      first,
      `Which one do you mean: ${numbers}? Write its number and a colon first. Nothing was sent.`,
    );
    return null;
  }
  if (chosen.length === 0) {
    await say(first, "That escalation is closed. Nothing was sent to the customer.");
    return null;
  }
  for (const one of chosen) {
    const handed = handOn(files, words, one.row, deps.lines().get(one.row.channel));
    const trouble = await act(q, row, one, { words, handed, name: nameOf(line, event, one.contact) }, deps);
    // A responder who already acknowledged the escalation may have meant this text for the customer.
    const mine = words.acknowledge && words.number === null && one.row.taken_contact === one.contact.id;
    const unsent = one.row.conversation !== null && (words.ambiguous || mine);
    const yours =
      chosen.length === 1 && words.acknowledge && confirms ? yoursText(one.row, unsent && text) : null;
    const noted = words.note === "" || !confirms ? null : "The note was kept, and nothing of it was sent.";
    const left = trouble === null ? handed.left : null;
    const said = [trouble, left, yours, noted].filter((part) => part !== null).join(" ");
    if (said !== "") await say(one.contact, `${one.row.number}: ${said}`);
  }
  // One confirmation for all escalations.
  if (chosen.length > 1 && words.acknowledge && confirms) {
    const unsent = words.ambiguous ? ` "${firstLine(text)}" was sent to no customer.` : "";
    await say(first, `All ${chosen.length} are yours.${unsent}`);
  }
  return null;
}

/** Confirms the acknowledgement. `unsent`: text that may have been meant for the customer. */
const yoursText = ({ conversation }: EscalationRow, unsent: string | false): string => {
  if (unsent !== false) return `It is yours. "${firstLine(unsent)}" was not sent to the customer.`;
  return conversation === null ? "It is yours." : "It is yours. What you write now goes to the customer.";
};

const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? "";

/** Enqueues a message to the contact. Limited to `mostSaid` messages per `loopMs`. */
export async function answer(
  q: Query,
  row: EventRow,
  contact: ContactRow,
  text: string,
  deps: HearDeps,
): Promise<void> {
  // Stops a mail loop between two autoresponders.
  if ((await countSaid(q, contact, loopMs)) >= mostSaid) {
    deps.log.warn({ channel: row.channel, event: row.id }, "not answered: a loop is assumed");
    return;
  }
  const id = newId(deps.clock.now());
  await addNotice(q, { id, contact: contact.id, kind: "said", subject: `event:${row.id}`, text }, 0);
}

/** Window in milliseconds in which a responder gets at most one message that a reply was held. The
 *  address may belong to an autoresponder. */
const heldToldMs = 3_600_000;

/** Keeps automatic replies from acknowledging an escalation and from reaching the customer. The number
 *  of an escalation, a command, or the operator's release of the held message shows that a person wrote
 *  it. */
async function automatic(
  q: Query,
  {
    line,
    row,
    event,
    text,
    words,
    known,
    first,
  }: {
    readonly line: ChannelRuntime;
    readonly row: EventRow;
    readonly event: MessageEvent;
    readonly text: string;
    readonly words: Instructions;
    readonly known: ReadonlyMap<string, Live>;
    readonly first: ContactRow;
  },
  deps: HearDeps,
): Promise<Unheeded | null> {
  const { number, resume, close: closes, note } = words;
  const isNamed = number !== null && [...known.values()].some((one) => one.row.number === number);
  const isPerson = isNamed || resume || closes || note !== "" || row.code === "released";
  // The receiver of a webhook is a program of the operator, so its replies are always intended.
  if (isPerson || line.traits.platform === null) return null;
  const machine = machineReply(event.subject, text);
  if (machine === null) return null;
  const { level, reason } = machine;
  deps.log.warn(
    { channel: line.channel, event: row.id, level },
    "escalation reply looks automatic, not relayed",
  );
  if (level === "certain") return { state: "ignored", code: "auto-reply", reason };
  const { number: own } = await readEscalation(q, first.escalation);
  const told = `${own}: Your message looks like an automatic reply (${reason}), so nothing was sent to the customer, and nothing was done. If you wrote it, send it again and begin it with "${own}:".`;
  const subject = `held:${Math.floor(deps.clock.now() / heldToldMs)}`;
  await addNotice(
    q,
    { id: newId(deps.clock.now()), contact: first.id, kind: "said", subject, text: told },
    0,
  );
  return { state: "held", code: "maybe-automatic", reason };
}

/** Returns the error text for a reply that must not be relayed; null when the reply is acceptable. */
function whatIsWrong(text: string, words: Instructions, files: number): string | null {
  if (words.slip !== null)
    return `"${words.slip.trim().slice(0, 40)}" is no command: those are #resume, #close and #note, each in a line of its own.`;
  // A reaction quotes the message it is attached to, and acknowledges it.
  if (!words.acknowledge && carriesNotice(text))
    return "Your answer carries our own message; please remove it.";
  const { number, acknowledge, resume, close: closes, note } = words;
  const empty = words.text === "" && number === null && !(acknowledge || resume || closes || note);
  if (files === 0 && text.trim() !== "" && empty) return "There is nothing but a signature in your answer.";
  return null;
}

/** Returns true when the text may be meant for another customer. This is the case when the leading
 *  number names an open escalation of which this responder was not notified. With several known
 *  escalations, an apparent amount that equals the number of one of them counts too. */
async function mayMeanAnother(
  q: Query,
  line: ChannelRuntime,
  words: Instructions,
  known: readonly Live[],
): Promise<boolean> {
  const isKnown = (number: number) => known.some(({ row }) => row.number === number);
  if (words.doubt !== null && known.length > 1) return isKnown(words.doubt);
  const number = words.number ?? words.doubt;
  if (line.traits.conversations !== "person" || number === null || isKnown(number)) return false;
  const other = await escalationByNumber(q, number);
  return other !== null && other.state !== "closed";
}

/** Selects the escalations: the one named, the only live one, all for a plain "ok", or the one this
 *  responder acknowledged. */
function choose(known: readonly Live[], live: readonly Live[], words: Instructions): readonly Live[] | "ask" {
  if (words.number !== null) {
    const named = known.filter(({ row }) => row.number === words.number);
    // A number that names a closed escalation does not acknowledge the other open ones. Their notifications
    // would end although no responder knows of the acknowledgement.
    if (named.length > 0) return named.filter(({ row }) => row.state !== "closed");
    if (words.acknowledge && live.length > 0) return "ask";
  }
  if (live.length <= 1 || words.acknowledge) return live;
  const taken = live.filter(({ row, contact }) => row.taken_contact === contact.id);
  return taken.length === 1 ? taken : "ask";
}

/** Several responders may share one webhook, and its receiver reports the name. In mails and texts the
 *  sender's name is not trustworthy. */
const nameOf = (line: ChannelRuntime, event: MessageEvent, contact: ContactRow): string =>
  (line.traits.platform === null ? event.from.name : undefined) ?? contact.name;

/** Executes the reply for one escalation. Returns the error for the responder; null on success. */
async function act(
  q: Query,
  event: EventRow,
  { contact, row }: Live,
  { words, handed, name }: { readonly words: Instructions; readonly handed: HandedOn; readonly name: string },
  deps: HearDeps,
): Promise<string | null> {
  const by = { name, contact: contact.id };
  // A leading number that names no live escalation is part of the text.
  const text = words.number === null || words.number === row.number ? words.text : words.whole;
  if (words.note !== "") {
    const key = `note:${event.id}:${row.id}`;
    await addSource(q, { key, escalation: row.id, source: "note", detail: `${name}: ${words.note}` });
  }
  const attached = handed.files.length > 0 || (handed.left !== null && words.note === "");
  if (words.acknowledge || text !== "" || attached) await take(q, row, by, deps);
  const kindOf = (channel: string) => {
    const line = deps.lines().get(channel);
    return line?.outbound ? line.traits.platform : null;
  };
  const nothing = text === "" && handed.files.length === 0;
  const said = { text, files: handed.files };
  const trouble = nothing ? null : await relay(q, row, said, { ...deps, kindOf });
  if (words.resume) await resume(q, row, name, deps);
  else if (words.close) await close(q, row, name, deps);
  return trouble === null ? null : `Your answer was not sent: ${trouble}.`;
}
