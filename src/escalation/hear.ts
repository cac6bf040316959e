// A human's answer to what we told them. Part of stage route, before the guards of customers' messages: it never reaches
// the agent, and nothing of it reaches the customer unless it comes from somebody who was told.

import type { Clock, Log, MessageEvent } from "bridgehead/contract";
import { type Instructions, readInstructions } from "../domain/instructions.ts";
import { references } from "../domain/thread.ts";
import { newId } from "../ops/clock.ts";
import type { Line, Lines } from "../pipeline/line.ts";
import {
  addNotice,
  type ContactRow,
  contactsAt,
  contactsIn,
  countSaid,
  isNoticeId,
} from "../store/contacts.ts";
import { conversationByToken, conversationsCiting } from "../store/conversations.ts";
import type { Query } from "../store/driver.ts";
import { type EscalationRow, escalationByNumber, lockEscalations } from "../store/escalations.ts";
import { type EventRow, settleEvent } from "../store/events.ts";
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

/** How long after its end a person's words are still taken for an answer to an escalation, where nothing but the
 *  address says so. */
const closedMs = 24 * 3_600_000;

/** So many of our answers within that time are enough for one contact. */
const mostSaid = 20;
const loopMs = 3_600_000;

/** What an adapter calls a message that it did not read for its size: mostly for what is attached. */
const tooLarge = "too-large";
const unreadText =
  "Your message is too large to be read. Nothing was sent to the customer, and nothing was done.";

/** More numbers do not fit into a text. */
const mostNamed = 10;

interface Live {
  readonly contact: ContactRow;
  readonly row: EscalationRow;
}

/** True when the message was a human's, or a stranger's about an escalation; its event is settled then. */
export async function hear(
  q: Query,
  line: Line,
  row: EventRow,
  event: MessageEvent,
  deps: HearDeps,
): Promise<boolean> {
  if ("session" in event.thread) return false;
  const ignore = async (code: string, reason: string) => {
    deps.log.warn({ channel: line.channel, event: row.id, code }, "an answer to an escalation is not heeded");
    await settleEvent(q, row.id, { state: "ignored", code, reason });
    return true;
  };
  const found = await contactsFor(q, line, event);
  if (found === "not-ours") return false;
  if (found === "strangers")
    return ignore("not-a-recipient", "it answers an escalation, and its sender was not told of it");
  if (event.refusal) {
    const [contact] = found;
    if (event.refusal.code === tooLarge && contact) await answer(q, row, contact, unreadText, deps);
    return ignore(event.refusal.code, event.refusal.reason);
  }
  if (event.sender === "unverified")
    return ignore("not-authenticated", "it answers an escalation, and its sender is not proven");
  await heed(q, line, row, event, found, deps);
  const conversation = found[0]?.conversation;
  await settleEvent(q, row.id, {
    state: "routed",
    code: "human",
    ...(conversation == null ? {} : { conversation }),
  });
  return true;
}

/** The contacts that the message answers, newest first. */
async function contactsFor(
  q: Query,
  line: Line,
  event: MessageEvent,
): Promise<readonly ContactRow[] | "not-ours" | "strangers"> {
  const sender = event.from.address.toLowerCase();
  if (line.traits.conversations === "person") {
    const at = await contactsAt(q, line.channel, sender, closedMs);
    return at.length > 0 ? at : "not-ours";
  }
  const { answers, tokens } = references(event);
  const conversations: string[] = [];
  for (const id of answers) conversations.push(...(await conversationsCiting(q, line.channel, id, sender)));
  for (const token of tokens) {
    const conversation = await conversationByToken(q, line.channel, token);
    if (conversation !== null) conversations.push(conversation);
  }
  const contacts: ContactRow[] = [];
  for (const id of new Set(conversations)) contacts.push(...(await contactsIn(q, id)));
  const own = contacts.filter(({ address }) => address.toLowerCase() === sender);
  if (own.length > 0) return own;
  if (contacts.length > 0) return "strangers";
  for (const id of answers) if (await isNoticeId(q, line.channel, id)) return "strangers";
  return "not-ours";
}

async function heed(
  q: Query,
  line: Line,
  row: EventRow,
  event: MessageEvent,
  contacts: readonly ContactRow[],
  deps: HearDeps,
): Promise<void> {
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
  if (!first) return;
  const say = (contact: ContactRow, text: string) => answer(q, row, contact, text, deps);
  const files = await meantFiles(q, row.id);
  // With files and no word of the person's own, what stands there is our notice, or a signature.
  const text = event.wordless && files.length > 0 ? "" : event.text;
  const names = line.traits.platform === null ? [] : [first.name, event.from.name ?? ""];
  const words = readInstructions(text, names, known.size > 1);
  const wrong = whatIsWrong(text, words, files.length);
  if (wrong !== null) {
    await say(first, `${wrong} Nothing was sent to the customer, and nothing was done.`);
    return;
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
    return;
  }
  if (chosen.length === 0) {
    await say(first, "That escalation is closed. Nothing was sent to the customer.");
    return;
  }
  for (const one of chosen) {
    const handed = handOn(files, words, one.row, deps.lines().get(one.row.channel));
    const trouble = await act(q, row, one, { words, handed, name: nameOf(line, event, one.contact) }, deps);
    // Whoever has it already may have said that to the customer.
    const mine = words.acknowledge && words.number === null && one.row.taken_contact === one.contact.id;
    const unsure =
      chosen.length === 1 && (words.ambiguous || mine) && one.row.conversation !== null
        ? `It is yours. "${firstLine(text)}" was not sent to the customer.`
        : null;
    const left = trouble === null ? handed.left : null;
    const said = [trouble, left, unsure].filter((part) => part !== null).join(" ");
    if (said !== "") await say(one.contact, `${one.row.number}: ${said}`);
  }
  // Once, however many they are.
  if (chosen.length > 1 && words.ambiguous)
    await say(first, `All of them are yours. "${firstLine(text)}" was sent to no customer.`);
}

const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? "";

async function answer(
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
