// A whole adapter, small enough to read in one go. Its protocol is one JSON object a line over TCP:
//
//   -> {"op":"login","token":"t"}                        <- {"op":"welcome"} or {"op":"denied"}
//   -> {"op":"read","after":7}                           <- {"op":"message","seq":8,"from":"ann","text":"hi","at":0} ...
//   -> {"op":"ack","seq":8}
//   -> {"op":"send","key":"k","to":"ann","text":"hi","files":[{"name":"a.txt","base64":"YQ=="}]}
//                                                        <- {"op":"taken","id":"m1"}, {"op":"never"} or {"op":"later","ms":9}
//   -> {"op":"look","key":"k"}                           <- {"op":"found","id":"m1"} or {"op":"missing"}

import { once } from "node:events";
import net from "node:net";
import { createInterface } from "node:readline";
import {
  type Adapter,
  type Channel,
  type ChannelStatus,
  cursor,
  defineAdapter,
  externalId,
  fileRef,
  type Json,
  type MessageEvent,
} from "bridgehead/contract";
import * as z from "zod";

const config = z.strictObject({
  server: z.strictObject({ host: z.string(), port: z.number().int() }),
  token: z.string().meta({ secret: true }),
});
type Config = z.output<typeof config>;
type Draft = {
  readonly to: string;
  readonly text: string;
  readonly files: readonly { readonly name: string; readonly ref: string }[];
};
type Line = { readonly op: string; readonly [key: string]: string | number };
type Request = { readonly op: string; readonly [key: string]: Json };

export default defineAdapter({
  name: "line",
  contract: 1,
  config,
  traits: {
    attachments: true,
    conversations: "person",
    platform: "sms",
  },
  create(channel: Channel, config: Config): Adapter<Draft> {
    const ask = async (request: Request, signal: AbortSignal, before?: () => Promise<void>): Promise<Line> => {
      await using wire = await connect(config, signal);
      await before?.();
      wire.write(request);
      return await wire.next();
    };
    return {
      inbound: {
        async run(start, signal) {
          channel.report({ state: "connecting" });
          try {
            await using wire = await connect(config, signal);
            wire.write({ op: "read", after: Number(start ?? 0) });
            channel.report({ state: "ready" });
            // What was there before the channel's first run is history.
            const since = start === null ? (await channel.identity()).since.getTime() : 0;
            while (!signal.aborted) {
              const line = await wire.next();
              const isNew = Number(line["at"]) >= since;
              await channel.accept(isNew ? [toEvent(line)] : [], cursor(String(line["seq"])));
              wire.write({ op: "ack", seq: Number(line["seq"]) });
            }
          } catch (error) {
            if (signal.aborted) return;
            channel.report(statusOf(error));
            throw error;
          }
        },
      },
      outbound: {
        compose: (reply) => {
          const text = [reply.introduction, reply.text, reply.signature].filter((part) => part !== null).join("\n\n");
          const files = (reply.attachments ?? []).map(({ name, ref }) => ({ name, ref: String(ref) }));
          return reply.to.map(({ address }) => ({ to: address, text, files }));
        },
        // A connection failure is thrown: before crossing() that means "nothing was sent", after it
        // "outcome unknown". Only a response from the server is returned as an outcome here.
        async send(draft, attempt) {
          const files: Json[] = [];
          for (const { name, ref } of draft.files) {
            const bytes = await attempt.read(fileRef(ref));
            files.push({ name, base64: Buffer.from(bytes).toString("base64") });
          }
          const request = { op: "send", key: attempt.key, ...draft, files };
          const answer = await ask(request, attempt.signal, () => attempt.crossing());
          if (answer.op === "taken") return { kind: "sent", id: externalId(String(answer["id"])) };
          if (answer.op === "never") return { kind: "refused", code: "never", reason: "the server will not take it" };
          if (answer.op === "later") {
            return { kind: "deferred", reason: "the server is busy", retryAfterMs: Number(answer["ms"]) };
          }
          return { kind: "unknown", reason: `the server answered ${answer.op}` };
        },
        async reconcile(_draft, attempt, signal) {
          const answer = await ask({ op: "look", key: attempt.key }, signal).catch(() => null);
          if (answer?.op === "found") return { kind: "sent", id: externalId(String(answer["id"])) };
          return answer?.op === "missing" ? { kind: "not-sent" } : { kind: "unsure" };
        },
      },
      async probe(signal) {
        try {
          const wire = await connect(config, signal);
          await wire[Symbol.asyncDispose]();
          return { state: "ready" };
        } catch (error) {
          return statusOf(error);
        }
      },
    };
  },
});

function toEvent(line: Line): MessageEvent {
  return {
    kind: "message",
    id: externalId(`line/${line["seq"]}`),
    from: { address: String(line["from"]) },
    to: [],
    thread: { answers: [] },
    sentAt: new Date(Number(line["at"])),
    text: String(line["text"]),
  };
}

const denied = "the server denied the login";

function statusOf(error: unknown): ChannelStatus {
  const reason = error instanceof Error ? error.message : String(error);
  return reason === denied
    ? { state: "unauthorized", code: "denied", reason }
    : { state: "degraded", code: "unreachable", reason };
}

/** A connection that is logged in; `next` rejects when the line is cut. It is gone when `signal` aborts. */
async function connect({ server, token }: Config, signal: AbortSignal) {
  signal.throwIfAborted();
  const socket = net.connect({ host: server.host, port: server.port, signal });
  const reader = createInterface({ input: socket, signal });
  const lines = reader[Symbol.asyncIterator]();
  // A pending read rejects on failure; these listeners prevent an uncaught error when no read is pending.
  for (const source of [socket, reader]) source.on("error", () => undefined);
  const wire = {
    write: (line: Request) => void socket.write(`${JSON.stringify(line)}\n`),
    next: async (): Promise<Line> => {
      const { done, value } = await lines.next();
      if (done) throw new Error("the line was cut");
      return JSON.parse(value) as Line;
    },
    [Symbol.asyncDispose]: async () => void socket.destroy(),
  };
  try {
    await once(socket, "connect");
    wire.write({ op: "login", token });
    const answer = await wire.next();
    if (answer.op !== "welcome") throw new Error(denied);
    return wire;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}
