// Stores the events of a call over one connection. Ids consist of the call, the connection's ticket and a counter, so
// that two connections of one call never produce the same id.

import {
  type Channel,
  type ExternalId,
  externalId,
  type MessageEvent,
  type Party,
  sessionId,
  timingOf,
} from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import { configuredGreeting } from "../speech/phrases.ts";
import { speakable } from "../speech/speakable.ts";
import { standardTiming, type VoiceTiming } from "../timing.ts";

export interface CallName {
  readonly call: string;
  readonly ticket: string;
  readonly person: Party;
  readonly ours: string | null;
  /** Where the counter in the ids begins, for a ticket that several processes use. Default: 0. */
  readonly from?: number;
}

type RecordStore = Pick<Channel, "accept" | "session" | "clock">;

const longestHeard = 4096;

/** Returns the notes of a message. `caller heard`: the played part of the previous reply, when it was not played
 *  completely. */
export function notesOf(heard: string | null, keys: boolean): Readonly<Record<string, string>> {
  return { ...(keys ? { input: "keypad" } : {}), ...(heard === null ? {} : { "caller heard": heard }) };
}

/** The id of the event that closes a call, the same for every source that reports the end. A call that continued after
 *  it was closed (the connection failed before the provider received the end) gets another id for its next end. */
const closedId = (call: string, openings: number): ExternalId =>
  externalId(openings > 1 ? `${call}/closed/${openings}` : `${call}/closed`);

/** Stores what happens over one connection of a call. */
export class CallRecord {
  readonly #store: RecordStore;
  readonly #name: CallName;
  readonly #session;
  readonly #counts = new Map<string, number>();

  constructor(store: RecordStore, name: CallName) {
    this.#store = store;
    this.#name = name;
    this.#session = { kind: "session", session: sessionId(name.call), from: name.person } as const;
  }

  /** Returns false when this ticket was used before. `again`: how often the connection was resumed. */
  async opened(again: number): Promise<boolean> {
    const id = again === 0 ? externalId(`opened/${this.#name.ticket}`) : this.#id(`opened/${again}`);
    const [accepted] = await this.#store.accept([{ ...this.#session, id, state: "opened" }]);
    return accepted?.duplicate === false;
  }

  /** Returns the id of the caller's `count`th message. */
  messageId(count: number): ExternalId {
    return this.#id(String(count));
  }

  /** Stores a message of the caller. `notes`: facts for the agent in addition to the text. */
  async storeMessage(id: ExternalId, text: string, notes: Readonly<Record<string, string>>): Promise<void> {
    const { person, ours } = this.#name;
    await this.#store.accept([
      {
        kind: "message",
        id,
        from: person,
        to: ours === null ? [] : [{ address: ours }],
        thread: { session: this.#session.session },
        sentAt: new Date(this.#store.clock.now()),
        text,
        ...(Object.keys(notes).length > 0 ? { notes } : {}),
      },
    ]);
  }

  async interrupted(heard: string | null, about: ExternalId): Promise<void> {
    const words = heard === null ? {} : { heard: heard.slice(0, longestHeard) };
    const id = this.#next("interrupted");
    await this.#store.accept([{ ...this.#session, id, state: "interrupted", about, ...words }]);
  }

  async transferring(reason: string): Promise<void> {
    const id = this.#next("transferring");
    await this.#store.accept([{ ...this.#session, id, state: "transferring", reason }]);
  }

  /** No human took the call. The agent handles it again. */
  async returned(): Promise<void> {
    await this.#store.accept([{ ...this.#session, id: this.#next("returned"), state: "opened" }]);
  }

  /** The connection was lost; the call may continue. */
  async lost(reason: string): Promise<void> {
    await this.#store.accept([{ ...this.#session, id: this.#id("lost"), state: "lost", reason }]);
  }

  async closed(reason: string, durationMs: number): Promise<void> {
    const openings = (await this.#store.session(this.#session.session))?.openings ?? 1;
    const id = closedId(this.#name.call, openings);
    await this.#store.accept([{ ...this.#session, id, state: "closed", reason, durationMs }]);
  }

  /** Stores a missed call, which notifies responders that the caller was not served. */
  async missed(why: string): Promise<void> {
    const { call, person, ours } = this.#name;
    await this.#store.accept([missedCall({ call, from: person, ours, at: this.#store.clock.now() }, why)]);
  }

  #id(what: string): ExternalId {
    return externalId(`${this.#name.call}/${this.#name.ticket}/${what}`);
  }

  #next(what: string): ExternalId {
    const count = (this.#counts.get(what) ?? this.#name.from ?? 0) + 1;
    this.#counts.set(what, count);
    return this.#id(`${what}/${count}`);
  }
}

// Messages to humans about calls: a voicemail, and a missed call. They reach responders as notifications, so no
// telephone has to be watched.

export interface MissedCall {
  readonly call: string;
  readonly from: Party;
  readonly ours: string | null;
  /** Clock time in milliseconds. */
  readonly at: number;
}

const nameOf = ({ address }: Party): string => (address.startsWith("anonymous:") ? "an anonymous caller" : address);

/** Reason of a missed call when no human answered the transfer. */
export const transferUnanswered = "the transfer was not answered";

/** Builds the message for a missed call: the agent did not answer or was unreachable, or no human took the call. The
 *  id limits it to one per call. */
export function missedCall(call: MissedCall, why: string): MessageEvent {
  const caller = nameOf(call.from);
  const subject = `Missed call from ${caller}`;
  const text = `${caller} called ${call.ours ?? "us"} and was not served: ${why}. No message was left.\nCall: ${call.call}`;
  return { ...message(call, "missed", text), forHumans: { subject } };
}

export function voicemail(
  call: MissedCall,
  recording: { readonly id: string; readonly url: string; readonly seconds: string },
): MessageEvent {
  const caller = nameOf(call.from);
  const text = [
    `${caller} called ${call.ours ?? "us"}, the call was not answered, and this message was left.`,
    `Recording: ${recording.url}`,
    `Length: ${recording.seconds} seconds`,
    `Call: ${call.call}`,
  ].join("\n");
  const subject = `Voicemail from ${caller}`;
  return { ...message(call, `voicemail/${recording.id}`, text), forHumans: { subject } };
}

function message({ call, from, ours, at }: MissedCall, what: string, text: string) {
  return {
    kind: "message",
    id: externalId(`${call}/${what}`),
    from,
    to: ours === null ? [] : [{ address: ours }],
    thread: { session: sessionId(call) },
    sentAt: new Date(at),
    text,
  } as const;
}

// Maps callers to the core's `Party`: the address is stable across calls, except for a withheld number.

/** Values that Twilio and carriers send in place of a withheld number. */
const withheld = new Set([
  "",
  "anonymous",
  "restricted",
  "unavailable",
  "unknown",
  "private",
  "+266696687", // "anonymous" on a keypad
  "+7378742833", // "restricted"
  "+86282452253", // "unavailable"
  "+8656696", // "unknown"
  "+2562533", // "blocked"
]);

/** Returns the party of a caller. A caller with a withheld number, also in a SIP address
 *  (`sip:anonymous@anonymous.invalid`, RFC 3323), gets an address that is unique to this call. */
export function personOf(address: string | null, call: string): Party {
  const clean = (address ?? "").trim().toLowerCase();
  const [user = ""] = clean.replace(/^sips?:/, "").split("@", 1);
  return { address: withheld.has(user) ? `anonymous:${call}` : clean.slice(0, 320) };
}

/** Returns both parties of a call from Twilio-style parameters. `person` is the caller of an inbound call or the
 *  callee of an outbound call. */
export function partiesOf(call: {
  readonly From?: string | undefined;
  readonly To?: string | undefined;
  readonly Direction?: string | undefined;
}): { readonly person: string | null; readonly ours: string | null } {
  const { From: from = null, To: to = null } = call;
  return call.Direction?.startsWith("outbound") ? { person: to, ours: from } : { person: from, ours: to };
}

/** The channel of a dialect, with what all of its HTTP routes need. */
export class VoiceChannel {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  readonly timing: VoiceTiming;
  readonly #closing = new AbortController();
  #ended: (call: string) => void = () => undefined;

  constructor(channel: Channel, config: VoiceConfig) {
    this.channel = channel;
    this.config = config;
    this.timing = timingOf(channel, standardTiming);
  }

  /** Returns the greeting for a language: the configured one, else the agent's introduction, else null. */
  greeting(language: string): string | null {
    const introduction = this.channel.agent()?.introduction;
    const spoken = introduction ? speakable(introduction, language) : "";
    return configuredGreeting(this.config, language) ?? (spoken === "" ? null : spoken);
  }

  /** Aborts when the channel closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Ends the waits of this channel. */
  close(): void {
    this.#closing.abort("closing");
  }

  /** `ended` is called when a callback of the provider reports the end of a call, before that is stored. */
  onEnd(ended: (call: string) => void): void {
    this.#ended = ended;
  }

  /** Stores that the call has ended. Repeated invocations have no effect, and neither does one for a call that was
   *  never opened. */
  async closed(call: string, reason: string): Promise<void> {
    this.#ended(call);
    const session = sessionId(call);
    const facts = await this.channel.session(session);
    if (facts === null || facts.state === "closed") return;
    const durationMs = Math.max(0, this.channel.clock.now() - facts.openedAt.getTime());
    const id = closedId(call, facts.openings);
    const { from } = facts;
    await this.channel.accept([{ kind: "session", id, session, state: "closed", from, reason, durationMs }]);
  }
}
