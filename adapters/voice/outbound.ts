// Sends drafts: speech into a call connected to this process, or an outbound call.

import {
  type Attempt,
  type Channel,
  type ExternalId,
  type Json,
  type Outbound,
  type Reply,
  type SendOutcome,
  sessionId,
} from "bridgehead/contract";
import type { Call } from "./engine/call.ts";
import type { PlacedCalls } from "./placing.ts";

const lookAgainMs = 500;

export function outbound(
  channel: Channel,
  find: (call: string) => Call | undefined,
  calls: PlacedCalls | null,
): Outbound<VoiceDraft> {
  const speak = async (draft: SpeechDraft, attempt: Attempt): Promise<SendOutcome> => {
    const live = find(draft.session);
    if (live) return live.answer(draft, attempt);
    const facts = await channel.session(sessionId(draft.session));
    if (facts === null || facts.state === "closed" || facts.transferring !== null)
      return { kind: "refused", code: "ended", reason: "the call is over" };
    return { kind: "deferred", reason: "the call has no line to us now", retryAfterMs: lookAgainMs };
  };
  return {
    compose,
    async send(stored, attempt) {
      const draft = readDraft(stored);
      if (draft.kind === "speech") return speak(draft, attempt);
      if (!draft.wanted)
        return {
          kind: "refused",
          code: "no-call",
          reason: "this answers no call, and nobody is called for it",
        };
      if (calls === null)
        return { kind: "refused", code: "no-account", reason: "the channel has no account to call with" };
      return calls.place(draft, attempt);
    },
    ...(calls === null ? {} : { reconcile: lookingIn(calls) }),
  };
}

/** Reconciles an attempt. Speech cannot be verified later; an outbound call is in the provider's list. */
const lookingIn =
  (calls: PlacedCalls): NonNullable<Outbound<VoiceDraft>["reconcile"]> =>
  async (stored, attempt, signal) => {
    const draft = readDraft(stored);
    return draft.kind === "speech" ? { kind: "unsure" } : calls.find(draft, attempt, signal);
  };

// The drafts of the voice channel: speech for a live call, or a call to place.

/** `speech`: the agent's text for a live call. It is converted to speakable text on sending, when the call's
 *  language is known. `call`: an outbound call that starts with the text as its greeting. */
export type VoiceDraft =
  | {
      readonly kind: "speech";
      readonly session: string;
      readonly answers: ExternalId | null;
      readonly text: string;
      /** Transfers the call to a human after the text was spoken. */
      readonly transfer?: true;
    }
  | {
      readonly kind: "call";
      readonly to: string;
      readonly text: string;
      /** False for a reply whose call is no longer known: the adapter never calls back on its own. */
      readonly wanted: boolean;
    };

/** Composes drafts from a reply. Signature and introduction are not spoken. */
function compose(reply: Reply): readonly VoiceDraft[] {
  const { session, answers, text } = reply;
  const then = reply.transfer ? { transfer: true as const } : {};
  if (session !== null) return [{ kind: "speech", session, answers, text, ...then }];
  const [to] = reply.to;
  return [{ kind: "call", to: to?.address ?? "", text, wanted: reply.kind === "opening" }];
}

export type SpeechDraft = VoiceDraft & { readonly kind: "speech" };
export type Placing = VoiceDraft & { readonly kind: "call" };

/** Reads a draft from its stored JSON. */
function readDraft(stored: Json): VoiceDraft {
  return stored as unknown as VoiceDraft;
}
