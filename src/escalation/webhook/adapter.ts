// Webhook adapter for notifications. It is an ordinary adapter that no configuration names. A receiver may
// get a notification twice when the result of an attempt is unknown; its `webhook-id` is the same then.

import {
  type Attempt,
  type Channel,
  channelId,
  countedSends,
  defineAdapter,
  type ExchangeAnswer,
  externalId,
  HttpConnections,
  type MessageEvent,
  type Outbound,
  type SendOutcome,
  threadToken,
} from "bridgehead/contract";
import * as z from "zod";
import type { ChannelConfig, Config } from "../../config/index.ts";
import { webhookChannel } from "../../domain/policy.ts";
import { type Destination, judge, type Resolve } from "../../ops/address.ts";
import { after, scopeUnder } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { EscalationParts } from "../actions.ts";
import { deferred, failureIn, replyIn, type WebhookReply } from "./answer.ts";
import { recipientAt, type WebhookRecipient, webhookHeaders } from "./recipients.ts";

export type WebhookDeps = Pick<EscalationParts, "policy" | "lines"> & {
  /** Default: the system's resolver. */
  readonly resolve?: Resolve;
  readonly timing: Pick<Timing, "webhook">;
};

/** Stored format: a change requires a new version number. Contains no secrets. */
type WebhookDraft = {
  readonly v: 1;
  readonly url: string;
  readonly body: string;
  /** Thread token that links the receiver's response to the conversation. */
  readonly token: string;
};

/** Maximum number of notifications that are delivered at once, each over a connection of its own. */
const atOnce = 32;
const mostAddresses = 4;
const longestAnswer = 64 * 1024;

/** Returns the adapter of one running daemon. */
export const webhookAdapter = (deps: WebhookDeps) =>
  defineAdapter({
    name: "webhook",
    contract: 1,
    config: z.strictObject({}),
    traits: {
      // A notification is one document: it is not split.
      attachments: false,
      // One conversation per escalation and receiver.
      conversations: "thread",
      platform: null,
    },
    create(channel) {
      channel.report({ state: "ready" });
      const connections = new HttpConnections({ connections: atOnce, once: true });
      return { outbound: outboundOf({ channel, deps, connections }) };
    },
  });

function outboundOf(core: WebhookCore): Outbound<WebhookDraft> {
  const { deps } = core;
  return {
    compose({ to, text, token }) {
      const [party] = to;
      if (!party) throw new Error("composing a webhook: no recipient");
      return [{ v: 1, url: party.address, body: text, token }];
    },
    ...countedSends<WebhookDraft>(atOnce, async (draft, attempt) => {
      const recipient = recipientAt(draft.url, deps.policy(), deps.lines());
      if (recipient === "stranger") return refused("not-a-recipient", "no responder has this webhook any more");
      if (recipient === "unread")
        return deferred("the agent's recipients were not read yet", attempt.number, deps.timing.webhook);
      return deliver(draft, recipient, attempt, core);
    }),
  };
}

const refused = (code: string, reason: string): SendOutcome => ({ kind: "refused", code, reason });
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

interface WebhookCore {
  readonly channel: Channel;
  readonly deps: WebhookDeps;
  readonly connections: HttpConnections;
}

async function deliver(
  draft: WebhookDraft,
  recipient: WebhookRecipient,
  attempt: Attempt,
  core: WebhookCore,
): Promise<SendOutcome> {
  const { channel, deps } = core;
  const timing = deps.timing.webhook;
  const { signal, number, key } = attempt;
  const judged = await judge(draft.url, deps.policy()?.allowPrivate ?? [], {
    ...(deps.resolve ? { resolve: deps.resolve } : {}),
    signal: AbortSignal.any([signal, AbortSignal.timeout(timing.connect)]),
  });
  if (!judged.ok && judged.unresolved) return deferred(`its URL: ${judged.reason}`, number, timing);
  if (!judged.ok) return refused("address", `its URL ${judged.reason}`);
  const { destination } = judged;
  const headers = {
    "user-agent": "Bridgehead",
    ...recipient.headers,
    ...webhookHeaders(key, channel.clock.now(), draft.body, recipient.secret),
    "content-type": "application/json",
  };
  const answer = await post(destination, headers, draft.body, attempt, core);
  if ("kind" in answer) return answer;
  const failure = failureIn(answer, number, channel.clock.now(), timing);
  if (failure) return failure;
  const said = replyIn(answer, draft.body);
  // Stored before the delivery counts as done. If storing fails, the delivery is retried under the same id.
  if (said) await channel.accept([eventOf(draft, attempt, said, channel)]);
  return { kind: "sent", id: externalId(key), detail: String(answer.status) };
}

/** Sends the request to one of the checked addresses. Redirects are not followed. Without a response the outcome is
 *  deferred before the crossing, and unknown after it. */
async function post(
  { url, addresses }: Destination,
  headers: Readonly<Record<string, string>>,
  body: string,
  attempt: Attempt,
  { connections, deps }: WebhookCore,
): Promise<ExchangeAnswer | SendOutcome> {
  const timing = deps.timing.webhook;
  const time = scopeUnder(attempt.signal);
  const abortAfter = (ms: number, reason: string) => after(ms, () => time.abort(new Error(reason)));
  let cancel = abortAfter(timing.connect, "connecting took too long");
  let crossing: Promise<void> | undefined;
  let crossed = false;
  try {
    return await connections.exchange({
      method: "POST",
      url,
      headers,
      body,
      signal: time.signal,
      addresses: addresses.slice(0, mostAddresses),
      bodyAtMost: longestAnswer,
      async crossing() {
        cancel();
        crossing = attempt.crossing();
        await crossing;
        crossed = true;
        cancel = abortAfter(timing.answer, "no answer came in time");
      },
    });
  } catch (error) {
    const reason = reasonOf(time.signal.aborted ? time.signal.reason : error);
    if (crossed) return { kind: "unknown", reason };
    await crossing; // Rejects when the attempt must not be sent.
    return deferred(`no connection: ${reason}`, attempt.number, timing);
  } finally {
    cancel();
    time.end();
  }
}

/** Returns the event of a receiver's response. Its id is the delivery's, so repeated responses are deduplicated. */
function eventOf(
  draft: WebhookDraft,
  { key }: Attempt,
  { text, by }: WebhookReply,
  { clock, id }: Channel,
): MessageEvent {
  return {
    kind: "message",
    id: externalId(key),
    from: { address: draft.url, ...(by === null ? {} : { name: by }) },
    to: [{ address: id }],
    thread: { answers: [], tokens: [threadToken(draft.token)] },
    sentAt: new Date(clock.now()),
    text,
  };
}

/** Returns the channel in addition to those of `config`; none without a policy or without an agent. The core requires
 *  an agent for each channel, so the first one is named; it is never asked on this channel. */
export function webhookChannels(config: Config, deps: WebhookDeps): readonly ChannelConfig[] {
  const agent = config.channels.find(({ core }) => core.enabled)?.core.agent ?? Object.keys(config.agents)[0];
  if (config.escalation === null || agent === undefined) return [];
  const core: ChannelConfig["core"] = {
    adapter: "webhook",
    agent,
    enabled: true,
    mode: "live",
    opening: "create",
    max_age: Number.MAX_SAFE_INTEGER,
    allow: [],
    deny: [],
    pause_on: { loops: [], replies: [] },
    caps: { sender: [], conversation: [], channel: [] },
    // Receivers deduplicate a delivery by its id.
    on_unknown: "resend",
    unknown_window: 0,
    on_permanent_failure: "continue",
    on_new_message: "send",
    debounce: 0,
    notify: undefined,
    concurrency: atOnce,
  };
  return [{ id: channelId(webhookChannel), core, adapter: webhookAdapter(deps), settings: {} }];
}
