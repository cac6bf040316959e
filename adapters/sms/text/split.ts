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
  if (text.trim().length <= most) return [text];
  const cut = cutters[level] ?? ((whole: string) => Array.from(whole));
  const parts: string[] = [];
  let part = measured("");
  for (const piece of cut(text)) {
    const joined = append(part, piece);
    if (joined.to - joined.from <= most) {
      part = joined;
      continue;
    }
    // A piece too long for any part is cut more finely; its last bit shares a part with what follows.
    const fits = piece.trim().length <= most || level >= cutters.length;
    const rest = fits ? [piece] : pack(piece, most, level + 1);
    if (part.to > part.from) parts.push(part.text);
    parts.push(...rest.slice(0, -1));
    part = measured(rest.at(-1) ?? "");
  }
  return part.text === "" ? parts : [...parts, part.text];
}

/** A text, and where its first and behind its last character that is no white space stand: white space at the ends is cut off,
 *  so it takes no room. Measuring what is appended alone keeps packing linear. */
interface Measured {
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

const measured = (text: string): Measured => append({ text: "", from: 0, to: 0 }, text);

function append({ text, from, to }: Measured, piece: string): Measured {
  const whole = text + piece;
  const end = piece.trimEnd().length;
  if (end === 0) return { text: whole, from, to };
  const first = to > from ? from : text.length + piece.length - piece.trimStart().length;
  return { text: whole, from: first, to: text.length + end };
}
