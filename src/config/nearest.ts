// "Did you mean ...?"

/** Returns the entry of `words` that is at most a few keystrokes away from `word`, if there is one. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of words) {
    const distance = keystrokes(plain(word), plain(candidate));
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/** Returns a remedy for an unknown word: the nearest known one, or `otherwise`. */
export function didYouMean(word: string, words: readonly string[], otherwise: string): string {
  const guess = nearest(word, words);
  return guess === undefined ? otherwise : `did you mean ${guess}?`;
}

/** Normalizes naming styles: `maxAge`, `max-age` and `max_age` are equal. */
const plain = (word: string): string => word.toLowerCase().replace(/[-_ ]/g, "");

/** Edit distance: insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function keystrokes(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let cost = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, at(i - 2, j - 2) + 1);
      row[j] = cost;
    }
  }
  return at(a.length, b.length);
}
