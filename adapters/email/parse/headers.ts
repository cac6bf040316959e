// Text and header values: normalizes text to what a mail client shows, and parses addresses, Message-IDs, dates and the
// marks by which responses to our messages are recognized.

import { domainToASCII } from "node:url";
import type { ExternalId, SendKey, ThreadToken } from "bridgehead/contract";
import { addressParser, decodeWords } from "postal-mime";
import { wordsInUtf8 } from "./charsets.ts";
import type { Mailbox } from "./mail.ts";
import type { HeaderField } from "./mime.ts";
import { forwardPrefixes, replyPrefixes } from "./quotes/phrases.ts";

/** Limits of an address header: characters that are parsed, about a thousand recipients, and addresses. */
const maxAddressField = 50_000;
const maxAddresses = 2000;

/** Returns the first header of that (lower-case) name, or null. */
export function headerOf(headers: readonly HeaderField[], name: string): string | null {
  return headers.find((field) => field.name === name)?.value ?? null;
}

/** True for a field with raw 8-bit or ISO-2022-JP text, which `repaired` decodes. */
export const isBroken = ({ value }: HeaderField): boolean => value.includes("\ufffd") || value.includes("\u001b$");

/** Returns the decoded text of an unstructured header such as Subject. */
export function textOf(value: string | null): string {
  return value === null ? "" : cleanLine(decodeWords(wordsInUtf8(value.slice(0, 20_000))), 2000);
}

/** Returns the mailboxes of every header of that name, including members of groups. */
export function mailboxesOf(headers: readonly HeaderField[], name: string): Mailbox[] {
  const found: Mailbox[] = [];
  for (const field of headers) {
    if (field.name !== name || field.value === "") continue;
    for (const entry of addressParser(parsable(wordsInUtf8(field.value.slice(0, maxAddressField))), {
      flatten: true,
    })) {
      if (found.length >= maxAddresses) return found;
      const address = cleanAddress("address" in entry ? (entry.address ?? "") : "");
      if (address !== "") found.push({ address, name: cleanLine(entry.name, 300) });
    }
  }
  return found;
}

/** Prepares a field for the address parser, which knows neither comments in comments (RFC 5322, 3.2.2) nor special characters
 *  in encoded words (forbidden by RFC 2047, 5, and frequent): removes inner parentheses, and quotes such words. */
function parsable(value: string): string {
  let depth = 0;
  return value.replace(/"(?:[^"\\]|\\.)*"|=\?[^?\s]{1,60}\?[bq]\?[^?\s]{0,500}\?=|\\.|[()]/gi, (token) => {
    if (token === "(") return depth++ === 0 ? token : "";
    if (token === ")") return depth === 0 || --depth === 0 ? token : "";
    return depth === 0 && token.startsWith("=") && /[,;:<>@()]/.test(token) ? `"${token}"` : token;
  });
}

/** Returns the address in lower case without surrounding characters and scheme; "" when it is not an address. */
export function cleanAddress(text: string): string {
  const address = cleanLine(text, 320)
    .replace(/^[<\s]+|[>\s.]+$/g, "")
    .toLowerCase()
    .replace(/^(?:mailto|smtp):/, "");
  return /^[^\s@<>,;]{1,250}@[^\s@<>,;]{1,253}$/.test(address) || /^"[^"\r\n]{1,200}"@[^\s@<>]{1,253}$/.test(address)
    ? asciiAddress(address)
    : "";
}

/** Returns the address with its domain as A-labels (RFC 5890), the form in which every address is stored, compared and
 *  sent. A Unicode local part is unchanged, as it needs SMTPUTF8. A domain without such a form is unchanged. */
export function asciiAddress(address: string): string {
  if (/^[\x00-\x7f]*$/.test(address)) return address;
  const at = address.lastIndexOf("@") + 1;
  const domain = asciiDomain(address.slice(at));
  return domain === "" ? address : address.slice(0, at) + domain;
}

/** Returns the domain in lower-case ASCII form; "" when it is not a domain. */
export function asciiDomain(domain: string): string {
  // domainToASCII parses a URL host and drops the text after it: "a.example/b" is not a domain.
  const plain = domain.replace(/\.$/, "");
  return /^[\p{L}\p{M}\p{N}\p{Join_Control}\u{3002}._-]{1,253}$/u.test(plain) ? domainToASCII(plain).toLowerCase() : "";
}

/** Returns every `<...@...>` of a value in order, without duplicates; at most the last `max`. The newest
 *  reference is the last one, so the end of a long value counts. White space in an id is no part of it: a relay has folded it. */
export function messageIdsOf(value: string | null, max = 100): string[] {
  if (value === null) return [];
  const found = new Set<string>();
  for (const [whole] of value.slice(-200_000).matchAll(/<[^<>]{1,990}>/g)) {
    const id = whole.replace(/\s+/g, "");
    if (id === whole || id.includes("@")) found.add(id);
  }
  return [...found].slice(-max);
}

/** Returns one Message-ID with its brackets, which some programs omit, or null. */
export function messageIdOf(value: string | null): string | null {
  const text = (value ?? "").slice(0, 2000).trim();
  return messageIdsOf(/[\s<]/.test(text) ? text : `<${text}>`, 100)[0] ?? null;
}

/** Returns epoch milliseconds; null when the date is missing or invalid. */
export function dateOf(value: string | null): number | null {
  if (value === null || value.length > 200) return null;
  const time = Date.parse(value.replace(/\([^()]{0,100}\)/g, " ").trim());
  return Number.isNaN(time) ? null : time;
}

/** True for a forward by its subject ("Fwd:", "WG:", "TR:", "[Fwd: ...]"); a later "Re:" cancels it. */
export const isForwardSubject = (subject: string): boolean => forwardPrefixes.has(prefixOf(subject));

/** True when the line is a rule above the header of a quoted message from an own address, in any language: fields with that
 *  address, a date and another address. */
export function isHeaderBlock(lines: readonly string[], at: number, isOwn: (address: string) => boolean): boolean {
  const block = lines.slice(at, at + 10).map((line) => line.slice(0, 300).trim());
  const [rule = "", from = "", ...rest] = block.filter((line) => line !== "");
  const sender = /^[^:：\d<>]{1,30}[:：][^<>]{0,200}<([^<>\s]{1,300})>$/.exec(from)?.[1];
  if (sender === undefined || !/^[-_=—–]{5,200}$/.test(rule) || !isOwn(sender.toLowerCase())) return false;
  const end = rest.findIndex((line) => !/^[^:：\d<>]{1,30}[:：]./.test(line));
  const fields = end < 0 ? rest : rest.slice(0, end);
  return (
    fields.length >= 3 && fields.some((line) => /\p{Nd}{4}/u.test(line)) && fields.some((line) => line.includes("@"))
  );
}

/** True for "Re:" and its translations. */
export const isReplySubject = (subject: string): boolean => replyPrefixes.has(prefixOf(subject));

/** Returns the prefix of a subject in lower case, after the tag of a list ("[shop] Re: ..."); "" without a prefix. */
const prefixOf = (subject: string): string => {
  const text = subject.slice(0, 200);
  const word =
    /^\s{0,10}(?:\[[^\]:：]{1,60}\]\s{0,10})?\[?([^\s:：[\](]{1,20})\s{0,5}(?:\[\d{1,3}\]|\(\d{1,3}\))?\s{0,5}[:：]/u;
  return word.exec(text)?.[1]?.toLowerCase() ?? "";
};

/** The marker in the text and the HTML of sent messages. */
const marker = /\[ref:bh-([0-9a-z]{8,64})\]/g;

/** Returns the tokens of all markers in a text, in order and without duplicates. */
export function findMarkers(text: string): string[] {
  if (!text.includes("[ref:bh-")) return [];
  return [...new Set([...text.matchAll(marker)].map(([, token]) => token as string))].slice(0, 20);
}

/** Returns the draft's key in a Message-ID that we created (with or without brackets), or null.
 *  `domains`: the domains of our addresses, lower case. */
export function keyIn(messageId: string, domains: ReadonlySet<string>): string | null {
  const [, key, domain] = /^<?([a-z0-9]{4,64})\.bridgehead@([^>\s]{1,255})>?$/.exec(messageId.trim()) ?? [];
  return key !== undefined && domains.has((domain ?? "").toLowerCase()) ? key : null;
}

/** Returns the part after the @, lower case. */
export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}

/** Returns the address without the text after a plus sign, and that text (null without a plus sign). */
export function withoutPlus(address: string): readonly [string, string | null] {
  const [, local, plus, domain] = /^([^+@]+)\+([^@]*)(@.+)$/.exec(address) ?? [];
  return local === undefined ? [address, null] : [`${local}${domain}`, plus ?? ""];
}

/** Longer texts are truncated; a person does not write that much. In characters. */
export const maxTextLength = 1_000_000;

/** Controls except tab and newline, zero-width, bidi and tag characters, and soft hyphens. All of them
 *  can hide text from a human reader. */
// biome-ignore format: one class per line reads best
const invisible =
  /\u034f|\u17b4|\u17b5|\u180b|\u180c|\u180d|\u180f|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{1d173}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]/gu;
/** Joiners have a function inside text of some scripts and in emoji. Next to ASCII or in runs they only
 *  hide content. */
const idleJoiners = /[\u200c\u200d]{2,}|(?<=^|[\u0000-\u007f])[\u200c\u200d]|[\u200c\u200d](?=$|[\u0000-\u007f])/gu;

/** Removes characters that a reader cannot see. Line ends become `\n`, and lone surrogates become U+FFFD. */
export function cleanText(text: string): string {
  const bounded = text.length > maxTextLength ? text.slice(0, maxTextLength) : text;
  if (!/[^\t\n\x20-\x7e]/.test(bounded)) return bounded;
  return bounded
    .toWellFormed()
    .replace(/\r\n?|[\u0085\u2028\u2029]/g, "\n")
    .replace(invisible, "")
    .replace(idleJoiners, "")
    .replace(/\u00a0/g, " ");
}

/** Marks a ">" that the sender typed, until the text is trimmed. A private-use character. */
const typedMark = "\ue0c2";
/** Marks the text of a container in which mail clients put a signature, until the text is trimmed. A private-use character. */
export const signatureMark = "\ue0c3";

/** Removes the marks that `unflow` and `htmlToText` have set. */
export const withoutMarks = (text: string): string => text.replaceAll(typedMark, "").replaceAll(signatureMark, "");

/** Decodes format=flowed (RFC 3676): joins the lines of a paragraph, and keeps the quote depth of each.
 *  Lines of different depth are never joined (section 4.5), a leading space is removed (4.4), and "-- "
 *  is always a separate line (4.3). `delSp`: the space at the end of a joined line is not part of the
 *  text (4.2). A ">" after the removed space is not a quote mark and gets `typedMark`. */
export function unflow(text: string, delSp: boolean): string {
  const out: string[] = [];
  let paragraph: string[] = [];
  let depth = 0;
  const flush = () => {
    if (paragraph.length > 0)
      out.push(depth > 0 ? `${">".repeat(depth)} ${paragraph.join("")}`.trimEnd() : paragraph.join(""));
    paragraph = [];
  };
  for (const line of text.replace(/\r\n?/g, "\n").split("\n")) {
    let marks = 0;
    while (line[marks] === ">") marks++;
    const content = line.slice(line[marks] === " " ? marks + 1 : marks);
    const flows = content.endsWith(" ") && content !== "-- ";
    if (marks !== depth || content === "-- ") flush();
    depth = marks;
    const typed = content.startsWith(">") && paragraph.length === 0 ? typedMark : "";
    paragraph.push(typed + (flows && delSp ? content.slice(0, -1) : content));
    if (!flows) flush();
  }
  flush();
  return out.join("\n");
}

/** The lines around a clear-signed text and its signature (RFC 9580, 7). */
const armor = {
  text: "-----BEGIN PGP SIGNED MESSAGE-----",
  signature: "-----BEGIN PGP SIGNATURE-----",
  end: "-----END PGP SIGNATURE-----",
};
const armorHeader = /^(?:Hash|Charset|Comment|Version|NotDashEscaped):/;

/** Removes the armor of clear-signed texts: its headers, the signature, and the dash before each line that begins with one.
 *  Incomplete armor is unchanged. */
export function withoutPgpSignature(text: string): string {
  if (!text.includes(armor.text)) return text;
  const lines = text.split("\n");
  const marks = lines.map((line) => line.trimEnd());
  const out: string[] = [];
  let next = 0;
  for (let start = marks.indexOf(armor.text); start >= 0; start = marks.indexOf(armor.text, next)) {
    const signature = marks.indexOf(armor.signature, start);
    const end = signature < 0 ? -1 : marks.indexOf(armor.end, signature);
    if (end < 0) break;
    while (next < start) out.push(lines[next++] ?? "");
    next++;
    while (armorHeader.test(marks[next] ?? "")) next++;
    if (marks[next] === "") next++;
    while (next < signature) out.push((lines[next++] ?? "").replace(/^- /, ""));
    next = end + 1;
  }
  while (next < lines.length) out.push(lines[next++] ?? "");
  return out.join("\n");
}

/** Limits of `boundedText`. */
const bounds = { characters: 20_000, lines: 400, lineLength: 500 };

/** Bounds the text for the patterns: fewer and shorter lines, no runs of blank lines. */
export function boundedText(text: string): string {
  const lines: string[] = [];
  for (const line of text.slice(0, bounds.characters).split("\n")) {
    if (lines.length >= bounds.lines) break;
    const short = line
      .slice(0, bounds.lineLength)
      .replace(/[ \t]{2,}/g, " ")
      .trimEnd();
    if (short !== "" || lines.at(-1) !== "") lines.push(short);
  }
  return lines.join("\n");
}

/** Cleans a value that must stay on one line, such as a subject or a name. */
export function cleanLine(text: string, maxLength = 1000): string {
  return cleanText(text.slice(0, maxLength * 4))
    .replace(/[\n\t]+/g, " ")
    .trim()
    .slice(0, maxLength)
    .toWellFormed();
}

const maxNameLength = 200;

/** Returns a safe file name: no path separators, and no characters that a terminal or shell interprets. */
export function cleanFileName(name: string | null, fallback: string): string {
  const whole = name ?? "";
  const base = cleanLine(whole.length > 1000 ? whole.slice(0, 900) + whole.slice(-100) : whole)
    .replace(/[\\/:*?"<>|]+/g, "_")
    .replace(/^[.\s_]+/, "")
    .replace(/[.\s]+$/, "");
  if (base === "") return fallback;
  return base.length > maxNameLength ? shorten(base) : base;
}

/** Truncates in the middle to keep the file extension. */
function shorten(name: string): string {
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : "";
  return (name.slice(0, maxNameLength - ending.length) + ending).toWellFormed();
}

/** True when the address, or its domain as `@example.com`, is on the list. */
export function isListed(address: string, list: readonly string[]): boolean {
  const domain = address.slice(address.lastIndexOf("@")).toLowerCase();
  return list.some((entry) => {
    const plain = asciiAddress(entry.toLowerCase());
    return plain === address.toLowerCase() || plain === domain;
  });
}

/** Returns a Message-ID for a message without one. It is derived from the content, so the same message
 *  always gets the same id. */
export function surrogateId(digest: string): ExternalId {
  return `<${digest.slice(0, 40)}${surrogateEnd}` as ExternalId;
}

/** The end of surrogate ids. They are unknown to other servers and must not be cited. */
export const surrogateEnd = "@no-message-id.invalid>";

/** Returns the part before the @; "" for a text without one. */
export function localOf(address: string): string {
  return address.slice(0, Math.max(0, address.lastIndexOf("@")));
}

/** Returns the letters and digits of the first 100 characters, in lower case and without accents. */
export function lettersOf(text: string): string {
  const start = text.slice(0, 100);
  if (/^[\x00-\x7f]*$/.test(start)) return start.replace(/[^0-9A-Za-z]+/g, "").toLowerCase();
  return start
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

const daemons = new Set(["mailerdaemon", "maildaemon", "maildeliverysubsystem", "mailsystem", "postmaster"]);

/** True for `mailer-daemon@...` and `postmaster@...`, with or without text after a plus sign, and for
 *  Exchange's own sender. */
export function isDaemon(address: string): boolean {
  if (/^microsoftexchange[0-9a-f]{20,40}@/i.test(address)) return true;
  return daemons.has(lettersOf(localOf(address).split("+", 1)[0] ?? ""));
}

/** The channel's own addresses, and the Message-IDs and tokens by which responses to its messages are recognized. */
export interface Identity {
  /** Lower case, its domain as A-labels; the From address of responses. */
  readonly address: string;
  /** `address` and the aliases. */
  readonly addresses: readonly string[];
  /** Returns the Message-ID of a draft, with angle brackets. */
  messageId(key: SendKey): ExternalId;
  /** Returns the send key in a Message-ID that we created (with or without brackets), or null. */
  keyOf(messageId: string): SendKey | null;
  /** `support+<token>@example.com` */
  tokenAddress(token: ThreadToken): string;
  /** Returns the token when this is one of our addresses with a token, else null. */
  tokenOf(address: string): ThreadToken | null;
  /** Also true for our addresses with any text after a plus sign. */
  isOwn(address: string): boolean;
}

/** Pure. `aliases` may be in other domains. */
export function identity(address: string, aliases: readonly string[]): Identity {
  const main = asciiAddress(address.toLowerCase());
  const addresses = [...new Set([main, ...aliases.map((alias) => asciiAddress(alias.toLowerCase()))])];
  const domains = new Set(addresses.map(domainOf));
  const own = new Set(addresses);
  const domain = domainOf(main);
  return {
    address: main,
    addresses,
    messageId: (key) => `<${key}.bridgehead@${domain}>` as ExternalId,
    keyOf: (messageId) => keyIn(messageId, domains) as SendKey | null,
    tokenAddress: (token) => main.replace(/(\+[^@]*)?@/, `+${token}@`),
    tokenOf(candidate) {
      const [bare, plus] = withoutPlus(asciiAddress(candidate.toLowerCase()));
      return plus !== null && own.has(bare) && /^[a-z0-9]{10,64}$/.test(plus) ? (plus as ThreadToken) : null;
    },
    isOwn(candidate) {
      const plain = asciiAddress(candidate.toLowerCase());
      return own.has(plain) || own.has(withoutPlus(plain)[0]);
    },
  };
}
