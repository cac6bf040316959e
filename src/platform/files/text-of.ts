// Extracts the text of a document: plain text, Markdown, HTML, PDF or Word. Runs in the parser's process
// (parser.ts), because a document is untrusted input to a large parser.

import { createInflateRaw } from "node:zlib";
import { compile } from "html-to-text";

/** The format of a document, determined by its name and its first bytes. The declared media type of an
 *  upload is unreliable. */
export type Format = "text" | "html" | "pdf" | "docx";

/** Returns null when the format is not supported. */
export function formatOf(fileName: string, bytes: Uint8Array): Format | null {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 1024));
  if (head.subarray(0, 5).toString("latin1") === "%PDF-") return "pdf";
  const ending = /\.([a-z0-9]+)$/i.exec(fileName)?.[1]?.toLowerCase() ?? "";
  if (head.subarray(0, 2).toString("latin1") === "PK") return ending === "docx" ? "docx" : null;
  if (head.includes(0)) return null;
  if (ending === "html" || ending === "htm" || /^\s*(<!doctype html|<html)/i.test(head.toString("utf8"))) return "html";
  return ["txt", "md", "markdown", "csv", "json", "yaml", "yml", "text", ""].includes(ending) ? "text" : null;
}

const headings = ["h1", "h2", "h3", "h4", "h5", "h6"];

/** Headings are written as in Markdown, so that each begins a section. */
const html = compile({
  wordwrap: false,
  formatters: {
    section: (element, walk, builder) => {
      builder.openBlock({ leadingLineBreaks: 2 });
      builder.addInline("# ");
      walk(element.children, builder);
      builder.closeBlock({ trailingLineBreaks: 2 });
    },
  },
  selectors: [
    { selector: "img", format: "skip" },
    { selector: "a", options: { ignoreHref: true } },
    ...headings.map((selector) => ({ selector, format: "section" })),
  ],
});

/** Maximum unpacked size of a Word document in bytes, including images. */
const maxUnpackedBytes = 100 * 1024 * 1024;

/** Extracts the text. Throws when the document cannot be read. May return slightly more than `maxLength` characters. */
export async function textOf(format: Format, bytes: Uint8Array, maxLength: number): Promise<string> {
  switch (format) {
    case "text":
      return new TextDecoder("utf-8", { ignoreBOM: false }).decode(bytes);
    case "html":
      return html(new TextDecoder("utf-8").decode(bytes));
    case "pdf":
      return pdfText(bytes, maxLength);
    case "docx": {
      await checkUnpacked(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), maxUnpackedBytes);
      const { default: mammoth } = await import("mammoth");
      // Images contain no text; skipping them saves memory.
      const convertImage = mammoth.images.imgElement(async () => ({ src: "" }));
      const { value } = await mammoth.convertToHtml({ buffer: Buffer.from(bytes) }, { convertImage });
      return html(value);
    }
  }
}

/** Reads page by page until `maxLength` is reached. */
async function pdfText(bytes: Uint8Array, maxLength: number): Promise<string> {
  const { getDocumentProxy } = await import("unpdf");
  const document = await getDocumentProxy(new Uint8Array(bytes));
  const pages: string[] = [];
  let length = 0;
  for (let number = 1; number <= document.numPages && length < maxLength; number++) {
    const page = await document.getPage(number);
    const { items } = await page.getTextContent();
    const text = items.map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : "")).join("");
    page.cleanup();
    length += text.length;
    pages.push(text);
  }
  return pages.join("\n\n");
}

/** Throws when a ZIP archive (APPNOTE 4.3) unpacks to more than `most` bytes, according to its directory
 *  or in fact. It rejects data before the archive, ZIP64 and encryption. Otherwise another reader of the
 *  archive could find other members. */
async function checkUnpacked(archive: Buffer, most: number): Promise<void> {
  const damaged = new Error("the archive is damaged");
  const tooLarge = new Error(`it unpacks to more than ${most / 1024 / 1024} MB`);
  const end = archive.lastIndexOf("PK\u0005\u0006", undefined, "latin1");
  if (end < 0 || end + 22 > archive.length) throw damaged;
  const count = archive.readUInt16LE(end + 10);
  const start = archive.readUInt32LE(end + 16);
  if (start + archive.readUInt32LE(end + 12) !== end) throw damaged;
  const members: { readonly method: number; readonly at: number; readonly size: number }[] = [];
  let declared = 0;
  for (let at = start; at < end && members.length < count; ) {
    if (at + 46 > end || archive.readUInt32LE(at) !== 0x02014b50) throw damaged;
    if ((archive.readUInt16LE(at + 8) & 1) !== 0) throw new Error("it is encrypted");
    declared += archive.readUInt32LE(at + 24);
    const [size, local] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 42)];
    members.push({ method: archive.readUInt16LE(at + 10), at: local, size });
    at += 46 + archive.readUInt16LE(at + 28) + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  if (members.length !== count) throw damaged;
  if (declared > most) throw tooLarge;
  let left = most;
  for (const { method, at, size } of members) {
    if (at + 30 > archive.length || archive.readUInt32LE(at) !== 0x04034b50) throw damaged;
    const from = at + 30 + archive.readUInt16LE(at + 26) + archive.readUInt16LE(at + 28);
    if (from + size > archive.length) throw damaged;
    if (method === 0) left -= size;
    else if (method === 8) left -= await inflatedSize(archive.subarray(from, from + size), left);
    else throw new Error("it is compressed in an unknown way");
    if (left < 0) throw tooLarge;
  }
}

/** Returns the number of bytes that deflated data unpacks to, without keeping them. Stops soon after `most`. */
async function inflatedSize(data: Buffer, most: number): Promise<number> {
  const inflate = createInflateRaw();
  inflate.end(data);
  let size = 0;
  for await (const chunk of inflate) {
    size += (chunk as Buffer).length;
    if (size > most) break;
  }
  return size;
}
