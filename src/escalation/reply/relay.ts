// Relays a responder's text to the customer: on the channel of the question, in its thread and under the
// agent's name, and to the platform as a manual message. One transaction enqueues both; each is sent
// exactly once.

import type { Clock, Log, Traits } from "bridgehead/contract";
import { type Address, firstTo } from "../../domain/address.ts";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { insertFiles, type ReadyFile } from "../../store/tables/files.ts";
import { clearLanes } from "../../store/tables/takeover.ts";
import { enqueueTurn } from "../../store/tables/turns.ts";
import { whyNotRelayed } from "./decide.ts";
import { namesOf } from "./files.ts";
import { type Customer, readCustomer } from "./rows.ts";

export interface RelayDeps {
  /** Returns the kind of the channel; null when it cannot send. */
  readonly kindOf: (channel: string) => Traits["platform"] | null;
  readonly clock: Clock;
  readonly log: Log;
}

/** Content for the customer. Files without a text are sent with their names as the text. */
export interface Content {
  readonly text: string;
  /** Set only where the channel supports attachments. */
  readonly files?: readonly ReadyFile[];
}

/** Enqueues the text of an operator's command. Returns null when the text is enqueued, otherwise the
 *  reason for the operator. */
export async function relay(
  q: Query,
  about: { readonly conversation: string | null },
  content: Content,
  deps: RelayDeps,
): Promise<string | null> {
  const customer = about.conversation === null ? null : await readCustomer(q, about.conversation);
  const kind = customer && deps.kindOf(customer.channel);
  const reason = whyNotRelayed(customer, kind);
  if (customer === null || reason !== null) return reason;
  await enqueueRelay(q, customer, { ...content, inCall: kind === "voice" }, deps);
  return null;
}

/** Enqueues the text for the customer, and for the platform except in a call. Call only when
 *  `whyNotRelayed` returns null. */
export async function enqueueRelay(
  q: Query,
  customer: Customer,
  content: Content & { readonly inCall: boolean },
  { clock, log }: Pick<RelayDeps, "clock" | "log">,
): Promise<void> {
  const { id: conversation, channel, person } = customer;
  const files = content.files ?? [];
  const names = namesOf(files);
  const { inCall } = content;
  const address = inCall ? addressInCall(customer) : addressOf(customer);
  const turn = newId(clock.now());
  if (!inCall) {
    await clearLanes(q, conversation);
    await enqueueTurn(q, {
      id: turn,
      conversation,
      channel,
      person,
      kind: "relayed",
      event: null,
      // The platform receives only the names of the files.
      question: [content.text, names].filter((part) => part !== "").join("\n\n"),
      context: null,
      address: JSON.stringify(address),
      receivedAt: clock.now(),
    });
  }
  const reply = newId(clock.now());
  await insertReply(q, {
    id: reply,
    conversation,
    channel,
    turn: inCall ? null : turn,
    kind: "human",
    address: JSON.stringify(address),
    text: content.text || names,
    platformId: null,
  });
  await insertFiles(q, reply, files);
  log.info({ channel, conversation }, "escalation reply relayed to the customer");
}

/** Returns the address of the customer's newest message. Later writers in the thread are not included. */
export function addressOf({ address, person, subject }: Customer): Address {
  return address === null ? firstTo({ address: person }, subject) : (JSON.parse(address) as Address);
}

const addressInCall = ({ person, session }: Customer): Address => ({
  ...firstTo({ address: person }, null),
  session: session as Address["session"],
});
