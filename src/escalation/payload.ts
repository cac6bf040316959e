// What a webhook is told, as JSON. The field names are ours and stay: additions only.

import type { ContactRow, NoticeRow } from "../store/contacts.ts";
import type { Matter } from "./wording.ts";

const types = {
  told: "escalation.opened",
  again: "escalation.open",
  taken: "escalation.taken",
  customer: "escalation.message",
  said: "escalation.notice",
} as const;

/** The body of a delivery. `timestamp` is when the escalation was opened: the delivery's own is in its headers. */
export function webhookText(matter: Matter, notice: NoticeRow, contact: ContactRow): string {
  const { row, person, subject, sources, said } = matter;
  return JSON.stringify({
    type: types[notice.kind],
    timestamp: new Date(row.opened_at).toISOString(),
    data: {
      escalation: row.number,
      state: row.state,
      cause: row.cause,
      topic: row.topic,
      reason: row.reason,
      agent: row.agent,
      channel: row.channel,
      conversation: row.conversation,
      customer: person,
      subject,
      sources: sources.map(({ source }) => source),
      takenBy: row.taken_by,
      told: contact.name,
      text: notice.text,
      transcript: said.map(({ at, who, text }) => ({ at: new Date(at).toISOString(), who, text })),
    },
  });
}
