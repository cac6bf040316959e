// An adapter that texts: each reply is one POST to a server of the test. It reads nothing.

import { defineAdapter, externalId, type Outbound } from "bridgehead/contract";
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
    return { outbound };
  },
});
