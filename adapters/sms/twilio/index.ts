// Texts over Twilio or a compatible API: webhooks for inbound messages, REST requests for outbound
// messages, polling of the message list to backfill missed messages.

import { Health, type Json } from "bridgehead/contract";
import { httpConnections } from "../exchange.ts";
import type { Provider, ProviderParts } from "../provider.ts";
import { createClient } from "./client.ts";
import { fetchMedia } from "./media.ts";
import { missed } from "./missed.ts";
import { addressProblem, probe } from "./probe.ts";
import { sender } from "./send.ts";
import type { TwilioSettings } from "./settings.ts";
import { doors } from "./webhook.ts";

/** Creates the provider. Opens no connection. */
export function twilioProvider(parts: ProviderParts, settings: TwilioSettings): Provider {
  const { channel } = parts;
  const state = new Health(channel);
  const client = createClient(settings, channel.clock);
  const sending = sender(channel, settings, client, state);
  const run = missed(parts, settings, client, state);
  return {
    name: settings.name,
    limits: { maxLength: 1600, media: true },
    atOnce: httpConnections,
    doors: doors(channel, settings, (status) => sending.heard(status)),
    async run(cursor, signal) {
      const problem = addressProblem(channel.url("/inbound"), settings.apiUrl);
      if (problem) state.set("address", problem);
      await run(cursor, signal);
    },
    send: (text, attempt) => sending.send(text, attempt),
    reconcile: (text, attempt, signal) => sending.reconcile(text, attempt, signal),
    fetchMedia: (ref: Json, signal) => fetchMedia(ref, settings, client.authorization(), signal),
    probe: (signal) => probe(channel.url("/inbound"), settings, client, signal),
    async close() {
      client.close();
    },
  };
}
