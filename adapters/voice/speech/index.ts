// Everything the engine and the dialects need to turn an answer into speech.

export { type Phrases, phrases, primary } from "./phrases.ts";
export { limit, sentences } from "./sentences.ts";
export { speakable } from "./speakable.ts";
export { isAcknowledgement, isBackchannel, isClosing, isGoodbye } from "./utterances.ts";
