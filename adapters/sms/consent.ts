// Words by which a person says whether we may write to them. Only a message that is nothing but such a word counts:
// "STOP 12345" and "please stop by tomorrow" are messages like any other.

import type { Consent } from "bridgehead/contract";

export interface Words {
  /** Languages whose words count; English words are those of the carriers and of the FCC. */
  readonly languages: readonly Language[];
  /** Words beside those, for each meaning. */
  readonly add: { readonly [word in Consent["word"]]?: readonly string[] | undefined };
  /** Words that mean nothing special on this channel: YES where the agent asks yes or no. */
  readonly remove: readonly string[];
}

/** A language with words of its own. */
export type Language = keyof typeof vocabulary;

type Vocabulary = { readonly [word in Consent["word"]]: readonly string[] };

// STOP and HELP are understood everywhere, whatever the language: carriers teach them to everybody. Words that are an
// everyday answer (yes, no, end of a sentence) are only listed where a regulator or the carriers list them.
const vocabulary = {
  en: {
    stop: ["stop", "stop all", "unsubscribe", "end", "quit", "cancel", "revoke", "opt out"],
    start: ["start", "unstop"],
    help: ["help", "info"],
  },
  de: {
    stop: ["stopp", "abmelden", "abbestellen", "beenden", "austragen", "kündigen"],
    start: ["anmelden", "starten"],
    help: ["hilfe"],
  },
  fr: {
    stop: ["arret", "arrêter", "desabonner", "désabonnement", "se désabonner", "désinscrire", "fin"],
    start: ["démarrer", "reprendre", "commencer"],
    help: ["aide"],
  },
  es: {
    stop: ["parar", "alto", "detener", "cancelar", "baja", "terminar", "darse de baja"],
    start: ["comenzar", "iniciar", "empezar", "alta"],
    help: ["ayuda"],
  },
  it: {
    stop: ["ferma", "fermare", "annulla", "disiscrivi", "disiscriviti", "cancella", "cancellami"],
    start: ["inizia", "riprendi", "iscrivi"],
    help: ["aiuto"],
  },
  pt: {
    stop: ["parar", "pare", "cancelar", "sair", "remover", "descadastrar"],
    start: ["começar", "iniciar"],
    help: ["ajuda"],
  },
  nl: {
    stop: ["stoppen", "afmelden", "uitschrijven", "opzeggen", "annuleren"],
    start: ["starten", "aanmelden"],
    help: ["hulp"],
  },
  pl: {
    stop: ["koniec", "wypisz", "rezygnuję", "anuluj", "zatrzymaj"],
    start: ["rozpocznij", "wznów"],
    help: ["pomoc"],
  },
} as const satisfies Record<string, Vocabulary>;

/** Every language with words, for a configuration's choice. */
export const languages = Object.keys(vocabulary) as readonly Language[] as readonly [Language, ...Language[]];

/** What the whole message says of being written to; null: it is a message. Case, accents, spaces, punctuation and
 *  quotation marks do not matter. */
export function consentOf(body: string, words: Words): Consent["word"] | null {
  // No word is this long, and a novel need not be normalized to know that.
  if (body.length > 100) return null;
  const said = bare(body);
  return said === "" ? null : (meanings(words).get(said) ?? null);
}

/** Made once for a channel's words: they are compared with every text. */
const made = new WeakMap<Words, ReadonlyMap<string, Consent["word"]>>();

function meanings(words: Words): ReadonlyMap<string, Consent["word"]> {
  const known = made.get(words);
  if (known) return known;
  const meaning = new Map<string, Consent["word"]>();
  // STOP is heeded where a word is listed twice.
  for (const word of ["help", "start", "stop"] as const) {
    for (const language of new Set<Language>(["en", ...words.languages]))
      for (const one of vocabulary[language][word]) meaning.set(bare(one), word);
    for (const one of words.add[word] ?? []) meaning.set(bare(one), word);
  }
  for (const one of words.remove) meaning.delete(bare(one));
  made.set(words, meaning);
  return meaning;
}

/** Letters and digits alone, small, without accents: `Opt-Out!` and `STOP ALL` come to one word each. */
function bare(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll("ß", "ss")
    .replaceAll("ł", "l")
    .replace(/[^\p{L}\p{N}]/gu, "");
}
