// Telnyx Conversation Relay (developers.telnyx.com/docs/voice/programmable-voice/conversation-relay), close to
// Twilio's. Calls start with TeXML, and webhooks are signed with Ed25519. The websocket handshake is unsigned, so its
// URL contains a token.

import type { KeyObject } from "node:crypto";
import { ed25519Key, formOf, isTelnyxSigned } from "bridgehead/contract";
import * as z from "zod";
import { type ConnectCall, callRoutes } from "../call-routes.ts";
import { secret, type VoiceConfig } from "../config.ts";
import type { VoiceChannel } from "../engine/record.ts";
import { callToken, firstOf, type Params, readToken, socketUrl } from "../proof.ts";
import { primary } from "../speech/phrases.ts";
import { element } from "../twiml.ts";
import { defineDialect, type Translator } from "./dialect.ts";
import { relayTranslator } from "./twilio.ts";

const publicKey = z
  .string()
  .refine(
    (text) => ed25519Key(text) !== null,
    "expected an Ed25519 public key: base64 of 32 bytes, as the Telnyx portal shows it",
  );

export const telnyx = defineDialect({
  name: "telnyx",
  block: z
    .strictObject({
      public_key: z
        .union([publicKey, z.array(publicKey).min(1)])
        .describe(
          "Which public key (base64, Ed25519) verifies webhook signatures? A list during a rotation: each key is accepted.",
        ),
      token_key: secret("From which secret are the tokens of calls derived? Choose a random one."),
    })
    .describe("telnyx: how are requests of Telnyx authenticated?"),
  can: { greets: true, stops: false, reportsSilence: false, transfer: "callback" },
  create(voice, { public_key: publicKeys, token_key: tokenKey }) {
    const { channel, config, timing } = voice;
    const keys = [publicKeys].flat().flatMap((key) => ed25519Key(key) ?? []);
    const admitted = (request: Request) => {
      const { call, token } = passIn(request);
      return { call, ticket: readToken([tokenKey], token, call, channel.clock.now()) };
    };
    return {
      socket: {
        paths: ["/relay/*"],
        authorize: async (request) => (admitted(request).ticket === null ? new Response(null, { status: 403 }) : null),
        connect: (request) => callTranslator(admitted(request)),
      },
      routes: callRoutes(voice, {
        verify: (request) => signedParams(voice, keys, request),
        connect: (call) => {
          const token = callToken(tokenKey, call.call, channel.clock.now() + timing.token);
          const pass = `${Buffer.from(call.call).toString("base64url")}~${token}`;
          return connectVerb(config, { ...call, url: socketUrl(channel.url(`/relay/${pass}`)) });
        },
      }),
    };
  },
});

/** Returns call id and token from the last path segment of the URL. */
function passIn({ url }: Request): { readonly call: string; readonly token: string } {
  const [call = "", token = ""] = (new URL(url).pathname.split("/").at(-1) ?? "").split("~");
  return { call: Buffer.from(call, "base64url").toString(), token };
}

/** Telnyx has several ids for a call. This adapter uses the id from its webhooks. */
function callTranslator({ call, ticket }: { readonly call: string; readonly ticket: string | null }): Translator {
  const translator = relayTranslator(() => ticket);
  return {
    read(frame) {
      const { events, ...rest } = translator.read(frame);
      return {
        ...rest,
        events: events.map((one) => (one.kind === "start" ? { ...one, call, ticket } : one)),
      };
    },
    write(command) {
      switch (command.kind) {
        case "say": {
          const { language } = command;
          return translator.write({ ...command, language: language === null ? null : primary(language) });
        }
        case "language": {
          const language = primary(command.language);
          return [JSON.stringify({ type: "language", ttsLanguage: language, transcriptionLanguage: language })];
        }
        // The `end` message of Telnyx has no data field. The callback reads the transfer reason from stored state.
        case "transfer":
          return translator.write({ kind: "end" });
        default:
          return translator.write(command);
      }
    },
  };
}

function connectVerb(config: VoiceConfig, call: ConnectCall & { readonly url: string }): string {
  const relay = {
    url: call.url,
    welcomeGreeting: call.greeting,
    welcomeGreetingInterruptible: config.interruptible,
    voice: config.voice,
    language: primary(call.language),
    transcriptionProvider: config.transcription_provider,
    interruptible: config.interruptible,
    dtmfDetection: true,
  };
  const languages = config.languages.map((one) =>
    element("Language", {
      code: primary(one.code),
      ttsProvider: one.tts_provider ?? config.tts_provider,
      voice: one.voice,
      transcriptionProvider: one.transcription_provider ?? config.transcription_provider,
      speechModel: one.speech_model ?? config.speech_model,
    }),
  );
  return element("Connect", { action: call.action, method: "POST" }, [element("ConversationRelay", relay, languages)]);
}

/** Returns the end of a session as a value of Twilio's `SessionStatus`; undefined when Telnyx gives no reason for it. */
function statusOf({ SessionStatus, CallStatus, Reason, reason = Reason }: Params): string | undefined {
  if (SessionStatus !== undefined) return SessionStatus;
  if (CallStatus === "completed") return "completed";
  if (reason === undefined) return undefined;
  return /disconnect|error|fail|timeout/.test(reason) ? "failed" : "ended";
}

/** Returns the parameters of a signed request under Twilio's names; null when the request is rejected. */
async function signedParams(
  { channel, timing }: VoiceChannel,
  keys: readonly KeyObject[],
  request: Request,
): Promise<Params | null> {
  const body = Buffer.from(await request.arrayBuffer());
  if (!isTelnyxSigned(request, body, keys, channel.clock.now(), timing.webhookSkew)) return null;
  const params: Params = {
    // Only the body is signed, so its parameters override those of the URL.
    ...firstOf(formOf(new URL(request.url).search)),
    ...firstOf(formOf(body.toString())),
  };
  return request.url.includes("/ended") ? { ...params, SessionStatus: statusOf(params) } : params;
}
