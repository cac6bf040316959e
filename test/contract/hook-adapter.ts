// An adapter that only serves: a provider posts signed messages to it and opens signed sockets. With its harness.

import { createHmac, timingSafeEqual } from "node:crypto";
import { type Adapter, defineAdapter, externalId, type MessageEvent, sessionId } from "bridgehead/contract";
import type { Harness } from "bridgehead/contract/testing";
import * as z from "zod";

const sign = (secret: string, what: string) => createHmac("sha256", secret).update(what).digest("hex");

function holds(secret: string, what: string, signature: string | null): boolean {
  const right = Buffer.from(sign(secret, what));
  const given = Buffer.from(signature ?? "");
  return given.length === right.length && timingSafeEqual(given, right);
}

export default defineAdapter({
  name: "hook",
  contract: 1,
  config: z.strictObject({ secret: z.string().meta({ secret: true }) }),
  traits: {
    attachments: false,
    conversations: "person",
    platform: "sms",
  },
  create(channel, { secret }): Adapter<never> {
    return {
      routes: [
        {
          kind: "http",
          method: "POST",
          path: "/inbound",
          async handle(request) {
            const body = await request.text();
            // The public address, not the request's own: a proxy rewrites that.
            const signed = channel.url("/inbound").href + body;
            if (!holds(secret, signed, request.headers.get("x-signature"))) {
              return new Response(null, { status: 403 });
            }
            const message = JSON.parse(body) as { id: string; from: string; text: string };
            await channel.accept([toEvent(message)]);
            return new Response(null, { status: 204 });
          },
        },
        {
          kind: "socket",
          path: "/live",
          authorize: async (request) =>
            holds(secret, channel.url("/live").href, request.headers.get("x-signature"))
              ? null
              : new Response(null, { status: 401 }),
          async serve(socket) {
            const session = sessionId("live");
            for await (const data of socket) {
              const said = toEvent({ id: `live/${String(data)}`, from: "ann", text: String(data) });
              await channel.accept([{ ...said, thread: { session } }]);
            }
          },
        },
      ],
    };
  },
});

function toEvent({ id, from, text }: { id: string; from: string; text: string }): MessageEvent {
  const thread = { answers: [] };
  return {
    kind: "message",
    id: externalId(id),
    from: { address: from },
    to: [],
    thread,
    sentAt: new Date(0),
    text,
  };
}

export const hookHarness: Harness = {
  lacks: {
    attachments: "a hook is one text",
    inbound: "the provider calls us and keeps no history",
    outbound: "the provider cannot be called",
    probe: "there is nothing to log in to",
    session: "its socket brings single messages, which open nothing",
  },
  quietMs: 100,
  start: async () => ({
    config: () => ({ secret: "open sesame" }),
    fault: () => undefined,
    stop: async () => undefined,
    requests(url) {
      const post = (secret: string, text: string) => {
        const body = JSON.stringify({ id: `m/${text}`, from: "ann", text });
        const headers = { "x-signature": sign(secret, url("/inbound").href + body) };
        return new Request(url("/inbound"), { method: "POST", body, headers });
      };
      const good = (text: string) => post("open sesame", text);
      return [{ path: "/inbound", accepts: true, good, forged: (text) => post("open barley", text) }];
    },
    upgrades(url) {
      const upgrade = (secret: string) =>
        new Request(url("/live"), { headers: { "x-signature": sign(secret, url("/live").href) } });
      return [{ path: "/live", good: () => upgrade("open sesame"), forged: () => upgrade("open barley") }];
    },
  }),
};
