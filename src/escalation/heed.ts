// What a person who was told of an escalation writes back, and what follows from it: an "ok" takes it, commands end it or give
// it back, words go to the customer. Whatever is not clear goes nowhere, and the person learns that.

import type { Clock, Log, MessageEvent } from "bridgehead/contract";
import { type Instructions, readInstructions } from "../domain/instructions.ts";
import { machineReply } from "../domain/machine-reply.ts";
import { newId } from "../ops/clock.ts";
import type { Line, Lines } from "../pipeline/line.ts";
import { addNotice, type ContactRow, countSaid } from "../store/contacts.ts";
import type { Query } from "../store/driver.ts";
import {
  type EscalationRow,
  escalationByNumber,
  lockEscalations,
  readEscalation,
} from "../store/escalations.ts";
import type { EventRow } from "../store/events.ts";
import { meantFiles } from "../store/files.ts";
import { addSource } from "../store/sources.ts";
import { type HandedOn, handOn } from "./files.ts";
import { relay } from "./relay.ts";
import { close, resume, take } from "./take.ts";
import { carriesNotice } from "./wording.ts";

export interface HearDeps {
  readonly lines: () => Lines;
  readonly clock: Clock;
  readonly log: Log;
}

/** So many of our answers within that time are enough for one contact. */
const mostSaid = 20;
const loopMs = 3_600_000;

/** More numbers do not fit into a text. */
const mostNamed = 10;

interface Live {
  readonly contact: ContactRow;
  readonly row: EscalationRow;
}

/** Why a responder's message was neither relayed nor taken for an acknowledgement, as its event is settled. */
export interface Unheeded {
  readonly state: "ignored" | "held";
  readonly code: string;
  readonly reason: string;
}

/** Does what that person wants; `contacts`: as which they were told of what they answer, newest first. Null when the message
 *  was handled; otherwise it looks like an automatic reply, and nothing was done. */
export async function heed(
  q: Query,
  line: Line,
  row: EventRow,
  event: MessageEvent,
  contacts: readonly ContactRow[],
  deps: HearDeps,
): Promise<Unheeded | null> {
  // Locked: what another node hears at the same time, that it is over, counts before this or after it.
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
  // What a webhook's receiver has answered needs no answer.
  const confirms = line.traits.platform !== null;
  const files = await meantFiles(q, row.id);
  // With files and no word of the person's own, what stands there is our notice, or a signature.
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
    // Whoever has it already may have said that to the customer.
    const mine = words.acknowledge && words.number === null && one.row.taken_contact === one.contact.id;
    const unsent = one.row.conversation !== null && (words.ambiguous || mine);
    const yours =
      chosen.length === 1 && words.acknowledge && confirms ? yoursText(one.row, unsent && text) : null;
    const noted = words.note === "" || !confirms ? null : "The note was kept, and nothing of it was sent.";
    const left = trouble === null ? handed.left : null;
    const said = [trouble, left, yours, noted].filter((part) => part !== null).join(" ");
    if (said !== "") await say(one.contact, `${one.row.number}: ${said}`);
  }
  // Once, however many they are.
  if (chosen.length > 1 && words.acknowledge && confirms) {
    const unsent = words.ambiguous ? ` "${firstLine(text)}" was sent to no customer.` : "";
    await say(first, `All ${chosen.length} are yours.${unsent}`);
  }
  return null;
}

/** `unsent`: words that may have been meant for the customer. */
const yoursText = ({ conversation }: EscalationRow, unsent: string | false): string => {
  if (unsent !== false) return `It is yours. "${firstLine(unsent)}" was not sent to the customer.`;
  return conversation === null ? "It is yours." : "It is yours. What you write now goes to the customer.";
};

const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? "";

/** Says something to the person who wrote, or is concerned; not without end. */
export async function answer(
  q: Query,
  row: EventRow,
  contact: ContactRow,
  text: string,
  deps: HearDeps,
): Promise<void> {
  // Two machines that answer each other would never end.
  if ((await countSaid(q, contact, loopMs)) >= mostSaid) {
    deps.log.warn({ channel: row.channel, event: row.id }, "not answered: a loop is assumed");
    return;
  }
  const id = newId(deps.clock.now());
  await addNotice(q, { id, contact: contact.id, kind: "said", subject: `event:${row.id}`, text }, 0);
}

/** A responder hears at most so often that a message was held: behind the address may be a machine that answers everything. */
const heldToldMs = 3_600_000;

/** Keeps automatic replies from acknowledging an escalation and from reaching the customer. The number of an escalation, a
 *  command, or the operator's release of the held message shows that a person wrote it. */
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
    readonly line: Line;
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
  // Behind a webhook is a program of the operator's.
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

/** What must not be taken for an answer, however it came about; null when there is nothing of that. */
function whatIsWrong(text: string, words: Instructions, files: number): string | null {
  if (words.slip !== null)
    return `"${words.slip.trim().slice(0, 40)}" is no command: those are #resume, #close and #note, each in a line of its own.`;
  // A reaction quotes what it is put on, and takes it.
  if (!words.acknowledge && carriesNotice(text))
    return "Your answer carries our own message; please remove it.";
  const { number, acknowledge, resume, close: closes, note } = words;
  const empty = words.text === "" && number === null && !(acknowledge || resume || closes || note);
  if (files === 0 && text.trim() !== "" && empty) return "There is nothing but a signature in your answer.";
  return null;
}

/** A number in front may be one that is not closed, and that this person was not told of; or what looks like an amount, one
 *  of several that they were told of: the words may be for another customer. */
async function mayMeanAnother(
  q: Query,
  line: Line,
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

/** Which escalations are meant: the one named; the only one; all, for a mere "ok"; else the one this person has taken. */
function choose(known: readonly Live[], live: readonly Live[], words: Instructions): readonly Live[] | "ask" {
  if (words.number !== null) {
    const named = known.filter(({ row }) => row.number === words.number);
    // One that is over takes no other along: nobody would be told of that any more, and nobody would know of it.
    if (named.length > 0) return named.filter(({ row }) => row.state !== "closed");
    if (words.acknowledge && live.length > 0) return "ask";
  }
  if (live.length <= 1 || words.acknowledge) return live;
  const taken = live.filter(({ row, contact }) => row.taken_contact === contact.id);
  return taken.length === 1 ? taken : "ask";
}

/** Behind a webhook may be many people, and the receiver knows who it was. In mails and texts anybody may write any name. */
const nameOf = (line: Line, event: MessageEvent, contact: ContactRow): string =>
  (line.traits.platform === null ? event.from.name : undefined) ?? contact.name;

/** What could not be done, for the person; null when all was. */
async function act(
  q: Query,
  event: EventRow,
  { contact, row }: Live,
  { words, handed, name }: { readonly words: Instructions; readonly handed: HandedOn; readonly name: string },
  deps: HearDeps,
): Promise<string | null> {
  const by = { name, contact: contact.id };
  // A number that is none of the open ones is a part of the words.
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
