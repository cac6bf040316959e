import { describe, expect, it } from "vitest";
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
