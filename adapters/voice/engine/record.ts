// Stores the events of a call over one connection. Ids consist of the call, the connection's ticket and a counter, so
// that two connections of one call never produce the same id.

import { type Channel, type ExternalId, externalId, type Party, sessionId } from "bridgehead/contract";
import { missedCall } from "../for-humans.ts";

export interface CallName {
  readonly call: string;
  readonly ticket: string;
  readonly person: Party;
  readonly ours: string | null;
}

export interface CallRecord {
  /** Returns false when this ticket was used before. `again`: how often the connection was resumed. */
  opened(again: number): Promise<boolean>;
  /** Returns the id of the caller's `count`th message. */
  messageId(count: number): ExternalId;
  /** Stores a message of the caller. `notes`: facts for the agent in addition to the text. */
  said(id: ExternalId, text: string, notes: Readonly<Record<string, string>>): Promise<void>;
  interrupted(heard: string | null, about: ExternalId): Promise<void>;
  handingOver(reason: string): Promise<void>;
  /** No human took the call. The agent handles it again. */
  returned(): Promise<void>;
  /** The connection was lost; the call may continue. */
  lost(reason: string): Promise<void>;
  closed(reason: string, durationMs: number): Promise<void>;
  /** Stores a missed call, which notifies responders that the caller was not served. */
  missed(why: string): Promise<void>;
}

const longestHeard = 4096;

/** Returns the notes of a message. `caller heard`: the played part of the previous reply, when it was not played
 *  completely. */
export function notesOf(heard: string | null, keys: boolean): Readonly<Record<string, string>> {
  return { ...(keys ? { input: "keypad" } : {}), ...(heard === null ? {} : { "caller heard": heard }) };
}

/** The id of the event that closes a call, the same for every source that reports the end. A call that continued
 *  after it was closed (the connection failed before the provider received the end) gets another id for its next
 *  end. */
export const closedId = (call: string, openings: number): ExternalId =>
  externalId(openings > 1 ? `${call}/closed/${openings}` : `${call}/closed`);

export function callRecord(channel: Channel, { call, ticket, person, ours }: CallName): CallRecord {
  const session = { kind: "session", session: sessionId(call), from: person } as const;
  const named = (what: string) => externalId(`${call}/${ticket}/${what}`);
  let interruptions = 0;
  let handOvers = 0;
  let returns = 0;
  return {
    async opened(again) {
      const id = again === 0 ? externalId(`opened/${ticket}`) : named(`opened/${again}`);
      const [accepted] = await channel.accept([{ ...session, id, state: "opened" }]);
      return accepted?.duplicate === false;
    },
    messageId: (count) => named(String(count)),
    async said(id, text, notes) {
      await channel.accept([
        {
          kind: "message",
          id,
          from: person,
          to: ours === null ? [] : [{ address: ours }],
          thread: { session: session.session },
          sentAt: new Date(channel.clock.now()),
          text,
          ...(Object.keys(notes).length > 0 ? { notes } : {}),
        },
      ]);
    },
    async interrupted(heard, about) {
      const id = named(`interrupted/${++interruptions}`);
      const words = heard === null ? {} : { heard: heard.slice(0, longestHeard) };
      await channel.accept([{ ...session, id, state: "interrupted", about, ...words }]);
    },
    async handingOver(reason) {
      await channel.accept([
        { ...session, id: named(`handing-over/${++handOvers}`), state: "handing-over", reason },
      ]);
    },
    async returned() {
      await channel.accept([{ ...session, id: named(`returned/${++returns}`), state: "opened" }]);
    },
    async lost(reason) {
      await channel.accept([{ ...session, id: named("lost"), state: "lost", reason }]);
    },
    async missed(why) {
      await channel.accept([missedCall({ call, from: person, ours, at: channel.clock.now() }, why)]);
    },
    async closed(reason, durationMs) {
      const openings = (await channel.session(session.session))?.openings ?? 1;
      await channel.accept([
        { ...session, id: closedId(call, openings), state: "closed", reason, durationMs },
      ]);
    },
  };
}
