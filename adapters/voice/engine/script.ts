// Splits a reply into sentences for speech, and limits how many are spoken at once.

import { limit, type Phrases, sentences, speakable } from "../speech/index.ts";

/** The core's length limit for texts of this channel (`Traits.maxTextLength`). It also bounds the time on the event
 *  loop. */
const longest = 10_000;

/** Returns the sentences of a Markdown reply. Returns at least one. */
export function sentencesOf(text: string, language: string, words: Phrases): readonly string[] {
  const all = sentences(speakable(text.slice(0, longest), language), language);
  return all.length === 0 ? [words.unreadable] : all;
}

/** Returns at most `most` sentences without an offer of the rest, for greetings where the caller cannot request it. */
export function beginningOf(text: string, language: string, most: number, words: Phrases): readonly string[] {
  return limit(sentencesOf(text, language, words), most).now;
}
