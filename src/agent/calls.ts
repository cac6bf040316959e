// What the agent's side offers the pipeline: one function an operation, one result type for all of them. Everything
// but `PastQuestion` and `Call` survives JSON, so that it can be stored beside the turn it belongs to.

import type { CallResult } from "../client/index.ts";
import type { Trigger } from "../wire/webhook.ts";
import type { Part, ReadCall } from "./transcript.ts";

export { type CallResult, stopped } from "../client/index.ts";
export type { ReadCall } from "./transcript.ts";

/** What an effectful call needs from its caller. */
export interface Call {
  /** End of the lease, or shutdown. The client has its own deadline for each request. */
  readonly signal: AbortSignal;
  /** Called when a connection is available for the request that can have the effect, before its first byte is written; the
   *  request waits for the promise. At most once. A rejection keeps it from being sent (the result is `deferred`). */
  crossing(): void | Promise<void>;
}

/** Every operation gives a `CallResult`; none throws, none tries twice. */
export interface AgentClient {
  /** The agent behind the key, with its channels' settings. */
  describe(signal: AbortSignal): Promise<CallResult<AgentSettings>>;
  /** Opens a conversation through the start call: the platform may message the person itself. */
  start(request: StartRequest, call: Call): Promise<CallResult<Started>>;
  /** Opens a conversation no channel of the platform is attached to: finds or makes the user, then the conversation. */
  create(request: CreateRequest, call: Call): Promise<CallResult<Started>>;
  /** The conversations of the user with this foreign key, in the platform's order; none when there is no such user. */
  findConversations(fkId: string, signal: AbortSignal): Promise<CallResult<readonly string[]>>;
  /** Puts one question. There is no idempotency key: after `unknown`, look it up before asking again. */
  ask(conversationId: string, question: Question, call: Call): Promise<CallResult<Answer>>;
  /** Was the question put, and what was the answer? Reads only. */
  lookUp(conversationId: string, question: PastQuestion, call: ReadCall): Promise<CallResult<Found>>;
  /** Who answers in this conversation: the agent or a person. */
  mode(conversationId: string, signal: AbortSignal): Promise<CallResult<"ai" | "manual">>;
  /** Says who answers from now on. The same however often it is said. */
  setMode(conversationId: string, mode: "ai" | "manual", call: Call): Promise<CallResult<null>>;
  /** Puts a person's words; only in mode manual. The message's id. */
  say(conversationId: string, text: string, call: Call): Promise<CallResult<string>>;
  /** The id of a person's words that may have been put; null when they are not there. Reads only. */
  findSaid(conversationId: string, words: PastQuestion, call: ReadCall): Promise<CallResult<string | null>>;
  /** What was said in the conversation from about the `from`th message on, as far as it can be read. */
  read(conversationId: string, from: number, call: ReadCall): Promise<PlatformMessages>;
  /** Asks to be told of what happens. There is no idempotency key: after `unknown`, look first (`registered`). */
  register(webhook: NewWebhook, call: Call): Promise<CallResult<Registered>>;
  /** What is registered, with ids where the platform tells them. `deferred`: perhaps there is no such list. */
  registered(signal: AbortSignal): Promise<CallResult<readonly ListedWebhook[]>>;
  /** Not to be told any more. `missing`: there is none of that id. */
  unregister(id: string, signal: AbortSignal): Promise<CallResult<null>>;
  /** Changes the number of requests under way at most. */
  setConnections(count: number): void;
  /** Ends the connections; calls still open come back as they would on a reset. */
  close(): Promise<void>;
}

export type Started = { readonly conversationId: string };

/** The agent as far as the daemon acts on it. A channel is null when the agent has no such skill. */
export type AgentSettings = {
  readonly agentId: string;
  readonly organizationId: string;
  readonly name: string;
  readonly status: "active" | "inactive" | "draft";
  readonly email: ChannelSettings | null;
  readonly sms: ChannelSettings | null;
  readonly voice: ChannelSettings | null;
  /** The other skills by their names in lower case: for channels that are none of the three. Absent in what an earlier version has
   *  stored. */
  readonly skills?: { readonly [name: string]: ChannelSettings };
  /** When a human is called, as the agent's active ESCALATION skill has it; none without that. Absent in what an earlier
   *  version has stored. */
  readonly escalations?: readonly EscalationSettings[];
  /** What the WEBHOOK skill lists, whatever its status; none without that skill. Absent as above. */
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

/** `secret`: with which it signs what it delivers, where it says so; only this once. */
export type Registered = { readonly id: string; readonly secret: string | null };

export type EscalationSettings = {
  readonly topic: string;
  /** What the person is told. */
  readonly response: string;
  readonly recipients: readonly {
    readonly channel: "sms" | "email" | "webhook";
    readonly value: string;
    readonly headers?: { readonly [name: string]: string };
  }[];
};

export type ChannelSettings = {
  readonly status: "active" | "inactive";
  /** Seconds, 0..3600; the platform's null is 0. */
  readonly responseDelaySeconds: number;
  readonly signature: string | null;
  readonly senderName: string | null;
  readonly defaultSubject: string | null;
  readonly introduction: string | null;
  /** The mailbox or the number the skill names. */
  readonly address: string | null;
};

type StartCommon = {
  readonly firstName: string;
  readonly lastName: string;
  /** About the person. */
  readonly context?: string;
  readonly conversationContext?: string;
  readonly source?: string;
  readonly fkId?: string;
  readonly fkUserId?: string;
  readonly customData?: { readonly [key: string]: string };
  /** True archives the person's current conversation and opens a new one. */
  readonly resetConversation?: boolean;
  readonly skipEmailValidation?: boolean;
  readonly skipPhoneNumberValidation?: boolean;
};

/** The body of the start call, by channel. */
export type StartRequest =
  | (StartCommon & {
      readonly channel: "email";
      readonly email: string;
      readonly phoneNumber?: string;
      readonly emailSubject: string;
      readonly emailIntroduction: string;
      readonly includeSignatureInEmail?: boolean;
    })
  | (StartCommon & {
      readonly channel: "sms";
      readonly phoneNumber: string;
      readonly email?: string;
      readonly smsIntroduction: string;
      readonly includeSignatureInSms?: boolean;
    })
  | (Omit<StartCommon, "resetConversation"> & {
      readonly channel: "voice";
      readonly phoneNumber: string;
      readonly email?: string;
      /** What the assistant says first. */
      readonly firstMessage: string;
    });

/** A person, by at least one of fkId, email and phoneNumber, and the conversation to open with them. */
export type CreateRequest = {
  readonly firstName: string;
  readonly lastName: string;
  readonly fkId?: string;
  readonly fkUserId?: string;
  readonly email?: string;
  readonly phoneNumber?: string;
  readonly source?: string;
  /** About the person. */
  readonly context?: string;
  /** At most 255 characters; longer is cut. */
  readonly title?: string;
  /** About the conversation. */
  readonly conversationContext?: string;
};

export type Question = { readonly text: string; readonly context?: string };

export type PlatformMessage = {
  readonly id: string;
  readonly role: "person" | "agent" | "human";
  readonly text: string;
  /** Of the question it answers; null when it names none. */
  readonly answers: string | null;
};

/** Messages that follow each other, oldest first: those from `start` (the first message has place 0) up to `end`. */
export type PlatformMessages = Omit<Part, "messages"> & { readonly messages: readonly PlatformMessage[] };

/** A question that may or may not have been put. */
export interface PastQuestion {
  readonly text: string;
  /** Ids of messages that belong to earlier turns: questions and replies. */
  readonly knownIds: ReadonlySet<string>;
}

/** `text` null: nobody answered now (manual mode, or the person's own message came back). */
export type Answer = {
  readonly questionId: string | null;
  readonly replyId: string | null;
  readonly text: string | null;
};

export type Found =
  | { readonly state: "answered"; readonly answer: Answer }
  | { readonly state: "pending"; readonly questionId: string }
  | { readonly state: "absent" };
