// Cuts a text where a person would: between paragraphs, then lines, sentences, words, and only then inside a word, but
// never inside a grapheme.

const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
const sentences = new Intl.Segmenter("und", { granularity: "sentence" });

type Cutter = (text: string) => readonly string[];

const after =
  (separator: RegExp): Cutter =>
  (text) =>
    text.split(separator);
/** Coarse to fine; the pieces of each, joined, are the text again. */
const cutters: readonly Cutter[] = [
  after(/(?<=\n\n)/),
  after(/(?<=\n)/),
  (text) => Array.from(sentences.segment(text), ({ segment }) => segment),
  after(/(?<=\s)(?=\S)/),
  (text) => Array.from(graphemes.segment(text), ({ segment }) => segment),
];

/** Parts of at most `most` UTF-16 units, as few as good places allow; nothing is lost but white space at the cuts. A single
 *  grapheme longer than that (a stack of accents) is cut between its code points. */
export function split(text: string, most: number): readonly string[] {
  return pack(text.trim(), most, 0)
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function pack(text: string, most: number, level: number): string[] {
  if (length(text) <= most) return [text];
  const cut = cutters[level] ?? ((whole: string) => Array.from(whole));
  const parts: string[] = [];
  let part = "";
  for (const piece of cut(text)) {
    if (length(part + piece) <= most) {
      part += piece;
      continue;
    }
    // A piece too long for any part is cut more finely; its last bit shares a part with what follows.
    const rest = length(piece) <= most || level >= cutters.length ? [piece] : pack(piece, most, level + 1);
    if (part.trim() !== "") parts.push(part);
    parts.push(...rest.slice(0, -1));
    part = rest.at(-1) ?? "";
  }
  return part === "" ? parts : [...parts, part];
}

/** White space at the end is cut off, so it takes no room. */
function length(text: string): number {
  return text.trim().length;
}
