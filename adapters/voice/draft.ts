// What is sent: words into a live call, or a call that is placed.

import type { ExternalId, Json, Reply } from "bridgehead/contract";

/** `speech`: the agent's words for a live call; what can be spoken of them depends on its language, known when it is sent.
 *  `call`: somebody is called and greeted with the words. */
export type Draft =
  | {
      readonly kind: "speech";
      readonly session: string;
      readonly answers: ExternalId | null;
      readonly text: string;
      /** After it the call goes to a human. */
      readonly handOver?: true;
    }
  | {
      readonly kind: "call";
      readonly to: string;
      readonly text: string;
      /** False for an answer whose call is not known any more: nobody is called back by itself. */
      readonly wanted: boolean;
    };

/** Signature and introduction are not spoken. */
export function compose(reply: Reply): readonly Draft[] {
  const { session, answers, text } = reply;
  const then = reply.handOver ? { handOver: true as const } : {};
  if (session !== null) return [{ kind: "speech", session, answers, text, ...then }];
  const [to] = reply.to;
  return [{ kind: "call", to: to?.address ?? "", text, wanted: reply.kind === "opening" }];
}

export type Speech = Draft & { readonly kind: "speech" };
export type Placing = Draft & { readonly kind: "call" };

/** A draft as the store gives it back. */
export function readDraft(stored: Json): Draft {
  return stored as unknown as Draft;
}
