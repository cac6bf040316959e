// The jambonz messages that this adapter reads. Names are in snake case; any field may be missing.

/** One message from the socket. */
export interface Message {
  readonly type: string;
  /** `[A-Za-z0-9_-]`, at most 64 characters. */
  readonly msgid: string;
  readonly callSid: string;
  readonly hook: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Throws an error on a frame that is not a jambonz message. */
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

/** Returns the best transcript alternative and its language; null when there is no transcript. */
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

/** Returns the party from the user part of a SIP address in carrier notation: E.164 for a number, else `sip:`.
 *  Returns null when withheld. */
export function personIn(user: unknown): string | null {
  if (typeof user !== "string") return null;
  const name = user.trim();
  if (name === "" || /^(?:anonymous|restricted|unavailable|unknown|private)$/i.test(name)) return null;
  const digits = name.replace(/[\s().-]/g, "");
  if (/^\+[1-9]\d{4,14}$/.test(digits)) return digits;
  // A complete international number without its plus sign. Shorter numbers are national ones or extensions.
  if (/^[1-9]\d{9,14}$/.test(digits)) return `+${digits}`;
  return name.startsWith("sip:") ? name : `sip:${name}`;
}

const record = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
