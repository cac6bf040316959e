// Loads an escalation with all details for its notifications.

import type { Query } from "../../store/driver.ts";
import { readConversation } from "../../store/tables/conversations.ts";
import { type EscalationRow } from "../../store/tables/escalations.ts";
import { sourcesOf } from "../../store/tables/sources.ts";
import { acquaintanceOf, type Said, transcriptOf } from "../../store/tables/transcript.ts";
import { readPersons } from "./rows.ts";
import type { Matter } from "./templates.ts";

/** Bounds of the transcript in a notification: messages, characters of each, characters of all. The whole transcript is
 *  in `bridgehead escalation show` and on the platform. */
const mostMessages = 200;
const mostPerMessage = 4000;
const mostCharacters = 40_000;

/** `details` selects the parts of the conversation. `none`: only the data of a headline. `bounded`: for
 *  a notification. `whole`: the newest messages in full length. */
export async function matterOf(
  q: Query,
  row: EscalationRow,
  details: "none" | "bounded" | "whole" = "bounded",
): Promise<Matter> {
  if (details === "none") {
    const [matter] = await headlinesOf(q, [row]);
    if (matter) return matter;
  }
  const sources = await sourcesOf(q, row.id);
  if (row.conversation === null) return { row, sources, person: null, subject: null, said: [] };
  const conversation = await readConversation(q, row.conversation);
  const { person, person_name, subject, platform_id } = conversation;
  const known = await acquaintanceOf(q, conversation, row.number);
  const { said, cut } = await transcript(q, row.conversation, details === "whole" ? "whole" : "bounded");
  return {
    row,
    sources,
    person: { address: person, name: person_name, known },
    platformId: platform_id,
    subject,
    said,
    cut,
  };
}

/** Returns the data of headlines, which contain no triggers and no transcript. */
export async function headlinesOf(q: Query, rows: readonly EscalationRow[]): Promise<readonly Matter[]> {
  const persons = await readPersons(
    q,
    rows.flatMap(({ conversation }) => conversation ?? []),
  );
  return rows.map((row) => {
    const found = row.conversation === null ? undefined : persons.get(row.conversation);
    const person = found ? { address: found.person, name: found.person_name, known: null } : null;
    const { subject = null, platform_id: platformId = null } = found ?? {};
    return { row, sources: [], person, platformId, subject, said: [], cut: false };
  });
}

/** Returns the newest messages that fit, oldest first. `cut` is true when older ones were left out. */
async function transcript(
  q: Query,
  conversation: string,
  details: "bounded" | "whole",
): Promise<{ readonly said: readonly Said[]; readonly cut: boolean }> {
  if (details === "whole") {
    const said = await transcriptOf(q, conversation, mostMessages + 1);
    return { said: said.slice(-mostMessages), cut: said.length > mostMessages };
  }
  const all = await transcriptOf(q, conversation, mostMessages + 1, mostPerMessage);
  let left = mostCharacters;
  const first = all.findLastIndex(({ text }, at) => {
    left -= text.length;
    return left < 0 || all.length - at > mostMessages;
  });
  return { said: all.slice(first + 1), cut: first >= 0 };
}
