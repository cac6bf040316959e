// HTTP routes for calls of providers that speak TwiML: call start, end and resume of the connection, dial result,
// voicemail. Every response is built from stored state, because another process may handle the next request.

import { externalId, type HttpRoute, type RoutePath, sendKey, sessionId } from "bridgehead/contract";
import type { VoiceChannel } from "./engine/record.ts";
import { missedCall, partiesOf, personOf, untaken, voicemail } from "./engine/record.ts";
import type { Params } from "./proof.ts";
import { wording } from "./speech/phrases.ts";
import {
  dialTargets,
  element,
  escapeXml,
  hangUp,
  languageInData,
  say,
  transferVerb,
  twiml,
} from "./twiml.ts";

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
/** Pause in seconds before the first retry after `unreachable`. Each further retry waits this much longer. */
const pauseSeconds = 3;

export function callRoutes(voice: VoiceChannel, flow: CallFlow): readonly HttpRoute[] {
  const { channel, config } = voice;
  const desk = callDesk(voice, flow);
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
  const apology = () => {
    const words = wording(config, config.language);
    const targets = config.transfer ? dialTargets(config.transfer) : [];
    const dial =
      targets.length > 0 ? [element("Dial", { callerId: config.transfer?.caller_id }, targets)] : [];
    return twiml(say(words.apology, config.language), ...dial, hangUp);
  };
  return [
    route("POST", "/call", desk.started),
    route("POST", "/ended", desk.ended),
    route("POST", "/dialed", desk.dialed),
    route("POST", "/voicemail", desk.voicemail),
    route("POST", "/status", (params) => callStatus(voice, params)),
    // The fallback response needs no database, no platform request and no agent.
    route("GET", "/fallback", apology),
    route("POST", "/fallback", apology),
  ];
}

type RouteHandler = (params: Params) => Promise<Response> | Response;
interface CallDesk {
  readonly started: RouteHandler;
  readonly ended: RouteHandler;
  readonly dialed: RouteHandler;
  readonly voicemail: RouteHandler;
}

function callDesk(voice: VoiceChannel, flow: CallFlow): CallDesk {
  const { channel, config } = voice;
  const callOf = (params: Params) => params.CallSid ?? "";
  const factsOf = (params: Params) => channel.session(sessionId(callOf(params)));
  const address = (path: RoutePath, query = "") => channel.url(path).href + query;
  const over = async (params: Params, reason: string, ...verbs: readonly string[]) => {
    await voice.closed(callOf(params), reason);
    return twiml(...verbs);
  };
  const connect = (
    params: Params,
    greeting: string,
    tries: number,
    language = config.language,
    ...before: readonly string[]
  ) => {
    const action = address("/ended", `?n=${tries}`);
    return twiml(...before, flow.connect({ call: callOf(params), action, greeting, language }));
  };
  const unserved = (params: Params) => {
    const { person, ours } = partiesOf(params);
    const call = callOf(params);
    return {
      call,
      from: personOf(person, call),
      ours: ours ?? config.number ?? null,
      at: channel.clock.now(),
    };
  };
  const missed = (params: Params, why: string) => channel.accept([missedCall(unserved(params), why)]);
  const first = (language: string) => voice.greeting(language) ?? wording(config, language).greeting;

  /** Responds when the agent cannot be reached any more. */
  const lastResort = async (params: Params) => {
    const { apology } = wording(config, config.language);
    const facts = await factsOf(params);
    if (config.transfer === undefined) {
      await missed(params, "the agent could not be reached");
      return over(params, "failed", say(apology, config.language), hangUp);
    }
    if (facts !== null && facts.transferring === null) {
      const id = externalId(`${callOf(params)}/transferring`);
      const session = { kind: "session", id, session: sessionId(callOf(params)), from: facts.from } as const;
      await channel.accept([{ ...session, state: "transferring", reason: "lost" }]);
    }
    return toHuman(params, "lost", config.language, say(apology, config.language));
  };
  const toHuman = async (params: Params, reason: string, language: string, ...before: readonly string[]) => {
    if (config.transfer === undefined) return over(params, "ended", hangUp);
    const dialed = address("/dialed", `?r=${reason}`);
    const verb = transferVerb(config.transfer, { call: callOf(params), reason, dialed, language });
    if (config.transfer.dial === undefined) return over(params, "transferred", ...before, verb);
    return twiml(...before, verb);
  };
  const resume = async (params: Params) => {
    const facts = await factsOf(params);
    const tries = Math.max(Number(params.n ?? 0) || 0, (facts?.openings ?? 1) - 1);
    const code = params.ErrorCode ?? "";
    channel.log.warn({ call: callOf(params), code, tries }, "call connection lost");
    // The last stored state decides, whether or not the frame that followed it was sent.
    if (facts?.state === "closed") return twiml(hangUp);
    if (facts && facts.transferring !== null && tries < config.resume.times)
      return toHuman(params, facts.transferring, config.language);
    if (code === unreachable && facts === null && config.fallback === "gather") {
      return twiml(element("Redirect", { method: "POST" }, [address("/gather")]));
    }
    if (ourFault.has(code) || tries >= config.resume.times) return lastResort(params);
    const words = wording(config, config.language);
    const greeting = facts === null ? first(config.language) : words.lostYou;
    if (code !== unreachable) return connect(params, greeting, tries + 1);
    // The process may be restarting. Immediate retries would all fail, so each retry is preceded by a pause.
    const moment = say(words.fillers[tries % words.fillers.length] ?? "", config.language);
    const pause = element("Pause", { length: pauseSeconds * (tries + 1) });
    return connect(params, greeting, tries + 1, config.language, moment, pause);
  };

  return {
    started(params: Params): Response {
      if (callOf(params) === "") return new Response(null, { status: 400 });
      const words = params.say === undefined ? null : Buffer.from(params.say, "base64url").toString();
      return connect(params, words ?? first(config.language), 0);
    },
    async ended(params: Params): Promise<Response> {
      const gone = params.SessionStatus === "completed" || params.CallStatus === "completed";
      if (gone) return over(params, "hung-up");
      if (params.SessionStatus === "failed") return resume(params);
      const facts = await factsOf(params);
      if (facts === null || facts.state === "closed" || facts.transferring === null) {
        return over(params, "ended", hangUp);
      }
      const language = languageInData(params.HandoffData) ?? config.language;
      return toHuman(params, facts.transferring, language);
    },
    async dialed(params: Params): Promise<Response> {
      const words = wording(config, config.language);
      const status = params.DialCallStatus ?? "";
      if (status === "completed" || status === "answered") return over(params, "transferred", hangUp);
      channel.log.warn({ call: callOf(params), status }, "call transfer not answered");
      const wish = config.transfer?.no_answer ?? "end";
      // When the agent connection was lost, `agent` is not possible. The call goes to voicemail.
      const next = wish === "agent" && params.r === "lost" ? "voicemail" : wish;
      const gone = params.CallStatus === "completed";
      if (gone || next !== "voicemail") await missed(params, untaken);
      if (gone) return over(params, "hung-up");
      if (next === "agent") return connect(params, words.apology, config.resume.times);
      if (next === "end") return over(params, "no-answer", say(words.apology, config.language), hangUp);
      const record = {
        action: address("/voicemail"),
        method: "POST",
        maxLength: Math.round((config.transfer?.voicemail_length ?? 0) / 1000),
        finishOnKey: "#",
        playBeep: true,
      };
      // When nothing was recorded, Twilio executes the verb that follows Record.
      const silent = element("Redirect", { method: "POST" }, [escapeXml(address("/voicemail"))]);
      return twiml(say(words.voicemail, config.language), element("Record", record), silent);
    },
    async voicemail(params: Params): Promise<Response> {
      const { RecordingSid: id = "", RecordingUrl: url, RecordingDuration: seconds = "?" } = params;
      if (url === undefined) {
        await missed(params, untaken);
        return over(params, "no-answer", hangUp);
      }
      await channel.accept([voicemail(unserved(params), { id, url, seconds })]);
      return over(params, "voicemail", hangUp);
    },
  };
}

// Handles status callbacks of a call (Twilio's StatusCallback of a call or a number), during and after the call.

/** Final statuses of an outbound call that was not answered. */
const vain = new Set(["busy", "no-answer", "failed", "canceled"]);
const over = new Set([...vain, "completed"]);

/** Reports delivery of an outbound call under its draft's key. The key binds the call even when the response to the
 *  create request was lost. A call that has ended is recorded as closed, independent of which callback or request
 *  reports the end first. */
async function callStatus(voice: VoiceChannel, params: Params): Promise<Response> {
  const { CallSid: call = "", CallStatus: status = "", key } = params;
  if (key !== undefined && /^[a-z0-9]+$/.test(key)) {
    const state = vain.has(status) ? "failed" : stateOf(status);
    const about = { key: sendKey(key), sent: [externalId(call)] };
    const id = externalId(`${call}/status/${status}`);
    await voice.channel.accept([{ kind: "delivery", id, about, state, detail: status }]);
  }
  if (over.has(status)) await voice.closed(call, status === "completed" ? "hung-up" : status);
  return new Response(null, { status: 204 });
}

function stateOf(status: string): "accepted" | "delivered" {
  return status === "in-progress" || status === "answered" || status === "completed"
    ? "delivered"
    : "accepted";
}
