// A dialect outside of the built-in adapter, as a package of its own would contain it: JSON over a websocket whose URL
// contains a secret. It imports only `bridgehead/voice` from this project.

import { type CallEvent, defineDialect, voiceAdapter } from "bridgehead/voice";
import * as z from "zod";

type Frame = Readonly<Record<string, string | undefined>>;

const plain = defineDialect({
  name: "plain",
  block: z
    .strictObject({
      secret: z.string().min(1).describe("Which secret is in the URL?").meta({ secret: true }),
    })
    .describe("plain: how do we know that it is the provider?"),
  can: { greets: false, stops: true, reportsSilence: false, transfer: "none" },
  create: (_voice, { secret }) => ({
    socket: {
      paths: ["/line"],
      authorize: async ({ url }) =>
        new URL(url).searchParams.get("secret") === secret ? null : new Response(null, { status: 403 }),
      connect: () => ({
        read: (frame) => ({ events: eventsOf(JSON.parse(frame) as Frame) }),
        write: (command) => [JSON.stringify(command)],
      }),
    },
  }),
});

function eventsOf({ type, call = "", from = "", text = "" }: Frame): readonly CallEvent[] {
  switch (type) {
    case "start":
      return [{ kind: "start", call, person: from, ours: null, language: null, ticket: call, resumed: false }];
    case "said":
      return [{ kind: "turn", text, language: null }];
    case "cut":
      return [{ kind: "interrupted", heard: null }];
    case "end":
      return [{ kind: "end", reason: "hung-up" }];
    default:
      return [];
  }
}

export default voiceAdapter({ name: "plain-voice", dialects: [plain] });
