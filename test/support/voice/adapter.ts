// The voice adapter behind the real listener, with a core that only records. `openVoiceFixture`: people who call it through the
// sandbox's phone. `switchboard`: a provider that speaks any dialect.

import {
  type Adapter,
  type Attempt,
  channelId,
  type ExternalId,
  type Json,
  type Reply,
  type Route,
  type SendOutcome,
  type SessionEvent,
  sendKey,
  sessionId,
} from "bridgehead/contract";
import { noFiles, type RecordingChannel, recordingChannel } from "bridgehead/contract/testing";
import { onTestFinished } from "vitest";
import { type ClientOptions, WebSocket } from "ws";
import voice from "../../../adapters/voice/index.ts";
import { type Listener } from "../../../src/http/listener.ts";
import { type Dialing, Phone, type PhoneCall, type PhoneOptions } from "../../../src/sandbox/phone.ts";
import { type StillClock, stillClock } from "../clock.ts";
import { startTestListener } from "../http/listener.ts";
import { replyOf } from "../rows.ts";

export const authToken = "the-auth-token";
export const publicUrl = "https://bridge.example";
export const caller = "+15005550001";
export const ours = "+15005550006";
const id = "line";

export interface VoiceFixtureOptions {
  /** Over `dialect: twilio`, English, and the greeting "Hello there." */
  readonly config?: Record<string, unknown>;
  readonly phone?: Partial<PhoneOptions>;
  readonly introduction?: string | null;
  /** False: the core asks the agent nothing now. */
  readonly active?: boolean;
  /** Whether the channel is paused now. */
  readonly paused?: () => boolean;
}

export interface VoiceFixture {
  readonly clock: StillClock;
  readonly channel: RecordingChannel;
  readonly listener: Listener;
  readonly phone: Phone;
  adapter: Adapter;
  dial(more?: Partial<Dialing>): Promise<PhoneCall>;
  /** The core hands over an answer to the newest message of the call, or to `answers`. */
  answer(call: PhoneCall, text: string, answers?: ExternalId | null, more?: Partial<Reply>): Promise<SendOutcome>;
  /** The caller says it, and the core has it. */
  says(call: PhoneCall, text: string): Promise<ExternalId>;
  sessions(state: SessionEvent["state"]): readonly SessionEvent[];
  /** The process is exchanged: nothing but what was stored remains. */
  restart(): void;
}

/** A fixture, and a call to it. */
export async function dialedFixture(options?: VoiceFixtureOptions) {
  const fixture = await openVoiceFixture(options);
  return { fixture, call: await fixture.dial() };
}

export async function openVoiceFixture(options: VoiceFixtureOptions = {}): Promise<VoiceFixture> {
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
  const listener = await startTestListener({
    publicUrl,
    routes: (name) => (name === channelId(id) ? (adapter.routes ?? []) : null),
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
      const [draft] = outbound?.compose(reply({ session: sessionId(call.sid), text, answers, ...more })) ?? [];
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
      channel.stored.filter((event): event is SessionEvent => event.kind === "session" && event.state === state),
    restart() {
      adapter = voice.create(channel, settings);
    },
  };
}

export const reply = (over: Partial<Reply>): Reply =>
  replyOf({ to: [{ address: caller }], signature: "Kind regards, the desk", ...over });

// A provider, which connects to the adapter over a real websocket and posts to its webhooks.

export type Frame = Readonly<Record<string, any>>; // oxlint-disable-line typescript/no-explicit-any -- frames are looked into

export interface Switchboard {
  readonly channel: RecordingChannel;
  /** The channel's public address. */
  readonly base: string;
  /** Each settles when the serving of a socket is done; in the order of their arrival. */
  readonly served: readonly Promise<void>[];
  /** Frames that were given to a socket whose line was gone. */
  readonly wasted: readonly unknown[];
  dial(path: string, options?: ClientOptions & { readonly protocols?: readonly string[] }): Promise<Line>;
  /** The status with which an upgrade is refused. */
  refusal(path: string, options?: ClientOptions & { readonly protocols?: readonly string[] }): Promise<number>;
  /** The agent answers the newest message, or the one with that text. */
  answer(text: string, to?: string, more?: Partial<Reply>): Promise<SendOutcome>;
  /** The next message of the caller, after `already` others. */
  heard(already?: number): Promise<string>;
}

export interface Line {
  /** What we sent, parsed, in order. */
  readonly frames: readonly Frame[];
  say(frame: unknown): void;
  raw(text: string): void;
  /** Called with every frame that comes from now on. */
  watch(watcher: (frame: Frame) => void): void;
  /** The first frame from `from` on that fits. */
  until(what: string, fits: (frame: Frame) => boolean, from?: number): Promise<Frame>;
  hangUp(code?: number): void;
  /** Without a goodbye, as a broken network does it. */
  cut(): void;
  readonly closed: Promise<number>;
}

const patienceMs = 150_000;

export async function switchboard(
  block: Readonly<Record<string, Json>>,
  options: Parameters<typeof recordingChannel>[0] = {},
): Promise<Switchboard> {
  let adapter: Adapter | null = null;
  const listener = await startTestListener({ routes: () => adapter?.routes ?? null });
  onTestFinished(() => listener.close(100));
  const base = `${listener.url}/channels/phone`;
  const channel = recordingChannel({ id: "phone", publicUrl: base, ...options });
  const openedAt = new Date();
  const stored = channel.session.bind(channel);
  // The recording channel knows no times: a call would seem to last since 1970.
  Object.assign(channel, {
    session: async (id: Parameters<typeof stored>[0]) => {
      const facts = await stored(id);
      return facts === null ? null : { ...facts, openedAt };
    },
  });
  const served: Promise<void>[] = [];
  const wasted: unknown[] = [];
  adapter = watched(voice.create(channel, voice.config.parse(block)), served, wasted);
  const { outbound } = adapter;

  const open = (path: string, { protocols = [], ...rest }: Parameters<Switchboard["dial"]>[1] = {}) => {
    const url = path.startsWith("ws") ? path : `${base.replace("http", "ws")}${path}`;
    const ws = new WebSocket(url, [...protocols], rest);
    onTestFinished(() => ws.terminate());
    return ws;
  };
  let sends = 0;
  return {
    channel,
    base,
    served,
    wasted,
    async dial(path, rest) {
      const ws = open(path, rest);
      const line = lineOf(ws);
      await new Promise<void>((resolve, reject) => {
        ws.once("open", resolve);
        ws.once("error", reject);
      });
      return line;
    },
    refusal(path, rest) {
      const ws = open(path, rest);
      ws.on("error", () => undefined);
      return new Promise((resolve, reject) => {
        ws.once("unexpected-response", (_, response) => resolve(response.statusCode ?? 0));
        ws.once("open", () => reject(new Error("the socket was let in")));
      });
    },
    async answer(text, to, more) {
      const asked = channel.messages.findLast((one) => to === undefined || one.text === to);
      if (!asked || !("session" in asked.thread) || !outbound) throw new Error("nothing was asked in a call");
      const key = sendKey(`k${++sends}`);
      const reply = replyOf({
        key,
        createdAt: new Date(channel.clock.now()),
        to: [asked.from],
        text,
        signature: "-- The Team",
        answers: asked.id,
        history: [asked.id],
        session: sessionId(asked.thread.session),
        ...more,
      });
      const [draft] = outbound.compose(reply);
      if (draft === undefined) throw new Error("no draft");
      const attempt = {
        key,
        number: 1,
        signal: AbortSignal.timeout(patienceMs),
        crossing: () => Promise.resolve(),
        read: noFiles,
      };
      return outbound.send(draft, attempt);
    },
    async heard(already = 0) {
      await channel.until("the caller's words", ({ messages }) => messages.length > already, patienceMs);
      return channel.messages[already]?.text ?? "";
    },
  };
}

/** The same adapter; it is noted when its sockets are done with, and what is still written to them afterwards. */
function watched(made: Adapter, served: Promise<void>[], wasted: unknown[]): Adapter {
  const routes = (made.routes ?? []).map((route): Route => {
    if (route.kind !== "socket") return route;
    return {
      ...route,
      serve(socket, request) {
        const spy = new Proxy(socket, {
          get(line, key) {
            const value: unknown = Reflect.get(line, key);
            if (typeof value !== "function") return value;
            return (...args: unknown[]) => {
              if (key === "send" && line.signal.aborted) wasted.push(args[0]);
              return Reflect.apply(value, line, args) as unknown;
            };
          },
        });
        const done = Promise.resolve(route.serve(spy, request));
        served.push(done.catch(() => undefined));
        return done;
      },
    };
  });
  return { ...made, routes };
}

function lineOf(ws: WebSocket): Line {
  const frames: Frame[] = [];
  const watchers = new Set<() => void>();
  const listeners: ((frame: Frame) => void)[] = [];
  const look = () => {
    for (const watcher of watchers) watcher();
  };
  ws.on("message", (data) => {
    const frame = JSON.parse((data as Buffer).toString()) as Frame;
    frames.push(frame);
    for (const listener of listeners) listener(frame);
    look();
  });
  ws.on("error", () => undefined);
  const closed = new Promise<number>((resolve) => ws.once("close", resolve));
  return {
    frames,
    closed,
    say: (frame) => ws.send(JSON.stringify(frame)),
    raw: (text) => ws.send(text),
    hangUp: (code = 1000) => ws.close(code),
    cut: () => ws.terminate(),
    watch: (listener) => void listeners.push(listener),
    until(what, fits, from = 0) {
      const late = AbortSignal.timeout(patienceMs);
      return new Promise((resolve, reject) => {
        const watcher = () => {
          const found = frames.slice(from).find(fits);
          if (found === undefined && !late.aborted) return;
          watchers.delete(watcher);
          if (found === undefined) reject(new Error(`no ${what}; came: ${JSON.stringify(frames)}`));
          else resolve(found);
        };
        watchers.add(watcher);
        late.addEventListener("abort", watcher);
        watcher();
      });
    },
  };
}

/** The events of sessions, in order: `opened`, `lost` ... with their reasons. */
export function sessionHistory({ stored }: RecordingChannel): readonly string[] {
  return stored.flatMap((event) =>
    event.kind === "session" ? [event.reason === undefined ? event.state : `${event.state} ${event.reason}`] : [],
  );
}
