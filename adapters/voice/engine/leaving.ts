// What a call needs from its connection, and how it ends from our side.

import type { Channel, SendOutcome, SessionFacts } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Capabilities, DialectCommand, StartEvent } from "../dialects/dialect.ts";
import type { VoiceTiming } from "../timing.ts";
import { transferData } from "../twiml.ts";
import type { CallRecord } from "./record.ts";
import type { Speaker } from "./speaking.ts";

export interface CallParts {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  readonly timing: VoiceTiming;
  readonly can: Capabilities;
  readonly start: Pick<StartEvent, "call" | "language" | "resumed">;
  readonly record: CallRecord;
  /** The stored session, read after this connection was opened. */
  readonly facts: SessionFacts | null;
  /** The reason of the transfer that was in progress when the previous connection was lost; else null. */
  readonly ringing: string | null;
  /** True when another process has served this connection so far. */
  readonly joins?: boolean;
  readonly write: (command: DialectCommand) => Promise<void>;
  /** Returns why speech cannot be delivered at this moment; null when it can. Default: it always can. */
  readonly unready?: () => SendOutcome | null;
  /** Aborts when the connection has ended. */
  readonly over: AbortSignal;
  /** Closes the connection with code 1000. */
  readonly hangUp: () => void;
  /** Reports a background error that ends the connection. */
  readonly failed: (error: unknown) => void;
}

/** The last phrases of a call from our side, and what follows them. */
export interface Farewell {
  /** `human`: the call is transferred to a human. `end`: the call ends. */
  readonly way: "human" | "end";
  /** Short and stable: `asked`, `escalated`, `no-answer`, `silent`, `too-long`, `goodbye`. */
  readonly reason: string;
  readonly words: readonly string[];
}

/** Reason of a missed call. */
const unanswered = "the agent did not answer";

/** Returns whether the caller cancels the goodbye by speaking. */
const isCancellable = ({ reason }: Farewell): boolean => reason === "silent" || reason === "goodbye";

/** The end of a connection. `hungUp`: the call ended with it. */
export interface ConnectionEnd {
  readonly reason: string;
  readonly hungUp: boolean;
}

/** State of the call at its end. */
export interface LastState {
  readonly speaker: Speaker;
  readonly language: () => string;
  readonly durationMs: () => number;
}

interface Leave {
  readonly farewell: Farewell;
  readonly cancelled: AbortController;
  /** True when the last phrases were played. The end is then being stored, and can no longer be cancelled. */
  played: boolean;
}

/** The departure of one call: at most one farewell at a time. It runs in the background, so that the events of the
 *  connection are handled in the meantime. Its errors are reported with `failed`. */
export class Departure {
  readonly #parts: CallParts;
  readonly #state: LastState;
  #leave: Leave | null = null;
  #closed = false;
  #work: Promise<void> = Promise.resolve();

  constructor(parts: CallParts, state: LastState) {
    this.#parts = parts;
    this.#state = state;
  }

  /** The farewell that has begun; null while the call continues. */
  get farewell(): Farewell | null {
    return this.#leave?.farewell ?? null;
  }

  /** True when the end of the call is stored. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Starts a farewell. Call only while no farewell is spoken. */
  begin(farewell: Farewell): void {
    const leave = { farewell, cancelled: new AbortController(), played: false };
    this.#leave = leave;
    this.#work = this.#run(leave).catch(this.#parts.failed);
  }

  /** A caller who speaks during the goodbye may want to continue, so the goodbye is cancelled. */
  cancel(): void {
    const leave = this.#leave;
    if (leave === null || leave.played || !isCancellable(leave.farewell)) return;
    leave.cancelled.abort("over");
    this.#leave = null;
  }

  /** A human has taken the call. */
  async taken(): Promise<void> {
    this.#closed = true;
    await this.#parts.record.closed("transferred", this.#state.durationMs());
  }

  /** No human has taken the call, so it continues. */
  returned(): void {
    this.#leave = null;
  }

  /** Resolves when nothing more is stored or sent. Call when the connection has ended. */
  idle(): Promise<void> {
    return this.#work;
  }

  /** Speaks the last phrases, waits until they finish, stores the end, then sends the final command. A transfer is stored
   *  before the phrases that announce it: when the connection or the process ends in them, the caller still gets it. The
   *  transfer that follows an apology is stored after it, because a caller who hangs up in the apology is a missed call. */
  async #run(leave: Leave): Promise<void> {
    const { can, channel, hangUp, over, record, timing } = this.#parts;
    const { speaker } = this.#state;
    const signal = AbortSignal.any([over, leave.cancelled.signal]);
    const { way, reason, words } = leave.farewell;
    try {
      if (way === "human" && reason !== "no-answer") await record.transferring(reason);
      await speaker.speak(words);
      await speaker.finished(signal);
    } finally {
      // The caller has probably hung up in the apology, and was not served.
      if (over.aborted && reason === "no-answer") await record.missed(unanswered);
    }
    if (signal.aborted) return;
    leave.played = true;
    await this.#finish(leave.farewell);
    // A provider that reports the result of the transfer still has the caller, so the connection stays open.
    if (way === "human" && can.transfer === "dial") return;
    await channel.clock.sleep(timing.parting, over);
    hangUp();
  }

  async #finish({ way, reason }: Farewell): Promise<void> {
    const { can, config, record, start, write } = this.#parts;
    const { language, durationMs } = this.#state;
    if (way === "human") {
      if (reason === "no-answer") await record.transferring(reason);
      const data = transferData(start.call, reason, language());
      await write({ kind: "transfer", data, to: config.transfer?.dial?.[0] ?? null });
      if (can.transfer !== "frame") return;
      await record.closed("transferred", durationMs());
      this.#closed = true;
      return;
    }
    if (reason === "no-answer") await record.missed(unanswered);
    await record.closed(reason, durationMs());
    this.#closed = true;
    await write({ kind: "end" });
  }
}
