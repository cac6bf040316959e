// Stage fetch. Input: attachments that were announced with a `ref` and are due. Effect: calls the adapter to fetch
// their bytes, limited in size, time and number. It runs in parallel to the other stages: the agent is asked with the
// attachment's name before the fetch ends. Output: the bytes as a blob, or the attachment due for a retry, or the
// reason why it is permanently missing. Failure: depends on the error: a retry later, or never. Crash: the fetch starts
// again when the claim's lease expires.

import { createHash } from "node:crypto";
import type { Json } from "bridgehead/contract";
import { overdue } from "../../engine/running.ts";
import { type Claimed, type Stage, type Transition, whenever, withFailpoint } from "../../engine/stage.ts";
import { jitter, limited } from "../../ops/clock.ts";
import type { Core } from "../../store/driver.ts";
import { type LeaseDeadline, leaseDeadline } from "../../store/lanes.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import { afterFailure, beforeFetch, sizeError } from "./decide.ts";
import { abandonFetch, claimFetches, endFetch, type Fetch, keepFetched, postponeFetch } from "./rows.ts";

/** Each fetch may hold a whole attachment in memory. */
const atOnce = 2;

interface FetchDeps extends Core {
  readonly lines: () => ChannelRuntimes;
  /** Size limit of one attachment, in bytes. */
  readonly mostBytes: number;
}

interface Fetching {
  readonly channel: string;
  readonly open: NonNullable<ChannelRuntime["open"]>;
  readonly mask: ChannelRuntime["mask"];
  readonly row: Fetch;
  readonly leaseDeadline: LeaseDeadline;
}

export function fetchStage(deps: FetchDeps): Stage {
  return {
    name: "fetch",
    takes: "attachments",
    atOnce,
    async claim(q, channel, room) {
      const line = deps.lines().get(channel);
      if (!line?.open) return { claimed: [], room };
      const { open, mask } = line;
      const claimed: Claimed[] = [];
      const { attempt, leaseMargin } = deps.timing.fetch;
      const leaseMs = attempt + leaseMargin;
      const deadline = leaseDeadline(deps.clock, leaseMs);
      for (const row of await claimFetches(q, channel, deps.node, leaseMs, room)) {
        const reason = beforeFetch(row);
        if (reason !== null) await endFetch(q, row, reason);
        else claimed.push(piece({ channel, open, mask, row, leaseDeadline: deadline }, deps));
      }
      return { claimed, room };
    },
  };
}

function piece(fetching: Fetching, deps: FetchDeps): Claimed {
  const { channel, row } = fetching;
  return {
    channel,
    key: whenever,
    left: () => fetching.leaseDeadline.left(),
    abandon: (q) => abandonFetch(q, row),
    work: async (signal) =>
      withFailpoint(await fetch(fetching, signal, deps), "fetch.commit", { channel, event: row.event }),
  };
}

async function fetch(fetching: Fetching, ending: AbortSignal, deps: FetchDeps): Promise<Transition> {
  const { open, row, channel } = fetching;
  const most = deps.mostBytes;
  const signal = limited(ending, deps.timing.fetch.attempt);
  try {
    const tooLarge = sizeError(row.size, most);
    if (tooLarge !== null) throw tooLarge;
    const bytes = await collect(open(JSON.parse(row.ref) as Json, signal), most, signal);
    const id = createHash("sha256").update(bytes).digest("hex");
    return (q) => keepFetched(q, row, { id, bytes });
  } catch (error) {
    const failure = afterFailure(row, error, ending.aborted && ending.reason !== overdue, {
      jitter,
      timing: deps.timing.fetch,
    });
    const { kind } = failure;
    const reason = fetching.mask(failure.reason);
    const fields = { channel, event: row.event, position: row.position, attempts: row.attempts, reason };
    if (kind === "end") deps.log.warn(fields, "attachment download failed for good");
    if (kind === "retry") deps.log.warn(fields, "attachment download failed, retrying");
    return (q) => (failure.kind === "end" ? endFetch(q, row, reason) : postponeFetch(q, row, failure.delayMs, reason));
  }
}

/** Reads all bytes within the time and size limits. An adapter that ignores its signal does not block the caller. */
async function collect(source: AsyncIterable<Uint8Array>, most: number, signal: AbortSignal): Promise<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => undefined);
  const end = () => reject(new Error("it took too long"));
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), ended]);
      if (next.done) return Buffer.concat(chunks, size);
      size += next.value.byteLength;
      const tooLarge = sizeError(size, most);
      if (tooLarge !== null) throw tooLarge;
      chunks.push(next.value);
    }
  } catch (error) {
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
    throw error;
  } finally {
    signal.removeEventListener("abort", end);
  }
}
