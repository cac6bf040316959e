// Finds everything that the store holds about one person: the conversations that the person's addresses opened, and what
// these addresses wrote in the conversations of others.

import type { Query } from "../driver.ts";
import type { ConversationRow } from "../tables/conversations.ts";
import { remainingOnPlatform } from "./ledger.ts";

export interface PersonRecords {
  /** The addresses as the store writes them, such as `whatsapp:+15550111`; lower case. */
  readonly addresses: readonly string[];
  /** Ids of the person's conversations. */
  readonly conversations: readonly string[];
  /** Numbers of events that the person sent elsewhere, or that were not routed. */
  readonly events: readonly number[];
  /** Ids of the platform's conversations, with the agent of each; also those of erased conversations, until the platform
   *  has deleted them. */
  readonly platform: readonly { readonly id: string; readonly agent: string }[];
  /** Other addresses whose conversations have the same name: probably the same person. */
  readonly probable: readonly string[];
}

/** `given`: addresses as the operator writes them, and their canonical forms. */
export async function findPerson(q: Query, given: readonly string[]): Promise<PersonRecords> {
  const wanted = [...new Set(given.map((one) => one.trim().toLowerCase()).filter((one) => one !== ""))];
  const found = new Set<string>();
  for (const address of wanted) {
    found.add(address);
    // A number may have a prefix of its network.
    for (const { person } of await q.all<{ person: string }>(
      `SELECT DISTINCT person FROM conversations WHERE lower(person) = $1 OR lower(person) LIKE '%:' || $1
       UNION SELECT DISTINCT sender AS person FROM events WHERE lower(sender) = $1 OR lower(sender) LIKE '%:' || $1`,
      address,
    ))
      found.add(person.toLowerCase());
  }
  const addresses = [...found];
  const conversations = new Map<string, { readonly platform_id: string | null; readonly agent: string }>();
  const names = new Set<string>();
  const events: number[] = [];
  for (const address of addresses) {
    const own = await q.all<Pick<ConversationRow, "id" | "platform_id" | "agent" | "person_name">>(
      "SELECT id, platform_id, agent, person_name FROM conversations WHERE lower(person) = $1 ORDER BY id",
      address,
    );
    for (const one of own) {
      conversations.set(one.id, one);
      if (one.person_name) names.add(one.person_name);
    }
    const sent = await q.all<{ id: number }>("SELECT id FROM events WHERE lower(sender) = $1 ORDER BY id", address);
    for (const { id } of sent) events.push(id); // a person may have sent more than a function takes arguments
  }
  const probable = new Set<string>();
  for (const name of names) {
    const same = await q.all<{ person: string }>(
      "SELECT DISTINCT person FROM conversations WHERE person_name = $1 AND person <> ''",
      name,
    );
    for (const { person } of same) if (!found.has(person.toLowerCase())) probable.add(person);
  }
  // Several conversations can be one on the platform.
  const platform = new Map((await remainingOnPlatform(q, addresses)).map((one) => [one.id, one]));
  for (const { platform_id: id, agent } of conversations.values()) if (id !== null) platform.set(id, { id, agent });
  return {
    addresses,
    conversations: [...conversations.keys()],
    events,
    platform: [...platform.values()],
    probable: [...probable].sort(),
  };
}
