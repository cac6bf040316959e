// Parses a body's bytes as JSON (RFC 8259): UTF-8, with or without a byte order mark.

type Reading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: string };

/** Maximum nesting depth. A deeper value could be parsed, but serializing it would exhaust the stack. */
const deepest = 100;
/** Maximum number of values. Reporting a problem with each of a million values would delay all other
 *  requests. */
const mostValues = 20_000;

const surrogate = /\\u[dD][89a-fA-F]/;

/** An empty body is `{}`. Lone surrogates, which only an escape can write, become U+FFFD, because no
 *  database stores them. */
export function readJson(bytes: Uint8Array): Reading {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes) || "{}";
  } catch {
    return { ok: false, reason: "not UTF-8" };
  }
  try {
    const value: unknown = JSON.parse(text);
    const reason = excessOf(value);
    if (reason !== null) return { ok: false, reason };
    return { ok: true, value: surrogate.test(text) ? JSON.parse(text, wellFormed) : value };
  } catch {
    return { ok: false, reason: "not JSON" };
  }
}

function wellFormed(_key: string, value: unknown): unknown {
  return typeof value === "string" ? value.toWellFormed() : value;
}

/** Iterates by level, because recursion over a too deep value would exhaust the stack. */
function excessOf(value: unknown): string | null {
  let level = [value];
  let count = 0;
  for (let depth = 0; depth <= deepest; depth += 1) {
    count += level.length;
    if (count > mostValues) return "too many values";
    level = level.flatMap((each) => (each !== null && typeof each === "object" ? Object.values(each) : []));
    if (level.length === 0) return null;
  }
  return "nested too deeply";
}
