// jambonz (docs.jambonz.org, WebSocket API) connects to us for each call, sends `session:new` and `verb:hook` requests,
// and executes the verbs in the response. A background gather (`bargeIn`) listens during the whole call; barge-in stops
// our speech and drops the queue behind it. Each piece of speech is a queued `say` verb. (The streaming commands
// `tts:tokens` and `tts:clear` work with some of the speech vendors only.) During a transfer the connection stays open,
// and the hook of `dial` reports the result. Voicemail is not supported: jambonz has no verb that records over this
// socket (`listen` needs its own server). Responders get a missed-call message instead.

import { sameText } from "../constant-time.ts";
import type { CallEvent, Command, Dialect, DialectMaker, Reading, Translator } from "./dialect.ts";
import { type Message, personIn, readMessage, transcriptIn } from "./jambonz-messages.ts";
import { jambonzVerbs, type Verb } from "./jambonz-verbs.ts";

/** Message types that need an acknowledgement with their id within 5 s. Without it jambonz treats the socket as
 *  failed. */
const asking = new Set([
  "session:new",
  "session:reconnect",
  "session:redirect",
  "session:adulting",
  "verb:hook",
  "dial:confirm",
]);
/** Maps final call statuses, answered or not, to end reasons. */
const over: ReadonlyMap<unknown, string> = new Map([
  ["completed", "hung-up"],
  ["failed", "failed"],
  ["busy", "busy"],
  ["no-answer", "no-answer"],
]);

export const jambonz: DialectMaker = ({ config }): Dialect => {
  const { user, password } = config.jambonz ?? { user: "", password: "" };
  const right = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  return {
    name: "jambonz",
    can: { greets: false, stops: true, reportsPlayback: true, reportsSilence: false, transfer: "dial" },
    routes: [],
    socket: {
      paths: ["/relay"],
      protocol: "ws.jambonz.org",
      async authorize(request) {
        const given = request.headers.get("authorization") ?? "";
        if (password !== "" && sameText(right, given)) return null;
        return new Response("who are you?\n", {
          status: 401,
          headers: { "www-authenticate": 'Basic realm="bridgehead"' },
        });
      },
      connect: () => translator(jambonzVerbs(config)),
    },
  };
};

/** The translator of one connection. It tracks which pieces of speech are still queued. */
function translator(verbs: ReturnType<typeof jambonzVerbs>): Translator {
  let said = 0;
  /** Text of unfinished `say` verbs by verb id, in order. */
  const waiting = new Map<string, string>();
  /** Text of this talk cycle that was played completely. */
  let heard: string[] = [];
  let speaking = false;
  /** True while transfer targets ring or have the call. */
  let dialing = false;
  let answered = false;

  const dialed = (outcome: "answered" | "unanswered" | "gone"): readonly CallEvent[] => {
    if (!dialing) return [];
    dialing = false;
    return [{ kind: "dialed", outcome }];
  };
  const ended = (message: Message): readonly CallEvent[] => {
    const { call_sid: leg, call_status: state } = message.data;
    // Call legs to transfer targets are reported over the same connection. The end of such a leg does not end the call.
    if (typeof leg === "string" && leg !== message.callSid) {
      if (state === "in-progress") answered = true;
      return [];
    }
    const reason = over.get(state);
    if (reason === undefined) return [];
    return [...dialed(answered ? "answered" : "gone"), { kind: "end", reason }];
  };
  const cut = (): readonly CallEvent[] => {
    if (waiting.size === 0) return [];
    const words = heard.join(" ");
    forget();
    return [{ kind: "interrupted", heard: words === "" ? null : words }, ...quiet()];
  };
  const forget = () => {
    waiting.clear();
    heard = [];
  };
  const quiet = (): readonly CallEvent[] => {
    if (!speaking) return [];
    speaking = false;
    return [{ kind: "playback", speaking: false }];
  };
  const status = ({
    id,
    event,
  }: {
    readonly id?: unknown;
    readonly event?: unknown;
  }): readonly CallEvent[] => {
    const words = typeof id === "string" ? waiting.get(id) : undefined;
    if (typeof id !== "string" || words === undefined) return [];
    if (event === "start-playback" && !speaking) {
      speaking = true;
      return [{ kind: "playback", speaking: true }];
    }
    // Only barge-in causes this event here: our own `stop` clears the entries first.
    if (event === "kill-playback") return cut();
    if (event !== "finished") return [];
    waiting.delete(id);
    heard.push(words);
    return waiting.size === 0 ? quiet() : [];
  };
  const hook = ({ hook: name, data }: Message): readonly CallEvent[] => {
    if (name === verbs.hooks.partial) {
      const text = transcriptIn(data);
      return text === null ? [] : [{ kind: "partial", text: text.words }];
    }
    if (name === verbs.hooks.dialed) {
      if (taken(data)) return dialed("answered");
      return dialed(over.has(data["call_status"]) ? "gone" : "unanswered");
    }
    if (name !== verbs.hooks.turn) return [];
    // jambonz collects digits until # or a timeout, and omits the # from its message.
    if (typeof data["digits"] === "string" && data["digits"] !== "") {
      return [...cut(), { kind: "digits", digits: `${data["digits"]}#` }];
    }
    const spoken = transcriptIn(data);
    if (spoken === null)
      return data["reason"] === "error" ? [{ kind: "problem", text: "speech recognition" }] : [];
    return [...cut(), { kind: "turn", text: spoken.words, language: spoken.language }];
  };
  const events = (message: Message): readonly CallEvent[] => {
    const { type, data } = message;
    switch (type) {
      case "session:new":
      case "session:reconnect":
        return [started(message)];
      case "verb:hook":
        return hook(message);
      case "verb:status":
        return status(data);
      case "call:status":
        return ended(message);
      case "jambonz:error":
        return [{ kind: "problem", text: "jambonz:error" }];
      default:
        return [];
    }
  };

  /** Replaces the verbs queued behind a dial. Otherwise jambonz would dial twice or drop the call. */
  const following = ({ hook: name, data }: Message) => {
    if (name !== verbs.hooks.dialed) return {};
    return { data: taken(data) ? [verbs.hangup] : verbs.untaken };
  };

  return {
    read(frame): Reading {
      const message = readMessage(frame);
      if (!asking.has(message.type)) return { events: events(message) };
      // An empty response to `session:new` would end the call for lack of verbs. A `session:reconnect` may replace a
      // `session:new` without response, so it gets the same verbs. In other cases jambonz ignores the data of an
      // acknowledgement.
      const begins = message.type === "session:new" || message.type === "session:reconnect";
      const data = begins ? { data: verbs.beginning } : following(message);
      return {
        events: events(message),
        answers: [JSON.stringify({ type: "ack", msgid: message.msgid, ...data })],
      };
    },
    write(command: Command): readonly string[] {
      if (command.kind === "stop") {
        forget();
        return [redirect(false, verbs.nothing)];
      }
      if (command.kind === "transfer") [dialing, answered] = [true, false];
      if (command.kind !== "say") return [redirect(true, ...verbs.of(command))];
      const text = command.text.trim();
      if (text === "") return [];
      if (waiting.size === 0) heard = [];
      const id = `say-${++said}`;
      waiting.set(id, text);
      return [redirect(true, verbs.say(id, text, command.language))];
    },
  };
}

/** Returns whether a transfer was answered. A failed dial ends with its last status (`ringing`, `early-media`); only
 *  `completed` means answered. */
const taken = (data: Message["data"]): boolean => data["dial_call_status"] === "completed";

/** Builds the start event. The ticket is the message id: it is new for each connection, and only jambonz can create
 *  one. */
function started({ type, msgid, callSid, data }: Message): CallEvent {
  const outbound = data["direction"] === "outbound";
  const [ours, person] = outbound ? [data["from"], data["to"]] : [data["to"], data["from"]];
  return {
    kind: "start",
    call: callSid,
    person: personIn(person),
    ours: personIn(ours),
    language: null,
    ticket: msgid,
    resumed: type === "session:reconnect",
  };
}

/** Builds a redirect command. With `queueCommand` the verbs are queued; otherwise they replace the current ones. */
const redirect = (queueCommand: boolean, ...data: readonly Verb[]): string =>
  JSON.stringify({ type: "command", command: "redirect", queueCommand, data });
