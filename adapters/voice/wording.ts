// What this channel says in a language: the configuration's words, else the built-in ones.

import type { PhraseOverrides, VoiceConfig } from "./config.ts";
import { type Phrases, phrases, primary } from "./speech/index.ts";

/** The phrases for a language; overrides for exactly this tag win over those for its language. */
export function wording(config: VoiceConfig, language: string): Phrases {
  const under = (tag: string) => config.phrases.find((one) => one.language === tag);
  const said: Partial<PhraseOverrides> = { ...under(primary(language)), ...under(language) };
  const standard = phrases(language);
  const [first, second] = said.still_there ?? standard.stillThere;
  return {
    ...standard,
    fillers: said.fillers ?? standard.fillers,
    apology: said.apology ?? standard.apology,
    stillThere: [first ?? standard.stillThere[0], second ?? first ?? standard.stillThere[1]],
    goodbye: said.goodbye ?? standard.goodbye,
    lostYou: said.lost_you ?? standard.lostYou,
    handOver: said.hand_over ?? standard.handOver,
    restOffered: said.rest_offered ?? standard.restOffered,
    voicemail: said.voicemail ?? standard.voicemail,
  };
}

/** The configured greeting for a language, or null: then the agent's introduction is one. */
export function configuredGreeting(config: VoiceConfig, language: string): string | null {
  const { greeting } = config;
  if (greeting === undefined || typeof greeting === "string") return greeting ?? null;
  return greeting[language] ?? greeting[primary(language)] ?? null;
}

/** Which configured language a provider's report (`de`, `de-DE`) means; null for one we do not speak. */
export function languageOf(config: VoiceConfig, reported: string | null): string | null {
  if (reported === null || reported === "") return null;
  // Any language is understood and spoken: ours are those with words of our own.
  if (config.transcription_language === "multi" && config.languages.length === 0)
    return phrases(reported).lang === primary(reported) ? reported : null;
  const all = [config.language, ...config.languages.map((one) => one.code)];
  return (
    all.find((code) => code.toLowerCase() === reported.toLowerCase()) ??
    all.find((code) => primary(code) === primary(reported)) ??
    null
  );
}
