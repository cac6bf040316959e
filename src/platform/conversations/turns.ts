// Processes one question and its answer. The question is committed before the agent is asked, and the answer before it
// is returned. When the agent fails, the question is removed: a 500 leaves no state, so a retry is safe; on a full disk it is
// removed as soon as there is room. When the process dies in between, the question stays marked open and is answered at the next start.

import { type Clock, hour, type Log } from "bridgehead/contract";
import type { AgentDefinition, EscalationDefinition } from "../agents/definition.ts";
import type { Roster } from "../agents/roster.ts";
import { type BrainAnswer, recall } from "../brain/brain.ts";
import type { ChatMessage } from "../brain/model.ts";
import { readAttached } from "../files/message-files.ts";
import type { DocumentReader } from "../files/reading.ts";
import { newUuid } from "../ids.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { MessageFileRow, MessageRow } from "../store/messages.ts";
import type { PlatformStore } from "../store/store.ts";
import { fire } from "../webhooks/deliveries.ts";
import { escalate, watch } from "./escalations.ts";
import { countMessage } from "./statistics.ts";

const historyLength = 20;
/** How long a withdrawn question counts, in milliseconds, and how many of them are kept. */
const withdrawnFor = hour;
const mostWithdrawn = 200;
/** Pause before a failed question is removed again, when the store could not be written. */
const giveUpAgainMs = 5_000;

export interface MessageContent {
  readonly text: string;
  readonly context: string | null;
  /** Files that were uploaded before and that no other message names. */
  readonly files: readonly MessageFileRow[];
}

interface TurnsContext {
  readonly store: PlatformStore;
  readonly roster: Roster;
  readonly documents: DocumentReader;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts at a shutdown. */
  readonly signal: AbortSignal;
}

export class Turns {
  readonly #context: TurnsContext;
  readonly #store: PlatformStore;
  readonly #later = new Set<Promise<unknown>>();
  /** Questions whose client disconnected. They are removed, so that a retry is safe, but the person has said them: in a
   *  call they are interrupted by the rest of the sentence, which means little without them. */
  #withdrawn: readonly MessageRow[] = [];

  constructor(context: TurnsContext) {
    this.#context = context;
    this.#store = context.store;
  }

  /** Returns the agent's answer, or the question itself in manual mode, also when this mode began while the agent was
   *  answering. Undefined: the conversation does not exist. Throws when the agent fails, when its answer cannot be stored,
   *  or when `gone` (the client's disconnect) aborts before its model has answered. */
  async ask(
    agent: AgentDefinition,
    conversationId: string,
    words: MessageContent,
    gone: AbortSignal | null,
  ): Promise<MessageRow | undefined> {
    const asked = await this.#put(agent, conversationId, words);
    return asked?.question.open ? this.#answer(asked, gone) : asked?.question;
  }

  /** Like `ask`, without waiting. Returns the question itself; it is answered in the background,
   *  possibly by a later process. */
  async askLater(
    agent: AgentDefinition,
    conversationId: string,
    words: MessageContent,
  ): Promise<MessageRow | undefined> {
    const asked = await this.#put(agent, conversationId, { ...words, patient: true });
    if (asked?.question.open) {
      const answering = this.#answer(asked)
        .catch((error: unknown) => this.#context.log.warn({ error }, "answering a question failed"))
        .finally(() => this.#later.delete(answering));
      this.#later.add(answering);
    }
    return asked?.question;
  }

  /** Resolves when no question is being answered in the background. */
  async idle(): Promise<void> {
    while (this.#later.size > 0) await Promise.all(this.#later);
  }

  /** Stores a human's reply in place of the agent's. */
  replyManually(
    conversation: PlatformConversationRow,
    { text, files }: Omit<MessageContent, "context">,
    questionId: string | null,
  ): Promise<MessageRow> {
    const { messages, messageFiles, commits } = this.#store;
    return commits.write(() => {
      const about = questionId ?? messages.newestQuestion(conversation.id)?.id;
      const questioned = about ? { questionId: about } : {};
      const answered = this.#say(conversation, { role: "manual_assistant", text, ...questioned });
      for (const file of files) messageFiles.attach(file.id, answered.id);
      this.#fire("each_message", conversation);
      return answered;
    });
  }

  /** Answers the questions that an earlier process left open. Failed ones are removed. Those in manual mode, or of an
   *  agent that is inactive by now, stay without an answer. Ends early at a shutdown. */
  async resume(): Promise<void> {
    const { roster, log, signal } = this.#context;
    for (const question of this.#store.messages.open()) {
      if (signal.aborted) return;
      // The quota was checked when the question was stored, so an interrupted question is always answered.
      const found = roster.all().flatMap((agent) => {
        const conversation = this.#store.conversations.byId(agent.id, question.conversation_id);
        return conversation ? { agent, conversation } : [];
      })[0];
      if (!found) continue;
      const asked = { ...found, question, none: null };
      const answers = found.agent.status === "active" && found.conversation.mode === "ai";
      const done = answers ? this.#answer(asked) : this.#store.commits.write(() => this.#leave(asked, 0));
      await done.catch((error: unknown) => log.warn({ error }, "answering an open question failed"));
    }
  }

  #say(conversation: PlatformConversationRow, said: TurnMessage): MessageRow {
    return say(this.#store, this.#context.clock.now(), conversation, said);
  }

  #fire(trigger: Parameters<typeof fire>[2], conversation: PlatformConversationRow): void {
    fire(this.#store, this.#context.clock.now(), trigger, conversation);
  }

  /** Handles a failed question. An asynchronous question is kept with the reason; any other is removed. */
  #giveUp({ conversation, question, none }: AskedQuestion): void {
    const { messages, usage } = this.#store;
    if (question.patient) messages.fail(question.id, "the agent failed");
    else messages.remove(question.id);
    if (none === null)
      usage.add(conversation.agent_id, conversation.person_id, this.#context.clock.now(), { questions: -1 });
  }

  /** Stores the question. Returns undefined when the conversation does not exist. */
  #put(
    agent: AgentDefinition,
    conversationId: string,
    { files, ...words }: MessageContent & Pick<TurnMessage, "patient">,
  ): Promise<AskedQuestion | undefined> {
    const { commits, conversations, messageFiles } = this.#store;
    return commits.write(() => {
      const conversation = conversations.byId(agent.id, conversationId);
      if (!conversation) return undefined;
      const answered = agent.status === "active" && conversation.mode === "ai";
      // Counted before it is answered, so that concurrent requests cannot exceed the quota.
      const none = exhausted(this.#store, agent, this.#context.clock.now());
      const counted = answered && none === null;
      const about = { role: "conversation_user", ...words, open: answered, counted } as const;
      const question = this.#say(conversation, about);
      for (const file of files) messageFiles.attach(file.id, question.id);
      // A webhook fires when the turn is complete: with the answer, or now if the agent will not answer.
      if (!answered) this.#fire("each_message", conversation);
      if (agent.status !== "active") this.#fire("chat_currently_unavailable", conversation);
      return { agent, conversation, question, none };
    });
  }

  /** The response of an escalation takes precedence over any other answer. With an exhausted quota the
   *  model is not asked, and only keywords trigger an escalation. */
  async #think({ agent, conversation, question, none }: AskedQuestion, until: AbortSignal): Promise<Thought> {
    const { clock, roster, documents } = this.#context;
    const asking = { clock, signal: until };
    const watched = await watch(agent, question.text, none === null ? agent.model : null, asking);
    // Stops here: without the model's decision, keywords alone would decide about the escalation.
    if (agent.model && until.aborted) throw new Error(`asking ${agent.name}: the request has ended`);
    const { escalation, tokens } = watched;
    if (escalation) return { text: escalation.response, sources: [], tokens, escalation };
    if (none !== null) return { text: none, sources: [], tokens, escalation };
    const brain = roster.brain(agent.id);
    if (!brain) throw new Error(`asking ${agent.name}: it is gone`);
    const person = this.#store.people.byId(conversation.agent_id, conversation.person_id);
    const remembered = recall(this.#store, agent, conversation, clock.now());
    const facts = [person?.context, conversation.context, remembered, question.context];
    const context = [
      ...facts.filter((fact) => typeof fact === "string"),
      ...(agent.model ? await readAttached(this.#store, documents, question.id, until) : []),
    ];
    const withdrawn = this.#withdrawnBefore(question);
    const history = () => historyOf(this.#store, conversation, question, withdrawn);
    const made = await brain.answer({ text: question.text, context, history }, until);
    return { ...made, tokens: made.tokens + tokens, escalation };
  }

  async #answer(asked: AskedQuestion, gone: AbortSignal | null = null): Promise<MessageRow | undefined> {
    const { log, signal } = this.#context;
    const { commits } = this.#store;
    try {
      const thought = await this.#think(asked, gone ? AbortSignal.any([signal, gone]) : signal);
      return await commits.write(() => this.#conclude(asked, thought));
    } catch (error) {
      if (gone?.aborted) this.#withdrawn = [...this.#withdrawn, asked.question].slice(-mostWithdrawn);
      // During a shutdown the question stays open instead, for the next start.
      if (!signal.aborted)
        await commits
          .write(() => this.#giveUp(asked))
          .catch((err: unknown) => {
            log.error({ err, question: asked.question.id }, "removing a failed question failed");
            const removing = this.#giveUpLater(asked).finally(() => this.#later.delete(removing));
            this.#later.add(removing);
          });
      throw error;
    }
  }

  /** Gives the question up when the store can be written again: an open one would count as one that is being answered. */
  async #giveUpLater(asked: AskedQuestion): Promise<void> {
    const { clock, signal } = this.#context;
    await clock.sleep(giveUpAgainMs, signal);
    if (signal.aborted) return;
    await this.#store.commits.write(() => this.#giveUp(asked)).catch(() => this.#giveUpLater(asked));
  }

  /** Returns the conversation's withdrawn questions, oldest first. One that is asked again is none any more. */
  #withdrawnBefore({ conversation_id: conversation, text }: MessageRow): readonly MessageRow[] {
    const since = this.#context.clock.now() - withdrawnFor;
    this.#withdrawn = this.#withdrawn.filter(
      (one) => one.created_at > since && !(one.conversation_id === conversation && one.text === text),
    );
    return this.#withdrawn.filter((one) => one.conversation_id === conversation);
  }

  /** Stores the answer. Returns the question itself when the conversation is in manual mode by now, and undefined when the
   *  question was deleted while the agent was answering. Call inside a transaction. */
  #conclude(asked: AskedQuestion, { text, tokens, sources, escalation }: Thought): MessageRow | undefined {
    const { agent, conversation, question } = asked;
    const { clock, log } = this.#context;
    const { conversations, messages } = this.#store;
    if (!messages.byId(conversation.id, question.id)) return undefined;
    if (conversations.byId(agent.id, conversation.id)?.mode !== "ai") return this.#leave(asked, tokens);
    messages.close(question.id);
    const citations = sources.length > 0 ? JSON.stringify(sources) : null;
    const questionId = question.id;
    const answered = this.#say(conversation, { role: "assistant", questionId, text, citations, tokens });
    if (escalation) {
      escalate(this.#store, clock.now(), { agent, conversation, questionId, escalation });
      const { topic, recipients } = escalation;
      const channels = recipients.map(({ channel }) => channel);
      log.info({ conversation: conversation.id, topic, channels }, "conversation escalated");
    }
    this.#fire("each_message", conversation);
    return answered;
  }

  /** Closes an open question without an answer, like one that was asked in manual mode or of an inactive agent. `tokens`:
   *  those of the answer that is discarded. Call inside a transaction. */
  #leave({ agent, conversation, question, none }: AskedQuestion, tokens: number): MessageRow | undefined {
    const { messages, usage } = this.#store;
    if (!messages.byId(conversation.id, question.id)) return undefined;
    messages.close(question.id);
    const questions = none === null ? -1 : 0;
    usage.add(conversation.agent_id, conversation.person_id, this.#context.clock.now(), { tokens, questions });
    this.#fire("each_message", conversation);
    if (agent.status !== "active") this.#fire("chat_currently_unavailable", conversation);
    return { ...question, open: 0 };
  }
}

interface Thought extends BrainAnswer {
  readonly escalation: EscalationDefinition | null;
}

interface AskedQuestion {
  readonly agent: AgentDefinition;
  readonly conversation: PlatformConversationRow;
  readonly question: MessageRow;
  /** The answer to return when the quota is exhausted. */
  readonly none: string | null;
}

function historyOf(
  store: PlatformStore,
  conversation: PlatformConversationRow,
  question: MessageRow,
  withdrawn: readonly MessageRow[],
): ChatMessage[] {
  const stored = store.messages.before(conversation.id, question.seq, historyLength);
  const removed = withdrawn.filter(({ id, seq }) => seq < question.seq && !stored.some((one) => one.id === id));
  const said = [...stored, ...removed]
    .sort((one, other) => one.seq - other.seq)
    .map(
      ({ sender_role, text }): ChatMessage => ({
        role: sender_role === "conversation_user" ? "user" : "assistant",
        content: text,
      }),
    );
  const { introduction } = conversation;
  return introduction ? [{ role: "assistant", content: introduction }, ...said] : said;
}

// Enforces the MESSAGE_QUOTA skill: questions per calendar month (UTC).

/** Returns the response to use when the quota is exhausted; null otherwise, or without a quota. */
function exhausted(store: PlatformStore, { id, quota }: AgentDefinition, now: number): string | null {
  if (!quota) return null;
  const today = new Date(now);
  const month = Date.UTC(today.getUTCFullYear(), today.getUTCMonth());
  return store.usage.within(id, month, null).questions >= quota.limit ? quota.response : null;
}

// Appends a message to a conversation.

export interface TurnMessage {
  readonly role: MessageRow["sender_role"];
  readonly text: string;
  readonly questionId?: string;
  readonly context?: string | null;
  readonly citations?: string | null;
  readonly open?: boolean;
  readonly tokens?: number;
  /** The message counts against the agent's quota. */
  readonly counted?: boolean;
  readonly patient?: boolean;
}

/** Stores the message with the conversation's next time. Called inside a transaction. A message after
 *  the end of a dialog starts a new dialog. An answer to a question from before that end does not. */
function say(store: PlatformStore, now: number, conversation: PlatformConversationRow, said: TurnMessage): MessageRow {
  const { conversations, messages } = store;
  const before = conversations.byId(conversation.agent_id, conversation.id);
  const latest = before?.last_message_at ?? 0;
  const at = Math.max(now, latest + 1);
  const id = newUuid(now);
  const row = messages.insert({
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
    questions: said.counted ? 1 : 0,
  });
  if (said.role !== "assistant" && typeof before?.ended_at === "number") fire(store, now, "start_dialog", conversation);
  return row;
}
