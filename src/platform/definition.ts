// An agent as its operator defines it, after the file was read and checked.

import type * as z from "zod";
import type { reasoningEfforts } from "../wire/agent.ts";
import type { servedSkill } from "../wire/skill.ts";
import type { Trigger } from "../wire/webhook.ts";
import type { Assignment, Member } from "./staff.ts";
import type { Passage } from "./store/passages.ts";

export interface AgentDefinition {
  readonly id: string;
  readonly organization: {
    readonly id: string;
    readonly name: string;
    readonly key: string | null;
    readonly members: readonly Member[];
    /** Labels for conversations. */
    readonly states: readonly StateDefinition[];
  };
  /** Which members have a role on this agent itself. */
  readonly assignments: readonly Assignment[];
  readonly name: string;
  readonly publicName: string;
  /** What is kept of its key. */
  readonly keyHash: string;
  /** What its own secrets are made from: never shown, the same at every start. */
  readonly seed: string;
  readonly status: "active" | "inactive" | "draft";
  readonly role: string;
  readonly description: string | null;
  readonly avatarUrl: string | null;
  readonly tags: readonly string[] | null;
  readonly restrictDocumentsToOwnerOnly: boolean | null;
  readonly instructions: string;
  readonly codeInterpreter: boolean;
  /** As the interface shows them, without API (it is there whenever the key is). */
  readonly skills: readonly SkillDefinition[];
  /** False: the key opens nothing. */
  readonly apiEnabled: boolean;
  readonly webhooks: readonly WebhookDefinition[];
  readonly rules: readonly RuleDefinition[];
  readonly knowledge: readonly Passage[];
  readonly defaultAnswer: string;
  readonly model: ModelDefinition | null;
  readonly fileSearch: { readonly enabled: boolean; readonly maxResults: number };
  readonly escalations: readonly EscalationDefinition[];
  /** How a model is to judge a conversation that ended, from 0 to 10. */
  readonly scoring: string | null;
  readonly memory: { readonly by: "user" | "agent"; readonly days: number } | null;
  readonly retention: RetentionDefinition | null;
  /** Questions answered in a calendar month (UTC), and what is said to those beyond. */
  readonly quota: { readonly limit: number; readonly response: string } | null;
}

/** What to look for in a person's message, and what to do then. */
export interface EscalationDefinition {
  readonly topic: string;
  readonly prompt: string;
  /** The conversation is a human's from then on. */
  readonly toManual: boolean;
  readonly response: string;
  readonly recipients: readonly {
    readonly channel: "sms" | "email" | "webhook";
    readonly value: string;
    readonly headers: { readonly [name: string]: string };
  }[];
}

/** What is anonymized of conversations that nobody wrote in for so many days. */
interface RetentionDefinition {
  readonly days: number;
  readonly conversations: boolean;
  readonly people: boolean;
}

/** Any skill of the interface, as it is served. */
export type SkillDefinition = z.input<typeof servedSkill>;

export interface StateDefinition {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  /** Hexadecimal, as in `#00aa00`. */
  readonly color: string | null;
  readonly isPersistent: boolean;
}

export interface WebhookDefinition {
  readonly title: string;
  readonly description: string;
  readonly url: string;
  readonly trigger: Trigger;
  readonly headers: { readonly [name: string]: string };
  readonly secret: string | undefined;
  readonly status: "active" | "inactive";
}

export interface RuleDefinition {
  /** `refund|money back`: whole words or phrases, whatever their case; or `/a regular expression/`. */
  readonly when: string;
  readonly answer: string;
}

/** A model behind any OpenAI-compatible address. */
export interface ModelDefinition {
  /** Up to and without `/chat/completions` or `/responses`. */
  readonly url: string;
  /** Which of the two is asked. */
  readonly api: "chat" | "responses";
  readonly key: string | null;
  /** As its endpoint calls it. */
  readonly name: string;
  /** As the interface shows it: one of those it lists. */
  readonly listedAs: string;
  /** Null: the model's own, as for all that follow. */
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly reasoningEffort: (typeof reasoningEfforts)[number] | null;
  readonly reasoningMode: "standard" | "pro" | null;
  readonly outputSchema: {
    /** A JSON Schema that every answer must fit while it is enabled. */
    readonly schema: { readonly [key: string]: unknown };
    /** As it was written. */
    readonly text: string;
    readonly enabled: boolean;
  } | null;
  /** Milliseconds without a sign of life. */
  readonly silenceMs: number;
  /** Milliseconds for an answer with everything. */
  readonly totalMs: number;
}
