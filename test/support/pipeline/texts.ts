// A house that texts: one conversation a person, and every reply noted as it was composed.

import {
  externalId,
  type MessageEvent,
  type Outbound,
  type Reply,
  type SendOutcome,
} from "bridgehead/contract";
import type { AgentSettings, ChannelSettings } from "../../../src/agent/calls.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { type House, type HouseOptions, mail, openHouse } from "./pipeline.ts";
import { activeSettings } from "./stage.ts";

export interface Texts extends House {
  /** What compose was given, in order, as often as it was. A text is cut into parts at each `|`. */
  readonly replies: Reply[];
  /** `address: text` of what went out. */
  readonly texts: string[];
  /** A text comes in. Resolves when all that could follow at once has. */
  says(text: string, over?: Partial<MessageEvent>): Promise<void>;
  /** Several, in one commit. */
  say(...texts: readonly Partial<MessageEvent>[]): Promise<void>;
  /** The process dies and another begins on the same store. */
  reborn(): Promise<Texts>;
  state(event?: number): Promise<{ state: string; code: string | null; conversation: string | null }>;
}

export interface TextOptions extends HouseOptions {
  /** Seconds until a reply may go out. */
  readonly delay?: number;
  readonly skill?: Partial<ChannelSettings>;
  /** What the provider says to the n-th send, counted from 1. */
  readonly provider?: (count: number, text: string) => SendOutcome | undefined;
}

export const ann = "+15550111";

const smsSettings = (options: TextOptions): AgentSettings => {
  const base = activeSettings({ delay: options.delay ?? 0 });
  const sms = base.email && { ...base.email, ...options.skill };
  return { ...base, sms, voice: sms };
};

export async function openTexts(options: TextOptions = {}): Promise<Texts> {
  const replies: Reply[] = [];
  const texts: string[] = [];
  let sends = 0;
  const outbound: Outbound = {
    compose(reply) {
      replies.push(reply);
      const to = reply.to[0]?.address ?? "";
      return reply.text.split("|").map((text) => ({ text, to }));
    },
    async send(body, attempt) {
      await attempt.crossing();
      const { text, to } = body as { text: string; to: string };
      const outcome = options.provider?.(++sends, text);
      if (outcome) return outcome;
      texts.push(`${to}: ${text}`);
      return { kind: "sent", id: externalId(`sent-${attempt.key}`) };
    },
  };
  const settings = smsSettings(options);
  const wrap = options.line ?? ((line: ChannelRuntime) => line);
  const line = (given: ChannelRuntime): ChannelRuntime =>
    wrap({
      ...given,
      settings: () => settings,
      traits: { ...given.traits, platform: "sms", conversations: "person" },
    });
  const house = await openHouse({ ...options, outbound, line });
  const text = (over: Partial<MessageEvent>): MessageEvent =>
    mail({
      text: "",
      from: { address: ann },
      to: [{ address: "+15550100" }],
      sentAt: new Date(house.clock.now()),
      ...over,
    });
  const say = async (...said: readonly Partial<MessageEvent>[]) => {
    await house.accepts("c", ...said.map(text));
    await house.settles();
  };
  return {
    ...house,
    replies,
    texts,
    say,
    says: (words, over) => say({ text: words, ...over }),
    async reborn() {
      await house.scheduler.drain(0);
      await house.db.tx(endLeases);
      const { clock, db, platform } = house;
      return openTexts({ ...options, clock, db, platform });
    },
    async state(event = 1) {
      const row = await house.db.read((q) =>
        q.one<{ state: string; code: string | null; conversation: string | null }>(
          "SELECT state, code, conversation FROM events WHERE id = $1",
          event,
        ),
      );
      if (!row) throw new Error(`there is no event ${event}`);
      return row;
    },
  };
}
