// Absence messages and other automatic responses that only their subject reveals.

import { afterAll, describe, expect, it } from "vitest";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { classify, type OwnIdentity } from "../../../../adapters/email/parse/machine/classify.ts";
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
    "Réponse automatique : Mon colis",
    "Automātiska atbilde: sūtījums",
    "自动答复: 包裹",
    "【自動返信】荷物",
    "การตอบกลับอัตโนมัติ: พัสดุ",
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
    ["a question about automatic replies", { Subject: "Automatic reply does not work" }],
  ])("of a person is answered: %s", async (_, fields) => {
    expect(await finding(fields)).toEqual({ kind: "person" });
  });
});
