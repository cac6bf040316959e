// Splits a text at natural boundaries: between paragraphs, then lines, then sentences, then at white space.
// It splits inside a word last, and never inside a grapheme.

const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
const sentences = new Intl.Segmenter("und", { granularity: "sentence" });

type Cutter = (text: string) => readonly string[];

const after =
  (separator: RegExp): Cutter =>
  (text) =>
    text.split(separator);
/** From coarse to fine. The pieces that each cutter returns, concatenated, equal its input. */
const cutters: readonly Cutter[] = [
  after(/(?<=\n\n)/),
  after(/(?<=\n)/),
  (text) => Array.from(sentences.segment(text), ({ segment }) => segment),
  after(/(?<=\s)(?=\S)/),
  (text) => Array.from(graphemes.segment(text), ({ segment }) => segment),
];

/** Returns parts of at most `most` UTF-16 units, as few as good boundaries allow. Only white space at
 *  the boundaries is lost. A longer single grapheme (a stack of accents) is split between its code
 *  points. */
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
    // A piece that is too long for a part is split with the next finer cutter. Its last piece shares a part
    // with the following text.
    const fits = piece.trim().length <= most || level >= cutters.length;
    const rest = fits ? [piece] : pack(piece, most, level + 1);
    if (part.to > part.from) parts.push(part.text);
    parts.push(...rest.slice(0, -1));
    part = measured(rest.at(-1) ?? "");
  }
  return part.text === "" ? parts : [...parts, part.text];
}

/** A text with the index of its first character that is not white space, and the index after the last
 *  one. White space at the ends is trimmed and takes no room. Measuring only the appended piece keeps
 *  packing linear. */
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
