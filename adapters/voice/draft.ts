// The drafts of the voice channel: speech for a live call, or a call to place.

import type { ExternalId, Json, Reply } from "bridgehead/contract";

/** `speech`: the agent's text for a live call. It is converted to speakable text on sending, when the call's
 *  language is known. `call`: an outbound call that starts with the text as its greeting. */
export type Draft =
  | {
      readonly kind: "speech";
      readonly session: string;
      readonly answers: ExternalId | null;
      readonly text: string;
      /** Transfers the call to a human after the text was spoken. */
      readonly handOver?: true;
    }
  | {
      readonly kind: "call";
      readonly to: string;
      readonly text: string;
      /** False for a reply whose call is no longer known: the adapter never calls back on its own. */
      readonly wanted: boolean;
    };

/** Composes drafts from a reply. Signature and introduction are not spoken. */
export function compose(reply: Reply): readonly Draft[] {
  const { session, answers, text } = reply;
  const then = reply.handOver ? { handOver: true as const } : {};
  if (session !== null) return [{ kind: "speech", session, answers, text, ...then }];
  const [to] = reply.to;
  return [{ kind: "call", to: to?.address ?? "", text, wanted: reply.kind === "opening" }];
}

export type Speech = Draft & { readonly kind: "speech" };
export type Placing = Draft & { readonly kind: "call" };

/** Reads a draft from its stored JSON. */
export function readDraft(stored: Json): Draft {
  return stored as unknown as Draft;
}
