// Lists settings that the embedded platform stores and serves without effect.

import type { AgentDefinition } from "./definition.ts";

/** Skills implemented here. All others require an external service. */
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

/** Returns the names of an agent's active skills and settings that have no effect here. */
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
