// The voice adapter behind the real listener, people who call it over real sockets, and a core that only records.

import {
  type Adapter,
  type Attempt,
  channelId,
  type ExternalId,
  type Reply,
  type SendOutcome,
  type SessionEvent,
  sendKey,
  sessionId,
  threadToken,
} from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { onTestFinished } from "vitest";
import voice from "../../../adapters/voice/index.ts";
import { type Listener, startListener } from "../../../src/http/listener.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { type Dialing, Phone, type PhoneCall, type PhoneOptions } from "../../../src/sandbox/phone.ts";
import { type StillClock, stillClock } from "../clock.ts";

export const authToken = "the-auth-token";
export const publicUrl = "https://bridge.example";
export const caller = "+15005550001";
export const ours = "+15005550006";
const id = "line";

export interface RigOptions {
  /** Over `dialect: twilio`, English, and the greeting "Hello there." */
  readonly config?: Record<string, unknown>;
  readonly phone?: Partial<PhoneOptions>;
  readonly introduction?: string | null;
  /** False: the core asks the agent nothing now. */
  readonly active?: boolean;
  /** Whether the channel is paused now. */
  readonly paused?: () => boolean;
}

export interface Rig {
  readonly clock: StillClock;
  readonly channel: RecordingChannel;
  readonly listener: Listener;
  readonly phone: Phone;
  adapter: Adapter;
  dial(more?: Partial<Dialing>): Promise<PhoneCall>;
  /** The core hands over an answer to the newest message of the call, or to `answers`. */
  answer(
    call: PhoneCall,
    text: string,
    answers?: ExternalId | null,
    more?: Partial<Reply>,
  ): Promise<SendOutcome>;
  /** The caller says it, and the core has it. */
  says(call: PhoneCall, text: string): Promise<ExternalId>;
  sessions(state: SessionEvent["state"]): readonly SessionEvent[];
  /** The process is exchanged: nothing but what was stored remains. */
  restart(): void;
}

export async function openRig(options: RigOptions = {}): Promise<Rig> {
  const clock = stillClock();
  const agent = {
    active: options.active ?? true,
    name: "Agent",
    introduction: options.introduction ?? null,
    get paused() {
      return options.paused?.() ?? false;
    },
  };
  const channel = recordingChannel({ id, clock, publicUrl: `${publicUrl}/channels/${id}`, agent });
  const settings = await voice.config.parseAsync({
    dialect: "twilio",
    auth_tokens: [authToken],
    number: ours,
    greeting: "Hello there.",
    ...options.config,
  });
  let adapter = voice.create(channel, settings);
  const quiet = () => undefined;
  const listener = await startListener({
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    publicUrl,
    routes: (name) => (name === channelId(id) ? (adapter.routes ?? []) : null),
    ready: async () => ({ ready: true, channels: [] }),
    metrics: async () => ({ contentType: "text/plain", body: "" }),
  });
  const phone = new Phone({
    accountSid: "AC1",
    authToken,
    via: listener.url,
    pace: 0.01,
    ...options.phone,
  });
  onTestFinished(async () => {
    await phone.close();
    await listener.close(500);
  });
  let keys = 0;
  const attempt = (): Attempt => ({
    key: sendKey(`key${++keys}`),
    number: 1,
    signal: AbortSignal.timeout(60_000),
    crossing: () => Promise.resolve(),
    read: noFiles,
  });
  const newest = () => channel.messages.at(-1)?.id ?? null;
  return {
    clock,
    channel,
    listener,
    phone,
    get adapter() {
      return adapter as Adapter;
    },
    dial: (more) => phone.dial({ url: `${publicUrl}/channels/${id}/call`, from: caller, to: ours, ...more }),
    async answer(call, text, answers = newest(), more = {}) {
      const { outbound } = adapter;
      const [draft] =
        outbound?.compose(reply({ session: sessionId(call.sid), text, answers, ...more })) ?? [];
      if (!outbound || !draft) throw new Error("nothing to send");
      return outbound.send(JSON.parse(JSON.stringify(draft)), attempt());
    },
    async says(call, text) {
      const before = channel.messages.length;
      call.say(text);
      await call.until(() => true);
      for (let tries = 0; channel.messages.length === before; tries++) {
        if (tries > 100) throw new Error(`"${text}" never arrived`);
        await clock.passes(tries < 5 ? 0 : 50);
      }
      return channel.messages.at(-1)?.id as ExternalId;
    },
    sessions: (state) =>
      channel.stored.filter(
        (event): event is SessionEvent => event.kind === "session" && event.state === state,
      ),
    restart() {
      adapter = voice.create(channel, settings);
    },
  };
}

export function reply(over: Partial<Reply>): Reply {
  return {
    kind: "answer",
    key: sendKey("k1"),
    createdAt: new Date(0),
    to: [{ address: caller }],
    cc: [],
    subject: null,
    text: "",
    signature: "Kind regards, the desk",
    introduction: null,
    senderName: null,
    answers: null,
    history: [],
    token: threadToken("t1"),
    hops: 0,
    session: null,
    ...over,
  };
}
