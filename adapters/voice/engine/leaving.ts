// What a call needs from its connection, and how it ends from our side.

import type { Channel, SendOutcome, SessionFacts } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Capabilities, DialectCommand, StartEvent } from "../dialects/dialect.ts";
import { transferData } from "../twiml.ts";
import type { CallRecord } from "./record.ts";
import type { Speaker } from "./speaking.ts";

export interface CallParts {
  readonly channel: Channel;
  readonly config: VoiceConfig;
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

/** Returns whether the caller cancels the goodbye by speaking. */
export const isCancellable = ({ reason }: Farewell): boolean => reason === "silent" || reason === "goodbye";

/** The end of a connection. `hungUp`: the call ended with it. */
export interface ConnectionEnd {
  readonly reason: string;
  readonly hungUp: boolean;
}

/** State of the call at its end. */
export interface LastState {
  readonly speaker: Speaker;
  readonly language: string;
  readonly durationMs: () => number;
}

/** Speaks the last phrases, waits until they finish, stores the end, then sends the final command. If the connection fails
 *  in between, the callback that follows still finds the transfer. `ended` is called when the
 *  end of the call is stored. */
export async function leave(
  { can, config, record, start, write }: CallParts,
  { way, reason, words }: Farewell,
  { speaker, language, durationMs }: LastState,
  signal: AbortSignal,
  ended: () => void,
): Promise<void> {
  await speaker.speak(words);
  await speaker.finished(signal);
  if (signal.aborted) return;
  if (way === "human") {
    await record.transferring(reason);
    const data = transferData(start.call, reason, language);
    await write({ kind: "transfer", data, to: config.transfer?.dial?.[0] ?? null });
    // A provider that reports the result of the transfer still has the caller, so the call stays open.
    if (can.transfer !== "frame") return;
    await record.closed("transferred", durationMs());
    return ended();
  }
  if (reason === "no-answer") await record.missed("the agent did not answer");
  await record.closed(reason, durationMs());
  ended();
  await write({ kind: "end" });
}
