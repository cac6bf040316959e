// Calls without a websocket. Twilio's <Gather> plays a prompt, posts the recognized speech and receives TwiML as the
// response (twilio.com/docs/voice/twiml/gather). The state of a call is in the signed callback URLs: any process can handle
// the next request.

import { callRoutes } from "../call-routes.ts";
import type { VoiceConfig } from "../config.ts";
import { partiesOf, type VoiceChannel } from "../engine/record.ts";
import { type Params, signedParams } from "../proof.ts";
import { element, escapeXml, hangUp, say, transferVerb, twiml } from "../twiml.ts";
import {
  type CallEvent,
  type Capabilities,
  defineDialect,
  type RequestSide,
  type SpeechInstructions,
} from "./dialect.ts";

const path = "/gather";
const can: Capabilities = {
  greets: false,
  stops: false,
  reportsSilence: true,
  turnsEndSpeech: true,
  wholeTurns: true,
  transfer: "callback",
};

export const gather = defineDialect({
  name: "gather",
  carrier: "twilio",
  needs: ["auth_tokens"],
  can,
  create(voice) {
    const { channel, config } = voice;
    const routes = callRoutes(voice, {
      verify: (request, at) => signedParams(voice, config.auth_tokens ?? [], at, request),
      connect: ({ greeting }) =>
        redirect(addressOf(channel.url(path), { say: Buffer.from(greeting).toString("base64url") })),
    });
    return { requests: gatherRequests(voice), routes };
  },
});

/** Also the fallback of Twilio's other dialect. */
export function gatherRequests(voice: VoiceChannel): RequestSide {
  const { config } = voice;
  return {
    path,
    can,
    async read(request) {
      const params = await signedParams(voice, config.auth_tokens ?? [], path, request);
      if (params === null) return null;
      const next = Number(params.n ?? 0) || 0;
      const askedAt = params.t === undefined ? null : Number.parseInt(params.t, 36);
      return {
        call: params.CallSid ?? "",
        ...partiesOf(params),
        state: next === 0 ? null : { next, askedAt },
        greeting: params.say === undefined ? null : Buffer.from(params.say, "base64url").toString(),
        event: next === 0 || askedAt !== null ? null : eventIn(params, config),
      };
    },
    write: (instructions) => {
      const { language, voice: name } = config;
      const spoken = instructions.pieces.map((piece) => say(piece, language, name));
      return instructions.step === "listen"
        ? twiml(listen(voice, instructions, spoken))
        : twiml(...spoken, following(voice, instructions));
    },
  };
}

/** Returns the verb after speech that needs no answer. */
function following({ channel, config }: VoiceChannel, { call, step, data, state }: SpeechInstructions) {
  if (step === "end") return hangUp;
  if (step === "wait") {
    const t = (state.askedAt ?? channel.clock.now()).toString(36);
    return redirect(addressOf(channel.url(path), { n: state.next, t }));
  }
  // Only Dial reports its result. Other ways end the call for us, which `/ended` stores.
  if (config.transfer?.dial === undefined) return redirect(channel.url("/ended").href);
  const { reason } = JSON.parse(data ?? "{}") as { readonly reason: string };
  const dialed = `${channel.url("/dialed").href}?r=${reason}`;
  return transferVerb(config.transfer, { call, reason, dialed, language: config.language });
}

/** Digits come complete. They count when they are a message or the key for a human. */
function eventIn({ Digits: digits = "", SpeechResult: speech = "" }: Params, config: VoiceConfig): CallEvent {
  const { human, as_message: counts } = config.digits;
  if (digits !== "" && (digits === human || (counts && /\d/.test(digits))))
    return { kind: "digits", digits: `${digits}#` };
  return /[\p{L}\p{N}]/u.test(speech) ? { kind: "turn", text: speech, language: null } : { kind: "silence" };
}

function listen({ channel, config }: VoiceChannel, { state }: SpeechInstructions, spoken: readonly string[]): string {
  const { hints, language, silence } = config;
  const attributes = {
    input: "speech dtmf",
    action: addressOf(channel.url(path), { n: state.next }),
    method: "POST",
    language,
    speechTimeout: "auto",
    timeout: Math.max(1, Math.round(silence.after / 1000)),
    finishOnKey: "#",
    actionOnEmptyResult: true,
    hints: hints.length > 0 ? hints.join(", ") : null,
  };
  return element("Gather", attributes, spoken);
}

/** Values contain only letters, digits, `-` and `_`, so that no proxy or client encodes the URL differently. */
function addressOf(url: URL, query: Readonly<Record<string, string | number>>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${value}`);
  return `${url.href}?${pairs.join("&")}`;
}

const redirect = (url: string): string => element("Redirect", { method: "POST" }, [escapeXml(url)]);
