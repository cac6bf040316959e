// Signatures in the containers of mail clients. The corpus (test/fixtures/trimming/tuned/signatures.txt) has whole mails.

import { afterAll, expect, it } from "vitest";
import { html, multipart, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

const question = "<div>Where is my parcel?</div>";
const inside = "<div>Berta Doe</div><div>Doe Ltd</div>";
const all = "Where is my parcel?\nBerta Doe\nDoe Ltd";

it.each([
  'div class="gmail_signature" data-smartmail="gmail_signature"',
  'div id="Signature"',
  'div class="elementToProof" id="ms-outlook-mobile-signature"',
  'div id="AppleMailSignature"',
  'div class="moz-signature"',
  'div class="ydp12abcdefsignature"',
  'div id="ymail_android_signature"',
  'div class="protonmail_signature_block"',
  'div name="messageSignatureSection"',
  'div id="_rc_sig"',
  'div class="default-style io-ox-signature"',
  'div data-marker="__SIG_PRE__"',
  'div data-signature-widget="container"',
  'div id="bloop_sign_1"',
  "signature",
  'table class="signature"',
])("are removed without a delimiter: <%s>", async (tag) => {
  const body = tag.startsWith("table") ? `<tr><td>${inside}</td></tr>` : inside;
  const parsed = await read(html(`${question}<${tag}>${body}</${tag.split(" ", 1)[0]}>`));
  expect(parsed.text).toBe("Where is my parcel?");
  expect(parsed.fullText).toBe(all);
});

it.each(['div id="x_Signature"', 'div class="design"', 'span class="signature"'])(
  "are not every element: <%s>",
  async (tag) => {
    expect((await read(html(`${question}<${tag}>${inside}</${tag.split(" ", 1)[0]}>`))).text).toBe(all);
  },
);

it("are found in the HTML when the plain text has the same words", async () => {
  const bodies = [
    { type: "text/plain; charset=utf-8", body: all },
    { type: "text/html; charset=utf-8", body: `${question}<div id="Signature">${inside}</div>` },
  ];
  expect((await read(multipart("alternative", bodies))).text).toBe("Where is my parcel?");
});

it("leave no mark in a text of which they are all, and none of the sender's", async () => {
  for (const body of [inside, `<div>\ue0c3Berta Doe</div><div>Doe Ltd</div>`])
    expect(await read(html(`<div id="Signature">${body}</div>`))).toMatchObject({
      text: "Berta Doe\nDoe Ltd",
      fullText: "Berta Doe\nDoe Ltd",
    });
});
