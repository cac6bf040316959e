import { afterAll, describe, expect, it } from "vitest";
import { classify, type OwnIdentity } from "../../../../adapters/email/parse/machine/classify.ts";
import { bounce, type Fields, html, mail, multipart, reader } from "../../../support/email/mails.ts";

const own: OwnIdentity = {
  addresses: ["support@example.com", "hilfe@example.de"],
  isOurs: (id) => id.includes(".bridgehead@example.com"),
  automaticSenders: ["bot@github.example", "@partner.example"],
  bccAllowed: false,
};
const { parser, read } = reader();
afterAll(() => parser.close());

const finding = async (raw: Uint8Array, identity = own) => classify(await read(raw), identity);
const ours = "<k1.bridgehead@example.com>";
const xars = { "X-Auto-Response-Suppress": "All" };

/** What arrives, and the code it is refused with. */
const machines: readonly [string, string, Uint8Array][] = [
  ["own mail by its Message-ID", "own", mail({ "Message-ID": ours })],
  ["own address", "own", mail({ From: "Support <support@example.com>" })],
  ["own alias, other case", "own", mail({ From: "HILFE@example.de" })],
  ["own address with a token", "own", mail({ From: "support+abcdefghij@example.com" })],
  ["another bridge's answer", "auto-reply", mail({ "Auto-Submitted": "auto-replied", "X-Bridgehead-Hops": "1" })],
  ["vacation (RFC 3834)", "auto-reply", mail({ "Auto-Submitted": "auto-replied (vacation)" })],
  ["vacation after a comment", "auto-reply", mail({ "Auto-Submitted": "(by a rule) auto-replied" })],
  [
    "sieve vacation with a parameter",
    "auto-reply",
    mail({ "Auto-Submitted": "Auto-Replied; owner-email=x@example.org" }),
  ],
  ["cron job", "auto-generated", mail({ "Auto-Submitted": "auto-generated", Subject: "Cron <root@host> backup" })],
  ["notification (RFC 5436)", "auto-generated", mail({ "Auto-Submitted": "auto-notified" })],
  ["a second Auto-Submitted", "auto-reply", mail({ "auto-submitted": "no", "Auto-Submitted": "auto-replied" })],
  ["a second Precedence", "bulk", mail({ precedence: "first-class", Precedence: "bulk" })],
  ["unknown Auto-Submitted value", "auto-reply", mail({ "Auto-Submitted": "yes" })],
  ["X-Autoreply", "auto-reply", mail({ "X-Autoreply": "yes" })],
  ["ServiceNow", "auto-reply", mail({ "X-ServiceNow-Generated": "true", "In-Reply-To": ours })],
  ["X-Autorespond", "auto-reply", mail({ "X-Autorespond": "My parcel" })],
  ["X-Mail-Autoreply", "auto-reply", mail({ "X-Mail-Autoreply": "true" })],
  ["Webmin", "auto-reply", mail({ "X-Webmin-Autoreply": "1" })],
  ["Precedence: auto_reply", "auto-reply", mail({ Precedence: "auto_reply" })],
  ["Precedence: auto-reply", "auto-reply", mail({ Precedence: "auto-reply" })],
  ["X-Precedence", "bulk", mail({ "X-Precedence": "bulk" })],
  ["Precedence: bulk", "bulk", mail({ Precedence: "bulk" })],
  ["Precedence: junk", "bulk", mail({ Precedence: "Junk" })],
  ["Precedence: list", "bulk", mail({ Precedence: "list" })],
  ["FirstClass", "auto-reply", mail({ "X-FC-MachineGenerated": "true" })],
  ["autoresponder message class", "auto-reply", mail({ "X-POST-MessageClass": "9; Autoresponder" })],
  ["Exchange inbox rule", "auto-reply", mail({ "X-MS-Exchange-Generated-Message-Source": "Mailbox Rules Agent" })],
  ...[
    ["en", "Automatic reply: My parcel"],
    ["de", "Automatische Antwort: Mein Paket"],
    ["de 2", "Abwesenheitsnotiz"],
    ["fr", "Réponse automatique : Mon colis"],
    ["es", "Respuesta automática: Mi paquete"],
    ["it", "Risposta automatica: pacco"],
    ["nl", "Automatisch antwoord: pakket"],
    ["pt", "Resposta automática: encomenda"],
    ["pl", "Odpowiedź automatyczna: paczka"],
    ["sv", "Autosvar: paket"],
    ["da", "Automatisk svar: pakke"],
    ["fi", "Automaattinen vastaus: paketti"],
    ["cs", "Automatická odpověď: zásilka"],
    ["ru", "Автоматический ответ: посылка"],
    ["tr", "Otomatik yanıt: paket"],
    ["hu", "Automatikus válasz: csomag"],
    ["ro", "Răspuns automat: colet"],
    ["el", "Αυτόματη απάντηση: πακέτο"],
    ["ja", "自動応答: 荷物"],
    ["zh", "自动回复: 包裹"],
    ["ko", "자동 회신: 소포"],
    ["he", "תשובה אוטומטית: חבילה"],
    ["ar", "رد تلقائي: طرد"],
    ["vi", "Trả lời tự động: bưu kiện"],
  ].map(
    ([language, subject]) =>
      [
        `out of office, ${language}`,
        "auto-reply",
        mail({ Subject: `=?utf-8?B?${Buffer.from(subject ?? "").toString("base64")}?=`, ...xars }),
      ] as [string, string, Uint8Array],
  ),
  [
    "out of office from the null sender",
    "auto-reply",
    mail({ Subject: "Out of Office: back on Monday", "Return-Path": "<>" }),
  ],
  ["List-Id", "list", mail({ "List-Id": "<talk.lists.example.org>" })],
  ["List-Unsubscribe", "list", mail({ "List-Unsubscribe": "<mailto:leave@lists.example.org>" })],
  ["List-Post", "list", mail({ "List-Post": "<mailto:talk@lists.example.org>" })],
  ["Google group", "list", mail({ "Mailing-list": "list talk@googlegroups.example; contact x", Precedence: "list" })],
  ["newsletter", "list", html("<p>Sale</p>", { "List-Unsubscribe": "<https://x.example/u>", "X-Mailer": "MC" })],
  ["no-reply", "no-reply", mail({ From: "no-reply@shop.example" })],
  ["noreply with a number", "no-reply", mail({ From: "Shop <noreply.12345@shop.example>" })],
  ["orders-no_reply", "no-reply", mail({ From: "orders-no_reply@shop.example" })],
  ["shop.no.reply.12", "no-reply", mail({ From: "shop.no.reply.12@shop.example" })],
  ["a word that begins with it", "no-reply", mail({ From: "shop.noreply24@shop.example" })],
  ["donotreply", "no-reply", mail({ From: "do.not.reply@bank.example" })],
  ["nicht-antworten", "no-reply", mail({ From: "bitte-nicht-antworten@bahn.example" })],
  ["ne-pas-repondre", "no-reply", mail({ From: "ne-pas-repondre@poste.example" })],
  ["no-responder", "no-reply", mail({ From: "no-responder@correos.example" })],
  ["non-rispondere", "no-reply", mail({ From: "non-rispondere@poste.example" })],
  ["Reply-To no-reply", "no-reply", mail({ "Reply-To": "noreply@shop.example" })],
  ["mailer-daemon without details", "mailer-daemon", mail({ From: "MAILER-DAEMON@mx.example.net", Subject: "hello" })],
  ["postmaster", "mailer-daemon", mail({ From: "postmaster@example.net", Subject: "Weekly digest" })],
  ["null sender", "null-sender", mail({ "Return-Path": "<>" })],
  ["null sender behind Postfix", "null-sender", mail({ "Return-Path": "<MAILER-DAEMON>" })],
  ["bounces+ address", "machine", mail({ From: "bounces+123-abc@esp.example" })],
  ["notifications", "machine", mail({ From: "notifications@tracker.example" })],
  ["root", "machine", mail({ From: "root <root@host.example.com>" })],
  ["Reply-To bounces+", "machine", mail({ "Reply-To": "bounces+1@example.org" })],
  ["Reply-To notifications", "machine", mail({ "Reply-To": "Anna <notifications@example.org>" })],
  ["a program behind a person in Reply-To", "machine", mail({ "Reply-To": "anna@example.org, robot@example.org" })],
  ["listserv", "machine", mail({ From: "LISTSERV@lists.example.edu" })],
  ["two From fields", "forged-from", mail({ From: ["anna@example.org", "boss@example.com"] })],
  ["two addresses in From", "forged-from", mail({ From: "anna@example.org, eve@example.net" })],
  ["no From", "forged-from", mail({ From: null })],
  ["empty From", "forged-from", mail({ From: "" })],
  ["a group in From", "forged-from", mail({ From: "Team: a@example.org, b@example.org;" })],
  ["only in Bcc", "not-addressed", mail({ To: "undisclosed-recipients:;" })],
  ["to somebody else", "not-addressed", mail({ To: "other@example.com", "Delivered-To": "support@example.com" })],
  [
    "an aggregate report of DMARC",
    "auto-generated",
    mail({
      From: "dmarcreport@receiver.example",
      Subject: "Report Domain: example.com Submitter: a.example Report-ID: <1>",
    }),
  ],
  ["delayed delivery", "delivery-report", bounce({ action: "delayed", status: "4.4.1" })],
  ["delivered", "delivery-report", bounce({ action: "delivered", status: "2.0.0" })],
  [
    "read receipt",
    "read-receipt",
    multipart("report; report-type=disposition-notification", [
      { type: "text/plain", body: "Your message was displayed" },
      {
        type: "message/disposition-notification",
        body: `Final-Recipient: rfc822;anna@example.org\nOriginal-Message-ID: ${ours}\nDisposition: manual-action/MDN-sent-manually; displayed`,
      },
    ]),
  ],
  [
    "abuse report",
    "abuse-report",
    multipart("report; report-type=feedback-report", [
      { type: "text/plain", body: "An abuse report" },
      { type: "message/feedback-report", body: "Feedback-Type: abuse\nUser-Agent: x/1\nVersion: 1" },
      { type: "message/rfc822", body: `Message-ID: ${ours}\n\nx` },
    ]),
  ],
  [
    "an abuse report without its type",
    "abuse-report",
    multipart("mixed", [
      { type: "text/plain", body: "An abuse report" },
      { type: "message/feedback-report", body: "Feedback-Type: abuse\nUser-Agent: x/1\nVersion: 1" },
    ]),
  ],
  [
    "a complaint of Outlook.com, JMRP",
    "abuse-report",
    multipart(
      "mixed",
      [
        {
          type: "message/rfc822",
          body: `X-HmXmrOriginalRecipient: <anna@hotmail.com>\nMessage-ID: ${ours}\nSubject: Re: hi\n\nour text`,
          fields: { "Content-Disposition": "inline" },
        },
      ],
      { From: "staff@hotmail.com", Subject: "complaint about message from 192.0.2.1" },
    ),
  ],
  [
    "a complaint of Outlook.com from another address",
    "abuse-report",
    multipart(
      "mixed",
      [
        { type: "text/plain", body: "This is a complaint." },
        {
          type: "message/rfc822",
          body: `Subject: x\nX-HmXmrOriginalRecipient: anna@outlook.com\n\nour text`,
        },
      ],
      { From: "jmr@reports.example", Subject: "complaint about message from 192.0.2.1" },
    ),
  ],
  ["iCloud's vacation reply", "auto-reply", mail({ "X-Apple-Action": "VACATION" })],
  ...(["REPLY", "REFRESH", "CANCEL", "DECLINECOUNTER"] as const).map((method): [string, string, Uint8Array] => [
    `a calendar response, ${method}`,
    "calendar-reply",
    multipart("alternative", [
      { type: "text/plain", body: "Anna has accepted" },
      { type: `text/calendar; method=${method}`, body: `BEGIN:VCALENDAR\nMETHOD:${method}\nEND:VCALENDAR` },
    ]),
  ]),
  [
    "a calendar response that names its method inside only",
    "calendar-reply",
    multipart("mixed", [
      { type: "text/plain", body: "Accepted" },
      {
        type: "application/octet-stream; name=invite.ics",
        body: Buffer.from("BEGIN:VCALENDAR\r\nMETHOD:REPLY\r\nEND:VCALENDAR"),
      },
    ]),
  ],
  ...[
    "Accepted: Call",
    "Zugesagt: Anruf",
    "Accepté : Appel",
    "Aceptado: Llamada",
    "Geaccepteerd: Gesprek",
    "承諾: 電話",
  ].map((subject): [string, string, Uint8Array] => [
    `a calendar response by its subject, ${subject}`,
    "calendar-reply",
    multipart(
      "mixed",
      [
        { type: "text/plain", body: "" },
        { type: "text/calendar", body: "BEGIN:VCALENDAR\nEND:VCALENDAR" },
      ],
      { Subject: `=?utf-8?B?${Buffer.from(subject).toString("base64")}?=` },
    ),
  ]),
  [
    "a meeting response in winmail.dat",
    "calendar-reply",
    multipart("mixed", [{ type: "application/ms-tnef; name=winmail.dat", body: Buffer.from("x") }], {
      Subject: "Accepted: Call",
    }),
  ],
  [
    "an absence note that is signed opaquely",
    "auto-reply",
    mail(
      { "Auto-Submitted": "auto-replied", "Content-Type": "application/pkcs7-mime; smime-type=signed-data" },
      "MIIB",
    ),
  ],
  ...(
    [
      ["Recall: Order 4711", "Anna", 'Anna would like to recall the message, "Order 4711".'],
      ["Rückruf: Bestellung", '"Doe, Anna"', 'Doe, Anna möchte die Nachricht "Bestellung" zurückrufen.'],
      ["Rappel : Commande", "Anne", "Anne souhaite rappeler le message « Commande »."],
      ["回収: 注文", "山田", "山田 がメッセージ「注文」の取り消しを要求しています。"],
    ] as const
  ).map(([subject, name, text]): [string, string, Uint8Array] => [
    `a request to recall a message, ${subject}`,
    "auto-generated",
    mail({ From: `${name} <anna@example.org>`, Subject: subject }, text),
  ]),
  ["unknown report", "auto-generated", multipart("report; report-type=other", [{ type: "text/plain", body: "x" }])],
];

describe("machine mail", () => {
  it("has many kinds here", () => expect(machines.length).toBeGreaterThanOrEqual(60));
  it.each(machines)("%s is refused as %s", async (_, code, raw) => {
    expect(await finding(raw)).toMatchObject({ kind: "refused", code });
  });
});

const people: readonly [string, Uint8Array | Fields][] = [
  [
    "a question about a recall",
    mail({ Subject: "Recall: Lamp 3" }, 'Anna would like to know when "Lamp 3" is replaced?'),
  ],
  [
    "a sentence about a recall",
    mail({ Subject: "Recall: Lamp 3" }, "Please send me the dates of the recall of Lamp 3."),
  ],
  ["a name that ends like no-reply begins", { From: "bruno.reply@example.org" }],
  ["a name that ends like no-answer begins", { From: "Milano-Answer@example.org" }],
  ["a plain mail", {}],
  ["Auto-Submitted: no", { "Auto-Submitted": "no" }],
  ["Auto-Submitted: no, after a comment", { "Auto-Submitted": "(a person) no" }],
  ["X-Auto-Response-Suppress alone", xars],
  [
    "X-Auto-Response-Suppress: None with an absence subject",
    { "X-Auto-Response-Suppress": "None", Subject: "Out of office question" },
  ],
  ["an absence subject without a second sign", { Subject: "Automatic reply does not work" }],
  ["a person's mail through Amazon", { "Feedback-ID": "1.eu-west-1.abc=:AmazonSES" }],
  ["a person's mail with another Feedback-ID", { "Feedback-ID": "crm:customer:mail:sender" }],
  ["a person's mail through Mandrill", { "X-MC-User": "123", "X-Mandrill-User": "md_123" }],
  ["iCloud's filing", { "X-Apple-Action": "MOVE_TO_FOLDER/INBOX", "X-Apple-MoveToFolder": "INBOX" }],
  ["the subject of a calendar response alone", { Subject: "Accepted: your offer" }],
  ["a complaint by its subject alone", { Subject: "complaint about message from your driver" }],
  ["in Cc", { To: "other@example.com", Cc: "Support <SUPPORT@example.com>" }],
  ["to the alias", { To: "hilfe@example.de" }],
  ["to the token address", { To: "support+abcdefghij@example.com" }],
  ["in a group of recipients", { To: "Helpers: support@example.com, x@example.com;" }],
  ["no Return-Path", { "Return-Path": null }],
  ["a broken Return-Path", { "Return-Path": "garbage" }],
  ["no Message-ID", { "Message-ID": null }],
  ["an answer to ours", { "In-Reply-To": ours, References: `<x@example.org> ${ours}`, Subject: "Re: Your parcel" }],
  ["Precedence: normal", { Precedence: "normal" }],
  ["Priority", { "X-Priority": "1", Importance: "high" }],
  ["a relay's own address in Sender", { Sender: "bounces@relay.example" }],
  ["a person in Reply-To", { "Reply-To": "anna.notifications-team@example.org" }],
  ["Noreen", { From: "noreen.plymouth@example.org" }],
  ["Mr. Daemon", { From: "d.aemon@example.org" }],
  ["Bouncer", { From: "bouncer@club.example" }],
  ["Systema", { From: "systema@example.org" }],
  ["a robot on the list", { From: "bot@github.example", "List-Id": "<x.github.example>", Precedence: "list" }],
  ["a robot's domain on the list", { From: "noreply@partner.example", "Auto-Submitted": "auto-generated" }],
  ["comma in the quoted name", { From: '"Doe, Anna" <anna@example.org>' }],
  ["address as the name", { From: '"boss@example.com" <anna@example.org>' }],
  ["encoded name", { From: "=?utf-8?B?SsO8cmdlbg==?= <j@example.org>" }],
  ["comment in From", { From: "anna@example.org (Anna)" }],
  ["X-Autoreply: no", { "X-Autoreply": "no" }],
  [
    "complaint about delivery",
    mail(
      { Subject: "Delivery failed, my parcel was not delivered" },
      "My order was not delivered.\nPlease write to bob@example.net\n",
    ),
  ],
  [
    "a pasted Message-ID",
    mail({ Subject: "Your mail" }, "I got your mail, undeliverable?\nMessage-ID: <k9.bridgehead@example.com>\n"),
  ],
  [
    "an attached mail",
    multipart("mixed", [
      { type: "text/plain", body: "see the attached" },
      {
        type: "message/rfc822",
        body: "From: x@example.org\nMessage-ID: <a@b>\nSubject: old\n\ntext",
        fields: { "Content-Disposition": "attachment" },
      },
    ]),
  ],
  ["an HTML mail", html("<p>Where is my parcel?</p>")],
  [
    "a calendar invitation",
    multipart("mixed", [
      { type: "text/plain", body: "come" },
      { type: "text/calendar; method=REQUEST", body: "BEGIN:VCALENDAR" },
    ]),
  ],
  [
    "a signed mail",
    multipart('signed; protocol="application/pkcs7-signature"', [
      { type: "text/plain", body: "hi" },
      { type: "application/pkcs7-signature; name=smime.p7s", body: Buffer.from("sig") },
    ]),
  ],
];

describe("mail of people", () => {
  it("has many kinds here", () => expect(people.length).toBeGreaterThanOrEqual(30));
  it.each(people)("%s is a person's", async (_, spec) => {
    expect(await finding(spec instanceof Uint8Array ? spec : mail(spec))).toEqual({ kind: "person" });
  });
  it("is a person's in Bcc where that is allowed", async () => {
    expect(await finding(mail({ To: "x@example.org" }), { ...own, bccAllowed: true })).toEqual({
      kind: "person",
    });
  });
  it.each([
    ["precedence: bulk", { Precedence: "bulk" }],
    ["precedence: list", { Precedence: "list" }],
    ["the header list-unsubscribe", { "List-Unsubscribe": "<mailto:leave@crm.example>" }],
  ])("may be a person's in an answer to ours, with %s", async (sign, marks) => {
    const fields = { ...marks, "In-Reply-To": ours, Subject: "Re: Your parcel" };
    const reason = `${sign}, in an answer to our message`;
    expect(await finding(mail(fields))).toEqual({ kind: "held", code: "maybe-automatic", reason });
    expect(await finding(mail({ ...fields, From: "noreply@desk.example" }))).toMatchObject({ code: "no-reply" });
    expect(await finding(mail({ ...fields, "List-Id": "<x.example.org>" }))).toMatchObject({ code: "list" });
    expect(await finding(mail({ ...fields, "Auto-Submitted": "auto-replied" }))).toMatchObject({ code: "auto-reply" });
    const through = { ...fields, "List-Id": "<talk.example.org>" };
    expect(await finding(mail(through), { ...own, lists: ["talk@example.org"] })).toEqual({ kind: "person" });
  });
  it.each(["kinoreply", "shopnoreply", "pianoreplay2"])("may be a person's: %s", async (local) => {
    const fields = { From: `${local}@example.org` };
    expect(await finding(mail(fields))).toMatchObject({ kind: "held", code: "maybe-automatic" });
    expect(await finding(mail({ ...fields, Precedence: "bulk" }))).toMatchObject({ code: "bulk" });
  });
  it("a robot's pass does not cover own mail and forgeries", async () => {
    const generous = { ...own, automaticSenders: ["@example.com", "@example.org"] };
    expect(await finding(mail({ From: "support@example.com" }), generous)).toMatchObject({ code: "own" });
    expect(await finding(mail({ From: ["a@example.org", "b@example.org"] }), generous)).toMatchObject({
      code: "forged-from",
    });
  });
});

const der = (oid: string) => Buffer.from(`3080${oid}a080`, "hex");
const sealed: readonly [string, string, Uint8Array][] = [
  [
    "encrypted S/MIME",
    "smime-encrypted",
    mail({
      "Content-Type": 'application/pkcs7-mime; smime-type=enveloped-data; name="smime.p7m"',
      "Content-Disposition": "attachment; filename=smime.p7m",
      "Content-Transfer-Encoding": "base64",
    }),
  ],
  [
    "encrypted S/MIME, old name, no parameters",
    "smime-encrypted",
    mail({ "Content-Type": "application/x-pkcs7-mime" }),
  ],
  [
    "encrypted S/MIME under a list's footer",
    "smime-encrypted",
    multipart("mixed", [
      { type: "application/pkcs7-mime; smime-type=authEnveloped-data", body: Buffer.from("x") },
      { type: "text/plain", body: "-- a footer" },
    ]),
  ],
  [
    "S/MIME as a nameless file",
    "smime-encrypted",
    multipart("mixed", [{ type: "application/octet-stream; name=smime.p7m", body: der("06092a864886f70d010703") }]),
  ],
  [
    "an opaque S/MIME signature",
    "smime-opaque",
    mail({ "Content-Type": "application/pkcs7-mime; smime-type=signed-data; name=smime.p7m" }),
  ],
  [
    "an opaque S/MIME signature by its content",
    "smime-opaque",
    multipart("mixed", [{ type: "application/pkcs7-mime", body: der("06092a864886f70d010702") }]),
  ],
  [
    "PGP/MIME",
    "pgp-encrypted",
    multipart('encrypted; protocol="application/pgp-encrypted"', [
      { type: "application/pgp-encrypted", body: "Version: 1" },
      { type: "application/octet-stream; name=encrypted.asc", body: "-----BEGIN PGP MESSAGE-----" },
    ]),
  ],
  ["inline PGP", "pgp-encrypted", mail({}, "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n")],
  [
    "PGP as a file",
    "pgp-encrypted",
    multipart("mixed", [
      { type: "text/plain", body: "see the attached" },
      { type: "application/octet-stream; name=message.asc", body: "-----BEGIN PGP MESSAGE-----\n\nhQEMA" },
    ]),
  ],
  [
    "winmail.dat",
    "winmail",
    multipart("mixed", [
      { type: "text/plain", body: "" },
      { type: "application/ms-tnef; name=winmail.dat", body: Buffer.from("x") },
    ]),
  ],
  [
    "winmail.dat as a nameless file",
    "winmail",
    multipart("mixed", [{ type: "application/octet-stream; name=WINMAIL.DAT", body: Buffer.from("x") }]),
  ],
  [
    "Outlook's encryption",
    "rights-protected",
    multipart("mixed", [
      { type: "text/plain", body: "I have sent you a protected message." },
      { type: "application/x-microsoft-rpmsg-message; name=message.rpmsg", body: Buffer.from("x") },
    ]),
  ],
];

describe("mail that only a human can read", () => {
  it.each(sealed)("%s is held as %s", async (_, code, raw) => {
    const found = await finding(raw);
    expect(found).toMatchObject({ kind: "held", code });
    expect(found.kind === "held" && found.reason).toBeTruthy();
  });
  it("is not a signed mail, a quoted PGP message, or certificates", async () => {
    const quoted = "What is this?\n\n> -----BEGIN PGP MESSAGE-----\n> hQEMA\n";
    expect(await finding(mail({}, quoted))).toEqual({ kind: "person" });
    const clear = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nHello\n-----BEGIN PGP SIGNATURE-----\n";
    expect(await finding(mail({}, clear))).toEqual({ kind: "person" });
    const certificates = multipart("mixed", [
      { type: "text/plain", body: "my certificate" },
      { type: "application/pkcs7-mime; smime-type=certs-only; name=smime.p7c", body: Buffer.from("x") },
    ]);
    expect(await finding(certificates)).toEqual({ kind: "person" });
  });
  it("is not a mail with a signed document, as they are sent in Italy", async () => {
    for (const type of ["application/pkcs7-mime", "application/octet-stream"]) {
      const body = der("06092a864886f70d010702");
      const signed = [
        { type: "text/plain", body: "the contract" },
        { type: `${type}; name="contract.pdf.p7m"`, body },
      ];
      expect(await finding(multipart("mixed", signed))).toEqual({ kind: "person" });
    }
  });
});
