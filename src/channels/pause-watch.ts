// Stage pause watch. Input: the paused channels in the store, at every sweep. Effect: keeps them in memory for what
// cannot read the store: adapters that decide about a new call. Output: one log line when a channel is paused or
// resumed, on every node. Failure: retried at the next sweep. Crash: read again at the start.

import type { Log } from "bridgehead/contract";
import type { TransactionalStage } from "../engine/stage.ts";
import { type ChannelPause, channelPauses, everyChannel } from "../store/tables/pauses.ts";

/** The paused channels as this process last read them. Claims do not use it: they read the store. */
export class PauseWatch {
  readonly #log: Log;
  #pauses: ReadonlyMap<string, ChannelPause> = new Map();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Returns the pause that applies to the channel, its own before that of all channels; null when it is not
   *  paused. At most one sweep old. */
  of(channel: string): ChannelPause | null {
    return this.#pauses.get(channel) ?? this.#pauses.get(everyChannel) ?? null;
  }

  /** The stage of the scheduler. It runs at every sweep: no commit announces live sessions. */
  stage(): TransactionalStage {
    return {
      takes: "sessions",
      run: async (q) => {
        const found = await channelPauses(q);
        if (found.length === 0 && this.#pauses.size === 0) return [];
        return [() => this.#replace(new Map(found.map((one) => [one.channel, one])))];
      },
    };
  }

  #replace(next: ReadonlyMap<string, ChannelPause>): void {
    for (const [channel, { code, reason, event, since, until }] of next) {
      if (this.#pauses.get(channel)?.since === since) continue;
      const fields = { channel, code, reason, ...(event === null ? {} : { event }) };
      this.#log.warn({ ...fields, until: until === null ? null : new Date(until).toISOString() }, "channel paused");
    }
    for (const [channel, { code }] of this.#pauses)
      if (!next.has(channel)) this.#log.info({ channel, code }, "channel resumed");
    this.#pauses = next;
  }
}
