// Channels, events and policies as values: what tests of decisions need. Nothing here needs a database.

import {
  channelId,
  type DeliveryEvent,
  externalId,
  type MessageEvent,
  type Outbound,
  type Reply,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import type { AgentClient, AgentSettings } from "../../src/agent/calls.ts";
import { causes, type Person, type Policy } from "../../src/domain/policy.ts";
import type { ChannelRules, ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import type { EscalationTrigger } from "../../src/pipeline/escalation.ts";
import type { Facts } from "../../src/pipeline/route/facts.ts";
import type { EscalationRow } from "../../src/store/tables/escalations.ts";
import type { EventRow } from "../../src/store/tables/events.ts";
import type { DueNotification, TargetRow } from "../../src/store/tables/responders.ts";
import type { TurnRow } from "../../src/store/tables/turns.ts";

const rules: ChannelRules = {
  max_age: 3_600_000,
  allow: [],
  deny: [],
  opening: "start",
  caps: { sender: [], conversation: [], channel: [] },
  on_unknown: "hold",
  unknown_window: 60_000,
  on_permanent_failure: "continue",
  on_new_message: "send",
  debounce: 0,
  concurrency: 10,
};

export const activeSettings = (over: { delay?: number } = {}): AgentSettings => ({
  agentId: "a",
  organizationId: "o",
  name: "agent",
  status: "active",
  email: {
    status: "active",
    responseDelaySeconds: over.delay ?? 0,
    signature: "-- us",
    senderName: "Us",
    defaultSubject: "Your message",
    introduction: "Hello!",
    address: null,
  },
  sms: null,
  voice: null,
});

/** Channel `c` with an outbound that is given, or none. */
export function lineOf(
  over: { rules?: Partial<ChannelRules>; outbound?: Outbound; settings?: AgentSettings } = {},
): ChannelRuntime {
  return {
    channel: channelId("c"),
    agent: "agent",
    traits: {
      attachments: false,
      conversations: "thread",
      platform: "email",
    },
    rules: { ...rules, ...over.rules },
    outbound: over.outbound ?? null,
    mask: (text) => text,
    open: null,
    client: {} as AgentClient, // no test with this channel asks
    address: (text) => text,
    escalation: () => null,
    settings: () => over.settings ?? activeSettings(),
    catchingUp: () => false,
    problem: () => null,
    refusal: () => null,
    report: () => undefined,
  };
}

const sends = {} as Outbound; // no test calls it

/** A channel that can send; `mail` has threads, the others have one conversation per person. */
export const runtimeOf = (channel: string, over: Partial<ChannelRuntime> = {}): ChannelRuntime => ({
  ...lineOf({ outbound: sends }),
  channel,
  traits: { attachments: false, conversations: channel === "mail" ? "thread" : "person", platform: null },
  ...over,
});

export const runtimesOf = (...channels: readonly string[]): Map<string, ChannelRuntime> =>
  new Map(channels.map((channel) => [channel, runtimeOf(channel)]));

export const receipt = (over: Partial<DeliveryEvent>): DeliveryEvent =>
  ({ kind: "delivery", id: "receipt", about: {}, state: "delivered", ...over }) as DeliveryEvent;

/** A stored message event. */
export const eventRow = (over: Partial<EventRow> = {}): EventRow => ({
  id: 1,
  channel: "c",
  kind: "message",
  state: "stored",
  code: null,
  reason: null,
  body: "",
  attempts: 0,
  received_at: 1,
  preferred: 0,
  queue: null,
  ...over,
});

/** Turn `t` of conversation `k`: the question of event 1, waiting. */
export const turnRow = (over: Partial<TurnRow> = {}): TurnRow => ({
  id: "t",
  conversation: "k",
  channel: "c",
  person: "ada@example.org",
  seq: 1,
  kind: "question",
  state: "waiting",
  question: "hello",
  context: null,
  address: "{}",
  attempts: 0,
  lookups: 0,
  event: 1,
  trace: "m1",
  session: null,
  opening: null,
  over_ago: null,
  trying_for: null,
  age: 0,
  question_id: null,
  reason: null,
  received_at: 0,
  ...over,
});

let letters = 0;
export function mail(over: Partial<MessageEvent> & { readonly text: string }): MessageEvent {
  const id = externalId(`mail-${++letters}`);
  return {
    kind: "message",
    id,
    from: { address: "ada@example.org" },
    to: [{ address: "us@example.org" }],
    thread: { answers: [] },
    sentAt: new Date(),
    ...over,
  };
}

/** A policy without responders, whose notifications by mail go over channel `c`. */
export const policyOf = (over: Partial<Policy> = {}): Policy => ({
  responders: new Map(),
  tiers: [],
  routes: [],
  fallback: { notify: [], by: null, repeat: 0 },
  agentRecipients: false,
  group: 0,
  link: { expires: 3_600_000, actions: ["ack", "reply", "note", "resume", "close"], addresses: "full" },
  causes,
  downAfter: 600_000,
  poll: 300_000,
  pollOpen: 20_000,
  via: { email: "c", sms: null },
  platformWebhook: null,
  allowPrivate: [],
  ...over,
});

/** A responder without an address, always on duty. */
export const responder = (id: string, over: Partial<Person> = {}): Person => ({
  id,
  name: id,
  email: null,
  sms: null,
  webhook: null,
  timeZone: "UTC",
  hours: [],
  away: [],
  ...over,
});

/** Open escalation `e` with number 7, about conversation `k`. */
export const escalationRow = (over: Partial<EscalationRow> = {}): EscalationRow => ({
  id: "e",
  number: 7,
  about: "conversation:k",
  conversation: "k",
  channel: "c",
  agent: "a",
  state: "open",
  cause: "topic",
  topic: null,
  reason: "asks for a human",
  tier: 0,
  entered_at: 0,
  notified_at: null,
  due_at: 0,
  acknowledged_by: null,
  acknowledged_target: null,
  acknowledged_at: null,
  opened_at: 0,
  from_seq: 1,
  closed_at: null,
  closed_by: null,
  ...over,
});

/** Ann by SMS on channel `sms`. */
export const targetRow = (over: Partial<TargetRow> = {}): TargetRow => ({
  id: "t",
  escalation: "e",
  person: "ann",
  name: "Ann",
  way: "sms",
  address: "+1",
  channel: "sms",
  conversation: null,
  link_until: null,
  ...over,
});

/** The first notification of target `t` about escalation `e`, due. */
export const notification = (id: string, over: Partial<DueNotification> = {}): DueNotification => ({
  id,
  target: "t",
  kind: "opened",
  subject: "",
  text: null,
  reply: null,
  escalation: "e",
  ...over,
});

/** What stage route knows about a message of a stranger. */
export const noFacts: Facts = {
  suppressed: null,
  responder: false,
  conversation: null,
  session: null,
  binds: null,
  ownAddress: null,
  restored: null,
  revived: null,
  attachments: [],
  counts: [],
  last: null,
  keyword: null,
};

export const triggerOf = (over: Partial<EscalationTrigger> = {}): EscalationTrigger => ({
  key: "response:1",
  source: "response",
  cause: "topic",
  channel: "c",
  agent: "a",
  conversation: "k",
  topic: "refund",
  reason: "r",
  ...over,
});

/** An answer without a recipient. */
export const replyOf = (over: Partial<Reply>): Reply => ({
  kind: "answer",
  key: sendKey("k1"),
  createdAt: new Date(0),
  to: [],
  cc: [],
  subject: null,
  text: "",
  signature: null,
  introduction: null,
  senderName: null,
  answers: null,
  history: [],
  token: threadToken("t1"),
  hops: 0,
  session: null,
  ...over,
});

/** A policy with these responders, who are notified through the channels `mail` and `sms`. */
export const policyFor = (...people: readonly Person[]): Policy =>
  policyOf({
    responders: new Map(people.map((person) => [person.id, person])),
    via: { email: "mail", sms: "sms" },
  });
