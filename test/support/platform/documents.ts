// Documents as people upload them, made by hand: a PDF, a Word document, a page.

import { crc32, deflateRawSync, deflateSync } from "node:zlib";

/** A PDF of one page with one line. */
export function pdfOf(line: string): Uint8Array<ArrayBuffer> {
  return pdfWith("", `BT /F1 12 Tf 72 720 Td (${line.replace(/[()\\]/g, "\\$&")}) Tj ET`);
}

/** A PDF of some 2 kB whose page shows a letter `letters` times: its content is compressed twice. */
export function pdfBomb(letters: number): Uint8Array<ArrayBuffer> {
  const shown = Buffer.alloc("(a) Tj ".length * letters, "(a) Tj ");
  const content = Buffer.concat([Buffer.from("BT /F1 12 Tf "), shown, Buffer.from(" ET")]);
  const packed = deflateSync(deflateSync(content, { level: 9 }), { level: 9 });
  return pdfWith("/Filter [/FlateDecode /FlateDecode] ", packed.toString("latin1"));
}

function pdfWith(filter: string, stream: string): Uint8Array<ArrayBuffer> {
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    `<< ${filter}/Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
  ];
  let text = "%PDF-1.4\n";
  const offsets = objects.map((object, index) => {
    const at = text.length;
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const start = text.length;
  const rows = offsets.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return new Uint8Array(Buffer.from(text, "latin1"));
}

/** A Word document: a heading and one paragraph. */
export function docxOf(heading: string, paragraph: string): Uint8Array<ArrayBuffer> {
  return zipOf(wordMembers(heading, `<w:p><w:r><w:t>${paragraph}</w:t></w:r></w:p>`));
}

/** A Word document of so many paragraphs, compressed. `declared`: what its directory says that its text unpacks to. */
export function docxBomb(paragraphs: number, declared?: number): Uint8Array<ArrayBuffer> {
  const body = "<w:p><w:r><w:t>a</w:t></w:r></w:p>".repeat(paragraphs);
  return zipOf(wordMembers("Bomb", body), { deflate: true, declared });
}

function wordMembers(heading: string, body: string): { readonly [name: string]: string } {
  const main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
  const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument";
  return {
    "[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
    "_rels/.rels": `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="${office}" Target="word/document.xml"/></Relationships>`,
    "word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="${main}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>${heading}</w:t></w:r></w:p>${body}</w:body></w:document>`,
  };
}

/** A ZIP archive (APPNOTE 4.3). `declared`: the unpacked size that it names for each member. */
function zipOf(
  members: { readonly [name: string]: string },
  { deflate = false, declared }: { deflate?: boolean; declared?: number | undefined } = {},
): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, text] of Object.entries(members)) {
    const plain = Buffer.from(text, "utf8");
    const data = deflate ? deflateRawSync(plain) : plain;
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(deflate ? 8 : 0, 4);
    common.writeUInt32LE(crc32(plain), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(declared ?? plain.length, 18);
    common.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from("PK\u0003\u0004", "latin1"), common, Buffer.from(name), data]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    directory.push(
      Buffer.concat([Buffer.from("PK\u0001\u0002\u0014\u0000", "latin1"), common, rest, Buffer.from(name)]),
    );
    parts.push(local);
    offset += local.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\u0005\u0006", 0, "latin1");
  end.writeUInt16LE(directory.length, 8);
  end.writeUInt16LE(directory.length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return new Uint8Array(Buffer.concat([...parts, list, end]));
}
