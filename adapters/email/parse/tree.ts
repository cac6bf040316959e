// The MIME tree of a mail. postal-mime builds it, with limits; we take the tree instead of its rendering, because the
// rendering loses what we need: bytes (for wrong charsets), the kinds of parts, and which text came from which part.

import PostalMime, { decodeWords } from "postal-mime";
import { type Decoder, decoderFor } from "./transfer-encoding.ts";

/** Limits of one mail; beyond them it is refused as malformed. */
const limits = { maxNestingDepth: 64, maxHeadersSize: 1024 * 1024 };

export interface HeaderField {
  /** Lower case. */
  readonly name: string;
  /** Unfolded, not decoded. */
  readonly value: string;
}

export interface Part {
  readonly headers: readonly HeaderField[];
  /** Lower case, without parameters. */
  readonly mediaType: string;
  readonly parameters: { readonly [name: string]: string | undefined };
  /** `mixed`, `alternative` ... or null for a leaf. */
  readonly multipart: string | null;
  /** `inline`, `attachment` or "". */
  readonly disposition: string;
  readonly fileName: string | null;
  /** Without angle brackets. */
  readonly contentId: string | null;
  /** A leaf's bytes, transfer encoding undone. */
  readonly content: Uint8Array;
  readonly children: readonly Part[];
}

/** What postal-mime keeps of a part; its published types leave it out, so the tests hold the version to it. */
interface Node {
  readonly childNodes: readonly Node[];
  readonly headers: readonly { readonly key: string; readonly value: string }[];
  readonly contentType: { readonly parsed: Structured; readonly multipart: string | false };
  readonly contentDisposition: { readonly parsed: Structured };
  readonly contentId?: string;
  /** What our decoder gave it. */
  readonly content: Uint8Array | null;
  contentDecoder: Decoder | null;
  setupContentDecoder(encoding: string): void;
}
interface Structured {
  readonly value: string;
  readonly params: { readonly [name: string]: string | undefined };
}
interface Builder {
  root?: Node;
  collectNode: () => Promise<void>;
  parse(raw: Uint8Array | ArrayBufferLike): Promise<unknown>;
}

/** Reads the tree. Throws an Error when the mail is beyond the limits. */
export async function readTree(raw: Uint8Array): Promise<Part> {
  const builder = new PostalMime(limits) as unknown as Builder;
  const { root } = builder;
  if (root === undefined) throw new Error("the MIME parser built no tree");
  builder.collectNode = () => Promise.resolve();
  // All nodes share the prototype of the first; it is this thread's own copy of the library.
  (Object.getPrototypeOf(root) as Node).setupContentDecoder = setUp;
  await builder.parse(raw.byteLength === raw.buffer.byteLength ? raw.buffer : raw);
  return toPart(root);
}

function setUp(this: Node, encoding: string): void {
  this.contentDecoder = decoderFor(encoding);
}

function toPart(node: Node): Part {
  const { value, params } = node.contentType.parsed;
  const fileName = node.contentDisposition.parsed.params["filename"] ?? params["name"] ?? null;
  // A multipart whose boundary never comes is read as the text it is.
  const childless = node.contentType.multipart !== false && node.childNodes.length === 0;
  return {
    headers: node.headers.map(({ key, value }) => ({ name: key, value })),
    mediaType: childless ? "text/plain" : value || "text/plain",
    parameters: params,
    multipart: childless || node.contentType.multipart === false ? null : node.contentType.multipart,
    disposition: node.contentDisposition.parsed.value,
    fileName: fileName === null || fileName === "" ? null : decodeWords(fileName),
    contentId: node.contentId?.replace(/[<>\s]/g, "") ?? null,
    content: node.content ?? new Uint8Array(),
    children: node.childNodes.map(toPart),
  };
}

/** Every part in document order, the root first. */
export function* walk(part: Part): Generator<Part> {
  yield part;
  for (const child of part.children) yield* walk(child);
}

/** The first header of that (lower-case) name, or null. */
export function headerOf(headers: readonly HeaderField[], name: string): string | null {
  return headers.find((field) => field.name === name)?.value ?? null;
}
