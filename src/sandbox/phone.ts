// People on the phone: a caller whom Twilio connects to us. Dials by a signed form, follows the TwiML it is answered,
// speaks and listens over ConversationRelay (or Gather), and tells how the call went on. No audio; keeps nothing.

import { followTwiml } from "./call-flow.ts";
import { createChanges } from "./changes.ts";
import type { Frame, Relay, Spoken } from "./relay-socket.ts";
import { type Form, type Posted, postSigned } from "./signed-post.ts";
import { newSid } from "./sms-records.ts";
import type { Verb } from "./twiml.ts";

export interface PhoneOptions {
  readonly accountSid: string;
  readonly authToken: string;
  /** Really connects to this origin; signatures stay those of the addresses as configured. */
  readonly via?: string;
  /** Of a second that TwiML waits (Pause, Gather), so much is waited. Default 1. */
  readonly pace?: number;
  /** How long an address that does not answer, or is not serving now (503), is tried again. Milliseconds, default 0. */
  readonly patience?: number;
  /** What becomes of a Dial to that number or address. Default: completed. */
  dialed?(target: string): "completed" | "busy" | "no-answer" | "failed" | "canceled";
}

export interface Dialing {
  /** The number's voice webhook, as configured at Twilio. */
  readonly url: string;
  readonly fallback?: string;
  readonly from: string;
  readonly to: string;
  readonly callSid?: string;
  /** Default `inbound`; a call that we asked for is `outbound-api`. */
  readonly direction?: string;
  /** Form fields over the usual ones: CallerName, ForwardedFrom ... */
  readonly more?: Form;
  /** The first frame over the websocket, in place of `setup`. */
  readonly first?: unknown;
}

/** A step of the call that Twilio took on our behalf. */
export interface Request {
  readonly url: string;
  readonly form: Form;
  readonly posted: Posted;
}

export interface PhoneCall {
  readonly sid: string;
  readonly from: string;
  readonly to: string;
  /** `dialing` until the first words may be said; `talking` over the websocket, `gathering` for a Gather. */
  readonly state: "dialing" | "talking" | "gathering" | "over";
  /** What the caller hears, in order: talk cycles, greetings, Say. Only grows. */
  readonly spoken: readonly Spoken[];
  /** Every frame we got over the websockets of the call. Only grows. */
  readonly frames: readonly Frame[];
  /** Verbs that were done, in order. Only grows. */
  readonly verbs: readonly Verb[];
  /** Every form that was posted, and its answer. Only grows. */
  readonly requests: readonly Request[];
  /** What Twilio would put into its debugger: bad XML, bad frames, unreachable addresses. Only grows. */
  readonly complaints: readonly string[];
  /** How often a websocket was opened. */
  readonly connections: number;
  /** Why it ended: `hung-up` (by the caller), `done` (nothing more to do), `hangup`, `enqueued`, `failed`. */
  readonly over: Promise<string>;
  /** A finished utterance; with `partial` one that goes on. */
  say(text: string, more?: { readonly lang?: string; readonly partial?: true }): void;
  /** The caller talks over us; `heard`: what was really spoken until then. Default: half of it. */
  interrupt(heard?: string): void;
  digit(digit: string): void;
  /** Any frame, as an object or as text. */
  send(frame: object | string): void;
  /** The websocket breaks; Twilio asks the action address how to go on. */
  cut(): void;
  hangUp(): Promise<void>;
  /** Resolves with what `look` finds when that is no longer undefined, false or null. */
  until<T>(look: (call: PhoneCall) => T, withinMs?: number): Promise<NonNullable<T>>;
  /** Resolves with the first sentence or cycle that contains `what`. */
  hears(what: string | RegExp, withinMs?: number): Promise<Spoken>;
}

/** What the flow of a call works on. */
export interface Line {
  readonly options: PhoneOptions;
  readonly dialing: Dialing;
  readonly form: Form;
  readonly spoken: Spoken[];
  readonly frames: Frame[];
  readonly verbs: Verb[];
  state: PhoneCall["state"];
  relay: Relay | null;
  connections: number;
  /** Ends a Gather with what was said or pressed. */
  gathered: ((said: { readonly speech?: string; readonly digits?: string }) => void) | null;
  readonly hungUp: AbortSignal;
  complain(what: string): void;
  changed(): void;
  post(url: string, form: Form): Promise<Posted>;
}

export interface Phone {
  /** Resolves when the websocket is open, a Gather listens, or the call is over already. */
  dial(dialing: Dialing): Promise<PhoneCall>;
  /** Every caller hangs up. */
  close(): Promise<void>;
}

export function startPhone(options: PhoneOptions): Phone {
  const calls = new Set<PhoneCall>();
  return {
    async dial(dialing) {
      const call = begin(options, dialing);
      calls.add(call);
      void call.over.then(() => calls.delete(call));
      await call.until(({ state }) => state !== "dialing", 60_000);
      return call;
    },
    close: async () => void (await Promise.all([...calls].map((call) => call.hangUp()))),
  };
}

function begin(options: PhoneOptions, dialing: Dialing): PhoneCall {
  const changes = createChanges();
  const hanging = new AbortController();
  const sid = dialing.callSid ?? newSid("CA");
  const requests: Request[] = [];
  const complaints: string[] = [];
  const line: Line = {
    options,
    dialing,
    form: callForm(options.accountSid, sid, dialing),
    spoken: [],
    frames: [],
    verbs: [],
    state: "dialing",
    relay: null,
    connections: 0,
    gathered: null,
    hungUp: hanging.signal,
    complain: (what) => void complaints.push(what),
    changed: () => changes.happened(),
    async post(url, form) {
      const { authToken: token, via } = options;
      const posted = await postSigned({ url, via, form: { ...line.form, ...form }, token });
      requests.push({ url, form, posted });
      return posted;
    },
  };
  const over = followTwiml(line).then((reason) => {
    line.state = "over";
    changes.happened();
    return reason;
  });
  const call: PhoneCall = {
    sid,
    from: dialing.from,
    to: dialing.to,
    spoken: line.spoken,
    frames: line.frames,
    verbs: line.verbs,
    requests,
    complaints,
    over,
    get state() {
      return line.state;
    },
    get connections() {
      return line.connections;
    },
    say(text, { lang = "en-US", partial } = {}) {
      if (line.gathered) line.gathered({ speech: text });
      else line.relay?.send({ type: "prompt", voicePrompt: text, lang, last: partial !== true });
    },
    interrupt(heard) {
      const text = line.relay?.interrupted()?.text ?? "";
      line.relay?.send({
        type: "interrupt",
        utteranceUntilInterrupt: heard ?? text.slice(0, Math.ceil(text.length / 2)),
        durationUntilInterruptMs: 800,
      });
    },
    digit(digit) {
      if (line.gathered) line.gathered({ digits: digit });
      else line.relay?.send({ type: "dtmf", digit });
    },
    send: (frame) => line.relay?.send(frame),
    cut: () => line.relay?.cut(),
    async hangUp() {
      hanging.abort();
      line.relay?.hangUp();
      await over;
    },
    until: (look, withinMs) => changes.until(() => look(call), String(look), withinMs),
    hears(what, withinMs) {
      const fits = (text: string) => (typeof what === "string" ? text.includes(what) : what.test(text));
      const look = () => line.spoken.find(({ text }) => fits(text));
      return changes.until(look, String(what), withinMs);
    },
  };
  return call;
}

function callForm(accountSid: string, sid: string, { from, to, direction = "inbound", more }: Dialing): Form {
  return {
    AccountSid: accountSid,
    ApiVersion: "2010-04-01",
    CallSid: sid,
    Called: to,
    Caller: from,
    CallStatus: direction === "inbound" ? "ringing" : "in-progress",
    CallToken: "",
    Direction: direction,
    From: from,
    FromCity: "",
    FromCountry: "US",
    To: to,
    ToCountry: "US",
    ...more,
  };
}
