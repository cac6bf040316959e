// Per-language tables: the pronunciation of addresses, closing formulas of letters, and abbreviations that end in a
// full stop.

import { primary } from "./phrases.ts";

/** The table of one language for the conversion of text to speech. */
export interface SpeechWords {
  readonly at: string;
  readonly dot: string;
  readonly dash: string;
  readonly underscore: string;
  /** Closing formulas of letters; the text after one is a signature. Lower case, without punctuation. */
  readonly closings: readonly string[];
  /** Abbreviations without their final full stop, in lower case. */
  readonly abbreviations: readonly string[];
  /** True when `3.` means "third", so that it does not end a sentence. */
  readonly ordinalStops: boolean;
}

const separated = (words: string): readonly string[] => words.split(", ");

const table = {
  en: {
    at: "at",
    dot: "dot",
    dash: "dash",
    underscore: "underscore",
    closings: separated(
      "best regards, kind regards, warm regards, regards, sincerely, yours sincerely, best wishes, cheers",
    ),
    abbreviations: separated("mr, mrs, ms, dr, prof, st, jr, sr, vs, e.g, i.e, no, inc, ltd, approx, dept, ext, fig"),
    ordinalStops: false,
  },
  de: {
    at: "ät",
    dot: "Punkt",
    dash: "Minus",
    underscore: "Unterstrich",
    closings: separated(
      "mit freundlichen grüßen, freundliche grüße, viele grüße, beste grüße, herzliche grüße, liebe grüße, mfg",
    ),
    abbreviations: separated(
      "dr, prof, hr, fr, nr, str, z.b, d.h, u.a, ca, bzw, evtl, ggf, inkl, zzgl, tel, abs, st, mio, mrd",
    ),
    ordinalStops: true,
  },
  fr: {
    at: "arobase",
    dot: "point",
    dash: "tiret",
    underscore: "tiret bas",
    closings: separated("cordialement, bien cordialement, bien à vous, sincères salutations, salutations distinguées"),
    abbreviations: separated("m, mm, mme, mlle, dr, pr, st, p.ex, env, tél, art, av, bd"),
    ordinalStops: false,
  },
  es: {
    at: "arroba",
    dot: "punto",
    dash: "guion",
    underscore: "guion bajo",
    closings: separated("saludos, saludos cordiales, un saludo, atentamente, un cordial saludo"),
    abbreviations: separated("sr, sra, srta, dr, dra, ud, uds, p.ej, tel, núm, pág, av, aprox"),
    ordinalStops: false,
  },
  it: {
    at: "chiocciola",
    dot: "punto",
    dash: "trattino",
    underscore: "trattino basso",
    closings: separated("cordiali saluti, distinti saluti, saluti, un saluto"),
    abbreviations: separated("sig, sig.ra, sigg, dott, dott.ssa, ing, avv, prof, es, p.es, tel, art, ca"),
    ordinalStops: false,
  },
  pt: {
    at: "arroba",
    dot: "ponto",
    dash: "hífen",
    underscore: "sublinhado",
    closings: separated("atenciosamente, cumprimentos, com os melhores cumprimentos, melhores cumprimentos, saudações"),
    abbreviations: separated("sr, sra, dr, dra, exmo, exma, p.ex, tel, av, núm, aprox"),
    ordinalStops: false,
  },
  nl: {
    at: "apenstaartje",
    dot: "punt",
    dash: "streepje",
    underscore: "laag streepje",
    closings: separated(
      "met vriendelijke groet, met vriendelijke groeten, vriendelijke groeten, groeten, hartelijke groet",
    ),
    abbreviations: separated("dhr, mevr, mw, dr, ir, prof, bijv, d.w.z, o.a, ca, nr, tel, incl, excl"),
    ordinalStops: false,
  },
  pl: {
    at: "małpa",
    dot: "kropka",
    dash: "myślnik",
    underscore: "podkreślenie",
    closings: separated("z poważaniem, pozdrawiam, z wyrazami szacunku, serdecznie pozdrawiam"),
    abbreviations: separated("np, tzn, tj, ul, al, nr, godz, tel, ok, prof, inż, św, m.in"),
    ordinalStops: true,
  },
} as const satisfies Readonly<Record<string, SpeechWords>>;

const byLanguage: ReadonlyMap<string, SpeechWords> = new Map(Object.entries(table));

/** Returns the table for a language tag. Default: English for an unsupported language. */
export function wordsOf(lang: string): SpeechWords {
  return byLanguage.get(primary(lang)) ?? table.en;
}

/** Closing formulas of all languages: an agent may reply in another language than the configured or detected one. */
export const allClosings: ReadonlySet<string> = new Set([...byLanguage.values()].flatMap((one) => one.closings));

/** Abbreviations of all languages, see `allClosings`. */
export const allAbbreviations: ReadonlySet<string> = new Set(
  [...byLanguage.values()].flatMap((one) => one.abbreviations),
);

/** Abbreviations that also exist as an ordinary word. They count as abbreviations only before a number: `No. 5`. */
export const numbered: ReadonlySet<string> = new Set(
  separated("no, nr, fig, art, abs, núm, ext, pág, al, es, str, m, av, co, st, tel, ok"),
);
