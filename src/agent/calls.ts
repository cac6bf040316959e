// The interface of the platform client to the pipeline: one function for each operation, and one result
// type for all. Everything except `PastQuestion` and `EffectOptions` can be serialized as JSON, so that it can be
// stored with its turn.

import type { BodyOf, CallResult, Client } from "../client/index.ts";
import type { RetentionSkill } from "../domain/retention.ts";
import type { Trigger } from "../wire/webhook.ts";
import type { MessageRange, ReadCall } from "./messages.ts";

export { type CallResult, stopped } from "../client/index.ts";
export type { ReadCall } from "./messages.ts";

export interface EffectOptions {
  /** Aborts at the end of the lease or on shutdown. The client has its own timeout for each request. */
  readonly signal: AbortSignal;
  /** Called when a connection is available for the request that can have the effect, before its first
   *  byte is written; the request waits for the promise. At most once. A rejection keeps it from being
   *  sent (the result is `deferred`). */
  crossing(): void | Promise<void>;
  /** True for a call whose connection is reserved. */
  readonly reserved?: boolean;
}

/** Every operation returns a `CallResult`; none throws, none retries. */
export interface AgentClient extends Pick<Client, "setConnections" | "reserve" | "close"> {
  /** Returns the agent of the key, with the settings of its channels. */
  describe(signal: AbortSignal): Promise<CallResult<AgentSettings>>;
  /** Opens a conversation through the start call: the platform may message the person itself. */
  start(request: StartRequest, call: EffectOptions): Promise<CallResult<StartedConversation>>;
  /** Opens a conversation without a platform channel: finds or creates the user, then creates the conversation. */
  create(request: CreateRequest, call: EffectOptions): Promise<CallResult<StartedConversation>>;
  /** Returns the conversations of the user with this foreign key, in the platform's order. Empty when no
   *  such user exists. */
  findConversations(fkId: string, signal: AbortSignal): Promise<CallResult<readonly string[]>>;
  /** Sends one question. There is no idempotency key: after `unknown`, search for the question before a retry. */
  ask(conversationId: string, question: Question, call: EffectOptions): Promise<CallResult<Answer>>;
  /** Checks whether the question was stored, and returns its answer. Reads only. */
  lookUp(conversationId: string, question: PastQuestion, call: ReadCall): Promise<CallResult<LookUp>>;
  /** Returns who answers in this conversation: the agent or a human. */
  mode(conversationId: string, signal: AbortSignal): Promise<CallResult<"ai" | "manual">>;
  /** Sets who answers from now on. Idempotent. */
  setMode(conversationId: string, mode: "ai" | "manual", call: EffectOptions): Promise<CallResult<null>>;
  /** Stores a human's reply; only in manual mode. Returns the message's id. */
  say(conversationId: string, text: string, call: EffectOptions): Promise<CallResult<string>>;
  /** Returns the id of a human's reply of unknown outcome, or null when it was not stored. Reads only. */
  findHumanReply(conversationId: string, words: PastQuestion, call: ReadCall): Promise<CallResult<string | null>>;
  /** Returns the messages of the conversation from about the `from`th on, as far as they can be read. */
  read(conversationId: string, from: number, call: ReadCall): Promise<PlatformMessages>;
  /** Registers a webhook. There is no idempotency key: after `unknown`, check `registered` first. */
  register(webhook: NewWebhook, call: EffectOptions): Promise<CallResult<Registered>>;
  /** Returns the registered webhooks, with ids if the platform returns them. `deferred`: the platform
   *  may not support the list. */
  registered(signal: AbortSignal): Promise<CallResult<readonly ListedWebhook[]>>;
  /** Deletes a webhook. `missing`: no webhook has that id. */
  unregister(id: string, signal: AbortSignal): Promise<CallResult<null>>;
}

export type StartedConversation = { readonly conversationId: string };

/** The agent's settings that the daemon uses. A channel is null when the agent has no such skill. */
export type AgentSettings = {
  readonly agentId: string;
  readonly organizationId: string;
  readonly name: string;
  readonly status: "active" | "inactive" | "draft";
  readonly email: ChannelSettings | null;
  readonly sms: ChannelSettings | null;
  readonly voice: ChannelSettings | null;
  /** The other skills by lower-case name, for channels other than the three. Absent in records stored by
   *  an earlier version. */
  readonly skills?: { readonly [name: string]: ChannelSettings };
  /** The active DATA_RETENTION skill. Absent in records stored by an earlier version. */
  readonly retention?: RetentionSkill | null;
  /** The conditions for an escalation, from the agent's active ESCALATION skill; empty without that
   *  skill. Absent in records stored by an earlier version. */
  readonly escalations?: readonly EscalationSettings[];
  /** The entries of the WEBHOOK skill, for any status; empty without that skill. Absent as above. */
  readonly webhooks?: readonly { readonly url: string; readonly trigger: string }[];
};

export type NewWebhook = {
  readonly url: string;
  readonly trigger: Trigger;
  readonly title: string;
  readonly description: string;
  readonly headers: { readonly [name: string]: string };
};

export type ListedWebhook = { readonly id: string; readonly url: string; readonly trigger: string };

/** `secret`: the key that signs the deliveries, if the platform returns it. It is returned only here. */
export type Registered = { readonly id: string; readonly secret: string | null };

export type EscalationSettings = {
  readonly topic: string;
  /** The text for the customer. */
  readonly response: string;
  readonly recipients: readonly {
    readonly channel: "sms" | "email" | "webhook";
    readonly value: string;
    readonly headers?: { readonly [name: string]: string };
  }[];
};

export type ChannelSettings = {
  readonly status: "active" | "inactive";
  /** Seconds, 0..3600; the platform's null becomes 0. */
  readonly responseDelaySeconds: number;
  readonly signature: string | null;
  readonly senderName: string | null;
  readonly defaultSubject: string | null;
  readonly introduction: string | null;
  /** The mailbox or number that the skill names. */
  readonly address: string | null;
};

export type StartRequest = BodyOf<"startConversation">;

/** A user, identified by at least one of fkId, email and phoneNumber, and the conversation to open with them. */
export type CreateRequest = BodyOf<"createUser"> & { readonly conversationContext?: string };

export type Question = { readonly text: string; readonly context?: string };

export type PlatformMessage = {
  readonly id: string;
  readonly role: "person" | "agent" | "human";
  readonly text: string;
  /** The id of the question that this message answers; null when it names none. */
  readonly answers: string | null;
  /** Names of its files. Default: none. */
  readonly files?: readonly string[];
};

/** Consecutive messages, oldest first, from position `start` (the first message has 0) up to `end`. */
export type PlatformMessages = Omit<MessageRange, "messages"> & {
  readonly messages: readonly PlatformMessage[];
};

/** A question whose outcome is unknown. */
export interface PastQuestion {
  readonly text: string;
  /** Ids of messages that belong to earlier turns: questions and replies. */
  readonly knownIds: ReadonlySet<string>;
}

/** `text` is null when there is no answer now (manual mode, or the platform returned the user's own message). */
export type Answer = {
  readonly questionId: string | null;
  readonly replyId: string | null;
  readonly text: string | null;
};

export type LookUp =
  | { readonly state: "answered"; readonly answer: Answer }
  | { readonly state: "pending"; readonly questionId: string }
  | { readonly state: "absent" };
