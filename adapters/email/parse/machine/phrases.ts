// The words and header names by which messages of programs are recognized: phrases of subjects by language, names of
// mailboxes, and header fields. Data only.

/** Prefixes of an answer's subject, by language; lower case. */
export const answerPrefix =
  /^(?:(?:re|aw|antw|sv|odp|r|res|rif|ref|vs|vá|ynt|odg|απ|отв|ответ|回复|答复|回覆)\s?(?:\[\d{1,3}\])?\s?[:：]\s{0,5}){1,3}/;

/** A tag at the start of a subject: "[EXT]". */
export const tag = /^[[【]([^\]】]{1,60})[\]】]\s{0,5}/;

/** How programs begin the subject of an automatic response, by language; lower case. */
export const announcements: readonly string[] = [
  "yahoo! auto response|out of office autoreply|out of office auto-reply|out of office reply|out of office:|automatic reply|auto reply|auto-reply|autoreply|auto response|auto-response|autoresponse|vacation reply|automated response|automated reply|autoresponder",
  "automatische antwort|automatische abwesenheitsnotiz|abwesenheitsnotiz|autoantwort|message d'absence|réponse automatique|reponse automatique|respuesta automática|respuesta automatica|respuesta de ausencia",
  "risposta automatica|automatisch antwoord|automatische beantwoording|afwezigheidsbericht|resposta automática|resposta automatica|resposta automàtica",
  "automatyczna odpowiedź|odpowiedź automatyczna|autoodpowiedź|autosvar|automatiskt svar|automatisk svar|automaattinen vastaus|poissaoloviesti",
  "automatická odpověď|automatická odpoveď|автоответ|автоматический ответ|автоматична відповідь|автоматичен отговор",
  "otomatik yanıt|otomatik cevap|automatikus válasz|răspuns automat|raspuns automat|αυτόματη απάντηση|automatinis atsakymas",
  "automātiskā atbilde|automātiska atbilde|automaatvastus|automatski odgovor|samodejni odgovor|自動応答|自動返信|自动回复|自动答复|自動回覆",
  "erantzun automatikoa|sjálfvirkt svar|përgjigje automatike|avtomatik cavab|avtomatik javob|balasan automatik|awtomatikong tugon|ateb awtomatig|freagra uathoibríoch|outomatiese antwoord|tweġiba awtomatika",
  "аутоматски одговор|автоматски одговор|аўтаматычны адказ|автоматты жауап|ավտոմատ պատասխան|ავტომატური პასუხი|پاسخ خودکار|خودکار جواب|স্বয়ংক্রিয় উত্তর|부재중 자동응답|부재중 자동 응답|자동응답",
  "자동 회신|자동 응답|תשובה אוטומטית|מענה אוטומטי|رد تلقائي|trả lời tự động|balasan otomatis|ตอบกลับอัตโนมัติ|การตอบกลับอัตโนมัติ|स्वचालित उत्तर",
].flatMap((words) => words.split("|"));

/** How people and programs begin the subject of an absence message, by language; lower case. */
const absences: readonly string[] = [
  "out of office|out of the office|ooo|i am away|on vacation|on leave|away from my mail|i am out of office|i am out of the office",
  "i'm out of office|i'm out of the office|i am currently out of the office|i am on vacation|i'm on vacation|i am on leave|i'm on leave",
  "i am on annual leave|i'm on annual leave|i am on holiday|i'm on holiday|i am currently on vacation|i am currently on holiday|i am currently on leave|i am currently on annual leave|i am on parental leave|i am on maternity leave",
  "abwesenheit|abwesend|nicht im büro|ich bin im urlaub|ich bin derzeit im urlaub|ich bin zurzeit im urlaub|ich bin in elternzeit|außer haus",
  "je suis en congé|je suis en congés|je suis en vacances|je suis absent|je suis absente|estoy de vacaciones|estoy ausente",
  "sono in ferie|sono assente|ik ben op vakantie|ik ben met vakantie|ik ben afwezig|estou de férias|estou em férias|estou ausente",
  "jestem na urlopie|jag är på semester|jeg er på ferie|olen lomalla|jsem na dovolené|я в отпуске|izindeyim|szabadságon vagyok|sunt în concediu|είμαι σε άδεια",
  "absence du bureau|absent du bureau|absente du bureau|absence :|en congé|en congés",
  "fuera de la oficina|fuera de oficina|ausente de la oficina|fuori sede|fuori ufficio|assente dall'ufficio",
  "niet aanwezig|afwezig|afwezigheid|buiten kantoor|ausência do escritório|fora do escritório|ausência temporária",
  "nieobecność|poza biurem|frånvaro|ej på kontoret|frånvarande|fravær|fraværsmelding|ikke på kontoret|ikke til stede|fraværende",
  "poissa toimistosta|poissaolo|lomalla|mimo kancelář|nepřítomnost|mimo kancelárie|neprítomnosť",
  "нет на рабочем месте|вне офиса|в отпуске|ofis dışında|iş yeri dışında|irodán kívül|házon kívül|plecat din birou|în concediu",
  "εκτός γραφείου|不在通知|不在:|不在：|外出中|外出办公|不在办公室|부재 중|부재중|מחוץ למשרד|خارج المكتب|vắng mặt",
].flatMap((words) => words.split("|"));

/** Absences that are also the subjects of customers' questions; lower case, the longer of two with one beginning first. Alone
 *  they reveal nothing. */
const absenceNouns: readonly string[] = [
  "vacation|on holiday|holidays|holiday|on annual leave|annual leave|parental leave|maternity leave|away from",
  "urlaub|im urlaub|in urlaub|elternzeit|in elternzeit|mutterschutz|ausser haus",
  "absence|absente|absent|congés|congé|vacances|en vacances|vacaciones|de vacaciones|ausente|ausencia",
  "ferie|in ferie|assente|assenza|vakantie|op vakantie|met vakantie|met verlof|férias|de férias|em férias|ausência",
  "urlop|na urlopie|nieobecny|nieobecna|semester|på semester|på ferie|loma|poissa|dovolená|dovolenka|na dovolené|nepřítomen|neprítomný",
  "отпуск|отсутствие|відпустка|у відпустці|izinde|izin|yıllık izin|szabadság|szabadságon|concediu|άδεια|σε άδεια",
  "休暇中|休暇|不在|休假|外出|휴가 중|휴가|부재|חופשה|בחופשה|إجازة|في إجازة|cuti|sedang cuti|nghỉ phép",
].flatMap((words) => words.split("|"));

/** The absences that programs and people announce. */
export const absenceStarts: readonly string[] = [...announcements, ...absences];
/** Few of them begin like a subject. */
export const absenceStartsByLetter = Map.groupBy(absenceStarts, (words) => words.charAt(0));
export const absenceNounsByLetter = Map.groupBy(absenceNouns, (words) => words.charAt(0));

/** The subject of an absence message of HCL Notes, lower case: "auto: ann is out of the office (returning 05/03/2030)", and of
 *  older versions "ann/sales/acme is out of the office." */
export const absenceOfNotes =
  /^(?:auto: .{1,100}?|[^:/]{1,60}\/[^:]{1,60}?) (?:is out of (?:the )?office|ist außer haus|est absent\b|est absente\b|está ausente\b|está fuera de la oficina|è assente\b|è fuori (?:sede|ufficio)|is afwezig\b).*/;

/** The subject of an aggregate report of DMARC. Large receivers send them daily, some without any other mark. */
export const dmarcReport = /^report[ -]domain:\s?\S{1,255}\s{1,5}submitter:/i;

/** The name of an aggregate report of DMARC, lower case: its receiver, the domain that it is about, and its period. */
export const dmarcFile =
  /^([^!\s]{1,255})!([^!\s]{1,255})!\d{6,12}!\d{6,12}(?:![^!\s]{1,100})?\.(?:xml(?:\.(?:gz|zip))?|gz|zip)$/;

/** Headers of lists and campaigns. Feedback-ID and X-MC-User do not count: relays such as Amazon SES and Mandrill add them to
 *  messages by people. */
export const listHeaders: readonly string[] = [
  "list-id",
  "list-unsubscribe",
  "list-post",
  "list-help",
  "list-subscribe",
  "list-owner",
  "list-archive",
  "mailing-list",
  "x-mailing-list",
  "x-mailinglist",
  "x-list-unsubscribe",
  "x-campaign",
  "x-campaign-id",
  "x-campaignid",
  "x-csa-complaints",
];

/** Headers that name the list itself. List-Unsubscribe also occurs on newsletters. */
export const listNames = new Set([
  "list-id",
  "list-post",
  "mailing-list",
  "x-mailing-list",
  "x-beenthere",
  "x-been-there",
]);

/** Matches "do not answer" phrases in the local part, without dots, dashes and underscores. */
export const noReply =
  /no(?:t)?reply|noreplies|noreplay|donotreply|dontreply|donotrespond|donotanswer|noanswer|noresponse|neverreply|unmonitored|nichtantworten|keineantwort|nichtbeantworten|nepasrepondre|pasdereponse|sansreponse|noresponder|norespondas|nocontestar|noreponder|nonrispondere|norispondere|nietbeantwoorden|nietantwoorden|geenantwoord|naoresponda|naoresponder|nieodpowiadaj|nieodpowiadac|svarainte|svarejinte|svarikke|ikkesvar|besvarikke|alavastaa|eivastausta|neodpovidat|neodpovidejte|neodpovedat|neotvechat|neotvechajte|yanitlamayin|cevaplamayin|neraspunde|nuraspunde|nevalaszoljon|nincsvalasz|neodgovaraj|neodgovarjaj/;

/** Local parts that always belong to programs, without dashes and underscores. */
export const programs = new Set(
  [
    "mailerdaemon daemon postmaster maildaemon maildeliverysubsystem mailsystem listserv majordomo mailman",
    "bounce bounces autoreply autoresponder autoresponse autoanswer automailer nobody wwwdata cron system",
    "notification notifications notify alerts newsletter newsletters mailrobot robot bot nagios root anacron logwatch fail2ban",
  ].flatMap((line) => line.split(" ")),
);

/** Headers of automatic responses, unless their value is "no". */
export const autoReplyHeaders: readonly string[] = [
  "x-autoreply",
  "x-autorespond",
  "x-autoresponder",
  "x-auto-reply",
  "x-mail-autoreply",
  "x-vacation",
  "x-autogenerated",
  "x-webmin-autoreply",
  "x-auto-reply-from",
];

/** Headers of automatic responses, with the values that mark one. */
export const otherSigns: ReadonlyMap<string, RegExp> = new Map([
  ["x-fc-machinegenerated", /^(?:true|yes)/],
  ["x-post-messageclass", /autoresponder/],
  ["x-ms-exchange-generated-message-source", /./],
  ["x-autoreply-from", /./],
  ["x-autorespond-from", /./],
  ["x-cron-env", /./],
  ["delivered-to", /^autoresponder/],
  ["x-amazon-mail-relay-type", /notification/],
  ["x-servicenow-generated", /^true/],
  // iCloud's vacation response has no other header; other values occur on ordinary messages.
  ["x-apple-action", /^\s*vacation\b/],
]);

/** Calendar methods that a program sends when a person answers or cancels an invitation. An invitation (REQUEST, PUBLISH) is a person's message. */
export const calendarAnswers = new Set(["reply", "counter", "declinecounter", "refresh", "cancel"]);

/** How calendar programs begin the subject of a response to an invitation, by language; lower case. */
export const responses =
  /^(?:accepted|tentative(?:ly accepted)?|declined|cancell?ed|new time proposed|updated invitation|zugesagt|mit vorbehalt|vorläufig zugesagt|abgelehnt|abgesagt|angenommen|accepté|acceptée|provisoire|refusé|décliné|annulé|aceptado|aceptada|provisional|rechazado|rechazada|cancelado|cancelada|accettato|provvisorio|rifiutato|annullato|geaccepteerd|voorlopig|geweigerd|afgewezen|geannuleerd|aceite|aceito|provisório|tentativa|recusado|recusada|zaakceptowano|wstępnie|odrzucono|odwołano|accepterat|accepterad|preliminärt|avböjt|avböjd|accepteret|foreløbig|afvist|godtatt|akseptert|avslått|hyväksytty|alustava|hylätty|přijato|nezávazně|odmítnuto|prijaté|принято|под вопросом|отклонено|прийнято|kabul edildi|geçici|reddedildi|elfogadva|feltételes|elutasítva|acceptat|respins|αποδοχή|απορρίφθηκε|承諾|承认|已接受|已拒绝|已暂定|已接受|已謝絕|辞退|仮の予定|수락|거절|미정|התקבל|נדחה|تم القبول|مرفوض)\s?(?::|：)/i;

/** Matches a server's reason for a refusal that is not about the recipient's address: a filter, a limit, the sender, relaying.
 *  Servers without enhanced status codes write 550 for these as well (RFC 5321, 4.2.3). */
export const otherReasons =
  /\brelay|polic(?:y|ies)\b|prohibit|administrative|spam|spoof|virus|malware|phish|black ?list|block|\brbl\b|dnsbl|reputation|dmarc|\bspf\b|dkim|auth(?:entication|enticated)? required|unauthenticated|not (?:permitted|authori[sz]ed)|\bsenders?\b|mail from\b|\bhelo\b|reverse dns|\bptr\b|network not allowed|\bip\b|frequency|too many|rate limit|quota|\bfull\b|exceed|time(?:d )?out|multiple retries|connect|not reachable|long time|queue too long|last \d+ seconds|too (?:large|big)|gr[ae]ylist|later|temporar|security|content|message (?:was )?(?:rejected|refused)|denied/i;
