// Assembles the response of a model endpoint from its chunks, and validates it against an agent's JSON schema.

import { createRequire } from "node:module";
import type { ModelDialect, ModelPiece } from "./dialects.ts";

export type ModelResult =
  | { readonly kind: "answered"; readonly text: string; readonly tokens: number }
  /** `again` is true when no text was received and a retry may succeed. */
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly again: boolean;
      /** The connection failed or timed out. */
      readonly unreachable?: boolean;
    };

const maxLength = 1024 * 1024;

export function createAssembler(dialect: ModelDialect) {
  const decoder = new TextDecoder();
  let json: string | null = null;
  let text = "";
  let tokens = 0;
  let complete = false;
  let over = false;
  let failure: ModelResult | null = null;
  const fail = (reason: string, again: boolean) => {
    // An error after the answer is complete does not change the result.
    if (!complete) failure = { kind: "failed", reason, again: again && text === "" };
    over = true;
  };
  const take = (piece: ModelPiece | null) => {
    if (piece === null) return;
    if (piece.broken !== undefined) return fail(piece.broken, piece.again ?? false);
    text = piece.all ?? text + (piece.text ?? "");
    tokens = piece.tokens ?? tokens;
    if (text.length > maxLength) return fail(`its answer exceeds ${maxLength} characters`, false);
    complete ||= piece.whole ?? false;
  };
  const events = readEvents((data) => {
    if (over) return;
    if (data.trim() === "[DONE]") {
      complete = true;
      over = true;
      return;
    }
    const body = parsed(data);
    if (body === undefined) fail("it said something unreadable", true);
    else take(dialect.read(body));
  });
  return {
    /** Handles a chunk of a streamed response. */
    events: (chunk: Uint8Array) => events(decoder.decode(chunk, { stream: true })),
    /** Handles a chunk of a response that is not streamed. */
    whole: (chunk: Uint8Array): void => {
      json = (json ?? "") + decoder.decode(chunk, { stream: true });
    },
    /** True when no further data is expected. */
    over: () => over,
    /** True when the complete text of the answer has arrived. */
    complete: () => complete,
    /** Returns the result after the connection has ended. `otherwise` is the reason to report if it ended too early. */
    outcome(otherwise: string): ModelResult {
      const body = json === null ? undefined : parsed(json);
      if (body !== undefined) {
        take(dialect.read(body));
        complete = true;
      }
      if (failure) return failure;
      if (!complete) return { kind: "failed", reason: otherwise, again: text === "" };
      const answer = text.trim();
      if (answer === "") return { kind: "failed", reason: "its answer has no text", again: false };
      return { kind: "answered", text: answer, tokens: Math.round(tokens) };
    },
  };
}

// Incremental parser for server-sent events (WHATWG HTML, section 9.2.6). Model servers need only the data fields.

/** Calls `onData` with the data of each complete event. An event without its final empty line is discarded. */
function readEvents(onData: (data: string) => void): (text: string) => void {
  let pending: string[] = [];
  let data: string[] = [];
  const take = (line: string) => {
    if (line === "") {
      if (data.length > 0) onData(data.join("\n"));
      data = [];
      return;
    }
    // Comments have an empty field name. Fields other than data are ignored.
    const [name, value = ""] = /^([^:]*)(?::\x20?(.*))?$/s.exec(line)?.slice(1) ?? [];
    if (name === "data") data.push(value);
  };
  return (text) => {
    pending.push(text);
    // Buffers the pieces of a long line and joins them once, so the cost stays linear.
    if (!/[\r\n]/.test(text) && !pending.at(-2)?.endsWith("\r")) return;
    const lines = pending.join("").split(/\r\n|\n|\r(?!$)/);
    // A trailing CR may be the first half of a CRLF, so it stays in the buffer.
    pending = [lines.pop() ?? ""];
    for (const line of lines) take(line);
  };
}

/** Returns undefined for invalid JSON. The parser's own error would quote the text and reach the log. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Validates answers against an agent's JSON schema.

type JsonSchema = { readonly [key: string]: unknown };

export interface Misfit {
  /** Error message for the model; may quote its answer. */
  readonly complaint: string;
  /** Location in the schema for the log, which must not quote the answer. */
  readonly rule: string;
}

const require = createRequire(import.meta.url);
/** Loads ajv on first use, which saves its memory when no agent has a schema. */
const newest = () => require("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
const seventh = () => require("ajv") as typeof import("ajv");

/** Validates an answer; null means it matches. Throws when the schema itself is invalid. */
export type Fit = (answer: string) => Misfit | null;

export function fitOf(schema: JsonSchema): Fit {
  const old = /\/draft-0[67]\//.test(String(schema["$schema"]));
  const options = { strict: false, validateFormats: false, logger: false } as const;
  const ajv = old ? new (seventh().Ajv)(options) : new (newest().Ajv2020)(options);
  const validate = ajv.compile(schema);
  return (answer) => {
    const value = parsed(answer);
    if (value === undefined) return { complaint: "it is not JSON", rule: "it is not JSON" };
    if (validate(value)) return null;
    const [first] = validate.errors ?? [];
    return {
      complaint: ajv.errorsText(validate.errors, { dataVar: "answer" }).slice(0, 1_000),
      rule: first?.schemaPath ?? "#",
    };
  };
}

/** Returns the reason why the schema is invalid, or null. */
export function schemaProblem(schema: JsonSchema): string | null {
  try {
    fitOf(schema);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
