// Recognizes consent keywords (STOP, START, HELP). A message counts only when it consists of one keyword, possibly repeated or
// signed, or of a request for no more texts ("stop please"): "STOP 12345" and "please stop by tomorrow" are ordinary messages.

import type { Consent } from "bridgehead/contract";
import { requestIn, type StopRequest, withoutSignature } from "./phrases.ts";
import type { InboundText } from "./provider.ts";

export interface ConsentWords {
  /** Languages whose keywords count. The English keywords are those of the carriers and of the FCC. */
  readonly languages: readonly Language[];
  /** Countries whose business terms (`terms`) also count. Default: the country of the number that
   *  received the message. */
  readonly countries?: readonly string[] | undefined;
  /** Additional keywords for each meaning. */
  readonly add: { readonly [word in Consent["word"]]?: readonly string[] | undefined };
  /** Keywords without a special meaning on this channel: YES where the agent asks yes or no. */
  readonly remove: readonly string[];
}

/** A language with its own keywords. */
export type Language = keyof typeof vocabulary;

type Vocabulary = { readonly [word in Consent["word"]]: readonly string[] };

// STOP and HELP are recognized in every language, because carriers teach them to all customers. Everyday
// answers (yes, no, end of a sentence) are listed only where a regulator or the carriers list them.
const vocabulary = {
  en: {
    stop: ["stop", "stop all", "unsubscribe", "end", "quit", "revoke", "opt out"],
    start: ["start", "unstop"],
    help: ["help", "info"],
  },
  de: {
    stop: ["stopp", "abmelden", "austragen"],
    start: ["starten"],
    help: ["hilfe"],
  },
  fr: {
    stop: ["arret", "arrêter", "desabonner", "désabonnement", "se désabonner", "désinscrire"],
    start: ["démarrer", "reprendre"],
    help: ["aide"],
  },
  es: {
    stop: ["parar", "alto", "detener", "darse de baja"],
    start: ["reanudar"],
    help: ["ayuda"],
  },
  it: {
    stop: ["ferma", "fermare", "disiscrivi", "disiscriviti", "cancellami"],
    start: ["riprendi"],
    help: ["aiuto"],
  },
  pt: {
    stop: ["parar", "pare", "descadastrar"],
    start: ["retomar"],
    help: ["ajuda"],
  },
  nl: {
    stop: ["stoppen", "afmelden", "uitschrijven"],
    start: ["starten"],
    help: ["hulp"],
  },
  pl: {
    stop: ["wypisz", "zatrzymaj"],
    start: ["wznów"],
    help: ["pomoc"],
  },
} as const satisfies Record<string, Vocabulary>;

/** Keywords that customers also use in other business messages: to cancel an order, to end a contract, to register.
 *  They count only in these countries, or where the configuration names the country. The sender receives a confirmation
 *  that the keyword counted. CANCEL is mandatory in North America (CTIA, FCC 47 CFR 64.1200(a)(10)); REMOVE is required
 *  by AWS. After a STOP, Twilio takes YES for START. */
const terms = {
  en: { countries: ["US", "CA"], stop: ["cancel", "remove"], start: ["yes"] },
  de: {
    countries: ["DE", "AT", "CH", "LI", "LU"],
    stop: ["kündigen", "beenden", "abbestellen"],
    start: ["anmelden"],
  },
  fr: { countries: ["FR", "BE", "CH", "LU", "MC"], stop: ["fin"], start: ["commencer"] },
  es: {
    countries: "ES MX AR CO CL PE VE EC GT CU BO HN PY SV NI CR PA UY".split(" "),
    stop: ["cancelar", "baja", "terminar"],
    start: ["alta", "comenzar", "iniciar", "empezar"],
  },
  it: { countries: ["IT", "SM", "CH"], stop: ["annulla", "cancella"], start: ["iscrivi", "inizia"] },
  pt: {
    countries: ["PT", "BR", "AO", "MZ"],
    stop: ["cancelar", "sair", "remover"],
    start: ["começar", "iniciar"],
  },
  nl: { countries: ["NL", "BE", "SR"], stop: ["opzeggen", "annuleren"], start: ["aanmelden"] },
  pl: { countries: ["PL"], stop: ["koniec", "rezygnuję", "anuluj"], start: ["rozpocznij"] },
} as const satisfies Record<
  Language,
  {
    readonly countries: readonly string[];
    readonly stop: readonly string[];
    readonly start: readonly string[];
  }
>;

/** Confirmation messages for the sender of a business term or of a worded request. START and STOP are the same in every
 *  language. */
const confirmations: Readonly<Record<Language, { readonly stop: string; readonly start: string }>> = {
  en: {
    stop: "You will get no more texts from this number. Reply START to get them again.",
    start: "You will get texts from this number again. Reply STOP to end them.",
  },
  de: {
    stop: "Sie erhalten von dieser Nummer keine SMS mehr. Antworten Sie START, um wieder welche zu erhalten.",
    start: "Sie erhalten wieder SMS von dieser Nummer. Antworten Sie STOP, um sie zu beenden.",
  },
  fr: {
    stop: "Vous ne recevrez plus de SMS de ce numéro. Répondez START pour en recevoir à nouveau.",
    start: "Vous recevrez à nouveau des SMS de ce numéro. Répondez STOP pour y mettre fin.",
  },
  es: {
    stop: "No recibirá más SMS de este número. Responda START para volver a recibirlos.",
    start: "Volverá a recibir SMS de este número. Responda STOP para no recibirlos.",
  },
  it: {
    stop: "Non riceverà più SMS da questo numero. Risponda START per riceverli di nuovo.",
    start: "Riceverà di nuovo SMS da questo numero. Risponda STOP per non riceverli.",
  },
  pt: {
    stop: "Não receberá mais SMS deste número. Responda START para voltar a recebê-los.",
    start: "Voltará a receber SMS deste número. Responda STOP para deixar de os receber.",
  },
  nl: {
    stop: "U ontvangt geen sms meer van dit nummer. Antwoord START om ze weer te ontvangen.",
    start: "U ontvangt weer sms van dit nummer. Antwoord STOP om te stoppen.",
  },
  pl: {
    stop: "Nie otrzymasz więcej SMS-ów z tego numeru. Odpowiedz START, aby je znów otrzymywać.",
    start: "Znów będziesz otrzymywać SMS-y z tego numeru. Odpowiedz STOP, aby je zakończyć.",
  },
};

/** All languages with keywords; the configuration accepts these. */
export const languages = Object.keys(vocabulary) as readonly Language[] as readonly [Language, ...Language[]];

/** The consent that a message expresses. */
export interface Meaning {
  readonly word: Consent["word"];
  /** For all but an exact keyword: the confirmation message for the sender, so that a misunderstanding is noticed. */
  readonly confirmation?: string;
}

/** Returns the consent that the whole message expresses; null: an ordinary message. Ignores case,
 *  accents, spaces, punctuation and quotation marks. `countries` are those of the number that received
 *  the message; several share a calling code. */
export function consentOf(body: string, words: ConsentWords, countries: readonly string[] = []): Meaning | null {
  // No keyword is this long. The check avoids normalizing long messages.
  const text = body.trim();
  if (text.length > 100) return null;
  const said = bare(text);
  if (said === "") return null;
  const keyword = meanings(words).get(said);
  if (keyword !== undefined) return { word: keyword.word };
  const unsigned = withoutSignature(text);
  const message = bare(unsigned);
  const loose = lookUp(meanings(words), message);
  if (loose !== undefined) return confirmed(loose);
  const places = words.countries ?? countries;
  const term = lookUp(meaningsOfTerms(words), message)?.find(({ language }) =>
    terms[language].countries.some((one) => places.includes(one)),
  );
  if (term !== undefined) return confirmed(term);
  const { request, language } = requestOf(unsigned, words);
  return request === "stop" ? confirmed({ word: "stop", language }) : null;
}

const confirmed = ({ word, language }: Keyword): Meaning =>
  word === "help" ? { word } : { word, confirmation: confirmations[language][word] };

/** Returns true when a text without consent may ask for no more texts, so that a human must read it. */
export function isDoubtful({ body }: Pick<InboundText, "body">, words: ConsentWords): boolean {
  return requestOf(body, words).request !== null;
}

/** Returns the request in the text and its language. A STOP keyword with courtesies is a request; a message that the
 *  configuration removed from the keywords is ordinary. */
function requestOf(
  text: string,
  words: ConsentWords,
): { readonly request: StopRequest | null; readonly language: Language } {
  let language: Language = "en";
  const request = requestIn(text, (message) => {
    const said = bare(message);
    if (isRemoved(said, words)) return null;
    const keyword = lookUp(meanings(words), said);
    if (keyword?.word !== "stop") return undefined;
    language = keyword.language;
    return "stop";
  });
  return { request, language };
}

const isRemoved = (said: string, words: ConsentWords): boolean => words.remove.some((one) => repeats(said, bare(one)));

/** Returns the entry of a normalized message; "STOP STOP" has that of "STOP". */
function lookUp<T>(known: ReadonlyMap<string, T>, said: string): T | undefined {
  for (let times = 1; times <= said.length; times += 1) {
    if (said.length % times !== 0) continue;
    const word = said.slice(0, said.length / times);
    const entry = known.get(word);
    if (entry !== undefined && repeats(said, word)) return entry;
  }
  return undefined;
}

const repeats = (said: string, word: string): boolean =>
  word !== "" && said.startsWith(word) && said === word.repeat(said.length / word.length);

interface Keyword {
  readonly language: Language;
  readonly word: Consent["word"];
}

/** Cache of the keyword map for each channel configuration; every inbound text is looked up in it. */
const made = new WeakMap<ConsentWords, ReadonlyMap<string, Keyword>>();

function meanings(words: ConsentWords): ReadonlyMap<string, Keyword> {
  const known = made.get(words);
  if (known) return known;
  const meaning = new Map<string, Keyword>();
  // STOP is last and takes precedence when a word is listed twice.
  for (const word of ["help", "start", "stop"] as const) {
    for (const language of new Set<Language>(["en", ...words.languages]))
      for (const one of vocabulary[language][word]) meaning.set(bare(one), { word, language });
    for (const one of words.add[word] ?? []) meaning.set(bare(one), { word, language: "en" });
  }
  for (const one of words.remove) meaning.delete(bare(one));
  made.set(words, meaning);
  return meaning;
}

interface Term {
  readonly language: Language;
  readonly word: "stop" | "start";
}

const madeTerms = new WeakMap<ConsentWords, ReadonlyMap<string, readonly Term[]>>();

/** Returns the business terms by normalized text. One term may belong to several languages. */
function meaningsOfTerms(words: ConsentWords): ReadonlyMap<string, readonly Term[]> {
  const known = madeTerms.get(words);
  if (known) return known;
  const found = new Map<string, Term[]>();
  for (const language of new Set<Language>(["en", ...words.languages])) {
    for (const word of ["stop", "start"] as const) {
      for (const one of terms[language][word].map(bare))
        if (!isRemoved(one, words)) found.set(one, [...(found.get(one) ?? []), { language, word }]);
    }
  }
  madeTerms.set(words, found);
  return found;
}

/** Returns only letters and digits, in lower case, without accents: `Opt-Out!` and `STOP ALL` become one word each. */
function bare(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll("ß", "ss")
    .replaceAll("ł", "l")
    .replace(/[^\p{L}\p{N}]/gu, "");
}
