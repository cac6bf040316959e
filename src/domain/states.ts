// The state machines of all durable rows, as data. Every change of a state is checked against them
// (store/transitions.ts). The diagrams in src/domain/README.md are generated from this file. A test compares it
// with the CHECK constraints of the schema.

/** Maps a state to its possible next states. A state without next states is final. */
type Machine = { readonly [state: string]: readonly string[] };

const eventStates = {
  stored: ["routed", "ignored", "held", "failed"],
  /** The message has a turn. When the turn fails, or the platform gives no answer, the message is listed again. */
  routed: ["failed", "ignored", "held"],
  /** Never answered; the reason is stored. An operator may still route it. */
  ignored: ["stored", "routed"],
  /** A cap was reached, only a human can read the message, or it may have been answered before a
   *  restore, or it waited too long. An operator may release or drop it. */
  held: ["stored", "routed", "ignored"],
  failed: ["stored", "routed", "ignored"],
} as const satisfies Machine;

const turnStates = {
  /** It fails without an attempt when the store was restored, and it may have been answered since. */
  waiting: ["asking", "dropped", "failed"],
  /** The question that follows the opening in the same work is a second attempt. */
  asking: ["asking", "answered", "silent", "waiting", "unknown", "failed", "dropped"],
  /** The question may have been asked; only a lookup of the platform's messages leaves this state. */
  unknown: ["answered", "silent", "waiting", "unknown", "failed", "dropped"],
  answered: [],
  /** The platform accepted the question and gives no answer now (manual mode). An operator may schedule
   *  another lookup. */
  silent: ["unknown"],
  failed: ["waiting", "unknown"],
  /** In a call the caller sent a newer message or hung up: the answer is obsolete. */
  dropped: [],
} as const satisfies Machine;

const replyStates = {
  ready: ["composed", "failed"],
  composed: [],
  failed: ["ready"],
} as const satisfies Machine;

export const draftStates = {
  /** It is queued again when it was not attempted, and later instead. A delivery receipt for an earlier
   *  attempt may arrive while the next one is queued or runs. */
  queued: ["queued", "sending", "dropped", "held", "sent", "delivered", "failed"],
  sending: ["sent", "delivered", "failed", "queued", "unknown", "held", "dropped"],
  /** The draft may have been sent. A lookup, a delivery receipt or the policy leaves this state. */
  unknown: ["sent", "delivered", "failed", "queued", "unknown", "held", "dropped"],
  sent: ["delivered", "failed"],
  delivered: ["failed"],
  failed: ["queued", "dropped"],
  held: ["queued", "dropped", "sent", "delivered", "failed"],
  dropped: ["queued", "sent", "delivered", "failed"],
} as const satisfies Machine;

const escalationStates = {
  open: ["acknowledged", "closed"],
  /** A responder has acknowledged it; another responder may take it over. It opens again when no
   *  responder receives the customer's messages. */
  acknowledged: ["acknowledged", "open", "closed"],
  closed: [],
} as const satisfies Machine;

const sessionStates = {
  /** It opens again when the call continues over a further connection. */
  open: ["open", "lost", "closed"],
  /** The connection ended without an end of the call. */
  lost: ["open", "closed"],
  /** The call was transferred to a human or seemed to have ended, and continues. */
  closed: ["open"],
} as const satisfies Machine;

const platformWebhookStates = {
  /** Received and acknowledged; processed when it is due. */
  stored: ["done", "lost"],
  /** The same delivery may be received again. */
  done: ["stored"],
  /** No conversation was found for an escalation, or its person was erased before it was processed. */
  lost: ["stored"],
} as const satisfies Machine;

export const machines = {
  events: eventStates,
  turns: turnStates,
  replies: replyStates,
  drafts: draftStates,
  escalations: escalationStates,
  sessions: sessionStates,
  platform_webhooks: platformWebhookStates,
} as const;

/** The states in which rows are inserted, by table. */
export const initialStates = {
  /** A copy of a stored message is `ignored` at once, so that its id has an outcome. */
  events: ["stored", "ignored"],
  turns: ["waiting"],
  /** `composed`: its drafts are inserted with it, or it was sent before the store was restored. */
  replies: ["ready", "composed"],
  drafts: ["queued"],
  escalations: ["open"],
  sessions: ["open"],
  platform_webhooks: ["stored"],
} as const satisfies { readonly [T in keyof typeof machines]: readonly (keyof (typeof machines)[T])[] };
