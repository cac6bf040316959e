// Simulated callers: Twilio connects them to us. Dials with a signed form, executes the TwiML response,
// speaks and listens over ConversationRelay (or Gather), and posts call statuses. No audio; nothing is
// persistent.

import { followTwiml, type TwimlVerb } from "./call-flow.ts";
import { createChanges } from "./changes.ts";
import type { Relay, RelayFrame, Spoken } from "./relay-socket.ts";
import { newSid } from "./sms-records.ts";
import { type Posted, postSigned, type TwilioForm } from "./twilio-webhooks.ts";

export interface PhoneOptions {
  readonly accountSid: string;
  readonly authToken: string;
  /** Connects to this origin; signatures cover the configured URLs. */
  readonly via?: string;
  /** Factor for the waiting times of TwiML (Pause, Gather). Default 1. */
  readonly pace?: number;
  /** How long to retry a URL that does not respond or responds 503, in milliseconds. Default 0. */
  readonly patience?: number;
  /** Result of a Dial to this number or address. Default: completed. */
  dialed?(target: string): "completed" | "busy" | "no-answer" | "failed" | "canceled";
}

export interface Dialing {
  /** Voice webhook of the number, as entered at Twilio. */
  readonly url: string;
  readonly fallback?: string;
  readonly from: string;
  readonly to: string;
  readonly callSid?: string;
  /** Default `inbound`; a call that we requested is `outbound-api`. */
  readonly direction?: string;
  /** Additional or overriding form fields: CallerName, ForwardedFrom ... */
  readonly more?: TwilioForm;
  /** First websocket frame, sent instead of `setup`. */
  readonly first?: unknown;
}

/** A request that the fake Twilio made during the call. */
export interface PhoneRequest {
  readonly url: string;
  readonly form: TwilioForm;
  readonly posted: Posted;
}

export interface PhoneCall {
  readonly sid: string;
  readonly from: string;
  readonly to: string;
  /** `dialing` before the first words; `talking` over the websocket; `gathering` during a Gather. */
  readonly state: "dialing" | "talking" | "gathering" | "over";
  /** What the caller hears in order: talk cycles, greetings, Say. Append-only. */
  readonly spoken: readonly Spoken[];
  /** Every frame received over the call's websockets. Append-only. */
  readonly frames: readonly RelayFrame[];
  /** Executed verbs in order. Append-only. */
  readonly verbs: readonly TwimlVerb[];
  /** Every posted form and its response. Append-only. */
  readonly requests: readonly PhoneRequest[];
  /** Errors that Twilio's debugger would show: invalid XML or frames, unreachable URLs. Append-only. */
  readonly complaints: readonly string[];
  /** Number of websocket connections. */
  readonly connections: number;
  /** Why the call ended: `hung-up` (by the caller), `done` (no verb left), `hangup`, `enqueued`,
   *  `failed`. */
  readonly over: Promise<string>;
  /** Sends a finished utterance; with `partial` an unfinished one. */
  say(text: string, more?: { readonly lang?: string; readonly partial?: true }): void;
  /** The caller interrupts; `heard` is the text spoken until then. Default: half of it. */
  interrupt(heard?: string): void;
  digit(digit: string): void;
  /** Sends any frame, as an object or as raw text. */
  send(frame: object | string): void;
  /** Aborts the websocket; Twilio then requests the action URL. */
  cut(): void;
  hangUp(): Promise<void>;
  /** Resolves with the result of `look` when it is not undefined, false or null. */
  until<T>(look: (call: PhoneCall) => T, withinMs?: number): Promise<NonNullable<T>>;
  /** Resolves with the first sentence or talk cycle that contains `what`. */
  hears(what: string | RegExp, withinMs?: number): Promise<Spoken>;
}

/** State of a running call scheduler. */
export interface RunningCall {
  readonly options: PhoneOptions;
  readonly dialing: Dialing;
  readonly form: TwilioForm;
  readonly spoken: Spoken[];
  readonly frames: RelayFrame[];
  readonly verbs: TwimlVerb[];
  state: PhoneCall["state"];
  relay: Relay | null;
  connections: number;
  /** Ends a Gather with speech or DTMF. */
  gathered: ((said: { readonly speech?: string; readonly digits?: string }) => void) | null;
  readonly hungUp: AbortSignal;
  complain(what: string): void;
  changed(): void;
  post(url: string, form: TwilioForm): Promise<Posted>;
}

export interface Phone {
  /** Resolves when the websocket is open, a Gather listens, or the call has already ended. */
  dial(dialing: Dialing): Promise<PhoneCall>;
  /** Hangs up all calls. */
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
  const requests: PhoneRequest[] = [];
  const complaints: string[] = [];
  const line: RunningCall = {
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

function callForm(
  accountSid: string,
  sid: string,
  { from, to, direction = "inbound", more }: Dialing,
): TwilioForm {
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
