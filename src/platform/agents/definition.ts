// Definition of an agent after its file was read and validated.

import type * as z from "zod";
import type { reasoningEfforts } from "../../wire/agent.ts";
import type { agentRoles, organizationRoles, platformUser } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import type { servedSkill } from "../../wire/skill.ts";
import type { Trigger } from "../../wire/webhook.ts";
import type { KnowledgePassage } from "../store/files.ts";

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
  /** Members with a role on this agent. */
  readonly assignments: readonly Assignment[];
  readonly name: string;
  readonly publicName: string;
  /** Hash of the API key; the key itself is not stored. */
  readonly keyHash: string;
  /** Seed for derived secrets. Never exposed, and stable across restarts. Empty: derived from a secret of the
   *  platform's database. */
  readonly seed: string;
  readonly status: "active" | "inactive" | "draft";
  readonly role: string;
  readonly description: string | null;
  readonly avatarUrl: string | null;
  readonly tags: readonly string[] | null;
  readonly restrictDocumentsToOwnerOnly: boolean | null;
  readonly instructions: string;
  readonly codeInterpreter: boolean;
  /** Skills in the format of the API, except the API skill, which is present whenever the key is valid. */
  readonly skills: readonly SkillDefinition[];
  /** False rejects the agent's key. */
  readonly apiEnabled: boolean;
  readonly webhooks: readonly WebhookDefinition[];
  readonly rules: readonly RuleDefinition[];
  readonly knowledge: readonly KnowledgePassage[];
  readonly defaultAnswer: string;
  readonly model: ModelDefinition | null;
  readonly fileSearch: { readonly enabled: boolean; readonly maxResults: number };
  readonly escalations: readonly EscalationDefinition[];
  /** Prompt for scoring an ended conversation from 0 to 10. */
  readonly scoring: string | null;
  readonly memory: { readonly by: "user" | "agent"; readonly days: number } | null;
  readonly retention: RetentionDefinition | null;
  /** Number of questions per calendar month (UTC), and the response beyond that number. */
  readonly quota: { readonly limit: number; readonly response: string } | null;
}

/** An escalation topic: what to detect in a user's message, and how to react. */
export interface EscalationDefinition {
  readonly topic: string;
  readonly prompt: string;
  /** Switches the conversation to manual mode. */
  readonly toManual: boolean;
  readonly response: string;
  readonly recipients: readonly {
    readonly channel: "sms" | "email" | "webhook";
    readonly value: string;
    readonly headers: { readonly [name: string]: string };
  }[];
}

/** What to anonymize in conversations without a message for this number of days. */
interface RetentionDefinition {
  readonly days: number;
  readonly conversations: boolean;
  readonly people: boolean;
}

/** Any skill in the format of the API. */
export type SkillDefinition = z.input<typeof servedSkill>;

export interface StateDefinition {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  /** Hexadecimal color such as `#00aa00`. */
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
  /** `refund|money back`: whole words or phrases, case-insensitive; or `/a regular expression/`. */
  readonly when: string;
  readonly answer: string;
}

/** A model behind an OpenAI-compatible endpoint. */
export interface ModelDefinition {
  /** Base URL, without `/chat/completions` or `/responses`. */
  readonly url: string;
  /** Dialect of the endpoint. */
  readonly api: "chat" | "responses";
  readonly key: string | null;
  /** Model name sent to the endpoint. */
  readonly name: string;
  /** Model name that the API reports; one of the names it lists. */
  readonly listedAs: string;
  /** Null leaves the parameter out, so the model's default applies; likewise for the fields below. */
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly reasoningEffort: (typeof reasoningEfforts)[number] | null;
  readonly reasoningMode: "standard" | "pro" | null;
  readonly outputSchema: {
    /** JSON Schema that answers must match while it is enabled. */
    readonly schema: { readonly [key: string]: unknown };
    /** The schema as written in the file. */
    readonly text: string;
    readonly enabled: boolean;
  } | null;
  /** Idle timeout in milliseconds. */
  readonly silenceMs: number;
  /** Total timeout in milliseconds, including retries. */
  readonly totalMs: number;
}

// Platform users with access to an agent, and the source of their access (External API 2.3, 4.2 rules 1 and
// 2).

type Status = "active" | "inactive";

/** A member of the organization, from its definition. */
export interface Member {
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly avatarUrl: string | null;
  readonly role: (typeof organizationRoles)[number];
  readonly status: Status;
}

/** A member's direct assignment to one agent. */
export interface Assignment {
  readonly email: string;
  readonly role: (typeof agentRoles)[number];
  readonly status: Status;
}

/** A stored member, with id and creation time. */
export interface KnownMember {
  readonly id: string;
  readonly created_at: number;
}

type Access = Served<typeof platformUser>;

const leading: ReadonlySet<string> = new Set(["owner", "admin"]);

/** Returns all members with access: a direct assignment in any role, or owner or admin of the
 *  organization. */
export function withAccess(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return accesses(agent, known).filter(
    ({ agentRole, organizationRole }) => Boolean(agentRole) || leading.has(organizationRole ?? ""),
  );
}

/** Returns the administrators: owner or admin of the agent, and active owners and admins of the
 *  organization. */
export function inCharge(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return accesses(agent, known).flatMap((access): Access[] => {
    if (leading.has(access.agentRole ?? "")) return [{ ...access, accessSource: "agent" }];
    const leads = leading.has(access.organizationRole ?? "") && access.organizationStatus === "active";
    return leads ? [{ ...access, accessSource: "organization" }] : [];
  });
}

/** Returns every member with both of their roles. `known` is keyed by lower-case e-mail address. */
function accesses(agent: AgentDefinition, known: ReadonlyMap<string, KnownMember>): Access[] {
  return agent.organization.members.flatMap((member) => {
    const stored = known.get(member.email.toLowerCase());
    if (!stored) return [];
    const own = agent.assignments.find(({ email }) => email.toLowerCase() === member.email.toLowerCase());
    return [
      {
        id: stored.id,
        email: member.email,
        firstName: member.firstName,
        lastName: member.lastName,
        avatarUrl: member.avatarUrl,
        agentRole: own?.role ?? null,
        agentAccessStatus: own?.status ?? null,
        organizationRole: member.role,
        organizationStatus: member.status,
        accessSource: own ? ("agent" as const) : ("organization" as const),
        createdAt: new Date(stored.created_at).toISOString(),
      },
    ];
  });
}
