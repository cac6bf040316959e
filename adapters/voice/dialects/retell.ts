// Retell's custom LLM (docs.retellai.com/api-references/llm-websocket). For each call Retell connects to our URL with
// the call id appended. It requests responses by number and accepts only responses to the newest number. Every request
// contains the whole transcript; the new text in it is the caller's utterance. A transfer removes the call from this
// adapter, so `hand_over.no_answer` has no effect. An unanswered transfer reaches responders through Retell's webhook
// (`transfer_cancelled`; it needs `retell.api_key`). Without that webhook it is not reported.

import { createHmac, randomUUID } from "node:crypto";
import { type HttpRoute, sessionId } from "bridgehead/contract";
import { sameText } from "../constant-time.ts";
import { missedCall, untaken } from "../for-humans.ts";
import type { CallEvent, Command, Dialect, DialectMaker, Front, Reading, Translator } from "./dialect.ts";
import { hearing } from "./retell-transcript.ts";

/** Every frame contains the whole transcript with the timestamps of each word. */
const maxFrameBytes = 4 * 1024 * 1024;
/** Maximum clock difference of a webhook, in milliseconds. */
const skewMs = 5 * 60_000;
/** Number of calls in the cache that distinguishes a reconnection from a new call. */
const remembered = 10_000;

export const retell: DialectMaker = (front): Dialect => {
  const { secret = "", api_key: apiKey } = front.config.retell ?? {};
  const seen = new Set<string>();
  const firstTime = (call: string): boolean => {
    if (seen.has(call)) return false;
    seen.add(call);
    const [oldest] = seen;
    if (seen.size > remembered && oldest !== undefined) seen.delete(oldest);
    return true;
  };
  return {
    name: "retell",
    can: {
      greets: false,
      stops: false,
      reportsPlayback: false,
      reportsSilence: true,
      turnsEndSpeech: true,
      transfer: "frame",
    },
    routes: apiKey === undefined ? [] : [callEnded(front, apiKey)],
    socket: {
      paths: ["/llm/*/*", "/llm/*", "/llm"],
      maxFrameBytes,
      // Retell does not sign the websocket handshake. Its documentation recommends a secret in the URL.
      async authorize(request) {
        const given = addressedIn(request);
        if (secret === "" || !sameText(secret, given.secret))
          return new Response("forbidden\n", { status: 403 });
        return given.call === null ? new Response("no call\n", { status: 400 }) : null;
      },
      connect: (request) => translator(addressedIn(request).call ?? "", firstTime),
    },
  };
};

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

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

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

  const start = (details: Fields): CallEvent => {
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
  const wanted = (frame: Fields): Reading => {
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
  const spoken = (content: string, last: boolean, more: Fields = {}): string => {
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
    read(text): Reading {
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
    write(command: Command): readonly string[] {
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
function callEnded(front: Front, apiKey: string): HttpRoute {
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
      const fresh = time !== "" && Math.abs(front.channel.clock.now() - Number(time)) <= skewMs;
      if (!fresh || !sameText(right, digest)) return new Response("forbidden\n", { status: 403 });
      const { event, call } = fieldsOf(parsed(body));
      const { call_id: id, disconnection_reason: reason } = fieldsOf(call);
      if (event === "transfer_cancelled" && typeof id === "string") await untakenCall(front, id);
      if (event === "call_ended" && typeof id === "string") {
        const known = typeof reason === "string" && /^\w{1,40}$/.test(reason) ? reason : "";
        await front.closed(
          id,
          known === "" || known === "user_hangup" ? "hung-up" : known.replaceAll("_", "-"),
        );
      }
      return new Response(null, { status: 204 });
    },
  };
}

/** Reports an unanswered transfer, once for each call: Retell retries a webhook without a response. */
async function untakenCall({ channel, config }: Front, call: string): Promise<void> {
  const facts = await channel.session(sessionId(call));
  if (facts === null || facts.handingOver === null) return;
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
