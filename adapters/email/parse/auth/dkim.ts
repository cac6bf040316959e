// Verifies DKIM and DMARC with mailauth. Over IMAP the sending host's address cannot be trusted, so SPF is not
// checked. A pass needs an aligned signature over the whole body. DNS records come from the system's servers,
// configured servers, or fixed responses.

import { Resolver } from "node:dns/promises";
import { Readable } from "node:stream";
import { type AuthenticateResult, authenticate, type DNSResolver } from "mailauth";
import { asciiDomain } from "../headers.ts";
import type { DnsLimits, DnsSettings, Mail, SenderAuth } from "../mail.ts";

type DkimJudgement = Pick<SenderAuth, "result" | "detail">;

/** Never throws. Returns `temperror` when DNS did not respond before the timeout, or not at all. */
export async function judgeSignatures(
  mail: Mail,
  raw: Uint8Array,
  { limits, dns = {} }: { readonly limits: DnsLimits; readonly dns?: DnsSettings },
  domain: string,
): Promise<DkimJudgement> {
  const resolver = resolverFor(dns, limits);
  const timeout = AbortSignal.timeout(limits.dns);
  const late = new Promise<"late">((resolve) =>
    timeout.addEventListener("abort", () => resolve("late"), { once: true }),
  );
  try {
    // A stream of one chunk: mailauth reads a buffer in chunks, and a line without an end again with each of them.
    const bytes = Readable.from(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength));
    const checked = authenticate(bytes, {
      resolver: resolver.resolve,
      disableArc: true,
      disableBimi: true,
      rejectRsaSha1: true,
      mta: "localhost",
    });
    const result = await Promise.race([checked, late]);
    if (result === "late") return { result: "temperror", detail: "DNS did not answer in time" };
    return judge(mail, result, domain);
  } catch (error) {
    return {
      result: "none",
      detail: `the check failed: ${error instanceof Error ? error.message : String(error)}`.slice(0, 300),
    };
  } finally {
    resolver.cancel();
  }
}

function judge(mail: Mail, { dmarc, dkim }: AuthenticateResult, domain: string): DkimJudgement {
  if (!dmarc) return { result: "none", detail: "no DMARC check is possible for the From field" };
  const about = asciiDomain(dmarc.status.header?.["from"] ?? "");
  if (about !== domain) return { result: "fail", detail: "the From field reads differently to different readers" };
  const { result } = dmarc.status;
  if (result === "pass") return judgePass(mail, dkim.results);
  if (result === "temperror" || (result === "fail" && dkim.results.some((one) => one.status.result === "temperror"))) {
    return { result: "temperror", detail: "DNS could not be asked" };
  }
  if (result === "fail") return { result: "fail", detail: "no signature of the From domain passes" };
  return { result: "none", detail: "the From domain publishes no DMARC policy" };
}

/** One aligned signature must cover the whole body and the headers that direct the response. */
function judgePass(mail: Mail, results: AuthenticateResult["dkim"]["results"]): DkimJudgement {
  const aligned = results.filter((one) => one.status.result === "pass" && one.status.aligned);
  const whole = aligned.filter((one) => !one.status.underSized && !one.canonBodyLengthLimited);
  if (whole.length === 0) return { result: "none", detail: "the signature covers only a part of the body" };
  const names = new Set(mail.headers.map((field) => field.name));
  const covers = (one: (typeof whole)[number]) => {
    const signed = (one.signingHeaders?.keys ?? "")
      .toLowerCase()
      .split(":")
      .map((key) => key.trim());
    return ["from", "reply-to"].every((name) => !names.has(name) || signed.includes(name));
  };
  if (!whole.some(covers)) return { result: "none", detail: "the signature does not cover Reply-To" };
  return { result: "pass", detail: `signed by ${whole.find(covers)?.signingDomain ?? ""}` };
}

const tries = 3;
/** Temporary errors. "There is no such name" is a valid response. */
const temporary = new Set(["ETIMEOUT", "ESERVFAIL", "EREFUSED", "ECONNREFUSED", "ECONNRESET"]);

function resolverFor(dns: DnsSettings, { dnsAnswer }: DnsLimits): { resolve: DNSResolver; cancel(): void } {
  const { records } = dns;
  if (records !== undefined) return { resolve: (name, type) => fixed(records, name, type), cancel: () => undefined };
  const resolver = new Resolver({ timeout: dnsAnswer, tries: 2 });
  if (dns.servers !== undefined && dns.servers.length > 0) resolver.setServers([...dns.servers]);
  return { resolve: (name, type) => ask(resolver, name, type), cancel: () => resolver.cancel() };
}

async function ask(resolver: Resolver, name: string, type: string): Promise<string[] | string[][]> {
  for (let round = 1; ; round++) {
    try {
      return (await resolver.resolve(name, type)) as string[] | string[][];
    } catch (error) {
      if (round >= tries || !temporary.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
}

async function fixed(
  records: NonNullable<DnsSettings["records"]>,
  name: string,
  type: string,
): Promise<string[] | string[][]> {
  const question = `${type} ${name.replace(/\.$/, "")}`.toLowerCase();
  const answer = Object.hasOwn(records, question) ? records[question] : undefined;
  if (typeof answer === "string" || answer === undefined) {
    const code = answer ?? "ENOTFOUND";
    throw Object.assign(new Error(`query${type} ${code} ${name}`), { code });
  }
  return type.toUpperCase() === "TXT" ? answer.map((text) => [text]) : [...answer];
}
