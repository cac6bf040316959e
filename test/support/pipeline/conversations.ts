// A house that texts: one conversation a person, and every reply noted as it was composed.

import {
  externalId,
  type MessageEvent,
  type Outbound,
  type Reply,
  type SendOutcome,
  type SessionEvent,
  type SessionId,
  sessionId,
} from "bridgehead/contract";
import { expect } from "vitest";
import type { AgentSettings, ChannelSettings } from "../../../src/agent/calls.ts";
import { loseSessions } from "../../../src/calls/rows.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { readSession, sessionParty } from "../../../src/store/tables/sessions.ts";
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

// A call in the house: what an adapter tells of it, and what was said in it.

/** What the adapter was given to say. */
export interface Said {
  readonly text: string;
  readonly session: SessionId | null;
  readonly answers: string | null;
  readonly kind: string;
}

export interface CallHouse extends House {
  readonly said: readonly Said[];
  /** What becomes of the next attempts to say something; then it is said. */
  readonly outcomes: SendOutcome[];
  /** Every question so far, as the platform was asked it. */
  asked(): readonly string[];
  /** Waits until the platform was called so often in that way. */
  called(begin: string, times: number): Promise<void>;
  state(): Promise<{ turns: readonly string[]; drafts: readonly string[] }>;
}

/** A channel of calls. A person is a mailbox here: the scripted platform knows them by it. */
export async function callHouse(
  options: HouseOptions & { readonly delay?: number; readonly status?: () => "active" | "inactive" } = {},
): Promise<CallHouse> {
  const said: Said[] = [];
  const outcomes: SendOutcome[] = [];
  const outbound: Outbound = {
    compose: ({ text, session, answers, kind }) => [{ text, session, answers, kind }],
    async send(draft, attempt) {
      await attempt.crossing();
      const outcome = outcomes.shift() ?? { kind: "sent", id: externalId(`said-${attempt.key}`) };
      if (outcome.kind === "sent") said.push(draft as unknown as Said);
      return outcome;
    },
  };
  const settings = activeSettings({ delay: options.delay ?? 0 });
  const house = await openHouse({
    ...options,
    outbound: { ...outbound, ...options.outbound },
    line: (line): ChannelRuntime => ({
      ...line,
      traits: { ...line.traits, conversations: "person" },
      settings: () => ({ ...settings, status: options.status?.() ?? "active" }),
    }),
  });
  return {
    ...house,
    said,
    outcomes,
    asked: () =>
      house.platform.calls.filter((call) => call.startsWith("ask ")).map((call) => call.slice("ask ".length)),
    called: (begin, times) => expect.poll(() => house.platform.count(begin), { interval: 2 }).toBe(times),
    state: async () => {
      const turns = await house.turns();
      return { turns: turns.map(({ state }) => state), drafts: await house.drafts() };
    },
  };
}

let events = 0;

/** One call as its adapter tells of it. `tells` and `says` wait for nothing. */
export function callOf(
  house: Pick<House, "accepts" | "settles" | "db">,
  name = "call",
  from = "ada@example.org",
) {
  const session = sessionId(name);
  const event = (state: SessionEvent["state"], over: Partial<SessionEvent> = {}): SessionEvent => ({
    kind: "session",
    id: externalId(`${name}-${++events}`),
    session,
    state,
    from: { address: from },
    ...over,
  });
  const tells = (state: SessionEvent["state"], over: Partial<SessionEvent> = {}) =>
    house.accepts("c", event(state, over));
  const words = (text: string, over: Partial<MessageEvent> = {}): MessageEvent =>
    mail({ text, from: { address: from }, thread: { session }, ...over });
  return {
    session,
    words,
    tells,
    /** The id of what was said. */
    async says(text: string, over: Partial<MessageEvent> = {}) {
      const message = words(text, over);
      await house.accepts("c", message);
      return message.id;
    },
    async opens() {
      await tells("opened");
      await house.settles();
    },
    facts: () =>
      house.db.read(async (q) => {
        const row = await readSession(q, "c", name);
        return row && { ...row, ...(await sessionParty(q, row)) };
      }),
  };
}

/** What a start does on a store that only one process may use. */
export async function restart(house: Pick<House, "db">): Promise<void> {
  await house.db.tx(async (q) => {
    await endLeases(q);
    await loseSessions(q);
  });
}
