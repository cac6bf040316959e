// What mail programs write around quoted text, by language. Data only; trim.ts and forward.ts read it. All in lower case.

/**
 * "On <date>, <somebody> wrote:". `starts` is how the line begins (or "" when it begins with the date or the name), `says` the
 * words one of which it holds after that. A line must also hold a digit or an address, and end in a colon.
 */
export interface Attribution {
  readonly starts: readonly string[];
  readonly says: readonly string[];
}

export const attributions: readonly Attribution[] = [
  { starts: ["on "], says: [" wrote", " writes", " said"] }, // en
  { starts: [""], says: [" wrote", " writes"] }, // en, name or date first
  { starts: ["am ", "an ", "vom ", "den "], says: [" schrieb", " schrieben"] }, // de
  { starts: [""], says: [" schrieb am ", " schrieb"] },
  { starts: ["le ", "on "], says: [" a écrit", " écrit", " a ecrit", " a écrit"] }, // fr
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
  { starts: [""], says: ["님이 작성", "작성:", "님의 말", "이(가) 작성"] }, // ko
  { starts: [""], says: ["כתב", "מאת"] }, // he
  { starts: [""], says: ["كتب", "كتبت"] }, // ar
  { starts: [""], says: ["เขียน", "ने लिखा", "نوشت"] }, // th, hi, fa
];

/** Japanese and Korean attributions need no verb: "2024年5月3日(金) 12:00 山田 <a@example.com>:". */
export const datedByYear = /^\d{4}\s{0,2}[年년./-]\s{0,2}\d{1,2}\s{0,2}[月월./-].{0,300}[@<].{1,300}[:：]$/u;

/** The words between the dashes of "-----Original Message-----". */
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

/** The words of a forward: between dashes, or alone with a colon ("Begin forwarded message:"). */
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

/** Subject prefixes of a forward, without the colon. "vs" and "i" mean something else elsewhere, so they are not here. */
export const forwardPrefixes: ReadonlySet<string> = new Set(
  [
    "fwd|fw|wg|tr|rv|enc|vb|vl|pd|ilt|i̇lt|doorst|vidbef|továbbítás",
    "trans|transf|rif-fwd|転送|转发|轉寄|轉發|전달|πρθ|пересл|fs|reenv|прк|הועבר",
  ].flatMap((words) => words.split("|")),
);

export type HeaderLabel = "from" | "sent" | "to" | "cc" | "subject";

/** Labels of the header lines that are put over a quoted mail: "From: ... Sent: ... To: ... Subject: ...". */
export const headerLabels: ReadonlyMap<string, HeaderLabel> = new Map(
  Object.entries({
    from: "from|von|de|da|van|od|från|fra|lähettäjä|kimden|gönderen|от|від|от кого|feladó|from (sender)|expéditeur|remitente|mittente|afzender|από|差出人|送信者|发件人|寄件者|寄件人|보낸 사람|보낸사람|מאת|من|từ|dari|saatja|nuo|no|de la",
    sent: "sent|date|gesendet|datum|envoyé|envoyé le|enviado|enviado el|fecha|data|inviato|verzonden|enviada|enviada em|wysłano|data wysłania|skickat|sendt|dato|lähetetty|päivämäärä|päiväys|odesláno|dátum|odoslané|отправлено|дата|надіслано|gönderme tarihi|gönderildi|tarih|elküldve|küldve|trimis|dată|στάλθηκε|ημερομηνία|送信日時|日時|日付|发送时间|发送日期|日期|時間|寄件日期|傳送日期|보낸 날짜|날짜|נשלח|תאריך|تاريخ|تم الإرسال|ngày|đã gửi|tanggal|dikirim|saadetud",
    to: "to|an|à|a|para|aan|do|till|til|vastaanottaja|komu|pro|кому|до|kime|alıcı|címzett|către|προς|destinataire|destinatario|宛先|收件人|收件者|받는 사람|받는사람|אל|إلى|đến|tới|kepada|kam|kellele",
    cc: "cc|kopie|copie|copia|kopia|kopi|kopio|kopie (cc)|копия|копія|bilgi|抄送|副本|참조|másolat",
    subject:
      "subject|betreff|objet|asunto|oggetto|onderwerp|assunto|temat|ämne|emne|aihe|předmět|predmet|тема|konu|tárgy|subiect|θέμα|件名|主题|主題|主旨|제목|נושא|الموضوع|tiêu đề|chủ đề|perihal|subjek|teema|tema|ämnet",
  } satisfies { [label in HeaderLabel]: string }).flatMap(([label, words]) =>
    words.split("|").map((word) => [word, label as HeaderLabel] as const),
  ),
);

/** How lines begin that a phone or a program puts under a mail. */
export const mobileSignatures: readonly string[] = [
  "sent from my |sent from mail for |sent from outlook|sent from yahoo mail|sent from aol|sent from proton",
  "sent via |sent with |get outlook for |sent on the go",
  "von meinem |gesendet von |gesendet mit |outlook für |diese nachricht wurde von mein|von mobil gesendet",
  "envoyé de mon |envoyé depuis |envoyé à partir de |envoyé avec |télécharger outlook|obtenez outlook|obtenir outlook",
  "enviado desde |enviado do |enviado de |enviado a partir |obtener outlook|obter o outlook|enviado via ",
  "inviato da |inviato dal |scarica outlook|ottieni outlook",
  "verstuurd vanaf |verzonden vanaf |verzonden met |outlook voor |verzonden via ",
  "wysłane z |wysłano z |pobierz program outlook|uzyskaj program outlook",
  "skickat från |skickades från |hämta outlook|sendt fra |hent outlook|få outlook|lähetetty |hanki outlook",
  "odesláno z |odesláno ze |odoslané z |získat outlook|отправлено с |отправлено из |надіслано з ",
  "скачать outlook|küldve |trimis de pe |στάλθηκε από |dikirim dari |được gửi từ ",
  "发自|從我的|从我的|傳送自|获取 outlook|나의 ",
].flatMap((words) => words.split("|"));

/** How such lines end where the language puts the verb last. */
export const mobileEndings: readonly string[] = [
  "gesendet|gesendet.|umdan gönderildi|dan gönderildi|den gönderildi|から送信|から送信されました|에서 보냄",
].flatMap((words) => words.split("|"));
