// Recognizes requests for no more texts in other words than the keywords. CTIA's principles require that a request in normal
// language ("please opt me out") is followed, and the FCC accepts any reasonable one (47 CFR 64.1200(a)(10)).

/** `stop`: the whole message is such a request · `doubtful`: it may contain one, so a human must read it. */
export type StopRequest = "stop" | "doubtful";

/** Words that change nothing about the request, in the languages of the keywords (consent.ts). */
const courtesies = new RegExp(
  `(?<![^ ])(?:${[
    "please|pls|plz|kindly|just|now|immediately|asap|any|(?<!no )more|anymore|again|ever|thanks|thank you|thx|hi|hello|ok|okay",
    "bitte|danke|svp|stp|s il vous plait|s il te plait|merci|por favor|gracias|per favore|per piacere|grazie",
    "obrigad[oa]|alsjeblieft|alstublieft|aub|bedankt|dank (?:u|je)|prosze|dziekuje",
  ].join("|")})(?![^ ])`,
  "g",
);

const texts = "(?:(?:these|those|your|such) )?(?:(?:text|sms) )?(?:texts?|messages?|sms|msgs?|txts?)";
const allTexts =
  "(?:(?:all|any) (?:of )?)?(?:(?:the|these|those|your|such) )?(?:(?:text|sms) )?(?:texts|messages|sms|msgs|txts)";
const never = "(?:do not|don t|dont|never)";
/** What the notice "Reply STOP to end" names as the purpose. */
const purpose = " ?(?:to|2) ?(?:stop|end|quit|cancel|unsubscribe|opt ?out|revoke)";
const write = "(?:text|txt|message|sms)";
const writing = "(?:texting|txting|messaging)";
const list = "(?:(?:this|your|the) )?(?:(?:sms|text|texting|mailing|contact) )?list";

/** The whole message, without its courtesies. */
const requests = new RegExp(
  `^(?:stop(?:${purpose})?|(?:stop|quit) ${writing}(?: (?:me|us|this number))?|(?:stop|quit) sending(?: (?:me|us))? ${texts}|(?:stop|quit|end|cancel) ${allTexts}|no more (?:(?:of )?${allTexts}|${writing})|${never} ${write}(?: (?:me|us|this number))?|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off|off of) ${list})$`,
);

/** Any part of a message. */
const doubtful = new RegExp(
  `\\b(?:(?:stop|quit) ${writing}|(?:stop|quit) (?:contacting|sending|spamming|bothering|harassing) (?:me|us)|${never} (?:ever )?(?:${write}|contact) (?:me|us)|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off)|leave me alone)\\b`,
);

const leave = "(?:unsubscrib(?:e|ed|ing)|opt(?:ed|ing)? ?out)";
/** Any part of a short message. */
const doubtfulInShort = new RegExp(
  `\\b(?:${[
    `${leave}|(?:stop|quit|end|cancel) ${allTexts}|no more (?:(?:of )?${allTexts}|${writing})`,
    `${never} want (?:any )?(?:more )?${allTexts}`,
    ...otherLanguages(),
  ].join("|")})\\b`,
);
/** The notice "Reply STOP to end" as the whole message. It may be a question about the notice, or a notice to us. */
const notice = new RegExp(
  `^(?:i )?(?:reply|replied|text|txt|send|sent|answer|type|typed|say|said) stop(?:${purpose})?$`,
);
/** In a question this is about something other than texts: "can I opt out of the insurance?" */
const leaveOther = new RegExp(
  `\\b${leave} (?:from|of) (?!(?:all|any|this|these|those|you|your|it|everything)\\b|${allTexts}\\b|${list}\\b)`,
  "g",
);

/** Whole messages that ask for no more texts in languages without keywords of their own (consent.ts), or in spellings of their
 *  own, or that often do. */
const doubtfulMessages = new Set(
  "stop it|stop this|stop text|stop message|stop msg|unsub|unsuscribe|remove me|remove my number|delete my number|td|hör auf|hören sie auf|退订|退訂|取消订阅|停止|配信停止|配信解除|수신거부|סטופ|הסר|توقف|إيقاف|стоп|отписаться|отписка|στοπ|iptal|avregistrera|avsluta|afmeld|frameld|avmeld|lopeta|odhlásit|dezabonare|leiratkozás|odjava|odjavi|odhlásiť|відписатися|διαγραφή|berhenti|batal langganan|từ chối|إلغاء الاشتراك|बंद|बंद करो|ret|abonelikten çık|sluta|slutt"
    .split("|")
    .map(simple),
);

/** No request is longer than this number of characters. */
const longest = 320;
/** No list of keywords is longer than this number of words. */
const mostWords = 6;
/** Longer messages may mention an opt-out in passing. Characters. */
const longestShort = 100;

/** What the channel's keywords say about a message: undefined when they say nothing, null when it is ordinary. */
type KeywordLookup = (words: string) => StopRequest | null | undefined;

/** Returns the request that a text expresses; null for an ordinary message. `listed` is called with the message and with
 *  its clauses, each also without its courtesies. */
export function requestIn(text: string, listed: KeywordLookup = () => undefined): StopRequest | null {
  if (text.length > longest) return null;
  const said = simple(text);
  const whole = wholeRequest(said, listed);
  if (whole !== undefined) return whole;
  if (doubtful.test(said)) return "doubtful";
  if (said.length > longestShort) return null;
  const isQuestion = /[?？]$/.test(text.trimEnd());
  if (doubtfulInShort.test(isQuestion ? said.replace(leaveOther, "") : said)) return "doubtful";
  if (notice.test(withoutCourtesies(said))) return "doubtful";
  // "Stop. Wrong number", "Hi! I don't know you, stop"
  const clauses = text
    .split(clauseEnd)
    .map(simple)
    .filter((clause) => withoutCourtesies(clause) !== "");
  return [clauses.at(0), clauses.at(-1)].some((one) => one !== undefined && one !== said && wholeRequest(one, listed))
    ? "doubtful"
    : null;
}

const clauseEnd = /[\n\r.!?…;:,。！？；：，、]|\s[-–—~]/u;

/** Returns what a text means when it contains nothing but a request and courtesies; undefined: it is no request. `said`: see
 *  `simple`. */
function wholeRequest(said: string, listed: KeywordLookup): StopRequest | null | undefined {
  const request = withoutCourtesies(said);
  for (const words of new Set([said, request])) {
    const meaning = listed(words);
    if (meaning !== undefined) return meaning;
  }
  // "STOP/END", as a notice lists them
  const words = request.split(" ", mostWords + 1);
  const isList = words.length > 1 && words.length <= mostWords && words.every((word) => listed(word) === "stop");
  if (isList || requests.test(request)) return "stop";
  return doubtfulMessages.has(said) || doubtfulMessages.has(request) ? "doubtful" : undefined;
}

/** Returns the text without a signature below it: "-John", "-- Mary Ann Lee", "Sent from my iPhone". A name counts only after
 *  a dash and with capitals, because "- not yet" is a message. */
export function withoutSignature(text: string): string {
  const [first = "", ...rest] = text.split(/[\n\r]+/);
  return signature.test(rest.join(" ").trim()) ? first : text;
}

const name = "\\p{Lu}[\\p{L}.'’-]*";
const signature = new RegExp(
  `^(?:[-–—~_]+ *${name}(?: ${name}){0,2}|(?:[-–—~_]+ *)?(?:[Ss]ent (?:from|via)|[Gg]esendet (?:von|mit)|[Vv]on meinem|[Ee]nvoyé d|[Ee]nviado d|[Ii]nviato da|[Vv]er(?:zonden|stuurd) v|[Ww]ysłan[eo] z).{0,40})$`,
  "u",
);

const withoutCourtesies = (said: string): string => said.replace(courtesies, "").replace(/ {2,}/g, " ").trim();

/** Returns the words in lower case, without accents, separated by single spaces. */
function simple(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}/gu, "")
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** "No more texts" and "stop writing to me" in the other languages of the keywords, as `simple` writes them. "I get no more
 *  texts" is a complaint. */
function otherLanguages(): readonly string[] {
  const de = "(?:sms|(?:text|werbe)?nachrichten|werbung|mitteilungen|texte)";
  const fr = "(?:sms|textos?|messages?)";
  const es = "(?:sms|mensajes?|textos?)";
  const it = "(?:sms|messaggi|messaggini)";
  const pt = "(?:sms|mensagens|mensagem|torpedos)";
  const nl = "(?:sms|smsjes|sms jes|sms en|smsen|berichten|berichtjes)";
  const pl = "(?:sms|smsow|sms ow|smsy|sms y|wiadomosci)";
  return [
    `(?<!\\b(?:bekomme|erhalte|kriege|habe|haben) (?:ich |wir )?)keine ${de} mehr|keine weiteren ${de}`,
    `(?:schick|send|schreib)(?:e|en sie|t)? (?:mir|uns) (?:bitte )?(?:nicht mehr|nichts mehr|keine ${de})`,
    "hor(?:t|en sie)? (?:bitte |endlich )*auf (?:mir|uns|mich)",
    `(?:veux|veut|souhaite|desire) plus (?:de ${fr}|recevoir|de recevoir)`,
    `(?<!\\b(?:recois|recoit|recevons|recevez|ai|as|a|avons|avez) )plus (?:de|aucun) ${fr}`,
    "n(?:e me|e m|e nous|e) (?:envoyez|envoie|envoyer|ecrivez|ecris|ecrire|contactez) plus",
    `arret(?:ez|e|er) (?:de (?:m|me|nous) (?:envoyer|ecrire|contacter)|(?:les|ces|vos|tes) ${fr}|l envoi)`,
    `no mas ${es}|no (?:quiero|deseo|queremos) (?:recibir )?mas ${es}|basta de ${es}`,
    `no (?:me|nos) (?:envien?|envies|manden?|mandes|escriban?|escribas) (?:mas|${es})`,
    "dej(?:a|e|en|ad) de (?:enviar|mandar|escribir)(?:me|nos)",
    `(?:niente piu|niente|basta|basta con i|basta con gli) ${it}|non voglio (?:piu )?(?:ricevere )?(?:altri )?${it}`,
    "non (?:mi )?(?:invi|mand|scriv)(?:are|ere|ate|ete|iate|iare|armi|ermi|iarmi|atemi|etemi|iatemi) piu",
    "smett(?:i|a|ete|etela|ila) di (?:scriver|mandar|inviar|contattar)(?:mi|ci)",
    `nao (?:quero|desejo|queremos) (?:receber )?mais (?:receber )?${pt}|(?:chega de|sem mais|nada de) ${pt}`,
    "nao (?:me |nos )?(?:enviem?|mandem?|escrevam?|contatem?) mais",
    "par(?:e|em|a) de (?:me |nos )?(?:enviar|mandar|escrever|contatar)",
    `(?<!\\b(?:krijg|krijgen|ontvang|ontvangen) (?:ik |wij |we )?)geen ${nl} meer|niet meer ${nl}`,
    `stop(?:pen)? met (?:${nl}|sturen|het sturen)|(?:stuur|sms) (?:me|mij|ons) (?:niet meer|geen ${nl})`,
    `(?:zadnych|koniec z|nie chc[ea](?: juz)?)(?: wiecej)?(?: otrzymywac| dostawac)?(?: wiecej)? ${pl}`,
    `nie (?:wysyłaj|wysyłajcie|wysyłac|pisz|piszcie|pisac) (?:mi |do mnie |nam )?(?:juz|wiecej|${pl})`,
    "przestan(?:cie)? (?:mi |do mnie )?(?:pisac|wysyłac)",
  ];
}
