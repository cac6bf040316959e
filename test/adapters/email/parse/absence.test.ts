// Absence messages and other automatic responses that only their subject reveals.

import { afterAll, describe, expect, it } from "vitest";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { classify, type OwnIdentity } from "../../../../adapters/email/parse/machine/classify.ts";
import { machineReply } from "../../../../src/domain/machine-reply.ts";
import { type Fields, mail, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

const self = identity("support@example.com", []);
const own: OwnIdentity = {
  addresses: ["support@example.com"],
  isOurs: (id) => self.keyOf(id) !== null,
  automaticSenders: [],
  bccAllowed: false,
};
const ours = "<01hzx7key.bridgehead@example.com>";

async function finding(fields: Fields) {
  const { Subject: subject, ...others } = fields;
  const encoded = `=?utf-8?B?${Buffer.from(String(subject)).toString("base64")}?=`;
  return classify(await read(mail({ Subject: encoded, ...others })), own);
}

describe("a subject in the form of a program", () => {
  it.each([
    "Automatic reply: Re: My parcel",
    "Out of Office: Re: My parcel",
    "Out of Office Re: My parcel",
    "[EXT] Automatische Antwort: Re: Mein Paket",
    "[Auto-Reply] Re: My parcel",
    "Abwesend: AW: Mein Paket",
    "Fuera de la oficina - RE: Mi paquete",
  ])("is refused when the answered subject follows: %s", async (subject) => {
    expect(await finding({ Subject: subject })).toMatchObject({ kind: "refused", code: "auto-reply" });
  });
  it.each([
    "AutoReply: My parcel",
    "Automatic reply: how do I set it up?",
    "Out of Office AutoReply: My parcel",
    "AUTO: Ann Bell is out of the office (returning 05/03/2030)",
    "AUTO: Anna Schmidt ist außer Haus (Rückkehr am 03.05.2030)",
    "AUTO: Anne Petit est absente (retour 03/05/2030)",
    "Anna Schmidt/Vertrieb/Muster ist außer Haus.",
    "Réponse automatique : Mon colis",
    "Automātiska atbilde: sūtījums",
    "自动答复: 包裹",
    "【自動返信】荷物",
    "การตอบกลับอัตโนมัติ: พัสดุ",
    "Erantzun automatikoa: Nire paketea",
    "Sjálfvirkt svar: Pakkinn minn",
    "پاسخ خودکار: بسته من",
    "Аутоматски одговор: Пакет",
    "Автоматски одговор: Пакет",
    "Përgjigje automatike: Pakoja",
    "ავტომატური პასუხი: ამანათი",
    "Avtomatik cavab: Bağlama",
    "Автоматты жауап: Сәлемдеме",
    "Balasan Automatik: Bungkusan",
    "Awtomatikong tugon: Pakete",
    "Ateb awtomatig: Parsel",
    "[부재중 자동응답] 소포",
  ])("is held alone, and refused in an answer under another subject: %s", async (subject) => {
    expect(await finding({ Subject: subject })).toMatchObject({ kind: "held", code: "maybe-automatic" });
    const answer = { Subject: subject, "In-Reply-To": "<1@relay.example>" };
    expect(await finding(answer)).toMatchObject({ kind: "refused", code: "auto-reply" });
  });
});

describe("an absence subject", () => {
  it.each([
    ["in an answer to ours, where it may be the customer's own", "Re: Out of office", ours],
    ["also below a tag", "RE: [EXT] Out of office", ours],
    ["also after an Italian prefix", "R: Fuori ufficio", ours],
    ["alone", "Lomalla", null],
    ["alone, with its sender", "I am out of the office", null],
    ["when it replaces the subject of the answered mail", "Abwesend bis 3. Mai", "<1@relay.example>"],
    ["when a person begins a matter from an old mail", "Frånvaro Lisa 3 maj", ours],
    ["when a person asks about automatic replies from an old mail", "Automatische Antwort einrichten", ours],
  ])("is held %s", async (_, subject, answered) => {
    expect(await finding({ Subject: subject, "In-Reply-To": answered })).toMatchObject({
      kind: "held",
      code: "maybe-automatic",
    });
  });
  it("is refused when a list sends it", async () => {
    const fields = {
      Subject: "Re: Out of office",
      "In-Reply-To": ours,
      "List-Id": "<talk.lists.example.org>",
    };
    expect(await finding(fields)).toMatchObject({ kind: "refused", code: "list" });
  });
  it.each([
    ["an answer to an automatic response", { Subject: "Re: Automatic reply: My parcel", "In-Reply-To": "<1@x>" }],
    ["a question about an absence", { Subject: "Abwesend bei der Lieferung: was nun?" }],
    [
      "an answer that repeats a customer's longer subject",
      { Subject: "Re: On vacation next week: hold my order", "In-Reply-To": ours },
    ],
    ["a longer word", { Subject: "Afwezigheidsverzekering", "In-Reply-To": "<1@x>" }],
    ["a question about chairs", { Subject: "Out of office chairs: any left?" }],
    ["a question about a car", { Subject: "Auto: Der Wagen steht seit Montag beim Händler" }],
    ["a question about automatic replies", { Subject: "Automatic reply does not work" }],
  ])("of a person is answered: %s", async (_, fields) => {
    expect(await finding(fields)).toEqual({ kind: "person" });
  });
});

/** Absences that customers also ask about, in the languages of `machineReply`. */
const nouns =
  "Vacation|On holiday|On annual leave|Annual leave|Parental leave|Maternity leave|Im Urlaub|Ausser Haus|Absence|Absent du bureau|En congé|En vacances|De vacaciones|Ausente|Ausencia|Assente|In ferie|Met vakantie|Op vakantie|Ausência|De férias|Em férias|Na urlopie|På semester|På ferie|Poissa|Lomalla|В отпуске|Izinde|Szabadság|În concediu|休暇|不在|休假|휴가|부재";

describe("an absence that is also the subject of a question", () => {
  it.each(nouns.split("|"))("is refused in front of the answered subject: %s", async (noun) => {
    const answer = { "In-Reply-To": ours };
    for (const between of [": Re: ", " Re: ", " - AW: "])
      expect(await finding({ Subject: `${noun}${between}My parcel`, ...answer }), between).toMatchObject({
        kind: "refused",
        code: "auto-reply",
      });
    expect(machineReply(`${noun}: [Escalation 1]`, ""), "to a responder").toMatchObject({ level: "certain" });
  });
  it.each(["Urlaub", "Vacation", "Annual leave!", "Ferie", "休暇", "On holiday"])(
    "is held when it replaces the subject of the answered mail, and answered otherwise: %s",
    async (subject) => {
      for (const answered of [ours, "<1@relay.example>"])
        expect(await finding({ Subject: subject, "In-Reply-To": answered })).toMatchObject({
          kind: "held",
          code: "maybe-automatic",
        });
      expect(await finding({ Subject: subject })).toEqual({ kind: "person" });
      expect(await finding({ Subject: subject, "X-Auto-Response-Suppress": "All" })).toEqual({ kind: "person" });
      expect(await finding({ Subject: `Re: ${subject}`, "In-Reply-To": ours })).toEqual({ kind: "person" });
      expect(await finding({ Subject: `[EXT] AW: ${subject}`, "In-Reply-To": ours })).toEqual({ kind: "person" });
    },
  );
  it.each([
    "Urlaub im Juli: welches Hotel?",
    "Urlaubsantrag",
    "Vacation rental: price?",
    "Holiday reservations",
    "Annual leave policy",
    "休暇の予約",
    "[Urlaub] Hotel",
  ])("is answered within a longer subject: %s", async (subject) => {
    expect(await finding({ Subject: subject })).toEqual({ kind: "person" });
    expect(await finding({ Subject: subject, "In-Reply-To": ours })).toEqual({ kind: "person" });
  });
  it("is held in front of a subject that the message does not answer", async () => {
    expect(await finding({ Subject: "Vacation re: my booking" })).toMatchObject({ kind: "held" });
  });
});

describe("an absence that its author announces", () => {
  it.each([
    "I am on annual leave",
    "I'm on holiday",
    "I am currently on leave",
    "Ich bin derzeit im Urlaub",
    "Je suis en vacances",
    "Estoy de vacaciones",
    "Sono in ferie",
    "Ik ben op vakantie",
    "Estou de férias",
    "Jestem na urlopie",
    "Jag är på semester",
    "Jeg er på ferie",
    "Olen lomalla",
    "Я в отпуске",
    "Sunt în concediu",
  ])("is refused in front of the answered subject, and held alone: %s", async (words) => {
    for (const answered of [ours, null])
      expect(await finding({ Subject: `${words} Re: My parcel`, "In-Reply-To": answered })).toMatchObject({
        kind: "refused",
        code: "auto-reply",
      });
    expect(await finding({ Subject: words })).toMatchObject({ kind: "held", code: "maybe-automatic" });
    expect(await finding({ Subject: `${words}, where is my parcel?` })).toEqual({ kind: "person" });
  });
});
