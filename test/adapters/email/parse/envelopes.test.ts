// Messages in envelopes: opaque S/MIME signatures, and Italian certified mail (PEC).

import { externalId } from "bridgehead/contract";
import { afterAll, describe, expect, it } from "vitest";
import { understand } from "../../../../adapters/email/events.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import type { SenderAuth } from "../../../../adapters/email/parse/mail.ts";
import { type Settings, settingsFor } from "../../../support/email/adapter.ts";
import { type Fields, mail, multipart, type PartSpec, parts, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

async function events(bytes: Uint8Array, settings: Partial<Settings> = {}, auth: SenderAuth | null = null) {
  const config = settingsFor(1, 1, settings);
  const listed = { uid: 1, size: 1, arrived: null, keywords: [] };
  const arrival = { id: externalId("x"), listed, now: 0, copiedAfter: 0 };
  const parsed = { mail: await read(bytes), auth, raw: bytes, omitted: [], truncated: false };
  const found = understand({ config, self: identity("support@example.com", []) }, arrival, parsed);
  return found.kind === "events" ? found.events : [];
}
const message = async (...given: Parameters<typeof events>) => {
  const [event] = await events(...given);
  if (event?.kind !== "message") throw new Error("no message");
  return event;
};

/** Elements of DER, and of BER with indefinite length. */
function definite(tag: number, ...content: readonly Uint8Array[]): Uint8Array {
  const bytes = Buffer.concat(content);
  const length = bytes.length < 128 ? [bytes.length] : [0x82, bytes.length >> 8, bytes.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), bytes]);
}
const indefinite = (tag: number, ...content: readonly Uint8Array[]): Uint8Array =>
  Buffer.concat([Buffer.from([tag, 0x80]), ...content, Buffer.from([0, 0])]);

type Element = typeof definite;
const hex = (text: string) => Buffer.from(text, "hex");
const [signedData, data, version, algorithms] = [
  hex("06092a864886f70d010702"),
  hex("06092a864886f70d010701"),
  hex("020101"),
  hex("310d300b0609608648016503040201"),
];
const signed = (element: Element, octets: Uint8Array) => {
  const content = element(0x30, data, element(0xa0, octets));
  return element(0x30, signedData, element(0xa0, element(0x30, version, algorithms, content, hex("3100"))));
};
const p7m = 'application/pkcs7-mime; smime-type=signed-data; name="smime.p7m"';
const opaque = (bytes: Uint8Array) =>
  mail({ "Content-Type": p7m, "Content-Transfer-Encoding": "base64" }, Buffer.from(bytes).toString("base64"));

const entity = Buffer.from("Content-Type: text/plain; charset=utf-8\r\n\r\nWhere is my lamp?\r\n");
const octets = definite(0x04, entity);
const chunked: readonly [string, Element][] = [
  ["in chunks", definite],
  ["in chunks of indefinite length", indefinite],
];

describe("a message in an opaque S/MIME signature", () => {
  it.each([
    ["DER", signed(definite, octets)],
    ["BER", signed(indefinite, octets)],
    ...chunked.map(([name, element]): [string, Uint8Array] => [
      name,
      signed(element, element(0x24, definite(0x04, entity.subarray(0, 50)), definite(0x04, entity.subarray(50)))),
    ]),
    ["another signature", signed(definite, definite(0x04, opaque(signed(indefinite, octets))))],
  ])("is read: %s", async (_, bytes) => {
    const event = await message(opaque(bytes));
    expect([event.text, event.refusal, event.attachments]).toEqual(["Where is my lamp?", undefined, undefined]);
  });

  it("is read with its files, and as a part of a message", async () => {
    const inside = multipart("mixed", [
      { type: "text/plain", body: "See the list." },
      { type: 'text/csv; name="list.csv"', body: "a;b", fields: { "Content-Disposition": "attachment" } },
    ]);
    const footer = { type: "text/plain", body: "-- \nExample Ltd, +44 20 7946 0000" };
    const p7mPart = { type: p7m, body: signed(definite, definite(0x04, inside)) };
    const event = await message(multipart("mixed", [p7mPart, footer], { From: "Example <a@example.org>" }));
    expect([event.text, event.attachments?.map(({ name }) => name)]).toEqual(["See the list.", ["list.csv"]]);
  });

  it.each([
    ["nothing", hex("3000")],
    ["no content", signed(definite, hex(""))],
    ["an end too early", signed(definite, octets).subarray(0, 30)],
    ["a length beyond all", Buffer.concat([hex("3084ffffffff"), signed(definite, octets).subarray(4)])],
  ])("is held when it has %s", async (_, bytes) => {
    expect((await message(opaque(bytes))).refusal).toMatchObject({ code: "smime-opaque", hold: true });
  });
});

const provider = "posta-certificata@pec.provider.example";
const daticert = (kind: string, error: string, more: string) => `<?xml version="1.0" encoding="UTF-8"?>
<postacert tipo="${kind}" errore="${error}"><intestazione><mittente>support@example.com</mittente>
<destinatari tipo="certificato">mario@pec.example</destinatari><oggetto>Re: Lampada</oggetto></intestazione>
<dati><gestore-emittente>Provider</gestore-emittente>${more}</dati></postacert>`;

/** What a provider sends (DM 2 November 2005): the text of the envelope, its data, and the message; signed. */
function certified(fields: Fields, xml: string, letter: Uint8Array | null, text = "Messaggio di posta certificata") {
  const inline = (name: string) => ({ "Content-Disposition": `inline; filename="${name}"` });
  const inside: PartSpec[] = [
    { type: "text/plain", body: text },
    { type: 'application/xml; name="daticert.xml"', body: Buffer.from(xml), fields: inline("daticert.xml") },
  ];
  if (letter !== null)
    inside.push({ type: "message/rfc822", body: Buffer.from(letter).toString(), fields: inline("postacert.eml") });
  const whole = [
    { type: 'multipart/mixed; boundary="inside"', body: parts(inside, "inside") },
    { type: "application/x-pkcs7-signature; name=smime.p7s", body: hex("3080") },
  ];
  return multipart("signed", whole, { From: provider, "Message-ID": "<opec1@pec.provider.example>", ...fields });
}

const letter = mail(
  {
    From: "Mario Rossi <mario@pec.example>",
    Subject: "Lampada",
    "Message-ID": "<1@pc>",
    "In-Reply-To": "<old@x.example>",
    "Content-Type": 'multipart/mixed; boundary="letter"',
  },
  parts(
    [
      { type: "text/plain", body: "Quanto costa la lampada?" },
      { type: "application/pdf; name=foto.pdf", body: hex("25504446") },
    ],
    "letter",
  ),
);
const transport: Fields = {
  From: `"Per conto di: mario@pec.example" <${provider}>`,
  "Reply-To": "mario@pec.example",
  Subject: "POSTA CERTIFICATA: Lampada",
  "X-Trasporto": "posta-certificata",
  "X-Riferimento-Message-ID": "<1@pc>",
};
const envelope = (fields: Fields = {}, inside = letter) =>
  certified({ ...transport, ...fields }, daticert("posta-certificata", "nessuno", ""), inside);

const passed: SenderAuth = { result: "pass", method: "dmarc", domain: "pec.provider.example", detail: "" };

describe("certified mail (PEC)", () => {
  it("is read as its author wrote it, and answers go to the author", async () => {
    const event = await message(envelope(), { sender_auth: { mode: "tag" } }, passed);
    expect(event).toMatchObject({
      from: { address: "mario@pec.example", name: "Mario Rossi" },
      to: [{ address: "support@example.com" }],
      cited: "<opec1@pec.provider.example>",
      subject: "Lampada",
      text: "Quanto costa la lampada?",
      thread: { answers: ["<old@x.example>"] },
      sender: "unverified",
    });
    expect(event.attachments?.map(({ name }) => name)).toEqual(["foto.pdf"]);
    expect([event.replyTo, event.refusal]).toEqual([undefined, undefined]);
  });

  it("contains the ordinary mail that reaches a certified mailbox", async () => {
    const fields = { Subject: "ANOMALIA MESSAGGIO: Lampada", "X-Trasporto": "errore" };
    const event = await message(envelope(fields, mail({ Subject: "Lampada" }, "Quanto costa?")));
    expect([event.from.address, event.subject, event.text]).toEqual(["anna@example.org", "Lampada", "Quanto costa?"]);
  });

  it("of a program is refused as it would be without its envelope", async () => {
    for (const [fields, code] of [
      [{ "Auto-Submitted": "auto-replied" }, "auto-reply"],
      [{ "Auto-Submitted": "auto-generated" }, "auto-generated"],
      [{ From: "noreply@pec.example" }, "no-reply"],
      [{ From: "support@example.com" }, "own"],
    ] as const)
      expect((await message(envelope({}, mail(fields)))).refusal?.code).toBe(code);
  });

  it("is refused without a listed provider where senders must be authenticated, because anybody can build one", async () => {
    const settings = { sender_auth: { mode: "require" } } as const;
    expect((await message(envelope(), settings, passed)).refusal?.code).toBe("unauthenticated");
    const listed = { ...settings, accept_lists: [provider] };
    const event = await message(envelope(), listed, passed);
    expect([event.from.address, event.refusal, event.sender]).toEqual(["mario@pec.example", undefined, "unverified"]);
  });
});

const about = "<01jx9q7k3d.bridgehead@example.com>";
const receipt = (kind: string, error = "nessuno", more = "") =>
  certified(
    { "X-Ricevuta": kind, "X-Riferimento-Message-ID": about, Subject: `${kind.toUpperCase()}: Re: Lampada` },
    daticert(kind, error, more),
    null,
  );

describe("a receipt of certified mail (PEC)", () => {
  it.each(["accettazione", "presa-in-carico", "avvenuta-consegna", "preavviso-errore-consegna"])(
    "is ignored: %s",
    async (kind) => {
      expect((await message(receipt(kind, "nessuno", "<consegna>mario@pec.example</consegna>"))).refusal).toMatchObject(
        {
          code: "delivery-report",
        },
      );
    },
  );

  it.each([
    ["errore-consegna", "no-dest", "<errore-esteso>5.1.1 - Provider - casella inesistente</errore-esteso>", true],
    ["errore-consegna", "no-dominio", "", true],
    ["errore-consegna", "altro", "<errore-esteso>5.2.2 - Provider - casella piena</errore-esteso>", false],
    ["errore-consegna", "altro", "", false],
    ["rilevazione-virus", "virus", "", false],
    ["non-accettazione", "altro", "<errore-esteso>indirizzo non valido</errore-esteso>", false],
  ])("is a bounce: %s, %s %s", async (kind, error, more, permanent) => {
    expect(await events(receipt(kind, error, `<consegna>mario@pec.example</consegna>${more}`))).toMatchObject([
      { kind: "delivery", state: "failed", permanent, about: { key: "01jx9q7k3d", recipient: "mario@pec.example" } },
    ]);
  });
});
