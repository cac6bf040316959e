// What a server we trust wrote into the mail's Authentication-Results header (RFC 8601).

import { asciiDomain } from "./headers.ts";
import type { HeaderField } from "./tree.ts";
import type { SenderAuth } from "./types.ts";

type Judgement = Pick<SenderAuth, "verdict" | "detail">;

/** Longer headers of this kind are no server's work. */
const maxLength = 10_000;

/**
 * Only the topmost header of that name counts, and only when it names the server: the sender can write as many below it as he likes.
 * Anything unclear is `none`.
 */
export function judgeHeaders(headers: readonly HeaderField[], authservId: string, domain: string): Judgement {
  const top = headers.find((field) => field.name === "authentication-results");
  if (top === undefined) return { verdict: "none", detail: "there is no Authentication-Results header" };
  if (top.value.length > maxLength)
    return { verdict: "none", detail: "the Authentication-Results header is too long" };
  const sections = sectionsOf(top.value);
  if (sections === null) return { verdict: "none", detail: "the Authentication-Results header is malformed" };
  const [server = "", ...results] = sections;
  if (!isServer(server, authservId)) {
    return {
      verdict: "none",
      detail: "the topmost Authentication-Results header is not of the configured server",
    };
  }
  return judgeResults(results, domain);
}

function judgeResults(results: readonly string[], domain: string): Judgement {
  const dmarc = results.map(resultOf).filter((result) => result?.method === "dmarc");
  const [only] = dmarc;
  if (dmarc.length !== 1 || !only)
    return { verdict: "none", detail: `the server tells ${dmarc.length} DMARC results` };
  if (only.result === "temperror")
    return { verdict: "temperror", detail: "the server could not check DMARC just then" };
  if (only.result === "fail" || only.result === "permerror")
    return { verdict: "fail", detail: `the server says dmarc=${only.result}` };
  if (only.result !== "pass") return { verdict: "none", detail: "the server says no DMARC policy applies" };
  const [from, ...more] = only.from;
  if (
    from === undefined ||
    more.length > 0 ||
    asciiDomain(from.slice(from.lastIndexOf("@") + 1)) !== domain
  ) {
    return { verdict: "none", detail: "the DMARC result is about another domain than that of From" };
  }
  return { verdict: "pass", detail: "the server says dmarc=pass" };
}

/** The id, with an optional version number behind it. */
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

/** The parts between semicolons, comments left out, quoted strings kept whole (their spaces as `_`); null when a quote or comment stays open. */
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
