// Reduces a message to the sender's new text: without quoted messages, warnings of gateways above it, and text that mail
// clients and templates add below it. It makes one pass over the lines, so the work is linear in the length of the text. In
// doubtful cases the whole text is kept, because extra text is better than a lost sentence.

import { signatureMark } from "../headers.ts";
import { attributionIn, isRule, type ScanOptions, scan, type TextLine } from "./lines.ts";
import { greetings, inlineHints } from "./phrases.ts";
import { hasName, hasOurMarker, isClosing, isCompanyFooter, signatureStart } from "./signature.ts";

export interface Trimmed {
  /** All of the text when too little would have been left. */
  readonly text: string;
  /** True when a forwarded message starts in the text, independent of the subject. Always false for the relation `forward`. */
  readonly forwards: boolean;
}

export interface TrimOptions {
  /** What the message answers. `ours`: a response to one of our messages; only here are unmarked quotes removed.
   *  `reply`: a response to another message; marked quotes (`>`) at its end are removed. `new`: answers nothing; marked
   *  quotes are removed only below the attribution of a mail client. `forward`: is never trimmed. */
  readonly relation: "ours" | "reply" | "new" | "forward";
  /** For `ours`: true for our addresses and the sender's own. Quoted messages of others are content.
   *  Default: every address. */
  readonly isOwn?: (address: string) => boolean;
  /** Parts of the sender's name, lower case; they distinguish a signature from a list. */
  readonly names?: readonly string[];
  /** True when the HTML has coloured text inside a quote. This text is an answer, so nothing is removed. */
  readonly inlineAnswers?: boolean;
}

/** Texts with more lines are not trimmed. */
const maxLines = 100_000;
/** Characters before a quote that are searched for a hint that the answers are inside it. */
const maxHint = 4000;

/** Removes trailing quotes and signatures, and a quote above the answer. Quotes between answers are kept. Returns the
 *  whole text when only a greeting would be left, or when the answers seem to be inside the part to cut. */
export function trimReply(text: string, options: TrimOptions = { relation: "ours" }): Trimmed {
  const full = text.trim();
  const all = full.split("\n", maxLines + 1);
  if (options.relation === "forward" || all.length > maxLines) return { text: full, forwards: false };
  const texts = withoutBanner(all);
  const whole = { text: texts.join("\n").trim(), forwards: false };
  const lines = scanned(texts, { tails: options.relation === "ours", isOwn: options.isOwn ?? (() => true) });
  if (lines.some((line) => line.kind === "forward")) return { ...whole, forwards: true };
  const body = beforeTail(lines);
  if (options.inlineAnswers || body === null) return whole;
  const kept = keep(body, options);
  const names = options.names ?? [];
  if (isBare(kept, names) || answersInside(lines, kept, names)) return whole;
  const rest = kept
    .map((line) => line.text)
    .join("\n")
    .trim();
  return rest === "" ? whole : { text: rest, forwards: false };
}

/** True when the sender wrote no text: all of it is quoted, or a signature. */
export function isWordless(text: string): boolean {
  const texts = text.trim().split("\n", maxLines + 1);
  if (texts.length > maxLines) return false;
  const lines = scanned(withoutBanner(texts), { tails: true, isOwn: () => true });
  const tail = lines.findIndex((line) => line.kind === "tail");
  const written = withoutTrailingQuote(tail < 0 ? lines : lines.slice(0, tail), "ours");
  const signature = signatureStart(written);
  return !(signature < 0 ? written : written.slice(0, signature)).some(
    (line) => line.kind === "own" || line.kind === "forward",
  );
}

/** Scans lines with marks of signatures, and removes the marks. */
function scanned(texts: readonly string[], options: ScanOptions): readonly TextLine[] {
  if (!texts.some((text) => text.includes(signatureMark))) return scan(texts, options);
  const unmarked = texts.map((text) => text.replaceAll(signatureMark, ""));
  return scan(unmarked, options).map(
    (line, at): TextLine => (beginsSigned.test(texts[at] ?? "") ? { ...line, signed: true } : line),
  );
}

/** Marks of lists are written in front of the text. */
const beginsSigned = new RegExp(`^[^\\p{L}\\p{N}${signatureMark}]{0,20}${signatureMark}`, "u");

function keep(body: readonly TextLine[], { relation, names }: TrimOptions): readonly TextLine[] {
  let rest = body;
  for (let round = 0; round < 5; round++) {
    const shorter = withoutSignature(withoutTrailingQuote(rest, relation), names);
    if (shorter.length === rest.length) break;
    rest = shorter;
  }
  return withoutLeadingQuote(rest, relation);
}

/** Returns the lines before an unmarked quote that extends to the end; null when the sender's are below or inside of it. */
function beforeTail(lines: readonly TextLine[]): readonly TextLine[] | null {
  const tail = lines.findIndex((line) => line.kind === "tail");
  if (tail < 0) return lines;
  return lines.slice(0, tail).some((line) => line.kind === "own") ? lines.slice(0, tail) : null;
}

/** Removes the trailing quote, and blank lines at the end. */
function withoutTrailingQuote(lines: readonly TextLine[], relation: TrimOptions["relation"]): readonly TextLine[] {
  let end = lines.length;
  while (end > 0 && (lines[end - 1]?.kind === "blank" || lines[end - 1]?.kind === "quote")) end--;
  if (end === lines.length) return lines;
  const cut = lines.slice(end);
  if (relation === "new" && !isIntroduced(cut)) return lines;
  if (mayBeTyped(cut)) return lines;
  // A rule above the quote belongs to it.
  if (cut.some(isQuote) && isRule((lines[end - 1]?.text ?? "").trim())) end--;
  return lines.slice(0, end);
}

/** True when a mail client announces the quote: with an attribution above it or in its first lines. */
const isIntroduced = (quote: readonly TextLine[]): boolean =>
  attributionsOf(quote).some((attribution) => attribution?.byProgram);

const attributionsOf = (quote: readonly TextLine[]) => {
  const texts = quote.filter(isQuote).slice(0, 4).map(wordsIn);
  return [1, 2, 3, 4].map((count) => attributionIn(texts.slice(0, count).join(" ").slice(0, 1000)));
};

/** True for a few lines with ">" directly below the author's text: "I press" and "> File > Export". */
const mayBeTyped = (quote: readonly TextLine[]): boolean =>
  quote[0]?.kind === "quote" &&
  quote.filter(isQuote).length <= 2 &&
  !quote.some(hasOurMarker) &&
  attributionsOf(quote).every((one) => one === null);

function withoutSignature(lines: readonly TextLine[], names: readonly string[] = []): readonly TextLine[] {
  const start = signatureStart(lines, names);
  const kept = start < 0 ? lines : lines.slice(0, start);
  return kept.some((line) => line.kind === "own") ? kept : lines;
}

/** Removes a single quote above the answer. With more quotes the message is a dialogue and is kept whole. */
function withoutLeadingQuote(lines: readonly TextLine[], relation: TrimOptions["relation"]): readonly TextLine[] {
  const firstOwn = lines.findIndex((line) => line.kind === "own");
  if (firstOwn <= 0 || lines.slice(0, firstOwn).some((line) => line.kind === "tail")) return lines;
  if (relation === "new" && !isIntroduced(lines.slice(0, firstOwn))) return lines;
  const dialogue = lines.slice(firstOwn).some((line) => line.kind === "quote");
  return dialogue ? lines : lines.slice(firstOwn);
}

/** True when only a greeting, a closing phrase and the sender's name are left. */
function isBare(lines: readonly TextLine[], names: readonly string[]): boolean {
  const own = lines.filter((line) => line.kind === "own");
  if (own.length > 8) return false;
  let closed = false;
  return own.every(({ text }) => {
    const line = text.trim();
    if (isClosing(line)) closed = true;
    const words = line.toLowerCase().split(/[^\p{L}\p{M}]+/u);
    const name = line.length < 40 && (closed || words.every((word) => word === "" || names.includes(word)));
    return isClosing(line) || isGreeting(line) || (name && !/[\d?\p{Extended_Pictographic}]/u.test(line));
  });
}

function isGreeting(line: string): boolean {
  if (line.length > 80 || /[\d?？]/.test(line) || /[,，!！.。:;].*\p{L}/u.test(line)) return false;
  const lower = line.toLowerCase();
  return greetings.some(
    (greeting) =>
      lower.startsWith(greeting) && (greeting.length > 3 || !/^[\p{L}\p{M}]/u.test(lower.slice(greeting.length))),
  );
}

/** True when the customer seems to have written into the quoted message, so that cutting it would lose the answers. */
function answersInside(lines: readonly TextLine[], kept: readonly TextLine[], names: readonly string[]): boolean {
  const last = kept.at(-1);
  const cut = lines.slice(last === undefined ? 0 : lines.lastIndexOf(last) + 1);
  const marked = cut.filter(isQuote);
  const unmarked = cut.some((line) => line.kind === "tail");
  if (!unmarked && marked.length === 0) return false;
  if (hasWordsBelowMarker(cut, names) || (unmarked && hasWordsBelowQuote(cut, names))) return true;
  if (cut.some(({ text }) => isComment(text, names))) return true;
  // Below "It prints this:" only an attribution distinguishes a quoted message from other text that the
  // customer quotes.
  if (leadsIn(kept) && (unmarked || !isIntroduced(marked))) return true;
  // With quotes between the answers, the answers are in the kept text.
  return !kept.some(isQuote) && pointsInside(kept);
}

const isQuote = (line: TextLine) => line.kind === "quote";
/** Without the marks of a quote. */
const wordsIn = (line: TextLine) => line.text.replace(/^[>\s]{1,50}/, "").trimEnd();

/** True below "[Anna Doe]", with which Outlook begins what its user types into the quoted message. */
function isComment(text: string, names: readonly string[]): boolean {
  const name = /^[>\s]{0,20}\[([^[\]]{2,60})\]/.exec(text)?.[1];
  return name !== undefined && hasName(name, names);
}

/** True for a line such as "Here is my answer:" above the quote. */
function leadsIn(kept: readonly TextLine[]): boolean {
  const last = kept.findLast((line) => line.kind === "own");
  return last !== undefined && /[:：]\s*$/.test(last.text.slice(-20)) && !isGreeting(last.text.trim());
}

/** True when text after our marker inside the quote was written below our text. */
function hasWordsBelowMarker(cut: readonly TextLine[], names: readonly string[]): boolean {
  const marker = cut.findLastIndex(hasOurMarker);
  if (marker < 0) return false;
  return hasWords(cut.slice(marker + 1), names);
}

/** True when the lines, quoted or not, contain more than a signature and the footer that a company's mail server adds. */
function hasWords(lines: readonly TextLine[], names: readonly string[]): boolean {
  let rest = lines.map((line): TextLine => {
    const text = wordsIn(line);
    return { ...line, text, kind: text === "" ? "blank" : "own" };
  });
  for (let round = 0; round < 3; round++) {
    const signature = signatureStart(rest, names);
    if (signature < 0) break;
    rest = rest.slice(0, signature);
  }
  const texts = rest.flatMap(({ text, kind }) => (kind === "blank" ? [] : [text]));
  return texts.length > 0 && !isCompanyFooter(texts);
}

/** True when marked and other lines alternate in a quote that began without marks: the sender answers in it. A quote whose
 *  last line, our marker, has no mark was not marked by the mail program: its `>` lines are those of our own mail, such as
 *  the transcript of a notification. */
function hasWordsBelowQuote(cut: readonly TextLine[], names: readonly string[]): boolean {
  const marker = cut.findLast(hasOurMarker);
  if (marker !== undefined && !isQuote(marker)) return false;
  const quote = cut.findIndex(isQuote);
  const unquoted = cut.slice(quote).filter((line) => !isQuote(line));
  return quote >= 0 && hasWords(unquoted, names);
}

/** True for a hint such as "See my answers below in red", in one sentence. */
function pointsInside(kept: readonly TextLine[]): boolean {
  const text = kept
    .map((line) => line.text.slice(0, maxHint))
    .slice(0, 200)
    .join("\n")
    .slice(0, maxHint)
    .toLowerCase();
  // Most texts contain no hint at all.
  const whole = text.replace(/\s+/g, " ");
  const hints = inlineHints.filter(({ answers, places }) => answers.test(whole) && places.test(whole));
  if (hints.length === 0) return false;
  return text
    .split(/[.!?。！？]\s|\n\s{0,20}\n|[。！？]/)
    .map((sentence) => sentence.replace(/\s+/g, " "))
    .some((sentence) => hints.some(({ answers, places }) => answers.test(sentence) && places.test(sentence)));
}

/** Paragraphs of a gateway's warning, the lines of one that are inspected, and their characters. */
const bannerParagraphs = 5;
const bannerLines = 8;
const bannerLength = 900;
/** Lines between the two marks of Proofpoint's warning. */
const markedLines = 30;
/** A program that wraps text breaks lines of this length, in characters. */
const leastWrapped = 66;

/** Returns the lines without a gateway's warning at the top. Returns all lines when nothing else would be left. Customers write
 *  about links as well, so each rule asks for the form of a warning and not for single words. */
export function withoutBanner(lines: readonly string[]): readonly string[] {
  let rest = lines;
  for (let round = 0; round < bannerParagraphs; round++) {
    const after = afterBanner(rest);
    if (after === null) break;
    rest = after;
  }
  return rest.some((line) => line.trim() !== "") ? rest : lines;
}

/** Returns the rest of the lines when the first paragraph begins with a warning; else null. */
function afterBanner(lines: readonly string[]): readonly string[] | null {
  const start = lines.slice(0, bannerLines).findIndex((line) => line.trim() !== "");
  if (start < 0) return null;
  const top = lines.slice(start, start + markedLines);
  if (top[0]?.includes("ZjQcmQRYFpfptBannerStart")) {
    const end = top.findIndex((line) => line.includes("ZjQcmQRYFpfptBannerEnd"));
    return lines.slice(start + 1 + Math.max(0, end));
  }
  const blank = top.slice(0, bannerLines).findIndex((line) => line.trim() === "");
  const paragraph = top.slice(0, blank < 0 ? bannerLines : blank).map((line) => line.trim().slice(0, bannerLength));
  const tip = paragraph.findIndex((line) => tipLink.test(line));
  if (tip >= 0 && isTip(paragraph.slice(0, tip + 1))) {
    const below = (lines[start + tip] ?? "").split(tipLink)[1]?.trim() ?? "";
    return [...(below === "" ? [] : [below]), ...lines.slice(start + tip + 1)];
  }
  let left = lengthOfBanner(joined(paragraph));
  if (left === 0) return null;
  for (const [at, line] of paragraph.entries()) {
    if (left <= 0) return lines.slice(start + at);
    const whole = (lines[start + at] ?? "").trimStart();
    if (left < line.length) return [whole.slice(left).trimStart(), ...lines.slice(start + at + 1)];
    left -= line.length + 1;
  }
  return lines.slice(start + paragraph.length);
}

/** Exchange's tip about an unknown sender has the sender's address and this link in every language, on a line or two. */
const tipLink = /[<([]?https?:\/\/aka\.ms\/LearnAboutSenderIdentification[>)\]]?/;
const isTip = (lines: readonly string[]): boolean =>
  joined(lines).includes("@") && !joined(lines).includes("\n") && lines.length <= 2;

/** Joins the lines of a sentence that a program has wrapped. Other lines keep their line break, which ends a sentence: the
 *  author's text can follow a warning without a blank line. */
function joined(lines: readonly string[]): string {
  let text = "";
  for (const [at, line] of lines.entries()) {
    const wrapped = (lines[at - 1]?.length ?? 0) >= leastWrapped && /^\p{Ll}/u.test(line);
    text += at === 0 ? line : `${wrapped ? " " : "\n"}${line}`;
  }
  return text.slice(0, bannerLength);
}

/** Titles of a warning; a sign must follow, because "External monitor" begins a question. */
const titles =
  "caution|warning|attention|alert|notice|external|extern(?:e[rns]?)?|externo|externa|esterno|esterna|achtung|vorsicht|warnung|hinweis|prudence|précaución|precaución|advertencia|aviso|attenzione|avviso|let op|waarschuwing|cuidado|atenção|uwaga|ostrzeżenie|varning|obs|advarsel|d[iİ]kkat|uyarı|внимание|осторожно|注意|警告";
const mails =
  "e-?mail|mail|message|sender|nachricht|absender|courriel|expéditeur|correo|remitente|mittente|bericht|afzender|mensagem|remetente|wiadomość|nadawca|avsändare";
const title = new RegExp(`^[[(*_ ]{0,6}(?:${titles})(?:[ -](?:${mails}))?\\s?[\\])*_:：!–—-]{1,6}`, "iu");
const titleAlone = new RegExp(`^[[(*_ ]{0,6}(?:${titles})(?:[ -](?:${mails}))?[\\s\\])*_:：!–—-]{0,6}$`, "iu");
/** A title in brackets that is a warning alone. */
const bracketed = new RegExp(
  `^[[(*_]{1,3} ?(?:external|extern(?:e[rns]?)?|externo|esterno)(?:[ -](?:${mails}))? ?[\\])*_]{1,3}[:!.]?$`,
  "iu",
);
/** A sentence that is a warning alone. */
const certain =
  /^this (?:e-?mail|message|mail) (?:is|was|came|comes|originate[sd]|has been)(?: sent| received)?(?: from)?(?: an?)? (?:outside|external|untrusted)(?: (?:of|your|the|our|sender|source|organi[sz]ation|company|network|e-?mail|domain)){1,4}[.!]?$/i;

/** By language: how the sentence about the origin begins, its words for the outside, and how the advice begins. */
const languages: readonly (readonly [origin: string, outside: string, advice: string])[] = [
  [
    "(?:this|the) (?:e-?mail|message|mail)",
    "outside|external|untrusted",
    "(?:please )?(?:(?:do not|don['’]t|never) (?:click|open|reply|respond|follow)|avoid (?:clicking|opening)|think before|(?:please )?(?:use|exercise) caution|be (?:careful|cautious|vigilant))",
  ],
  [
    "(?:diese|die) (?:e-?mail|mail|nachricht)",
    "extern|außerhalb|ausserhalb",
    "(?:bitte )?(?:(?:klicken|öffnen) sie (?:\\p{L}{1,12} ){0,3}(?:nicht|keine|nur)|seien sie vorsichtig)",
  ],
  [
    "(?:ce|cet|cette) (?:e-?mail|mail|courriel|message)",
    "extérieur|externe|en dehors",
    "(?:veuillez )?(?:ne cliquez|ne pas cliquer|n['’]ouvrez)",
  ],
  ["este (?:correo|mensaje|e-?mail)", "fuera|extern", "no (?:haga|abra|responda)"],
  [
    "(?:questa|questo) (?:e-?mail|mail|messaggio)",
    "estern|al di fuori",
    "(?:si prega di )?non (?:cliccare|aprire|fare clic|rispondere)",
  ],
  ["(?:deze|dit) (?:e-?mail|mail|bericht)", "buiten|extern", "(?:klik|open) (?:niet|geen)"],
  ["(?:este|esta) (?:e-?mail|mensagem)", "fora|extern", "não (?:clique|abra|responda)"],
  ["(?:ta|ten) (?:wiadomość|e-?mail)", "spoza|zewn", "nie (?:klikaj|otwieraj)"],
  [
    "(?:detta|det här|denne|dette) \\p{L}{1,20}",
    "extern|ekstern|utanför|uden for|utenfor",
    "(?:klicka|öppna|klik|åbn|åpne) (?:inte|ikke)",
  ],
  ["bu (?:e-?posta|ileti|mesaj)", "dışından|dış|harici", "göndereni tanımıyorsanız"],
  ["это (?:письмо|сообщение)", "внешн|за предел", "не (?:переходите|открывайте|нажимайте)"],
  ["この(?:メール|メッセージ)", "社外|外部", "送信者が不明|不審な"],
];
const things =
  "click|link|attach|klick|anh[aä]ng|cliqu|lien|pièces|enlace|adjunto|allegat|bijlage|anexo|odnośnik|załącz|länk|bilag|vedhæft|vedlegg|bağlantı|ссыл|вложен|リンク|添付";
/** A sentence with these words. It ends with a sign, or with its line. */
const sentence = (start: string, words: string) =>
  new RegExp(`^(?=${start})(?=[^.!?。！？\\n]{0,200}(?:${words}))[^.!?。！？\\n]{0,400}(?:[.!。！]|(?=\\n|$))`, "iu");
const sentences = languages.flatMap(([origin, outside, advice]) => [
  { kind: "origin" as const, pattern: sentence(origin, outside) },
  { kind: "advice" as const, pattern: sentence(advice, things) },
]);

/** Returns how many characters at the start are a warning: its origin and its advice, or one of them below a title that names
 *  the outside. Customers write about a mail from outside as well, below any title. */
function lengthOfBanner(text: string): number {
  const [first = ""] = text.split("\n", 1);
  if (bracketed.test(first) || certain.test(first.replace(title, "").trim())) return first.length;
  let at = 0;
  const found = { outside: false, origin: false, advice: false };
  for (let step = 0; step < 8 && at < text.length; step++) {
    const here = text.slice(at);
    const heading = title.exec(here)?.[0];
    const match = heading === undefined ? sentences.find(({ pattern }) => pattern.test(here)) : undefined;
    const part = heading ?? match?.pattern.exec(here)?.[0];
    if (part === undefined) break;
    found[match?.kind ?? "outside"] ||= match !== undefined || /extern|estern/i.test(part);
    at += part.length;
    at += /^[\s*_|)\]-]{0,10}/.exec(text.slice(at))?.[0].length ?? 0;
  }
  const { outside, origin, advice } = found;
  return (origin && advice) || (outside && (origin || advice)) ? at : 0;
}

/** True for a warning or a part of it, as gateways write it in colour. "Achtung, nur vormittags!" in red is an answer. */
export function isWarning(text: string): boolean {
  const words = text.slice(0, bannerLength).replace(/\s+/g, " ").trim();
  return titleAlone.test(words) || lengthOfBanner(words) > 0 || sentences.some(({ pattern }) => pattern.test(words));
}
