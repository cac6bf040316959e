// Checks whether the address in From is authenticated. This requires an aligned DMARC pass: SPF alone does not cover
// From, and DKIM alone does not show whose signature it is. The pass is verified here (dkim.ts), or read from the
// Authentication-Results header (RFC 8601) that a trusted server added to the message.

import { asciiDomain, domainOf } from "../headers.ts";
import type { Mail, SenderAuth, SenderAuthSettings } from "../mail.ts";
import type { HeaderField } from "../mime.ts";

/** Never throws. Returns `none` for a message that cannot be judged, and `temperror` for a temporary failure. */
export async function authenticate(mail: Mail, raw: Uint8Array, settings: SenderAuthSettings): Promise<SenderAuth> {
  const method = settings.mode === "header" ? "authentication-results" : "dmarc";
  const [author] = mail.from;
  if (author === undefined || mail.from.length !== 1 || mail.fromFields !== 1)
    return { method, domain: "", ...none("the mail has not exactly one From field with one address") };
  const domain = asciiDomain(domainOf(author.address));
  return { method, domain, ...(await judge(mail, raw, settings, domain)) };
}

async function judge(mail: Mail, raw: Uint8Array, settings: SenderAuthSettings, domain: string): Promise<Judgement> {
  if (domain === "") return none("the domain of the From address is malformed");
  if (settings.mode === "off") return none("not asked for");
  if (settings.mode === "header") return judgeHeaders(mail.headers, settings.authservId, domain);
  const doubled = single.find((name) => mail.headers.filter((field) => field.name === name).length > 1);
  if (doubled !== undefined) return { result: "fail", detail: `the header has more than one ${doubled}` };
  const signatures = mail.headers.filter(({ name }) => name === "dkim-signature").length;
  if (signatures > mostSignatures)
    return none(`the mail has ${signatures} signatures; at most ${mostSignatures} are verified`);
  const { judgeSignatures } = await import("./dkim.ts");
  return judgeSignatures(mail, raw, settings, domain);
}

/** Each may hash the whole body in its own way (RFC 6376, 6.1, permits a limit). Mail that passes several services has about
 *  five. */
const mostSignatures = 20;

/** A second header of these names shows readers a value other than the signed one (a signature covers
 *  the lowest one). */
const single =
  "from sender reply-to to cc subject date message-id in-reply-to references content-type content-transfer-encoding".split(
    " ",
  );

type Judgement = Pick<SenderAuth, "result" | "detail">;

/** Longer headers of this name are not written by a server. */
const maxLength = 10_000;

const field = "authentication-results";
const none = (detail: string): Judgement => ({ result: "none", detail });

/** Only the topmost header of that name counts, and only when it names the server, because the sender
 *  can add any number below it. An ambiguous header returns `none`. `authservId` is a name, or
 *  `microsoft365` or `icloud` for the formats of these providers. */
function judgeHeaders(headers: readonly HeaderField[], authservId: string, domain: string): Judgement {
  const preset = authservId.trim().toLowerCase();
  if (preset === "microsoft365") return judgeMicrosoft(headers, domain);
  if (preset === "icloud") return judgeICloud(headers, domain);
  const top = headers.find(({ name }) => name === field);
  if (top === undefined) return none("there is no Authentication-Results header");
  if (top.value.length > maxLength) return none("the Authentication-Results header is too long");
  const sections = sectionsOf(top.value);
  if (sections === null) return none("the Authentication-Results header is malformed");
  const [server = "", ...results] = sections;
  if (!isServer(server, authservId))
    return none("the topmost Authentication-Results header is not of the configured server");
  return judgeResults(results, domain);
}

/** Exchange Online writes no authserv-id. Its header is above the Received header of its boundary
 *  server, and Microsoft wrote every header above that. A header of the sender can only follow below. A
 *  message sent inside the tenant has no boundary, and returns `none`. */
function judgeMicrosoft(headers: readonly HeaderField[], domain: string): Judgement {
  const boundary = headers.findIndex(
    ({ name, value }) => name === "received" && isReceivedBy(value, /\.protection\.outlook\.com$/),
  );
  if (boundary < 0) return none("no server of Microsoft 365 received the mail from outside");
  const above = headers.slice(0, boundary);
  // Headers below a Received header of any other server are not Microsoft's.
  const foreign = above.findIndex(
    ({ name, value }) => name === "received" && !isReceivedBy(value, /\.(?:outlook|office365|exchangelabs)\.com$/),
  );
  const found = (foreign < 0 ? above : above.slice(0, foreign)).filter(({ name }) => name === field);
  const internal = headers.find(({ name }) => name === "x-ms-exchange-organization-authas")?.value ?? "";
  if (/^\s*internal/i.test(internal)) return none("the mail was sent inside the Microsoft 365 tenant");
  const [top] = found;
  if (top === undefined) return none("there is no Authentication-Results header of Microsoft 365");
  if (found.length > 1 || top.value.length > maxLength)
    return none("the Authentication-Results header of Microsoft 365 is not clear");
  const sections = sectionsOf(top.value);
  // A header with an authserv-id comes from another server.
  if (sections === null || resultOf(sections[0] ?? "") === null)
    return none("the Authentication-Results header is not in the format of Microsoft 365");
  return judgeResults(sections, domain);
}

/** iCloud writes one header for each check (bimi, arc, dmarc, dkim-verifier, spf), the SPF one last, as
 *  a block below its own Received headers. Only this first block counts. It ends at the SPF result or at
 *  any header that is not the result of a check. */
function judgeICloud(headers: readonly HeaderField[], domain: string): Judgement {
  const start = headers.findIndex(({ name }) => name === field);
  if (start < 0) return none("there is no Authentication-Results header");
  const received = headers.slice(0, start).findLast(({ name }) => name === "received");
  if (received === undefined || !isReceivedBy(received.value, /\.(?:me|mac|icloud|apple)\.com$/))
    return none("the Authentication-Results header does not follow a Received line of iCloud");
  const found: (readonly string[])[] = [];
  for (const { name, value } of headers.slice(start)) {
    if (/^x-(?:arc|dmarc)-(?:info|policy)$/.test(name)) continue;
    if (name !== field || value.length > maxLength) break;
    const [server = "", ...results] = sectionsOf(value) ?? [];
    if (!/^[a-z-]{1,30}\.icloud\.com$/i.test(server)) break;
    if (isServer(server, "dmarc.icloud.com")) found.push(results);
    if (isServer(server, "spf.icloud.com")) break;
  }
  const [only, ...more] = found;
  if (only === undefined || more.length > 0) return none(`iCloud reports ${found.length} DMARC results`);
  return judgeResults(only, domain);
}

/** True when the `by` host of a Received header matches. Comments, which may contain a sender's name, are ignored. */
function isReceivedBy(value: string, host: RegExp): boolean {
  const words = (sectionsOf(value.slice(0, 4000))?.[0] ?? "").split(" ").filter((word) => word !== "");
  const by = words.findIndex((word) => word.toLowerCase() === "by");
  return by >= 0 && host.test((words[by + 1] ?? "").toLowerCase());
}

function judgeResults(results: readonly string[], domain: string): Judgement {
  const dmarc = results.map(resultOf).filter((result) => result?.method === "dmarc");
  const [only] = dmarc;
  if (dmarc.length !== 1 || !only) return none(`the server tells ${dmarc.length} DMARC results`);
  if (only.result === "temperror") return { result: "temperror", detail: "the server could not check DMARC just then" };
  if (only.result === "fail" || only.result === "permerror")
    return { result: "fail", detail: `the server says dmarc=${only.result}` };
  if (only.result !== "pass") return none("the server says no DMARC policy applies");
  const [from, ...more] = only.from;
  if (from === undefined || more.length > 0 || asciiDomain(domainOf(from)) !== domain)
    return none("the DMARC result is about another domain than that of From");
  return { result: "pass", detail: "the server says dmarc=pass" };
}

/** True when the section is the id, with an optional version number after it. */
function isServer(section: string, authservId: string): boolean {
  const [id = "", version, ...rest] = section.split(" ").filter((word) => word !== "");
  const bare = id.replace(/^"([^"]*)"$/, "$1");
  return (
    bare !== "" &&
    bare.toLowerCase() === authservId.trim().toLowerCase() &&
    /^\d*$/.test(version ?? "") &&
    rest.length === 0
  );
}

function resultOf(section: string): { method: string; result: string; from: string[] } | null {
  const words = section.split(" ").filter((word) => word !== "");
  const [, method, result] =
    /^([a-z][a-z0-9-]{0,40})(?:\/\d{1,3})?=([a-z]{1,20})$/.exec((words[0] ?? "").toLowerCase()) ?? [];
  if (method === undefined || result === undefined) return null;
  const from = words
    .slice(1)
    .flatMap((word) => /^header\.from=(.+)$/i.exec(word)?.[1]?.replace(/^"([^"]*)"$/, "$1") ?? []);
  return { method, result, from };
}

/** Returns the parts between semicolons, without comments. Quoted strings are kept whole (spaces become
 *  `_`). Returns null when a quote or comment stays open. */
function sectionsOf(value: string): string[] | null {
  const sections = [""];
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < value.length; i++) {
    const char = value[i] as string;
    const add = (text: string) => {
      sections[sections.length - 1] += text;
    };
    if (char === "\\" && (quoted || depth > 0)) {
      i++;
      if (quoted) add("_");
    } else if (quoted) {
      if (char === '"') quoted = false;
      add(/\s/.test(char) ? "_" : char);
    } else if (char === "(") depth++;
    else if (char === ")") {
      if (--depth < 0) return null;
      if (depth === 0) add(" ");
    } else if (depth > 0) continue;
    else if (char === '"') {
      quoted = true;
      add(char);
    } else if (char === ";") sections.push("");
    else if (char === "=") sections[sections.length - 1] = `${(sections.at(-1) ?? "").trimEnd()}=`;
    else if (/\s/.test(char)) add((sections.at(-1) ?? "").endsWith("=") ? "" : " ");
    else add(char);
  }
  return quoted || depth > 0 ? null : sections.map((section) => section.trim());
}
