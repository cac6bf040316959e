// Opens a conversation on the platform: by the start call, or as user plus conversation (`opening: create`,
// for platforms that would otherwise message the customer directly). External API 4.3.

import type { CreateRequest, StartRequest } from "../../agent/calls.ts";
import type { Opening } from "../../domain/opening.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { type ChannelRuntime, skillOf, startable } from "../channel-runtime.ts";

export type OpeningCall =
  | { readonly kind: "start"; readonly body: StartRequest }
  | { readonly kind: "create"; readonly body: CreateRequest };

/** The customer's foreign key on the platform. It is the same for all their conversations on a channel. */
export function foreignKey(conversation: ConversationRow): string {
  const { channel, person, via } = conversation;
  // The platform continues a customer's current conversation, so each of our addresses needs its own key.
  return `bridgehead:${channel}:${person}${via === null ? "" : `:${via}`}`;
}

/** Splits a name as the platform requires: everything before the last word, and the last word. */
function splitName(name: string | null, address: string): { firstName: string; lastName: string } {
  const words = (name ?? "").trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { firstName: address.split("@")[0] || address, lastName: "-" };
  if (words.length === 1) return { firstName: words[0] ?? address, lastName: "-" };
  return { firstName: words.slice(0, -1).join(" "), lastName: words.at(-1) ?? "-" };
}

/** Returns the phone number of an SMS or voice address in the platform's format, without the prefix of
 *  another service (`whatsapp:`). Returns null for a withheld number, a `sip:` address and a short code,
 *  because the start call would be refused. */
const phoneOf = (address: string): string | null => /^(?:[a-z]+:)?(\+\d+)$/.exec(address)?.[1] ?? null;

/** Returns true when the conversation is opened as user plus conversation. Calls also use this form when
 *  the agent has no active VOICE skill, because the start call for voice needs that skill. */
export function opensByCreate(line: ChannelRuntime, conversation: ConversationRow): boolean {
  const { platform } = line.traits;
  if (line.rules.opening === "create" || !startable(platform)) return true;
  if (platform === "voice" && skillOf(line)?.status !== "active") return true;
  return platform !== "email" && phoneOf(conversation.person) === null;
}

/** Builds the API call that opens the conversation. `begun` is the data of an outbound conversation;
 *  null when the customer wrote first. */
export function openingOf(
  line: ChannelRuntime,
  conversation: ConversationRow,
  begun: Opening | null,
): OpeningCall {
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
  // Resets the platform's conversation for an outbound one. Otherwise the platform would continue the
  // customer's current conversation, which does not contain this introduction.
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

/** A conversation opened by the create call has no field for the introduction. The context carries it,
 *  so that the agent knows what was sent. */
function aboutBegun(begun: Opening | null, introduction: string): string | null {
  if (!begun) return null;
  const said = begun.speak && introduction !== "" ? `You wrote to the person first: ${introduction}` : null;
  return [begun.context, said].filter((part) => part !== null && part !== "").join("\n\n") || null;
}
