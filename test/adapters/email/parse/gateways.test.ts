// What servers, gateways and scanners write into messages of people is not the author's text; what people write about
// links, attachments and viruses is.

import { describe, expect, it } from "vitest";
import { isFooterNote } from "../../../../adapters/email/parse/quotes/signature.ts";
import { isWarning, isWordless, trimReply, withoutBanner } from "../../../../adapters/email/parse/quotes/trim.ts";

const learn = "<https://aka.ms/LearnAboutSenderIdentification>";
const banners: readonly (readonly [string, string])[] = [
  [
    "Microsoft 365",
    "CAUTION: This email originated from outside of the organization. Do not click links or open attachments unless you recognize the sender and know the content is safe.",
  ],
  [
    "wrapped",
    "CAUTION: This email originated from outside of the organization. Do not\nclick links or open attachments unless you recognize the sender and know\nthe content is safe.",
  ],
  ["a title and an advice", "[EXTERNAL EMAIL] DO NOT CLICK links or attachments unless you recognize the sender."],
  ["a title in brackets", "[EXTERNAL]"],
  ["a title between asterisks", "**External Email**"],
  ["Mimecast", "This Message originated outside your organization."],
  [
    "Mimecast, with an advice",
    "CAUTION: This email originated from outside the company. Please exercise caution with links and attachments.",
  ],
  [
    "Proofpoint",
    "ZjQcmQRYFpfptBannerStart\nThis Message Is From an External Sender\nThis message came from outside your organization.\n    Report Suspicious  <https://us-phishalarm-ewt.proofpoint.com/EWT/v1/A!x$>\n\nZjQcmQRYFpfptBannerEnd",
  ],
  [
    "Proofpoint, without marks",
    "This Message Is From an External Sender\nThis message came from outside your organization.",
  ],
  [
    "Barracuda",
    "[EXTERNAL EMAIL] This email was received from outside our organisation. Think before you click links or open attachments.",
  ],
  ["Exchange", `You don't often get email from anna@example.org. Learn why this is important${learn}`],
  ["Exchange, wrapped", `You don't often get email from anna@example.org. Learn why this is\nimportant${learn}`],
  [
    "Exchange, de",
    `Sie erhalten nicht oft eine E-Mail von anna@example.org. Erfahren Sie, warum dies wichtig ist${learn}`,
  ],
  [
    "de",
    "ACHTUNG: Diese E-Mail kommt von einem externen Absender. Bitte klicken Sie keine Links an und öffnen Sie keine Anhänge, wenn Sie den Absender nicht kennen.",
  ],
  [
    "de, in lines",
    "EXTERNE E-MAIL:\nDiese Nachricht wurde von außerhalb des Unternehmens gesendet.\nÖffnen Sie Links und Anhänge nur, wenn Sie dem Absender vertrauen.",
  ],
  [
    "fr",
    "ATTENTION : cet e-mail provient de l'extérieur de l'organisation. Ne cliquez pas sur les liens et n'ouvrez pas les pièces jointes à moins de reconnaître l'expéditeur.",
  ],
  [
    "es",
    "PRECAUCIÓN: Este correo electrónico se originó fuera de la organización. No haga clic en enlaces ni abra archivos adjuntos a menos que reconozca al remitente.",
  ],
  [
    "it",
    "ATTENZIONE: Questa e-mail proviene dall'esterno dell'organizzazione. Non cliccare sui link e non aprire allegati se non riconosci il mittente.",
  ],
  [
    "nl",
    "LET OP: Deze e-mail is afkomstig van buiten de organisatie. Klik niet op links en open geen bijlagen, tenzij u de afzender herkent.",
  ],
  [
    "pt",
    "CUIDADO: Este e-mail foi originado fora da organização. Não clique em links nem abra anexos a menos que reconheça o remetente.",
  ],
  [
    "pl",
    "UWAGA: Ta wiadomość pochodzi spoza organizacji. Nie klikaj w linki ani nie otwieraj załączników, jeśli nie znasz nadawcy.",
  ],
  [
    "sv",
    "VARNING: Detta e-postmeddelande kommer från en extern avsändare. Klicka inte på länkar och öppna inte bilagor.",
  ],
  [
    "tr",
    "DİKKAT: Bu e-posta kuruluş dışından gönderilmiştir. Göndereni tanımıyorsanız bağlantılara tıklamayın ve ekleri açmayın.",
  ],
  [
    "ru",
    "ВНИМАНИЕ: Это письмо пришло от внешнего отправителя. Не переходите по ссылкам и не открывайте вложения, если вы не знаете отправителя.",
  ],
  [
    "ja",
    "注意：このメールは社外から送信されています。送信者が不明な場合は、リンクをクリックしたり添付ファイルを開いたりしないでください。",
  ],
];

const notes: readonly (readonly [string, string])[] = [
  ["Avast, de", "-- \nDiese E-Mail wurde von Avast-Antivirussoftware auf Viren geprüft.\nwww.avast.com"],
  [
    "Avast, en",
    "---\nThis email has been checked for viruses by Avast antivirus software.\nhttps://www.avast.com/antivirus",
  ],
  [
    "Avast, fr",
    "--\nL'absence de virus dans ce courrier électronique a été vérifiée par le logiciel antivirus Avast.\nwww.avast.com",
  ],
  ["Avast, es", "-- \nEste correo electrónico ha sido analizado en busca de virus por el software antivirus de Avast."],
  [
    "Avast in webmail",
    "Virenfrei.www.avast.com\n<https://www.avast.com/sig-email?utm_medium=email&utm_content=webmail>\n<#DAB4FAD8-2DD7-40BB-A1B8-4E2AA1F9FDF2>",
  ],
  ["AVG", "Virus-free. www.avg.com"],
  ["printing, en", "Please consider the environment before printing this email."],
  ["printing, de", "Bitte denken Sie an die Umwelt, bevor Sie diese E-Mail ausdrucken."],
  ["ESET", "The message was checked by ESET Mail Security.\nhttps://www.eset.com"],
  [
    "MailScanner",
    "-- \nThis message has been scanned for viruses and\ndangerous content by MailScanner, and is\nbelieved to be clean.",
  ],
  [
    "Symantec",
    "______________________________________________________________________\nThis email has been scanned by the Symantec Email Security.cloud service.\nFor more information please visit http://www.symanteccloud.com\n______________________________________________________________________",
  ],
];

const quote = "On Fri, Nov 20, 2026 at 10:00 AM Support <support@example.com> wrote:\n\n> Do you want it?\n> Support";

describe("a warning of a gateway above the text", () => {
  it.each(banners)("is removed: %s", (_, banner) => {
    for (const relation of ["new", "reply", "ours"] as const)
      for (const gap of ["\n\n", "\n"])
        expect(trimReply(`${banner}${gap}Yes please.\n\nAnna`, { relation }).text).toBe("Yes please.\n\nAnna");
    expect(trimReply(`${banner}\n\nok\n\n${quote}`).text).toBe("ok");
  });

  it("is none of the coloured answers inside of a quote; words of the author are", () => {
    const others = banners.filter(([, text]) => !/ZjQ|LearnAbout/.test(text)).map(([, text]) => text);
    for (const part of ["CAUTION:", "EXTERNAL", "[EXTERN]", ...others]) expect(isWarning(part), part).toBe(true);
    for (const answer of ["Achtung, nur vormittags!", "Attention: deliver it outside, please.", "The external one."])
      expect(isWarning(answer), answer).toBe(false);
  });

  it("is no text of a message with a picture", () =>
    expect(isWordless(`${banners[0]?.[1]}\n\nSent from my iPhone`)).toBe(true));

  it("is kept when nothing else is there, and in a forward", () => {
    const text = banners[0]?.[1] ?? "";
    expect(trimReply(text).text).toBe(text);
    expect(trimReply(`${text}\n\nhello`, { relation: "forward" }).text).toBe(`${text}\n\nhello`);
  });

  it.each([
    "Achtung, der externe Link in Ihrer Mail und der Anhang gehen nicht auf.\nBitte prüfen.",
    "Achtung: Diese E-Mail kommt von einem externen Absender, nicht von Ihnen.\nIst sie echt?",
    "Caution: do not open the attachment of my previous mail, it has an error.\nAnna",
    "Attention: don't ship order 4711, the address is outside of Germany.",
    "External monitor does not work.\nIt is broken.",
    "Externe Festplatte\nSie ist kaputt.",
    "[4711] The lamp\nis broken.",
    `Hello anna@example.org,\nI always see this: ${learn}\nWhat is it?`,
    `What is ${learn}\nand why do I see it?`,
    "This email from you came with an attachment. Do I have to open it?",
    "This message is from an external sender, it says. Is that you?\nAnna",
  ])("is not what a customer writes: %j", (text) => {
    expect(withoutBanner(text.split("\n")).join("\n")).toBe(text);
  });

  it.each([
    "[EXTERNAL] This email originated from outside of the organization",
    "CAUTION: This message is from an external sender",
    "[EXTERN] Diese E-Mail kommt von einem externen Absender",
  ])("ends before the author's text on the next line, also without a full stop: %s", (banner) => {
    const text = `${banner}\nplease cancel order 4711.`;
    expect(trimReply(text, { relation: "new" }).text).toBe("please cancel order 4711.");
  });
});

it.each([
  [
    "CAUTION: This email originated from outside of the organization.",
    "Don't see the attachment, please send the link again.",
  ],
  ["[EXTERNAL] This email came from outside.", "Never got the link."],
  ["EXTERNE E-MAIL: Diese E-Mail kommt von einem externen Absender.", "Keine Links funktionieren."],
  ["EXTERNO: Este correo se originó fuera de la organización.", "No puedo abrir el enlace."],
  ["ESTERNO: Questa e-mail proviene dall'esterno.", "Non riesco ad aprire l'allegato."],
  ["EXTERNO: Este e-mail foi originado fora da organização.", "Não consigo abrir o anexo."],
])("the author's text on the line below %s is kept", (banner, words) => {
  expect(withoutBanner([banner, words]).at(-1)).toBe(words);
});

it("keeps all of a long line that begins with a warning", () => {
  const words = "word ".repeat(1000).trim();
  expect(withoutBanner([`  ${banners[0]?.[1]} ${words}`])).toEqual([words]);
});

describe("the footer that a mail server has added to our message", () => {
  const footers = [
    "Example GmbH | Musterstr. 1 | 12345 Berlin\nGeschäftsführer: Max Muster | Amtsgericht Berlin HRB 1234\nTel. +49 30 1234 | www.example.com",
    "Example Ltd\nRegistered in England and Wales, company number 01234567. Registered office: 1 High Street, London.",
    "This e-mail is confidential and intended solely for the addressee. If you are not the intended recipient, delete it.",
    "-- \nDiese E-Mail wurde von Avast-Antivirussoftware auf Viren geprüft.\nwww.avast.com",
  ];
  const head = "From: Support <support@example.com>\nSent: Friday\nTo: Anna\nSubject: Re: lamp";
  const ours = "Do you want it?\n\n[ref:bh-k3j5h2k1jh]";

  it.each(footers)("does not make the quote an answer: %s", (footer) => {
    const whole = `${ours}\n\n${footer}`;
    const marked = `On Fri, Nov 20, 2026 at 10:00 AM Support <support@example.com> wrote:\n\n${whole.replace(/^/gm, "> ")}`;
    expect(trimReply(`Yes please.\n\n${marked}`).text).toBe("Yes please.");
    expect(trimReply(`Yes please.\n\n${head}\n\n${whole}`).text).toBe("Yes please.");
  });

  it.each([
    "The blue one.",
    "4711",
    "Yes",
    "Yes\n\nAnna Doe\nFirma X GmbH, HRB 123",
    "ja, bitte das blaue\n\nAnna Doe\nFirma X GmbH, HRB 123",
    "Is it registered in England?",
  ])("but the customer's words do: %j", (words) => {
    const text = `Thank you for the quick help.\n\n${head}\n\n${ours}\n\n${words}`;
    expect(trimReply(text).text).toBe(text);
  });
});

describe("the note of a virus scanner, or about printing", () => {
  it.each(notes)("is removed, above a quote and below it: %s", (_, note) => {
    expect(trimReply(`Yes please.\n\n${note}`, { relation: "new" }).text).toBe("Yes please.");
    expect(trimReply(`Yes please.\n\n${note}\n\n${quote}`).text).toBe("Yes please.");
    expect(trimReply(`Yes please.\n\n${quote}\n\n${note}`).text).toBe("Yes please.");
  });

  it.each([
    "Avast checked the setup file and says it contains a virus.",
    "Avast sagt, Ihre Datei hat einen Virus: www.avast.com",
    "This email says that the file was checked. Is there a virus?",
    "The message was scanned twice, and nothing happens.",
    "Please show me a proof before printing. The trees should be greener.",
    "Is the lamp bad for the environment? Please answer before you print the label.",
  ])("is not what a customer writes: %j", (text) => {
    expect(isFooterNote(text)).toBe(false);
    expect(trimReply(`Hello.\n\n${text}`, { relation: "new" }).text).toBe(`Hello.\n\n${text}`);
  });
});
