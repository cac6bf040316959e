// JSON body of a webhook notification. The field names are a stable interface: fields are added, never
// changed.

import type { ContactRow, NoticeRow } from "../../store/tables/contacts.ts";
import { chatText, clipped, customerQuote, harmless, type Matter } from "./templates.ts";

const types = {
  told: "escalation.opened",
  again: "escalation.open",
  taken: "escalation.taken",
  customer: "escalation.message",
  said: "escalation.notice",
} as const;

/** Limits in characters: a message, and a single fact. */
const mostText = 20_000;
const mostFact = 2000;

const fact = <T extends string | null>(text: T): T | string =>
  text === null || text.length <= mostFact ? text : text.slice(0, mostFact).toWellFormed();

/** Returns the body of a delivery. `timestamp` is the time when the escalation was opened; the time of
 *  the delivery is in its headers. Chats (Slack, Mattermost, Rocket.Chat) show the top-level `text`.
 *  `link`: page with the button that acknowledges. */
export function webhookText(
  matter: Matter,
  notice: NoticeRow,
  contact: ContactRow,
  link: string | null,
): string {
  const { row, person, subject, sources, said } = matter;
  const text = notice.text === null ? null : clipped(notice.text, mostText, row.number);
  const quoted = text !== null && notice.kind === "customer" ? customerQuote(text) : text;
  return JSON.stringify({
    type: types[notice.kind],
    timestamp: new Date(row.opened_at).toISOString(),
    text: quoted === null ? chatText(matter, link, notice.kind === "again") : harmless(quoted),
    data: {
      escalation: row.number,
      state: row.state,
      cause: row.cause,
      topic: fact(row.topic),
      reason: fact(row.reason),
      agent: row.agent,
      channel: row.channel,
      conversation: row.conversation,
      customer: person && { ...person, address: fact(person.address), name: fact(person.name) },
      subject: fact(subject),
      sources: sources.map(({ source }) => source),
      takenBy: row.taken_by,
      told: contact.name,
      link,
      text,
      ...(matter.cut ? { transcriptCut: true } : {}),
      transcript: said.map(({ at, ...one }) => ({
        at: new Date(at).toISOString(),
        who: one.who,
        text: one.text,
        ...(one.cut ? { charactersCut: one.cut } : {}),
        ...(one.other ? { other: one.other } : {}),
      })),
    },
  });
}
