// Operations on webhooks: their registration (External API 4.3, 6) and their delivery log, an addition of
// Bridgehead's own platform.

import type { Page } from "../wire/page.ts";
import { accepted, delivery, webhook } from "../wire/webhook.ts";
import type { BodyOf, Caller, Line, QueryOf } from "./caller.ts";
import type { CallResult } from "./exchange.ts";
import type { CallOptions } from "./options.ts";
import { one, pageOf } from "./reading.ts";
import type { Delivery, Webhook } from "./records.ts";

type Accepted = { readonly id: string };

export interface Webhooks {
  /** POST /external/agents/webhooks: registers a webhook. Only this response contains the secret that
   *  signs deliveries. `refused`: the address is not a public HTTPS address. */
  register(body: BodyOf<"registerWebhook">, options?: CallOptions): Promise<CallResult<Webhook>>;
  /** GET /external/agents/webhooks. */
  list(options?: CallOptions): Promise<CallResult<Page<Webhook>>>;
  /** DELETE /external/agents/webhooks/{id}: deletes a webhook with its log. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** GET /external/agents/webhooks/{id}/deliveries: returns one page of past and pending deliveries,
   *  newest first. */
  deliveries(
    id: string,
    query?: QueryOf<"listDeliveries">,
    options?: CallOptions,
  ): Promise<CallResult<Page<Delivery>>>;
  /** POST /external/agents/webhooks/{id}/fire: sends a delivery for a conversation now. */
  fire(id: string, conversationId: string, options?: CallOptions): Promise<CallResult<Accepted>>;
  /** POST /external/agents/webhooks/deliveries/{id}/resend. */
  resend(deliveryId: string, options?: CallOptions): Promise<CallResult<Accepted>>;
}

const own = { key: "agent", mayBeMissing: false } as const;
const named = { key: "agent", mayBeMissing: true } as const;
const all = "/external/agents/webhooks";
const each = "/external/agents/webhooks/{id}";
const registerLine: Line<"registerWebhook"> = { ...own, method: "POST", path: all };
const listLine: Line<"listWebhooks"> = { ...own, method: "GET", path: all };
const deleteLine: Line<"deleteWebhook"> = { ...named, method: "DELETE", path: each };
const deliveriesLine: Line<"listDeliveries"> = { ...named, method: "GET", path: `${each}/deliveries` };
const fireLine: Line<"fireWebhook"> = { ...named, method: "POST", path: `${each}/fire` };
const resendLine: Line<"resendDelivery"> = {
  ...named,
  method: "POST",
  path: "/external/agents/webhooks/deliveries/{id}/resend",
};

export function webhooksOf({ call, json }: Caller): Webhooks {
  const record = json(one(webhook.read));
  const page = json(pageOf(webhook.read));
  const log = json(pageOf(delivery.read));
  const queued = json(one(accepted.read));
  return {
    register: (body, options) => call(registerLine, { body, answer: record }, options),
    list: (options) => call(listLine, { answer: page }, options),
    delete: (id, options) =>
      call(deleteLine, { names: { id }, answer: { form: "nothing", value: undefined } }, options),
    deliveries: (id, query, options) => call(deliveriesLine, { names: { id }, query, answer: log }, options),
    fire: (id, conversationId, options) =>
      call(fireLine, { names: { id }, body: { conversationId }, answer: queued }, options),
    resend: (id, options) => call(resendLine, { names: { id }, answer: queued }, options),
  };
}
