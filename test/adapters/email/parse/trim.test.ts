import { describe, expect, it } from "vitest";
import { mobileLines } from "../../../../adapters/email/parse/quotes/phrases.ts";
import { isWordless, type TrimOptions, trimReply } from "../../../../adapters/email/parse/quotes/trim.ts";
import { workedMs } from "../../../support/clock.ts";

const quoted = "> Your parcel left us on Monday.\n> Support";
const answer = "It has not come.\n\nAnna";

/** Attribution lines over a marked quote, by program or language. */
const attributions: readonly [string, string][] = [
  ["en, Gmail", "On Fri, May 3, 2024 at 10:00 AM Support <support@example.com> wrote:"],
  ["en, Gmail wrapped", "On Fri, May 3, 2024 at 10:00 AM Support Team\n<support@example.com> wrote:"],
  ["en, wrapped twice", "On Fri, May 3, 2024 at 10:00 AM\nSupport Team <support@example.com>\nwrote:"],
  ["en, Apple", "On 3 May 2024, at 10:00, Support <support@example.com> wrote:"],
  ["en, Thunderbird", "On 5/3/24 10:00, Support wrote:"],
  ["en, name first", "Support <support@example.com> wrote:"],
  ["en, mutt", "On Fri, May 03, 2024 at 10:00:00AM +0200, Support wrote:"],
  ["de, Gmail", "Am Fr., 3. Mai 2024 um 10:00 Uhr schrieb Support <support@example.com>:"],
  ["de, Apple", "Am 03.05.2024 um 10:00 schrieb Support <support@example.com>:"],
  ["de, wrapped", "Am Fr., 3. Mai 2024 um 10:00 Uhr schrieb Support Team\n<support@example.com>:"],
  ["de, name first", "Support <support@example.com> schrieb am Fr., 3. Mai 2024, 10:00:"],
  ["fr, Gmail", "Le ven. 3 mai 2024 à 10:00, Support <support@example.com> a écrit :"],
  ["fr, Apple", "Le 3 mai 2024 à 10:00, Support <support@example.com> a écrit :"],
  ["es", "El vie, 3 may 2024 a las 10:00, Support (<support@example.com>) escribió:"],
  ["it, Gmail", "Il giorno ven 3 mag 2024 alle ore 10:00 Support <support@example.com> ha scritto:"],
  ["it, Apple", "Il giorno 3 mag 2024, alle ore 10:00, Support <support@example.com> ha scritto:"],
  ["nl", "Op vr 3 mei 2024 om 10:00 schreef Support <support@example.com>:"],
  ["pt, Brazil", "Em sex., 3 de mai. de 2024 às 10:00, Support <support@example.com> escreveu:"],
  ["pt, Portugal", "Support <support@example.com> escreveu no dia sexta, 3/05/2024 à(s) 10:00:"],
  ["pl", "pt., 3 maj 2024 o 10:00 Support <support@example.com> napisał(a):"],
  ["pl, Thunderbird", "W dniu 3.05.2024 o 10:00, Support pisze:"],
  ["sv", "Den fre 3 maj 2024 kl 10:00 skrev Support <support@example.com>:"],
  ["da", "Den fre. 3. maj 2024 kl. 10.00 skrev Support <support@example.com>:"],
  ["no", "fre. 3. mai 2024 kl. 10:00 skrev Support <support@example.com>:"],
  ["fi", "pe 3. toukok. 2024 klo 10.00 Support (support@example.com) kirjoitti:"],
  ["cs", "pá 3. 5. 2024 v 10:00 odesílatel Support <support@example.com> napsal:"],
  ["sk", "pi 3. 5. 2024 o 10:00 Support <support@example.com> napísal(a):"],
  ["ru", "пт, 3 мая 2024 г. в 10:00, Support <support@example.com>: написал:"],
  ["ru, Mail.ru", "Пятница, 3 мая 2024, 10:00 +03:00 от Support <support@example.com> пишет:"],
  ["uk", "пт, 3 трав. 2024 р. о 10:00 Support <support@example.com> пише:"],
  ["bg", "На пт, 3.05.2024 г. в 10:00 Support <support@example.com> написа:"],
  ["tr", "Support <support@example.com>, 3 May 2024 Cum, 10:00 tarihinde şunu yazdı:"],
  ["hu", "Support <support@example.com> ezt írta (időpont: 2024. máj. 3., P, 10:00):"],
  ["ro", "În vin., 3 mai 2024 la 10:00, Support <support@example.com> a scris:"],
  ["el", "Στις Παρ 3 Μαΐ 2024 στις 10:00 π.μ., ο χρήστης Support <support@example.com> έγραψε:"],
  ["hr", "pet, 3. svi 2024. u 10:00 Support <support@example.com> napisao je:"],
  ["ja, Gmail", "2024年5月3日(金) 10:00 Support <support@example.com>:"],
  ["ja, verb", "2024/05/03 10:00、Support <support@example.com>のメール:"],
  ["zh", "Support <support@example.com> 于2024年5月3日周五 10:00写道："],
  ["zh, Taiwan", "Support <support@example.com> 於 2024年5月3日 週五 上午10:00寫道："],
  ["ko", "2024년 5월 3일 (금) 오전 10:00, Support <support@example.com>님이 작성:"],
  ["vi", "Vào Th 6, 3 thg 5, 2024 lúc 10:00 Support <support@example.com> đã viết:"],
  ["id", "Pada Jum, 3 Mei 2024 pukul 10.00 Support <support@example.com> menulis:"],
  ["ca", "Missatge de Support <support@example.com> del dia dv., 3 de maig 2024 a les 10:00:"],
];

describe("trailing quotes", () => {
  it.each(attributions)("%s, marked", (_, line) => {
    expect(trimReply(`${answer}\n\n${line}\n\n${quoted}\n`).text).toBe(answer);
  });
  it.each(attributions)("%s, unmarked", (_, line) => {
    expect(trimReply(`${answer}\n\n${line}\n\nYour parcel left us.\nSupport\n`).text).toBe(answer);
  });
});

/** Header blocks and delimiters, after which all is quoted though nothing is marked. */
const blocks: readonly [string, string][] = [
  ["Outlook en", "From: Support <support@example.com>\nSent: Friday, May 3, 2024 10:00\nTo: Anna\nSubject: RE: parcel"],
  [
    "Outlook en, with a rule",
    "________________________________\nFrom: Support\nSent: Friday\nTo: Anna\nSubject: parcel",
  ],
  ["Outlook en, bold", "*From:* Support\n*Sent:* Friday\n*To:* Anna\n*Subject:* parcel"],
  ["Outlook de", "Von: Support\nGesendet: Freitag, 3. Mai 2024 10:00\nAn: Anna\nBetreff: Paket"],
  ["Outlook fr", "De : Support\nEnvoyé : vendredi 3 mai 2024\nÀ : Anna\nObjet : colis"],
  ["Outlook es", "De: Support\nEnviado el: viernes\nPara: Anna\nAsunto: paquete"],
  ["Outlook it", "Da: Support\nInviato: venerdì\nA: Anna\nOggetto: pacco"],
  ["Outlook nl", "Van: Support\nVerzonden: vrijdag\nAan: Anna\nOnderwerp: pakket"],
  ["Outlook pt", "De: Support\nEnviada em: sexta\nPara: Anna\nAssunto: encomenda"],
  ["Outlook pl", "Od: Support\nWysłano: piątek\nDo: Anna\nTemat: paczka"],
  ["Outlook sv", "Från: Support\nSkickat: fredag\nTill: Anna\nÄmne: paket"],
  ["Outlook da", "Fra: Support\nSendt: fredag\nTil: Anna\nEmne: pakke"],
  ["Outlook fi", "Lähettäjä: Support\nLähetetty: perjantai\nVastaanottaja: Anna\nAihe: paketti"],
  ["Outlook cs", "Od: Support\nOdesláno: pátek\nKomu: Anna\nPředmět: zásilka"],
  ["Outlook ru", "От: Support\nОтправлено: пятница\nКому: Anna\nТема: посылка"],
  ["Outlook tr", "Kimden: Support\nGönderildi: cuma\nKime: Anna\nKonu: paket"],
  ["Outlook ja", "差出人: Support\n送信日時: 2024年5月3日\n宛先: Anna\n件名: 荷物"],
  ["Outlook zh", "发件人: Support\n发送时间: 2024年5月3日\n收件人: Anna\n主题: 包裹"],
  ["Outlook ko", "보낸 사람: Support\n보낸 날짜: 금요일\n받는 사람: Anna\n제목: 소포"],
  ["no subject, but an address", "From: support@example.com\nDate: Friday\nTo: anna@example.org"],
  ["Original Message", "-----Original Message-----\nanything"],
  ["de", "-----Ursprüngliche Nachricht-----\nx"],
  ["GMX", "-------- Original-Nachricht --------\nx"],
  ["fr", "-----Message d'origine-----\nx"],
  ["es", "-----Mensaje original-----\nx"],
  ["it", "-----Messaggio originale-----\nx"],
  ["nl", "-----Oorspronkelijk bericht-----\nx"],
  ["pt", "-----Mensagem original-----\nx"],
  ["ru", "-----Исходное сообщение-----\nx"],
  ["zh, QQ", "------------------ 原始邮件 ------------------\nx"],
];

describe("tails", () => {
  it.each(blocks)("%s", (_, block) => {
    expect(trimReply(`${answer}\n\n${block}\n\nYour parcel left us.\n`).text).toBe(answer);
  });
});

const signatures: readonly [string, string][] = [
  ["-- ", "-- \nAnna Doe\nExample Inc."],
  ["-- without its space", "--\nAnna Doe"],
  ["iPhone", "Sent from my iPhone"],
  ["iPhone de", "Von meinem iPhone gesendet"],
  ["iPhone fr", "Envoyé de mon iPhone"],
  ["iPhone es", "Enviado desde mi iPhone"],
  ["iPhone it", "Inviato da iPhone"],
  ["iPhone nl", "Verstuurd vanaf mijn iPhone"],
  ["iPhone pl", "Wysłane z iPhone'a"],
  ["iPhone sv", "Skickat från min iPhone"],
  ["iPhone ja", "iPhoneから送信"],
  ["iPhone zh", "发自我的iPhone"],
  ["Outlook", "Get Outlook for iOS<https://aka.ms/o0ukef>"],
];

/** What phones and programs add, by language. */
const mobile =
  `Sent from my iPhone | Sent from my iPad | Sent from my Galaxy | Sent from my Samsung Galaxy S21 Ultra 5G |
  Sent from my Samsung Galaxy smartphone. | Sent from my Verizon, Samsung Galaxy smartphone |
  Sent via the Samsung Galaxy S21 Ultra 5G, an AT&T 5G smartphone | Sent from my T-Mobile 4G LTE Android device |
  Sent from my BlackBerry 10 smartphone on the Virgin Mobile network. | Sent from my BlackBerry® wireless device |
  Sent from Outlook for iOS<https://aka.ms/o0ukef> | Sent from Outlook for Android [https://aka.ms/AAb9ysg] |
  Sent from Outlook | Get Outlook for Android <https://aka.ms/AAb9ysg> | Get Outlook for iOS. | Get Outlook for Mac |
  Get BlueMail for Android | Sent from Yahoo Mail on Android | Sent from Yahoo Mail. Get the app |
  Sent from Yahoo Mail for iPhone |
  Yahoo Mail: Search, Organize, Conquer<https://mail.onelink.me/107872968?pid=nativeplacement&c=Global_Acquisition_YMktg_315_Internal_EmailSignature&af_sub1=Acquisition&af_sub2=Global_YMktg&af_sub3=&af_sub4=100000604&af_sub5=EmailSignature__Static_> |
  Sent from AOL Mobile Mail | Sent from the all new AOL app for iOS | Sent from Mail for Windows 10 |
  Sent from Mail<https://go.microsoft.com/fwlink/?LinkId=550986> for Windows | Sent with Proton Mail secure email. |
  Sent with [Proton Mail](https://proton.me/) secure email. | Sent from Proton Mail Android |
  Sent from my Android device with K-9 Mail. Please excuse my brevity. | Sent from my iPhone, please excuse typos. |
  Sent from my Huawei P30 Pro | Sent from my mobile | Sent from my mobile phone | Sent from my mobile device. |
  *Sent from my iPhone* | --Sent from my Windows Phone | Von meinem iPhone gesendet | Von meinem Samsung Gerät gesendet. |
  Von meinem/meiner Galaxy gesendet | Von meinem Huawei-Mobiltelefon gesendet |
  Diese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet. |
  Diese Nachricht wurde von meinem Android Mobiltelefon mit WEB.DE Mail gesendet. | Gesendet mit der GMX Mail App |
  Gesendet mit der mobilen Mail App | Gesendet von Outlook für Android | Gesendet von Yahoo Mail auf Android |
  Outlook für Android<https://aka.ms/AAb9ysg> herunterladen | Envoyé de mon iPhone |
  Envoyé depuis mon téléphone portable Orange | Envoyé à partir de Outlook pour Android |
  Envoyé de mon appareil Android avec Courriel K-9 Mail. Veuillez excuser ma brièveté. |
  Télécharger Outlook pour iOS<https://aka.ms/o0ukef> | Obtenez Outlook pour Android |
  Envoyé depuis Yahoo Mail pour iPhone | Enviado desde mi iPhone | Enviado desde mi smartphone Samsung Galaxy. |
  Enviado desde mi dispositivo móvil | Enviado desde mi móvil | Enviado desde Yahoo Mail con Android |
  Obtener Outlook para Android | Enviado do meu iPhone | Enviado do meu smartphone Samsung Galaxy. |
  Enviado do Yahoo Mail no Android | Obter o Outlook para iOS | Inviato da iPhone | Inviato da mio iPhone |
  Inviato dal mio telefono Huawei | Inviato dal mio dispositivo Android con K-9 Mail. Perdonate la brevità. |
  Inviato da Outlook per Android | Scarica Outlook per iOS | Ottieni Outlook per Android | Verstuurd vanaf mijn iPhone |
  Verzonden vanaf mijn Galaxy | Verstuurd vanaf mijn Samsung-apparaat | Verzonden via Outlook voor iOS |
  Outlook voor Android downloaden | Wysłane z iPhone'a | Wysłano z telefonu Samsung Galaxy | Wysłane z mojego iPhone’a |
  Wysłano z programu Outlook dla systemu Android | Pobierz program Outlook dla systemu iOS | Skickat från min iPhone |
  Skickat från min Samsung Galaxy-smartphone. | Hämta Outlook för Android | Skickat från Outlook för iOS |
  Sendt fra min iPhone | Sendt fra min Samsung Galaxy-smarttelefon. | Hent Outlook til Android | Få Outlook for iOS |
  Lähetetty iPhonesta | Lähetetty Samsung Galaxy -älypuhelimesta. | Hanki Outlook for Android | Hanki Outlook iOS:lle |
  Odesláno z iPhonu | Odesláno z mého iPhonu | Odesláno z Outlooku pro Android | Odoslané z iPhonu | Отправлено с iPhone |
  Отправлено с моего iPhone | Отправлено из Mail.ru для Android | Отправлено из Яндекс.Почты для мобильных |
  Отправлено с мобильного устройства | Скачать Outlook для iOS | Надіслано з iPhone | Küldve az iPhone-omról |
  Trimis de pe iPhone-ul meu | Στάλθηκε από το iPhone μου | Dikirim dari iPhone saya | Được gửi từ iPhone của tôi |
  iPhone'umdan gönderildi | Samsung Galaxy akıllı telefonumdan gönderildi. | iPad'imden gönderildi | iPhoneから送信 |
  Yahoo!メール for iPhoneから送信 | Androidスマートフォンから送信されました | 나의 iPhone에서 보냄 | Galaxy에서 보냄 | 发自我的iPhone | 发自我的手机 |
  从我的 iPhone 发送 | 從我的 iPhone 傳送 | 获取 Outlook for iOS | أرسلت من الـ iPhone | أرسلت من هاتفي | أرسلت من جهازي الـ iPhone`.split(
    /\s*\|\s*/,
  );
/** What customers write with such a beginning, or end. */
const notMobile = `Von meinem Handy geht es nicht. | Sent from my Galaxy the photos arrive blank. |
  Enviado desde mi móvil el formulario da error 500. | Get Outlook for my colleague as well please, order 2 licences. |
  Get Outlook for Max. | Get Outlook for my mobile. | Get Outlook for 2 mobile devices |
  Sent via mobile app on Monday, no reply yet. | Sent from my iPhone, no email arrived. |
  Sent via Outlook, no mail since. | Sent with Outlook on Monday. | Sent from my iPhone the photos are blank. |
  Sent from Outlook it works. | Yahoo Mail: the message bounced | Von meinem Handy. | Von meinem iPhone |
  Das Foto habe ich vom Handy gesendet | Gesendet von der Sparkasse. | Gesendet mit DHL, das Handy kam nie an. |
  Gesendet von Ihrem Shop wurde das falsche Handy. | Outlook für Android stürzt beim Start ab. |
  Diese Nachricht wurde von Outlook als Spam markiert. | Envoyé de mon mobile le formulaire ne marche pas. |
  Outlook pour Android ne s'ouvre plus. | Envoyé depuis l'application mobile, toujours sans réponse. |
  Outlook para Android no abre. | Enviado do meu celular o formulário dá erro. |
  Inviato dal mio cellulare il modulo non funziona. | Outlook per Android si chiude. |
  Verzonden met de verkeerde telefoon, mobiel is kapot. | Verstuurd vanaf mijn mobiel werkt het formulier niet. |
  Outlook voor Android start niet. | Wysłane z telefonu Samsung zdjęcia są puste. |
  Skickat från min mobil kommer bilderna inte fram. | Sendt fra min mobil virker formularen ikke. |
  Lähetetty Samsung-puhelimesta kuvat ovat tyhjiä. | Odesláno z mobilu, ale odpověď nepřišla. |
  Отправлено с телефона фото не открывается. | Küldve a mobilomról, de nem jött válasz. |
  Trimis de pe mobil formularul nu merge. | Στάλθηκε από το mobile αλλά δεν ήρθε. |
  Dikirim dari mobile formulirnya error. | Được gửi từ iPhone nhưng ảnh bị trống. | Sipariş mobil uygulamadan gönderildi |
  写真はiPhoneから送信 | スマートフォンから送信しましたが写真が届きません | 나의 아이폰이 고장났어요. | 나의 아이폰 | 사진은 iPhone에서 보냄 | 从我的手机无法登录 | 发自我的手机的照片打不开 |
  أرسلت من هاتفي الصور ولم تصل`.split(/\s*\|\s*/);

describe("the line of a phone or a program", () => {
  it.each(mobile)("is removed: %s", (line) => {
    expect(trimReply(`It has not come.\n\n${line}\n`).text).toBe("It has not come.");
  });
  it.each(notMobile)("but not the customer's sentence: %s", (line) => {
    expect(trimReply(`It has not come.\n${line}\n`).text).toBe(`It has not come.\n${line}`);
  });
  it.each(mobileLines.map((line) => [[...line.starts, ...line.ends].join(", "), line] as const))(
    "has nothing but names, in the language of: %s",
    (_, { starts, ends }) => {
      const lines = [
        ...starts.flatMap((start) =>
          ["Galaxy zzqx kapft", "Outlook. Zzqx!", "iPhone 4711 zzqx"].map((rest) => start + rest),
        ),
        ...ends.flatMap((end) => ["Zzqx Galaxy ", "Outlook, zzqx "].map((rest) => rest + end)),
      ];
      for (const line of lines) expect(trimReply(`It has not come.\n${line}`).text).toContain(line);
      for (const start of starts)
        expect(trimReply(`It has not come.\n${start} Outlook Android 12.`).text).toBe("It has not come.");
      for (const end of ends)
        expect(trimReply(`It has not come.\nSamsung Galaxy ${end}.`).text).toBe("It has not come.");
    },
  );
  it("is not a line with a long text below its address", () => {
    const line = `Sent from my iPhone ${"x".repeat(1500)}`;
    expect(trimReply(`It has not come.\n${line}`).text).toContain(line);
  });
});

describe("signatures", () => {
  it.each(signatures)("%s", (_, signature) => {
    expect(trimReply(`It has not come.\n\n${signature}\n`).text).toBe("It has not come.");
  });
  it.each(signatures)("%s over a quote", (_, signature) => {
    const text = `It has not come.\n\n${signature}\n\nOn 5/3/24 10:00, Support wrote:\n${quoted}\n`;
    expect(trimReply(text).text).toBe("It has not come.");
  });
});

describe("what is kept", () => {
  const same = (text: string) => expect(trimReply(text).text).toBe(text.trim());
  it("a list of addresses below a line of dashes", () =>
    same("Please remove\n--\na@example.org\nb@example.org\nc@example.org"));
  it("a long text below a line of dashes", () => same(`First\n--\n${"a paragraph\n".repeat(20)}`));
  it("a timetable", () => same("I travel\nFrom: Berlin\nTo: Munich\nDate: 3 May 2024\nPlease book."));
  it("a sentence that begins like an attribution", () => same("On Monday he wrote:\nI am late."));
  it("a form of name and number", () => same("Name: Anna\nNumber: 42\nSubject: parcel"));
  it("a sentence about a phone in the middle", () => same("Sent from my office?\nYes.\nNo.\nMaybe.\nThat is all."));
  it("a quote alone", () => same("> all\n> quoted"));
  it("a header block alone", () => same("From: a@example.org\nSent: Friday\nTo: b\nSubject: c\n\nOld text"));
  it("nothing", () => same(""));
  it("a forward", () => {
    const text = "See below\n\n-----Original Message-----\nx";
    expect(trimReply(text, { relation: "forward" }).text).toBe(text);
  });
  it("a forwarded mail without the hint", () =>
    expect(trimReply("Can you help?\n\n---------- Forwarded message ---------\nHello")).toEqual({
      text: "Can you help?\n\n---------- Forwarded message ---------\nHello",
      forwards: true,
    }));
  it("answers between quotes, without the last quote", () => {
    const text = "Hi,\n\n> first question\nyes\n\n> second question\nno\n\n> Support";
    expect(trimReply(text).text).toBe("Hi,\n\n> first question\nyes\n\n> second question\nno");
  });
  it("the answer below a quote", () => {
    expect(trimReply(`On 5/3/24 10:00, Support wrote:\n${quoted}\n\nIt has not come.\n`).text).toBe("It has not come.");
  });
  it("the answer below a quote, without its signature", () => {
    expect(trimReply(`${quoted}\n\nIt has not come.\n\n-- \nAnna`).text).toBe("It has not come.");
  });
  it("the text in front of a quote on one line", () => {
    expect(trimReply("No! On Fri, May 3, 2024 at 10:00 Support <s@example.com> wrote: > hello > you").text).toBe("No!");
  });
});

describe("what must not be cut", () => {
  const tail = "On Fri, May 3, 2024 at 10:00 AM Support <support@example.com> wrote:\nWhich lamp?";
  const outlook = "From: Support <support@example.com>\nSent: Friday\nTo: Anna\nSubject: lamps\n\nWhich lamp?";
  const ours = { relation: "ours", isOwn: (address: string) => address.endsWith("@example.com") } as const;
  const whole = (text: string, options: TrimOptions = ours) => expect(trimReply(text, options).text).toBe(text.trim());
  it.each(["new", "reply"] as const)("an unmarked quote in a mail that is %s", (relation) => {
    whole(`Please check.\n\n${tail}`, { ...ours, relation });
    whole(`Please check.\n\n${outlook}`, { ...ours, relation });
    whole(`Please check.\n\n-----Original Message-----\n${outlook}`, { ...ours, relation });
  });
  it("a marked quote in a new mail that no program announces", () => {
    whole("It prints\n\n> error 17", { relation: "new" });
    whole("> error 17\n\nWhat is that?", { relation: "new" });
    const marked = "Yes.\n\nOn Fri, May 3, 2024 at 10:00 AM S <s@example.com> wrote:\n> Shall we?";
    expect(trimReply(marked, { relation: "new" }).text).toBe("Yes.");
  });
  it.each([
    "Dear team,",
    "Hello Support!",
    "Guten Tag Frau Müller,",
    "Bonjour,",
    "Estimados señores:",
    "您好，",
    "Hi,\n\nBest regards\nAnna",
    "Hello,\n\nSent from my iPhone",
  ])("what leaves a greeting only: %s", (words) => {
    whole(`${words}\n\n${tail}`);
    whole(`${words}\n\n${outlook}`);
    whole(`${words}\n\n${tail.replace(/\n/, "\n> ")}`);
  });
  it.each(["Yes", "Thank you!", "Hello, yes please.", "4711", "Hi, it is 4711", "Danke", "No, best do it today"])(
    "but short answers stand alone: %s",
    (words) => expect(trimReply(`${words}\n\n${tail}`, ours).text).toBe(words),
  );
  it.each([
    "See my answers in red.",
    "Please find my comments below.",
    "I have answered inline.",
    "My replies are\nin blue.",
    "Siehe meine Anmerkungen im Text.",
    "Meine Antworten in rot",
    "Mes réponses ci-dessous",
    "Vedi le mie risposte in rosso",
    "Mis respuestas abajo",
    "Zie mijn antwoorden hieronder",
    "Minhas respostas em vermelho",
    "Moje odpowiedzi poniżej",
    "Мои ответы ниже красным",
    "Mina svar i rött",
    "Cevaplarım aşağıda kırmızı",
    "回答は赤字で書きました",
    "我的回复见红字",
    "إجاباتي باللون الأحمر",
  ])("answers inside of the quote: %s", (words) => {
    whole(`${words}\n\n${tail}\nThe blue one.`);
    whole(`Hello,\n${words}\n\nAnna\n\n${outlook}\nThe blue one.`);
  });
  it.each(["The lamp is red.", "It costs below 40 EUR.", "I answered the phone.", "Die rote Lampe."])(
    "but not every colour is a hint: %s",
    (words) => expect(trimReply(`${words}\n\n${tail}`, ours).text).toBe(words),
  );
  it("quoted mails of others", () => {
    whole(`See what Bob says.\n\n${tail.replace("support@example.com", "bob@example.net")}`);
    whole(`See what Bob says.\n\n${outlook.replace("support@example.com", "bob@example.net")}`);
    whole(`See.\n\n-----Original Message-----\n${outlook.replace("support@example.com", "bob@example.net")}`);
  });
  it.each([
    "--\nred\nblue",
    "-- \n- red\n- blue",
    "--\n1. red\n2. blue",
    "-- \n2 x red\n1 x blue",
    "--\nIs that right?",
  ])("a list below dashes: %j", (list) => whole(`Please order\n\n${list}`));
  it("text below our marker in a quote", () => {
    whole("Hello!\n\n> Which lamp?\n> [ref:bh-k3j5h2k1jh]\n>\n> The blue one.");
    whole(`I answer.\n\n${tail}\n[ref:bh-k3j5h2k1jh]\n\nThe blue one.`);
    expect(trimReply("Blue.\n\n> Which lamp?\n> [ref:bh-k3j5h2k1jh]\n>\n", ours).text).toBe("Blue.");
  });
  it.each([
    "Name: Anna\n\nFrom: Berlin\nTo: Munich\nDate: 3 May 2026\nSubject: Trip\n\nPlease book",
    "I sold it.\n\nFrom: me\nTo: Bob\nSubject: lamp\nPrice: 40\n\nPlease refund",
    "My number is 4711.\n--\nAnna Doe\nOrder: 4711\nArticle: 12",
    "Please deliver to\n-- \nAnna Doe\n12 High Street",
    `Thanks\n\n${tail}\n\n> How many?\n\nThree pieces.`,
  ])("other text that looks like a quote or a signature: %j", (text) => whole(text, { ...ours, names: ["anna"] }));
  it("signs that the customer typed at the beginning of a line", () =>
    whole("The export fails. I press\n> File > Export\n> CSV"));
  it("what the customer quotes", () => whole("It prints this:\n\n> error 17"));
  it("a last line directly above an attribution that begins with the name", () => {
    const line = "Support <support@example.com> schrieb am Fr., 3. Mai 2024, 10:00:";
    expect(trimReply(`Danke.\nAm Montag bin ich da\n${line}\n> Wann?`, ours).text).toBe("Danke.\nAm Montag bin ich da");
    expect(trimReply("Le colis est là\nSupport <support@example.com> a écrit :\n> Où ?", ours).text).toBe(
      "Le colis est là",
    );
  });
  it("a question about what is confidential", () =>
    whole("Hello.\n\nIs my data confidential? The addressee on the parcel was wrong, delete her from my account."));
  it("a postscript below the line of a phone", () => whole("Yes\n\nSent from my iPhone\n\nPS: the blue one"));
  it("a sentence that begins like the line of a phone", () => whole("I paid.\nSent from my account was 40 EUR."));
});

describe("a mail without text of its author", () => {
  const block = "From: a@example.org\nSent: Friday\nTo: b\nSubject: c\n\nOld text";
  const attribution = `On 5/3/24 10:00, Support wrote:\n${quoted}`;
  it.each([
    ["nothing", ""],
    ["a quote", "> all\n> quoted"],
    ["a quote and who said it", attribution],
    ["a header block", block],
    ["a signature", "-- \nDora\nHead of Support"],
    ["a signature over a quote", `-- \nDora\n\n${attribution}`],
    ["a signature over a header block", `--\nDora\n\n${block}`],
    ["a phone's line over a quote", `Sent from my iPhone\n\n${attribution}`],
  ])("%s", (_, text) => expect(isWordless(text)).toBe(true));
  it.each([
    ["words", "Here it is."],
    ["words over a quote", `Here it is.\n\n${attribution}`],
    ["words under a quote", `${quoted}\n\nHere it is.`],
    ["words and a signature", "Here it is.\n\n-- \nDora"],
    ["words over a header block", `Here it is.\n\n${block}`],
    ["one word", "ok"],
  ])("but not %s", (_, text) => expect(isWordless(text)).toBe(false));
});

describe("hostile text", () => {
  const seeds: readonly [string, string][] = [
    ["underscores", "_"],
    ["newlines", "\n"],
    ["attributions", "schrieb<Am "],
    ["dashes", "- "],
    ["quotes", "> \n"],
    ["colons", "On 2024 a@b :\n"],
    ["labels", "From: a\n"],
    ["blocks", "From: a@b\nTo: c\n"],
    ["signatures", "-- \nx\n"],
    ["wrote", "On 2024 wrote: >\n"],
    ["markers", "[ref:bh-"],
    ["rules", "_____\n"],
  ];
  it.each(seeds)("%s take a time in proportion to their length", (_, seed) => {
    const time = (length: number) => {
      const text = `x\n${seed.repeat(Math.ceil(length / seed.length))}\ny`;
      const start = workedMs();
      trimReply(text);
      return workedMs() - start;
    };
    time(50_000);
    expect(time(1_000_000)).toBeLessThan(5000);
    // Four times as long may take some more than four times as long (a busy machine), but never sixteen times.
    const short = Math.max(20, Math.min(time(250_000), time(250_000)));
    expect(Math.min(time(1_000_000), time(1_000_000))).toBeLessThan(short * 10);
  });
});
