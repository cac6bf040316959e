// An answer as it is spoken: sentence by sentence, and not more at once than a listener can keep in mind.

import { limit, type Phrases, sentences, speakable } from "../speech/index.ts";

/** The core's limit for texts of this channel (`Traits.maxTextLength`). It also bounds the time on the event loop. */
const longest = 10_000;

/** The sentences of an answer in Markdown, at least one. */
export function sentencesOf(text: string, language: string, words: Phrases): readonly string[] {
  const all = sentences(speakable(text.slice(0, longest), language), language);
  return all.length === 0 ? [words.unreadable] : all;
}

/** At most `most` of the sentences, without an offer of the others: where the caller cannot ask for them. */
export function beginningOf(text: string, language: string, most: number, words: Phrases): readonly string[] {
  return limit(sentencesOf(text, language, words), most).now;
}
