// Detects absence messages and other automatic responses by their subject. Pure.

import type { Mail } from "../mail.ts";
import { firstValue, has } from "./header-values.ts";

/** `held`: a human decides whether the message is automatic. */
export interface AbsenceFinding {
  readonly kind: "refused" | "held";
  readonly reason: string;
}

/** Finds the subject of an automatic response. People also write "Out of office" themselves, so the subject alone suffices
 *  only in the form of programs ("Automatic reply: ..."). An answer to our mail repeats the subject of the customer, so
 *  "Re: On vacation" may be by a person, and a human decides. */
export function absenceBySubject(mail: Mail, isOurs: (messageId: string) => boolean): AbsenceFinding | null {
  const tagless = mail.subject.toLowerCase().replace(/^(?:\[[^\]]{1,60}\]\s{0,5}){1,3}/, "");
  const subject = tagless.replace(answerPrefix, "");
  const isAnswer = subject !== tagless;
  const rest = afterAbsence(subject);
  if (rest === null) return null;
  const cited = [...mail.inReplyTo, ...mail.references];
  const suppress = firstValue(mail, "x-auto-response-suppress");
  const sign = [
    suppress !== "" && suppress !== "none" && "X-Auto-Response-Suppress",
    mail.returnPath === "" && "the null sender",
    (has(mail, "x-loop") || has(mail, "x-ms-exchange-inbox-rules-loop")) && "a loop header",
    has(mail, "x-auto-response-id") && "X-Auto-Response-Id",
    // A person who answers keeps the subject.
    !isAnswer && cited.length > 0 && "the answer to a mail under another subject",
    !isAnswer && /^\s{0,3}[:：]/.test(rest) && isAnnounced(subject, rest) && "the form of a program",
  ].find((one) => one !== false);
  if (sign !== undefined) return { kind: "refused", reason: `an out-of-office subject and ${sign}` };
  const mayBe = isAnswer ? cited.some(isOurs) : /^[\s.!]{0,5}$/.test(rest);
  return mayBe ? { kind: "held", reason: "an out-of-office subject" } : null;
}

const answerPrefix = /^(?:(?:re|aw|antw|sv|odp)\s?:\s{0,5}){1,3}/;

/** True when the subject announces an automatic response, or the answered subject follows the phrase. */
const isAnnounced = (subject: string, rest: string): boolean =>
  announcements.some((start) => subject.startsWith(start)) ||
  answerPrefix.test(rest.replace(/^\s{0,3}[:：]\s{0,3}/, ""));

/** How programs begin the subject of an automatic response, by language; lower case. */
const announcements: readonly string[] = [
  "automatic reply|auto reply|auto-reply|autoreply|auto response|auto-response|autoresponse|vacation reply|automated response|automated reply|autoresponder",
  "automatische antwort|autoantwort|réponse automatique|reponse automatique|respuesta automática|respuesta automatica|respuesta de ausencia",
  "risposta automatica|automatisch antwoord|automatische beantwoording|resposta automática|resposta automatica|resposta automàtica",
  "automatyczna odpowiedź|odpowiedź automatyczna|autoodpowiedź|autosvar|automatiskt svar|automatisk svar|automaattinen vastaus",
  "automatická odpověď|automatická odpoveď|автоответ|автоматический ответ|автоматична відповідь|автоматичен отговор",
  "otomatik yanıt|otomatik cevap|automatikus válasz|răspuns automat|raspuns automat|αυτόματη απάντηση|automatinis atsakymas",
  "automātiskā atbilde|automātiska atbilde|automaatvastus|automatski odgovor|samodejni odgovor|自動応答|自動返信|自动回复|自动答复|自動回覆",
  "자동 회신|자동 응답|תשובה אוטומטית|מענה אוטומטי|رد تلقائي|trả lời tự động|balasan otomatis|ตอบกลับอัตโนมัติ|การตอบกลับอัตโนมัติ|स्वचालित उत्तर",
].flatMap((words) => words.split("|"));

/** How people and programs begin the subject of an absence message, by language; lower case. */
const absences: readonly string[] = [
  "out of office|out of the office|ooo:|i am away|on vacation|on leave|away from my mail",
  "abwesenheitsnotiz|abwesenheit|abwesend|nicht im büro|ich bin im urlaub|außer haus",
  "absence du bureau|absent du bureau|message d'absence|absence :|en congé",
  "fuera de la oficina|fuera de oficina|ausente de la oficina|fuori sede|fuori ufficio|assente dall'ufficio",
  "afwezigheidsbericht|niet aanwezig|afwezig|buiten kantoor|ausência do escritório|fora do escritório|ausência temporária",
  "nieobecność|poza biurem|frånvaro|ej på kontoret|frånvarande|fravær|ikke på kontoret|ikke til stede|fraværende",
  "poissa toimistosta|poissaoloviesti|poissaolo|lomalla|mimo kancelář|nepřítomnost|mimo kancelárie|neprítomnosť",
  "нет на рабочем месте|вне офиса|в отпуске|ofis dışında|iş yeri dışında|irodán kívül|házon kívül|plecat din birou|în concediu",
  "εκτός γραφείου|不在通知|不在:|不在：|外出中|外出办公|不在办公室|부재 중|부재중|מחוץ למשרד|خارج المكتب|vắng mặt",
].flatMap((words) => words.split("|"));

/** Returns the text after the phrase with which an out-of-office subject (lower case) begins; null for another subject. */
function afterAbsence(subject: string): string | null {
  const isEnd = (words: string) => subject.endsWith(`(${words})`);
  const starts = [...announcements, ...absences];
  const start = starts.find((words) => subject.startsWith(words));
  if (start !== undefined) return subject.slice(start.replace(/[:：]$/, "").length);
  return starts.some(isEnd) ? "" : null;
}
