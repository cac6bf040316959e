// Renders and enqueues due notifications. Part of stage tell.

import { type Clock, externalId, type Log } from "bridgehead/contract";
import { type Address, firstTo, furtherTo } from "../../domain/address.ts";
import type { Policy } from "../../domain/policy.ts";
import { newToken } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import { insertNotice, openFor } from "../../pipeline/route/notices.ts";
import type { Query } from "../../store/driver.ts";
import {
  type ContactRow,
  dueNotices,
  giveLink,
  type NoticeRow,
  postponeNotice,
  sentIds,
} from "../../store/tables/contacts.ts";
import { conversationWith } from "../../store/tables/conversations.ts";
import { type EscalationRow, hastenEscalation, lockEscalations } from "../../store/tables/escalations.ts";
import { lockChannel } from "../../store/tables/events.ts";
import { groupOf } from "./decide.ts";
import { headlinesOf, matterOf } from "./details.ts";
import { hashOf } from "./links.ts";
import { webhookText } from "./payload.ts";
import { bindContacts, endNotices, readContacts } from "./rows.ts";
import {
  allTakenText,
  bounded,
  clipped,
  customerQuote,
  digestText,
  longText,
  type Matter,
  mostHeadlines,
  shortText,
  subjectOf,
} from "./templates.ts";

export interface SayDeps {
  readonly lines: () => ChannelRuntimes;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns the public URL of a link token for responders' browsers; null without a public URL. */
  readonly link: (token: string) => string | null;
  readonly timing: Timing;
}

/** Limit of notifications in one batch, and so in one message. */
const mostNotices = 1000;
/** Limit of a customer's message that is passed on by mail, in characters. */
const mostSaid = 20_000;

type Due = { readonly notice: NoticeRow; readonly contact: ContactRow; readonly row: EscalationRow };

/** Writes all due notifications. Several escalations for one address become one message. Returns the
 *  number of messages. */
export async function writeDue(q: Query, policy: Policy, deps: SayDeps): Promise<number> {
  const groups = new Map<string, Due[]>();
  let written = 0;
  const notices = await dueNotices(q, mostNotices, deps.timing.escalation.clockStep);
  if (notices.length === 0) return 0;
  const contacts = await readContacts(
    q,
    notices.map(({ contact }) => contact),
  );
  const due = notices.flatMap((notice) => {
    const contact = contacts.get(notice.contact);
    return contact ? [{ notice, contact }] : [];
  });
  // An acknowledgement at another node notifies the contacts that were notified before. The lock orders
  // each of these notifications before it, or cancels them.
  const rows = await lockEscalations(
    q,
    due.map(({ contact }) => contact.escalation),
    "free",
  );
  const cancelled: string[] = [];
  for (const { notice, contact } of due) {
    const row = rows.get(contact.escalation);
    if (!row) q.waits.add(deps.timing.escalation.notifyBusy);
    if (!row) continue;
    const telling = notice.kind === "told" || notice.kind === "again";
    // A responder has acknowledged the escalation, so further notifications are cancelled.
    if (telling && row.state !== "open") {
      cancelled.push(notice.id);
      continue;
    }
    const key = groupOf(notice, contact);
    groups.set(key, [...(groups.get(key) ?? []), { notice, contact, row }]);
  }
  await endNotices(q, cancelled, null);
  const details: Details = new Map();
  for (const group of groups.values()) {
    const place = await placeFor(q, group, deps);
    if (place === false) continue;
    await q
      .savepoint(() => write(q, policy, group.toSorted(byNumber), { ...deps, place, details }))
      .then(() => (written += 1))
      .catch((error: unknown) => unwritten(q, group, error, deps));
  }
  return written;
}

const byNumber = (a: Due, b: Due): number => a.row.number - b.row.number;

/** Returns the conversation with the recipient, on channels with one conversation per person; null when
 *  there is none. False: another node may be writing to the same address for the first time, so the
 *  notification waits until that is done. */
async function placeFor(q: Query, [head]: readonly Due[], deps: SayDeps): Promise<string | null | false> {
  if (!head) return null;
  const { channel, address, conversation } = head.contact;
  if (deps.lines().get(channel)?.traits.conversations !== "person") return null;
  const known = await conversationWith(q, channel, address);
  if (known !== null || conversation !== null) return known;
  if (!(await lockChannel(q, channel))) {
    q.waits.add(deps.timing.escalation.notifyBusy);
    return false;
  }
  // Another node may have opened one between the read and the lock.
  return conversationWith(q, channel, address);
}

/** Cache of details by escalation: all responders get the same. */
type Details = Map<string, Matter>;
type Writing = SayDeps & { readonly place: string | null; readonly details: Details };

async function detailsOf(q: Query, row: EscalationRow, details: Details): Promise<Matter> {
  const known = details.get(row.id) ?? (await matterOf(q, row));
  details.set(row.id, known);
  return known;
}

const idsOf = (group: readonly Due[]): readonly string[] => group.map(({ notice }) => notice.id);

/** Handles a notification that could not be written. The next step of the policy becomes due, and the
 *  notification is retried. */
async function unwritten(q: Query, group: readonly Due[], error: unknown, deps: SayDeps): Promise<void> {
  deps.log.error({ channel: group[0]?.contact.channel, err: error }, "writing a notification failed");
  const { notifyRetry, repeatFailed } = deps.timing.escalation;
  for (const { notice, row } of group) {
    await postponeNotice(q, notice.id, notifyRetry);
    await hastenEscalation(q, row.id, repeatFailed);
  }
}

async function write(q: Query, policy: Policy, group: readonly Due[], deps: Writing): Promise<void> {
  const [head] = group;
  if (!head) return;
  const line = deps.lines().get(head.contact.channel);
  if (!line) throw new Error(`telling of an escalation: there is no channel ${head.contact.channel}`);
  const { text, subject } = await textOf(q, policy, group, line, deps);
  const conversation = await conversationFor(q, group, line, subject, deps);
  const party = { address: head.contact.address, name: head.contact.name };
  // Later messages continue the thread of the first notification, where the channel has threads.
  const said = subject === null ? [] : await sentIds(q, conversation);
  const address: Address =
    said.length === 0 ? firstTo(party, subject) : furtherTo(party, subject, said.map(externalId));
  const notice = { channel: line.channel, conversation, address, text, forced: false };
  const reply = await insertNotice(q, deps.clock, notice);
  await endNotices(q, idsOf(group), reply);
}

interface Text {
  readonly text: string;
  readonly subject: string | null;
}

async function textOf(
  q: Query,
  policy: Policy,
  group: readonly Due[],
  line: ChannelRuntime,
  deps: Writing,
): Promise<Text> {
  const [head] = group;
  // A message about several escalations contains only headlines, so transcripts are not loaded.
  const rows = group.slice(0, mostHeadlines).map(({ row }) => row);
  const [only] = rows;
  const matters =
    group.length === 1 && only ? [await detailsOf(q, only, deps.details)] : await headlinesOf(q, rows);
  const [matter] = matters;
  if (!head || !matter) throw new Error("telling of an escalation: there is nothing to tell");
  const { notice, contact } = head;
  const links = notice.text === null && (group.length === 1 || contact.way === "webhook");
  const link = links && notice.kind !== "taken" ? await newLink(q, policy, contact, deps) : null;
  try {
    return worded(group, matters, link, line.traits.conversations === "thread");
  } catch (error) {
    deps.log.error({ escalation: head.row.number, err: error }, "rendering a notification failed");
    const text = `Escalation ${head.row.number} is ${head.row.state}. See: bridgehead escalation show ${head.row.number}`;
    const subject = line.traits.conversations === "thread" ? `[Escalation ${head.row.number}]` : null;
    return { text: link === null ? text : `${text}\n${link}`, subject };
  }
}

/** Returns the text of a message about `group`. `threads`: the channel has subjects. */
function worded(
  group: readonly Due[],
  matters: readonly Matter[],
  link: string | null,
  threads: boolean,
): Text {
  const [head] = group;
  const [matter] = matters;
  if (!head || !matter) throw new Error("telling of an escalation: there is nothing to tell");
  const subject = threads ? subjectOf(matter) : null;
  const { notice, contact } = head;
  const { way } = contact;
  if (way === "webhook") return { text: webhookText(matter, notice, contact, link), subject: null };
  if (notice.kind === "taken" && group.length > 1) {
    const numbers = group.map((one) => one.row.number);
    return { text: allTakenText(numbers, notice.subject), subject };
  }
  if (notice.text !== null) {
    const said = clipped(notice.text, mostSaid, matter.row.number);
    const quoted = notice.kind === "customer" ? customerQuote(way === "sms" ? notice.text : said) : said;
    return { text: way === "sms" ? bounded(quoted) : quoted, subject };
  }
  if (group.length > 1)
    return {
      text: digestText(way === "sms" ? matters.slice(0, 5) : matters, group.length),
      subject: subject && `${group.length} escalations are open`,
    };
  const again = notice.kind === "again";
  return { text: way === "sms" ? shortText(matter, link, again) : longText(matter, link, again), subject };
}

/** Creates a single-use link for the contact. It invalidates the contact's earlier link. */
async function newLink(q: Query, policy: Policy, contact: ContactRow, deps: SayDeps): Promise<string | null> {
  const token = newToken(26);
  const link = deps.link(token);
  if (link !== null) await giveLink(q, contact.id, hashOf(token), policy.expires);
  return link;
}

/** Returns the conversation for the message. Channels with threads use one thread per escalation, or one
 *  for a group. Other channels use one conversation per person. */
async function conversationFor(
  q: Query,
  group: readonly Due[],
  line: ChannelRuntime,
  subject: string | null,
  deps: Writing,
): Promise<string> {
  const [head] = group;
  if (!head) throw new Error("telling of an escalation: there is nobody to tell");
  const { contact } = head;
  const known = group.length === 1 || head.notice.kind === "taken" ? contact.conversation : null;
  const whom = { channel: line.channel, agent: line.agent, person: contact.address, subject };
  const conversation = known ?? deps.place ?? (await openFor(q, whom, deps.clock));
  // Later notifications stay in the conversation of the first one.
  const unbound = group.filter((one) => one.contact.conversation === null);
  await bindContacts(
    q,
    unbound.map((one) => one.contact.id),
    conversation,
  );
  return conversation;
}
