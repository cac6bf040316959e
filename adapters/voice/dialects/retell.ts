// Retell's custom LLM (docs.retellai.com/api-references/llm-websocket). For each call Retell connects to our URL with
// the call id appended. It requests responses by number and accepts only responses to the newest number. Every request
// contains the whole transcript; the new text in it is the caller's utterance. A transfer removes the call from this
// adapter, so `transfer.no_answer` has no effect. An unanswered transfer reaches responders through Retell's webhook
// (`transfer_cancelled`; it needs `retell.api_key`). Without that webhook it is not reported.

import { createHmac, randomUUID } from "node:crypto";
import { type HttpRoute, sessionId } from "bridgehead/contract";
import * as z from "zod";
import type { VoiceChannel } from "../engine/record.ts";
import { missedCall, untaken } from "../engine/record.ts";
import { sameText } from "../proof.ts";
import {
  type CallEvent,
  type DialectCommand,
  type DialectReading,
  defineDialect,
  type SocketSide,
  type Translator,
} from "./dialect.ts";

/** Every frame contains the whole transcript with the timestamps of each word. */
const maxFrameBytes = 4 * 1024 * 1024;
/** Maximum clock difference of a webhook, in milliseconds. */
const skewMs = 5 * 60_000;
/** Number of calls in the cache that distinguishes a reconnection from a new call. */
const remembered = 10_000;

const secret = (question: string) => z.string().min(1).describe(question).meta({ secret: true });

export const retell = defineDialect({
  name: "retell",
  block: z
    .strictObject({
      secret: secret(
        "Which secret does the URL contain that Retell connects to? wss://<public_url>/channels/<id>/llm/<secret>",
      ),
      api_key: secret("Which API key verifies the signatures of its webhooks?").optional(),
    })
    .describe("retell: how are requests of Retell authenticated?"),
  can: { greets: false, stops: false, reportsSilence: true, turnsEndSpeech: true, transfer: "frame" },
  create(voice, { secret: expected, api_key: apiKey }) {
    const seen = new Set<string>();
    const firstTime = (call: string): boolean => {
      if (seen.has(call)) return false;
      seen.add(call);
      const [oldest] = seen;
      if (seen.size > remembered && oldest !== undefined) seen.delete(oldest);
      return true;
    };
    const socket: SocketSide = {
      paths: ["/llm/*/*", "/llm/*", "/llm"],
      maxFrameBytes,
      // Retell does not sign the websocket handshake. Its documentation recommends a secret in the URL.
      async authorize(request) {
        const given = addressedIn(request);
        if (!sameText(expected, given.secret)) return new Response("forbidden\n", { status: 403 });
        return given.call === null ? new Response("no call\n", { status: 400 }) : null;
      },
      connect: (request) => translator(addressedIn(request).call ?? "", firstTime),
    };
    return { socket, routes: apiKey === undefined ? [] : [callEnded(voice, apiKey)] };
  },
});

/** Returns secret and call id from the URL. Retell appends `/{call_id}` to the configured URL, after its query if it
 *  has one: `/llm/<secret>/<call>`, `/llm?secret=<secret>/<call>`. URL builders produce
 *  `/llm/<call>?secret=<secret>`. */
function addressedIn({ url }: Request): { readonly secret: string; readonly call: string | null } {
  const { pathname, searchParams } = new URL(url);
  const [, rest = ""] = /\/channels\/[^/]+\/llm\/?(.*)$/.exec(pathname) ?? [];
  const [first = "", second] = rest.split("/");
  const inQuery = searchParams.get("secret") ?? "";
  const slash = inQuery.lastIndexOf("/");
  const [secret, call] =
    second !== undefined
      ? [decoded(first), second]
      : first !== ""
        ? [inQuery, first]
        : [inQuery.slice(0, Math.max(0, slash)), inQuery.slice(slash + 1)];
  return { secret, call: /^[\w-]{1,128}$/.test(call) ? call : null };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return ""; // an invalid encoding never matches the secret
  }
}

type RetellFields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): RetellFields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RetellFields) : {};

function translator(call: string, firstTime: (call: string) => boolean): Translator {
  const ear = hearing();
  /** The id of the pending response request; null when the response was completed. The first one, 0, starts the
   *  call. */
  let open: number | null = 0;
  /** Number of the last message that responds to no request (`agent_interrupt`). */
  let interrupts = 0;
  let interrupting = false;
  /** True when something was sent in the newest response. */
  let begun = false;
  let started = false;

  const start = (details: RetellFields): CallEvent => {
    started = true;
    const said = details["transcript_object"];
    const resumed = !firstTime(call) || (Array.isArray(said) && said.length > 0);
    // Response 0 was already sent over the earlier connection.
    if (resumed) open = null;
    const { direction, from_number: from = null, to_number: to = null } = details;
    const [ours, person] = direction === "outbound" ? [from, to] : [to, from];
    const own = details["call_id"] === call;
    return {
      kind: "start",
      call,
      person: typeof person === "string" ? person : null,
      ours: typeof ours === "string" ? ours : null,
      language: null,
      ticket: own ? randomUUID() : null,
      resumed,
    };
  };
  const wanted = (frame: RetellFields): DialectReading => {
    const id = frame["response_id"];
    if (typeof id !== "number" || !Number.isInteger(id)) throw new Error("a response without number");
    open = id;
    interrupting = false;
    begun = false;
    const { events, words } = ear.asked(frame);
    if (words !== null && words !== "") {
      return { events: [...events, { kind: "turn", text: words, language: null }] };
    }
    if (frame["interaction_type"] === "reminder_required")
      return { events: [...events, { kind: "silence" }] };
    // The request repeats the same utterance. Retell dropped the response before playback, so it is sent again under
    // the new number.
    const again = words === null ? ear.unheard() : null;
    if (again !== null) return { events, answers: again.map(({ text, last }) => spoken(text, last)) };
    // Retell understood nothing. Without any response it would stay silent and wait for one.
    return words === null ? { events } : { events, answers: [spoken("", true)] };
  };
  const spoken = (content: string, last: boolean, more: RetellFields = {}): string => {
    const part = { content, content_complete: last, ...more };
    begun = true;
    if (open !== null) {
      const frame = { response_type: "response", response_id: open, ...part };
      if (last) open = null;
      return JSON.stringify(frame);
    }
    if (!interrupting) interrupts++;
    interrupting = !last;
    return JSON.stringify({ response_type: "agent_interrupt", interrupt_id: interrupts, ...part });
  };

  return {
    opening: [
      JSON.stringify({
        response_type: "config",
        config: { auto_reconnect: true, call_details: true, transcript_with_tool_calls: true },
      }),
    ],
    read(text): DialectReading {
      const frame = fieldsOf(JSON.parse(text));
      switch (frame["interaction_type"]) {
        case "ping_pong":
          return {
            events: [],
            answers: [JSON.stringify({ response_type: "ping_pong", timestamp: frame["timestamp"] })],
          };
        case "call_details":
          return { events: started ? [] : [start(fieldsOf(frame["call"]))] };
        case "update_only":
          return { events: started ? ear.updated(frame) : [] };
        case "response_required":
        case "reminder_required":
          return started ? wanted(frame) : { events: [] };
        default:
          return { events: [] };
      }
    },
    write(command: DialectCommand): readonly string[] {
      switch (command.kind) {
        case "say":
          // This closes a response that a newer request has cancelled.
          if (command.text === "" && !begun) return [];
          ear.said(command.text, command.last);
          return [spoken(command.text, command.last)];
        case "end":
          return [spoken("", true, { end_call: true })];
        case "transfer":
          // Retell transfers to numbers only. A call that cannot be transferred is ended instead of left open.
          return command.to?.startsWith("+")
            ? [spoken("", true, { transfer_number: command.to })]
            : [spoken("", true, { end_call: true })];
        default:
          return [];
      }
    },
  };
}

/** Handles Retell's webhook for call events. The header is signed with an API key: `v=<milliseconds>,d=<hex
 *  HMAC-SHA256 of body and time>`. */
function callEnded(voice: VoiceChannel, apiKey: string): HttpRoute {
  return {
    kind: "http",
    method: "POST",
    path: "/events",
    maxBodyBytes: maxFrameBytes,
    async handle(request) {
      const body = await request.text();
      const [, time = "", digest = ""] =
        /^v=(\d{1,16}),d=([0-9a-f]{64})$/.exec(request.headers.get("x-retell-signature") ?? "") ?? [];
      const right = createHmac("sha256", apiKey).update(`${body}${time}`).digest("hex");
      const fresh = time !== "" && Math.abs(voice.channel.clock.now() - Number(time)) <= skewMs;
      if (!fresh || !sameText(right, digest)) return new Response("forbidden\n", { status: 403 });
      const { event, call } = fieldsOf(parsed(body));
      const { call_id: id, disconnection_reason: reason } = fieldsOf(call);
      if (event === "transfer_cancelled" && typeof id === "string") await untakenCall(voice, id);
      if (event === "call_ended" && typeof id === "string") {
        const known = typeof reason === "string" && /^\w{1,40}$/.test(reason) ? reason : "";
        await voice.closed(
          id,
          known === "" || known === "user_hangup" ? "hung-up" : known.replaceAll("_", "-"),
        );
      }
      return new Response(null, { status: 204 });
    },
  };
}

/** Reports an unanswered transfer, once for each call: Retell retries a webhook without a response. */
async function untakenCall({ channel, config }: VoiceChannel, call: string): Promise<void> {
  const facts = await channel.session(sessionId(call));
  if (facts === null || facts.transferring === null) return;
  const [at, ours] = [channel.clock.now(), config.number ?? null];
  await channel.accept([missedCall({ call, from: facts.from, ours, at }, untaken)]);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Finds the new text in Retell's transcript, which every frame repeats in full, and detects barge-in.

interface Utterance {
  readonly role: string;
  readonly content: string;
}

/** One piece of our speech, as sent. */
interface SpeechPiece {
  readonly text: string;
  readonly last: boolean;
}

export interface Hearing {
  /** Handles an update frame: the caller speaks or pressed keys. */
  updated(frame: RetellFields): readonly CallEvent[];
  /** Handles a response request. `words`: the caller's new text since the last request; "" for noise; null for no
   *  new text. */
  asked(frame: RetellFields): { readonly events: readonly CallEvent[]; readonly words: string | null };
  /** Records a piece of our speech. */
  said(text: string, last: boolean): void;
  /** Returns our speech since the caller's last utterance when none of it was played; else null. */
  unheard(): readonly SpeechPiece[] | null;
}

/** Retell's placeholders for noise. */
const noise = /\(unintelligible audio\)|\(inaudible speech\)/gi;

function hearing(): Hearing {
  /** The caller's utterance that was returned last: its index in the transcript, and its text then. */
  let taken = { at: -1, words: "" };
  let pieces: SpeechPiece[] = [];
  let heard = "";
  /** The part of the caller's last utterance that was already reported as partial text. */
  let growing = "";
  let keys = 0;

  const pressed = (frame: RetellFields): readonly CallEvent[] => {
    const all = listOf(frame["transcript_with_tool_calls"]).filter((one) => one["role"] === "dtmf");
    const digits = all
      .slice(keys)
      .map(({ digit, content }) =>
        typeof digit === "string" ? digit : typeof content === "string" ? content : "",
      )
      .join("")
      .replace(/[^0-9*#]/g, "");
    keys = Math.max(keys, all.length);
    return digits === "" ? [] : [{ kind: "digits", digits }];
  };
  /** Returns an interruption event when the caller spoke before our speech finished. */
  const cut = (all: readonly Utterance[], from: number): readonly CallEvent[] => {
    const ours = pieces.map(({ text }) => text).join("");
    heard = all
      .slice(taken.at + 1, from)
      .filter(({ role }) => role === "agent")
      .map(({ content }) => content)
      .join(" ");
    // The transcript contains our text as spoken: figures and punctuation may differ slightly.
    if (ours === "" || plain(heard).length >= plain(ours).length * 0.9) return [];
    return [{ kind: "interrupted", heard }];
  };
  return {
    updated(frame) {
      const all = utterances(frame);
      const from = trailing(all);
      const words = wordsOf(all.slice(from));
      if (from === all.length || words === "" || words === growing) return pressed(frame);
      growing = words;
      return [...pressed(frame), { kind: "partial", text: words }];
    },
    asked(frame) {
      const all = utterances(frame);
      const from = trailing(all);
      const keysPressed = pressed(frame);
      if (from === all.length) return { events: keysPressed, words: null };
      const words = wordsOf(all.slice(from));
      const before = taken;
      // The caller continued the same utterance. Its earlier part was already returned.
      const goesOn = from === before.at && before.words !== "" && words.startsWith(before.words);
      const fresh = (goesOn ? words.slice(before.words.length) : words).trim();
      if (from === before.at && !/[\p{L}\p{N}]/u.test(fresh)) {
        heard = "";
        return { events: keysPressed, words: null };
      }
      const events = [...keysPressed, ...cut(all, from)];
      taken = { at: from, words };
      pieces = [];
      growing = words;
      return { events, words: fresh };
    },
    said(text, last) {
      pieces.push({ text, last });
    },
    unheard: () => (pieces.length > 0 && heard === "" ? pieces : null),
  };
}

/** Returns the index of the caller's last utterances: after the last one of the agent. */
function trailing(all: readonly Utterance[]): number {
  return all.findLastIndex(({ role }) => role === "agent") + 1;
}

const wordsOf = (all: readonly Utterance[]): string =>
  all
    .map(({ content }) => content.replace(noise, " "))
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();

const plain = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/** Returns the transcript entries of the agent and the caller, without others such as tool calls. */
function utterances(frame: RetellFields): readonly Utterance[] {
  return listOf(frame["transcript"]).flatMap(({ role, content }) =>
    (role === "agent" || role === "user") && typeof content === "string" ? [{ role, content }] : [],
  );
}

const listOf = (value: unknown): readonly RetellFields[] =>
  Array.isArray(value)
    ? value.filter((one): one is RetellFields => typeof one === "object" && one !== null)
    : [];
