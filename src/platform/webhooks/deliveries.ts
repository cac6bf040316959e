// Delivers webhooks: signed by Standard Webhooks, retried by its schedule, with every attempt in the log.
// Delivery is at-least-once; a repeated delivery carries the same `webhook-id`.

import type { Clock, Log } from "bridgehead/contract";
import PQueue from "p-queue";
import { Webhook } from "standardwebhooks";
import { Agent, request } from "undici";
import { judge } from "../../ops/address.ts";
import { limited, scopeUnder } from "../../ops/clock.ts";
import type { PlatformStore } from "../store/store.ts";
import type { DeliveryRow, WebhookRow } from "../store/webhooks.ts";

type DueDelivery = DeliveryRow & { readonly webhook: WebhookRow };

/** Milliseconds before each retry (schedule of Standard Webhooks). The delivery fails permanently after
 *  the last one. */
const schedule = [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000];
const withinMs = 15_000;
const atOnce = 16;
const lookMs = 1_000;

export interface Delivering {
  /** Checks for due deliveries now. Called after a delivery was enqueued. */
  wake(): void;
  /** Resolves after the signal has aborted and running deliveries have ended. */
  readonly ended: Promise<void>;
}

export function startDelivering(
  store: PlatformStore,
  options: {
    readonly clock: Clock;
    readonly log: Log;
    readonly allowPrivate: boolean;
    readonly signal: AbortSignal;
  },
): Delivering {
  const { clock, log, signal } = options;
  const busy = new Set<string>();
  const queue = new PQueue({ concurrency: atOnce });
  let wake: () => void = () => undefined;

  /** Runs one delivery per webhook at a time, so a receiver gets events in order unless a delivery
   *  fails. */
  function begin(): void {
    // At most `atOnce` webhooks are busy, so twice that number of rows always fills the free places.
    for (const due of store.webhooks.due(clock.now(), 2 * atOnce)) {
      // Only what starts at once leaves the table: a row that waits may still change.
      if (queue.pending >= atOnce) return;
      if (busy.has(due.webhook_id)) continue;
      busy.add(due.webhook_id);
      void queue.add(() => deliverLogged(due)).then(() => wake());
    }
  }

  /** Never rejects. */
  async function deliverLogged(due: DueDelivery): Promise<void> {
    try {
      await deliver(due);
    } catch (error) {
      log.error({ err: error }, "recording a webhook outcome failed");
    }
    busy.delete(due.webhook_id);
  }

  async function deliver(due: DueDelivery): Promise<void> {
    const outcome = await attempt(due, options);
    if (signal.aborted && outcome.status === null) return; // cut off by us: tried again at the next start
    const attempts = due.attempts + 1;
    const ok = outcome.status !== null && outcome.status >= 200 && outcome.status < 300;
    const wait = schedule[due.attempts];
    // 410 Gone: the receiver asks to stop, so no retry follows.
    const over = ok || wait === undefined || outcome.status === 410;
    const state = ok ? "delivered" : over ? "failed" : "pending";
    if (!ok) log.warn({ webhook: due.webhook_id, delivery: due.id, ...outcome, attempts }, "webhook failed");
    await store.commits.write(() =>
      store.webhooks.conclude(due.id, {
        state,
        attempts,
        due_at: clock.now() + (over ? 0 : wait),
        ...outcome,
        ended_at: over ? clock.now() : null,
      }),
    );
  }

  const ended = (async () => {
    while (!signal.aborted) {
      const woken = scopeUnder(signal);
      wake = () => woken.abort();
      begin();
      await clock.sleep(lookMs, woken.signal);
      woken.end();
    }
    await queue.onIdle();
  })();
  return { wake: () => wake(), ended };
}

async function attempt(
  { id, webhook, body }: DueDelivery,
  { clock, allowPrivate, signal }: Parameters<typeof startDelivering>[1],
): Promise<{ readonly status: number | null; readonly error: string | null }> {
  const judged = await judge(webhook.url, allowPrivate ? "everything" : []);
  if (!judged.ok) return { status: null, error: `its URL ${judged.reason}` };
  const { url, addresses } = judged.destination;
  // Connects to the addresses that were checked. A second DNS lookup could return a private address (DNS
  // rebinding).
  const agent = new Agent({
    connect: { lookup: (_host, _options, found) => found(null, [...addresses]) },
  });
  const at = new Date(clock.now());
  const time = scopeUnder(signal);
  try {
    const response = await request(url, {
      method: "POST",
      dispatcher: agent,
      headers: {
        ...own(webhook.headers),
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

function own(headers: string | null): { readonly [name: string]: string } {
  return headers === null ? {} : (JSON.parse(headers) as { [name: string]: string });
}
