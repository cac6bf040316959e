// Classifies a short utterance: back-channel, acknowledgement, request to continue, or closing. It is compared with the
// phrases of all languages at once, because callers mix languages. Every function takes linear time.

/** Sounds that only show that the caller listens. They are never a response while the agent speaks. */
const backchannels = `
  uh huh, uhhuh, uhuh, uh, um, mhm, mhmm, mm hm, mm hmm, mmhm, mmhmm, mm, mmm, hm, hmm, huh, ah, aha, ah ha, oh, eh, hum
  äh, ähm, ach, ach so, achso, tja, aso, ah bon, euh, aja, ajá, aham, uhum, hé, aah, ooh, m hm`;

/** Phrases of agreement. While the agent speaks they count as back-channels; after a question they are a response. */
const acknowledgements = `
  yes, yeah, yep, yup, ok, okay, kay, right, sure, alright, all right, got it, i see, fine, good, great, exactly, of course
  ja, jo, jep, jawohl, genau, gut, klar, alles klar, verstehe, ich verstehe, stimmt, richtig, ja genau, in ordnung, passt
  oui, ouais, d'accord, bien, bien sûr, voilà, je vois, entendu, très bien
  sí, vale, claro, bueno, ya, de acuerdo, muy bien, entiendo
  sì, va bene, certo, bene, capito, esatto, d'accordo
  sim, tá, tá bom, tudo bem, pois, pois é, isso, certo, entendi, está bem
  oké, goed, precies, inderdaad, jazeker, begrepen, prima
  tak, dobrze, jasne, rozumiem, no tak, zgadza się
  okej, visst, javisst, precis, jag förstår, selvfølgelig, præcis, greit, kyllä, joo, juu, selvä, ymmärrän
  ano, jasně, dobře, rozumím, áno, jasné, dobre, igen, persze, rendben, értem, da, desigur, înțeleg, naravno, razumijem
  evet, tamam, peki, tabii, anladım, да, ага, хорошо, понятно, конечно, так, добре, зрозуміло, ναι, εντάξει, κατάλαβα
  はい, ええ, うん, わかりました, 네, 예, 응, 알겠습니다, 是, 是的, 好, 好的, 对, 嗯, 可以, نعم, أجل, حسنا, طيب, כן, בסדר, הבנתי`;

/** Requests to continue, in addition to the acknowledgements. */
const continuations = `
  go on, continue, please continue, keep going, go ahead, carry on, more, tell me more, the rest, next, yes do, do it
  weiter, mach weiter, machen sie weiter, fahren sie fort, erzählen sie weiter, sprechen sie weiter, reden sie weiter, gerne, gern, mehr
  continuez, continue, allez y, vas y, volontiers, la suite, encore, poursuivez
  siga, sigue, continúe, continúa, adelante, prosiga, más
  continui, continua, avanti, vada avanti, prosegua, volentieri, ancora
  continue, pode continuar, prossiga, siga, mais
  ga door, ga verder, gaat u verder, verder, graag, doe maar
  dalej, proszę dalej, kontynuuj, proszę kontynuować, proszę mówić, chętnie, więcej`;

/** With these a caller asks whether anybody is there. While the agent thinks, a filler answers them. */
const presenceChecks = `
  hello, you there, are you there, you still there, are you still there, still there, anyone there, anybody there, is anyone there, is anybody there, can you hear me, do you hear me
  hallo, noch da, sind sie da, sind sie noch da, bist du da, bist du noch da, ist da jemand, ist noch jemand da, hören sie mich, können sie mich hören, hörst du mich
  allô, vous êtes là, vous êtes toujours là, êtes vous là, êtes vous toujours là, tu es là, il y a quelqu'un, vous m'entendez, m'entendez vous
  hola, aló, oiga, está ahí, sigue ahí, estás ahí, sigues ahí, hay alguien, hay alguien ahí, me oye, me escucha
  pronto, è ancora lì, sei ancora lì, c'è qualcuno, mi sente, mi senti
  olá, alô, está aí, ainda está aí, tem alguém aí, está me ouvindo, consegue me ouvir
  bent u daar, bent u er nog, ben je er nog, is daar iemand, hoort u mij, kunt u mij horen
  halo, jest pan tam, jest pani tam, jest tam ktoś, słyszy mnie pan, słyszy mnie pani, czy pan mnie słyszy, czy pani mnie słyszy`;

/** Polite phrases without effect on the classification. */
const courtesies = `
  please, thanks, thank you, thank you very much, thanks a lot, thank you so much, many thanks, cheers, and, then, so, well, now, very much, a lot
  oh, perfect, wonderful, super, nice, great, lovely, you too, likewise, same to you, everyone, all, for your help, for the help, for calling, for your call
  bitte, danke, danke schön, dankeschön, vielen dank, besten dank, herzlichen dank, tausend dank, und, dann, na dann, na, also, so, toll, prima, wunderbar, schön, ihnen auch, gleichfalls, ebenfalls, für ihren anruf, für ihre hilfe
  s'il vous plaît, s'il te plaît, merci, merci beaucoup, merci bien, et, alors, parfait, à vous aussi, vous aussi, de rien, pour votre appel, pour votre aide
  por favor, gracias, muchas gracias, y, entonces, pues, perfecto, igualmente, de nada, por su llamada, por llamar, por su ayuda
  per favore, grazie, grazie mille, e, allora, perfetto, altrettanto, prego, per la chiamata
  obrigado, obrigada, muito obrigado, muito obrigada, então, perfeito, igualmente, de nada, pela sua chamada, pela ligação
  alsjeblieft, alstublieft, dank u, dank je, dank u wel, dank je wel, dankjewel, bedankt, en, dan, dus, nou, u ook, hetzelfde, voor uw telefoontje
  proszę, dziękuję, dziękuję bardzo, dzięki, i, to, no to, wzajemnie, nawzajem, za telefon`;

const farewells = `
  bye, bye bye, goodbye, good bye, bye for now, bye now, see you, see you soon, see you later, see ya, talk to you soon, talk to you later, take care, farewell, good night, so long, until next time
  tschüss, tschüß, tschau, ciao, auf wiederhören, auf wiedersehen, wiederhören, wiedersehen, bis bald, bis dann, bis später, bis morgen, mach's gut, machen sie's gut, gute nacht, servus, ade, tschö, bis zum nächsten mal
  au revoir, à bientôt, à plus tard, à plus, salut, adieu, bonne nuit, à la prochaine
  adiós, hasta luego, hasta pronto, hasta mañana, chao, chau, nos vemos, buenas noches, hasta la próxima
  arrivederci, arrivederla, a presto, a dopo, ci sentiamo, buona notte, buonanotte, addio, alla prossima
  tchau, até logo, até breve, até mais, adeus, até à próxima, até amanhã, boa noite
  tot ziens, tot horens, dag, doei, doeg, tot later, tot gauw, tot snel, fijne avond nog
  do widzenia, do usłyszenia, pa, pa pa, na razie, do zobaczenia, cześć, żegnam, dobranoc`;

/** Wishes with which an agent ends a conversation. */
const wishes = `
  have a nice day, have a good day, have a great day, have a lovely day, have a wonderful day, have a nice evening, have a good evening, have a great evening, have a nice weekend, have a good weekend, have a great weekend, have a good one, have a good night, enjoy your day, enjoy your evening, a nice day, a good day
  einen schönen tag, einen schönen tag noch, schönen tag, schönen tag noch, schönen abend, schönen abend noch, einen schönen abend, einen schönen abend noch, schönes wochenende, ein schönes wochenende, ich wünsche ihnen einen schönen tag, ich wünsche ihnen noch einen schönen tag, ich wünsche ihnen einen schönen abend, alles gute
  bonne journée, bonne soirée, bon week-end, bonne fin de journée, je vous souhaite une bonne journée, passez une bonne journée, une bonne journée
  que tenga un buen día, que tengas un buen día, buen día, que pase un buen día, buen fin de semana, que le vaya bien
  buona giornata, buona serata, buon fine settimana, le auguro una buona giornata
  tenha um bom dia, bom dia, bom fim de semana, tenha um ótimo dia, boa tarde
  fijne dag, fijne dag nog, een fijne dag, fijne avond, prettige dag, nog een fijne dag, prettig weekend, fijn weekend
  miłego dnia, miłego wieczoru, miłego weekendu, życzę miłego dnia`;

/** Phrases with which a caller states that there are no further questions. */
const conclusions = `
  that's all, that is all, that's it, that was all, that'll be all, nothing else, no that's all, no that's it, no nothing else, no thanks, no thank you, nope that's all, i'm good, i'm all set, all set, no i'm good
  das war's, das wars, das war alles, das wäre alles, das ist alles, sonst nichts, nein danke, nein das war's, nein das war alles, nichts weiter
  c'est tout, ce sera tout, rien d'autre, non merci, non c'est tout
  eso es todo, nada más, no gracias, es todo, no eso es todo
  è tutto, questo è tutto, nient'altro, no grazie, basta così
  é tudo, é só isso, só isso, mais nada, não obrigado, não obrigada
  dat is alles, dat was alles, dat was het, verder niets, nee dank u, nee bedankt, nee dank je
  to wszystko, nic więcej, nie dziękuję, to już wszystko`;

/** Normalizes text to lower-case letters and digits without diacritics, separated by single spaces. */
const folded = (text: string): string =>
  text
    .toLowerCase()
    .replace(/ß/g, "ss")
    .replace(/ł/g, "l")
    .normalize("NFD")
    .replace(/[\p{M}'’]/gu, "")
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();

/** Phrases in all languages. */
class PhraseSet {
  readonly #phrases: ReadonlySet<string>;
  readonly #firstWords: ReadonlySet<string>;

  constructor(...lists: readonly string[]) {
    const all = lists.flatMap((list) => list.split(/[,\n]/).map(folded)).filter((phrase) => phrase !== "");
    this.#phrases = new Set(all);
    this.#firstWords = new Set(all.map((phrase) => phrase.split(" ", 1)[0] ?? ""));
  }

  has(phrase: string): boolean {
    return this.#phrases.has(phrase);
  }

  /** True when an utterance may begin with this word, which excludes most of them. */
  begin(word: string | undefined): boolean {
    return word !== undefined && this.#firstWords.has(word);
  }
}

const sets = {
  backchannel: new PhraseSet(backchannels),
  more: new PhraseSet(acknowledgements, continuations, backchannels),
  presence: new PhraseSet(presenceChecks),
  courtesy: new PhraseSet(courtesies, acknowledgements, backchannels),
  farewell: new PhraseSet(farewells),
  closing: new PhraseSet(farewells, wishes),
  nothingLeft: new PhraseSet(farewells, conclusions),
} as const;

/** The longest phrase contains at most this many tokens. */
const longestPhrase = 8;
/** Longer utterances are not compared, because they contain a message of their own. */
const mostWords = 20;

/** Returns whether the tokens consist of phrases of `wanted` and `also`, with at least one of `wanted`. The longest
 *  phrase matches first. */
function consistsOf(words: readonly string[], wanted: PhraseSet, also: PhraseSet | null = null): boolean {
  let found = false;
  for (let at = 0; at < words.length; ) {
    if (!wanted.begin(words[at]) && !also?.begin(words[at])) return false;
    let taken = 0;
    for (let count = Math.min(longestPhrase, words.length - at); count > 0 && taken === 0; count--) {
      const phrase = words.slice(at, at + count).join(" ");
      if (wanted.has(phrase)) found = true;
      else if (!also?.has(phrase)) continue;
      taken = count;
    }
    if (taken === 0) return false;
    at += taken;
  }
  return found;
}

const wordsOf = (text: string): readonly string[] => {
  if (text.length > mostLetters) return [];
  const words = folded(text).split(" ", mostWords + 1);
  return words.length > mostWords || words[0] === "" ? [] : words;
};

/** "uh-huh", "mhm": returns true for a back-channel, which shows that the caller listens. */
export const isBackchannel = (text: string): boolean => consistsOf(wordsOf(text), sets.backchannel);

/** "uh-huh", "okay", "yes please", "go on": a request to continue. An agent that speaks or prepares a reply can
 *  ignore it. */
export const isAcknowledgement = (text: string): boolean => consistsOf(wordsOf(text), sets.more, sets.courtesy);

/** "Hello? Are you still there?": returns true when the caller only asks whether anybody is there. */
export const isPresenceCheck = (text: string): boolean => consistsOf(wordsOf(text), sets.presence, sets.courtesy);

/** "Okay thanks, bye", "No, that's all.": returns true when the caller has no further questions. A question is not a
 *  closing, nor is a farewell in mid-sentence. Speech recognition may omit punctuation; a courtesy phrase then marks
 *  the start of the closing. */
export function isClosing(text: string): boolean {
  if (/[?¿]/u.test(text.slice(0, mostLetters))) return false;
  if (consistsOf(wordsOf(text), sets.nothingLeft, sets.courtesy)) return true;
  const last = clausesOf(text).at(-1) ?? "";
  if (endsIn(last, sets.farewell)) return true;
  const words = lastWords(last, longestPhrase);
  return words.some((_, at) => {
    const tail = words.slice(at);
    return tail.length > 1 && consistsOf(tail, sets.farewell, sets.courtesy) && !sets.farewell.has(tail.join(" "));
  });
}

/** Returns whether an agent's reply ends with a goodbye. `last` is its last sentence. A goodbye in mid-sentence, in
 *  a question, in quotes or after a colon does not count. A name or thanks may follow ("Goodbye, Anna!"). */
export function isGoodbye(last: string): boolean {
  const sentence = last.slice(0, mostLetters).trim();
  if (/[?¿:"“”„«»]/u.test(sentence)) return false;
  const parts = clausesOf(sentence).flatMap((clause) => clause.split(/\s(?:and|und|et|y|e|en|i)\s/iu));
  for (const clause of parts.toReversed()) {
    if (endsIn(clause, sets.closing) || isNamed(clause)) return true;
    if (wordsOf(clause).length > 2 && !thanks.test(folded(clause))) return false;
  }
  return false;
}

/** Maximum length in characters to compare. Longer texts contain a message of their own. */
const mostLetters = 2000;

/** Returns the parts of a sentence between punctuation marks. */
const clausesOf = (text: string): readonly string[] =>
  text
    .slice(-mostLetters)
    .split(/[,;.!…–—]+|\s-\s/u)
    .map((clause) => clause.trim())
    .filter((clause) => clause !== "");

const lastWords = (text: string, most: number): readonly string[] => folded(text).split(" ").slice(-most);

/** Returns whether the clause, or its part after the last "and", consists of such phrases. */
function endsIn(clause: string, phrases: PhraseSet): boolean {
  const words = lastWords(clause, mostWords);
  if (words.length < mostWords && consistsOf(words, phrases, sets.courtesy)) return true;
  const at = words.findLastIndex((word) => conjunctions.has(word));
  return at >= 0 && consistsOf(words.slice(at + 1), phrases, sets.courtesy);
}

const conjunctions: ReadonlySet<string> = new Set("and und et y e en i so then dann".split(" "));
const thanks =
  /^(?:(?:many |ok |okay )?thank|(?:vielen |besten |herzlichen )?dank|merci|(?:muchas )?gracias|grazie|(?:muit[oa] )?obrigad[oa]|(?:dank u|bedankt)|dziekuje)/;

/** "Goodbye Anna": returns true for a farewell followed by a name of one or two tokens. */
function isNamed(clause: string): boolean {
  const words = wordsOf(clause);
  return [1, 2].some((name) => words.length > name && sets.farewell.has(words.slice(0, -name).join(" ")));
}
