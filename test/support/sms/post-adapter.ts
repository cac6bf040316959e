// An adapter that texts: each reply is one POST to a server of the test. A text is received by a POST to `/inbound`.

import { defineAdapter, externalId, type HttpRoute, type Outbound } from "bridgehead/contract";
import * as z from "zod";

type Draft = { readonly to: string; readonly text: string; readonly kind: string };

export default defineAdapter({
  name: "texter",
  contract: 1,
  config: z.strictObject({ url: z.string(), pin: z.string().meta({ secret: true }).optional() }),
  traits: {
    attachments: false,
    conversations: "person",
    platform: "sms",
    defaults: { debounce: "3s" },
  },
  address: (text) => (/^\+\d{7,15}$/.test(text.replaceAll(" ", "")) ? text.replaceAll(" ", "") : null),
  create(channel, { url }) {
    channel.report({ state: "ready" });
    const outbound: Outbound<Draft> = {
      compose: ({ to, text, kind }) => [{ to: to[0]?.address ?? "", text, kind }],
      async send(draft, attempt) {
        await attempt.crossing();
        const response = await fetch(url, {
          method: "POST",
          body: JSON.stringify(draft),
          signal: attempt.signal,
        });
        if (response.ok) return { kind: "sent", id: externalId(attempt.key) };
        return { kind: "refused", code: "no", reason: `the server says ${response.status}` };
      },
    };
    const inbound: HttpRoute = {
      kind: "http",
      method: "POST",
      path: "/inbound",
      async handle(request) {
        const { from, text, id } = (await request.json()) as { from: string; text: string; id: string };
        await channel.accept([
          {
            kind: "message",
            id: externalId(id),
            from: { address: from },
            to: [],
            text,
            sentAt: new Date(),
            thread: { answers: [], tokens: [] },
            attachments: [],
          },
        ]);
        return new Response("stored");
      },
    };
    return { outbound, routes: [inbound] };
  },
});
