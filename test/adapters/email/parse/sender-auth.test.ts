import { generateKeyPairSync } from "node:crypto";
import { dkimSign } from "mailauth";
import { afterAll, describe, expect, it } from "vitest";
import { judgeSignatures } from "../../../../adapters/email/parse/auth/dkim.ts";
import type { Mail, SenderAuth, SenderAuthSettings } from "../../../../adapters/email/parse/mail.ts";
import { Parser } from "../../../../adapters/email/parse/parser.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { systemClock } from "../../../../src/ops/clock.ts";
import { workedMs } from "../../../support/clock.ts";
import { type Fields, mail } from "../../../support/email/mails.ts";

const parser = new Parser({ clock: systemClock, timing });
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
const own: SenderAuthSettings = { mode: "mailauth", limits: timing, dns: { records } };

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
      result: "pass",
      method: "dmarc",
      domain: "example.org",
      detail: "signed by example.org",
    });
  });
  it("says nothing when it is off", async () => expect(await judge(await signed(), { mode: "off" })).toBeNull());

  const cases: readonly [string, () => Promise<Uint8Array>, SenderAuth["result"]][] = [
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
      "more signatures than are verified, each of which hashes the body in its own way",
      async () => {
        const other = (n: number) =>
          `DKIM-Signature: v=1; a=rsa-sha256; d=a.example; s=${n}; h=from; l=${n}; bh=A; b=A`;
        return above(await signed(), Array.from({ length: 20 }, (_, n) => other(n)).join("\r\n"));
      },
      "none",
    ],
    ["a domain without a policy", () => signed({ From: "a@plain.example" }, { domain: "plain.example" }), "none"],
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
        above(Buffer.from(mail()), "Authentication-Results: mx.example.com; dmarc=pass header.from=example.org"),
      "fail",
    ],
  ];
  it.each(cases)("%s", async (_, make, result) => {
    expect(await judge(await make(), own)).toMatchObject({ result, method: "dmarc" });
  });

  it("says temperror when the servers do not answer", async () => {
    // No server listens there: the check must end within its timeout and must not reject the sender.
    const silent: SenderAuthSettings = {
      mode: "mailauth",
      limits: { ...timing, dns: 300 },
      dns: { servers: ["127.0.0.1:1"] },
    };
    const start = performance.now();
    expect(await judge(await signed(), silent)).toMatchObject({ result: "temperror" });
    expect(performance.now() - start).toBeLessThan(8000);
  });
  it("does not hold up other mails", async () => {
    const silent: SenderAuthSettings = {
      mode: "mailauth",
      limits: { ...timing, dns: 2000 },
      dns: { servers: ["127.0.0.1:1"] },
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
  const cases: readonly [string, Uint8Array, SenderAuth["result"]][] = [
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
    ["spaces around the equals sign", results("mx.example.com; dmarc = pass header.from = example.org"), "pass"],
    ["a good one above a forged one", results(good, "mx.example.com; dmarc=fail header.from=example.org"), "pass"],
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
    ["the id in a comment", results("mx.evil.example (mx.example.com); dmarc=pass header.from=example.org"), "none"],
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
    ["a pass of the organization's domain only", results("mx.example.com; dmarc=pass header.from=org"), "none"],
    ["a pass without a domain", results("mx.example.com; dmarc=pass"), "none"],
    ["two domains", results("mx.example.com; dmarc=pass header.from=example.org header.from=evil.example"), "none"],
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
  it.each(cases)("%s", async (_, raw, result) => {
    expect(await judge(raw, trusted)).toMatchObject({ result, method: "authentication-results" });
  });
  it("an empty id trusts no server", async () => {
    expect(
      await judge(results("; dmarc=pass header.from=example.org"), { mode: "header", authservId: "" }),
    ).toMatchObject({ result: "none" });
  });
});

/** Header lines in order, top first: what the receiving server added stands above what the sender wrote. */
const stacked = (...lines: string[]) =>
  Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n`), Buffer.from(mail({ Received: null }))]);
const verdicts = (values: string) => `Authentication-Results: ${values}`;

describe("Microsoft 365, which writes no authserv-id", () => {
  const inside =
    "Received: from AM0PR05.eurprd05.prod.outlook.com (2603::1) by DB9PR05.eurprd05.prod.outlook.com with HTTPS; Fri, 3 May 2024 10:00:01 +0000";
  const boundary =
    "Received: from mx.example.org (192.0.2.1) by AM3PEPF0001.mail.protection.outlook.com (10.0.0.1) with Microsoft SMTP Server; Fri, 3 May 2024 10:00:00 +0000";
  const sender = "Received: from laptop by mx.example.org with ESMTPSA";
  const microsoft = (dmarc: string, from = "example.org") =>
    verdicts(
      `spf=pass (sender IP is 192.0.2.1)\r\n smtp.mailfrom=${from}; dkim=pass (signature was verified)\r\n header.d=${from};dmarc=${dmarc} action=none\r\n header.from=${from};compauth=pass reason=100`,
    );
  const cases: readonly [string, Uint8Array, SenderAuth["result"]][] = [
    ["a pass", stacked(inside, microsoft("pass"), boundary, sender), "pass"],
    ["a pass without inner hops", stacked(microsoft("pass"), boundary), "pass"],
    ["a fail", stacked(inside, microsoft("fail"), boundary), "fail"],
    ["a guess for a domain without a policy", stacked(inside, microsoft("bestguesspass"), boundary), "none"],
    ["a pass of another domain", stacked(inside, microsoft("pass", "evil.example"), boundary), "none"],
    ["a fail above a forged pass", stacked(inside, microsoft("fail"), boundary, microsoft("pass")), "fail"],
    ["a forged pass alone", stacked(inside, boundary, microsoft("pass")), "none"],
    ["a forged pass above a forged boundary", stacked(inside, boundary, microsoft("pass"), boundary), "none"],
    [
      "a forged pass and boundary, at another provider",
      stacked("Received: from x by mx.other.example", microsoft("pass"), boundary),
      "none",
    ],
    ["no trace of the provider", stacked(microsoft("pass")), "none"],
    [
      "a boundary in a comment",
      stacked(microsoft("pass"), "Received: from x (by a.protection.outlook.com) by mx.evil.example"),
      "none",
    ],
    [
      "a host that ends alike",
      stacked(microsoft("pass"), "Received: from x by a.protection.outlook.com.evil.example"),
      "none",
    ],
    [
      "an id in front",
      stacked(inside, verdicts("mx.evil.example; dmarc=pass header.from=example.org"), boundary),
      "none",
    ],
    ["two above the boundary", stacked(inside, microsoft("pass"), microsoft("pass"), boundary), "none"],
    [
      "mail from inside the tenant",
      stacked(inside, "X-MS-Exchange-Organization-AuthAs: Internal", microsoft("pass"), boundary),
      "none",
    ],
  ];
  it.each(cases)("%s", async (_, raw, result) => {
    expect(await judge(raw, { mode: "header", authservId: "microsoft365" })).toMatchObject({ result });
  });
});

describe("iCloud, which writes one header for each check", () => {
  const received =
    "Received: from mx.example.org (192.0.2.1) by st43p00im-qukt05021701.me.com (Postfix) with ESMTPS id X; Fri, 3 May 2024 10:00:00 +0000";
  const dmarc = (result: string, from = "example.org") =>
    verdicts(`dmarc.icloud.com; dmarc=${result} header.from=${from}`);
  const before = [
    received,
    verdicts("bimi.icloud.com; bimi=none"),
    "X-ARC-Info: policy=fail; arc=none",
    verdicts("arc.icloud.com; arc=none"),
  ];
  const after = [
    "X-DMARC-Info: pass=pass; dmarc-policy=quarantine; s=r0; d=r1; pdomain=example.org",
    "X-DMARC-Policy: v=DMARC1; p=quarantine",
    verdicts(
      "dkim-verifier.icloud.com;\r\n\tdkim=pass (1024-bit key) header.d=example.org header.i=@example.org header.b=SB8S0d6H",
    ),
    verdicts(
      "spf.icloud.com; spf=pass (spf.icloud.com: domain of a@example.org designates 192.0.2.1 as permitted sender) smtp.mailfrom=a@example.org",
    ),
    "Received-SPF: pass (spf.icloud.com: domain of a@example.org)",
  ];
  const cases: readonly [string, Uint8Array, SenderAuth["result"]][] = [
    ["a pass", stacked(...before, dmarc("pass"), ...after), "pass"],
    ["a fail", stacked(...before, dmarc("fail"), ...after), "fail"],
    ["no policy", stacked(...before, dmarc("none"), ...after), "none"],
    ["a temperror", stacked(...before, dmarc("temperror"), ...after), "temperror"],
    ["a pass of another domain", stacked(...before, dmarc("pass", "evil.example"), ...after), "none"],
    ["a fail above a forged pass", stacked(...before, dmarc("fail"), ...after, dmarc("pass")), "fail"],
    ["a forged pass where iCloud has no result", stacked(...before, ...after, dmarc("pass")), "none"],
    [
      "a forged pass right behind the block without SPF",
      stacked(...before, "From-Somewhere: x", dmarc("pass")),
      "none",
    ],
    ["two in the block", stacked(...before, dmarc("fail"), dmarc("pass"), ...after), "none"],
    [
      "another server on top",
      stacked(received, verdicts("mx.evil.example; dmarc=pass header.from=example.org"), dmarc("pass")),
      "none",
    ],
    [
      "a host that ends alike",
      stacked(received, verdicts("dmarc.icloud.com.evil.example; dmarc=pass header.from=example.org")),
      "none",
    ],
    [
      "a forged block, at another provider",
      stacked("Received: from x by mx.other.example", dmarc("pass"), ...after),
      "none",
    ],
    ["no Received line above", stacked(dmarc("pass"), ...after), "none"],
  ];
  it.each(cases)("%s", async (_, raw, result) => {
    expect(await judge(raw, { mode: "header", authservId: "icloud" })).toMatchObject({ result });
  });
});

it("reads a signed body of one line without an end in linear time", async () => {
  const fields = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=s1; h=from; bh=AAAA; b=AAAA";
  const head = Buffer.from(`DKIM-Signature: ${fields}\r\nFrom: Ann <ann@example.org>\r\n\r\n`);
  const work = async (bytes: number) => {
    const raw = Buffer.concat([head, Buffer.alloc(bytes, "a")]);
    const before = workedMs();
    const { result } = await judgeSignatures({ headers: [] } as unknown as Mail, raw, own, "example.org");
    expect(result).toBe("fail");
    return workedMs() - before;
  };
  await work(1_000_000);
  const once = await work(2_000_000);
  // Eight times as much; 64 times where each chunk is read again with those before it.
  expect(await work(16_000_000)).toBeLessThan(24 * once);
});
