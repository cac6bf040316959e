// A receiver of webhooks on a real socket, and the adapter with people behind it.

import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import {
  type Adapter,
  type Attempt,
  type Clock,
  type Json,
  type Reply,
  type SendOutcome,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import type { AgentSettings, EscalationSettings } from "../../../src/agent/calls.ts";
import type { Person, Policy } from "../../../src/domain/policy.ts";
import { type WebhookDeps, webhookAdapter } from "../../../src/escalation/webhook/adapter.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { certificate } from "../machine/network.ts";

export interface Delivered {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export type Answering = (response: ServerResponse, got: Delivered) => void;

export interface Receiver {
  readonly port: number;
  readonly url: string;
  readonly got: readonly Delivered[];
  /** How it answers from now on; 204 at first. */
  answer(next: Answering): void;
  close(): Promise<void>;
}

export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answering =>
  (response) =>
    void response.writeHead(code, headers).end();

export const json =
  (value: unknown, code = 200, type = "application/json"): Answering =>
  (response) =>
    void response.writeHead(code, { "content-type": type }).end(JSON.stringify(value));

export async function startReceiver(
  options: { readonly secure?: boolean; readonly host?: string; readonly port?: number } = {},
): Promise<Receiver> {
  const { secure = false, host = "127.0.0.1", port = 0 } = options;
  const got: Delivered[] = [];
  let answering = status(204);
  const take: RequestListener = (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const one = { method, path: url, headers, text: Buffer.concat(parts).toString("utf8") };
      got.push(one);
      answering(response, one);
    });
  };
  const server = secure ? createSecureServer(certificate(), take) : createServer(take);
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((done, failed) => server.once("error", failed).listen(port, host, done));
  const bound = (server.address() as AddressInfo).port;
  return {
    port: bound,
    url: `${secure ? "https" : "http"}://${host}:${bound}/hook`,
    got,
    answer: (next) => void (answering = next),
    close: () => closed(server, sockets),
  };
}

/** Those that never spoke, too: the server knows nothing of them. */
async function closed(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  for (const socket of sockets) socket.destroy();
  await new Promise((done) => server.close(done));
}

/** Of an escalation, as the payload has it. */
export const bodyOf = (type: string, more: object = {}): string =>
  JSON.stringify({ type, timestamp: "2026-07-08T08:00:00.000Z", data: { escalation: 7, ...more } });

export const opened = bodyOf("escalation.opened");

const noticeTo = (url: string, text: string, key = "k0000000000000000001"): Reply => ({
  kind: "notice",
  key: sendKey(key),
  createdAt: new Date(0),
  to: [{ address: url, name: "Dora" }],
  cc: [],
  subject: null,
  text,
  signature: null,
  introduction: null,
  senderName: null,
  answers: null,
  history: [],
  token: threadToken("t0000000000000000001"),
  hops: 0,
  session: null,
});

export const personAt = (url: string, over: Partial<NonNullable<Person["webhook"]>> = {}): Person => ({
  id: "dora",
  name: "Dora",
  email: null,
  sms: null,
  webhook: { url, headers: {}, secret: null, ...over },
  timeZone: "UTC",
  hours: [],
  away: [],
});

/** What of a policy webhooks look at. */
export const policyWith = (people: readonly Person[], allowPrivate: readonly string[]): Policy =>
  ({ responders: new Map(people.map((one) => [one.id, one])), allowPrivate }) as Partial<Policy> as Policy;

/** A line of an agent with these recipients; null: its settings were never read. */
export const lineWith = (recipients: EscalationSettings["recipients"] | null): ChannelRuntime =>
  ({
    settings: () =>
      recipients &&
      ({ escalations: [{ topic: "refund", response: "", recipients }] } as unknown as AgentSettings),
  }) as ChannelRuntime;

export interface Bench {
  readonly channel: RecordingChannel;
  readonly adapter: Adapter;
  /** As the core does it: composed, stored, and sent by the attempt of that number. */
  send(text: string, attempt?: Partial<Attempt>): Promise<Sent>;
  drafts(text: string): readonly Json[];
}

export interface Sent {
  /** Or what was thrown. */
  readonly outcome: SendOutcome | Error;
  readonly crossed: boolean;
}

export interface BenchOptions extends Pick<WebhookDeps, "resolve" | "answerMs"> {
  readonly people?: readonly Person[];
  readonly lines?: readonly ChannelRuntime[];
  /** Default: this machine. */
  readonly allow?: readonly string[];
  readonly clock?: Clock;
  /** Default: looked at anew at each delivery, it is `people` and `allow`. */
  readonly policy?: () => Policy | null;
}

export function openBench(url: string, options: BenchOptions = {}): Bench {
  const { people = [personAt(url)], allow = ["127.0.0.1"], lines = [], clock } = options;
  const { resolve, answerMs } = options;
  const deps: WebhookDeps = {
    policy: options.policy ?? (() => policyWith(people, allow)),
    lines: () => new Map(lines.map((line, index) => [`line-${index}`, line])),
    ...(resolve && { resolve }),
    ...(answerMs !== undefined && { answerMs }),
  };
  const channel = recordingChannel({ id: "escalations", ...(clock && { clock }) });
  const adapter: Adapter = webhookAdapter(deps).create(channel, {});
  const outbound = adapter.outbound ?? failed();
  const drafts = (text: string) =>
    JSON.parse(JSON.stringify(outbound.compose(noticeTo(url, text)))) as readonly Json[];
  return {
    channel,
    adapter,
    drafts,
    async send(text, attempt = {}) {
      let crossed = false;
      const [draft = null] = drafts(text);
      const outcome = await outbound
        .send(draft, {
          key: noticeTo(url, text).key,
          number: 1,
          signal: new AbortController().signal,
          read: noFiles,
          ...attempt,
          crossing: async () => {
            await attempt.crossing?.();
            crossed = true;
          },
        })
        .catch((error: unknown) => error as Error);
      return { outcome, crossed };
    },
  };
}

function failed(): never {
  throw new Error("the adapter sends nothing");
}
