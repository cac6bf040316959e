// Chooses how the embedded agent answers: a matching rule first, then the configured model, then the
// knowledge base,
// and finally a default answer that admits it has no information.

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
  /** Facts about the user, the conversation and the message that a model receives as context. */
  readonly context: readonly string[];
  /** Earlier messages, oldest first. Loaded lazily, because only models need them. */
  history(): readonly ChatMessage[];
}
export interface Source {
  readonly title: string;
  /** Null when the passage comes from the agent's definition instead of a file. */
  readonly fileId: string | null;
}

export interface BrainAnswer {
  readonly text: string;
  /** The passages the answer is based on; they become citations. */
  readonly sources: readonly Source[];
  /** Tokens the model reports for this answer. */
  readonly tokens: number;
}
export interface Brain {
  /** Throws when the model fails. There is no default answer in that case: the API call returns an
   *  error. */
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
