// A call in the house: what an adapter tells of it, and what was said in it.

import {
  externalId,
  type MessageEvent,
  type Outbound,
  type SendOutcome,
  type SessionEvent,
  type SessionId,
  sessionId,
} from "bridgehead/contract";
import { expect } from "vitest";
import { loseSessions } from "../../../src/calls/rows.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { readSession, sessionParty } from "../../../src/store/tables/sessions.ts";
import { type House, type HouseOptions, mail, openHouse } from "./pipeline.ts";
import { activeSettings } from "./stage.ts";

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
