// The end of a call from our side: last words, spoken to their end, then what is stored, then the frame that ends it.

import type { Clock } from "bridgehead/contract";
import type { Capabilities, Command } from "../dialects/dialect.ts";
import type { CallRecord } from "./record.ts";
import type { Speaker } from "./speaking.ts";

export interface Farewell {
  /** `human`: the call is handed over; `end`: it is over. */
  readonly way: "human" | "end";
  /** Short and stable: `asked`, `escalated`, `no-answer`, `silent`, `too-long`, `goodbye`. */
  readonly reason: string;
  readonly words: readonly string[];
}

export interface LeavingParts {
  readonly clock: Clock;
  readonly can: Capabilities;
  readonly record: CallRecord;
  readonly speaker: Speaker;
  /** A number or sip: address, for dialects that transfer by a frame. */
  readonly target: string | null;
  /** What the provider is told of the hand-over: JSON text. */
  readonly data: (reason: string) => string;
  readonly write: (command: Command) => Promise<void>;
  /** How long the call was, in milliseconds. */
  readonly duration: () => number;
  /** The call is stored as over. */
  readonly ended: () => void;
}

/** Resolves when everything is done that we can do. Stored first: a hand-over whose frame never left is still known to the callback
 *  that follows the loss of the line. */
export async function leave(parts: LeavingParts, farewell: Farewell, signal: AbortSignal): Promise<void> {
  const { speaker, record } = parts;
  await speaker.speak(farewell.words);
  await speaker.finished(signal);
  if (signal.aborted) return;
  if (farewell.way === "human") {
    await record.handingOver(farewell.reason);
    await parts.write({ kind: "transfer", data: parts.data(farewell.reason), to: parts.target });
    // A provider that tells what came of it has the caller still.
    if (parts.can.transfer !== "frame") return;
    await record.closed("handed-over", parts.duration());
    parts.ended();
    return;
  }
  if (farewell.reason === "no-answer") await record.missed("the agent did not answer");
  await record.closed(farewell.reason, parts.duration());
  parts.ended();
  await parts.write({ kind: "end" });
}
