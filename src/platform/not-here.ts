// What the embedded platform keeps and serves of its agents, and does not do.

import type { AgentDefinition } from "./definition.ts";

/** What these do happens here; what all others do needs a service that is not. */
const done: ReadonlySet<string> = new Set([
  "API",
  "EMAIL",
  "SMS",
  "VOICE",
  "WEBHOOK",
  "ESCALATION",
  "SCORING",
  "MEMORY",
  "DATA_RETENTION",
  "MESSAGE_QUOTA",
]);

/** The names of an agent's active skills that do nothing here. */
export function notDone({ skills, model }: AgentDefinition): string[] {
  const needsModel = (name: string) => (name === "SCORING" || name === "MEMORY") && model === null;
  return skills
    .filter(
      ({ status, systemName }) => status === "active" && (!done.has(systemName) || needsModel(systemName)),
    )
    .map(({ systemName }) => systemName);
}
