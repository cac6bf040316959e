// Phrases that mail clients write around quoted text, by language. Data only, read by the other files of
// this folder. All in lower case.

/** "On <date>, <name> wrote:". `starts` is how the line begins ("" when it begins with the date or the name). `says`
 *  lists phrases, one of which must follow. A line must also contain a digit or an address, and end in a colon. */
export interface AttributionPhrases {
  readonly starts: readonly string[];
  readonly says: readonly string[];
}

export const attributions: readonly AttributionPhrases[] = [
  { starts: ["on "], says: [" wrote", " writes", " said"] }, // en
  { starts: [""], says: [" wrote", " writes"] }, // en, name or date first
  { starts: ["am ", "an ", "vom ", "den "], says: [" schrieb", " schrieben"] }, // de
  { starts: [""], says: [" schrieb am ", " schrieb", " geschrieben"] },
  { starts: ["zitat von ", "quoting ", "citando ", "citando a "], says: [" "] }, // Horde
  { starts: ["le ", "on "], says: [" a écrit", " écrit", " a ecrit", " a écrit"] }, // fr
  { starts: [""], says: [" a écrit", " a ecrit", " escribió", " ha scritto", " schreef", " escreveu"] }, // name or date first
  { starts: ["el ", "en "], says: [" escribió", " escribio", " escribi"] }, // es
  { starts: ["il ", "in data ", "nel giorno ", "on "], says: [" ha scritto", " scrive", " scritto"] }, // it
  { starts: ["op "], says: [" schreef", " geschreven"] }, // nl
  { starts: ["em ", "a ", "no dia ", "às "], says: [" escreveu"] }, // pt
  { starts: [""], says: [" escreveu no dia ", " escreveu a ", " escreveu em "] },
  { starts: ["w dniu ", "dnia ", "", "on "], says: [" pisze", " napisał", " napisała", " napisał(a)"] }, // pl
  { starts: ["den ", "på ", "lör ", "mån ", "tis ", "ons ", "tors ", "fre ", "sön "], says: [" skrev"] }, // sv, da, no
  { starts: [""], says: [" skrev den ", " skrev", " skreiv"] },
  { starts: [""], says: [" kirjoitti"] }, // fi
  { starts: ["dne ", "dňa ", ""], says: [" napsal", " napsala", " píše", " napísal", " napísala"] }, // cs, sk
  {
    starts: [""],
    says: [" пишет", " написал", " написала", " писал", " писал(а)", " пише", " написав", " написа"],
  }, // ru, uk, bg
  { starts: [""], says: [" şunları yazdı", " şunu yazdı", " yazdı"] }, // tr
  { starts: [""], says: [" ezt írta", " írta", " írta:"] }, // hu
  { starts: ["în ", "pe ", "la ", ""], says: [" a scris"] }, // ro
  { starts: ["στις ", "την ", ""], says: [" έγραψε"] }, // el
  { starts: [""], says: [" kirjutas", " rakstīja", " rašė"] }, // et, lv, lt
  { starts: [""], says: [" je napisao", " je napisala", " je napisal", " napisao je", " je pisao"] }, // hr, sr, sl
  { starts: ["vào ", "lúc ", ""], says: [" đã viết"] }, // vi
  { starts: ["pada ", ""], says: [" menulis"] }, // id, ms
  { starts: ["el dia ", "el ", "missatge de "], says: [" va escriure", " ha escrit", " del dia "] }, // ca
  {
    starts: [""],
    says: ["さんは書きました", "さんが書きました", "は書きました", "のメール", "さんのメッセージ", "wrote"],
  }, // ja
  { starts: [""], says: ["写道", "寫道", "编写", "写到"] }, // zh
  { starts: [""], says: ["님이 작성", "작성:", "님의 말", "이(가) 작성", "쓴 글"] }, // ko
  { starts: [""], says: ["כתב", "מאת"] }, // he
  { starts: [""], says: ["كتب", "كتبت", "تمت كتابة"] }, // ar
  { starts: [""], says: ["เขียน", "ने लिखा", "نوشت"] }, // th, hi, fa
];

/** Attributions with one of these phrases were typed by a person who cites text and then continues: no
 *  unmarked quote follows. */
export const handWritten: readonly string[] = [
  " your colleague| ihr kollege| ihre kollegin| quoting | zitat von | citando ",
  " geschrieben| you wrote| you said| you write| you have written| i wrote| i said| we wrote| i have written",
  " schrieben sie| sie schrieben| schriebst du| du schriebst| schriebt ihr| schrieb ich| ich schrieb| schrieben wir",
  " sie haben| hast du| habe ich| vous écri| vous avez écrit| tu as écrit| tu écri| j'ai écrit| j’ai écrit",
  " usted| ustedes escrib| escribiste| me escribi| nos escribi| escribí| avete scritto| hai scritto| ho scritto",
  " lei ha scritto| mi ha scritto| ci ha scritto| schreef u| u schreef| schreef je| je schreef| schreef ik| ik schreef",
  " você| vocês| escrevi:| me escreveu| nos escreveu| pan napisał| pani napisał| państwo napis| napisałem| napisałam",
  " вы писали| вы написали| ты писал| вы пишете| мне написал| нам написал| я писал| я написал",
  " skrev du| du skrev| skrev ni| ni skrev| skrev jag| jag skrev| skrev jeg| jeg skrev| yazmıştınız| yazdınız| yazdım",
].flatMap((words) => words.split("|"));

/** Japanese and Korean attributions need no verb: "2024年5月3日(金) 12:00 山田 <a@example.com>:". */
export const datedByYear = /^\d{4}\s{0,2}[年년./-]\s{0,2}\d{1,2}\s{0,2}[月월./-].{0,300}[@<].{1,300}[:：]$/u;

/** Phrases between the dashes of "-----Original Message-----". */
export const originalMessage: ReadonlySet<string> = new Set(
  [
    "original message|original email|reply message|ursprüngliche nachricht|originalnachricht",
    "original-nachricht|originalmail|message d'origine|message d’origine|message original",
    "message initial|mensaje original|messaggio originale|messaggio originario|oorspronkelijk bericht",
    "oorspronkelijke bericht|origineel bericht|mensagem original|mensagem origina",
    "wiadomość oryginalna|oryginalna wiadomość|pierwotna wiadomość|ursprungligt meddelande",
    "originalmeddelande|oprindelig meddelelse|original meddelelse|oprindelig besked",
    "opprinnelig melding|original melding|alkuperäinen viesti|alkuperäinen sanoma|původní zpráva",
    "původní e-mail|pôvodná správa|исходное сообщение|оригинальное сообщение|вихідне повідомлення",
    "оригінальне повідомлення|оригинално съобщение|özgün ileti|orijinal ileti|orijinal mesaj",
    "asıl ileti|eredeti üzenet|mesaj original|mesajul original|αρχικό μήνυμα|missatge original",
    "originalna poruka|izvorna poruka|izvirno sporočilo|tin nhắn gốc|thư gốc|pesan asli|元のメッセージ",
    "オリジナルメッセージ|元のメール|原始邮件|邮件原件|原始郵件|原邮件|回复的原邮件|원본 메시지|원본 메일|הודעה מקורית|الرسالة الأصلية",
  ].flatMap((words) => words.split("|")),
);

/** Phrases of a forward: between dashes, or alone with a colon ("Begin forwarded message:"). */
export const forwardedMessage: ReadonlySet<string> = new Set(
  [
    "forwarded message|forwarded by me|begin forwarded message|weitergeleitete nachricht",
    "anfang der weitergeleiteten nachricht|anfang der weitergeleiteten e-mail|weitergeleitete e-mail",
    "message transféré|début du message transféré|début du message réexpédié|mensaje reenviado",
    "inicio del mensaje reenviado|messaggio inoltrato|inizio messaggio inoltrato|doorgestuurd bericht",
    "begin doorgestuurd bericht|mensagem encaminhada|mensagem reencaminhada",
    "início da mensagem encaminhada|início da mensagem reencaminhada|wiadomość przekazana dalej",
    "przekazana wiadomość|początek przekazywanej wiadomości|vidarebefordrat meddelande",
    "vidarebefordrat mejl|vidarebefordrat brev|videresendt meddelelse|videresendt besked",
    "start på videresendt besked|videresendt melding|videresend melding|edelleenlähetetty viesti",
    "välitetty viesti|välitetty viesti alkaa|přeposlaná zpráva|preposlaná správa",
    "пересланное сообщение|пересылаемое сообщение|начало переадресованного сообщения",
    "переслане повідомлення|iletilmiş ileti|yönlendirilmiş ileti|iletilen ileti|továbbított üzenet",
    "mesaj redirecționat|mesaj redirecţionat|προωθημένο μήνυμα|転送されたメッセージ|転送メッセージ|转发的邮件|转发邮件信息|轉寄的郵件",
    "전달된 메일|전달된 메시지|הודעה שהועברה|رسالة مُعاد توجيهها",
  ].flatMap((words) => words.split("|")),
);

/** Subject prefixes of a forward, without the colon. "vs" marks a response in Finnish and a forward in
 *  Danish, so it is not listed. */
export const forwardPrefixes: ReadonlySet<string> = new Set(
  [
    "fwd|fw|wg|tr|rv|enc|vb|vl|pd|ilt|i̇lt|doorst|vidbef|továbbítás",
    "trans|transf|rif-fwd|転送|转发|轉寄|轉發|전달|πρθ|пересл|fs|reenv|прк|הועבר|i|forwarded|forward",
    "weitergeleitet|weiterleitung|transféré|inoltrato|inoltra|doorgestuurd|reenviado|encaminhado|encaminhada",
    "vidarebefordrat|videresendt|przekazane|przekazano|переслано|пересланное|إعادة توجيه",
  ].flatMap((words) => words.split("|")),
);

/** Subject prefixes of a response, without the colon. */
export const replyPrefixes: ReadonlySet<string> = new Set(
  "re|aw|sv|vs|antw|antwort|odp|rif|res|ynt|r|ref|réf|réponse|ответ|отв|вa|回复|回覆|答复|返信|답장|תשובה|رد|atb|atb.|vá|ad|sp|απ|σχετ|บตอบ|ตอบกลับ|odg|odgovor|svar|vast|antw.|bls|השב|پاسخ".split(
    "|",
  ),
);

export type HeaderLabel = "from" | "sent" | "to" | "cc" | "subject";

/** Labels of the header lines above a quoted message: "From: ... Sent: ... To: ... Subject: ...". */
export const headerLabels: ReadonlyMap<string, HeaderLabel> = new Map(
  Object.entries({
    from: "from|von|de|da|van|od|från|fra|lähettäjä|kimden|gönderen|от|від|от кого|feladó|from (sender)|expéditeur|remitente|mittente|afzender|από|差出人|送信者|发件人|寄件者|寄件人|보낸 사람|보낸사람|מאת|من|từ|dari|saatja|nuo|no|de la|šalje|จาก",
    sent: "sent|date|gesendet|datum|envoyé|envoyé le|enviado|enviado el|fecha|data|inviato|verzonden|enviada|enviada em|wysłano|data wysłania|skickat|sendt|dato|lähetetty|päivämäärä|päiväys|odesláno|dátum|odoslané|отправлено|дата|надіслано|gönderme tarihi|gönderildi|tarih|elküldve|küldve|trimis|dată|στάλθηκε|ημερομηνία|送信日時|日時|日付|发送时间|发送日期|日期|時間|寄件日期|傳送日期|보낸 날짜|날짜|נשלח|תאריך|تاريخ|تم الإرسال|ngày|đã gửi|tanggal|dikirim|saadetud|poslano|изпратено|ส่ง",
    to: "to|an|à|a|para|aan|do|till|til|vastaanottaja|komu|pro|кому|до|kime|alıcı|címzett|către|προς|destinataire|destinatario|宛先|收件人|收件者|받는 사람|받는사람|אל|إلى|đến|tới|kepada|kam|kellele|prima|za|до|ถึง",
    cc: "cc|kopie|copie|copia|kopia|kopi|kopio|kopie (cc)|копия|копія|bilgi|抄送|副本|참조|másolat",
    subject:
      "subject|betreff|objet|asunto|oggetto|onderwerp|assunto|temat|ämne|emne|aihe|předmět|predmet|тема|konu|tárgy|subiect|θέμα|件名|主题|主題|主旨|제목|נושא|الموضوع|tiêu đề|chủ đề|perihal|subjek|teema|tema|ämnet|zadeva|относно|เรื่อง",
  } satisfies { [label in HeaderLabel]: string }).flatMap(([label, words]) =>
    words.split("|").map((word) => [word, label as HeaderLabel] as const),
  ),
);

/** Labels for "sent" that also occur as date labels in other content. */
export const genericDates: ReadonlySet<string> = new Set(
  "date|datum|fecha|data|dato|päivämäärä|päiväys|dátum|дата|tarih|dată|ημερομηνία|日時|日付|日期|時間|날짜|תאריך|تاريخ|ngày|tanggal".split(
    "|",
  ),
);

/** A line that a phone or a program adds below a message: how it begins or ends, and the words besides names of devices
 *  (`devices`, `deviceNames`) that it can contain. Verbs, pronouns and "no" must not be listed: they make it a sentence. */
interface MobileLine {
  readonly starts: readonly string[];
  readonly ends: readonly string[];
  readonly words: ReadonlySet<string>;
}

const mobileLine = (starts: string, words: string, ends = ""): MobileLine => ({
  starts: starts.split("|").filter((start) => start !== ""),
  ends: ends.split("|").filter((end) => end !== ""),
  words: new Set(words.split("|")),
});

export const mobileLines: readonly MobileLine[] = [
  mobileLine(
    "sent from my |sent from the all new |sent from the |sent from |sent via my |sent via the |sent via |sent with my |sent with |" +
      "sent using |sent on the go from my |sent on the go from |sent on the go |this message was sent from my |this message was sent from ",
    "for|on|with|the|a|an|using|and|&|get|enjoy|encrypted|ad-free|emails|network",
  ),
  // "Get Outlook for Max" is a request.
  mobileLine(
    "get outlook for ios|get outlook for android|get outlook for mac|get outlook for windows|get bluemail for ",
    "",
  ),
  mobileLine(
    "yahoo mail: |yahoo mail : ",
    "search|organize|conquer|recherchez|organisez|conquérez|busca|organiza|conquista|cerca|organizza",
  ),
  // "From my phone" alone is an answer.
  mobileLine(
    "gesendet von meinem |gesendet von meiner |gesendet von |gesendet mit |gesendet über |gesendet aus |outlook für |holen sie sich outlook für |diese nachricht wurde von |" +
      "diese e-mail wurde von |von mobil gesendet",
    "von|mit|für|auf|aus|über|der|dem|einem|meinem|meiner|mobilen|sicherer|sichere|&|werbefreie|e-mails|herunterladen|beziehen|gesendet|gerät",
    "gesendet",
  ),
  mobileLine(
    "envoyé de mon |envoyé depuis mon |envoyé depuis ma |envoyé depuis |envoyé à partir de mon |envoyé à partir de |envoyé avec |" +
      "envoyé à partir d'|télécharger outlook|téléchargez outlook|obtenez outlook|obtenir outlook|outlook pour ",
    "de|du|pour|sur|avec|la|le|l'application|application|appareil|portable|messagerie|sécurisée|courriel|courrier",
  ),
  mobileLine(
    "enviado desde mi |enviado desde |enviado de mi |enviado de |obtener outlook|outlook para ",
    "de|desde|con|para|mi|la|un|dispositivo|teléfono|correo|aplicación",
  ),
  mobileLine(
    "enviado do meu |enviado da minha |enviado do |enviado de meu |enviado a partir do meu |enviado a partir |enviado via |" +
      "obter o outlook|obtenha o outlook|outlook para ",
    "do|da|de|no|com|para|meu|minha|dispositivo|telefone|telemóvel|correio|aplicativo",
  ),
  mobileLine(
    "inviato da mio |inviato da |inviato dal mio |inviato dal |scarica outlook|ottieni outlook|outlook per ",
    "da|dal|mio|per|su|con|il|un|dispositivo|telefono|posta|applicazione",
  ),
  mobileLine(
    "verstuurd vanaf mijn |verstuurd vanaf |verzonden vanaf mijn |verzonden vanaf |verzonden met |verzonden via |outlook voor |" +
      "download outlook voor ",
    "vanaf|mijn|met|voor|op|een|de|toestel|apparaat|telefoon|downloaden",
  ),
  mobileLine(
    "wysłane z |wysłano z |pobierz program outlook|uzyskaj program outlook",
    "z|za|na|dla|mojego|mojej|pomocą|telefonu|smartfona|urządzenia|systemu|programu|aplikacji|poczty|poczta",
  ),
  mobileLine(
    "skickat från min |skickat från mitt |skickat från |skickades från min |skickades från |hämta outlook|sendt fra min |" +
      "sendt fra mit |sendt fra mitt |sendt fra |hent outlook|få outlook",
    "för|från|med|på|til|fra|for|min|mit|mitt|telefon|enhet|enhed|smarttelefon|e-post|appen",
  ),
  mobileLine("lähetetty |hanki outlook", "for|älypuhelimesta|puhelimesta|laitteesta|sähköpostista|windowsin|lle|minun"),
  mobileLine(
    "odesláno z |odesláno ze |odoslané z |odoslané zo |získat outlook|získať outlook",
    "z|ze|zo|pro|pre|mého|môjho|telefonu|telefónu|zařízení|zariadenia|aplikace|aplikácie|pošta",
  ),
  mobileLine(
    "отправлено с |отправлено со |отправлено из |скачать outlook|скачайте outlook|надіслано з ",
    "с|со|из|з|для|на|моего|мого|помощью|устройства|пристрою|приложения|почта",
  ),
  mobileLine("küldve az |küldve a |küldve ", "az|a|omról|emről|ról|készülékről|készülékemről|eszközről"),
  mobileLine("trimis de pe ", "de|pe|ul|meu|telefonul|dispozitivul"),
  mobileLine("στάλθηκε από το |στάλθηκε από ", "από|το|μου|για|κινητό|συσκευή"),
  mobileLine("dikirim dari ", "saya|dari|untuk|ponsel|perangkat"),
  mobileLine("được gửi từ ", "từ|của|tôi|cho|điện|thoại"),
  mobileLine("", "cep|akıllı|telefonumdan|cihazımdan|için", "gönderildi"),
  mobileLine("أرسلت من |تم الإرسال من ", "من|الـ|ال|الخاص|بي|جهاز|جهازي|على|لـ"),
  // Scripts without spaces: the words are in `mobileTerms`.
  mobileLine("发自|傳送自|获取 outlook|取得 outlook", "for", "发送|發送|傳送|から送信|から送信されました|에서 보냄"),
];

/** Devices and programs that such a line names. "Sent from my account were 40 EUR" has none of these and
 *  is the customer's sentence. */
export const devices: readonly string[] = [
  "iphone|ipad|ipod|iphon|android|samsung|galaxy|blackberry|huawei|honor|xiaomi|redmi|oppo|oneplus|nokia|xperia|pixel",
  "motorola|windows phone|windows mail|mail for windows|outlook|yahoo|aol|proton|gmx|web.de|k-9|thunderbird|mail.ru|mail app",
  "yandex|bluemail|spark|airmail|typeapp|aqua mail|zoho|tutanota|tuta |fairemail|mailbird|smartphone|cell phone|cellphone",
  "mobile device|mobile phone|mobile|handy|mobiltelefon|mobilgerät|téléphone|mobil|móvil|celular|cellulare|telefoon",
  "gmail|fairphone|telekom mail|libero mail|mail orange|mail für windows|mail pour windows|mail para windows|mail per windows|mail voor windows",
  "tablet|wireless|handheld|телефон|мобильн|смартфон|планшет|яндекс|почты|手机|行動|スマートフォン|아이폰|안드로이드|هاتف",
].flatMap((words) => words.split("|"));

/** Names that have endings in some languages: "iPhonesta", "iPhone'a", "телефона". */
export const inflected: readonly string[] = [
  "iphone|iphon|ipad|android|samsung|galaxy|huawei|xiaomi|outlook|blackberry|smartphone|smartfon|mobiltelefon|puhelim",
  "телефон|мобильн|мобільн|смартфон|планшет|яндекс|هاتف|telefon|mobil",
].flatMap((words) => words.split("|"));

/** Makers, networks, models, systems and programs that such lines name besides `devices`. */
export const deviceNames: ReadonlySet<string> = new Set(
  [
    "ios|ipados|mac|macos|windows|google|apple|microsoft|lg|htc|sony|moto|droid|plus|pro|max|mini|ultra|air|note|edge|fold|flip|tab|se|fe",
    "lite|xl|lte|at&t|t-mobile|verizon|vodafone|sprint|orange|sfr|telekom|movistar|virgin|telus|mail|protonmail|email|e-mail|app|freemail",
    "desktop|web|phone|device|secure|libero",
  ].flatMap((words) => words.split("|")),
);

/** Words of such lines in scripts without spaces between words, the longest first. */
export const mobileTerms: readonly string[] = [
  "スマートフォン|メール|私の|스마트폰|안드로이드|아이폰|갤럭시|나의|내|手机|手機|行動|裝置|设备|华为|小米|荣耀|苹果",
  "邮件|郵件|邮箱|信箱|从我的|從我的|我的|适用于|版|的",
].flatMap((words) => words.split("|"));

/** Apologies that programs add to such a line. */
export const apologies: readonly string[] = [
  "please excuse my brevity|excuse my brevity|please excuse brevity|please excuse any typos|please excuse typos|excuse any typos|excuse typos",
  "veuillez excuser ma brièveté|disculpa mi brevedad|por favor, disculpa mi brevedad|perdonate la brevità|excuseer mijn beknoptheid",
  "desculpe-me pela brevidade|простите за краткость|извините за краткость|proszę wybaczyć moją zwięzłość|ursäkta min fåordighet",
  "beklager min kortfattethed|bitte entschuldigen sie die kürze|bitte verzeihen sie die kürze",
].flatMap((words) => words.split("|"));

/** How customers announce that their answers are inside the quoted message, by language. A sentence is such a hint when
 *  it matches both lists of a language: one for the answer, one for its place or colour. */
export const inlineHints: readonly { readonly answers: RegExp; readonly places: RegExp }[] = [
  {
    answers: /\b(?:answer|repl(?:y|ies|ied)|respon[sd]|comment|remark|notes?\b|see\b|feedback|inputs?\b|my text)/,
    places:
      /\b(?:below|inline|in-line|in line|in ?between|interleaved|underneath|embedded|under each|(?:with)?in (?:the |your )?(?:original |e-?)?(?:text|mail|message|body)|in (?:red|blue|green|bold|colou?r|caps|capitals?|italics?|purple|orange|pink))\b/,
  },
  {
    answers: /antwort|kommentar|anmerkung|bemerkung|siehe\b|rückmeldung|ergänzung/,
    places:
      /\bunten\b|\brot\b|\brote[rn]?\b|\bblau|\bgrün|\bfett|farbig|im (?:text|original|mail)|in (?:ihrer|deiner|der) (?:e-?)?mail|inline|dazwischen|direkt (?:im|in|unter|hinter)|nachfolgend|zwischen den/,
  },
  {
    answers: /réponse|répond|commentaire|remarque|voir\b|voyez/,
    places:
      /ci-dessous|ci dessous|en (?:rouge|bleu|vert|gras|couleur)|dans le (?:texte|corps|mail)|plus bas|en dessous/,
  },
  {
    answers: /respuesta|respond|contest|coment|\bver\b|\bvea/,
    places:
      /abajo|debajo|en (?:rojo|azul|verde|negrita|color)|en el (?:texto|cuerpo|correo)|a continuación|entre líneas/,
  },
  {
    answers: /rispost|rispond|comment|\bved[ia]\b|vedere/,
    places: /sotto|in (?:rosso|blu|verde|grassetto|calce|colore)|nel (?:testo|corpo)|di seguito/,
  },
  {
    answers: /respost|respond|coment|\bver\b|\bvej[ao]/,
    places: /abaixo|(?:em|a) (?:vermelho|azul|verde|negrito|cor)|no (?:texto|corpo)|entre linhas/,
  },
  {
    answers: /antwoord|reactie|opmerking|\bzie\b|commentaar/,
    places: /hieronder|onderstaand|onderaan|in (?:het )?(?:rood|blauw|groen|vet|kleur)|in de (?:tekst|mail)|tussen de/,
  },
  {
    answers: /odpowied|komentarz|uwag|patrz|zobacz/,
    places: /poniżej|na (?:czerwono|niebiesko|zielono)|czerwon|w (?:tekście|treści)|pogrubion/,
  },
  {
    answers: /ответ|отвеча|коммент|\bсм\.|смотри|замечани/,
    places: /ниже|красн|син(?:им|ий)|зел[её]н|(?:в|по) тексту?|жирн|внутри/,
  },
  {
    answers: /cevap|yanıt|\byorum/,
    places: /aşağıda|kırmızı|mavi|yeşil|metin|satır ara|kalın/,
  },
  {
    answers: /\bsvar|kommentar|\bse\b|bemærkning|merknad/,
    places:
      /nedan|nedenfor|nedenunder|\b(?:i )?(?:rött|röd|rødt|blått|blåt|grönt|grønt|fetstil|fed skrift)|i (?:texten|teksten|mailet|mejlet)/,
  },
  { answers: /إجاب|أجوب|رد|تعليق/, places: /أدناه|أسفل|بالأسفل|الأحمر|الأزرق|الأخضر/ },
  { answers: /回答|返信|返答|答え|コメント/, places: /下記|以下|赤|青|インライン|本文中|文中/ },
  { answers: /回复|回覆|答复|答覆|回答|意见|意見/, places: /红|紅|蓝|藍|下面|下方|以下|文中|正文|如下/ },
];

/** How a line begins that is only a greeting. */
export const greetings: readonly string[] = [
  "hi|hello|hey|hallo|dear|good morning|good afternoon|good evening|good day|greetings|to whom|guten|sehr geehrte|liebe|lieber|liebes|moin|servus",
  "grüß|grüezi|bonjour|bonsoir|salut|cher|chère|chers|madame|monsieur|mesdames|hola|buenos|buenas|estimad|querid|buongiorno",
  "buonasera|buon giorno|salve|ciao|gentil|egregi|spett|spettabile|olá|ola|bom dia|boa tarde|boa noite|prezad|caro|cara|beste",
  "geachte|goedemorgen|goedemiddag|goedenavond|goedendag|dag|dzień dobry|witam|szanown|cześć|добрый|здравствуй|привет|уважаем",
  "مرحبا|السلام عليكم|أهلا|عزيزي|السادة|merhaba|sayın|selam|iyi günler|günaydın|こんにちは|お世話|拝啓|おはよう|您好|你好|尊敬的|敬启",
  "hej|hei|hejsan|god morgon|god dag|bästa|kjære|kære|tere|ahoj|dobrý den|vážen|szia|tisztelt|bună|stimat|γεια|καλημέρα|안녕하세요",
].flatMap((words) => words.split("|"));

/** How a line begins that is only a closing phrase; a name may follow. Thanks are an answer and are not listed. */
export const closings: readonly string[] = [
  "best regards|kind regards|kindest regards|warm regards|regards|best wishes|best,|cheers|sincerely|yours|many greetings",
  "mit freundlichen|freundliche grüße|viele grüße|liebe grüße|beste grüße|schöne grüße|gruß|grüße|mfg|lg|vg|hochachtungsvoll",
  "cordialement|bien cordialement|bien à vous|salutations|sincères salutations|saludos|un saludo|atentamente|cordiali saluti",
  "distinti saluti|saluti|cordialmente|atenciosamente|cumprimentos|com os melhores|met vriendelijke|vriendelijke groet|groet|mvg",
  "pozdrawiam|z poważaniem|с уважением|مع تحيات|مع أطيب|saygılar|iyi çalışmalar|よろしく|敬具|此致|祝好|med vänlig|vänliga hälsningar|mvh|hälsningar",
].flatMap((words) => words.split("|"));

/** Phrases of the confidentiality notices that companies add to every message. A paragraph with one of
 *  each list is such a notice. */
export const disclaimers: { readonly secret: RegExp; readonly reader: RegExp; readonly mistake: RegExp } = {
  secret:
    /confidential|privileged|vertraulich|confidentiel|confidencial|riservat|confidenzial|vertrouwelijk|poufn|конфиденциал|gizli|機密|秘密|机密|機密|konfidentiell|fortrolig|سري/,
  reader:
    /intended recipient|addressee|intended (?:solely|only)|named recipient|adressat|empfänger|destinataire|destinatari|geadresseerde|adresat|адресат|получател|alıcı|受信者|宛先|收件人|mottagare|modtager|المرسل إليه/,
  mistake:
    /not the (?:intended|named)|in error|notify the sender|delete|destroy|disclos|disseminat|unauthori[sz]ed|solely for|irrtümlich|nicht der (?:richtige|beabsichtigte|vorgesehene)|vernicht|lösch|unbefugt|par erreur|détrui|supprim|por error|destru|elimin|borr|per errore|cancell|distrug|vernietig|verwijder|omyłk|usun|удал|ошиб|yanlışlıkla|silin|誤|削除|误|删除|刪除|felaktig|radera|slett|بطريق الخطأ|حذف/,
};

/** Terms that distinguish a line with a number from the contact details of a signature: the line is
 *  about the customer's business. */
export const businessWords: RegExp =
  /order|bestell|auftrag|artikel|article|item|invoice|rechnung|ticket|serial|serien|pedido|factura|commande|facture|ordine|fattura|zamów|faktur|заказ|сч[её]т|артикул|sipariş|fatura|注文|商品|订单|訂單|发票|طلب|فاتورة/;

/** Final terms of a line that needs the following text, so that "-- " below it does not start a signature. */
export const leadingWords: RegExp =
  /(?:^|\s)(?:to|at|for|of|with|is|are|from|following|follows|by|and|an|für|bei|von|nach|mit|ist|lautet|sind|und|folgende|folgt|à|pour|de|chez|est|et|para|por|es|son|y|al|per|è|di|da|aan|voor|naar|met|och|till|för|och|для|на|по|это|и|до)$/i;
