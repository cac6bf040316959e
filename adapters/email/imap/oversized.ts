// Reads messages larger than `max_size`. The header, the text and small attachments are downloaded part by
// part (BODYSTRUCTURE, RFC 3501, 6.4.5) and assembled into a smaller message, which is parsed like any
// other. Other attachments are only listed.

import { randomUUID } from "node:crypto";
import type { FetchMessageObject, ImapFlow, MessageStructureObject } from "imapflow";
import { decodeWords } from "postal-mime";
import type { Omitted } from "../attachments.ts";
import { cleanFileName } from "../parse/headers.ts";
import { rowsOf } from "./mailbox.ts";

export interface Partly {
  /** A message with the original header and the downloaded parts. */
  readonly raw: Uint8Array;
  /** Attachments that were not downloaded. */
  readonly omitted: readonly Omitted[];
  /** True when only the start of the text was downloaded. */
  readonly truncated: boolean;
}

const maxHeader = 500_000;
const maxText = 1_000_000;
/** Limits per message: parts that are inspected, and parts that are downloaded. */
const maxNodes = 2000;
const maxParts = 100;
const maxDepth = 40;

interface WantedPart {
  readonly node: MessageStructureObject;
  /** The section to fetch: `2.1`, `3.HEADER`, or `TEXT` for a message without parts. */
  readonly key: string;
  readonly bytes: number;
}

/** Downloads at most about `budget` bytes. Returns null when the message was deleted, or the server
 *  returns no structure. Rejects with imapflow's errors. */
export async function readPartly(client: ImapFlow, uid: number, budget: number): Promise<Partly | null> {
  const head = await rowOf(client, uid, {
    uid: true,
    bodyStructure: true,
    bodyParts: [{ key: "header", start: 0, maxLength: maxHeader }],
  });
  const structure = head?.bodyStructure;
  const header = head?.headers ?? head?.bodyParts?.get("header");
  if (structure === undefined || header === undefined) return null;
  const { wanted, omitted, truncated } = choose(structure, budget);
  const query = wanted.flatMap(({ key, bytes }) => [
    ...(isPart(key) ? [{ key: `${key}.mime`, start: 0, maxLength: 20_000 }] : []),
    { key, start: 0, maxLength: bytes },
  ]);
  const row = query.length === 0 ? head : await rowOf(client, uid, { uid: true, bodyParts: query });
  if (row === undefined) return null;
  const section = (key: string) => row.bodyParts?.get(key.toLowerCase()) ?? Buffer.alloc(0);
  const keys = new Map(wanted.map(({ node, key }) => [node, key]));
  return { raw: assemble(header, structure, keys, section), omitted, truncated };
}

async function rowOf(
  client: ImapFlow,
  uid: number,
  query: Parameters<ImapFlow["fetchAll"]>[1],
): Promise<FetchMessageObject | undefined> {
  const rows = await rowsOf(client, String(uid), query);
  return rows.find((row) => row.uid === uid);
}

const isPart = (key: string): boolean => /^[\d.]+$/.test(key);
const typeOf = ({ type }: MessageStructureObject): string => (type ?? "").toLowerCase();
const isMultipart = (node: MessageStructureObject): boolean => typeOf(node).startsWith("multipart/");
const nameOf = (node: MessageStructureObject): string =>
  node.dispositionParameters?.["filename"] ?? node.parameters?.["name"] ?? "";

/** True for text by the author and for parts written for programs: reports, bounces and calendar objects. */
const isText = (node: MessageStructureObject): boolean =>
  /^(?:text\/(?:plain|html|enriched|calendar|rfc822-headers)|message\/(?:global-)?(?:delivery-status|disposition-notification)|message\/feedback-report)$/.test(
    typeOf(node),
  ) &&
  (node.disposition ?? "").toLowerCase() !== "attachment" &&
  nameOf(node) === "";

/** Selects the text first, then the attachments that fit the budget, in order. */
function choose(structure: MessageStructureObject, budget: number) {
  const leaves = leavesOf(structure);
  const wanted: WantedPart[] = [];
  const omitted: Omitted[] = [];
  let left = budget;
  let truncated = false;
  for (const node of leaves.filter(isText)) {
    const size = node.size ?? 0;
    const bytes = Math.min(size, maxText, left);
    if (wanted.length >= maxParts || bytes === 0) continue;
    truncated ||= bytes < size;
    left -= bytes;
    wanted.push({ node, key: node === structure ? "TEXT" : (node.part ?? "1"), bytes });
  }
  const isReport = typeOf(structure) === "multipart/report";
  for (const node of leaves.filter((one) => !isText(one))) {
    const size = node.size ?? 0;
    if (node !== structure && node.part !== undefined && size <= left && wanted.length < maxParts) {
      left -= size;
      wanted.push({ node, key: node.part, bytes: Math.max(size, 1) });
      continue;
    }
    // The header of the returned message in a bounce identifies the message that bounced.
    if (isReport && typeOf(node) === "message/rfc822" && node.part !== undefined)
      wanted.push({ node, key: `${node.part}.HEADER`, bytes: 50_000 });
    const encoded = (node.encoding ?? "").toLowerCase() === "base64";
    omitted.push({
      name: cleanFileName(decodeWords(nameOf(node)) || null, `attachment-${omitted.length + 1}`),
      mediaType: typeOf(node).slice(0, 100),
      size: encoded ? Math.floor((size / 78) * 57) : size,
    });
  }
  return { wanted, omitted, truncated };
}

/** Returns the leaves in document order. An attached message is a leaf: its own parts are not inspected. */
function leavesOf(structure: MessageStructureObject): MessageStructureObject[] {
  const found: MessageStructureObject[] = [];
  let seen = 0;
  const visit = (node: MessageStructureObject, depth: number): void => {
    if (++seen > maxNodes) return;
    if (!isMultipart(node)) found.push(node);
    else if (depth < maxDepth) for (const child of node.childNodes ?? []) visit(child, depth + 1);
  };
  visit(structure, 0);
  return found;
}

/** Builds a message from the original header, with the Content fields of the new body, and the
 *  downloaded parts of the tree. */
function assemble(
  header: Buffer,
  structure: MessageStructureObject,
  keys: ReadonlyMap<MessageStructureObject, string>,
  section: (key: string) => Buffer,
): Uint8Array {
  if (!isMultipart(structure)) {
    const key = keys.get(structure);
    if (key !== undefined) return Buffer.concat([withoutEnd(header), newline, newline, section(key)]);
    // The file is listed, so it must not also become an attachment without bytes. The parameters of S/MIME say whether it
    // is encrypted.
    const isKept = /^application\/(?:x-)?pkcs7-mime$/.test(typeOf(structure));
    return Buffer.concat([isKept ? withoutEnd(header) : withoutContent(withoutEnd(header)), newline, newline]);
  }
  const chunks: Buffer[] = [withoutContent(withoutEnd(header)), newline];
  const build = (node: MessageStructureObject, depth: number): void => {
    if (!isMultipart(node)) {
      const key = keys.get(node) ?? "";
      const mime = isPart(key) ? withoutEnd(section(`${key}.mime`)) : Buffer.from("Content-Type: message/rfc822");
      chunks.push(mime, newline, newline, section(key), newline);
      return;
    }
    const boundary = `bridgehead-${randomUUID()}`;
    const type = /^multipart\/[a-z0-9.+-]{1,40}$/.test(typeOf(node)) ? typeOf(node) : "multipart/mixed";
    const report = /^[\w-]{1,60}$/.exec(node.parameters?.["report-type"] ?? "")?.[0];
    const parameters = `boundary="${boundary}"${report === undefined ? "" : `; report-type=${report}`}`;
    chunks.push(Buffer.from(`Content-Type: ${type}; ${parameters}\r\n\r\n`));
    for (const child of depth < maxDepth ? (node.childNodes ?? []) : []) {
      if (!isMultipart(child) && !keys.has(child)) continue;
      chunks.push(Buffer.from(`--${boundary}\r\n`));
      build(child, depth + 1);
    }
    chunks.push(Buffer.from(`--${boundary}--\r\n`));
  };
  build(structure, 0);
  return Buffer.concat(chunks);
}

const newline = Buffer.from("\r\n");

/** Returns the header without the blank line at its end. */
function withoutEnd(header: Buffer): Buffer {
  let end = header.length;
  while (end > 0 && (header[end - 1] === 0x0a || header[end - 1] === 0x0d)) end--;
  return header.subarray(0, end);
}

/** Returns the header without Content-Type, Content-Transfer-Encoding, Content-Disposition and their folded lines. Bytes
 *  outside ASCII are unchanged. */
function withoutContent(header: Buffer): Buffer {
  let skipping = false;
  const kept = header
    .toString("latin1")
    .split("\n")
    .filter((line) => {
      if (!/^[ \t]/.test(line)) skipping = /^content-(?:type|transfer-encoding|disposition)\s{0,20}:/i.test(line);
      return !skipping;
    });
  return withoutEnd(Buffer.from(kept.join("\n"), "latin1"));
}
