// The module `bridgehead/voice`: an adapter for calls from dialects. The built-in adapter uses it, and so does a package
// with a dialect of its own.

import { type Adapter, type Channel, defineAdapter, type ExclusiveResource, type Route } from "bridgehead/contract";
import { accountRemarks, dialectOf, review, startProblem, type VoiceConfig, voiceConfig } from "./config.ts";
import type { Dialect, SocketSide } from "./dialects/dialect.ts";
import { VoiceChannel } from "./engine/record.ts";
import { RequestCalls } from "./engine/requests.ts";
import { LiveCalls, serve } from "./engine/socket.ts";
import { callable, outbound, placedCalls, type VoiceDraft } from "./outbound.ts";

export { type CallFlow, callRoutes } from "./call-routes.ts";
export type { VoiceConfig } from "./config.ts";
export * from "./dialects/dialect.ts";
export { VoiceChannel } from "./engine/record.ts";

export interface VoiceAdapterOptions {
  readonly name: string;
  /** The first is the default of the key `dialect`. */
  readonly dialects: readonly Dialect[];
  /** Description of the key `dialect`. */
  readonly question?: string;
}

/** Returns an adapter whose channels use one of these dialects. Turn-taking, timers, phrases, transfer and the stored
 *  events of calls are the same for all of them. */
export function voiceAdapter({ name, dialects, question = "Which provider connects the calls?" }: VoiceAdapterOptions) {
  return defineAdapter({
    name,
    contract: 1,
    config: voiceConfig(dialects, question),
    traits: {
      attachments: false,
      conversations: "person",
      platform: "voice",
      // Reconciliation of an unknown outcome is short: a caller does not wait half a minute.
      defaults: { concurrency: 500, on_unknown: "drop", absent_after: "5s" },
    },
    address: callable,
    startProblem: (block) => startProblem(dialects, block),
    exclusive: (settings) => numberOf(dialectOf(dialects, settings), settings),
    review: (settings, around) => [...review(settings, around), ...accountRemarks(dialects, settings)],
    create: (channel, settings) => create(dialectOf(dialects, settings), channel, settings),
  });
}

function create(dialect: Dialect, channel: Channel, settings: VoiceConfig): Adapter<VoiceDraft> {
  const voice = new VoiceChannel(channel, settings);
  const block = (settings as Readonly<Record<string, unknown>>)[dialect.name];
  const { socket, requests, routes = [] } = dialect.create(voice, block);
  const live = new LiveCalls();
  const held = requests === undefined ? null : new RequestCalls(voice, requests);
  const placed = placedCalls(voice);
  // The adapter opens no connection of its own. It is ready because providers connect to its routes.
  channel.report({ state: "ready" });
  return {
    outbound: outbound(voice, (call) => live.find(call) ?? held?.find(call), placed),
    routes: [
      ...routes,
      ...(held === null ? [] : [held.route]),
      ...(socket === undefined ? [] : socketRoutes(voice, dialect, socket, live)),
    ],
    close: async () => {
      voice.close();
      held?.close();
    },
    probe: async (signal) => (await placed?.probe(signal)) ?? { state: "ready" },
    examine: async (_cursor, signal) => (await placed?.examine(signal)) ?? [],
  };
}

function socketRoutes(
  { channel, config, timing }: VoiceChannel,
  { can }: Dialect,
  socket: SocketSide,
  calls: LiveCalls,
): readonly Route[] {
  const { paths, protocol, maxFrameBytes } = socket;
  return paths.map((path) => ({
    kind: "socket",
    path,
    ...(protocol === undefined ? {} : { protocol }),
    ...(maxFrameBytes === undefined ? {} : { maxFrameBytes }),
    authorize: (request) => socket.authorize(request),
    serve: (line, request) => serve({ channel, config, timing, can, calls }, line, socket.connect(request)),
  }));
}

function numberOf({ name, carrier = name }: Dialect, { number }: VoiceConfig): ExclusiveResource[] {
  if (number === undefined) return [];
  return [{ id: `voice:${carrier}/${number}`, name: `the number ${number}`, key: ["number"] }];
}
