// Telnyx Conversation Relay (developers.telnyx.com/docs/voice/programmable-voice/conversation-relay), close to
// Twilio's. Calls start with TeXML, and webhooks are signed with Ed25519. The websocket handshake is unsigned, so its
// URL contains a token.

import { createPublicKey, type KeyObject, verify } from "node:crypto";
import * as z from "zod";
import { type ConnectCall, callRoutes } from "../call-routes.ts";
import type { VoiceConfig } from "../config.ts";
import type { VoiceChannel } from "../engine/record.ts";
import { callToken, type Params, readToken, socketUrl } from "../proof.ts";
import { primary } from "../speech/phrases.ts";
import { element } from "../twiml.ts";
import { defineDialect, type Translator } from "./dialect.ts";
import { relayTranslator } from "./twilio.ts";

/** Maximum age of a signed request, in milliseconds. */
const skewMs = 5 * 60_000;

const ed25519Key = z
  .string()
  .refine(
    (text) => keyBytes(text) !== null,
    "expected an Ed25519 public key: base64 of 32 bytes, as the Telnyx portal shows it",
  );

export const telnyx = defineDialect({
  name: "telnyx",
  block: z
    .strictObject({
      public_key: z
        .union([ed25519Key, z.array(ed25519Key).min(1)])
        .describe(
          "Which public key (base64, Ed25519) verifies webhook signatures? A list during a rotation: each key is accepted.",
        ),
      token_key: z
        .string()
        .min(1)
        .describe("From which secret are the tokens of calls derived? Choose a random one.")
        .meta({ secret: true }),
    })
    .describe("telnyx: how are requests of Telnyx authenticated?"),
  can: { greets: true, stops: false, reportsSilence: false, transfer: "callback" },
  create(voice, { public_key: publicKeys, token_key: secret }) {
    const { channel, config } = voice;
    const keys = [publicKeys].flat().map(publicKeyOf);
    const admitted = (request: Request) => {
      const { call, token } = passIn(request);
      return { call, ticket: readToken([secret], token, call, channel.clock.now()) };
    };
    return {
      socket: {
        paths: ["/relay/*"],
        authorize: async (request) =>
          admitted(request).ticket === null ? new Response(null, { status: 403 }) : null,
        connect: (request) => callTranslator(admitted(request)),
      },
      routes: callRoutes(voice, {
        verify: (request) => signedParams(voice, keys, request),
        connect: (call) => {
          const token = callToken(secret, call.call, channel.clock.now());
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
function callTranslator({
  call,
  ticket,
}: {
  readonly call: string;
  readonly ticket: string | null;
}): Translator {
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
          return [
            JSON.stringify({ type: "language", ttsLanguage: language, transcriptionLanguage: language }),
          ];
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
  return element("Connect", { action: call.action, method: "POST" }, [
    element("ConversationRelay", relay, languages),
  ]);
}

/** Returns the end of a session as a value of Twilio's `SessionStatus`. */
function statusOf({ SessionStatus, CallStatus, Reason, reason = Reason }: Params): string {
  if (SessionStatus !== undefined) return SessionStatus;
  if (CallStatus === "completed") return "completed";
  return /disconnect|error|fail|timeout/.test(reason ?? "") ? "failed" : "ended";
}

/** Verifies a Telnyx signature (`telnyx-signature-ed25519` over time, `|` and the raw body) and its age. Returns the
 *  parameters under Twilio's names; null when the request is rejected. */
async function signedParams(
  { channel }: VoiceChannel,
  keys: readonly KeyObject[],
  request: Request,
): Promise<Params | null> {
  const body = Buffer.from(await request.arrayBuffer());
  const time = request.headers.get("telnyx-timestamp") ?? "";
  const signature = Buffer.from(request.headers.get("telnyx-signature-ed25519") ?? "", "base64");
  const fresh = /^\d{1,12}$/.test(time) && Math.abs(channel.clock.now() - Number(time) * 1000) <= skewMs;
  if (!fresh || signature.length !== 64) return null;
  const signed = Buffer.concat([Buffer.from(`${time}|`), body]);
  if (!keys.some((key) => verify(null, signed, key, signature))) return null;
  const params: Params = {
    // Only the body is signed, so its parameters override those of the URL.
    ...Object.fromEntries(new URL(request.url).searchParams),
    ...Object.fromEntries(new URLSearchParams(body.toString())),
  };
  return request.url.includes("/ended") ? { ...params, SessionStatus: statusOf(params) } : params;
}

/** DER prefix of an Ed25519 public key (RFC 8410); the 32 bytes of the key follow it. */
const derPrefix = Buffer.from("302a300506032b6570032100", "hex");

/** Returns the key's 32 bytes from base64, raw or in DER form. Returns null for any other text. */
function keyBytes(text: string): Buffer | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 32) return bytes;
  const isDer = bytes.length === 44 && bytes.subarray(0, 12).equals(derPrefix);
  return isDer ? bytes.subarray(12) : null;
}

/** Throws an error for a text that is not an Ed25519 public key. */
function publicKeyOf(text: string): KeyObject {
  const bytes = keyBytes(text);
  if (bytes === null) throw new Error("reading an Ed25519 public key: it is not base64 of 32 bytes");
  return createPublicKey({ key: Buffer.concat([derPrefix, bytes]), format: "der", type: "spki" });
}
