// Reads agents from a YAML file. Reports all errors at once with file, line, key and reason.

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { type AgentBlock, type AgentsFile, agentsFile } from "./agents-shape.ts";
import { definitionOf, knowledgeOf, organizationOf } from "./defining.ts";
import type { AgentDefinition } from "./definition.ts";
import { passagesOf } from "./knowledge.ts";
import type { Problem } from "./locate.ts";
import { keyHash, uuidOf } from "./names.ts";
import type { Passage } from "./store/passages.ts";
import { readYaml } from "./yaml-file.ts";

/** Parses an agents file. `file` is its path, used in error messages and as the base for `knowledge:
 *  [{file}]`. Throws one Error whose message has a line for each problem. */
export function readAgents(text: string, file: string): AgentDefinition[] {
  const { value: read, refuse } = readYaml(agentsFile, text, file);
  refuse(repeated(read));
  const problems: Problem[] = [];
  const organization = organizationOf(read.organization);
  const agents = read.agents.map((block, index) =>
    definitionOf(block, {
      id: block.id ?? uuidOf("agent", organization.name, block.name),
      organization,
      keyHash: keyHash(block.key),
      seed: block.key,
      knowledge: knowledgeIn(block, index, file, problems),
    }),
  );
  refuse(problems);
  return agents;
}

/** Rejects duplicate names and keys, because both identify an agent. */
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

function knowledgeIn(block: AgentBlock, index: number, file: string, problems: Problem[]): Passage[] {
  return knowledgeOf(block, passagesOf, (name, at) => {
    try {
      return readFileSync(resolve(dirname(file), name), "utf8");
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      problems.push({ path: ["agents", index, "knowledge", at, "file"], message: `reading it: ${why}` });
      return null;
    }
  });
}
