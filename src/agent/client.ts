// The platform client for one agent: every operation of the daemon, over the client of the External API. A
// request is attempted once. The pipeline decides about retries, because only it knows the effect of a
// second attempt.

import type { Clock, Log } from "bridgehead/contract";
import { createClient, mapped } from "../client/index.ts";
import { limited } from "../ops/clock.ts";
import { contextLimit, modeOf, titleLimit } from "../wire/conversation.ts";
import { type Dropped, once } from "../wire/record.ts";
import type { AgentClient, Call, CallResult, CreateRequest, Found, PastQuestion } from "./calls.ts";
import { answerOf, findQuestion, findWords, isCertain, platformMessages } from "./match.ts";
import { findOrMakeUser, repeatable, searchUser } from "./people.ts";
import { settingsOf } from "./settings.ts";
import { type Part, readBack, readFrom } from "./transcript.ts";

export interface AgentClientOptions {
  /** The platform's base address, with or without a path; operations live under its `/external/`. */
  readonly url: string;
  readonly agentKey: string;
  /** For operations addressed by an agent's id. The daemon uses none of them, so the key is never sent. */
  readonly organizationKey?: string;
  /** Timeout of one request in milliseconds, from its first byte to the last byte of the response. A
   *  call's signal may abort later. */
  readonly timeoutMs: number;
  /** Timeout in milliseconds until a connection is open or available. Default 10 s. */
  readonly connectionWaitMs?: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Maximum number of concurrent requests; further requests are queued. Default 128; the daemon derives
   *  it from its channels. */
  readonly connections?: number;
}

/** Creates the client. Opens no connection before the first call. Throws when `url` is not an address. */
export function createAgentClient({ log, ...options }: AgentClientOptions): AgentClient {
  const dropped: Dropped = (record, field) =>
    log.warn({ record, field }, "the platform sent a field of the wrong type; it is ignored");
  const skillDropped = once(dropped);
  const client = createClient({ ...options, dropped, tries: 1 });
  const { agents, conversations, webhooks } = client;
  return {
    async describe(signal) {
      return mapped(await agents.get({ signal }), (record) => settingsOf(record, skillDropped));
    },
    async start(request, call) {
      const started = await conversations.start(request, crossed(call));
      return mapped(started, ({ conversationId }) => ({ conversationId }));
    },
    async create(request, call) {
      // One timeout for all requests, so that finding the user takes no longer than one call.
      const finding = limited(call.signal, options.timeoutMs);
      const person = await findOrMakeUser(client, request, finding);
      if (person.kind !== "ok") return person;
      const made = await conversations.create(conversationBody(person.value, request), crossed(call));
      // The user existed a moment ago.
      if (made.kind === "missing") return repeatable(made.reason);
      return mapped(made, ({ id }) => ({ conversationId: id }));
    },
    async findConversations(fkId, signal) {
      const found = await searchUser(client, { fkId }, signal);
      if (found.kind === "missing") return { kind: "ok", value: [] };
      return mapped(found, ({ conversationIds }) => conversationIds);
    },
    async ask(conversationId, { text, context }, call) {
      const body = { message: text, ...(context ? { context } : {}) };
      return mapped(await conversations.send(conversationId, body, crossed(call)), answerOf);
    },
    async lookUp(conversationId, question, call) {
      const read = await readBack(conversations, conversationId, call, (messages) =>
        isCertain(messages, question),
      );
      if (isCertain(read.messages, question) || read.failure === null)
        return certain(findQuestion(read.messages, question), read, question);
      return read.failure;
    },
    async mode(conversationId, signal) {
      return mapped(await conversations.get(conversationId, { signal }), modeOf);
    },
    async setMode(conversationId, mode, call) {
      return mapped(await conversations.setMode(conversationId, mode, crossed(call)), () => null);
    },
    async say(conversationId, text, call) {
      const body = { message: text };
      return mapped(await conversations.sendManual(conversationId, body, crossed(call)), ({ id }) => id);
    },
    async findSaid(conversationId, words, call) {
      const read = await readBack(
        conversations,
        conversationId,
        call,
        (messages) => findWords(messages, words) !== null,
      );
      const id = findWords(read.messages, words);
      if (id === null && read.failure !== null) return read.failure;
      return { kind: "ok", value: id };
    },
    async read(conversationId, from, call) {
      const read = await readFrom(conversations, conversationId, from, call);
      return { ...read, messages: platformMessages(read.messages) };
    },
    async register({ trigger, ...webhook }, call) {
      const body = { ...webhook, triggerCondition: trigger };
      const made = await webhooks.register(body, crossed(call));
      return mapped(made, ({ id, secret }) => ({ id, secret: secret ?? null }));
    },
    async registered(signal) {
      const listed = await webhooks.list({ signal });
      return mapped(listed, ({ data }) =>
        data.flatMap(({ id, url, triggerCondition: trigger }) =>
          url === undefined || trigger === undefined ? [] : [{ id, url, trigger }],
        ),
      );
    },
    async unregister(id, signal) {
      return mapped(await webhooks.delete(id, { signal }), () => null);
    },
    setConnections: (count) => client.setConnections(count),
    close: () => client.close(),
  };
}

/** The question was not stored, unless it is one of the messages that exceed the size limit. */
function certain(found: Found, { skipped }: Part, { text }: PastQuestion): CallResult<Found> {
  if (found.state !== "absent" || skipped === 0 || text.length < shortText)
    return { kind: "ok", value: found };
  return { kind: "unknown", reason: `${skipped} messages of the conversation are too long to be read` };
}

/** A question up to this number of characters cannot make its message exceed the size limit. */
const shortText = 250_000;

const crossed = (call: Call) => ({ signal: call.signal, crossing: () => call.crossing() });

function conversationBody(conversationUserId: string, { title, conversationContext }: CreateRequest) {
  return {
    conversationUserId,
    ...(title ? { title: title.slice(0, titleLimit) } : {}),
    ...(conversationContext ? { context: conversationContext.slice(0, contextLimit) } : {}),
  };
}
