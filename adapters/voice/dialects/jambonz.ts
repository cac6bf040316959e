// jambonz (docs.jambonz.org, WebSocket API): it connects to us when a call comes in, asks with `session:new` and
// `verb:hook`, and does what our verbs say. The caller is heard all the time by a background gather (`bargeIn`), which
// cuts our speech and drops what is queued behind it; our words are `say` verbs, queued one after the other. (Its streamed
// speech with `tts:tokens` and `tts:clear` works with some of the speech vendors only.) While humans ring the connection stays,
// and the hook of `dial` tells what came of it. There is no machine for messages: jambonz has no verb that records over this
// socket (`listen` wants a server of its own), so people are told of a missed call instead.

import { sameText } from "../constant-time.ts";
import type { CallEvent, Command, Dialect, DialectMaker, Reading, Translator } from "./dialect.ts";
import { type Message, personIn, readMessage, transcriptIn } from "./jambonz-messages.ts";
import { jambonzVerbs, type Verb } from "./jambonz-verbs.ts";

/** What has to be acknowledged, under its own id, within 5 s; else jambonz takes us for dead. */
const asking = new Set([
  "session:new",
  "session:reconnect",
  "session:redirect",
  "session:adulting",
  "verb:hook",
  "dial:confirm",
]);
/** How a call that was answered, or not, has ended. */
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

/** One connection. It knows which of our words are still to be heard. */
function translator(verbs: ReturnType<typeof jambonzVerbs>): Translator {
  let said = 0;
  /** Words sent and not finished, by the id of their verb, in order. */
  const waiting = new Map<string, string>();
  /** Words of this talk cycle that were heard to their end. */
  let heard: string[] = [];
  let speaking = false;
  /** Humans ring, or have the call. */
  let dialing = false;
  let answered = false;

  const dialed = (outcome: "answered" | "unanswered" | "gone"): readonly CallEvent[] => {
    if (!dialing) return [];
    dialing = false;
    return [{ kind: "dialed", outcome }];
  };
  const ended = (message: Message): readonly CallEvent[] => {
    const { call_sid: leg, call_status: state } = message.data;
    // The legs to humans are reported over the same connection; the end of one is not that of the call.
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
    // Killed by nobody but the caller: what we stop ourselves is forgotten before.
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
    // jambonz collects until # or a pause; the # is left out of what it reports.
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

  /** Whatever is queued behind a dial is replaced, so that nobody is rung twice and no call is dropped. */
  const following = ({ hook: name, data }: Message) => {
    if (name !== verbs.hooks.dialed) return {};
    return { data: taken(data) ? [verbs.hangup] : verbs.untaken };
  };

  return {
    read(frame): Reading {
      const message = readMessage(frame);
      if (!asking.has(message.type)) return { events: events(message) };
      // An empty answer to session:new would end the call: there would be nothing to do. A reconnection may stand for one that
      // was never answered; else jambonz does not look at what comes with the acknowledgement.
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

/** A dial that rang out ends with whatever it saw last (`ringing`, `early-media`): only one word means that somebody answered. */
const taken = (data: Message["data"]): boolean => data["dial_call_status"] === "completed";

/** The id of the message is new for each connection, and nobody but jambonz can make one. */
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

/** Queued verbs follow what is being done; others replace it. */
const redirect = (queueCommand: boolean, ...data: readonly Verb[]): string =>
  JSON.stringify({ type: "command", command: "redirect", queueCommand, data });
