// An agent as its operator defines it, after the file was read and checked.

import type * as z from "zod";
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
  readonly key: string;
  readonly status: "active" | "inactive" | "draft";
  readonly role: string;
  readonly description: string | null;
  readonly instructions: string;
  /** As the interface shows them, without API (it is there whenever the key is). */
  readonly skills: readonly SkillDefinition[];
  /** False: the key opens nothing. */
  readonly apiEnabled: boolean;
  readonly webhooks: readonly WebhookDefinition[];
  readonly rules: readonly RuleDefinition[];
  readonly knowledge: readonly Passage[];
  readonly defaultAnswer: string;
  readonly model: ModelDefinition | null;
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
  /** Up to and without `/chat/completions`. */
  readonly url: string;
  readonly key: string | null;
  readonly name: string;
  readonly temperature: number;
  readonly timeoutMs: number;
}
