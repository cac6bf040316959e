// The fixed phrases of this channel in one language: configured phrases override the built-in defaults.

import type { PhraseOverrides, VoiceConfig } from "./config.ts";
import { type Phrases, phrases, primary } from "./speech/index.ts";

/** Returns the phrases for a language tag. An override for the exact tag takes precedence over one for the primary
 *  language. */
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

/** Returns the configured greeting for a language. On null the caller of this function uses the agent's
 *  introduction. */
export function configuredGreeting(config: VoiceConfig, language: string): string | null {
  const { greeting } = config;
  if (greeting === undefined || typeof greeting === "string") return greeting ?? null;
  return greeting[language] ?? greeting[primary(language)] ?? null;
}

/** Returns the configured language for the one a provider reports (`de`, `de-DE`). Returns null for an unsupported
 *  language. */
export function languageOf(config: VoiceConfig, reported: string | null): string | null {
  if (reported === null || reported === "") return null;
  // Any language is recognized and synthesized here. Supported are those with built-in phrases.
  if (config.transcription_language === "multi" && config.languages.length === 0)
    return phrases(reported).lang === primary(reported) ? reported : null;
  const all = [config.language, ...config.languages.map((one) => one.code)];
  return (
    all.find((code) => code.toLowerCase() === reported.toLowerCase()) ??
    all.find((code) => primary(code) === primary(reported)) ??
    null
  );
}
