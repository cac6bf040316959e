// The voice adapter answers and places phone calls. This file only connects the parts.

import { type Adapter, type Channel, defineAdapter, type Route, sessionId } from "bridgehead/contract";
import { callable, placedCalls } from "./calls.ts";
import { config, type VoiceConfig } from "./config.ts";
import type { Dialect, DialectMaker, Front } from "./dialects/dialect.ts";
import { gather } from "./dialects/gather.ts";
import { jambonz } from "./dialects/jambonz.ts";
import { retell } from "./dialects/retell.ts";
import { telnyx } from "./dialects/telnyx.ts";
import { twilio } from "./dialects/twilio.ts";
import type { Draft } from "./draft.ts";
import { liveCalls } from "./engine/calls.ts";
import { closedId } from "./engine/record.ts";
import { serve } from "./engine/serving.ts";
import { outbound } from "./outbound.ts";
import { review } from "./review.ts";
import { speakable } from "./speech/index.ts";
import { configuredGreeting } from "./wording.ts";

const makers: Readonly<Record<VoiceConfig["dialect"], DialectMaker>> = {
  twilio,
  telnyx,
  retell,
  jambonz,
  gather,
};

/** The carrier that owns a number. The dialects `twilio` and `gather` use the same carrier. */
const carriers = {
  twilio: "twilio",
  gather: "twilio",
  telnyx: "telnyx",
  retell: "retell",
  jambonz: "jambonz",
};

export default defineAdapter({
  name: "voice",
  contract: 1,
  config,
  traits: {
    attachments: false,
    conversations: "person",
    platform: "voice",
    // Reconciliation of an unknown outcome is short: a caller does not wait half a minute.
    defaults: { concurrency: 500, on_unknown: "drop", absent_after: "5s" },
  },
  address: callable,
  exclusive: ({ dialect, number }) =>
    number === undefined
      ? []
      : [{ id: `voice:${carriers[dialect]}/${number}`, name: `the number ${number}`, key: ["number"] }],
  review,
  create(channel, settings): Adapter<Draft> {
    const calls = liveCalls();
    const dialect = makers[settings.dialect](frontOf(channel, settings));
    const placed = placedCalls(channel, settings);
    // The adapter opens no connection of its own. It is ready because providers connect to its routes.
    channel.report({ state: "ready" });
    return {
      outbound: outbound(channel, (call) => calls.find(call) ?? dialect.ear?.(call), placed),
      routes: [...dialect.routes, ...socketRoutes(channel, settings, dialect, calls)],
      close: async () => dialect.close?.(),
      probe: async (signal) => (await placed?.probe(signal)) ?? { state: "ready" },
    };
  },
});

function socketRoutes(
  channel: Channel,
  settings: VoiceConfig,
  { can, socket }: Dialect,
  calls: ReturnType<typeof liveCalls>,
): readonly Route[] {
  if (socket === null) return [];
  const { paths, protocol, maxFrameBytes } = socket;
  return paths.map((path) => ({
    kind: "socket",
    path,
    ...(protocol === undefined ? {} : { protocol }),
    ...(maxFrameBytes === undefined ? {} : { maxFrameBytes }),
    authorize: (request) => socket.authorize(request),
    serve: (line, request) => serve({ channel, config: settings, can, calls }, line, socket.connect(request)),
  }));
}

function frontOf(channel: Channel, settings: VoiceConfig): Front {
  return {
    channel,
    config: settings,
    greeting(language) {
      const introduction = channel.agent()?.introduction;
      const spoken = introduction ? speakable(introduction, language) : "";
      return configuredGreeting(settings, language) ?? (spoken === "" ? null : spoken);
    },
    async closed(call, reason) {
      const session = sessionId(call);
      const facts = await channel.session(session);
      if (facts === null || facts.state === "closed") return;
      const durationMs = Math.max(0, channel.clock.now() - facts.openedAt.getTime());
      const { from } = facts;
      await channel.accept([
        {
          kind: "session",
          id: closedId(call, facts.openings),
          session,
          state: "closed",
          from,
          reason,
          durationMs,
        },
      ]);
    },
  };
}
