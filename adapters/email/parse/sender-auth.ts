// Checks whether the address in From is authenticated. This requires an aligned DMARC pass: SPF alone does
// not cover From, and DKIM alone does not show whose signature it is.

import { judgeHeaders } from "./auth-header.ts";
import { asciiDomain } from "./headers.ts";
import type { Mail } from "./mail.ts";
import type { SenderAuth, SenderAuthSettings } from "./types.ts";

/** Never throws. Returns `none` for a message that cannot be judged, and `temperror` for a temporary
 *  failure. */
export async function authenticate(
  mail: Mail,
  raw: Uint8Array,
  settings: SenderAuthSettings,
): Promise<SenderAuth> {
  const method = settings.mode === "header" ? "authentication-results" : "dmarc";
  const author = mail.from.length === 1 && mail.fromFields === 1 ? mail.from[0] : undefined;
  if (author === undefined) {
    return {
      verdict: "none",
      method,
      domain: "",
      detail: "the mail has not exactly one From field with one address",
    };
  }
  const domain = asciiDomain(author.address.slice(author.address.lastIndexOf("@") + 1));
  if (domain === "")
    return { verdict: "none", method, domain, detail: "the domain of the From address is malformed" };
  if (settings.mode === "off") return { verdict: "none", method, domain, detail: "not asked for" };
  if (settings.mode === "header") {
    return { method, domain, ...judgeHeaders(mail.headers, settings.authservId, domain) };
  }
  const doubled = doubledField(mail);
  if (doubled !== null)
    return { verdict: "fail", method, domain, detail: `the header has more than one ${doubled}` };
  const { judgeSignatures } = await import("./dkim.ts");
  return { method, domain, ...(await judgeSignatures(mail, raw, settings.dns ?? {}, domain)) };
}

/** A second header of these names shows readers a value other than the signed one (a signature covers
 *  the lowest one). */
const single = [
  "from",
  "sender",
  "reply-to",
  "to",
  "cc",
  "subject",
  "date",
  "message-id",
  "in-reply-to",
  "references",
  "content-type",
  "content-transfer-encoding",
];

function doubledField(mail: Mail): string | null {
  return single.find((name) => mail.headers.filter((field) => field.name === name).length > 1) ?? null;
}
