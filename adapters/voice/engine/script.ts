// An answer as it is spoken: sentence by sentence, and not more than a listener can keep in mind.

import { limit, type Phrases, sentences, speakable } from "../speech/index.ts";

/** Nobody listens to more; and reading it would take the loop from all other calls. */
const longest = 4000;

/** The sentences of an answer in Markdown, at most `most`; the rest is offered. At least one. */
export function script(text: string, language: string, most: number, words: Phrases): readonly string[] {
  const all = sentences(speakable(text.slice(0, longest), language), language);
  if (all.length === 0) return [words.unreadable];
  const { now, rest } = limit(all, most);
  return rest.length === 0 ? now : [...now, words.restOffered];
}
