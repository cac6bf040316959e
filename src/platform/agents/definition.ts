// Definition of an agent: what the platform serves, from a validated block of the agents file.

import type * as z from "zod";
import { listedModel, unlistedModel } from "../../wire/agent.ts";
import type { servedSkill } from "../../wire/skill.ts";
import { passagesOf } from "../brain/knowledge.ts";
import { uuidOf } from "../ids.ts";
import type { KnowledgePassage } from "../store/files.ts";
import type { AgentBlock, OrganizationBlock } from "./schema.ts";
import { onlyKept } from "./skills.ts";

/** An agent as the platform serves it, from its block in a file of agents, in the store or in the daemon's configuration. */
export type AgentDefinition = Readonly<ReturnType<typeof definitionOf>>;
export type EscalationDefinition = AgentDefinition["escalations"][number];
export type ModelDefinition = NonNullable<AgentDefinition["model"]>;
type OrganizationDefinition = ReturnType<typeof organizationOf>;
export type StateDefinition = OrganizationDefinition["states"][number];
/** Any skill in the format of the API. */
type SkillDefinition = z.input<typeof servedSkill>;

/** What the block itself does not contain. */
interface AgentIdentity {
  readonly id: string;
  readonly organization: OrganizationDefinition;
  /** Hash of the API key; the key itself is not stored. */
  readonly keyHash: string;
  /** Seed for derived secrets. Never exposed, and stable across restarts. Empty: derived from a secret of the
   *  platform's database. */
  readonly seed: string;
  readonly knowledge: readonly KnowledgePassage[];
}

export function organizationOf(block: OrganizationBlock) {
  return {
    id: block.id ?? uuidOf("organization", block.name),
    name: block.name,
    key: block.key ?? null,
    members: block.users.map(({ first_name, last_name, avatar_url, ...member }) => ({
      ...member,
      firstName: first_name,
      lastName: last_name,
      avatarUrl: avatar_url ?? null,
    })),
    states: block.states.map(({ id, name, description, color, persistent }) => ({
      id: id ?? uuidOf("state", block.name, name),
      name,
      description: description ?? null,
      color: color ?? null,
      isPersistent: persistent,
    })),
  };
}

export function definitionOf(block: AgentBlock, identity: AgentIdentity) {
  const { api, scoring, memory, data_retention, message_quota } = block.skills;
  return {
    ...identity,
    /** Members with a role on this agent. */
    assignments: block.users,
    name: block.name,
    publicName: block.public_name ?? block.name,
    status: block.status,
    role: block.role,
    description: block.description ?? null,
    avatarUrl: block.avatar_url ?? null,
    tags: block.tags ?? null,
    restrictDocumentsToOwnerOnly: block.restrict_documents_to_owner_only ?? null,
    instructions: block.instructions,
    codeInterpreter: block.code_interpreter,
    /** Without the API skill, which is present whenever the key is valid. */
    skills: skillsOf(block, identity.id),
    webhooks: block.webhooks,
    /** False rejects the agent's key. */
    apiEnabled: api?.status !== "inactive",
    rules: block.rules,
    defaultAnswer: block.default_answer,
    model: modelOf(block),
    fileSearch: { enabled: block.file_search.enabled, maxResults: block.file_search.max_results },
    escalations: escalationsOf(block),
    /** Prompt for scoring an ended conversation from 0 to 10. */
    scoring: active(scoring) ? (scoring.scoringPrompt ?? "How well was the person served?") : null,
    memory: active(memory)
      ? {
          by: memory.type === "BY_USER" ? ("user" as const) : ("agent" as const),
          days: memory.retentionDuration,
        }
      : null,
    /** What to anonymize in conversations without a message for this number of days. */
    retention: active(data_retention)
      ? {
          days: data_retention.retentionDays,
          conversations: data_retention.anonymizeConversations,
          people: data_retention.anonymizeConversationUsers,
        }
      : null,
    /** Number of questions per calendar month (UTC), and the response beyond that number. */
    quota: active(message_quota) ? message_quota : null,
  };
}

function active<T extends { readonly status: string }>(skill: T | undefined): skill is T {
  return skill?.status === "active";
}

/** Returns the skills in the format of the API. */
function skillsOf(block: AgentBlock, agentId: string): SkillDefinition[] {
  const { email, sms, voice, escalation, scoring, memory, data_retention, message_quota } = block.skills;
  const given: (SkillDefinition | undefined)[] = [
    email && { systemName: "EMAIL", ...email },
    ...webhookSkill(block),
    sms && { systemName: "SMS", ...sms },
    voice && {
      systemName: "VOICE",
      ...voice,
      vXAssistantId: voice.vXAssistantId ?? uuidOf("voice assistant", agentId),
      vXPhoneNumberId: voice.vXPhoneNumberId ?? uuidOf("voice number", agentId),
    },
    escalation,
    scoring,
    memory,
    data_retention,
    message_quota && { systemName: "MESSAGE_QUOTA", ...message_quota },
    ...onlyKept.map((name) => block.skills[name]),
  ];
  return given.filter((skill) => skill !== undefined);
}

function webhookSkill({ webhooks }: AgentBlock): SkillDefinition[] {
  if (webhooks.length === 0) return [];
  const configs = webhooks.map(({ trigger, title, description, url, headers, status }) => ({
    status,
    title,
    description,
    url,
    triggerCondition: trigger,
    headers,
  }));
  const name = "Webhooks";
  return [{ systemName: "WEBHOOK", status: "active", name, description: "Who is told", webhooks: configs }];
}

function modelOf({ model }: AgentBlock) {
  if (!model) return null;
  const { url, api, key, name, listed_as, temperature, output_json_schema: schema } = model;
  return {
    url,
    api,
    key: key ?? null,
    name,
    /** Model name that the API reports; one of the names it lists. */
    listedAs: listed_as ?? (listedModel.test(name) ? name : unlistedModel),
    /** Null leaves the parameter out, so the model's default applies; likewise for the fields below. */
    temperature,
    topP: model.top_p ?? null,
    reasoningEffort: model.reasoning_effort ?? null,
    reasoningMode: model.reasoning_mode ?? null,
    /** JSON Schema that answers must match while it is enabled, and its text as written in the file. */
    outputSchema: schema ? { ...schema, enabled: model.output_json_schema_enabled } : null,
    /** Idle timeout, and total timeout including retries. */
    silenceMs: model.timeout * 1000,
    totalMs: model.total_timeout * 1000,
  };
}

function escalationsOf({ skills: { escalation } }: AgentBlock) {
  if (!active(escalation)) return [];
  return escalation.escalations.map((each) => ({
    topic: each.topic,
    prompt: each.escalationPrompt,
    /** Switches the conversation to manual mode. */
    toManual: each.autoChangeConversationMode,
    response: each.response,
    recipients: each.recipients.map(({ channel, value, headers }) => ({
      channel,
      value,
      headers: Object.fromEntries(Object.entries(headers ?? {}).map(([name, text]) => [name, String(text)])),
    })),
  }));
}

/** Returns the passages of the agent's knowledge. `read` loads the contents of files. */
export const knowledgeOf = (block: AgentBlock, read: (file: string, at: number) => string | null): KnowledgePassage[] =>
  block.knowledge.flatMap(({ title, text, file }, at) => {
    if (file === undefined) return passagesOf(title, text ?? "", null);
    const content = read(file, at);
    return content === null ? [] : passagesOf(title, content, file);
  });

// Lists settings that the embedded platform stores and serves without effect.

/** Skills implemented here. All others require an external service. */
const done: ReadonlySet<string> = new Set(
  "API EMAIL SMS VOICE WEBHOOK ESCALATION SCORING MEMORY DATA_RETENTION MESSAGE_QUOTA".split(" "),
);

/** Returns the names of an agent's active skills and settings that have no effect here. */
export function notDone({ skills, model, ...agent }: AgentDefinition): string[] {
  const needsModel = (name: string) => (name === "SCORING" || name === "MEMORY") && model === null;
  const settings = {
    isCodeInterpreterEnabled: agent.codeInterpreter,
    restrictDocumentsToOwnerOnly: agent.restrictDocumentsToOwnerOnly === true,
    reasoningMode: model !== null && model.reasoningMode !== null && model.api !== "responses",
  };
  const names = skills
    .filter(({ status, systemName }) => status === "active" && (!done.has(systemName) || needsModel(systemName)))
    .map(({ systemName }) => systemName);
  const set = Object.entries(settings).filter(([, on]) => on);
  return [...names, ...set.map(([name]) => name)];
}
