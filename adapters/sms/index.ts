// The SMS adapter: one number, one provider. This file only connects the modules.

import {
  type Adapter,
  countedSends,
  defineAdapter,
  type ExclusiveResource,
  type HttpRoute,
  type SendOutcome,
  timingOf,
} from "bridgehead/contract";
import { blockOf, config, definitionOf, review, type SmsConfig } from "./config.ts";
import { compose, readDraft } from "./draft.ts";
import { eventOfStatus, eventOfText } from "./events.ts";
import { canonicalNumber } from "./numbers.ts";
import type { ProviderParts, ReceivedBatch, TextDraft, WebhookEndpoint } from "./provider.ts";
import { segmentsOf } from "./text/segments.ts";
import { standardTiming } from "./timing.ts";

export default defineAdapter({
  name: "sms",
  contract: 1,
  config,
  traits: {
    attachments: false,
    conversations: "person",
    platform: "sms",
    defaults: {
      debounce: "3s",
      caps: {
        sender: [
          { max: 30, per: "1m" },
          { max: 200, per: "24h" },
        ],
        conversation: [{ max: 60, per: "10m" }],
        channel: [{ max: 300, per: "1m" }],
      },
      cap_text:
        "You have sent many messages in a short time. They are saved, but they are not answered automatically for now.",
    },
  },
  address: (text) => reachable(canonicalNumber(text)),
  ownAddresses: ({ number, further_numbers: further }) => [number, further].flat(),
  exclusive: numberOf,
  review,
  create(channel, settings): Adapter<TextDraft> {
    // The texts and statuses of one request share one commit.
    const accept: ProviderParts["accept"] = ({ texts, statuses }, cursor) =>
      channel.accept([...texts.map((text) => eventOfText(settings, text)), ...statuses.map(eventOfStatus)], cursor);
    const parts = { channel, timing: timingOf(channel, standardTiming), accept };
    const provider = definitionOf(settings).create(parts, settings, blockOf(settings));
    return {
      outbound: {
        ...ownAddress(settings),
        compose: (reply) => compose(settings, provider.limits, reply),
        ...countedSends<TextDraft>(provider.atOnce, async (draft, attempt) => {
          const text = readDraft(draft);
          const outcome = await provider.send(text, attempt);
          return provider.limits.bySegment ? outcome : withSegments(text, outcome);
        }),
        ...(provider.reconcile === undefined
          ? {}
          : {
              reconcile: (draft, attempt, signal) =>
                provider.reconcile?.(readDraft(draft), attempt, signal) ?? Promise.resolve({ kind: "unsure" }),
            }),
      },
      probe: (signal) => provider.probe(signal),
      ...(provider.servers === undefined ? {} : { servers: provider.servers }),
      examine: async (_cursor, signal) => (await provider.examine?.(signal)) ?? [],
      ...(provider.run === undefined ? {} : { inbound: { run: provider.run.bind(provider) } }),
      ...(provider.endpoints === undefined
        ? {}
        : { routes: provider.endpoints.map((endpoint) => routeOf(endpoint, accept)) }),
      ...(provider.fetchMedia === undefined ? {} : { open: provider.fetchMedia.bind(provider) }),
      ...(provider.close === undefined ? {} : { close: provider.close.bind(provider) }),
    };
  },
});

/** Returns the exclusive resource of the channel: the inbound number, or the messaging service without one. */
function numberOf(settings: SmsConfig): ExclusiveResource[] {
  const { number, messaging_service: service } = settings;
  const definition = definitionOf(settings);
  const carrier = definition.network?.(blockOf(settings)) ?? definition.name;
  if (number !== undefined) return [{ id: `sms:${carrier}/${number}`, name: `the number ${number}`, key: ["number"] }];
  if (service === undefined) return [];
  const name = `the messaging service ${service}`;
  return [{ id: `sms:${carrier}/service/${service}`, name, key: ["messaging_service"] }];
}

/** An opt-out applies to the number that it was sent to. A messaging service selects the number, and providers apply an
 *  opt-out to all of them. */
function ownAddress({ number, messaging_service: service }: SmsConfig): { readonly ownAddress?: string } {
  return number === undefined || service !== undefined ? {} : { ownAddress: number };
}

const alphabets = { gsm7: "GSM-7", ucs2: "UCS-2" } as const;

/** Adds the number of segments and the encoding, which determine the cost. `outbox show` prints them
 *  with the attempt. */
function withSegments(text: TextDraft, outcome: SendOutcome): SendOutcome {
  if (outcome.kind !== "sent" || text.body === "") return outcome;
  const { texts, encoding } = segmentsOf(text.body);
  const words = texts.length === 1 ? "1 segment" : `${texts.length} segments`;
  const response = outcome.detail === undefined ? "" : `${outcome.detail}; `;
  return { ...outcome, detail: `${response}${words} (${alphabets[encoding]})` };
}

/** Handles a webhook request. The response is the acknowledgement: it is sent after the commit and never
 *  waits for further processing. */
function routeOf(endpoint: WebhookEndpoint, accept: (batch: ReceivedBatch) => Promise<unknown>): HttpRoute {
  return {
    kind: "http",
    method: "POST",
    path: endpoint.path,
    async handle(request) {
      const batch = await endpoint.read(request);
      if (batch === null) return new Response("forbidden\n", { status: 403 });
      if (batch.texts.length + batch.statuses.length > 0) await accept(batch);
      return endpoint.answer();
    },
  };
}

/** Returns null for an alphanumeric sender name: it can send texts but cannot receive them. */
function reachable(address: string | null): string | null {
  return address !== null && /^(?:[a-z]+:|\+|\d)/.test(address) ? address : null;
}
