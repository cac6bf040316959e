// How the embedded agent answers: by rule, else by its model when it has one, else from its knowledge, else honestly
// that it does not know.

import type { Clock } from "bridgehead/contract";
import type { AgentDefinition } from "../definition.ts";
import type { Passages } from "../store/passages.ts";
import { completeFitting } from "./fitting.ts";
import { type ChatMessage, complete } from "./model.ts";
import { findPassages, quote } from "./retrieval.ts";
import { answerByRule, compileRules } from "./rules.ts";
import { fitOf } from "./schema.ts";

interface BrainQuestion {
  readonly text: string;
  /** About the person, the conversation and the message, for a model. */
  readonly context: readonly string[];
  /** Earlier messages, oldest first; only a model needs them, so they are fetched when it is asked. */
  history(): readonly ChatMessage[];
}
export interface Source {
  readonly title: string;
  /** Null: from the agent's definition. */
  readonly fileId: string | null;
}

export interface BrainAnswer {
  readonly text: string;
  /** What it was taken from. */
  readonly sources: readonly Source[];
  /** What the model took for it. */
  readonly tokens: number;
}
export interface Brain {
  /** Throws when the model fails: the agent has no answer then, not even a default one. */
  answer(question: BrainQuestion, signal: AbortSignal): Promise<BrainAnswer>;
}

export function createBrain(agent: AgentDefinition, passages: Passages, clock: Clock): Brain {
  const rules = compileRules(agent.rules);
  const schema = agent.model?.outputSchema?.enabled ? agent.model.outputSchema.schema : null;
  const fit = schema && fitOf(schema);
  return {
    async answer(question, signal) {
      const ruled = answerByRule(rules, question.text);
      if (ruled !== null) return { text: ruled, sources: [], tokens: 0 };
      const { enabled, maxResults } = agent.fileSearch;
      const limit = agent.model ? maxResults : 1;
      const found = enabled ? findPassages(passages, agent.id, question.text, limit) : [];
      const sources = [
        ...new Map(found.map(({ title, file_id }) => [title, { title, fileId: file_id }])).values(),
      ];
      if (agent.model) {
        const system = [
          agent.instructions,
          ...question.context,
          ...found.map(({ title, text }) => `From "${title}":\n${text}`),
        ];
        const messages: ChatMessage[] = [
          { role: "system", content: system.filter(Boolean).join("\n\n") },
          ...question.history(),
          { role: "user", content: question.text },
        ];
        const asking = { clock, signal, schema };
        const made = fit
          ? await completeFitting(agent.model, messages, asking, fit)
          : await complete(agent.model, messages, asking);
        return { ...made, sources };
      }
      const [best] = found;
      if (!best) return { text: agent.defaultAnswer, sources: [], tokens: 0 };
      return { text: quote(best), sources, tokens: 0 };
    },
  };
}
