// Text-to-speech preparation and utterance classification for the engine and the dialects.

export { type Phrases, phrases, primary } from "./phrases.ts";
export { limit, sentences } from "./sentences.ts";
export { speakable } from "./speakable.ts";
export { isAcknowledgement, isBackchannel, isClosing, isGoodbye } from "./utterances.ts";
