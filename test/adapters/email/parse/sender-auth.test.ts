import { generateKeyPairSync } from "node:crypto";
import { dkimSign } from "mailauth";
import { afterAll, describe, expect, it } from "vitest";
import {
  createParser,
  type SenderAuth,
  type SenderAuthSettings,
} from "../../../../adapters/email/parse/index.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { type Fields, mail } from "./mails.ts";

const parser = createParser({ clock: systemClock });
afterAll(() => parser.close());

async function judge(raw: Uint8Array, senderAuth: SenderAuthSettings): Promise<SenderAuth | null> {
  const result = await parser.parse(raw, { senderAuth });
  if (!result.ok) throw new Error(result.reason);
  return result.auth;
}

const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
const publicKey = keys.publicKey.export({ type: "spki", format: "der" }).toString("base64");
const keyRecord = [`v=DKIM1; k=rsa; p=${publicKey}`];

/** The signers' zone: example.org and evil.example publish everything, relaxed.example only DKIM. */
const records = {
  "txt s1._domainkey.example.org": keyRecord,
  "txt s1._domainkey.mail.example.org": keyRecord,
  "txt s1._domainkey.evil.example": keyRecord,
  "txt s1._domainkey.plain.example": keyRecord,
  "txt s1._domainkey.strict.example": keyRecord,
  "txt s1._domainkey.sub.strict.example": keyRecord,
  "txt s1._domainkey.slow.example": "ESERVFAIL",
  "txt _dmarc.example.org": ["v=DMARC1; p=reject"],
  "txt _dmarc.evil.example": ["v=DMARC1; p=reject"],
  "txt _dmarc.strict.example": ["v=DMARC1; p=reject; adkim=s"],
  "txt _dmarc.slow.example": ["v=DMARC1; p=reject"],
  "txt _dmarc.down.example": "ESERVFAIL",
  "txt _dmarc.xn--mller-kva.example": ["v=DMARC1; p=reject"],
  "txt s1._domainkey.xn--mller-kva.example": keyRecord,
};
const own: SenderAuthSettings = { mode: "mailauth", dns: { records } };

interface Signing {
  readonly domain?: string;
  readonly headers?: string;
  readonly maxBodyLength?: number;
}

async function signed(
  fields: Fields = {},
  { domain = "example.org", headers, maxBodyLength }: Signing = {},
): Promise<Buffer> {
  const raw = Buffer.from(mail(fields));
  const signer = {
    signingDomain: domain,
    selector: "s1",
    privateKey: keys.privateKey.export({ type: "pkcs8", format: "pem" }),
    ...(maxBodyLength === undefined ? {} : { maxBodyLength }),
  };
  const { signatures, errors } = await dkimSign(raw, {
    ...signer,
    canonicalization: "relaxed/relaxed",
    signatureData: [signer],
    ...(headers === undefined ? {} : { headerList: headers }),
  });
  expect(errors).toEqual([]);
  return Buffer.concat([Buffer.from(signatures), raw]);
}
const changed = (raw: Buffer, from: string, to: string) => Buffer.from(raw.toString().replace(from, to));
const above = (raw: Buffer, line: string) => Buffer.concat([Buffer.from(`${line}\r\n`), raw]);

describe("our own check", () => {
  it("passes what the From domain signed", async () => {
    expect(await judge(await signed(), own)).toEqual({
      verdict: "pass",
      method: "dmarc",
      domain: "example.org",
      detail: "signed by example.org",
    });
  });
  it("says nothing when it is off", async () =>
    expect(await judge(await signed(), { mode: "off" })).toBeNull());

  const cases: readonly [string, () => Promise<Uint8Array>, SenderAuth["verdict"]][] = [
    ["a signature of a subdomain, relaxed", () => signed({}, { domain: "mail.example.org" }), "pass"],
    [
      "an international domain",
      () => signed({ From: "a@müller.example" }, { domain: "xn--mller-kva.example" }),
      "pass",
    ],
    ["a Reply-To that is signed", () => signed({ "Reply-To": "b@example.org" }), "pass"],
    ["no signature", async () => mail(), "fail"],
    ["a signature of another domain", () => signed({}, { domain: "evil.example" }), "fail"],
    [
      "a subdomain's signature where alignment is strict",
      () => signed({ From: "a@strict.example" }, { domain: "sub.strict.example" }),
      "fail",
    ],
    ["a changed body", async () => changed(await signed(), "Where is", "There is"), "fail"],
    ["a changed From", async () => changed(await signed(), "Anna <anna@", "Anna <boss@"), "fail"],
    ["a changed subject", async () => changed(await signed(), "Subject: My", "Subject: Your"), "fail"],
    ["a second From above", async () => above(await signed(), "From: boss@example.org"), "none"],
    [
      "a second From below the signature",
      async () => changed(await signed(), "\r\nSubject:", "\r\nFrom: eve@evil.example\r\nSubject:"),
      "none",
    ],
    ["a second Subject above", async () => above(await signed(), "Subject: Pay at once"), "fail"],
    ["a second Content-Type above", async () => above(await signed(), "Content-Type: text/html"), "fail"],
    [
      "an added Reply-To",
      async () => above(await signed({}, { headers: "from:to:subject:date" }), "Reply-To: eve@evil.example"),
      "none",
    ],
    ["two addresses in From", () => signed({ From: "anna@example.org, eve@evil.example" }), "none"],
    [
      "an address as the name",
      () => signed({ From: '"anna@example.org" <eve@evil.example>' }, { domain: "example.org" }),
      "fail",
    ],
    ["a group in From", () => signed({ From: "x: anna@example.org;" }), "pass"],
    ["a signature over a part of the body", () => signed({}, { maxBodyLength: 5 }), "none"],
    [
      "a domain without a policy",
      () => signed({ From: "a@plain.example" }, { domain: "plain.example" }),
      "none",
    ],
    [
      "a key that cannot be asked for just now",
      () => signed({ From: "a@slow.example" }, { domain: "slow.example" }),
      "temperror",
    ],
    [
      "a policy that cannot be asked for just now",
      () => signed({ From: "a@down.example" }, { domain: "example.org" }),
      "temperror",
    ],
    [
      "a good Authentication-Results of the sender's own making",
      async () =>
        above(
          Buffer.from(mail()),
          "Authentication-Results: mx.example.com; dmarc=pass header.from=example.org",
        ),
      "fail",
    ],
  ];
  it.each(cases)("%s", async (_, make, verdict) => {
    expect(await judge(await make(), own)).toMatchObject({ verdict, method: "dmarc" });
  });

  it("says temperror when the servers do not answer", async () => {
    // Nothing listens there; what counts is that it ends in time and refuses nobody.
    const silent: SenderAuthSettings = {
      mode: "mailauth",
      dns: { servers: ["127.0.0.1:1"], milliseconds: 300 },
    };
    const start = performance.now();
    expect(await judge(await signed(), silent)).toMatchObject({ verdict: "temperror" });
    expect(performance.now() - start).toBeLessThan(8000);
  });
  it("does not hold up other mails", async () => {
    const silent: SenderAuthSettings = {
      mode: "mailauth",
      dns: { servers: ["127.0.0.1:1"], milliseconds: 2000 },
    };
    const order: string[] = [];
    const raw = await signed();
    await Promise.all([
      judge(raw, silent).then(() => order.push("dns")),
      judge(mail(), { mode: "off" }).then(() => order.push("off")),
    ]);
    expect(order).toEqual(["off", "dns"]);
  });
});

const trusted: SenderAuthSettings = { mode: "header", authservId: "mx.example.com" };
const results = (...values: string[]) => mail({ "Authentication-Results": values });
const good = "mx.example.com; dmarc=pass header.from=example.org";

describe("a trusted server's header", () => {
  const cases: readonly [string, Uint8Array, SenderAuth["verdict"]][] = [
    ["a plain pass", results(good), "pass"],
    ["the id in another case", results(good.replace("mx.", "MX.")), "pass"],
    ["a version", results("mx.example.com 1; dmarc=pass header.from=example.org"), "pass"],
    ["a quoted id", results('"mx.example.com"; dmarc=pass header.from=example.org'), "pass"],
    [
      "Google's form",
      results(
        "mx.example.com;\r\n       dkim=pass header.i=@example.org header.s=s1 header.b=x;\r\n       spf=pass (example.com: domain of a@example.org designates 192.0.2.1 as permitted sender) smtp.mailfrom=a@example.org;\r\n       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.org",
      ),
      "pass",
    ],
    [
      "spaces around the equals sign",
      results("mx.example.com; dmarc = pass header.from = example.org"),
      "pass",
    ],
    [
      "a good one above a forged one",
      results(good, "mx.example.com; dmarc=fail header.from=example.org"),
      "pass",
    ],
    ["a fail", results("mx.example.com; dmarc=fail header.from=example.org"), "fail"],
    ["a temperror", results("mx.example.com; dmarc=temperror header.from=example.org"), "temperror"],
    ["no policy", results("mx.example.com; dmarc=none header.from=example.org"), "none"],
    ["no header", mail(), "none"],
    ["another server", results(good.replace("mx.example.com", "mx.evil.example")), "none"],
    ["another server on top", results("mx.evil.example; dmarc=pass header.from=example.org", good), "none"],
    [
      "the id as the beginning of another",
      results(good.replace("mx.example.com", "mx.example.com.evil.example")),
      "none",
    ],
    [
      "the id in a comment",
      results("mx.evil.example (mx.example.com); dmarc=pass header.from=example.org"),
      "none",
    ],
    [
      "the pass in a comment",
      results("mx.example.com; dmarc=fail (dmarc=pass header.from=example.org) header.from=example.org"),
      "fail",
    ],
    [
      "the pass in a nested comment",
      results("mx.example.com; spf=pass (a (b) ; dmarc=pass header.from=example.org) smtp.mailfrom=x"),
      "none",
    ],
    [
      "the pass in a quoted sender",
      results('mx.example.com; spf=pass smtp.mailfrom="a; dmarc=pass header.from=example.org"@evil.example'),
      "none",
    ],
    [
      "an escaped quote",
      results('mx.example.com; spf=pass smtp.mailfrom="a\\"; dmarc=pass header.from=example.org"'),
      "none",
    ],
    ["an open comment", results("mx.example.com; dmarc=pass header.from=example.org (x"), "none"],
    ["an open quote", results('mx.example.com; dmarc=pass header.from=example.org x="'), "none"],
    ["a closing bracket too many", results("mx.example.com; x) dmarc=pass header.from=example.org"), "none"],
    [
      "two DMARC results",
      results("mx.example.com; dmarc=fail header.from=example.org; dmarc=pass header.from=example.org"),
      "none",
    ],
    ["a pass of another domain", results("mx.example.com; dmarc=pass header.from=evil.example"), "none"],
    [
      "a pass of the organization's domain only",
      results("mx.example.com; dmarc=pass header.from=org"),
      "none",
    ],
    ["a pass without a domain", results("mx.example.com; dmarc=pass"), "none"],
    [
      "two domains",
      results("mx.example.com; dmarc=pass header.from=example.org header.from=evil.example"),
      "none",
    ],
    ["only SPF", results("mx.example.com; spf=pass smtp.mailfrom=example.org"), "none"],
    ["only DKIM", results("mx.example.com; dkim=pass header.d=example.org"), "none"],
    ["a word that begins like pass", results("mx.example.com; dmarc=passed header.from=example.org"), "none"],
    ["another method", results("mx.example.com; x-dmarc=pass header.from=example.org"), "none"],
    ["an ARC header", mail({ "ARC-Authentication-Results": `i=1; ${good}` }), "none"],
    ["the header's name in a body", mail({}, `Authentication-Results: ${good}\n`), "none"],
    [
      "two From fields",
      mail({ From: ["anna@example.org", "eve@evil.example"], "Authentication-Results": good }),
      "none",
    ],
    ["too long a header", results(`${good} (${"x".repeat(20_000)})`), "none"],
    ["an empty header", results(""), "none"],
  ];
  it.each(cases)("%s", async (_, raw, verdict) => {
    expect(await judge(raw, trusted)).toMatchObject({ verdict, method: "authentication-results" });
  });
  it("an empty id trusts nobody", async () => {
    expect(
      await judge(results("; dmarc=pass header.from=example.org"), { mode: "header", authservId: "" }),
    ).toMatchObject({ verdict: "none" });
  });
});
