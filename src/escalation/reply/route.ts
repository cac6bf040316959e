// Classifies the sender of a message: a responder who replies to a notification, a stranger, or a customer.
// Runs in stage route, before the guards for customers' messages. A responder's reply never reaches the
// agent, and it reaches the customer only when the sender is a contact of the escalation.

import type { MessageEvent } from "bridgehead/contract";
import { references } from "../../domain/thread.ts";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { Query } from "../../store/driver.ts";
import {
  addNotice,
  type ContactRow,
  contactsAt,
  contactsIn,
  contactsToldBy,
} from "../../store/tables/contacts.ts";
import { conversationByToken, conversationsCiting } from "../../store/tables/conversations.ts";
import { readEscalation } from "../../store/tables/escalations.ts";
import { type EventRow, settleEvent } from "../../store/tables/events.ts";
import { numberIn } from "../notify/templates.ts";
import { answer, type HearDeps, heed } from "./handle.ts";

/** Time after the end of an escalation in which a message still counts as a reply to it, in
 *  milliseconds. Applies where only the sender's address links the message to the escalation. */
const closedMs = 24 * 3_600_000;

/** Refusal code of an adapter for a message that exceeds its size limit, usually because of attachments. */
const tooLarge = "too-large";
const unreadText =
  "Your message is too large to be read. Nothing was sent to the customer, and nothing was done.";
const sealedText =
  "Your message cannot be read. Nothing was sent to the customer, and nothing was done. Please answer in plain text, without encryption. The reason: ";

/** Returns true when the message was a responder's reply, or a stranger's about an escalation. Its event
 *  is settled then. */
export async function hear(
  q: Query,
  line: ChannelRuntime,
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
  const { from, contacts } = await writerOf(q, line, event);
  const [contact] = contacts;
  if (!contact) return false;
  if (from === "stranger") {
    if (!event.refusal || event.refusal.hold) await tellOfStranger(q, event, contacts, deps);
    return ignore("not-a-recipient", "it answers an escalation, and its sender was not told of it");
  }
  const sealed = event.refusal?.hold === true;
  if (sealed && event.text.trim() === "" && !event.wordless && event.sender !== "unverified") {
    await answer(q, row, contact, `${sealedText}${event.refusal?.reason}.`, deps);
    return ignore(event.refusal?.code ?? "", event.refusal?.reason ?? "");
  }
  // When only an encrypted file cannot be read, the text counts. The responder learns that the file was not
  // relayed.
  if (event.refusal && !sealed) {
    if (event.refusal.code === tooLarge) await answer(q, row, contact, unreadText, deps);
    return ignore(event.refusal.code, event.refusal.reason);
  }
  if (event.sender === "unverified")
    return ignore("not-authenticated", "it answers an escalation, and its sender is not proven");
  if (from === "subject") {
    const { number } = await readEscalation(q, contact.escalation);
    await answer(q, row, contact, `${number}: ${unthreadedText}`, deps);
    return ignore("not-threaded", "it names an escalation, and answers no mail of ours");
  }
  const unheeded = await heed(q, line, row, event, contacts, deps);
  const { conversation } = contact;
  await settleEvent(q, row.id, {
    ...(unheeded ?? { state: "routed", code: "human" }),
    ...(conversation === null ? {} : { conversation }),
  });
  return true;
}

const unthreadedText =
  "Your mail is no answer to ours, so nothing of it was sent to the customer. Please answer the mail that told you.";

interface Writer {
  /** answer: a reply to a notification of these contacts. subject: only the subject names the
   *  escalation. stranger: the notification went to these contacts, and another address replied. */
  readonly from: "answer" | "subject" | "stranger";
  /** Newest first; empty for a customer. */
  readonly contacts: readonly ContactRow[];
}

async function writerOf(q: Query, line: ChannelRuntime, event: MessageEvent): Promise<Writer> {
  const sender = event.from.address.toLowerCase();
  if (line.traits.conversations === "person")
    return { from: "answer", contacts: await contactsAt(q, line.channel, sender, closedMs) };
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
  if (own.length > 0) return { from: "answer", contacts: own };
  for (const id of contacts.length > 0 ? [] : answers)
    contacts.push(...(await contactsToldBy(q, line.channel, id)));
  if (contacts.length > 0) return { from: "stranger", contacts };
  return { from: "subject", contacts: conversations.length > 0 ? [] : await named(q, line, event) };
}

/** Finds contacts by the escalation number in the subject. Some mail programs drop In-Reply-To and keep
 *  the subject. */
async function named(q: Query, line: ChannelRuntime, event: MessageEvent): Promise<readonly ContactRow[]> {
  const number = numberIn(event.subject ?? "");
  if (number === null) return [];
  const contacts: ContactRow[] = [];
  for (const contact of await contactsAt(q, line.channel, event.from.address.toLowerCase(), closedMs))
    if ((await readEscalation(q, contact.escalation)).number === number) contacts.push(contact);
  return contacts;
}

/** Notifies the contact that another address has replied: the contact may have used a second address and
 *  expects an effect. Sent once per address, because the address may belong to an autoresponder. The
 *  stranger gets no message. */
async function tellOfStranger(
  q: Query,
  event: MessageEvent,
  contacts: readonly ContactRow[],
  deps: HearDeps,
): Promise<void> {
  const [contact] = contacts;
  if (!contact) return;
  const { number, state } = await readEscalation(q, contact.escalation);
  if (state === "closed") return;
  const text = `${number}: ${event.from.address} has answered our mail to you, and was not told of this: nothing of it was sent. If that was you, please answer from ${contact.address}.`;
  const id = newId(deps.clock.now());
  await addNotice(
    q,
    { id, contact: contact.id, kind: "said", subject: `from:${event.from.address}`, text },
    0,
  );
}
