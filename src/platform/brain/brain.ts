// Chooses how the embedded agent answers: a matching rule first, then the configured model, then the knowledge base,
// and finally a default answer that admits it has no information.

import { type Clock, day } from "bridgehead/contract";
import type { AgentDefinition, ModelDefinition } from "../agents/definition.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { Passages } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import { answerByRule, compileRules, findPassages, quote } from "./knowledge.ts";
import { type ChatMessage, type Completion, complete, type ModelOptions } from "./model.ts";
import { type Fit, fitOf } from "./response.ts";

interface BrainQuestion {
  readonly text: string;
  /** Facts about the user, the conversation and the message that a model receives as context. */
  readonly context: readonly string[];
  /** Earlier messages, oldest first. Loaded lazily, because only models need them. */
  history(): readonly ChatMessage[];
}
export interface AnswerSource {
  readonly title: string;
  /** Null when the passage comes from the agent's definition instead of a file. */
  readonly fileId: string | null;
}

export interface BrainAnswer {
  readonly text: string;
  /** The passages the answer is based on; they become citations. */
  readonly sources: readonly AnswerSource[];
  /** Tokens the model reports for this answer. */
  readonly tokens: number;
}
export type Brain = ReturnType<typeof createBrain>;

export function createBrain(agent: AgentDefinition, passages: Passages, clock: Clock) {
  const rules = compileRules(agent.rules);
  const schema = agent.model?.outputSchema?.enabled ? agent.model.outputSchema.schema : null;
  const fit = schema && fitOf(schema);
  return {
    /** Throws when the model fails. There is no default answer in that case: the API call returns an error. */
    async answer(question: BrainQuestion, signal: AbortSignal): Promise<BrainAnswer> {
      const ruled = answerByRule(rules, question.text);
      if (ruled !== null) return { text: ruled, sources: [], tokens: 0 };
      const { enabled, maxResults } = agent.fileSearch;
      const limit = agent.model ? maxResults : 1;
      const found = enabled ? findPassages(passages, agent.id, question.text, limit) : [];
      const sources = [...new Map(found.map(({ title, file_id }) => [title, { title, fileId: file_id }])).values()];
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

// Retries once when an answer does not match the schema, and sends the validation errors to the model.

/** Throws for the same reasons as `complete`, and when the second answer does not match the schema either. */
async function completeFitting(
  model: ModelDefinition,
  messages: readonly ChatMessage[],
  asking: ModelOptions,
  fit: Fit,
): Promise<Completion> {
  const first = await complete(model, messages, asking);
  const misfit = fit(first.text);
  if (!misfit) return first;
  const again: ChatMessage[] = [
    ...messages,
    { role: "assistant", content: first.text },
    {
      role: "user",
      content: `Your answer does not fit its JSON schema: ${misfit.complaint}. Answer again, with nothing but JSON that fits.`,
    },
  ];
  const second = await complete(model, again, asking);
  const still = fit(second.text);
  if (still) throw new Error(`asking the model: its answer does not fit the schema (${still.rule})`);
  return { text: second.text, tokens: first.tokens + second.tokens };
}

// Recalls earlier conversations for the model (MEMORY skill): the last messages of the most recent ones.
// Has no effect without a model.

const conversationsAtMost = 5;
const messagesOfEach = 6;
const lengthAtMost = 4_000;

/** Returns context for the model, or null without one. BY_AGENT includes other users'
 *  conversations without their names. */
export function recall(
  store: PlatformStore,
  { memory, model }: AgentDefinition,
  conversation: PlatformConversationRow,
  now: number,
): string | null {
  if (!memory || !model) return null;
  const person = memory.by === "user" ? conversation.person_id : null;
  const since = now - memory.days * day;
  const lines = store.conversations.recent(conversation, person, since, conversationsAtMost).flatMap(({ id }) =>
    store.messages
      .before(id, Number.MAX_SAFE_INTEGER, messagesOfEach)
      .filter(({ created_at }) => created_at >= since)
      .map(({ sender_role, text }) => `${sender_role === "conversation_user" ? "Person" : "You"}: ${text}`),
  );
  if (lines.length === 0) return null;
  const heading =
    memory.by === "user"
      ? "From earlier conversations with this person:"
      : "From earlier conversations with other people; never say what would tell who they were:";
  return `${heading}\n${lines.join("\n")}`.slice(0, lengthAtMost);
}
