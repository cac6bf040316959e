// Executes a call like Twilio: fetches TwiML, runs its verbs in order and requests the action URL for the
// next document.

import { systemClock } from "../ops/clock.ts";
import type { PhoneCall } from "./phone.ts";
import { Relay, type RelayEnd, sentence } from "./relay-socket.ts";
import { newSid } from "./sms-records.ts";
import { type TwilioForm, withoutFragment } from "./twilio-webhooks.ts";

/** The next document; its URL may be relative to the current one. */
interface NextDocument {
  readonly url: string;
  readonly form: TwilioForm;
}
/** Result of a verb: another document, the reason for the end of the call, or null for the next verb. */
type CallStep = NextDocument | string | null;

/** Resolves with the reason when the call has ended; never rejects. */
export async function followTwiml(line: PhoneCall): Promise<string> {
  let next: NextDocument = { url: line.dialing.url, form: {} };
  for (;;) {
    const verbs = await fetchTwiml(line, next);
    if (line.hungUp.aborted) return "hung-up";
    if (verbs === null) return "failed";
    let step: CallStep = null;
    for (const verb of verbs) {
      line.verbs.push(verb);
      line.changed();
      step = await perform(line, verb);
      if (line.hungUp.aborted) return farewell(line, step);
      if (step !== null) break;
    }
    if (step === null) return "done";
    if (typeof step === "string") return step;
    next = { url: new URL(step.url, withoutFragment(next.url)).href, form: step.form };
  }
}

/** After the caller hangs up, Twilio still posts to the action URL and ignores the response. */
async function farewell(line: PhoneCall, step: CallStep): Promise<string> {
  if (step !== null && typeof step === "object" && "SessionStatus" in step.form)
    await line.post(new URL(step.url, line.dialing.url).href, { ...step.form, CallStatus: "completed" });
  return "hung-up";
}

async function fetchTwiml(line: PhoneCall, { url, form }: NextDocument): Promise<readonly TwimlVerb[] | null> {
  const { patience = 0 } = line.options;
  const end = performance.now() + patience;
  let posted = await line.post(url, form);
  while ((posted.status === null || posted.status === 503) && performance.now() < end && !line.hungUp.aborted) {
    await systemClock.sleep(50, line.hungUp);
    posted = await line.post(url, form);
  }
  const { fallback } = line.dialing;
  const wrong = unusable(posted.status, posted.type);
  if (wrong !== null) line.complain(`${url}: ${wrong}`);
  if (wrong !== null && fallback !== undefined)
    posted = await line.post(fallback, { ...form, ErrorCode: "11200", ErrorUrl: url });
  if (unusable(posted.status, posted.type) !== null) return null;
  try {
    return posted.body.trim() === "" ? [] : readTwiml(posted.body);
  } catch (error) {
    line.complain(`${url}: ${(error as Error).message}`);
    return null;
  }
}

function unusable(status: number | null, type: string): string | null {
  if (status === null) return "cannot be reached";
  if (status < 200 || status > 299) return `answered ${status}`;
  return status === 204 || /\bxml\b/.test(type) ? null : `answered ${type}`;
}

async function perform(line: PhoneCall, verb: TwimlVerb): Promise<CallStep> {
  const { attributes, text } = verb;
  switch (verb.name) {
    case "Say":
      line.spoken.push(sentence("say", text.trim()));
      line.changed();
      return null;
    case "Pause":
      await pause(line, Number(attributes["length"] ?? 1));
      return null;
    case "Redirect":
      return { url: text.trim(), form: {} };
    case "Hangup":
    case "Reject":
      return "hangup";
    case "Enqueue":
      return "enqueued";
    case "Dial":
      return dialed(line, verb);
    case "Record":
      return recorded(attributes);
    case "Gather":
      return gather(line, verb);
    case "Connect":
      return connect(line, verb);
    default:
      return null;
  }
}

const pause = (line: PhoneCall, seconds: number, signal = line.hungUp): Promise<void> =>
  systemClock.sleep(seconds * 1000 * (line.options.pace ?? 1), signal);

function dialed(line: PhoneCall, { attributes, text, children }: TwimlVerb): CallStep {
  const target = children[0]?.text.trim() ?? text.trim();
  const status = line.options.dialed?.(target) ?? "completed";
  const { action } = attributes;
  if (action === undefined) return status === "completed" ? "done" : null;
  const duration = status === "completed" ? { DialCallDuration: "30" } : {};
  return { url: action, form: { DialCallStatus: status, DialCallSid: newSid("CA"), ...duration } };
}

function recorded({ action }: TwimlVerb["attributes"]): CallStep {
  const sid = newSid("RE");
  const form = {
    RecordingSid: sid,
    RecordingUrl: `https://api.twilio.com/2010-04-01/Accounts/AC/Recordings/${sid}`,
    RecordingDuration: "7",
    Digits: "hangup",
  };
  return action === undefined ? null : { url: action, form };
}

/** Waits for speech or DTMF. On a timeout it continues with the next verb, or with the action if configured. */
async function gather(line: PhoneCall, { attributes, children }: TwimlVerb): Promise<CallStep> {
  for (const child of children) {
    line.verbs.push(child);
    await perform(line, child);
  }
  const silence = new AbortController();
  const said = new Promise<{ speech?: string; digits?: string }>((resolve) => (line.gathered = resolve));
  line.state = "gathering";
  line.changed();
  const seconds = Number(attributes["timeout"] ?? 5);
  const waited = pause(line, seconds, AbortSignal.any([line.hungUp, silence.signal]));
  const heard = await Promise.race([said, waited.then(() => null)]);
  silence.abort();
  line.gathered = null;
  const { action = line.dialing.url } = attributes;
  if (heard?.speech !== undefined)
    return { url: action, form: { SpeechResult: heard.speech, Confidence: "0.9", Language: "en-US" } };
  if (heard?.digits !== undefined) return { url: action, form: { Digits: heard.digits } };
  return attributes["actionOnEmptyResult"] === "true" ? { url: action, form: {} } : null;
}

async function connect(line: PhoneCall, { attributes, children }: TwimlVerb): Promise<CallStep> {
  const verb = children.find(({ name }) => name === "ConversationRelay");
  if (!verb) {
    line.complain("Connect without ConversationRelay");
    return null;
  }
  const sessionId = newSid("VX");
  const relay = new Relay(line, verb, sessionId);
  line.relay = relay;
  const started = performance.now();
  const end = await relay.ended;
  line.relay = null;
  if (end.how === "failed") line.complain(`${end.code}: ${end.reason}`);
  const { action } = attributes;
  return action === undefined ? null : { url: action, form: sessionForm(end, sessionId, started) };
}

/** Builds the form that Twilio posts after a ConversationRelay session. */
function sessionForm(end: RelayEnd, sessionId: string, started: number): TwilioForm {
  const duration = Math.round((performance.now() - started) / 1000);
  return {
    SessionId: sessionId,
    SessionStatus: end.how,
    SessionDuration: String(duration),
    CallStatus: end.how === "completed" ? "completed" : "in-progress",
    ...(end.how === "ended" && end.handoffData !== undefined ? { HandoffData: end.handoffData } : {}),
    ...(end.how === "failed" ? { ErrorCode: String(end.code), ErrorMessage: end.reason } : {}),
  };
}

// TwiML parser as strict as Twilio's (error 12100): rejects XML that is not well-formed.

export interface TwimlVerb {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  /** Text of the verb without that of its children. */
  readonly text: string;
  readonly children: readonly TwimlVerb[];
}

interface OpenElement {
  readonly name: string;
  readonly attributes: Record<string, string>;
  text: string;
  readonly children: TwimlVerb[];
}

const token =
  /<!--(?:(?!--)[^])*-->|<(\/?)([A-Za-z][\w:.-]*)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|([^<]+)/y;

/** Returns the verbs of a response in order. Throws an error with reason and position. */
export function readTwiml(xml: string): readonly TwimlVerb[] {
  const declared = /^\uFEFF?(?:<\?xml[^?]*\?>)?\s*/.exec(xml)?.[0].length ?? 0;
  const root: OpenElement = { name: "", attributes: {}, text: "", children: [] };
  const path: OpenElement[] = [root];
  const here = () => path.at(-1) ?? root;
  for (token.lastIndex = declared; token.lastIndex < xml.length; ) {
    const at = token.lastIndex;
    const found = token.exec(xml);
    if (!found) throw new Error(`bad XML at ${at}: ${xml.slice(at, at + 40)}`);
    const [, closing, name, attributes = "", empty, text] = found;
    if (text !== undefined) here().text += decoded(text);
    if (name === undefined) continue;
    if (closing) {
      if (here().name !== name) throw new Error(`</${name}> at ${at} closes <${here().name}>`);
      path.pop();
      continue;
    }
    const verb: OpenElement = { name, attributes: attributesOf(attributes), text: "", children: [] };
    here().children.push(verb);
    if (!empty) path.push(verb);
  }
  const [response, ...more] = root.children;
  if (path.length > 1) throw new Error(`<${here().name}> is not closed`);
  if (response?.name !== "Response" || more.length > 0 || root.text.trim() !== "")
    throw new Error("not one <Response>");
  return response.children;
}

function attributesOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [, name = "", double, single] of text.matchAll(/([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    if (name in found) throw new Error(`attribute ${name} is there twice`);
    found[name] = decoded(double ?? single ?? "");
  }
  return found;
}

const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const decoded = (text: string): string =>
  text.replace(/&(?:(\w+)|#(\d+)|#x([\da-fA-F]+));|&/g, (all, name?: string, ten?: string, hex?: string) => {
    if (ten ?? hex) return String.fromCodePoint(Number.parseInt(ten ?? hex ?? "", ten ? 10 : 16));
    const character = named[name ?? ""];
    if (character === undefined) throw new Error(`bad XML: ${all} is no entity`);
    return character;
  });
