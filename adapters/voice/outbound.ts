// Sends drafts: speech into a call connected to this process, or an outbound call.

import { type Attempt, type Channel, type Outbound, type SendOutcome, sessionId } from "bridgehead/contract";
import type { PlacedCalls } from "./calls.ts";
import type { Ear } from "./dialects/dialect.ts";
import { compose, type Draft, readDraft, type Speech } from "./draft.ts";

const lookAgainMs = 500;

export function outbound(channel: Channel, ear: Ear, calls: PlacedCalls | null): Outbound<Draft> {
  const speak = async (draft: Speech, attempt: Attempt): Promise<SendOutcome> => {
    const live = ear(draft.session);
    if (live) return live.answer(draft, attempt);
    const facts = await channel.session(sessionId(draft.session));
    if (facts === null || facts.state === "closed" || facts.handingOver !== null)
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
  (calls: PlacedCalls): NonNullable<Outbound<Draft>["reconcile"]> =>
  async (stored, attempt, signal) => {
    const draft = readDraft(stored);
    return draft.kind === "speech" ? { kind: "unsure" } : calls.find(draft, attempt, signal);
  };
