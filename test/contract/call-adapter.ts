// An adapter of live conversations: the caller's and the agent's text share a socket, with one JSON object per frame:
//
//   -> {"op":"setup","call":"c1","from":"ann"}   the first one; the call's name and who it is
//   -> {"op":"said","n":1,"text":"hi"}            <- {"op":"speak","text":"hello"}
//   -> {"op":"bye"}                               <- {"op":"sorry"}: say it again, it was not understood
//
// With its harness.

import { setTimeout as pass } from "node:timers/promises";
import {
  type Adapter,
  type Channel,
  defineAdapter,
  externalId,
  type SessionEvent,
  type SessionId,
  type Socket,
  sessionId,
} from "bridgehead/contract";
import { type Harness, serveTest, type TestSocket } from "bridgehead/contract/testing";
import * as z from "zod";

type Draft = { readonly session: string; readonly text: string };
type Word = {
  readonly op: string;
  readonly call: string;
  readonly from: string;
  readonly n: number;
  readonly text: string;
};

export default defineAdapter({
  name: "call",
  contract: 1,
  config: z.strictObject({ secret: z.string() }),
  traits: {
    attachments: false,
    conversations: "person",
    platform: "voice",
    defaults: { on_unknown: "drop" },
  },
  create(channel, { secret }): Adapter<Draft> {
    const live = new Map<SessionId, Socket>();
    return {
      routes: [
        {
          kind: "socket",
          path: "/talk/*",
          authorize: async (request) =>
            request.url.endsWith(`/${secret}`) ? null : new Response(null, { status: 403 }),
          serve: (socket) => talk(channel, socket, live),
        },
      ],
      outbound: {
        compose: ({ session, text }) => [{ session: session ?? "", text }],
        async send({ session, text }, attempt) {
          const socket = live.get(sessionId(session));
          if (!socket) return { kind: "deferred", reason: "the caller is not on the line", retryAfterMs: 500 };
          await attempt.crossing();
          await socket.send(JSON.stringify({ op: "speak", text }));
          return { kind: "sent", id: externalId(`spoken/${attempt.key}`) };
        },
      },
    };
  },
});

async function talk(channel: Channel, socket: Socket, live: Map<SessionId, Socket>): Promise<void> {
  const frames = socket[Symbol.asyncIterator]();
  const setup = await first(channel, frames);
  if (setup?.op !== "setup") return socket.close(1008, "no setup");
  const { call, from } = setup;
  const session = sessionId(call);
  const event = (state: SessionEvent["state"]): SessionEvent => ({
    kind: "session",
    id: externalId(`${call}/${state}`),
    session,
    state,
    from: { address: from },
  });
  await channel.accept([event("opened")]); // rejected: out of serve, the socket closes with 1011
  live.set(session, socket);
  let state: "lost" | "closed" = "lost";
  try {
    for (;;) {
      const { done, value } = await frames.next();
      if (done) break;
      const word = JSON.parse(String(value)) as Word;
      if (word.op === "bye") {
        state = "closed";
        break;
      }
      const said = {
        kind: "message",
        id: externalId(`${call}/${word.n}`),
        from: { address: from },
        to: [],
      } as const;
      const message = {
        ...said,
        thread: { session },
        sentAt: new Date(channel.clock.now()),
        text: word.text,
      };
      await channel.accept([message]).catch(() => socket.send(JSON.stringify({ op: "sorry" })));
    }
  } finally {
    live.delete(session);
    await channel.accept([event(state)]);
  }
}

/** The first frame, unless it takes longer than five seconds. */
async function first(channel: Channel, frames: AsyncIterator<string | Uint8Array>): Promise<Word | null> {
  const come = new AbortController();
  const late = channel.clock.sleep(5000, come.signal).then(() => null);
  const frame = await Promise.race([frames.next(), late]);
  come.abort();
  return frame === null || frame.done ? null : (JSON.parse(String(frame.value)) as Word);
}

let calls = 0;

export const callHarness: Harness = {
  lacks: {
    capacity: "every call has a socket of its own",
    attachments: "nobody hears a file",
    inbound: "callers come to us",
    http: "calls begin with the socket",
    reconcile: "what was spoken leaves no trace",
    probe: "there is nothing to log in to",
    credentials: "there is nothing to log in to",
    "refuse-connection": "we never connect",
    "refuse-message": "callers take everything",
    later: "callers take everything",
    delay: "callers take everything",
    "cut-before": "we never connect",
    "cut-after": "callers acknowledge nothing",
    "hang-before": "we never connect",
    "hang-after": "callers acknowledge nothing",
    "server-error": "callers acknowledge nothing",
  },
  quietMs: 100,
  patienceMs: 2000,
  async start() {
    const always: TestSocket[] = [];
    return {
      config: () => ({ secret: "sesame" }),
      fault: () => undefined,
      stop: async () => {
        for (const one of always) one.cut();
      },
      reply: { to: [{ address: "ann" }], session: sessionId("always") },
      delivered: () => always.flatMap(({ sent }) => sent.map(String)),
      // For the rules of sending: one caller who is on the line all the time.
      async attach(adapter, channel) {
        const route = adapter.routes?.find((one) => one.kind === "socket");
        if (route?.kind !== "socket") return;
        const call = serveTest(route, new Request(channel.url("/talk/sesame")));
        always.push(call);
        call.say(JSON.stringify({ op: "setup", call: "always", from: "ann" }));
        while ((await channel.session(sessionId("always"))) === null) await pass(5);
      },
      upgrades(url) {
        const upgrade = (secret: string) => new Request(new URL(secret, url("/talk/")));
        return [{ path: "/talk/*", good: () => upgrade("sesame"), forged: () => upgrade("barley") }];
      },
      sessions: (url) => [
        {
          path: "/talk/*",
          async begin() {
            const call = `c${(calls += 1)}`;
            let n = 0;
            return {
              request: new Request(url("/talk/sesame")),
              opening: [JSON.stringify({ op: "setup", call, from: "ann" })],
              say: (text) => [JSON.stringify({ op: "said", n: (n += 1), text })],
            };
          },
        },
      ],
    };
  },
};
