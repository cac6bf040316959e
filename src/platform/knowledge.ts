// Splits knowledge into passages that read well as an answer: by headings, then by paragraphs.

import type { Passage } from "./store/passages.ts";

/** Maximum length of a passage in characters. */
const passageLength = 1_200;

/** `file` names the source when the text has neither a title nor a heading. */
export function passagesOf(title: string | undefined, text: string, file: string | null): Passage[] {
  const passages: Passage[] = [];
  for (const section of sections(text)) {
    const heading = [title, section.heading].filter(Boolean).join(": ");
    const name = heading || file || firstWords(section.body);
    for (const part of parts(section.body)) passages.push({ title: name, text: part });
  }
  return passages;
}

/** Splits at Markdown headings. A text without headings is one section. */
function sections(text: string): { readonly heading: string; readonly body: string }[] {
  const found: { heading: string; lines: string[] }[] = [{ heading: "", lines: [] }];
  for (const line of text.split(/\r?\n/)) {
    const heading = /^#{1,6}\s+(\S.*)$/.exec(line)?.[1];
    if (heading) found.push({ heading: heading.trim(), lines: [] });
    else found.at(-1)?.lines.push(line);
  }
  return found
    .map(({ heading, lines }) => ({ heading, body: lines.join("\n").trim() }))
    .filter(({ body }) => body !== "");
}

/** Packs whole paragraphs up to the maximum length. Splits a longer paragraph between words. */
function parts(body: string): string[] {
  const out: string[] = [];
  let part = "";
  for (const paragraph of body.split(/\n\s*\n/).flatMap(pieces)) {
    if (part && part.length + paragraph.length > passageLength) {
      out.push(part);
      part = "";
    }
    part = part ? `${part}\n\n${paragraph}` : paragraph;
  }
  return part ? [...out, part] : out;
}

function pieces(paragraph: string): string[] {
  const out: string[] = [];
  let rest = paragraph.trim();
  while (rest.length > passageLength) {
    const space = rest.lastIndexOf(" ", passageLength);
    const end = space > 0 ? space : passageLength;
    out.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  return rest ? [...out, rest] : out;
}

function firstWords(text: string): string {
  const words = text.split(/\s+/).slice(0, 8).join(" ");
  return words.length < text.trim().length ? `${words} …` : words;
}
