// Whom a mail is from and where its answer goes: what anybody can write into Reply-To, Cc and List headers moves nothing.

import { externalId, type MessageEvent } from "bridgehead/contract";
import { afterAll, describe, expect, it } from "vitest";
import { understand } from "../../../adapters/email/events.ts";
import { identity } from "../../../adapters/email/parse/headers.ts";
import type { SenderAuth } from "../../../adapters/email/parse/mail.ts";
import { isSameOrganization } from "../../../adapters/email/providers.ts";
import { sendRequest } from "../../../src/wire/conversation.ts";
import { type Settings, settingsFor } from "../../support/email/adapter.ts";
import { type Fields, mail, multipart, reader } from "../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

const passed: SenderAuth = { result: "pass", method: "dmarc", domain: "example.org", detail: "" };
const failed: SenderAuth = { ...passed, result: "fail" };

/** The message that a mail becomes. `auth` null: senders are not checked. */
async function message(
  raw: Uint8Array | Fields,
  { auth = null, ...settings }: { auth?: SenderAuth | null } & Partial<Settings> = {},
): Promise<MessageEvent> {
  const bytes = raw instanceof Uint8Array ? raw : mail(raw);
  const config = settingsFor(1, 1, { sender_auth: { mode: auth === null ? "off" : "tag" }, ...settings });
  const arrival = {
    id: externalId("x"),
    listed: { uid: 1, size: 1, arrived: null, keywords: [] },
    now: 0,
    copiedAfter: 0,
  };
  const parsed = { mail: await read(bytes), auth, raw: bytes, omitted: [], truncated: false };
  const found = understand({ config, self: identity("support@example.com", ["hilfe@example.com"]) }, arrival, parsed);
  const [event] = found.kind === "events" ? found.events : [];
  if (event?.kind !== "message") throw new Error("no message");
  return event;
}
const answered = async (...how: Parameters<typeof message>) => {
  const { from, replyTo, refusal } = await message(...how);
  return refusal ? refusal.code : [from.address, replyTo?.address ?? from.address];
};

const anna = "anna@example.org";
const mallory = "mallory@evil.example";

describe("Reply-To of a sender that is not authenticated", () => {
  const cases: readonly [string, Fields, string][] = [
    ["another domain", { "Reply-To": mallory }, anna],
    ["the same domain", { "Reply-To": "orders@example.org" }, "orders@example.org"],
    ["a subdomain of it", { "Reply-To": "orders@mail.example.org" }, "orders@mail.example.org"],
    ["a public suffix in common", { From: "a@one.co.uk", "Reply-To": "b@two.co.uk" }, "a@one.co.uk"],
    ["a hosting suffix in common", { From: "a@one.github.io", "Reply-To": "b@two.github.io" }, "a@one.github.io"],
    ["the same mailbox provider", { From: "ann@gmail.com", "Reply-To": "mallory@gmail.com" }, "ann@gmail.com"],
    [
      "the same mailbox provider's domain of a country",
      { From: "ann@yahoo.com.au", "Reply-To": "mallory@yahoo.com.au" },
      "ann@yahoo.com.au",
    ],
    ["another tenant", { From: "a@one.onmicrosoft.com", "Reply-To": "b@two.onmicrosoft.com" }, "a@one.onmicrosoft.com"],
    ["a domain that ends alike", { "Reply-To": "x@notexample.org" }, anna],
    ["a domain that begins alike", { "Reply-To": "x@example.org.evil.example" }, anna],
    ["a path behind the domain", { "Reply-To": "x@evil.example/example.org" }, anna],
    ["several, one of them foreign", { "Reply-To": `orders@example.org, ${mallory}` }, anna],
    ["several, the foreign one first", { "Reply-To": `${mallory}, orders@example.org` }, anna],
    ["several of the same domain", { "Reply-To": "one@example.org, two@example.org" }, "one@example.org"],
    ["two fields", { "Reply-To": ["orders@example.org", mallory] }, anna],
    ["a group", { "Reply-To": `Team: ${mallory}, ${anna};` }, anna],
    ["an empty group", { "Reply-To": "undisclosed-recipients:;" }, anna],
    ["our own address", { "Reply-To": "support@example.com" }, anna],
    ["our own address with a token", { "Reply-To": "support+abcdefghij@example.com" }, anna],
    ["our own address and a foreign one", { "Reply-To": `support@example.com, ${mallory}` }, anna],
    ["From itself and a foreign one", { "Reply-To": `${anna}, ${mallory}` }, anna],
    ["a name that looks like an address", { "Reply-To": `"orders@example.org" <${mallory}>` }, anna],
    ["a quoted local part", { "Reply-To": '"orders@example.org"@evil.example' }, anna],
    [
      "an international domain of its own",
      { From: "a@müller.example", "Reply-To": "b@xn--mller-kva.example" },
      "b@xn--mller-kva.example",
    ],
    ["nonsense", { "Reply-To": "<<>>,,;" }, anna],
  ];
  it.each(cases)("%s", async (_, fields, to) => {
    const [from, reply] = await answered(fields);
    expect(reply).toBe(to);
    expect(from).toBe((await message({ ...fields, "Reply-To": null })).from.address);
    const [, checked] = await answered(fields, { auth: failed });
    expect(checked).toBe(to);
  });

  it("is honoured when From is authenticated, and a list is never answered", async () => {
    expect(await answered({ "Reply-To": mallory }, { auth: passed })).toEqual([anna, mallory]);
    expect(await answered({ "Reply-To": `Team: ${mallory};` }, { auth: passed })).toEqual([anna, mallory]);
    const list = { "Reply-To": "talk@lists.example", "List-Post": "<mailto:talk@lists.example>" };
    const accept = { auth: passed, accept_lists: ["talk@lists.example"] };
    expect(await answered(list, accept)).toEqual([anna, anna]);
    expect(await answered({ "Reply-To": "talk@lists.example" }, accept)).toEqual([anna, anna]);
  });

  const several: readonly [string, Fields, SenderAuth | null, string, readonly string[] | undefined][] = [
    ["of one domain", { "Reply-To": "a@example.org, b@example.org" }, null, "a@example.org", ["b@example.org"]],
    ["in two fields", { "Reply-To": ["a@example.org", "b@example.org"] }, null, "a@example.org", ["b@example.org"]],
    ["and From", { "Reply-To": `${anna}, b@example.org` }, null, anna, ["b@example.org"]],
    ["behind From, one foreign", { "Reply-To": `${anna}, ${mallory}, b@example.org` }, null, anna, ["b@example.org"]],
    ["all foreign", { "Reply-To": `${mallory}, x@evil.example` }, failed, anna, undefined],
    ["of an authenticated sender", { "Reply-To": `b@example.org, ${mallory}` }, passed, "b@example.org", [mallory]],
    ["of an authenticated sender, and From", { "Reply-To": `${mallory}, ${anna}` }, passed, anna, [mallory]],
    [
      "one of them also in Cc",
      { "Reply-To": "a@example.org, b@example.org", Cc: "b@example.org, c@example.org" },
      null,
      "a@example.org",
      ["b@example.org", "c@example.org"],
    ],
    ["one of them ours", { "Reply-To": "support@example.com, b@example.org" }, null, "b@example.org", undefined],
    [
      "one of them a list",
      { "Reply-To": `${anna}, talk@lists.example`, "List-Post": "<mailto:talk@lists.example>" },
      passed,
      anna,
      undefined,
    ],
  ];
  it.each(several)("several addresses, %s: the others are copied", async (_, fields, auth, to, copies) => {
    const { from, replyTo, cc } = await message(fields, { auth });
    expect([replyTo?.address ?? from.address, cc?.map((one) => one.address)]).toEqual([to, copies]);
  });

  it("lets a forged Cc neither receive the answer nor join the conversation", async () => {
    const fields = { Cc: `${mallory}, Ben <ben@example.org>, support@example.com` };
    const cc = async (...how: Parameters<typeof message>) => (await message(...how)).cc?.map((one) => one.address);
    expect(await cc(fields)).toEqual(["ben@example.org"]);
    expect(await cc(fields, { auth: failed })).toEqual(["ben@example.org"]);
    expect(await cc(fields, { auth: passed })).toEqual([mallory, "ben@example.org"]);
  });
});

describe("contact forms", () => {
  const form = { From: "Website <wordpress@example.com>", "Reply-To": "Carla <carla@customer.example>" };
  const customer = ["carla@customer.example", "carla@customer.example"];
  const listed = { contact_forms: ["wordpress@example.com"] };

  it("makes the customer the person, by the list or by authentication of our own domain", async () => {
    expect(await answered(form, listed)).toEqual(customer);
    expect(await answered(form, { contact_forms: ["@example.com"] })).toEqual(customer);
    expect(await answered(form, { auth: passed })).toEqual(customer);
    expect((await message(form, listed)).from.name).toBe("Carla");
  });
  it("does so for forms that send from our own address, from no-reply, in bulk and by the null sender", async () => {
    const own = { ...form, From: "support@example.com" };
    expect(await answered(own, { contact_forms: ["support@example.com"] })).toEqual(customer);
    expect(await answered(own, { auth: passed })).toEqual(customer);
    const robot = {
      ...form,
      From: "no-reply@example.com",
      Precedence: "bulk",
      "Auto-Submitted": "auto-generated",
      "Return-Path": "<>",
    };
    expect(await answered(robot, { contact_forms: ["no-reply@example.com"] })).toEqual(customer);
  });
  it("answers From when it is neither, and never takes our own mail for a form", async () => {
    expect(await answered(form)).toEqual(["wordpress@example.com", "wordpress@example.com"]);
    expect(await answered(form, { auth: failed })).toEqual(["wordpress@example.com", "wordpress@example.com"]);
    expect(await answered({ ...form, From: "support@example.com" })).toBe("own");
    const ours = { ...form, From: "support@example.com", "Reply-To": "support+abcdefghij@example.com" };
    expect(await answered(ours, { contact_forms: ["@example.com"] })).toBe("own");
    const looped = { ...form, "Message-ID": "<01hzx7key.bridgehead@example.com>" };
    expect(await answered(looped, listed)).toBe("own");
  });
  it("neither verifies the customer, nor answers an absence note, several addresses or a robot", async () => {
    expect((await message(form, { ...listed, auth: passed })).sender).toBe("unverified");
    expect(await answered({ ...form, "Auto-Submitted": "auto-replied" }, listed)).toBe("auto-reply");
    expect(await answered({ ...form, "Reply-To": "noreply@customer.example" }, listed)).toBe("no-reply");
    const two = { ...form, "Reply-To": "a@customer.example, b@customer.example" };
    expect(await answered(two, listed)).toEqual(["wordpress@example.com", "wordpress@example.com"]);
  });
});

describe("mail through a group or a forwarder", () => {
  const group = "support-group@example.com";
  const accept_lists = [group];
  const google = {
    To: group,
    "Mailing-list": `list ${group}; contact support-group+owners@example.com`,
    "List-ID": "<support-group.example.com>",
    "List-Post": `<https://groups.google.com/a/example.com/group/support-group/post>, <mailto:${group}>`,
    "List-Unsubscribe": "<mailto:googlegroups-manage+1+unsubscribe@googlegroups.com>",
    Precedence: "list",
    "X-Original-Sender": anna,
  };
  const rewritten = {
    ...google,
    From: `'Anna' via Support <${group}>`,
    "X-Original-From": `Anna <${anna}>`,
    "Reply-To": group,
  };

  it("is a list without the override, and a person's mail with it", async () => {
    expect(await answered(google)).toBe("list");
    expect(await answered(google, { accept_lists })).toEqual([anna, anna]);
    const own = { From: group, To: "support@example.com" };
    expect(await answered(own, { accept_lists }), "the group's owner writes from its address").toEqual([group, group]);
  });
  it("finds the author where the group has put itself into From", async () => {
    const found = await message(rewritten, { accept_lists });
    expect([found.from, found.replyTo, found.refusal, found.sender]).toEqual([
      { address: anna, name: "Anna" },
      undefined,
      undefined,
      undefined,
    ]);
    const mailman = {
      ...rewritten,
      "X-Original-From": null,
      "X-Original-Sender": null,
      "Reply-To": `Anna <${anna}>, ${group}`,
    };
    expect(await answered(mailman, { accept_lists })).toEqual([anna, anna]);
    expect((await message(rewritten, { accept_lists, auth: passed })).sender).toBe("unverified");
  });
  it("answers no one when the author is unknown, and never the group", async () => {
    const nobody = { ...rewritten, "X-Original-From": null, "X-Original-Sender": null };
    expect(await answered(nobody, { accept_lists })).toBe("list");
    const ours = {
      ...rewritten,
      "X-Original-From": "support@example.com",
      "X-Original-Sender": "support@example.com",
    };
    expect(await answered(ours, { accept_lists })).toBe("list");
    const { cc } = await message({ ...google, Cc: `${group}, ben@example.org` }, { accept_lists });
    expect(cc).toEqual([{ address: "ben@example.org" }]);
  });
  it("finds the author where the group is the channel's own address, and ignores our own mail through it", async () => {
    const shared = JSON.parse(JSON.stringify(rewritten).replaceAll("support-group", "support")) as Fields;
    const accept = { accept_lists: ["support@example.com"] };
    expect(await answered(shared, accept)).toEqual([anna, anna]);
    expect(await answered({ ...shared, "Message-ID": "<01hzx7key.bridgehead@example.com>" }, accept)).toBe("own");
    const ours = { "X-Original-From": "support@example.com", "X-Original-Sender": "support@example.com" };
    expect(await answered({ ...shared, ...ours }, accept)).toBe("list");
    expect(await answered({ From: "support@example.com", "Reply-To": anna }, accept)).toBe("own");
    expect(await answered(shared)).toBe("own");
  });
  it("accepts a plain forwarder by its address in To, and a mail that a colleague redirects", async () => {
    const redirected = { To: "ben@example.com", "Resent-From": "ben@example.com", "Resent-To": "support@example.com" };
    expect(await answered(redirected)).toEqual([anna, anna]);
    expect(await answered({ ...redirected, "Resent-To": "carl@example.com" })).toBe("not-addressed");
    expect(await answered({ To: "help@example.com" })).toBe("not-addressed");
    expect(await answered({ To: "help@example.com" }, { accept_lists: ["help@example.com"] })).toEqual([anna, anna]);
  });
  it("still ignores other lists, newsletters and machines that write through it", async () => {
    const other = {
      To: group,
      "List-Id": "<news.shop.example>",
      "List-Unsubscribe": "<https://shop.example/u>",
    };
    expect(await answered(other, { accept_lists })).toBe("list");
    expect(await answered({ To: group, "List-Unsubscribe": "<https://shop.example/u>" }, { accept_lists })).toBe(
      "list",
    );
    expect(await answered({ ...google, "List-Id": "<news.shop.example>" }, { accept_lists })).toBe("list");
    expect(await answered({ ...google, "Auto-Submitted": "auto-replied" }, { accept_lists })).toBe("auto-reply");
    expect(await answered({ ...google, From: "no-reply@shop.example" }, { accept_lists })).toBe("no-reply");
    const similar = {
      ...google,
      "Mailing-list": "list not-support-group@example.com",
      "List-ID": "<x.example.net>",
      "List-Post": null,
    };
    expect(await answered(similar, { accept_lists })).toBe("list");
  });
});

describe("a DMARC report under any subject", () => {
  const report = (From: string, name: string, more: Fields = {}) =>
    answered(
      multipart(
        "mixed",
        [
          { type: "text/plain", body: "A report" },
          { type: `application/gzip; name="${name}"`, body: "x" },
        ],
        {
          From,
          ...more,
        },
      ),
    );
  const name = "mail.ru!example.com!1764460800!1764547199.xml.gz";
  it("is ignored by the name of its file, from its receiver and about our domain", async () => {
    expect(await report("dmarc_support@corp.mail.ru", name)).toBe("auto-generated");
    expect(await report("dmarc@mail.ru", "mail.ru!example.com!1764460800!1764547199!a1.zip")).toBe("auto-generated");
  });
  it("is answered when a person sends it", async () => {
    expect(await report(anna, name)).toEqual([anna, anna]);
    expect(await report("a@mail.ru", name.replace("example.com", "a.example"))).toEqual(["a@mail.ru", "a@mail.ru"]);
    expect(await report("a@mail.ru", name, { "In-Reply-To": "<1@x>" })).toEqual(["a@mail.ru", "a@mail.ru"]);
  });
});

describe("two routes of one message", () => {
  it("does not let the copy that is refused for its route hide the direct one", async () => {
    const direct = await message({});
    const list = await message({ "List-Id": "<talk.lists.example>", Subject: "[talk] My parcel" });
    const bcc = await message({ To: "other@example.net" });
    expect(list.refusal?.code).toBe("list");
    expect(new Set([direct, list, bcc].map((one) => one.fingerprint)).size).toBe(3);
    const again = await message({ To: "hilfe@example.com", Received: "from elsewhere" });
    expect(again.fingerprint).toBe(direct.fingerprint);
  });
});

describe("mail that only a human can read", () => {
  const armored = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n";
  it("is held with its text, when it may be an absence message", async () => {
    const event = await message(mail({ Subject: "Out of office" }, "Where is my chair?"));
    expect([event.refusal?.code, event.refusal?.hold, event.text]).toEqual([
      "maybe-automatic",
      true,
      "Where is my chair?",
    ]);
  });
  it("is held, without the ciphertext; text next to winmail.dat stays", async () => {
    const pgp = await message(mail({}, armored));
    expect([pgp.refusal, pgp.text]).toEqual([
      { code: "pgp-encrypted", reason: "the message is encrypted with PGP", hold: true },
      "",
    ]);
    expect((await message(mail({}, `See the offer:\n\n${armored}\nAnna`))).text).toBe("See the offer:\n\n\n\nAnna");
    const file = { type: "application/octet-stream; name=offer.asc", body: armored };
    expect((await message(multipart("mixed", [{ type: "text/plain", body: "See the offer" }, file]))).text).toBe(
      "See the offer",
    );
    const tnef = await message(
      multipart("mixed", [
        { type: "text/plain", body: "See the offer" },
        { type: "application/ms-tnef; name=winmail.dat", body: Buffer.from([0x78, 0x9f, 0x3e, 0x22]) },
      ]),
    );
    expect([tnef.refusal?.code, tnef.refusal?.hold, tnef.text]).toEqual(["winmail", true, "See the offer"]);
  });
});

it("names a picture in the HTML to the agent when the message has no words", async () => {
  const picture = (words: string) =>
    multipart("related", [
      { type: "text/html", body: `<p>${words}</p><img src="cid:i">` },
      { type: "image/png; name=mug.png", body: Buffer.from("png"), fields: { "Content-ID": "<i>" } },
    ]);
  const named = async (words: string) => (await message(picture(words))).attachments?.map(({ named: is }) => is);
  expect([await named(""), await named("My mug is broken")]).toEqual([[true], [false]]);
});

it("keeps the beginning of a text that is longer than the platform accepts, and says so", async () => {
  const { text, notes } = await message(mail({}, `Where is my lamp?\n${"x".repeat(2_000_000)}`));
  expect(text.startsWith("Where is my lamp?\nxxx")).toBe(true);
  const [subject, files] = [2000, 20 * 500];
  expect(() => sendRequest.parse({ message: text + "y".repeat(subject + files) })).not.toThrow();
  expect(notes).toMatchObject({ text_truncated: expect.stringContaining("too large") });
  expect((await message(mail({}, "Where is my lamp?"))).notes).toBeUndefined();
});

const page = { "Content-Type": "text/html; charset=utf-8" };
const padding = (length: number) => `<i title="${"x".repeat(1000)}"></i>`.repeat(length / 1000);
const attached = (words: string) =>
  multipart("mixed", [
    { type: "text/plain", body: "See below" },
    { type: "message/rfc822", body: mail({ Subject: "Lamp" }, words).toString() },
  ]);

it.each([
  ["HTML", mail(page, `<p>Hello</p>${padding(2_100_000)}<p>Bye</p>`)],
  ["HTML of few characters with many bytes", mail(page, `<p>Hello</p>${"灯".repeat(1_400_000)}<p>Bye</p>`)],
  ["text in HTML", mail(page, `<p>Hello</p>${"lamp ".repeat(100_000)}<p>Bye</p>`)],
  ["text in many elements", mail(page, `<p>Hello</p>${`<p>${"lamp ".repeat(10)}</p>`.repeat(12_001)}<p>Bye</p>`)],
  ["text above a quote", mail({ "In-Reply-To": "<a@b.example>" }, `Hello\n${"> lamp\n".repeat(150_000)}Bye`)],
  ["an attached message", attached(`${"lamp ".repeat(20_000)}Bye`)],
])("says so when the end of %s is missing", async (_what, raw) => {
  const { text, notes } = await message(raw);
  expect(text).not.toContain("Bye");
  expect(notes).toMatchObject({ text_truncated: expect.stringContaining("too large") });
});

it.each([
  ["HTML", mail(page, `<p>Hello</p>${padding(1_900_000)}<p>Bye</p>`)],
  ["text in HTML", mail(page, `<p>Hello</p>${"lamp ".repeat(79_000)}<p>Bye</p>`)],
  ["many lines in HTML", mail(page, `<div>Hello<br>${"lamp<br>".repeat(11_000)}Bye</div>`)],
  ["an attached message", attached(`${"lamp ".repeat(9000)}Bye`)],
])("reads the end of %s", async (_what, raw) => {
  const { text, notes } = await message(raw);
  expect(text).toContain("Bye");
  expect(notes?.["text_truncated"]).toBeUndefined();
});

it("must be authenticated before its encrypted text is held, and a machine's mail does not wait for that", async () => {
  const refusal = async (raw: Uint8Array, auth: SenderAuth) =>
    (await message(raw, { auth, sender_auth: { mode: "require" } })).refusal;
  const sealed = mail({}, "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n");
  expect(await refusal(sealed, failed)).toMatchObject({ code: "unauthenticated" });
  expect(await refusal(sealed, passed)).toMatchObject({ code: "pgp-encrypted", hold: true });
  const machine = mail({ "Auto-Submitted": "auto-replied" });
  expect(await refusal(machine, { ...failed, result: "temperror" })).toMatchObject({ code: "auto-reply" });
});

it("compares organizational domains by the Public Suffix List", () => {
  expect(isSameOrganization("a@mail.one.co.uk", "b@one.co.uk")).toBe(true);
  expect(isSameOrganization("a@localhost", "b@localhost")).toBe(true);
  expect(isSameOrganization("a@gmail.com", "a@gmail.com")).toBe(true);
  expect(isSameOrganization("a@co.uk", "b@co.uk")).toBe(false);
  expect(isSameOrganization("a@com", "b@org")).toBe(false);
  // Relays give an address to everyone.
  for (const domain of ["marketplace.amazon.de", "guest.booking.com", "members.ebay.com", "passmail.net", "slmail.me"])
    expect(isSameOrganization(`a@${domain}`, `b@${domain}`), domain).toBe(false);
});
