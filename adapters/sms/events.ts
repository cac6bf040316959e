// Converts an inbound text to a message event of the core: the sender, the text, a consent keyword, and the
// reason when the message must not be answered.

import {
  type Attachment,
  type Consent,
  type DeliveryEvent,
  externalId,
  type MessageEvent,
  type Refusal,
} from "bridgehead/contract";
import type { SmsConfig } from "./config.ts";
import { consentOf, isDoubtful, type Meaning } from "./consent.ts";
import { senderFor } from "./draft.ts";
import { canonicalNumber, countriesOf } from "./numbers.ts";
import { isPermanent, type TextClass } from "./outcomes.ts";
import { type InboundMedium, type InboundText, statusEventId, type TextStatus } from "./provider.ts";

export function eventOfText(config: SmsConfig, text: InboundText): MessageEvent {
  const from = canonical(text.from, config);
  const consent = consentIn(config, text);
  const refusal = refusalOf(config, from, text) ?? (consent === null ? doubtIn(config, text) : null);
  const via = viaOf(config, from, text);
  const attachments = text.media.map((medium, at) => attachmentOf(medium, text.id, at));
  return {
    kind: "message",
    id: externalId(text.id),
    from: { address: from, ...(text.name === undefined ? {} : { name: text.name }) },
    to: [{ address: canonical(text.to, config) }],
    ...(via === null ? {} : { via }),
    thread: { answers: [] },
    sentAt: text.sentAt,
    text: text.body.trim() === "" ? wordsFor(text.media) : text.body,
    raw: text.raw,
    ...(attachments.length === 0 ? {} : { attachments }),
    ...(refusal === null ? {} : { refusal }),
    ...(text.handledBefore === undefined ? {} : { handledBefore: text.handledBefore }),
    ...(consent === null || refusal !== null ? {} : { consent }),
    ...(text.notes === undefined ? {} : { notes: text.notes }),
  };
}

/** Returns an address that is not a number unchanged: it is stored, and its sender cannot be answered anyway. */
function canonical(address: string, config: SmsConfig): string {
  return canonicalNumber(address, config.country) ?? address.trim();
}

/** Returns the address that received the text. Null when it is the channel's default sender, and when no
 *  text can be sent from it. */
function viaOf(config: SmsConfig, from: string, text: InboundText): string | null {
  const to = canonicalNumber(text.to, config.country);
  if (to === null || !reachable.test(to)) return null;
  const usual = senderFor(from, config.number ?? null);
  return usual !== null && plain(usual) === plain(to) ? null : to;
}

/** Removes the plus sign: message centres write one number in several forms. */
const plain = (address: string): string => address.replace("+", "");

const shortCode = /^\d{3,8}$/;
const reachable = /^(?:[a-z]+:.+|\+\d+|\d{3,8})$/;

function refusalOf(config: SmsConfig, from: string, text: InboundText): Refusal | null {
  if (isOwn(from, config)) return { code: "own", reason: "it comes from a number of ours" };
  if (config.ignore_short_codes && shortCode.test(from))
    return { code: "short-code", reason: "it comes from a short code" };
  if (!reachable.test(from)) return { code: "no-reply-address", reason: "its sender is a name, not a number" };
  if (text.body.trim() === "" && text.media.length === 0)
    return { code: "empty", reason: "it has neither words nor pictures" };
  return null;
}

/** Returns a refusal for a text that may ask for no more texts, or may come from a machine: a human decides. */
function doubtIn({ opt_out: own }: SmsConfig, text: InboundText): Refusal | null {
  if (own.doubtful !== "ask" && isDoubtful(text, own))
    return { code: "possible-opt-out", reason: "it may ask for no more texts", hold: true };
  const code = "possible-auto-reply";
  if (text.automatic) return { code, reason: "the provider takes it for an automatic reply", hold: true };
  if (automatic.test(text.body.slice(0, 200))) return { code, reason: "it begins like an automatic reply", hold: true };
  return null;
}

/** Beginnings of the texts with which phones reply while their owner drives (Focus of iOS, Android Auto), the words with which
 *  programs introduce an automatic reply, and the notices of carriers that a text was blocked: an answer to one would cause
 *  the next. */
const automatic = new RegExp(
  `^[\\s([*"“]*(?:${[
    "(?:this is an? )?auto(?:mat(?:ic|ed))?[ -]?(?:reply|response|message)\\b",
    "i['’]m (?:not receiving notifications|driving (?:with (?:focus|do not disturb)|right now[-,.– ]+i['’]ll))\\b",
    "(?:[\\w&]+ )?free ?msg\\b|(?:unable to send message[-–—.: ]+)?message blocking is active\\b",
    "(?:dies ist eine )?automatische (?:antwort|nachricht)\\b",
    "(?:ceci est (?:une|un) )?(?:réponse automatique|message automatique)",
    "(?:est[ae] es una? )?(?:respuesta automática|mensaje automático)",
    "(?:quest[ao] è una? )?(?:risposta automatica|messaggio automatico)",
    "(?:dit is een )?automatisch (?:antwoord|bericht)\\b",
    "(?:esta é uma )?(?:resposta|mensagem) automática",
  ].join("|")})`,
  "iu",
);

/** Compares the addresses without their service prefix (`whatsapp:`). */
function isOwn(from: string, { number, further_numbers: further, own_numbers: others }: SmsConfig): boolean {
  const bare = (address: string) => address.replace(/^[a-z]+:/, "");
  return [...others, ...further, ...(number === undefined ? [] : [number])].some((one) => bare(one) === bare(from));
}

/** Returns the consent of a message. The provider's classification takes precedence over our own lists;
 *  the provider has also answered such a message. */
function consentIn(config: SmsConfig, text: InboundText): Consent | null {
  const { opt_out: own } = config;
  if (text.optOut !== undefined) return { word: text.optOut };
  const meaning = meaningOf(config, text.body, text.to);
  // "Info" with a picture is a question about the picture. STOP counts with any attachment.
  if (meaning === null || (meaning.word !== "stop" && text.media.length > 0)) return null;
  const { word, confirmation } = meaning;
  const answer = { stop: own.stop_text, start: own.start_text, help: own.help_text }[word] ?? confirmation;
  const ambiguous = confirmation === undefined ? {} : { ambiguous: true as const };
  return { word, ...ambiguous, ...(answer === undefined ? {} : { answer }) };
}

/** Returns the consent that a text to our address `to` expresses; null: an ordinary message. */
export function meaningOf(config: SmsConfig, body: string, to: string): Meaning | null {
  const address = canonicalNumber(to, config.country) ?? to;
  const there = countriesOf(address);
  const home = there.length > 0 ? there : countriesOf(config.number ?? "");
  const fallback = config.country === undefined ? [] : [config.country];
  return consentOf(body, config.opt_out, home.length > 0 ? home : fallback);
}

const kinds: Readonly<Record<string, string>> = {
  image: "picture",
  audio: "voice message",
  video: "video",
  text: "contact or note",
};

/** Returns the placeholder text of a message that has only media. */
function wordsFor(media: readonly InboundMedium[]): string {
  return media.map(({ mediaType }) => `[${kindOf(mediaType)} received]`).join("\n");
}

function kindOf(mediaType: string): string {
  return kinds[mediaType.split("/")[0]?.toLowerCase() ?? ""] ?? "file";
}

/** Generates the attachment's file name, because texts carry no file names. */
function attachmentOf({ ref, mediaType, size }: InboundMedium, id: string, at: number): Attachment {
  const kind = kindOf(mediaType).split(" ")[0] ?? "file";
  const ending = /^[\w-]+\/([a-z0-9]{2,5})\b/i.exec(mediaType)?.[1]?.toLowerCase() ?? "bin";
  const name = `${kind}-${id.slice(-6)}-${at + 1}.${ending}`;
  return { name, mediaType, ref, ...(size === undefined ? {} : { size }) };
}

// Converts the status of a sent text to a delivery event of the core.

/** A text has several statuses, in any order and with duplicates. Text and status together form the event id. */
export function eventOfStatus(status: TextStatus): DeliveryEvent {
  const { id, key, code, detail, raw, kind } = status;
  const words = [status.status, code, detail].filter((word) => word !== undefined).join(" ");
  return {
    kind: "delivery",
    id: statusEventId(id, status.status, status.at),
    about: { ...(key === null ? {} : { key }), sent: [externalId(id)] },
    state: status.state,
    detail: words,
    ...(kind === undefined ? {} : { permanent: isPermanent(kind), ...codeOf(kind, code) }),
    ...(raw === undefined ? {} : { raw }),
  };
}

/** Returns the error code that `outcomeOf` uses when the provider reports the error in its response. */
function codeOf(kind: TextClass | null, code: string | undefined): { readonly code?: string } {
  if (kind === "opted-out") return { code: kind };
  return code === undefined ? {} : { code };
}
