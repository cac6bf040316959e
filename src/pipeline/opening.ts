// How a conversation is opened on the platform: by the start call, or as user plus conversation (`opening: create`,
// for platforms that would otherwise message the person themselves). External API 4.3.

import type { CreateRequest, StartRequest } from "../agent/calls.ts";
import type { Opening } from "../domain/opening.ts";
import type { ConversationRow } from "../store/conversations.ts";
import { type Line, skillOf, startable } from "./line.ts";

export type OpeningCall =
  | { readonly kind: "start"; readonly body: StartRequest }
  | { readonly kind: "create"; readonly body: CreateRequest };

/** The person's foreign key on the platform: the same for all their conversations on a channel. */
export function foreignKey(conversation: ConversationRow): string {
  const { channel, person, via } = conversation;
  // The platform goes on with a person's current conversation: each of our addresses needs its own.
  return `bridgehead:${channel}:${person}${via === null ? "" : `:${via}`}`;
}

/** The names the platform wants apart: everything before the last word, and the last word. */
function splitName(name: string | null, address: string): { firstName: string; lastName: string } {
  const words = (name ?? "").trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { firstName: address.split("@")[0] || address, lastName: "-" };
  if (words.length === 1) return { firstName: words[0] ?? address, lastName: "-" };
  return { firstName: words.slice(0, -1).join(" "), lastName: words.at(-1) ?? "-" };
}

/** The number in an address of texts or calls, as the platform takes it: without the prefix of another service
 *  (`whatsapp:`). Null for a caller who withheld it, a `sip:` address, a short code: a start call would be refused. */
const phoneOf = (address: string): string | null => /^(?:[a-z]+:)?(\+\d+)$/.exec(address)?.[1] ?? null;

/** Whether the conversation is opened as user plus conversation. Calls are, too, when the agent has no active VOICE skill,
 *  because the start call for voice needs that skill. */
export function opensByCreate(line: Line, conversation: ConversationRow): boolean {
  const { platform } = line.traits;
  if (line.rules.opening === "create" || !startable(platform)) return true;
  if (platform === "voice" && skillOf(line)?.status !== "active") return true;
  return platform !== "email" && phoneOf(conversation.person) === null;
}

/** The call that opens it. `begun`: what is known of a conversation that we begin; null when the person wrote first. */
export function openingOf(line: Line, conversation: ConversationRow, begun: Opening | null): OpeningCall {
  const { person } = conversation;
  const who = {
    ...splitName(conversation.person_name, person),
    fkId: foreignKey(conversation),
    source: "bridgehead",
  };
  const mail = line.traits.platform === "email";
  const introduction = begun?.introduction ?? skillOf(line)?.introduction ?? "";
  const phone = mail || !startable(line.traits.platform) ? null : phoneOf(person);
  if (opensByCreate(line, conversation)) {
    const about = aboutBegun(begun, introduction);
    const body = { ...who, ...(about && { conversationContext: about }) };
    const reached = mail ? { email: person } : phone === null ? {} : { phoneNumber: phone };
    return { kind: "create", body: { ...body, ...reached } };
  }
  const common = { ...who, ...(begun?.context && { conversationContext: begun.context }) };
  if (line.traits.platform === "voice") {
    return {
      kind: "start",
      body: { ...common, channel: "voice", phoneNumber: phone ?? "", firstMessage: introduction },
    };
  }
  // What begins with us begins anew: the platform would go on with the person's current conversation, which knows
  // nothing of this introduction.
  const written = { ...common, ...(begun?.speak && { resetConversation: true }) };
  if (mail) {
    const subject = begun?.subject || conversation.subject || skillOf(line)?.defaultSubject || "";
    return {
      kind: "start",
      body: {
        ...written,
        channel: "email",
        email: person,
        emailSubject: subject,
        emailIntroduction: introduction,
      },
    };
  }
  return {
    kind: "start",
    body: { ...written, channel: "sms", phoneNumber: phone ?? "", smsIntroduction: introduction },
  };
}

/** A conversation that is merely created has no place for the introduction, and the agent should know what it has said. */
function aboutBegun(begun: Opening | null, introduction: string): string | null {
  if (!begun) return null;
  const said = begun.speak && introduction !== "" ? `You wrote to the person first: ${introduction}` : null;
  return [begun.context, said].filter((part) => part !== null && part !== "").join("\n\n") || null;
}
