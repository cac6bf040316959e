// The platform client for one agent: every operation of the daemon, over the client of the External API. A
// request is attempted once. The pipeline decides about retries, because only it knows the effect of a
// second attempt. Includes the search for the agent's users by the identifiers that a channel knows, and the conversion of
// the agent's record to the settings of the daemon.

import type { Clock, Log } from "bridgehead/contract";
import * as z from "zod";
import { type Agent, type ClientOptions, createClient, type Message, type Users } from "../client/index.ts";
import type { RetentionSkill } from "../domain/retention.ts";
import { limited } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import { contextLimit, modeOf } from "../wire/conversation.ts";
import { type Dropped, once, plainText, read, textOrObject } from "../wire/record.ts";
import { emailSkill, escalationEntry, escalationRecipient, retentionSkill, smsSkill } from "../wire/skill.ts";
import type {
  AgentClient,
  AgentSettings,
  Answer,
  CallResult,
  ChannelSettings,
  CreateRequest,
  EffectOptions,
  EscalationSettings,
  LookUp,
  PastQuestion,
} from "./calls.ts";
import {
  findQuestion,
  findWords,
  isCertain,
  type MessageRange,
  platformMessages,
  readBack,
  readFrom,
  spoken,
} from "./messages.ts";

export interface AgentClientOptions extends Pick<ClientOptions, "organizationKey" | "timeoutMs" | "connections"> {
  /** The platform's base address, with or without a path; operations live under its `/external/`. */
  readonly url: string;
  readonly agentKey: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Pick<Timing, "agents" | "rate">;
}

/** Creates the client. Opens no connection before the first call. Throws when `url` is not an address. */
export function createAgentClient({ log, timing, ...options }: AgentClientOptions): AgentClient {
  const dropped: Dropped = (record, field) =>
    log.warn({ record, field }, "platform response field ignored: wrong type");
  const skillDropped = once(dropped);
  const client = createClient({
    ...options,
    connectionWaitMs: timing.agents.connection,
    longestRetryAfterMs: timing.rate.longestPenalty,
    dropped,
    tries: 1,
  });
  const { agents, conversations, users, webhooks } = client;
  return {
    async describe(signal) {
      return mapped(await agents.get({ signal }), (record) => settingsOf(record, skillDropped));
    },
    async start(request, call) {
      return conversations.start(request, crossed(call));
    },
    async create(request, call) {
      // One timeout for all requests, so that finding the user takes no longer than one call.
      const finding = limited(call.signal, options.timeoutMs);
      const person = await findOrMakeUser(users, request, finding);
      if (person.kind !== "ok") return person;
      const context = request.conversationContext?.slice(0, contextLimit);
      const body = { conversationUserId: person.value, ...(context ? { context } : {}) };
      const made = await conversations.create(body, crossed(call));
      // The user existed a moment ago.
      if (made.kind === "missing") return repeatable(made.reason);
      return mapped(made, ({ id }) => ({ conversationId: id }));
    },
    async findConversations(fkId, signal) {
      const found = await users.search({ fkId }, { signal });
      if (found.kind === "missing") return { kind: "ok", value: [] };
      return mapped(found, ({ conversationIds }) => conversationIds);
    },
    async ask(conversationId, { text, context }, call) {
      const body = { message: text, ...(context ? { context } : {}) };
      return mapped(await conversations.send(conversationId, body, crossed(call)), answerOf);
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
    async lookUp(conversationId, question, call) {
      const read = await readBack(conversations, conversationId, call, (messages) => isCertain(messages, question));
      if (isCertain(read.messages, question) || read.failure === null)
        return certain(findQuestion(read.messages, question), read, question);
      return read.failure;
    },
    async findHumanReply(conversationId, words, call) {
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
    reserve: () => client.reserve(),
    close: () => client.close(),
  };
}

/** The question was not stored, unless it is one of the messages that exceed the size limit. */
function certain(found: LookUp, { skipped }: MessageRange, { text }: PastQuestion): CallResult<LookUp> {
  if (found.state !== "absent" || skipped === 0 || text.length < shortText) return { kind: "ok", value: found };
  return { kind: "unknown", reason: `${skipped} messages of the conversation are too long to be read` };
}

/** A question up to this number of characters cannot make its message exceed the size limit. */
const shortText = 250_000;

/** Maps the value of an `ok` result; returns any other result unchanged. */
function mapped<T, U>(result: CallResult<T>, part: (value: T) => U): CallResult<U> {
  return result.kind === "ok" ? { kind: "ok", value: part(result.value) } : result;
}

/** Interprets the response of a message call: a reply of any role, or the user's own message when there is no reply. */
function answerOf(record: Message): Answer {
  if (record.senderRole === "conversation_user") return { questionId: record.id, replyId: null, text: null };
  const questionId = record.conversationMessageId;
  return {
    questionId: questionId && questionId !== record.id ? questionId : null,
    replyId: record.id,
    text: spoken(record),
  };
}

const crossed = (call: EffectOptions) => ({
  signal: call.signal,
  crossing: () => call.crossing(),
  reserved: call.reserved === true,
});

/** Returns the user's id. The platform refuses duplicate users, so an unknown outcome can be retried. */
async function findOrMakeUser(users: Users, request: CreateRequest, signal: AbortSignal): Promise<CallResult<string>> {
  const { conversationContext: _context, ...person } = request;
  const made = mapped(await users.create(person, { signal }), ({ id }) => id);
  if (made.kind === "unknown") return findingFailed(made.reason);
  return made.kind === "refused" ? findUser(users, request, made, signal) : made;
}

/** Refused means that the user exists already, or the data is invalid. The search distinguishes the two. */
async function findUser(
  users: Users,
  request: CreateRequest,
  refusal: CallResult<string>,
  signal: AbortSignal,
): Promise<CallResult<string>> {
  for (const name of ["fkId", "email", "phoneNumber"] as const) {
    const value = request[name];
    if (!value) continue;
    const found = await users.search({ [name]: value }, { signal });
    if (found.kind === "ok") return { kind: "ok", value: found.value.user.id };
    if (found.kind === "unknown") return findingFailed(found.reason);
    if (found.kind === "unauthorized" || found.kind === "deferred") return found;
  }
  return refusal;
}

const findingFailed = (reason: string) => repeatable(`finding the user: ${reason}`);

/** No conversation was opened, and a retry may succeed. */
function repeatable(reason: string): CallResult<never> {
  return { kind: "deferred", reason };
}

type Skill = Agent["skills"][number];

/** Never fails: missing values become null, and an unknown status counts as inactive. */
function settingsOf(record: Agent, dropped: Dropped): AgentSettings {
  const skill = (name: string) => record.skills.find((each) => each.systemName === name);
  return {
    agentId: record.id,
    organizationId: record.organizationId,
    name: record.publicName || record.name,
    status: record.status === "active" || record.status === "draft" ? record.status : "inactive",
    email: channel(skill("EMAIL"), (each) => emailSettings(each, dropped)),
    sms: channel(skill("SMS"), (each) => smsSettings(each, dropped)),
    voice: channel(skill("VOICE"), voiceSettings),
    skills: Object.fromEntries(
      record.skills.flatMap((each) => {
        const settings = ["EMAIL", "SMS", "VOICE"].includes(each.systemName) ? null : channel(each, () => ({}));
        return settings ? [[each.systemName.toLowerCase(), settings]] : [];
      }),
    ),
    retention: retentionSettings(skill("DATA_RETENTION"), dropped),
    escalations: escalationSettings(skill("ESCALATION"), dropped),
    webhooks: webhookSettings(skill("WEBHOOK")),
  };
}

function channel(
  skill: Skill | undefined,
  details: (skill: Skill) => Partial<ChannelSettings>,
): ChannelSettings | null {
  if (!skill) return null;
  return {
    status: skill.status === "active" ? "active" : "inactive",
    responseDelaySeconds: 0,
    signature: null,
    senderName: null,
    defaultSubject: null,
    introduction: null,
    address: null,
    ...details(skill),
  };
}

function emailSettings(skill: Skill, dropped: Dropped): Partial<ChannelSettings> {
  const reading = read(emailSkill.read, skill, dropped);
  if (!reading.ok) return {};
  const { value } = reading;
  return {
    responseDelaySeconds: value.responseDelaySeconds ?? 0,
    signature: plainText(value.emailSignature),
    senderName: plainText(value.senderName),
    defaultSubject: plainText(value.defaultSubject),
    introduction: plainText(value.defaultEmailIntroduction),
    address: plainText(value.email),
  };
}

/** The interface defines no introduction for this skill; a platform that sends one is accepted. */
function voiceSettings(skill: Skill): Partial<ChannelSettings> {
  const reading = textOrObject.safeParse((skill as { readonly firstMessage?: unknown }).firstMessage);
  return { introduction: reading.success ? plainText(reading.data) : null };
}

const escalation = escalationEntry.pick({ topic: true, response: true }).extend({ recipients: z.unknown() });
const recipient = escalationRecipient.extend({ headers: escalationRecipient.shape.headers.nullable() });

/** Returns every complete entry, with its recipients on known channels. */
function escalationSettings(skill: Skill | undefined, dropped: Dropped): readonly EscalationSettings[] {
  if (skill?.status !== "active") return [];
  const { escalations } = skill as { readonly escalations?: unknown };
  const left = (field: string) => () => dropped("ESCALATION skill", field);
  return entriesOf(escalations, escalation, left("escalations")).map(({ topic, response, recipients }) => ({
    topic,
    response,
    recipients: entriesOf(recipients, recipient, left("recipients")).map(({ channel: way, value, headers }) => ({
      channel: way,
      value,
      ...(headers && { headers: textsIn(headers) }),
    })),
  }));
}

/** Returns the entries of a list that fit the schema. An incomplete entry does not invalidate the others. */
function entriesOf<S extends z.ZodType>(list: unknown, schema: S, left?: () => void): readonly z.output<S>[] {
  return [list ?? []].flat().flatMap((one) => {
    const reading = schema.safeParse(one);
    if (!reading.success) left?.();
    return reading.success ? [reading.data] : [];
  });
}

/** Returns null also for an incomplete skill: erased data cannot be restored. */
function retentionSettings(skill: Skill | undefined, dropped: Dropped): RetentionSkill | null {
  if (skill?.status !== "active") return null;
  const reading = read(retentionSkill.read, skill, dropped);
  if (!reading.ok) return null;
  const { retentionDays: days, anonymizeConversations, anonymizeConversationUsers } = reading.value;
  if (days === undefined || anonymizeConversations === undefined || anonymizeConversationUsers === undefined)
    return null;
  return { days, conversations: anonymizeConversations, people: anonymizeConversationUsers };
}

const listed = z.object({ url: z.string(), triggerCondition: z.string() });

function webhookSettings(skill: Skill | undefined): AgentSettings["webhooks"] & {} {
  const { webhooks } = (skill ?? {}) as { readonly webhooks?: unknown };
  return entriesOf(webhooks, listed).map(({ url, triggerCondition: trigger }) => ({ url, trigger }));
}

const textsIn = (headers: { readonly [name: string]: unknown }): { readonly [name: string]: string } =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );

function smsSettings(skill: Skill, dropped: Dropped): Partial<ChannelSettings> {
  const reading = read(smsSkill.read, skill, dropped);
  if (!reading.ok) return {};
  const { value } = reading;
  return {
    responseDelaySeconds: value.responseDelaySeconds ?? 0,
    signature: plainText(value.smsSignature),
    introduction: plainText(value.defaultSmsIntroduction),
    address: plainText(value.phoneNumber),
  };
}
