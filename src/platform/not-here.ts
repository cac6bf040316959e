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

/** The names of an agent's active skills and settings that do nothing here. */
export function notDone({ skills, model, ...agent }: AgentDefinition): string[] {
  const needsModel = (name: string) => (name === "SCORING" || name === "MEMORY") && model === null;
  const settings = {
    isCodeInterpreterEnabled: agent.codeInterpreter,
    restrictDocumentsToOwnerOnly: agent.restrictDocumentsToOwnerOnly === true,
    reasoningMode: model !== null && model.reasoningMode !== null && model.api !== "responses",
  };
  const names = skills
    .filter(
      ({ status, systemName }) => status === "active" && (!done.has(systemName) || needsModel(systemName)),
    )
    .map(({ systemName }) => systemName);
  const set = Object.entries(settings).filter(([, on]) => on);
  return [...names, ...set.map(([name]) => name)];
}
