// The text of a document: plain text, Markdown, HTML, PDF or Word. Runs in a worker thread, for documents are other
// people's code to a parser.

import { compile } from "html-to-text";

/** What a document is, by its name and its first bytes; the declared type of an upload says little. */
export type Format = "text" | "html" | "pdf" | "docx";

/** Null when it is none of the formats that can be read. */
export function formatOf(fileName: string, bytes: Uint8Array): Format | null {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 1024));
  if (head.subarray(0, 5).toString("latin1") === "%PDF-") return "pdf";
  const ending = /\.([a-z0-9]+)$/i.exec(fileName)?.[1]?.toLowerCase() ?? "";
  if (head.subarray(0, 2).toString("latin1") === "PK") return ending === "docx" ? "docx" : null;
  if (head.includes(0)) return null;
  if (ending === "html" || ending === "htm" || /^\s*(<!doctype html|<html)/i.test(head.toString("utf8")))
    return "html";
  return ["txt", "md", "markdown", "csv", "json", "yaml", "yml", "text", ""].includes(ending) ? "text" : null;
}

const headings = ["h1", "h2", "h3", "h4", "h5", "h6"];

/** Headings as Markdown writes them, so that each begins a section. */
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

/** Throws when the document cannot be read. */
export async function textOf(format: Format, bytes: Uint8Array): Promise<string> {
  switch (format) {
    case "text":
      return new TextDecoder("utf-8", { ignoreBOM: false }).decode(bytes);
    case "html":
      return html(new TextDecoder("utf-8").decode(bytes));
    case "pdf": {
      const { extractText, getDocumentProxy } = await import("unpdf");
      const { text } = await extractText(await getDocumentProxy(new Uint8Array(bytes)));
      return text.join("\n\n");
    }
    case "docx": {
      const { default: mammoth } = await import("mammoth");
      const { value } = await mammoth.convertToHtml({ buffer: Buffer.from(bytes) });
      return html(value);
    }
  }
}
