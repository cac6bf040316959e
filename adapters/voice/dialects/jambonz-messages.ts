// What jambonz sends, as far as we read it. Names are in snake case; everything may be missing.

/** One message of the socket. */
export interface Message {
  readonly type: string;
  /** `[A-Za-z0-9_-]`, at most 64. */
  readonly msgid: string;
  readonly callSid: string;
  readonly hook: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Throws on what is no message of jambonz. */
export function readMessage(frame: string): Message {
  const message = record(JSON.parse(frame));
  const { type, msgid, call_sid: callSid, hook } = message;
  if (typeof type !== "string" || type === "") throw new Error("a message without type");
  const name = (text: unknown) => (typeof text === "string" && /^[\w-]{1,64}$/.test(text) ? text : null);
  const [id, call] = [name(msgid), name(callSid)];
  if (id === null) throw new Error("a message without msgid");
  if (call === null && type.startsWith("session:")) throw new Error("a session without call_sid");
  return {
    type,
    msgid: id,
    callSid: call ?? "",
    hook: typeof hook === "string" ? hook : null,
    data: record(message["data"]),
  };
}

/** The best guess of what was said, and in which language; null where there is none. */
export function transcriptIn(
  data: Readonly<Record<string, unknown>>,
): { readonly words: string; readonly language: string | null } | null {
  const speech = record(data["speech"]);
  const [best] = Array.isArray(speech["alternatives"]) ? (speech["alternatives"] as unknown[]) : [];
  const words = record(best)["transcript"];
  if (typeof words !== "string" || words.trim() === "") return null;
  const language = speech["language_code"];
  return { words, language: typeof language === "string" && language !== "" ? language : null };
}

/** The user part of a SIP address as carriers write it: a number with its plus, else `sip:`; null when withheld. */
export function personIn(user: unknown): string | null {
  if (typeof user !== "string") return null;
  const name = user.trim();
  if (name === "" || /^(?:anonymous|restricted|unavailable|unknown|private)$/i.test(name)) return null;
  const digits = name.replace(/[\s().-]/g, "");
  if (/^\+[1-9]\d{4,14}$/.test(digits)) return digits;
  // A whole international number without its plus; shorter ones are national or extensions.
  if (/^[1-9]\d{9,14}$/.test(digits)) return `+${digits}`;
  return name.startsWith("sip:") ? name : `sip:${name}`;
}

const record = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
