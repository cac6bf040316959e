// HTTP routes for calls of providers that speak TwiML: call start, end and resume of the connection, dial result,
// voicemail. Every response is built from stored state, because another process may handle the next request.

import {
  type Channel,
  externalId,
  type HttpRoute,
  type RoutePath,
  type SessionFacts,
  sendKey,
  sessionId,
} from "bridgehead/contract";
import type { VoiceConfig } from "./config.ts";
import {
  type MissedCall,
  missedCall,
  partiesOf,
  personOf,
  transferUnanswered,
  type VoiceChannel,
  voicemail,
} from "./engine/record.ts";
import type { Params } from "./proof.ts";
import { phrasesFor } from "./speech/phrases.ts";
import { element, escapeXml, hangUp, languageInData, say, transferVerb, twiml } from "./twiml.ts";

/** The provider-specific parts of these routes. */
export interface CallFlow {
  /** Returns the request's parameters under Twilio's names when the provider sent it. Null rejects the request with
   *  403. */
  verify(request: Request, path: RoutePath): Promise<Params | null>;
  /** Returns the verb that connects a call to the agent. The provider requests `action` when that connection has
   *  ended. */
  connect(call: ConnectCall): string;
}

export interface ConnectCall {
  readonly call: string;
  readonly action: string;
  readonly greeting: string;
  readonly language: string;
}

/** Error codes for a connection that failed because of our own request. A retry is pointless. */
const ourFault = new Set(["64101", "64106"]);
const unreachable = "64102";

export function callRoutes(voice: VoiceChannel, flow: CallFlow): readonly HttpRoute[] {
  const { channel } = voice;
  const handlers = new CallHandlers(voice, flow);
  const route = (method: "GET" | "POST", path: RoutePath, answer: RouteHandler): HttpRoute => ({
    kind: "http",
    method,
    path,
    async handle(request) {
      const params = await flow.verify(request, path);
      if (params === null) {
        channel.log.warn({ path }, "request rejected: unauthorized, invalid signature");
        return new Response(null, { status: 403 });
      }
      return answer(params);
    },
  });
  return [
    route("POST", "/call", (params) => handlers.started(params)),
    route("POST", "/ended", (params) => handlers.ended(params)),
    route("POST", "/dialed", (params) => handlers.dialed(params)),
    route("POST", "/voicemail", (params) => handlers.voicemail(params)),
    route("POST", "/status", (params) => handlers.status(params)),
    route("GET", "/fallback", (params) => handlers.fallback(params)),
    route("POST", "/fallback", (params) => handlers.fallback(params)),
  ];
}

type RouteHandler = (params: Params) => Promise<Response> | Response;

/** Answers the requests about calls. */
class CallHandlers {
  readonly #voice: VoiceChannel;
  readonly #channel: Channel;
  readonly #config: VoiceConfig;
  readonly #flow: CallFlow;

  constructor(voice: VoiceChannel, flow: CallFlow) {
    this.#voice = voice;
    this.#channel = voice.channel;
    this.#config = voice.config;
    this.#flow = flow;
  }

  started(params: Params): Response {
    if (callOf(params) === "") return new Response(null, { status: 400 });
    const { say: encoded, AnsweredBy: by = "human" } = params;
    const words = encoded === undefined ? this.#greeting : Buffer.from(encoded, "base64url").toString();
    if (!/^(?:machine|fax)/.test(by)) return this.#connect(params, words, 0);
    this.#channel.log.info({ call: callOf(params), by }, "a machine answered the call, message left");
    return twiml(say(words, this.#config.language), hangUp);
  }

  async ended(params: Params): Promise<Response> {
    const gone = params.SessionStatus === "completed" || params.CallStatus === "completed";
    if (gone) return this.#over(params, "hung-up");
    if (params.SessionStatus === "failed") return this.#resume(params);
    const facts = await this.#factsOf(params);
    const reason = facts?.transferring ?? null;
    if (facts?.state !== "closed" && reason !== null)
      return this.#toHuman(params, reason, languageInData(params.HandoffData) ?? this.#config.language);
    // Without a status the stored state tells: before we send `end`, the transfer or the end of the call is stored.
    if (facts?.state !== "closed" && params.SessionStatus === undefined) return this.#resume(params);
    return this.#over(params, "ended", hangUp);
  }

  async dialed(params: Params): Promise<Response> {
    const { language, transfer, resume } = this.#config;
    const words = phrasesFor(this.#config, language);
    const status = params.DialCallStatus ?? "";
    if (status === "completed" || status === "answered") return this.#over(params, "transferred", hangUp);
    this.#channel.log.warn({ call: callOf(params), status }, "call transfer not answered");
    const wanted = transfer?.no_answer ?? "end";
    // When the agent connection was lost, `agent` is not possible. The call goes to voicemail.
    const next = wanted === "agent" && params.r === "lost" ? "voicemail" : wanted;
    const gone = params.CallStatus === "completed";
    // The transfer of a fallback is not stored yet.
    const isAwaited =
      !gone && next === "voicemail" && (await this.#storeTransfer(params, await this.#factsOf(params), "fallback"));
    if (isAwaited) this.#awaitVoicemail(params, transfer?.voicemail_length ?? 0);
    else await this.#missed(params, transferUnanswered);
    if (gone) return this.#over(params, "hung-up");
    if (next === "agent") return this.#connect(params, words.apology, resume.times);
    if (next === "end") return this.#over(params, "no-answer", say(words.apology, language), hangUp);
    const record = {
      action: this.#address("/voicemail"),
      method: "POST",
      maxLength: Math.round((transfer?.voicemail_length ?? 0) / 1000),
      finishOnKey: "#",
      playBeep: true,
    };
    // When nothing was recorded, Twilio executes the verb that follows Record.
    const silent = element("Redirect", { method: "POST" }, [escapeXml(this.#address("/voicemail"))]);
    return twiml(say(words.voicemail, language), element("Record", record), silent);
  }

  async voicemail(params: Params): Promise<Response> {
    const { RecordingSid: id = "", RecordingUrl: url, RecordingDuration: seconds = "?" } = params;
    if (url === undefined) {
      await this.#missed(params, transferUnanswered);
      return this.#over(params, "no-answer", hangUp);
    }
    await this.#channel.accept([voicemail(this.#missedCallOf(params), { id, url, seconds })]);
    return this.#over(params, "voicemail", hangUp);
  }

  /** Handles a status callback (Twilio's StatusCallback of a call or a number), during and after the call. It reports
   *  delivery of an outbound call under its draft's key. The key binds the call even when the response to the create
   *  request was lost. A call that has ended is recorded as closed, independent of which callback or request reports
   *  the end first. */
  async status(params: Params): Promise<Response> {
    const { CallStatus: status = "", AnsweredBy: by, key } = params;
    const call = callOf(params);
    if (key !== undefined && /^[a-z0-9]+$/.test(key)) {
      const state = vain.has(status) ? "failed" : stateOf(status);
      const about = { key: sendKey(key), sent: [externalId(call)] };
      const id = externalId(`${call}/status/${status}`);
      const words = state === "failed" ? `the call was not answered: ${status}` : status;
      const detail = by === undefined ? words : `${words} ${by}`;
      await this.#channel.accept([{ kind: "delivery", id, about, state, detail }]);
    }
    if (over.has(status)) {
      if (await this.#isTransferring(params)) await this.#channel.clock.sleep(this.#voice.timing.overtaken);
      if (!(await this.#endTransfer(params)))
        await this.#voice.closed(call, status === "completed" ? "hung-up" : status);
    }
    return new Response(null, { status: 204 });
  }

  /** Responds when another request has failed. The response needs no database, no platform request and no agent: one of
   *  them may be the cause. */
  fallback(params: Params): Response {
    const { language, transfer } = this.#config;
    const apology = say(phrasesFor(this.#config, language).apology, language);
    this.#channel.log.warn({ call: callOf(params), code: params.ErrorCode ?? "" }, "call fallback requested");
    // When the request about the result of Dial has failed, the targets are not rung again.
    if (transfer !== undefined && !/\/(?:dialed|voicemail)(?:\?|$)/.test(params.ErrorUrl ?? "")) {
      const dialed = this.#address("/dialed", "?r=lost");
      return twiml(apology, transferVerb(transfer, { call: callOf(params), reason: "lost", dialed, language }));
    }
    this.#closeMissed(params).catch((error: unknown) =>
      this.#channel.log.error({ call: callOf(params), err: error }, "recording a missed call failed"),
    );
    return twiml(apology, hangUp);
  }

  /** Returns whether the transfer has begun, and no human has taken the call and no voicemail was left so far. */
  async #isTransferring(params: Params): Promise<boolean> {
    const facts = await this.#factsOf(params);
    return facts !== null && facts.state !== "closed" && facts.transferring !== null;
  }

  /** Records that the caller hung up in the transfer: while they are asked for a voicemail, the provider then requests
   *  nothing more. Returns false for other calls. Call when requests about the call can no longer arrive. */
  async #endTransfer(params: Params): Promise<boolean> {
    if (!(await this.#isTransferring(params))) return false;
    await this.#missed(params, transferUnanswered);
    await this.#voice.closed(callOf(params), "no-answer");
    return true;
  }

  /** Ends the transfer when neither a voicemail nor a status callback arrives: a provider may send no status callback. */
  #awaitVoicemail(params: Params, longest: number): void {
    const { closing, timing } = this.#voice;
    this.#channel.clock
      .sleep(longest + timing.voicemail, closing)
      .then(() => closing.aborted || this.#endTransfer(params))
      .catch((error: unknown) =>
        this.#channel.log.error({ call: callOf(params), err: error }, "recording a missed call failed"),
      );
  }

  /** Handles a lost connection: connects again, transfers, or gives up. */
  async #resume(params: Params): Promise<Response> {
    const { fallback, language, resume } = this.#config;
    const facts = await this.#factsOf(params);
    const tries = Math.max(Number(params.n ?? 0) || 0, (facts?.openings ?? 1) - 1);
    const code = params.ErrorCode ?? "";
    this.#channel.log.warn({ call: callOf(params), code, tries }, "call connection lost");
    // The last stored state decides, whether or not the frame that followed it was sent.
    if (facts?.state === "closed") return twiml(hangUp);
    if (facts && facts.transferring !== null && tries < resume.times)
      return this.#toHuman(params, facts.transferring, language);
    if (code === unreachable && facts === null && fallback === "gather")
      return twiml(element("Redirect", { method: "POST" }, [this.#address("/gather")]));
    if (ourFault.has(code) || tries >= resume.times) return this.#lastResort(params);
    const words = phrasesFor(this.#config, language);
    const greeting = facts === null ? this.#greeting : words.lostYou;
    // Telnyx gives no code. Its last connection was never opened when there were fewer openings than connections.
    const isUnreachable = code === unreachable || (code === "" && Number(params.n ?? 0) >= (facts?.openings ?? 0));
    if (!isUnreachable) return this.#connect(params, greeting, tries + 1);
    // The process may be restarting. Immediate retries would all fail, so each retry is preceded by a pause.
    const moment = say(words.fillers[tries % words.fillers.length] ?? "", language);
    const pause = element("Pause", { length: Math.round((this.#voice.timing.reconnect * (tries + 1)) / 1000) });
    return this.#connect(params, greeting, tries + 1, moment, pause);
  }

  /** Responds when the agent cannot be reached any more. */
  async #lastResort(params: Params): Promise<Response> {
    const { language, transfer } = this.#config;
    const { apology } = phrasesFor(this.#config, language);
    if (transfer === undefined) {
      await this.#closeMissed(params);
      return twiml(say(apology, language), hangUp);
    }
    const facts = await this.#factsOf(params);
    if (facts !== null) await this.#storeTransfer(params, facts, "lost");
    return this.#toHuman(params, "lost", language, say(apology, language));
  }

  /** Stores a transfer unless one is stored, for `/status`. Begins a call that no connection has begun. Returns false for a
   *  call that has ended. */
  async #storeTransfer(params: Params, facts: SessionFacts | null, reason: "lost" | "fallback"): Promise<boolean> {
    if (facts?.state === "closed") return false;
    if (facts === null || facts.transferring === null) {
      const call = callOf(params);
      const from = facts?.from ?? this.#missedCallOf(params).from;
      const session = { kind: "session", session: sessionId(call), from } as const;
      const opened = { ...session, id: externalId(`opened/${call}/${reason}`), state: "opened" } as const;
      const id = externalId(`${call}/transferring/${reason}`);
      const transferring = { ...session, id, state: "transferring", reason } as const;
      await this.#channel.accept(facts === null ? [opened, transferring] : [transferring]);
    }
    return true;
  }

  async #toHuman(params: Params, reason: string, language: string, ...before: readonly string[]): Promise<Response> {
    const { transfer } = this.#config;
    if (transfer === undefined) return this.#over(params, "ended", hangUp);
    const dialed = this.#address("/dialed", `?r=${reason}`);
    const verb = transferVerb(transfer, { call: callOf(params), reason, dialed, language });
    if (transfer.dial === undefined) return this.#over(params, "transferred", ...before, verb);
    return twiml(...before, verb);
  }

  #connect(params: Params, greeting: string, tries: number, ...before: readonly string[]): Response {
    const action = this.#address("/ended", `?n=${tries}`);
    const { language } = this.#config;
    return twiml(...before, this.#flow.connect({ call: callOf(params), action, greeting, language }));
  }

  async #over(params: Params, reason: string, ...verbs: readonly string[]): Promise<Response> {
    await this.#voice.closed(callOf(params), reason);
    return twiml(...verbs);
  }

  async #closeMissed(params: Params): Promise<void> {
    await this.#missed(params, "the agent could not be reached");
    await this.#voice.closed(callOf(params), "failed");
  }

  #missed(params: Params, why: string) {
    return this.#channel.accept([missedCall(this.#missedCallOf(params), why)]);
  }

  #missedCallOf(params: Params): MissedCall {
    const { person, ours } = partiesOf(params);
    const call = callOf(params);
    const [from, at] = [personOf(person, call), this.#channel.clock.now()];
    return { call, from, ours: ours ?? this.#config.number ?? null, at };
  }

  get #greeting(): string {
    const { language } = this.#config;
    return this.#voice.greeting(language) ?? phrasesFor(this.#config, language).greeting;
  }

  #factsOf(params: Params): Promise<SessionFacts | null> {
    return this.#channel.session(sessionId(callOf(params)));
  }

  #address(path: RoutePath, query = ""): string {
    return this.#channel.url(path).href + query;
  }
}

const callOf = ({ CallSid: call = "" }: Params): string => call;

/** Final statuses of an outbound call that was not answered. */
const vain = new Set(["busy", "no-answer", "failed", "canceled"]);
const over = new Set([...vain, "completed"]);

function stateOf(status: string): "accepted" | "delivered" {
  return status === "in-progress" || status === "answered" || status === "completed" ? "delivered" : "accepted";
}
