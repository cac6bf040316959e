// The client of one agent: every operation the daemon uses, with results as values.

import { agent as agentRecord } from "../wire/agent.ts";
import { contextLimit, conversation, modeOf, titleLimit } from "../wire/conversation.ts";
import { message, readMessages } from "../wire/message.ts";
import { startResponse } from "../wire/start.ts";
import { type AgentClientOptions, createCaller } from "./caller.ts";
import type { AgentClient, CreateRequest } from "./calls.ts";
import { answerOf, findQuestion } from "./match.ts";
import { findOrMakeUser, searchUser } from "./people.ts";
import { settingsOf } from "./settings.ts";

/** Opens no connection before the first call. Throws when `url` is not an address. */
export function createAgentClient(options: AgentClientOptions): AgentClient {
  const caller = createCaller(options);
  return {
    describe: (signal) =>
      caller.call({
        method: "GET",
        path: "/external/agents/by-api-key",
        signal,
        mayBeMissing: true,
        read: caller.as(agentRecord.read, (record) => settingsOf(record, caller.dropped)),
      }),
    start: (request, call) =>
      caller.call({
        method: "POST",
        path: "/external/conversations/start",
        body: request,
        signal: call.signal,
        crossing: () => call.crossing(),
        read: caller.as(startResponse.read, ({ conversationId }) => ({ conversationId })),
      }),
    async create(request, call) {
      // One limit for all of it, so that finding the person takes no longer than one call.
      const finding = AbortSignal.any([call.signal, AbortSignal.timeout(options.timeoutMs)]);
      const person = await findOrMakeUser(caller, request, finding);
      if (person.kind !== "ok") return person;
      return caller.call({
        method: "POST",
        path: "/external/conversations",
        body: conversationBody(person.value, request),
        signal: call.signal,
        crossing: () => call.crossing(),
        read: caller.as(conversation.read, ({ id }) => ({ conversationId: id })),
      });
    },
    async findConversations(fkId, signal) {
      const found = await searchUser(caller, "fkId", fkId, signal);
      if (found.kind === "ok") return { kind: "ok", value: found.value.conversationIds };
      return found.kind === "missing" ? { kind: "ok", value: [] } : found;
    },
    ask: (conversationId, question, call) =>
      caller.call({
        method: "POST",
        path: `${pathOf(conversationId)}/messages`,
        body: { message: question.text, ...(question.context ? { context: question.context } : {}) },
        signal: call.signal,
        crossing: () => call.crossing(),
        mayBeMissing: true,
        read: caller.as(message.read, answerOf),
      }),
    lookUp: (conversationId, question, signal) =>
      caller.call({
        method: "GET",
        path: `${pathOf(conversationId)}/messages?orderDirection=ASC`,
        signal,
        mayBeMissing: true,
        read: (body) => {
          const reading = readMessages(body, caller.dropped);
          return reading.ok ? { ok: true, value: findQuestion(reading.value, question) } : reading;
        },
      }),
    mode: (conversationId, signal) =>
      caller.call({
        method: "GET",
        path: pathOf(conversationId),
        signal,
        mayBeMissing: true,
        read: caller.as(conversation.read, modeOf),
      }),
    close: () => caller.close(),
  };
}

function conversationBody(userId: string, { title, conversationContext }: CreateRequest): object {
  return {
    conversationUserId: userId,
    ...(title ? { title: title.slice(0, titleLimit) } : {}),
    ...(conversationContext ? { context: conversationContext.slice(0, contextLimit) } : {}),
  };
}

function pathOf(conversationId: string): string {
  return `/external/conversations/${encodeURIComponent(conversationId)}`;
}
