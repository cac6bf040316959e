// Ends a call from our side: speaks the last phrases, waits until they finish, stores the end, then sends the final
// command.

import type { Clock } from "bridgehead/contract";
import type { Capabilities, Command } from "../dialects/dialect.ts";
import type { CallRecord } from "./record.ts";
import type { Speaker } from "./speaking.ts";

export interface Farewell {
  /** `human`: the call is transferred to a human. `end`: the call ends. */
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
  /** A number or sip: address, for dialects that transfer by a command. */
  readonly target: string | null;
  /** Returns the data of the transfer for the provider, as JSON text. */
  readonly data: (reason: string) => string;
  readonly write: (command: Command) => Promise<void>;
  /** Returns the duration of the call in milliseconds. */
  readonly duration: () => number;
  /** Called when the end of the call is stored. */
  readonly ended: () => void;
}

/** Resolves when all steps on our side are done. The state is stored before the command is sent. If the connection
 *  fails in between, the callback that follows still finds the transfer. */
export async function leave(parts: LeavingParts, farewell: Farewell, signal: AbortSignal): Promise<void> {
  const { speaker, record } = parts;
  await speaker.speak(farewell.words);
  await speaker.finished(signal);
  if (signal.aborted) return;
  if (farewell.way === "human") {
    await record.handingOver(farewell.reason);
    await parts.write({ kind: "transfer", data: parts.data(farewell.reason), to: parts.target });
    // A provider that reports the result of the transfer still has the caller, so the call stays open.
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
