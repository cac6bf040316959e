// Builds the MIME tree of a message with postal-mime, within limits. We use the tree instead of
// postal-mime's output, because the output loses data that we need: bytes (for wrong charsets), the kinds
// of parts, and the source part of each text.

import PostalMime, { decodeWords } from "postal-mime";
import { type Decoder, decoderFor } from "./transfer-encoding.ts";

/** Limits of one message; a larger one is rejected as malformed. */
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
  /** The bytes of a leaf, with the transfer encoding decoded. */
  readonly content: Uint8Array;
  readonly children: readonly Part[];
}

/** postal-mime's internal node. Its published types omit these fields, so tests verify them for the
 *  installed version. */
interface Node {
  readonly childNodes: readonly Node[];
  readonly headers: readonly { readonly key: string; readonly value: string }[];
  readonly contentType: { readonly parsed: Structured; readonly multipart: string | false };
  readonly contentDisposition: { readonly parsed: Structured };
  readonly contentId?: string;
  /** The bytes that our decoder returned. */
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

/** Reads the tree. Throws an error when the message exceeds the limits. */
export async function readTree(raw: Uint8Array): Promise<Part> {
  const builder = new PostalMime(limits) as unknown as Builder;
  const { root } = builder;
  if (root === undefined) throw new Error("the MIME parser built no tree");
  builder.collectNode = () => Promise.resolve();
  // All nodes share the prototype of the first; each worker thread has its own copy of the library.
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
  // A multipart without any boundary is read as plain text.
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

/** Yields every part in document order, the root first. */
export function* walk(part: Part): Generator<Part> {
  yield part;
  for (const child of part.children) yield* walk(child);
}

/** Returns the first header of that (lower-case) name, or null. */
export function headerOf(headers: readonly HeaderField[], name: string): string | null {
  return headers.find((field) => field.name === name)?.value ?? null;
}
