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
    "AutoReply: My parcel",
    "Out of Office: Re: My parcel",
    "[EXT] Automatische Antwort: Re: Mein Paket",
    "Abwesend: AW: Mein Paket",
    "Réponse automatique : Mon colis",
    "Automātiska atbilde: sūtījums",
    "自动答复: 包裹",
    "การตอบกลับอัตโนมัติ: พัสดุ",
  ])("is refused without any other sign: %s", async (subject) => {
    expect(await finding({ Subject: subject })).toMatchObject({ kind: "refused", code: "auto-reply" });
  });
});

describe("an absence subject", () => {
  it("is refused when it replaces the subject of the answered mail, whose id a relay has rewritten", async () => {
    expect(
      await finding({ Subject: "Abwesend bis 3. Mai", "In-Reply-To": "<1@relay.example>" }),
    ).toMatchObject({
      kind: "refused",
      code: "auto-reply",
    });
  });
  it.each([
    ["in an answer to ours, where it may be the customer's own", "Re: Out of office", ours],
    ["alone", "Abwesenheitsnotiz", null],
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
    [
      "an answer to an automatic response",
      { Subject: "Re: Automatic reply: My parcel", "In-Reply-To": "<1@x>" },
    ],
    ["a question about an absence", { Subject: "Abwesend bei der Lieferung: was nun?" }],
    ["a question about chairs", { Subject: "Out of office chairs: any left?" }],
    ["a question about automatic replies", { Subject: "Automatic reply does not work" }],
  ])("of a person is answered: %s", async (_, fields) => {
    expect(await finding(fields)).toEqual({ kind: "person" });
  });
});
