// Simulated callers: Twilio connects them to us. Dials with a signed form, executes the TwiML response, speaks and
// listens over ConversationRelay (or Gather), and posts call statuses. No audio; nothing is persistent.

import { followTwiml, type TwimlVerb } from "./call-flow.ts";
import { Changes } from "./changes.ts";
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

/** A call from its start to its end. Lists are append-only. */
export class PhoneCall {
  readonly sid: string;
  readonly from: string;
  readonly to: string;
  readonly options: PhoneOptions;
  readonly dialing: Dialing;
  /** The fields of every form. */
  readonly form: TwilioForm;
  /** What the caller hears in order: talk cycles, greetings, Say. */
  readonly spoken: Spoken[] = [];
  /** Every frame received over the call's websockets. */
  readonly frames: RelayFrame[] = [];
  /** Executed verbs in order. */
  readonly verbs: TwimlVerb[] = [];
  /** Every posted form and its response. */
  readonly requests: PhoneRequest[] = [];
  /** Errors that Twilio's debugger would show: invalid XML or frames, unreachable URLs. */
  readonly complaints: string[] = [];
  /** `dialing` before the first words; `talking` over the websocket; `gathering` during a Gather. */
  state: "dialing" | "talking" | "gathering" | "over" = "dialing";
  relay: Relay | null = null;
  /** Number of websocket connections. */
  connections = 0;
  /** Ends a Gather with speech or DTMF. */
  gathered: ((said: { readonly speech?: string; readonly digits?: string }) => void) | null = null;
  /** Why the call ended: `hung-up` (by the caller), `done` (no verb left), `hangup`, `enqueued`, `failed`. */
  readonly over: Promise<string>;
  readonly #changes = new Changes();
  readonly #hanging = new AbortController();

  constructor(options: PhoneOptions, dialing: Dialing) {
    this.options = options;
    this.dialing = dialing;
    this.sid = dialing.callSid ?? newSid("CA");
    this.from = dialing.from;
    this.to = dialing.to;
    this.form = callForm(options.accountSid, this.sid, dialing);
    this.over = followTwiml(this).then((reason) => {
      this.state = "over";
      this.changed();
      return reason;
    });
  }

  get hungUp(): AbortSignal {
    return this.#hanging.signal;
  }

  complain(what: string): void {
    this.complaints.push(what);
  }

  changed(): void {
    this.#changes.happened();
  }

  async post(url: string, form: TwilioForm): Promise<Posted> {
    const { authToken: token, via } = this.options;
    const posted = await postSigned({ url, via, form: { ...this.form, ...form }, token });
    this.requests.push({ url, form, posted });
    return posted;
  }

  /** Sends a finished utterance; with `partial` an unfinished one. */
  say(text: string, { lang = "en-US", partial }: { readonly lang?: string; readonly partial?: true } = {}): void {
    if (this.gathered) this.gathered({ speech: text });
    else this.relay?.send({ type: "prompt", voicePrompt: text, lang, last: partial !== true });
  }

  /** The caller interrupts; `heard` is the text spoken until then. Default: half of it. */
  interrupt(heard?: string): void {
    const text = this.relay?.interrupted()?.text ?? "";
    this.relay?.send({
      type: "interrupt",
      utteranceUntilInterrupt: heard ?? text.slice(0, Math.ceil(text.length / 2)),
      durationUntilInterruptMs: 800,
    });
  }

  digit(digit: string): void {
    if (this.gathered) this.gathered({ digits: digit });
    else this.relay?.send({ type: "dtmf", digit });
  }

  /** Sends any frame, as an object or as raw text. */
  send(frame: object | string): void {
    this.relay?.send(frame);
  }

  /** Aborts the websocket; Twilio then requests the action URL. */
  cut(): void {
    this.relay?.cut();
  }

  async hangUp(): Promise<void> {
    this.#hanging.abort();
    this.relay?.hangUp();
    await this.over;
  }

  /** Resolves with the result of `look` when it is not undefined, false or null. */
  until<T>(look: (call: PhoneCall) => T, withinMs?: number): Promise<NonNullable<T>> {
    return this.#changes.until(() => look(this), String(look), withinMs);
  }

  /** Resolves with the first sentence or talk cycle that contains `what`. */
  hears(what: string | RegExp, withinMs?: number): Promise<Spoken> {
    const fits = (text: string) => (typeof what === "string" ? text.includes(what) : what.test(text));
    return this.#changes.until(() => this.spoken.find(({ text }) => fits(text)), String(what), withinMs);
  }
}

export class Phone {
  readonly #options: PhoneOptions;
  readonly #calls = new Set<PhoneCall>();

  constructor(options: PhoneOptions) {
    this.#options = options;
  }

  /** Resolves when the websocket is open, a Gather listens, or the call has already ended. */
  async dial(dialing: Dialing, withinMs?: number): Promise<PhoneCall> {
    const call = new PhoneCall(this.#options, dialing);
    this.#calls.add(call);
    void call.over.then(() => this.#calls.delete(call));
    await call.until(({ state }) => state !== "dialing", withinMs);
    return call;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#calls].map((call) => call.hangUp()));
  }
}

function callForm(accountSid: string, sid: string, { from, to, direction = "inbound", more }: Dialing): TwilioForm {
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
