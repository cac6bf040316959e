// The states of everything durable, as data. The diagrams in src/README.md are generated from here, and a test holds
// the CHECK constraints of the schema against it.

/** from -> what may follow. A state without followers is final. */
type Machine = { readonly [state: string]: readonly string[] };

export const eventStates = {
  stored: ["routed", "ignored", "held", "failed"],
  /** It has a turn. When that fails, or the platform gives no answer, the message is listed again. */
  routed: ["failed", "ignored", "held"],
  /** Never answered; the reason is stored. An operator may route it all the same. */
  ignored: ["stored", "routed"],
  /** A cap was reached, only a human can read it, or it may have been answered before a restore. An operator may release
   *  or drop it. */
  held: ["stored", "routed", "ignored"],
  failed: ["stored", "routed"],
} as const satisfies Machine;

export const turnStates = {
  waiting: ["asking", "dropped"],
  asking: ["answered", "silent", "waiting", "unknown", "failed", "dropped"],
  /** The question may have been put; only a look at the platform's messages leads out. */
  unknown: ["answered", "silent", "waiting", "unknown", "failed", "dropped"],
  answered: [],
  /** The platform took the question and gives no answer now (manual mode). An operator may have it looked up again. */
  silent: ["waiting", "unknown"],
  failed: ["waiting", "unknown"],
  /** In a call the caller said something newer, or hung up: the answer is not wanted any more. */
  dropped: [],
} as const satisfies Machine;

export const replyStates = {
  ready: ["composed", "failed"],
  composed: [],
  failed: ["ready"],
} as const satisfies Machine;

export const draftStates = {
  /** A receipt about an earlier attempt may come while the next one waits or runs. */
  queued: ["sending", "dropped", "held", "sent", "delivered", "failed"],
  sending: ["sent", "delivered", "failed", "queued", "unknown", "held", "dropped"],
  /** It may have gone out; a later look, a receipt or the policy leads out. */
  unknown: ["sent", "delivered", "failed", "queued", "unknown", "held", "dropped"],
  sent: ["delivered", "failed"],
  delivered: ["failed"],
  failed: ["queued", "dropped"],
  held: ["queued", "dropped", "sent", "delivered", "failed"],
  dropped: ["queued", "sent", "delivered", "failed"],
} as const satisfies Machine;

export const escalationStates = {
  open: ["taken", "closed"],
  /** A person answers for it; another person may take it over. Open again when nobody hears what the customer writes. */
  taken: ["taken", "open", "closed"],
  closed: [],
} as const satisfies Machine;
