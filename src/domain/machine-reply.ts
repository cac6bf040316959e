// Recognizes automatic replies to our notifications that carry no header of RFC 3834: absence notes, read receipts,
// confirmations of receipt, challenge-response systems, phones that answer while driving. Such a reply must neither
// acknowledge an escalation nor reach the customer. Pure; called for replies of responders only.

/** `certain`: the subject is that of an automatic reply; no response is sent. `likely`: the responder is
 *  asked to confirm. */
export interface MachineReply {
  readonly level: "certain" | "likely";
  readonly reason: string;
}

/** Number of characters of the text that are examined. Automatic replies identify themselves at the beginning. */
const examined = 4000;

/** Returns the kind of automatic reply; null for a reply by a human. `subject` as received, `text` without quotes. */
export function machineReply(subject: string | undefined, text: string): MachineReply | null {
  return bySubject(subject ?? "") ?? byText(text);
}

/** Prefixes that mail clients add to the subject of a reply or a forward, in all known languages. */
const replyPrefixes = new Set(
  [
    "re|r|aw|antw|antwort|sv|vs|vá|va|odp|ref|réf|rép|rif|res|ynt|yanıt|cevap|atb|bls|balas|tl|hs|hf|sr|sj|sl",
    "απ|σχετ|отв|ответ|на|відп|відповідь|ha|отг|回复|回覆|答复|答覆|返信|답장|回|رد|الرد|השב|תשובה|ตอบ|ตอบกลับ|trả lời|ang|nå",
    "fwd|fw|wg|tr|rv|enc|i|vb|vl|pd|ilt|doorst|转发|轉寄|転送|전달|переслано|пересл|fs|πρθ",
  ].flatMap((words) => words.split("|")),
);
/** Tags in brackets that mail gateways add before the subject. */
const gatewayTag = /^\[(?:ext|extern|external|externe|externo|e|spf|secure|safe|caution)[:!]?\]\s*/u;
const ours = /\[escalation \d{1,9}\]|(?<!\d)\d{1,9} escalations are open/u;

/** Matched anywhere before our own subject, or at the beginning of another subject. */
const machineSubjects = wordsOf(
  "automatic|auto reply|auto-reply|autoreply|auto response|auto-response|autoresponse|autorespon|automated|out of office|out of the office|out-of-office|ooo|away from|vacation|on leave|on holiday|annual leave|parental leave|maternity leave",
  "automatische|autoantwort|abwesenheit|abwesend|nicht im büro|im urlaub|außer haus|ausser haus",
  "réponse auto|reponse auto|absence|absent du|absente du|en congé|en vacances",
  "respuesta auto|fuera de la oficina|fuera de oficina|ausente|de vacaciones|ausencia",
  "risposta auto|fuori sede|fuori ufficio|assente|in ferie",
  "automatisch|afwezig|niet aanwezig|buiten kantoor|met vakantie|op vakantie",
  "resposta auto|ausência|fora do escritório|fora do escritorio|de férias|em férias",
  "automatyczna|odpowiedź auto|nieobecn|poza biurem|autoodpowiedź|na urlopie",
  "autosvar|automatiskt|automatisk|frånvaro|fravær|ej på kontoret|ikke på kontoret|på semester|på ferie",
  "automaatti|poissa|lomalla|automatická|automaticka|nepřítomn|neprítomn|mimo kancel|dovolen",
  "автоответ|автоматическ|автоматична|автоматичен|вне офиса|в отпуске|нет на рабочем",
  "otomatik|ofis dışında|izinde|automatikus|irodán kívül|házon kívül|szabadság|răspuns automat|raspuns automat|în concediu",
  "αυτόματη|εκτός γραφείου|automatinis|automātisk|automaatvastus|automatski|samodejn",
  "自動応答|自動返信|不在|外出中|休暇|自动|自動|外出|休假|자동|부재|휴가|תשובה אוטומטית|מענה אוטומטי|מחוץ למשרד|رد تلقائي|خارج المكتب|trả lời tự động|vắng mặt|balasan otomatis|ตอบกลับอัตโนมัติ|स्वचालित",
  // Read receipts, calendar responses, reports.
  "read:|not read:|gelesen:|ungelesen gelöscht|gelöscht:|lu :|lu:|non lu|leído:|leido:|letto:|lida:|lido:|gelezen:|przeczytano:|läst:|læst:|lest:|luettu:|přečteno:|прочитано:|okundu:|已读|已讀|開封済み|읽음",
  "read receipt|lesebestätigung|accusé de lecture|confirmación de lectura|conferma di lettura|leesbevestiging|potwierdzenie przeczytania",
  "accepted:|declined:|tentative:|tentatively accepted|zugesagt:|abgelehnt:|mit vorbehalt|accepté|refusé|aceptado|rechazado|accettato|rifiutato|geaccepteerd|geweigerd",
  "undeliverable|undelivered|unzustellbar|delivery status|delivery failure|mail delivery|returned mail|non remis|no entregado|mancato recapito",
  // Challenge-response and confirmations of receipt.
  "confirm your|please confirm|verify your|verification|please verify|challenge|whitelist|boxbe|spam arrest|spamarrest|mailinblack|tmda|human verification|bitte bestätigen|veuillez confirmer|authentifi",
  "ticket received|request received|case received|message received|we received your|we have received|your request|your message to|eingangsbestätigung|accusé de réception|acuse de recibo|conferma di ricezione|ontvangstbevestiging",
);

function bySubject(subject: string): MachineReply | null {
  const whole = simplified(subject.slice(0, 500));
  const found = ours.exec(whole);
  if (found === null) {
    const start = withoutPrefixes(whole);
    const word = machineSubjects.find((one) => start.startsWith(one));
    return word === undefined ? null : { level: "certain", reason: "the subject is an automatic reply's" };
  }
  const before = whole.slice(0, found.index);
  if (machineSubjects.some((word) => before.includes(word)))
    return { level: "certain", reason: "the subject is an automatic reply's" };
  if (withoutPrefixes(before).trim() === "") return null;
  return {
    level: "likely",
    reason: "its subject begins with words that no mail client writes into an answer",
  };
}

/** Removes prefixes such as "Re:", "AW[2]:" and "[EXT]". */
function withoutPrefixes(subject: string): string {
  let rest = subject.trimStart();
  for (let count = 0; count < 20; count += 1) {
    const tag = gatewayTag.exec(rest)?.[0];
    const [prefix, word = ""] =
      /^([^\s:[\]][^:[\]]{0,11}?)(?:\s?\[\d{1,4}\]|\(\d{1,4}\)|\^\d{1,4})?\s?:\s*/u.exec(rest) ?? [];
    const known = prefix !== undefined && replyPrefixes.has(word.trim()) ? prefix : undefined;
    const cut = tag ?? known;
    if (cut === undefined) return rest;
    rest = rest.slice(cut.length);
  }
  return rest;
}

/** One of these phrases suffices. A responder who writes one of them to a customer is asked to confirm. */
const telling = wordsOf(
  // The writer's own absence.
  "i am out of|i'm out of|i am currently out|currently on leave|currently on vacation|currently on holiday|i'm currently out|i will be out of|i'll be out of|i am away|i'm away|i am currently away|i'm currently away|i will be away|i am on vacation|i'm on vacation|i am on holiday|i'm on holiday|i am on leave|i'm on leave|i am on annual|i am on parental|i am on maternity|i will be on vacation|i will be on leave|out of the office until|out of office until|out of the office from|currently out of the office|currently out of office|no access to my e|limited access to e|limited access to my e|intermittent access to|not be checking e|not checking e|upon my return|when i return|after my return|no longer with the company|no longer works|no longer employed|has left the company|not in the office",
  "ich bin nicht im büro|ich bin zurzeit nicht|ich bin zur zeit nicht|bin ich nicht im büro|ich bin im urlaub|ich befinde mich im urlaub|ich befinde mich derzeit|bin ich im urlaub|ich bin abwesend|bin ich abwesend|ich bin außer haus|ich bin ausser haus|bin ich nicht erreichbar|ich bin nicht erreichbar|wieder erreichbar|wieder im büro|nicht weitergeleitet|nach meiner rückkehr|nicht mehr für das unternehmen|in elternzeit|nicht mehr im unternehmen|nur eingeschränkt erreichbar",
  "je suis absent|je suis actuellement|je suis en congé|je suis en vacances|je serai absent|je serai de retour|de retour le|à mon retour|absent du bureau|absente du bureau|en congé maternité|sans accès à ma messagerie|accès limité à ma messagerie",
  "estoy fuera|estaré fuera|me encuentro fuera|estoy de vacaciones|estaré de vacaciones|estoy ausente|estaré ausente|a mi regreso|a mi vuelta|fuera de la oficina|acceso limitado al correo",
  "sono fuori ufficio|sono in ferie|sarò in ferie|sono assente|sarò assente|sarò fuori|al mio rientro|al mio ritorno|assente dall'ufficio|fuori sede",
  "ik ben afwezig|ik ben niet aanwezig|ik ben op vakantie|ik ben met vakantie|ik ben met verlof|momenteel afwezig|niet op kantoor|bij mijn terugkomst|weer aanwezig|buiten kantoor",
  "estou ausente|estarei ausente|estou de férias|estarei de férias|encontro-me ausente|estou fora|fora do escritório|no meu regresso|no meu retorno|ausente do escritório",
  "jestem nieobecn|jestem na urlopie|będę nieobecn|przebywam na urlopie|poza biurem|po powrocie|będę na urlopie",
  "jag är inte på kontoret|jag är på semester|jag har semester|jag är ledig|jag är frånvarande|jag är föräldraledig|tillbaka på kontoret|jeg er ikke på kontoret|jeg er på ferie|jeg holder ferie|jeg har ferie|jeg er fraværende|tilbage på kontoret|tilbake på kontoret",
  "olen lomalla|olen poissa|palaan töihin|jsem mimo kancelář|mám dovolenou|čerpám dovolenou|jsem na dovolené|som mimo kancelárie|mám dovolenku|nejsem v kanceláři",
  "я в отпуске|нахожусь в отпуске|меня нет на рабочем месте|буду отсутствовать|отсутствую на рабочем|вне офиса|я у відпустці|перебуваю у відпустці|ofis dışındayım|izindeyim|yıllık izin|ofiste olmayacağım|szabadságon vagyok|szabadságon leszek|nem vagyok az irodában|sunt în concediu|sunt plecat|voi fi în concediu|λείπω από το γραφείο|είμαι σε άδεια|βρίσκομαι σε άδεια",
  "不在にして|休暇をいただ|休暇中|外出して|出張中|夏季休業|我正在休假|我在休假|我目前不在|不在办公室|不在辦公室|外出办公|休假中|휴가 중|부재중|출장 중|אני בחופשה|אינני במשרד|אני לא במשרד|أنا خارج المكتب|في إجازة|خارج المكتب|tôi đang nghỉ|vắng mặt|saya sedang cuti|tidak berada di kantor|อยู่ระหว่างลา|ลาพักร้อน",
  // Replies that state they are automatic.
  "automatic reply|automatic response|automated reply|automated response|automated message|automatically generated|auto-generated|auto generated|autogenerated|this is an auto|do not reply|don't reply|please do not respond|unattended mailbox|unmonitored mailbox|not monitored|noreply|no-reply",
  "automatische antwort|automatisch erstellt|automatisch generiert|automatisch erzeugt|automatische nachricht|nicht auf diese e-mail|nicht auf diese nachricht|réponse automatique|message automatique|généré automatiquement|ne pas répondre|respuesta automática|mensaje automático|generado automáticamente|no responda|risposta automatica|messaggio automatico|generato automaticamente|non rispondere|automatisch antwoord|automatisch bericht|automatisch gegenereerd|niet beantwoorden|resposta automática|mensagem automática|gerada automaticamente|não responda|automatyczna odpowiedź|wiadomość automatyczna|wygenerowana automatycznie|nie odpowiadać|autosvar|automatiskt svar|automatisk svar|автоматический ответ|автоответ|自動返信|自動応答|自動送信|自动回复|自動回覆|자동 회신|자동으로 발송|otomatik yanıt",
  // Read receipts.
  "was read on|has been read|was displayed on|this is a return receipt|return receipt|no guarantee that the message|wurde gelesen|gelesen am|wurde angezeigt|lesebestätigung|a été lu|accusé de lecture|ha sido leído|fue leído|è stato letto|è stata letta|foi lida|foi lido|is gelezen op|zostało przeczytane|została przeczytana|прочитано|开封|開封されました|已阅读|已讀",
  // Challenge-response.
  "verify that you are|prove that you are|your message is being held|your email is being held|your mail is being held|awaiting your confirmation|approved sender|add your address to my|my whitelist|spam arrest|spamarrest|boxbe|mailinblack|challenge-response|sender verification|before your message can be delivered|for your message to be delivered|deliver your message|deliver your email|damit ihre nachricht zugestellt|ihre nachricht zugestellt wird|pour que votre message|para que su mensaje sea entregado",
  // Phones.
  "i'm driving|i am driving|currently driving|while driving turned on|do not disturb|i'm not receiving notifications|i can't talk right now|can't talk now|in a meeting right now|ich fahre gerade|ich kann gerade nicht sprechen|je conduis|je suis au volant|je te rappelle|je vous rappelle|estoy conduciendo|sto guidando|ik rijd|ik ben aan het rijden|estou dirigindo|estou a conduzir|prowadzę samochód",
  "in my absence|during my absence|während meiner abwesenheit|pendant mon absence|en mon absence|durante mi ausencia|en mi ausencia|durante la mia assenza|tijdens mijn afwezigheid|durante a minha ausência|podczas mojej nieobecności",
);

/** Hints: absence, thanks, a deputy, haste, urgent matters, a ticket. Three of them together indicate an
 *  automatic reply; each alone also occurs in replies by humans. */
const hintKinds: readonly (readonly string[])[] = [
  "vacation|holiday|annual leave|maternity|parental|out of office|out of the office|back on|back in the office|until monday|returning on|will return|urlaub|abwesen|zurück am|wieder da|elternzeit|vertretung|vacances|congé|absence|retour|vacaciones|ausen|regreso|ferie|assenz|rientro|vakantie|verlof|afwezig|férias|ausên|urlop|nieobecn|semester|frånvar|fravær|loma|dovolen|отпуск|отсутств|izin|szabadság|concediu|άδεια|休暇|不在|休假|휴가|부재|חופשה|إجازة",
  "thank you for your e|thank you for your message|thanks for your e|thanks for your message|thank you for contacting|thank you for reaching|thank you for your mail|vielen dank für ihre|danke für ihre|vielen dank für deine|merci de votre|merci pour votre|gracias por su|gracias por tu|grazie per|bedankt voor uw|bedankt voor je|obrigad|dziękuję za|dziękujemy za|tack för ditt|tak for din|takk for din|kiitos viestist|děkuji za|спасибо за|благодарим за|e-postanız için teşekkür|köszönöm|mulțumesc pentru|ありがとうございます|感谢您|感謝您|감사합니다",
  "please contact|contact my colleague|colleague|wenden sie sich|kollegin|kollegen|veuillez contacter|adressez-vous|póngase en contacto|contattare|rivolgersi|neem contact|contacte|prosimy o kontakt|kontakta|kontakt|обращайтесь|обратитесь|iletişime|連絡先|请联系|請聯繫|연락",
  "as soon as i|as soon as possible|soon as we|so bald wie|sobald|dès que possible|lo antes posible|appena possibile|zo spoedig|assim que|jak najszybciej|snarast|как можно скорее|en kısa",
  "urgent|immediate assistance|emergenc|in dringenden|dringend|en cas d'urgence|en caso de urgencia|in caso di urgenza|in dringende|bij dringende|em caso de urgência|pilnych|brådskande|presserende|hasteforesp|kiireelli|naléhav|срочн|acil durum|sürgős|緊急|お急ぎ|紧急|緊急情況|긴급",
  "ticket|case number|case id|reference number|have received your|has been received|been assigned to|ihre anfrage|ihre e-mail ist bei uns|ihre nachricht ist bei uns|vorgangsnummer|haben ihre e-mail erhalten|haben ihre nachricht erhalten|bien reçu votre|hemos recibido|abbiamo ricevuto|hebben uw|recebemos|otrzymaliśmy",
].map((list) => list.split("|"));

/** The beginning of a short absence message without a verb. Within a sentence these words are also those of humans ("our
 *  technician is on vacation"). */
const absences = wordsOf(
  "on vacation|on holiday|on annual leave|on leave|on parental leave|on maternity leave|on paternity leave|on sick leave|ooo|out of office|out of the office|out sick|away until|away till",
  "bin im urlaub|im urlaub|in urlaub|bin krank|krankgeschrieben|in elternzeit|bin nicht im büro|bin heute nicht im büro|nicht im büro|abwesend",
  "absent|en congé|en vacances|de vacaciones|fuera de la oficina|ausente|fuori ufficio|fuori sede|in ferie|assente|met vakantie|op vakantie|met verlof|afwezig|em férias|de férias|na urlopie|på semester|på ferie|lomalla|в отпуске",
);
const beforeAbsence =
  /^\s*(?:(?:hi|hello|hey|hallo|guten tag|bonjour|hola|ciao|hej)\b[^,.!]{0,30}[,.!]\s*)?(?:(?:i am|i'm|ich bin)\s+)?(?:(?:currently|derzeit|zurzeit|actuellement)\s+)?/u;

function byText(text: string): MachineReply | null {
  const words = simplified(text.slice(0, examined));
  const start = words.replace(beforeAbsence, "");
  if (telling.some((phrase) => words.includes(phrase)) || absences.some((phrase) => start.startsWith(phrase)))
    return { level: "likely", reason: "its text reads like an automatic reply" };
  const kinds = hintKinds.filter((kind) => kind.some((hint) => words.includes(hint)));
  return kinds.length < 3 ? null : { level: "likely", reason: "its text reads like an automatic reply" };
}

function wordsOf(...lists: readonly string[]): readonly string[] {
  return lists.flatMap((list) => list.split("|"));
}

/** Normalizes text for comparison: compatibility characters, case, quotes, white space and invisible characters. */
const simplified = (text: string): string =>
  composed(text, "NFKC")
    .toLowerCase()
    .replace(/\p{Cf}/gu, "")
    .replace(/[‘’‛´`]/g, "'")
    .replace(/[\s\p{Cc}]+/gu, " ");

/** `String.normalize` in linear time. Sorting a run of combining marks is quadratic, so a run is
 *  truncated to 30 of them (UAX #15, Stream-Safe Text Format). */
export const composed = (text: string, form: "NFC" | "NFKC" | "NFKD" = "NFC"): string =>
  text.replace(/(\p{M}{30})\p{M}+/gu, "$1").normalize(form);
