// The default phrases of the channel in all supported languages. All other speech comes from the agent.

import type { PhraseOverrides, VoiceConfig } from "../config.ts";

/** The channel's phrases in one language: plain sentences that need no conversion for speech. */
export interface Phrases {
  /** The primary language subtag: `de`. */
  readonly lang: string;
  /** Default greeting, when neither the configuration nor the agent has one. */
  readonly greeting: string;
  /** Spoken in rotation while the agent prepares a reply. All are different. */
  readonly fillers: readonly string[];
  /** Spoken before a transfer or the end of the call, when the agent did not respond or an error occurred. */
  readonly apology: string;
  /** Questions to a silent caller: the first and the second one. */
  readonly stillThere: readonly [string, string];
  readonly goodbye: string;
  /** Replaces the greeting after a lost connection. */
  readonly lostYou: string;
  /** Spoken before a transfer to a human. */
  readonly transfer: string;
  /** Spoken after the last sentence of `max_sentences`, when the reply has more. */
  readonly restOffered: string;
  /** Spoken before the voicemail tone, when no human answered. */
  readonly voicemail: string;
  /** Spoken for a reply without speakable text (only code, only pictures). */
  readonly unreadable: string;
}

const en: Phrases = {
  lang: "en",
  greeting: "Hello, how can I help you?",
  fillers: [
    "One moment, please.",
    "I am looking into it.",
    "This takes a little longer, please stay on the line.",
    "I am still on it.",
    "Thank you for your patience.",
    "I will have it in a moment.",
  ],
  apology: "I am sorry, I cannot answer that right now.",
  stillThere: ["Are you still there?", "I cannot hear you. Are you still on the line?"],
  goodbye: "Thank you for calling. Goodbye.",
  lostYou: "Sorry, I lost you for a second. Please go on.",
  transfer: "I am putting you through to a colleague. Please hold the line.",
  restOffered: "There is more to say about it. Shall I go on?",
  voicemail: "Nobody can take your call right now. Please leave a message after the tone.",
  unreadable: "I am sorry, I cannot read that out on the phone.",
};

const de: Phrases = {
  lang: "de",
  greeting: "Guten Tag, wie kann ich Ihnen helfen?",
  fillers: [
    "Einen Moment, bitte.",
    "Ich sehe gerade nach.",
    "Das dauert einen Augenblick länger, bitte bleiben Sie dran.",
    "Ich bin noch dabei.",
    "Danke für Ihre Geduld.",
    "Gleich habe ich es.",
  ],
  apology: "Es tut mir leid, das kann ich gerade nicht beantworten.",
  stillThere: ["Sind Sie noch da?", "Ich höre Sie nicht. Sind Sie noch am Apparat?"],
  goodbye: "Vielen Dank für Ihren Anruf. Auf Wiederhören.",
  lostYou: "Entschuldigung, ich habe Sie kurz verloren. Bitte sprechen Sie weiter.",
  transfer: "Ich verbinde Sie mit einem Kollegen. Bitte bleiben Sie dran.",
  restOffered: "Dazu gibt es noch mehr zu sagen. Soll ich weitermachen?",
  voicemail: "Zurzeit ist niemand erreichbar. Bitte hinterlassen Sie nach dem Ton eine Nachricht.",
  unreadable: "Es tut mir leid, das kann ich am Telefon nicht vorlesen.",
};

const fr: Phrases = {
  lang: "fr",
  greeting: "Bonjour, comment puis-je vous aider ?",
  fillers: [
    "Un instant, s'il vous plaît.",
    "Je regarde cela.",
    "Cela prend un peu plus de temps, ne quittez pas.",
    "Je m'en occupe toujours.",
    "Merci de votre patience.",
    "J'y suis presque.",
  ],
  apology: "Je suis désolé, je ne peux pas vous répondre pour le moment.",
  stillThere: ["Vous êtes toujours là ?", "Je ne vous entends pas. Êtes-vous toujours en ligne ?"],
  goodbye: "Merci de votre appel. Au revoir.",
  lostYou: "Excusez-moi, je vous ai perdu un instant. Vous pouvez continuer.",
  transfer: "Je vous mets en relation avec un collègue. Ne quittez pas.",
  restOffered: "Il y a encore des choses à dire à ce sujet. Voulez-vous que je continue ?",
  voicemail: "Personne n'est disponible pour le moment. Laissez un message après le signal sonore.",
  unreadable: "Je suis désolé, je ne peux pas lire cela au téléphone.",
};

const es: Phrases = {
  lang: "es",
  greeting: "Hola, ¿en qué puedo ayudarle?",
  fillers: [
    "Un momento, por favor.",
    "Lo estoy consultando.",
    "Tarda un poco más, no cuelgue, por favor.",
    "Sigo en ello.",
    "Gracias por su paciencia.",
    "Enseguida lo tengo.",
  ],
  apology: "Lo siento, ahora mismo no puedo responder a eso.",
  stillThere: ["¿Sigue ahí?", "No le oigo. ¿Sigue al teléfono?"],
  goodbye: "Gracias por su llamada. Adiós.",
  lostYou: "Perdone, le he perdido un segundo. Continúe, por favor.",
  transfer: "Le paso con un compañero. No cuelgue, por favor.",
  restOffered: "Hay más que decir sobre esto. ¿Quiere que siga?",
  voicemail: "Ahora mismo nadie puede atenderle. Deje un mensaje después de la señal.",
  unreadable: "Lo siento, no puedo leer eso por teléfono.",
};

const it: Phrases = {
  lang: "it",
  greeting: "Buongiorno, come posso aiutarla?",
  fillers: [
    "Un momento, per favore.",
    "Sto controllando.",
    "Ci vuole ancora un po', resti in linea.",
    "Ci sto ancora lavorando.",
    "Grazie per la pazienza.",
    "Ci sono quasi.",
  ],
  apology: "Mi dispiace, in questo momento non posso rispondere.",
  stillThere: ["È ancora lì?", "Non la sento. È ancora in linea?"],
  goodbye: "Grazie per la chiamata. Arrivederci.",
  lostYou: "Mi scusi, l'ho persa per un attimo. Continui pure.",
  transfer: "La metto in contatto con un collega. Resti in linea.",
  restOffered: "C'è altro da dire. Vuole che continui?",
  voicemail: "Al momento nessuno può rispondere. Lasci un messaggio dopo il segnale acustico.",
  unreadable: "Mi dispiace, non posso leggerlo al telefono.",
};

const pt: Phrases = {
  lang: "pt",
  greeting: "Olá, como posso ajudar?",
  fillers: [
    "Um momento, por favor.",
    "Estou a verificar.",
    "Demora mais um pouco, não desligue, por favor.",
    "Ainda estou a tratar disso.",
    "Obrigado pela paciência.",
    "Está quase.",
  ],
  apology: "Lamento, neste momento não consigo responder a isso.",
  stillThere: ["Ainda está aí?", "Não consigo ouvir. Ainda está em linha?"],
  goodbye: "Obrigado pela sua chamada. Até logo.",
  lostYou: "Desculpe, perdi a ligação por um segundo. Pode continuar.",
  transfer: "Vou passar a chamada a um colega. Não desligue, por favor.",
  restOffered: "Há mais a dizer sobre isto. Quer que continue?",
  voicemail: "De momento ninguém pode atender. Deixe uma mensagem após o sinal.",
  unreadable: "Lamento, não consigo ler isso ao telefone.",
};

const nl: Phrases = {
  lang: "nl",
  greeting: "Goedendag, waarmee kan ik u helpen?",
  fillers: [
    "Een ogenblik, alstublieft.",
    "Ik kijk het even na.",
    "Het duurt iets langer, blijf alstublieft aan de lijn.",
    "Ik ben er nog mee bezig.",
    "Dank u voor uw geduld.",
    "Ik heb het zo.",
  ],
  apology: "Het spijt me, dat kan ik nu niet beantwoorden.",
  stillThere: ["Bent u er nog?", "Ik hoor u niet. Bent u nog aan de lijn?"],
  goodbye: "Bedankt voor uw telefoontje. Tot ziens.",
  lostYou: "Sorry, ik was u even kwijt. Gaat u verder.",
  transfer: "Ik verbind u door met een collega. Blijf alstublieft aan de lijn.",
  restOffered: "Er is nog meer over te zeggen. Zal ik doorgaan?",
  voicemail: "Er is nu niemand beschikbaar. Spreek een bericht in na de toon.",
  unreadable: "Het spijt me, dat kan ik niet voorlezen aan de telefoon.",
};

const pl: Phrases = {
  lang: "pl",
  greeting: "Dzień dobry, w czym mogę pomóc?",
  fillers: [
    "Chwileczkę, proszę.",
    "Już sprawdzam.",
    "To potrwa trochę dłużej, proszę się nie rozłączać.",
    "Wciąż nad tym pracuję.",
    "Dziękuję za cierpliwość.",
    "Zaraz będę wiedzieć.",
  ],
  apology: "Przepraszam, w tej chwili nie mogę na to odpowiedzieć.",
  stillThere: ["Czy jest tam ktoś?", "Nic nie słyszę. Czy jesteśmy nadal połączeni?"],
  goodbye: "Dziękuję za telefon. Do usłyszenia.",
  lostYou: "Przepraszam, połączenie na chwilę się urwało. Proszę mówić dalej.",
  transfer: "Łączę z naszym pracownikiem. Proszę się nie rozłączać.",
  restOffered: "Jest jeszcze więcej do powiedzenia. Czy mam kontynuować?",
  voicemail: "W tej chwili nikt nie może odebrać. Proszę zostawić wiadomość po sygnale.",
  unreadable: "Przepraszam, nie mogę tego odczytać przez telefon.",
};

const spoken: ReadonlyMap<string, Phrases> = new Map([en, de, fr, es, it, pt, nl, pl].map((one) => [one.lang, one]));

/** Returns the phrases for a language tag (`de`, `de-AT`, `DE_at`). Default: English. */
export function phrases(lang: string): Phrases {
  return spoken.get(primary(lang)) ?? en;
}

/** Returns the primary language subtag without region or script: `de` for `de-AT`. */
export function primary(lang: string): string {
  return (/^[a-z]+/i.exec(lang)?.[0] ?? "").toLowerCase();
}

// The fixed phrases of this channel in one language: configured phrases override the built-in defaults.

/** Returns the phrases for a language tag. An override for the exact tag takes precedence over one for the primary
 *  language. */
export function phrasesFor(config: VoiceConfig, language: string): Phrases {
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
    transfer: said.transfer ?? standard.transfer,
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
