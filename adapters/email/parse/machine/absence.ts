// Detects absence messages and other automatic responses by their subject. Includes the values of headers that mark
// automatic messages. Pure.

import type { Mail } from "../mail.ts";

/** `held`: a human decides whether the message is automatic. */
export interface AbsenceFinding {
  readonly kind: "refused" | "held";
  readonly reason: string;
}

/** Finds the subject of an automatic response. People write such subjects too, also when they answer an old mail under a new
 *  subject, so a message is refused only with another sign; it is held when its subject alone has the form of a program or
 *  of an absence message. "Re: On vacation" repeats the subject of a customer or of a program; a human decides. */
export function absenceBySubject(mail: Mail, isOurs: (messageId: string) => boolean): AbsenceFinding | null {
  const { subject, isAnswer } = bareSubject(mail.subject.slice(0, 1000).toLowerCase());
  const rest = afterAbsence(subject);
  if (rest === null) return null;
  const cited = [...mail.inReplyTo, ...mail.references];
  const suppress = firstValue(mail, "x-auto-response-suppress");
  const isAnnounced = announcements.some((start) => subject.startsWith(start));
  const repeats = answerPrefix.test(rest.replace(/^[\s:：–-]{1,5}/, ""));
  const isForm = repeats || /^[\s.!]{0,5}$/.test(rest) || (isAnnounced && /^\s{0,3}[:：]/.test(rest));
  const sign = [
    suppress !== "" && suppress !== "none" && "X-Auto-Response-Suppress",
    mail.returnPath === "" && "the null sender",
    (has(mail, "x-loop") || has(mail, "x-ms-exchange-inbox-rules-loop")) && "a loop header",
    has(mail, "x-auto-response-id") && "X-Auto-Response-Id",
    !isAnswer && repeats && "the subject of the answered mail",
    // A person who answers keeps the subject.
    !isAnswer && isAnnounced && isForm && cited.length > 0 && "the answer to a mail under another subject",
  ].find((one) => one !== false);
  if (sign !== undefined) return { kind: "refused", reason: `an out-of-office subject and ${sign}` };
  const mayBe = isAnswer ? isForm && cited.some(isOurs) : isForm || cited.length > 0;
  return mayBe ? { kind: "held", reason: "an out-of-office subject" } : null;
}

const answerPrefix =
  /^(?:(?:re|aw|antw|sv|odp|r|res|rif|ref|vs|vá|ynt|odg|απ|отв|ответ|回复|答复|回覆)\s?(?:\[\d{1,3}\])?\s?[:：]\s{0,5}){1,3}/;
const tag = /^[[【]([^\]】]{1,60})[\]】]\s{0,5}/;

/** Removes prefixes of answers and tags ("[EXT]"), in any order. A tag that names an automatic response begins the subject:
 *  "[Auto-Reply] My parcel". */
function bareSubject(text: string): { readonly subject: string; readonly isAnswer: boolean } {
  // HCL Notes.
  let subject = text.replace(/^auto: .{1,100}? is out of (?:the )?office.*/, "automatic reply");
  let isAnswer = false;
  for (let step = 0; step < 6; step += 1) {
    const prefix = answerPrefix.exec(subject)?.[0];
    const [whole = prefix, words = ""] = tag.exec(subject) ?? [];
    if (whole === undefined) break;
    isAnswer ||= prefix !== undefined;
    subject = subject.slice(whole.length);
    if (afterAbsence(words.trim()) === "") return { subject: `${words.trim()}: ${subject}`, isAnswer };
  }
  return { subject, isAnswer };
}

/** How programs begin the subject of an automatic response, by language; lower case. */
const announcements: readonly string[] = [
  "out of office autoreply|out of office auto-reply|out of office reply|out of office:|automatic reply|auto reply|auto-reply|autoreply|auto response|auto-response|autoresponse|vacation reply|automated response|automated reply|autoresponder",
  "automatische antwort|automatische abwesenheitsnotiz|abwesenheitsnotiz|autoantwort|message d'absence|réponse automatique|reponse automatique|respuesta automática|respuesta automatica|respuesta de ausencia",
  "risposta automatica|automatisch antwoord|automatische beantwoording|afwezigheidsbericht|resposta automática|resposta automatica|resposta automàtica",
  "automatyczna odpowiedź|odpowiedź automatyczna|autoodpowiedź|autosvar|automatiskt svar|automatisk svar|automaattinen vastaus|poissaoloviesti",
  "automatická odpověď|automatická odpoveď|автоответ|автоматический ответ|автоматична відповідь|автоматичен отговор",
  "otomatik yanıt|otomatik cevap|automatikus válasz|răspuns automat|raspuns automat|αυτόματη απάντηση|automatinis atsakymas",
  "automātiskā atbilde|automātiska atbilde|automaatvastus|automatski odgovor|samodejni odgovor|自動応答|自動返信|自动回复|自动答复|自動回覆",
  "자동 회신|자동 응답|תשובה אוטומטית|מענה אוטומטי|رد تلقائي|trả lời tự động|balasan otomatis|ตอบกลับอัตโนมัติ|การตอบกลับอัตโนมัติ|स्वचालित उत्तर",
].flatMap((words) => words.split("|"));

/** How people and programs begin the subject of an absence message, by language; lower case. */
const absences: readonly string[] = [
  "out of office|out of the office|ooo|i am away|on vacation|on leave|away from my mail|i am out of office|i am out of the office",
  "i'm out of office|i'm out of the office|i am currently out of the office|i am on vacation|i'm on vacation|i am on leave|i'm on leave",
  "abwesenheit|abwesend|nicht im büro|ich bin im urlaub|außer haus",
  "absence du bureau|absent du bureau|absente du bureau|absence :|en congé|en congés",
  "fuera de la oficina|fuera de oficina|ausente de la oficina|fuori sede|fuori ufficio|assente dall'ufficio",
  "niet aanwezig|afwezig|afwezigheid|buiten kantoor|ausência do escritório|fora do escritório|ausência temporária",
  "nieobecność|poza biurem|frånvaro|ej på kontoret|frånvarande|fravær|fraværsmelding|ikke på kontoret|ikke til stede|fraværende",
  "poissa toimistosta|poissaolo|lomalla|mimo kancelář|nepřítomnost|mimo kancelárie|neprítomnosť",
  "нет на рабочем месте|вне офиса|в отпуске|ofis dışında|iş yeri dışında|irodán kívül|házon kívül|plecat din birou|în concediu",
  "εκτός γραφείου|不在通知|不在:|不在：|外出中|外出办公|不在办公室|부재 중|부재중|מחוץ למשרד|خارج المكتب|vắng mặt",
].flatMap((words) => words.split("|"));

/** Returns the text after the phrase with which an out-of-office subject (lower case) begins; null for another subject. */
function afterAbsence(subject: string): string | null {
  for (const words of startsByLetter.get(subject.charAt(0)) ?? []) {
    if (!subject.startsWith(words)) continue;
    const rest = subject.slice(words.replace(/[:：]$/, "").length);
    // "Afwezig" does not begin "Afwezigheidsverzekering". Other scripts write without spaces.
    if (!/^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]/u.test(rest)) return rest;
  }
  return subject.endsWith(")") && starts.some((words) => subject.endsWith(`(${words})`)) ? "" : null;
}
const starts = [...announcements, ...absences];
/** Few of them begin like a subject. */
const startsByLetter = Map.groupBy(starts, (words) => words.charAt(0));

type Headers = Pick<Mail, "headers">;

/** Returns the first value of that header, lower case, without comments and parameters; "" when absent. */
export function firstValue(mail: Headers, name: string): string {
  const value = mail.headers.find((header) => header.name === name)?.value;
  return value === undefined ? "" : normalized(value);
}

/** Returns the values of all headers of that name, in the form of `firstValue`. */
export const allValues = (mail: Headers, name: string): string[] =>
  mail.headers.filter((header) => header.name === name).map(({ value }) => normalized(value));

const normalized = (value: string): string => (value.slice(0, 500).split(/[;(]/, 1)[0] ?? "").trim().toLowerCase();

/** True when the message has a header of that name. */
export function has(mail: Headers, name: string): boolean {
  return mail.headers.some((header) => header.name === name);
}
