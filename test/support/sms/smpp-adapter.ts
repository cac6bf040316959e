// The adapter at a message centre, as the core would run it: its `run` kept alive, drafts sent one by one.

import { type Attempt, type Json, type SendOutcome, sendKey } from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import sms from "../../../adapters/sms/index.ts";
import { replyTo } from "./twilio.ts";

const ours = "+15550100";
const person = "+15550177";

export interface Desk extends AsyncDisposable {
  readonly channel: RecordingChannel;
  /** How `run` ended so far. */
  readonly ends: readonly unknown[];
  /** Composes and sends one text; what became of every draft. */
  send(
    text: string,
    options?: { readonly to?: string; readonly signal?: AbortSignal },
  ): Promise<readonly SendOutcome[]>;
  /** Ends `run`, as a shutdown does. */
  stop(): Promise<void>;
}

let keys = 0;

/** With `run: false` nothing is received. `channel`: what an earlier life has left. */
export function openDesk(
  smpp: Record<string, unknown>,
  options: { readonly run?: boolean; readonly channel?: RecordingChannel; readonly block?: object } = {},
): Desk {
  const channel = options.channel ?? recordingChannel();
  const config = sms.config.parse({
    provider: "smpp",
    number: ours,
    split: { target: 1600 },
    ...options.block,
    smpp: { host: "127.0.0.1", tls: "none", system_id: "desk", password: "secret", ...smpp },
  });
  const adapter = sms.create(channel, config);
  const abort = new AbortController();
  const ends: unknown[] = [];
  const live = async () => {
    while (!abort.signal.aborted) {
      const end = await adapter.inbound?.run(channel.cursor, abort.signal).then(
        () => null,
        (error: unknown) => error,
      );
      ends.push(end);
    }
  };
  const life = options.run === false ? Promise.resolve() : live();
  const stop = async () => {
    abort.abort();
    // A test that has failed while it held a commit up shall say why, not hang here.
    channel.release();
    await life;
    await adapter.close?.(AbortSignal.timeout(1000));
  };
  return {
    channel,
    ends,
    async send(text, { to = person, signal = AbortSignal.timeout(60_000) } = {}) {
      const key = sendKey(`k${keys++}`);
      const drafts = adapter.outbound?.compose(replyTo(to, text, { key })) ?? [];
      const outcomes: SendOutcome[] = [];
      for (const draft of drafts) outcomes.push(await outcomeOf(draft, signal));
      return outcomes;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };

  async function outcomeOf(draft: Json, signal: AbortSignal): Promise<SendOutcome> {
    let crossed = false;
    const attempt: Attempt = {
      key: sendKey(`k${keys++}`),
      number: 1,
      signal,
      crossing: async () => void (crossed = true),
      read: noFiles,
    };
    try {
      return (
        (await adapter.outbound?.send(draft as never, attempt)) ?? { kind: "unknown", reason: "no outbound" }
      );
    } catch (error) {
      return crossed
        ? { kind: "unknown", reason: String(error) }
        : { kind: "deferred", reason: String(error) };
    }
  }
}

/** Resolves when the desk receives. */
export function bound(desk: Desk): Promise<void> {
  return desk.channel.until("ready", ({ statuses }) => statuses.at(-1)?.state === "ready");
}
