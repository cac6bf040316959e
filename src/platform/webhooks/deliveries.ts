// Enqueues and delivers webhooks: signed by Standard Webhooks, retried by its schedule, with every attempt in the log.
// Delivery is at-least-once; a repeated delivery carries the same `webhook-id`.

import { createHmac } from "node:crypto";
import type { Clock, Log } from "bridgehead/contract";
import PQueue from "p-queue";
import { Webhook } from "standardwebhooks";
import { Agent, request } from "undici";
import { judge } from "../../ops/address.ts";
import { limited, type SignalScope, scopeUnder } from "../../ops/clock.ts";
import type { Served } from "../../wire/record.ts";
import type { Occasion, Trigger, webhookDelivery } from "../../wire/webhook.ts";
import type { AgentDefinition } from "../agents/definition.ts";
import { newUuid } from "../ids.ts";
import { conversationOf, shownMessages, userOf } from "../records.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DeliveryRow, WebhookRow } from "../store/webhooks.ts";

type DueDelivery = DeliveryRow & { readonly webhook: WebhookRow };

/** Milliseconds before each retry (schedule of Standard Webhooks). The delivery fails permanently after
 *  the last one. */
const schedule = [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000] as const;
const withinMs = 15_000;
const atOnce = 16;
const lookMs = 1_000;
/** Maximum number of messages in the body of a delivery, and of characters in them. The newest message is complete. */
const transcriptOf = { limit: 1_000, length: 1_000_000 };

interface DeliveryContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly allowPrivate: boolean;
  readonly signal: AbortSignal;
}

export class Deliveries {
  readonly #store: PlatformStore;
  readonly #context: DeliveryContext;
  /** Webhooks with a running delivery, or one whose outcome could not be recorded. */
  readonly #busy = new Set<string>();
  readonly #queue = new PQueue({ concurrency: atOnce });
  #woken: SignalScope | null = null;
  /** When retries were last found to be due no later than their schedule says. */
  #correctedAt = Number.POSITIVE_INFINITY;

  constructor(store: PlatformStore, context: DeliveryContext) {
    this.#store = store;
    this.#context = context;
  }

  /** Checks for due deliveries now. Called after a delivery was enqueued. */
  wake(): void {
    this.#woken?.abort();
  }

  /** Resolves after the signal has aborted and running deliveries have ended. */
  async run(): Promise<void> {
    const { clock, signal } = this.#context;
    while (!signal.aborted) {
      const woken = scopeUnder(signal);
      this.#woken = woken;
      await this.#correct();
      this.#begin();
      await clock.sleep(lookMs, woken.signal);
      woken.end();
    }
    await this.#queue.onIdle();
  }

  /** A clock that was ahead has dated retries later than their schedule says. Looks for them at the start, and when the clock
   *  goes back. */
  async #correct(): Promise<void> {
    const { clock } = this.#context;
    const now = clock.now();
    if (now < this.#correctedAt)
      try {
        await this.#store.commits.write(() => {
          for (const [attempts, wait] of [0, ...schedule].entries())
            this.#store.webhooks.advance(now, attempts, now + wait);
        });
      } catch (error) {
        return this.#pauseAfter(error);
      }
    this.#correctedAt = now;
  }

  /** Runs one delivery per webhook at a time, so a receiver gets events in order unless a delivery fails. */
  #begin(): void {
    // At most `atOnce` webhooks are busy, so twice that number of rows always fills the free places.
    for (const due of this.#store.webhooks.due(this.#context.clock.now(), 2 * atOnce)) {
      // Only what starts at once leaves the table: a row that waits may still change.
      if (this.#queue.pending >= atOnce) return;
      if (this.#busy.has(due.webhook_id)) continue;
      this.#busy.add(due.webhook_id);
      void this.#queue
        .add(() => this.#deliver(due))
        .catch((error: unknown) => this.#pauseAfter(error))
        .then(() => {
          this.#busy.delete(due.webhook_id);
          this.wake();
        });
    }
  }

  /** The store cannot be written: the delivery is still due. At once it would be repeated as long as that lasts. */
  #pauseAfter(error: unknown): Promise<void> {
    const { clock, log, signal } = this.#context;
    log.error({ err: error }, "recording a webhook outcome failed");
    return clock.sleep(schedule[0], signal);
  }

  async #deliver(due: DueDelivery): Promise<void> {
    const { clock, log, signal } = this.#context;
    const outcome = await attempt(due, () => bodyOf(this.#store, due), this.#context);
    if (signal.aborted && outcome.status === null) return; // cut off by us: tried again at the next start
    const attempts = due.attempts + 1;
    const ok = outcome.status !== null && outcome.status >= 200 && outcome.status < 300;
    const wait = schedule[due.attempts];
    // 410 Gone: the receiver asks to stop, so no retry follows.
    const over = ok || wait === undefined || outcome.status === 410;
    const state = ok ? "delivered" : over ? "failed" : "pending";
    if (!ok) log.warn({ webhook: due.webhook_id, delivery: due.id, ...outcome, attempts }, "webhook failed");
    const due_at = clock.now() + (over ? 0 : wait);
    const ended_at = over ? clock.now() : null;
    await this.#store.commits.write(() =>
      this.#store.webhooks.conclude(due.id, { state, attempts, due_at, ...outcome, ended_at }),
    );
  }
}

/** Returns the body as JSON. It is built for each attempt, so that a queue of deliveries does not store the messages of a
 *  conversation many times. Messages after the event are not included. */
function bodyOf(store: PlatformStore, { body, newest_seq, conversation_id }: DueDelivery): string {
  const rows = store.messages.newest(conversation_id, newest_seq, transcriptOf);
  const messages = shownMessages(store, conversation_id, rows);
  const newest = messages.at(-1);
  const spoken = { messageId: newest?.id ?? null, message: newest?.message ?? null, messages };
  return JSON.stringify({ ...(JSON.parse(body) as DeliveryEnvelope), ...spoken } satisfies DeliveryPayload);
}

async function attempt(
  { id, webhook }: DueDelivery,
  build: () => string,
  { clock, allowPrivate, signal }: DeliveryContext,
): Promise<{ readonly status: number | null; readonly error: string | null }> {
  const judged = await judge(webhook.url, allowPrivate ? "everything" : []);
  if (!judged.ok) return { status: null, error: `its URL ${judged.reason}` };
  const { url, addresses } = judged.destination;
  // Connects to the addresses that were checked. A second DNS lookup could return a private address (DNS rebinding).
  const agent = new Agent({ connect: { lookup: (_host, _options, found) => found(null, [...addresses]) } });
  const at = new Date(clock.now());
  const time = scopeUnder(signal);
  try {
    const body = build();
    const response = await request(url, {
      method: "POST",
      dispatcher: agent,
      headers: {
        ...(JSON.parse(webhook.headers ?? "{}") as { readonly [name: string]: string }),
        "content-type": "application/json",
        "user-agent": "Bridgehead",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(webhook.secret).sign(id, at, body),
      },
      body,
      signal: limited(time.signal, withinMs),
    });
    await response.body.dump({ limit: 64 * 1024 });
    return { status: response.statusCode, error: null };
  } catch (error) {
    return { status: null, error: error instanceof Error ? error.message : String(error) };
  } finally {
    time.end();
    void agent.destroy();
  }
}

// Enqueues webhook deliveries in the transaction of the event itself, so a delivery exists if and only if
// the event was committed.

/** Enqueues one delivery for each webhook of the agent with this trigger. Call inside a transaction. */
export function fire(store: PlatformStore, now: number, trigger: Trigger, conversation: PlatformConversationRow): void {
  for (const webhook of store.webhooks.active(conversation.agent_id, trigger))
    deliverTo(store, now, webhook, trigger, conversation);
}

/** Enqueues one delivery to this webhook and returns its id. Call inside a transaction. */
export function deliverTo(
  store: PlatformStore,
  now: number,
  webhook: WebhookRow,
  trigger: Occasion,
  conversation: PlatformConversationRow,
  more: Pick<DeliveryPayload, "escalation"> = {},
): string {
  const id = newUuid(now);
  store.webhooks.put({
    id,
    webhook_id: webhook.id,
    conversation_id: conversation.id,
    trigger,
    body: JSON.stringify({ ...eventOf(store, trigger, conversation, now), ...more }),
    newest_seq: store.messages.newestSeq(conversation.id),
    due_at: now,
    created_at: now,
  });
  return id;
}

type DeliveryPayload = Served<typeof webhookDelivery>;
/** What is stored of a delivery: everything except the messages. */
type DeliveryEnvelope = Pick<
  DeliveryPayload,
  | "triggerCondition"
  | "timestamp"
  | "conversationId"
  | "userId"
  | "agent"
  | "user"
  | "conversation"
  | "score"
  | "escalation"
>;

function eventOf(
  store: PlatformStore,
  trigger: Occasion,
  conversation: PlatformConversationRow,
  now: number,
): DeliveryEnvelope {
  const row = store.conversations.byId(conversation.agent_id, conversation.id) ?? conversation;
  const person = store.people.byId(row.agent_id, row.person_id);
  if (!person) throw new Error(`firing ${trigger}: the conversation's person is gone`);
  return {
    triggerCondition: trigger,
    timestamp: new Date(now).toISOString(),
    conversationId: row.id,
    userId: person.id,
    agent: { id: row.agent_id, name: store.agents.nameOf(row.agent_id) ?? "" },
    user: userOf(person),
    conversation: conversationOf(row, person),
    score: row.score,
  };
}

/** The row of a webhook in an agent's definition. Its secret is derived unless it is defined, so it is stable across
 *  restarts. */
export function definedWebhook(
  agent: AgentDefinition,
  own: Pick<WebhookRow, "id" | "title" | "description" | "url" | "trigger" | "status">,
  headers: { readonly [name: string]: string },
  now: number,
  secret = `whsec_${createHmac("sha256", agent.seed).update(own.id).digest("base64")}`,
): WebhookRow {
  const times = { created_at: now, updated_at: now };
  return { ...own, agent_id: agent.id, headers: JSON.stringify(headers), secret, defined: 1, ...times };
}
