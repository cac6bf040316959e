// Recognizes what mail servers, gateways and virus scanners write into messages of people: a warning about an external
// sender above the text; a note about a virus check, a confidentiality notice or the facts of a company below it. Customers
// write about links, attachments and viruses as well, so each rule asks for the form of such a text and not for single words.

import { disclaimers } from "./phrases.ts";

/** Lines of one paragraph that are inspected, and their characters. */
const maxLines = 8;
const maxLength = 900;
/** Paragraphs of a warning. */
const maxParagraphs = 5;
/** Lines between the two marks of Proofpoint's warning. */
const maxMarked = 30;
/** A program that wraps text breaks lines of this length, in characters. */
const leastWrapped = 66;

/** Returns the lines without a warning at the top. Returns all lines when nothing else would be left. */
export function withoutBanner(lines: readonly string[]): readonly string[] {
  let rest = lines;
  for (let round = 0; round < maxParagraphs; round++) {
    const after = afterBanner(rest);
    if (after === null) break;
    rest = after;
  }
  return rest.some((line) => line.trim() !== "") ? rest : lines;
}

/** Returns the rest of the lines when the first paragraph begins with a warning; else null. */
function afterBanner(lines: readonly string[]): readonly string[] | null {
  const start = lines.slice(0, maxLines).findIndex((line) => line.trim() !== "");
  if (start < 0) return null;
  const top = lines.slice(start, start + maxMarked);
  if (top[0]?.includes("ZjQcmQRYFpfptBannerStart")) {
    const end = top.findIndex((line) => line.includes("ZjQcmQRYFpfptBannerEnd"));
    return lines.slice(start + 1 + Math.max(0, end));
  }
  const blank = top.slice(0, maxLines).findIndex((line) => line.trim() === "");
  const paragraph = top.slice(0, blank < 0 ? maxLines : blank).map((line) => line.trim().slice(0, maxLength));
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
  return text.slice(0, maxLength);
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
  const words = text.slice(0, maxLength).replace(/\s+/g, " ").trim();
  return titleAlone.test(words) || lengthOfBanner(words) > 0 || sentences.some(({ pattern }) => pattern.test(words));
}

const virusFree =
  /^(?:virus-?free|virenfrei|garanti sans virus|sans virus|libre de virus|(?:mail )?priva di virus|virusvrij|livre de vírus|wolny od wirusów|без вирусов|virüs bulunmuyor|bez virů|vírusmentes)[.\s]{0,3}[<[]?(?:https?:\/\/)?www\.(?:avast|avg)\.\S{1,300}(?:\s[<[]\S{1,900}){0,3}$/iu;
const noteStarts =
  /^(?:(?:this|the) (?:e-?mail|message|mail)|information from|diese (?:e-?mail|nachricht|mail)|l['’]absence de virus|ce (?:courrier|message)|cet e-?mail|este (?:correo|mensaje|e-?mail)|el software|questa (?:e-?mail|mail)|deze e-?mail|ta wiadomość|это сообщение|bu e-?posta|tato zpráva)/iu;
const noteWords = /vir(?:us|en)|vírus|wirus|вирус|virüs|scanned|checked|geprüft|\bengine\b/iu;
const scanners =
  /avast|\bavg\b|\beset\b|mailscanner|symantec|messagelabs|kaspersky|bitdefender|sophos|norton|mcafee|avira|g ?data|f-secure|trend ?micro|clamav|mimecast|barracuda|websense/iu;

/** The request not to print the message. */
const printing =
  /(?:before|bevor|avant d|antes de|prima di|voordat|voor u|zanim)(?=[^.?]{0,100}(?:print|druck|imprim|stamp|wydruk))(?=[^.?]{0,100}(?:mail|message|nachricht|courriel|correo|mensa|messaggio|bericht|wiadomo))/iu;
const nature = /environment|umwelt|bäume|trees?\b|environnement|medio ?ambiente|ambiente|milieu|środowisk/iu;
const longestRequest = 300;

/** True for the note of a virus scanner, or the request not to print the message, in one paragraph. */
export function isFooterNote(paragraph: string): boolean {
  if (paragraph.length > maxLength) return false;
  const text = paragraph
    .replace(/[-_=*]{2,}/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  if (text.includes("?") && !text.includes("://")) return false;
  if (text.length <= longestRequest && printing.test(text) && nature.test(text)) return true;
  return virusFree.test(text) || (noteStarts.test(text) && noteWords.test(text) && scanners.test(text));
}

/** True for a confidentiality notice, in one paragraph. */
export function isNotice(text: string): boolean {
  const lower = text.toLowerCase();
  return (
    lower.length >= 60 &&
    !/[?？]/.test(lower) &&
    [disclaimers.secret, disclaimers.reader, disclaimers.mistake].every((words) => words.test(lower))
  );
}

/** Lines of a company's footer. */
const mostFooter = 12;
const register =
  /\bHR[AB]\b|amtsgericht|handelsregister|registergericht|firmenbuch|geschäftsführ|aufsichtsrat|sitz der|ust-?id|registered (?:in|office|number|company)|company (?:no|number|reg)|\bvat\b|capital social|au capital de|\bsiret\b|\brcs\b|registro mercantil|\bcif\b|p\.? ?iva\b|\bkvk\b|\bnip\b|\bkrs\b|\bregon\b|org\.? ?nr|\bcvr\b/i;
/** The other words of such a footer that are not names. */
const legalWords =
  /^(?:regist\p{L}*|offices?|numbers?|company|code|under|with|address|limited|authori[sz]ed|regulated|trading|directors?|and|the|durch|vertreten\p{L}*|siège|social\p{L}*|sede|legale?|capital\p{L}*|iscritt\p{L}*|imprese|statutair\p{L}*|gevestigd|kamer|koophandel|wpisan\p{L}*|rejestr\p{L}*|kapitał|zakładowy)[.:;]?$/iu;
const companyForm =
  /\b(?:GmbH|mbH|AG|KG|UG|SE|Ltd|Limited|plc|LLC|Inc|Corp|SAS|SARL|Oy|AB|ApS|A\/S|[SB]\.? ?[ALV]|S\.? ?[rp]\.? ?[lA]|Sp\. ?z)\b/;

/** True for the name of a company with legal facts and addresses, without any sentence, as servers add them to mail that they
 *  send. `lines`: without blank ones. */
export function isCompanyFooter(lines: readonly string[]): boolean {
  const [first = ""] = lines.map((line) => line.slice(0, maxLength));
  if (!companyForm.test(first) && !register.test(first)) return false;
  if (lines.length > mostFooter || !lines.some((line) => register.test(line.slice(0, maxLength)))) return false;
  return lines.every((line) => {
    if (line.length > maxLength || /[?？]/.test(line)) return false;
    const words = line.replace(/\S{0,100}(?:@|www\.|:\/\/)\S{0,500}/g, " ").split(/[\s|,/·•]+/);
    return words.every((word) => !/^\p{Ll}{3}/u.test(word) || legalWords.test(word));
  });
}
