// Agents from a YAML file, with all its errors at once: file, line, key and what is wrong.

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import { type AgentBlock, type AgentsFile, agentsFile } from "./agents-shape.ts";
import type { AgentDefinition, SkillDefinition } from "./definition.ts";
import { passagesOf } from "./knowledge.ts";
import { locate, type Problem } from "./locate.ts";
import { uuidOf } from "./names.ts";
import type { Passage } from "./store/passages.ts";

/**
 * Reads a file of agents. `file` is its path, for messages and as the place `knowledge: [{file}]` is relative to.
 * Throws one Error whose message has a line for each problem.
 */
export function readAgents(text: string, file: string): AgentDefinition[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const broken = document.errors.map(
    (error) => `${file}:${lines.linePos(error.pos[0]).line}: ${error.message}`,
  );
  if (broken.length > 0) throw new Error(broken.join("\n"));
  const refuse = (problems: readonly Problem[]) => {
    if (problems.length > 0)
      throw new Error(problems.map((problem) => locate(document, lines, file, problem)).join("\n"));
  };
  const result = agentsFile.safeParse(document.toJS({ maxAliasCount: 100 }));
  if (!result.success) refuse(result.error.issues.flatMap(problemsOf));
  const read = result.data as AgentsFile;
  refuse(repeated(read));
  const problems: Problem[] = [];
  const agents = read.agents.map((block, index) =>
    define(read.organization, block, knowledgeOf(block, index, file, problems)),
  );
  refuse(problems);
  return agents;
}

type Issue = NonNullable<ReturnType<typeof agentsFile.safeParse>["error"]>["issues"][number];

function problemsOf(issue: Issue): Problem[] {
  if (issue.code !== "unrecognized_keys") return [{ path: issue.path, message: issue.message }];
  return issue.keys.map((key) => ({ path: [...issue.path, key], message: "no such key" }));
}

/** Names and keys tell agents apart, so they must differ. */
function repeated({ organization, agents }: AgentsFile): Problem[] {
  const problems: Problem[] = [];
  const members = new Set<string>();
  for (const [index, { email }] of organization.users.entries()) {
    const path = ["organization", "users", index, "email"];
    if (members.has(email.toLowerCase())) problems.push({ path, message: "another user has the same" });
    members.add(email.toLowerCase());
  }
  for (const [index, agent] of agents.entries()) {
    for (const [at, { email }] of agent.users.entries()) {
      const path = ["agents", index, "users", at, "email"];
      if (!members.has(email.toLowerCase()))
        problems.push({ path, message: "is no user of the organization" });
    }
  }
  for (const field of ["id", "name", "key"] as const) {
    const seen = new Set<string>();
    for (const [index, agent] of agents.entries()) {
      const value = agent[field];
      if (value === undefined) continue;
      if (seen.has(value))
        problems.push({ path: ["agents", index, field], message: "another agent has the same" });
      seen.add(value);
    }
  }
  return problems;
}

function define(
  organization: AgentsFile["organization"],
  block: AgentBlock,
  knowledge: readonly Passage[],
): AgentDefinition {
  const { email, sms, voice, api } = block.skills;
  return {
    id: block.id ?? uuidOf("agent", organization.name, block.name),
    organization: {
      id: organization.id ?? uuidOf("organization", organization.name),
      name: organization.name,
      key: organization.key ?? null,
      members: organization.users.map(({ first_name, last_name, avatar_url, ...member }) => ({
        ...member,
        firstName: first_name,
        lastName: last_name,
        avatarUrl: avatar_url ?? null,
      })),
      states: organization.states.map(({ id, name, description, color, persistent }) => ({
        id: id ?? uuidOf("state", organization.name, name),
        name,
        description: description ?? null,
        color: color ?? null,
        isPersistent: persistent,
      })),
    },
    assignments: block.users,
    name: block.name,
    publicName: block.public_name ?? block.name,
    key: block.key,
    status: block.status,
    role: block.role,
    description: block.description ?? null,
    instructions: block.instructions,
    skills: [
      ...(email ? [{ systemName: "EMAIL", ...email } satisfies SkillDefinition] : []),
      ...webhookSkill(block),
      ...(sms ? [{ systemName: "SMS", ...sms } satisfies SkillDefinition] : []),
      ...(voice ? [{ systemName: "VOICE", ...voice } satisfies SkillDefinition] : []),
    ],
    webhooks: block.webhooks.map(({ secret, ...webhook }) => ({ ...webhook, secret })),
    apiEnabled: api?.status !== "inactive",
    rules: block.rules,
    knowledge,
    defaultAnswer: block.default_answer,
    model: modelOf(block),
  };
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

function modelOf({ model }: AgentBlock): AgentDefinition["model"] {
  if (!model) return null;
  const { url, key, name, temperature, timeout } = model;
  return { url, key: key ?? null, name, temperature, timeoutMs: timeout * 1000 };
}

function knowledgeOf(block: AgentBlock, index: number, file: string, problems: Problem[]): Passage[] {
  return block.knowledge.flatMap((entry, at) => {
    if (entry.file === undefined) return passagesOf(entry.title, entry.text ?? "", null);
    try {
      return passagesOf(entry.title, readFileSync(resolve(dirname(file), entry.file), "utf8"), entry.file);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      problems.push({ path: ["agents", index, "knowledge", at, "file"], message: `reading it: ${why}` });
      return [];
    }
  });
}
