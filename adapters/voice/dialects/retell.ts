// Retell's custom LLM (docs.retellai.com/api-references/llm-websocket). For each call Retell connects to our URL with
// the call id appended. It requests responses by number and accepts only responses to the newest number. Every request
// contains the whole transcript; the new text in it is the caller's utterance. A transfer removes the call from this
// adapter, so `transfer.no_answer` has no effect. An unanswered transfer reaches responders through Retell's webhook
// (`transfer_cancelled`; it needs `retell.api_key`). Without that webhook it is not reported.

import { createHmac, randomUUID } from "node:crypto";
import { type HttpRoute, parsedJson, sameText, sessionId } from "bridgehead/contract";
import * as z from "zod";
import { secret } from "../config.ts";
import type { VoiceChannel } from "../engine/record.ts";
import { missedCall, transferUnanswered } from "../engine/record.ts";
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
/** Number of calls in the cache that distinguishes a reconnection from a new call. */
const remembered = 10_000;

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
      connect: (request) => new RetellTranslator(addressedIn(request).call ?? "", firstTime),
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

class RetellTranslator implements Translator {
  readonly opening = [
    JSON.stringify({
      response_type: "config",
      config: { auto_reconnect: true, call_details: true, transcript_with_tool_calls: true },
    }),
  ];
  readonly #call: string;
  readonly #firstTime: (call: string) => boolean;
  readonly #transcript = new RetellTranscript();
  /** The id of the pending response request; null when the response was completed. The first one, 0, starts the
   *  call. */
  #open: number | null = 0;
  /** Number of the last message that responds to no request (`agent_interrupt`). */
  #interrupts = 0;
  #interrupting = false;
  /** True when something was sent in the newest response. */
  #begun = false;
  #started = false;

  constructor(call: string, firstTime: (call: string) => boolean) {
    this.#call = call;
    this.#firstTime = firstTime;
  }

  read(text: string): DialectReading {
    const frame = fieldsOf(JSON.parse(text));
    const { interaction_type: type, timestamp } = frame;
    if (type === "ping_pong") return { events: [], answers: [JSON.stringify({ response_type: type, timestamp })] };
    if (type === "call_details") return { events: this.#started ? [] : [this.#start(fieldsOf(frame["call"]))] };
    if (!this.#started) return { events: [] };
    if (type === "update_only") return { events: this.#transcript.updated(frame) };
    return type === "response_required" || type === "reminder_required" ? this.#wanted(frame) : { events: [] };
  }

  write(command: DialectCommand): readonly string[] {
    switch (command.kind) {
      case "say":
        // This closes a response that a newer request has cancelled.
        if (command.text === "" && !this.#begun) return [];
        this.#transcript.recordSpeech(command.text, command.last);
        return [this.#spoken(command.text, command.last)];
      case "transfer":
        // Retell transfers to numbers only. A call that cannot be transferred is ended instead of left open.
        if (command.to?.startsWith("+")) return [this.#spoken("", true, { transfer_number: command.to })];
        return [this.#spoken("", true, { end_call: true })];
      case "end":
        return [this.#spoken("", true, { end_call: true })];
      default:
        return [];
    }
  }

  #start(details: RetellFields): CallEvent {
    this.#started = true;
    const said = details["transcript_object"];
    const resumed = !this.#firstTime(this.#call) || (Array.isArray(said) && said.length > 0);
    // Response 0 was already sent over the earlier connection.
    if (resumed) this.#open = null;
    const { direction, from_number: from = null, to_number: to = null } = details;
    const [ours, person] = direction === "outbound" ? [from, to] : [to, from];
    return {
      kind: "start",
      call: this.#call,
      person: typeof person === "string" ? person : null,
      ours: typeof ours === "string" ? ours : null,
      language: null,
      ticket: details["call_id"] === this.#call ? randomUUID() : null,
      resumed,
    };
  }

  /** Handles a request for a response. */
  #wanted(frame: RetellFields): DialectReading {
    const id = frame["response_id"];
    if (typeof id !== "number" || !Number.isInteger(id)) throw new Error("a response without number");
    this.#open = id;
    this.#interrupting = false;
    this.#begun = false;
    const { events, words } = this.#transcript.asked(frame);
    if (words !== null && words !== "") return { events: [...events, { kind: "turn", text: words, language: null }] };
    if (frame["interaction_type"] === "reminder_required") return { events: [...events, { kind: "silence" }] };
    // The request repeats the same utterance. Retell dropped the response before playback, so it is sent again under
    // the new number.
    const again = words === null ? this.#transcript.unplayed() : null;
    if (again !== null) return { events, answers: again.map(({ text, last }) => this.#spoken(text, last)) };
    // Retell understood nothing. Without any response it would stay silent and wait for one.
    return words === null ? { events } : { events, answers: [this.#spoken("", true)] };
  }

  #spoken(content: string, last: boolean, more: RetellFields = {}): string {
    const part = { content, content_complete: last, ...more };
    this.#begun = true;
    if (this.#open !== null) {
      const frame = { response_type: "response", response_id: this.#open, ...part };
      if (last) this.#open = null;
      return JSON.stringify(frame);
    }
    if (!this.#interrupting) this.#interrupts++;
    this.#interrupting = !last;
    return JSON.stringify({ response_type: "agent_interrupt", interrupt_id: this.#interrupts, ...part });
  }
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
      const { channel, timing } = voice;
      const body = await request.text();
      const [, time = "", digest = ""] =
        /^v=(\d{1,16}),d=([0-9a-f]{64})$/.exec(request.headers.get("x-retell-signature") ?? "") ?? [];
      const right = createHmac("sha256", apiKey).update(`${body}${time}`).digest("hex");
      const fresh = time !== "" && Math.abs(channel.clock.now() - Number(time)) <= timing.webhookSkew;
      if (!fresh || !sameText(right, digest)) {
        channel.log.warn({ path: "/events" }, "request rejected: unauthorized, invalid signature");
        return new Response("forbidden\n", { status: 403 });
      }
      const { event, call } = fieldsOf(parsedJson(body));
      const { call_id: id, disconnection_reason: reason } = fieldsOf(call);
      if (event === "transfer_cancelled" && typeof id === "string") await reportUnansweredTransfer(voice, id);
      if (event === "call_ended" && typeof id === "string") {
        const known = typeof reason === "string" && /^\w{1,40}$/.test(reason) ? reason : "";
        await voice.closed(id, known === "" || known === "user_hangup" ? "hung-up" : known.replaceAll("_", "-"));
      }
      return new Response(null, { status: 204 });
    },
  };
}

/** Reports an unanswered transfer, once for each call: Retell retries a webhook without a response. */
async function reportUnansweredTransfer({ channel, config }: VoiceChannel, call: string): Promise<void> {
  const facts = await channel.session(sessionId(call));
  if (facts === null || facts.transferring === null) return;
  const [at, ours] = [channel.clock.now(), config.number ?? null];
  await channel.accept([missedCall({ call, from: facts.from, ours, at }, transferUnanswered)]);
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

/** Retell's placeholders for noise. */
const noise = /\(unintelligible audio\)|\(inaudible speech\)/gi;

class RetellTranscript {
  /** The caller's utterance that was returned last: its index in the transcript, and its text then. */
  #lastUtterance = { at: -1, words: "" };
  /** Our speech since then, as sent. */
  #pieces: SpeechPiece[] = [];
  #played = "";
  /** The part of the caller's last utterance that was already reported as partial text. */
  #growing = "";
  #keys = 0;

  /** Handles an update frame: the caller speaks or pressed keys. */
  updated(frame: RetellFields): readonly CallEvent[] {
    const all = utterances(frame);
    const from = trailing(all);
    const words = wordsOf(all.slice(from));
    const pressed = this.#pressed(frame);
    if (from === all.length || words === "" || words === this.#growing) return pressed;
    this.#growing = words;
    return [...pressed, { kind: "partial", text: words }];
  }

  /** Handles a response request. `words`: the caller's new text since the last request; "" for noise; null for no
   *  new text. */
  asked(frame: RetellFields): { readonly events: readonly CallEvent[]; readonly words: string | null } {
    const all = utterances(frame);
    const from = trailing(all);
    const pressed = this.#pressed(frame);
    if (from === all.length) return { events: pressed, words: null };
    const words = wordsOf(all.slice(from));
    const before = this.#lastUtterance;
    // The caller continued the same utterance. Its earlier part was already returned.
    const goesOn = from === before.at && before.words !== "" && words.startsWith(before.words);
    const fresh = (goesOn ? words.slice(before.words.length) : words).trim();
    if (from === before.at && !/[\p{L}\p{N}]/u.test(fresh)) {
      this.#played = "";
      return { events: pressed, words: null };
    }
    const events = [...pressed, ...this.#cut(all, from)];
    this.#lastUtterance = { at: from, words };
    this.#pieces = [];
    this.#growing = words;
    return { events, words: fresh };
  }

  recordSpeech(text: string, last: boolean): void {
    this.#pieces.push({ text, last });
  }

  /** Returns our speech since the caller's last utterance when none of it was played; else null. */
  unplayed(): readonly SpeechPiece[] | null {
    return this.#pieces.length > 0 && this.#played === "" ? this.#pieces : null;
  }

  #pressed(frame: RetellFields): readonly CallEvent[] {
    const all = listOf(frame["transcript_with_tool_calls"]).filter(({ role }) => role === "dtmf");
    const digits = all
      .slice(this.#keys)
      .map(({ digit, content }) => [digit, content].find((one) => typeof one === "string") ?? "")
      .join("")
      .replace(/[^0-9*#]/g, "");
    this.#keys = Math.max(this.#keys, all.length);
    return digits === "" ? [] : [{ kind: "digits", digits }];
  }

  /** Returns an interruption event when the caller spoke before our speech finished. */
  #cut(all: readonly Utterance[], from: number): readonly CallEvent[] {
    const ours = this.#pieces.map(({ text }) => text).join("");
    this.#played = all
      .slice(this.#lastUtterance.at + 1, from)
      .filter(({ role }) => role === "agent")
      .map(({ content }) => content)
      .join(" ");
    // The transcript contains our text as spoken: figures and punctuation may differ slightly.
    if (ours === "" || plain(this.#played).length >= plain(ours).length * 0.9) return [];
    return [{ kind: "interrupted", heard: this.#played }];
  }
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
  Array.isArray(value) ? value.filter((one): one is RetellFields => typeof one === "object" && one !== null) : [];
