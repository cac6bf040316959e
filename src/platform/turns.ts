// One question and its answer. The question is durable before anybody thinks about it, the answer before anybody is
// told. When the agent fails the question is taken back: a 500 leaves nothing behind, so asking again is safe. When the
// process dies in between, the question stays marked open and is answered at the next start.

import type { Clock, Log } from "bridgehead/contract";
import type { Brain, BrainAnswer } from "./brain/brain.ts";
import type { ChatMessage } from "./brain/model.ts";
import type { AgentDefinition } from "./definition.ts";
import { newUuid } from "./names.ts";
import { countMessage } from "./statistics.ts";
import type { ConversationRow } from "./store/conversations.ts";
import type { MessageRow, NewMessage } from "./store/messages.ts";
import type { PlatformStore } from "./store/store.ts";
import { fire } from "./webhooks/fire.ts";

const historyLength = 20;

export interface Turns {
  /** The message to return: the agent's answer, or the question itself when a person answers here. Undefined: no such
   *  conversation. Throws when the agent failed. */
  ask(
    agent: AgentDefinition,
    conversationId: string,
    text: string,
    context: string | null,
  ): Promise<NewMessage | undefined>;
  /** Like `ask`, without waiting: the question itself, to be answered in the background, also by a later process. */
  askLater(
    agent: AgentDefinition,
    conversationId: string,
    text: string,
    context: string | null,
  ): Promise<NewMessage | undefined>;
  /** A person's message in place of the agent's. */
  sayManually(conversation: ConversationRow, text: string, questionId: string | null): Promise<NewMessage>;
  /** Resolves when nothing is being answered in the background. */
  settled(): Promise<void>;
  /** Answers what an earlier process left open; those that fail are taken back. Ends early when `signal` aborts. */
  resume(agents: readonly AgentDefinition[]): Promise<void>;
}

export function createTurns(
  store: PlatformStore,
  brains: ReadonlyMap<string, Brain>,
  clock: Clock,
  log: Log,
  signal: AbortSignal,
): Turns {
  const { commits, conversations, messages } = store;
  const later = new Set<Promise<unknown>>();

  /** Inside a transaction: the message with the conversation's next time, stored. */
  function say(conversation: ConversationRow, said: Said): MessageRow {
    const now = clock.now();
    const latest = conversations.byId(conversation.agent_id, conversation.id)?.last_message_at ?? 0;
    const at = Math.max(now, latest + 1);
    const id = newUuid(now);
    messages.insert({
      id,
      conversation_id: conversation.id,
      sender_role: said.role,
      question_id: said.questionId ?? id,
      text: said.text,
      context: said.context ?? null,
      citations: said.citations ?? null,
      open: said.open ? 1 : 0,
      patient: said.patient ? 1 : 0,
      error: null,
      created_at: at,
    });
    conversations.touch(conversation.id, at);
    countMessage(store, conversation, {
      ours: said.role !== "conversation_user",
      at,
      previousAt: latest || at,
      tokens: said.tokens ?? 0,
    });
    const row = messages.byId(conversation.id, id);
    if (!row) throw new Error("storing a message: it is not there");
    return row;
  }

  /** A question nobody waits for stays, with the reason; any other leaves nothing behind. */
  function giveUp(question: MessageRow): void {
    if (question.patient) messages.fail(question.id, "the agent failed");
    else messages.remove(question.id);
  }

  /** Stores the question; undefined when there is no such conversation. */
  function put(
    agent: AgentDefinition,
    conversationId: string,
    said: Pick<Said, "text" | "context" | "patient">,
  ) {
    return commits.write(() => {
      const conversation = conversations.byId(agent.id, conversationId);
      if (!conversation) return undefined;
      const answered = agent.status === "active" && conversation.mode === "ai";
      const question = say(conversation, { role: "conversation_user", ...said, open: answered });
      // A turn is told of when it is whole: with its answer, or at once when none will come by itself.
      if (!answered) fire(store, clock.now(), "each_message", conversation);
      if (agent.status !== "active") fire(store, clock.now(), "chat_currently_unavailable", conversation);
      return { conversation, question };
    });
  }

  async function answer(
    brain: Brain,
    conversation: ConversationRow,
    question: MessageRow,
  ): Promise<NewMessage | undefined> {
    let made: BrainAnswer;
    try {
      made = await brain.answer(
        {
          text: question.text,
          context: contextOf(store, conversation, question),
          history: () => historyOf(store, conversation, question),
        },
        signal,
      );
    } catch (error) {
      // On the way down the question stays open instead, for the next start.
      if (!signal.aborted) await commits.write(() => giveUp(question));
      throw error;
    }
    return commits.write(() => {
      // Deleted while the agent was thinking: nobody is left to be answered.
      if (!messages.byId(conversation.id, question.id)) return undefined;
      messages.close(question.id);
      const citations = made.sources.length > 0 ? JSON.stringify(made.sources) : null;
      const { text, tokens } = made;
      const said = say(conversation, { role: "assistant", questionId: question.id, text, citations, tokens });
      fire(store, clock.now(), "each_message", conversation);
      return said;
    });
  }

  return {
    async ask(agent, conversationId, text, context) {
      const brain = brains.get(agent.id);
      const asked = await put(agent, conversationId, { text, context });
      if (!asked || !brain) return undefined;
      const { conversation, question } = asked;
      return question.open ? answer(brain, conversation, question) : question;
    },
    async askLater(agent, conversationId, text, context) {
      const brain = brains.get(agent.id);
      const asked = await put(agent, conversationId, { text, context, patient: true });
      if (!asked || !brain) return undefined;
      const { conversation, question } = asked;
      if (question.open) {
        const answering = answer(brain, conversation, question)
          .catch((error: unknown) => log.warn({ error }, "a question could not be answered"))
          .finally(() => later.delete(answering));
        later.add(answering);
      }
      return question;
    },
    async settled() {
      while (later.size > 0) await Promise.all(later);
    },
    sayManually: (conversation, text, questionId) =>
      commits.write(() => {
        const about = questionId ?? messages.newestQuestion(conversation.id)?.id;
        const questioned = about ? { questionId: about } : {};
        const said = say(conversation, { role: "manual_assistant", text, ...questioned });
        fire(store, clock.now(), "each_message", conversation);
        return said;
      }),
    async resume(agents) {
      for (const question of messages.open()) {
        if (signal.aborted) return;
        const conversation = agents
          .map((agent) => conversations.byId(agent.id, question.conversation_id))
          .find((found) => found !== undefined);
        const brain = brains.get(conversation?.agent_id ?? "");
        if (!conversation || !brain) continue;
        await answer(brain, conversation, question).catch((error: unknown) =>
          log.warn({ error }, "a question left open could not be answered"),
        );
      }
    },
  };
}

interface Said {
  readonly role: MessageRow["sender_role"];
  readonly text: string;
  readonly questionId?: string;
  readonly context?: string | null;
  readonly citations?: string | null;
  readonly open?: boolean;
  readonly tokens?: number;
  readonly patient?: boolean;
}

function contextOf(store: PlatformStore, conversation: ConversationRow, question: MessageRow): string[] {
  const person = store.people.byId(conversation.agent_id, conversation.person_id);
  return [person?.context, conversation.context, question.context].filter((text) => typeof text === "string");
}

function historyOf(store: PlatformStore, conversation: ConversationRow, question: MessageRow): ChatMessage[] {
  const said = store.messages.before(conversation.id, question.seq, historyLength).map(
    ({ sender_role, text }): ChatMessage => ({
      role: sender_role === "conversation_user" ? "user" : "assistant",
      content: text,
    }),
  );
  const { introduction } = conversation;
  return introduction ? [{ role: "assistant", content: introduction }, ...said] : said;
}
