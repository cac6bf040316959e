// An escalation with everything that people are told about it.

import { readConversation } from "../store/conversations.ts";
import type { Query } from "../store/driver.ts";
import { type EscalationRow } from "../store/escalations.ts";
import { sourcesOf } from "../store/sources.ts";
import { acquaintanceOf, transcriptOf } from "../store/transcript.ts";
import type { Matter } from "./wording.ts";

/** Enough for a person to see what it is about; the platform has the rest. */
const mostSaid = 200;

/** `whole`: with what was said, and what is known of the customer. */
export async function matterOf(q: Query, row: EscalationRow, whole = true): Promise<Matter> {
  const sources = await sourcesOf(q, row.id);
  if (row.conversation === null) return { row, sources, person: null, subject: null, said: [] };
  const conversation = await readConversation(q, row.conversation);
  const { person, person_name, subject, platform_id } = conversation;
  const known = whole ? await acquaintanceOf(q, conversation, row.number) : null;
  const said = whole ? await transcriptOf(q, row.conversation, mostSaid + 1) : [];
  return {
    row,
    sources,
    person: { address: person, name: person_name, known },
    platformId: platform_id,
    subject,
    said: said.slice(-mostSaid),
    cut: said.length > mostSaid,
  };
}
