// How a conversation is opened on the platform: by the start call, or as user plus conversation (`opening: create`,
// for platforms that would otherwise message the person themselves). External API 4.3.

import type { CreateRequest, StartRequest } from "../agent/calls.ts";
import type { ConversationRow } from "../store/conversations.ts";
import { type Line, skillOf } from "./line.ts";

export type Opening =
  | { readonly kind: "start"; readonly body: StartRequest }
  | { readonly kind: "create"; readonly body: CreateRequest };

/** The person's foreign key on the platform: the same for all their conversations on a channel. */
export function foreignKey(conversation: ConversationRow): string {
  return `bridgehead:${conversation.channel}:${conversation.person}`;
}

/** The names the platform wants apart: everything before the last word, and the last word. */
function splitName(name: string | null, address: string): { firstName: string; lastName: string } {
  const words = (name ?? "").trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { firstName: address.split("@")[0] || address, lastName: "-" };
  if (words.length === 1) return { firstName: words[0] ?? address, lastName: "-" };
  return { firstName: words.slice(0, -1).join(" "), lastName: words.at(-1) ?? "-" };
}

export function openingOf(line: Line, conversation: ConversationRow): Opening {
  const { person } = conversation;
  const who = {
    ...splitName(conversation.person_name, person),
    fkId: foreignKey(conversation),
    source: "bridgehead",
  };
  const mail = line.traits.platform === "email";
  if (line.rules.opening === "create") {
    return { kind: "create", body: mail ? { ...who, email: person } : { ...who, phoneNumber: person } };
  }
  const introduction = skillOf(line)?.introduction ?? "";
  if (mail) {
    const emailSubject = conversation.subject || skillOf(line)?.defaultSubject || "";
    return {
      kind: "start",
      body: { ...who, channel: "email", email: person, emailSubject, emailIntroduction: introduction },
    };
  }
  if (line.traits.platform === "sms") {
    return {
      kind: "start",
      body: { ...who, channel: "sms", phoneNumber: person, smsIntroduction: introduction },
    };
  }
  return {
    kind: "start",
    body: { ...who, channel: "voice", phoneNumber: person, firstMessage: introduction },
  };
}
