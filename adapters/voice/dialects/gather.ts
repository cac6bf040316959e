// Calls without a websocket. Twilio's <Gather> plays a prompt, posts the recognized speech and receives TwiML as the
// response (twilio.com/docs/voice/twiml/gather). While the agent prepares a reply, the request is held open until the
// next filler is due. The state of a call is in the signed callback URLs: any process can handle the next request.

import {
  type Attempt,
  type ExternalId,
  externalId,
  type HttpRoute,
  type SendOutcome,
  type SessionEvent,
  sessionId,
} from "bridgehead/contract";
import { callRoutes } from "../call-routes.ts";
import type { Speech } from "../draft.ts";
import { type Dialogue, dialogue } from "../engine/dialogue.ts";
import { notesOf } from "../engine/record.ts";
import { sentencesOf } from "../engine/script.ts";
import { missedCall } from "../for-humans.ts";
import { canHandOver, handOverVerb } from "../handoff.ts";
import { partiesOf, personOf } from "../parties.ts";
import { type Params, signedParams } from "../signature.ts";
import { element, escapeXml, hangUp, say, twiml } from "../twiml.ts";
import { wording } from "../wording.ts";
import type { DialectMaker, Ear, Front } from "./dialect.ts";

/** The state of one active call in this process. */
interface Asked {
  newest: ExternalId | null;
  /** Delivers a reply to the pending request. */
  answer: ((said: Pick<Speech, "text" | "handOver">) => void) | null;
  idle: AbortController;
  readonly talk: Dialogue;
  /** The sentences of the last response, and when their playback began (clock milliseconds). */
  speech: { readonly pieces: readonly string[]; readonly at: number };
}

/** Maximum time in milliseconds to hold a request. Twilio's timeout for a request is 15 s. */
const longestHold = 9000;
/** Message numbers start at a multiple of this for each opening of a call. The numbers of two openings never
 *  collide. */
const perOpening = 1000;
/** A call without any request for this time (milliseconds) is closed, even when its end was never reported. */
const idleMs = 180_000;
const longest = 2048;
/** Time in milliseconds between the caller's last word and the end of recognition. */
const recognitionMs = 1500;

export const gather: DialectMaker = (front) => {
  const desk = gatherDesk(front);
  const flow = {
    verify: desk.verify,
    connect: ({ greeting }: { readonly greeting: string }) =>
      element("Redirect", { method: "POST" }, [
        escapeXml(desk.address({ say: Buffer.from(greeting).toString("base64url") })),
      ]),
  };
  return {
    name: "gather",
    can: { greets: true, stops: false, reportsPlayback: false, reportsSilence: false, transfer: "callback" },
    socket: null,
    routes: [...callRoutes(front, flow), desk.route],
    ear: desk.ear,
    close: desk.close,
  };
};

interface GatherDesk {
  readonly route: HttpRoute;
  readonly ear: Ear;
  readonly close: () => void;
  readonly verify: (request: Request, path: HttpRoute["path"]) => Promise<Params | null>;
  /** Returns the URL of the next request of the call. */
  readonly address: (query: Readonly<Record<string, string | number>>) => string;
}

/** The part that other dialects use as their fallback. */
export function gatherDesk(front: Front): GatherDesk {
  const { channel, config } = front;
  const { clock } = channel;
  const { language } = config;
  const asked = new Map<string, Asked>();
  const words = wording(config, language);
  const verify = (request: Request, path: HttpRoute["path"]) =>
    signedParams(front, config.auth_tokens ?? [], path, request);
  /** Values contain only letters, digits, `-` and `_`, so that no proxy or client encodes the URL differently. */
  const address = (query: Readonly<Record<string, string | number>>) =>
    `${channel.url("/gather").href}?${Object.entries(query)
      .map(([name, value]) => `${name}=${value}`)
      .join("&")}`;

  const known = async (call: string): Promise<Asked> => {
    const found = asked.get(call) ?? {
      newest: null,
      answer: null,
      idle: new AbortController(),
      talk: dialogue(),
      speech: { pieces: [], at: 0 },
    };
    if (!asked.has(call)) {
      found.newest = (await channel.session(sessionId(call)))?.pending ?? null;
      asked.set(call, found);
    }
    found.idle.abort("over");
    found.idle = new AbortController();
    expire(call, found.idle.signal).catch((error: unknown) =>
      channel.log.error({ call, err: error }, "a call of which nothing is heard could not be ended"),
    );
    return found;
  };
  const expire = async (call: string, signal: AbortSignal) => {
    await clock.sleep(idleMs, signal);
    if (signal.aborted) return;
    asked.delete(call);
    await front.closed(call, "no-sign");
  };
  const forget = (call: string) => {
    asked.get(call)?.idle.abort("over");
    asked.delete(call);
  };
  const end = async (call: string, reason: string, ...verbs: readonly string[]) => {
    forget(call);
    await front.closed(call, reason);
    return twiml(...verbs);
  };
  /** Speaks the pieces and waits for input. `next` counts messages, `quiet` counts requests without input. */
  const listen = (pieces: readonly string[], next: number, quiet = 0) =>
    twiml(
      element(
        "Gather",
        {
          input: "speech dtmf",
          action: address({ n: next, q: quiet }),
          method: "POST",
          language,
          speechTimeout: "auto",
          timeout: Math.max(1, Math.round(config.silence.after / 1000)),
          finishOnKey: "#",
          actionOnEmptyResult: true,
          hints: config.hints.length > 0 ? config.hints.join(", ") : null,
        },
        pieces.map((piece) => say(piece, language, config.voice)),
      ),
    );
  const toHuman = async (params: Params, reason: string, from: SessionEvent["from"], ...before: string[]) => {
    const { CallSid: call = "", n = "" } = params;
    if (config.hand_over === undefined) return end(call, reason, ...before, hangUp);
    const session = sessionId(call);
    const id = externalId(`${call}/gather/handing-over/${n}`);
    await channel.accept([{ kind: "session", id, session, state: "handing-over", from, reason }]);
    const dialed = `${channel.url("/dialed").href}?r=${reason}`;
    const verb = handOverVerb(config.hand_over, { call, reason, dialed, language });
    if (config.hand_over.dial === undefined) return end(call, "handed-over", ...before, verb);
    forget(call); // no requests arrive during the transfer
    return twiml(...before, verb);
  };

  /** Holds the request until the reply arrives or a filler is due. `since` is the time of the question in
   *  milliseconds. */
  async function wait(params: Params, count: number, filler: number, since: number): Promise<Response> {
    const { CallSid: call = "" } = params;
    const state = await known(call);
    const { first, second, every } = config.fillers;
    const due = filler === 0 ? first : second + (filler - 1) * every;
    since = Math.min(since, clock.now()); // the clock may step backward
    const passed = clock.now() - since;
    const limit = Math.min(due, config.give_up.after);
    const held = new AbortController();
    const answer = Promise.withResolvers<Pick<Speech, "text" | "handOver"> | null>();
    const hear: NonNullable<Asked["answer"]> = (said) => answer.resolve(said);
    state.answer = hear;
    void clock
      .sleep(Math.max(0, Math.min(limit - passed, longestHold)), held.signal)
      .then(() => answer.resolve(null));
    const heard = await answer.promise;
    held.abort("over");
    // The provider may have sent another request during the wait.
    if (state.answer === hear) state.answer = null;
    if (heard !== null) return reply(params, count, heard);
    if (clock.now() - since >= config.give_up.after) return giveUp(params);
    const early = clock.now() - since < due;
    const again = address({ n: count, f: early ? filler : filler + 1, t: since.toString(36) });
    const said = early
      ? []
      : [say(words.fillers[filler % words.fillers.length] ?? "", language, config.voice)];
    return twiml(...said, element("Redirect", { method: "POST" }, [escapeXml(again)]));
  }
  async function reply(
    params: Params,
    count: number,
    { text, handOver: escalates }: Pick<Speech, "text" | "handOver">,
  ): Promise<Response> {
    const { CallSid: call = "" } = params;
    const state = await known(call);
    const handOver = escalates === true && config.hand_over !== undefined;
    const pieces = state.talk.answers({
      sentences: sentencesOf(text, language, words),
      most: config.max_sentences,
      offer: handOver ? null : words.restOffered,
    });
    const spoken = () => pieces.map((piece) => say(piece, language, config.voice));
    if (handOver) return toHuman(params, "escalated", personOf(partiesOf(params).person, call), ...spoken());
    if (state.talk.over) return end(call, "goodbye", ...spoken(), hangUp);
    return says(state, pieces, count + 1);
  }
  /** Speaks the pieces and waits for input. Stores them, because the provider does not report what was played. */
  function says(state: Asked, pieces: readonly string[], next: number): Response {
    state.speech = { pieces, at: clock.now() };
    return listen(pieces, next);
  }
  /** Handles barge-in: a caller who speaks during playback interrupts it. The part that was played until then is
   *  estimated. */
  function noteInterruption({ talk, speech }: Asked, text: string): void {
    const lettersIn = (ms: number) => (ms * config.speaking_rate) / 1000;
    const spokenFor = clock.now() - speech.at - recognitionMs;
    let letters = lettersIn(spokenFor) - text.length;
    if (letters >= speech.pieces.join("").length) return;
    const heard: string[] = [];
    for (const piece of speech.pieces) if ((letters -= piece.length) >= 0) heard.push(piece);
    talk.interrupted(heard.join(" "));
  }
  async function giveUp(params: Params): Promise<Response> {
    const { CallSid: call = "" } = params;
    const apology = say(words.apology, language, config.voice);
    const { person, ours } = partiesOf(params);
    const from = personOf(person, call);
    if (config.give_up.to === "human" && config.hand_over) return toHuman(params, "no-answer", from, apology);
    await channel.accept([missedCall({ call, from, ours, at: clock.now() }, "the agent did not answer")]);
    return end(call, "no-answer", apology, hangUp);
  }

  async function heard(params: Params, count: number): Promise<Response> {
    const { CallSid: call = "", Digits: digits = "", SpeechResult: speech = "" } = params;
    const { person, ours } = partiesOf(params);
    const from = personOf(person, call);
    const state = await known(call);
    if (digits === config.digits.human && digits !== "" && canHandOver(config, { transfer: "callback" })) {
      return toHuman(params, "asked", from, say(words.handOver, language, config.voice));
    }
    const keyed = digits !== "" && config.digits.as_message;
    const text = (keyed ? digits : speech).trim().slice(0, longest);
    if (!/[\p{L}\p{N}]/u.test(text)) return nothing(params, count);
    const { talk } = state;
    if (!keyed) {
      noteInterruption(state, text);
      const quiet = { speaking: false, lastSentence: false, pending: false };
      if (talk.ignores(text, quiet)) return says(state, [], count);
    }
    const reaction = keyed ? ({ kind: "ask", heard: talk.asks() } as const) : talk.hears(text);
    if (reaction.kind === "leave") return end(call, "goodbye", hangUp);
    if (reaction.kind === "speak") return says(state, reaction.pieces, count);
    const notes = notesOf(reaction.heard, keyed);
    const id = externalId(`${call}/gather/${count}`);
    state.newest = id;
    const since = clock.now();
    await channel.accept([
      {
        kind: "message",
        id,
        from,
        to: ours === null ? [] : [{ address: ours }],
        thread: { session: sessionId(call) },
        sentAt: new Date(since),
        text,
        ...(Object.keys(notes).length > 0 ? { notes } : {}),
      },
    ]);
    // An agent that receives no messages now (it is inactive, or its key is rejected) is not waited for.
    return channel.agent()?.active === false ? giveUp(params) : wait(params, count, 0, since);
  }
  async function nothing(params: Params, count: number): Promise<Response> {
    const quiet = Number(params.q ?? 0) || 0;
    const { CallSid: call = "" } = params;
    const { talk } = await known(call);
    if (talk.closing) return end(call, "goodbye", hangUp);
    talk.asksPresence();
    if (quiet >= config.silence.asks) {
      return end(call, "silent", say(words.goodbye, language, config.voice), hangUp);
    }
    return listen([words.stillThere[quiet % 2] ?? ""], count, quiet + 1);
  }
  async function begin(params: Params): Promise<Response> {
    const { CallSid: call = "" } = params;
    const session = sessionId(call);
    const from = personOf(partiesOf(params).person, call);
    const before = (await channel.session(session))?.openings ?? 0;
    const id = externalId(before === 0 ? `opened/${call}/gather` : `opened/${call}/gather/${before}`);
    await channel.accept([{ kind: "session", id, session, state: "opened", from }]);
    const state = await known(call);
    if (channel.agent()?.active === false) return giveUp(params);
    const given = params.say === undefined ? null : Buffer.from(params.say, "base64url").toString();
    const greeting = given ?? front.greeting(language) ?? words.greeting;
    state.talk.says([greeting]);
    return says(state, [greeting], before * perOpening + 1);
  }

  const route: HttpRoute = {
    kind: "http",
    method: "POST",
    path: "/gather",
    async handle(request) {
      const params = await verify(request, "/gather");
      if (params === null) return new Response(null, { status: 403 });
      const count = Number(params.n ?? 0) || 0;
      if (count === 0) return begin(params);
      const facts = await channel.session(sessionId(params.CallSid ?? ""));
      const long = facts !== null && clock.now() - facts.openedAt.getTime() > config.max_call;
      if (long)
        return end(params.CallSid ?? "", "too-long", say(words.goodbye, language, config.voice), hangUp);
      if (params.t === undefined) return heard(params, count);
      // The reply was part of a response that was not delivered and never will be: another process held that request.
      const lost = facts?.pending === null && !asked.has(params.CallSid ?? "");
      if (lost) return listen([words.lostYou], count + 1);
      return wait(params, count, Number(params.f ?? 0) || 0, Number.parseInt(params.t, 36));
    },
  };

  return {
    verify,
    address,
    route,
    ear(call: string) {
      const state = asked.get(call);
      if (state === undefined) return undefined;
      return {
        answer: async (draft: Speech, attempt: Attempt): Promise<SendOutcome> => {
          const obstacle = (): SendOutcome | null => {
            if (state.newest !== null && draft.answers !== null && draft.answers !== state.newest)
              return { kind: "refused", code: "superseded", reason: "the caller has said something newer" };
            if (state.answer !== null) return null;
            return { kind: "deferred", reason: "no request is waiting for it", retryAfterMs: 250 };
          };
          const before = obstacle();
          if (before !== null) return before;
          await attempt.crossing();
          // The request may have ended while the attempt was recorded. Nothing was spoken.
          const since = obstacle();
          if (since !== null) return since;
          state.answer?.(draft);
          state.answer = null;
          return { kind: "sent", id: externalId(`${call}/spoken/${attempt.key}`) };
        },
      };
    },
    close() {
      for (const state of asked.values()) state.idle.abort("over");
      asked.clear();
    },
  };
}
