// Recognizes requests for no more texts in other words than the keywords. CTIA's principles require that a request in normal
// language ("please opt me out") is followed, and the FCC accepts any reasonable one (47 CFR 64.1200(a)(10)).

/** `stop`: the whole message is such a request · `doubtful`: it may contain one, so a human must read it. */
export type StopRequest = "stop" | "doubtful";

/** Words that change nothing about the request. */
const courtesies = new Set(
  "please pls plz kindly just now immediately asap any more anymore again ever thanks thank you hi hello ok".split(" "),
);

const texts = "(?:(?:these|those|your|such) )?(?:(?:text|sms) )?(?:texts?|messages?|sms|msgs?|txts?)";
const never = "(?:do not|don t|dont|never)";
const write = "(?:text|txt|message|sms)";
const writing = "(?:texting|txting|messaging)";
const list = "(?:(?:this|your|the) )?(?:(?:sms|text|texting|mailing|contact) )?list";

/** The whole message, without its courtesies. */
const requests = new RegExp(
  `^(?:stop|(?:stop|quit) ${writing}(?: (?:me|us|this number))?|(?:stop|quit) sending(?: (?:me|us))? ${texts}|${never} ${write} (?:me|us|this number)|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off|off of) ${list})$`,
);

/** Any part of a message. */
const doubtful = new RegExp(
  `\\b(?:(?:stop|quit) ${writing}|(?:stop|quit) (?:contacting|sending|spamming|bothering|harassing) (?:me|us)|${never} (?:ever )?(?:${write}|contact) (?:me|us)|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off)|leave me alone)\\b`,
);

/** Whole messages that ask for no more texts in languages without keywords of their own (consent.ts), or that often do. */
const doubtfulMessages = new Set(
  "stop it|stop this|remove me|td|退订|退訂|取消订阅|停止|配信停止|配信解除|수신거부|סטופ|הסר|توقف|إيقاف|стоп|отписаться|отписка|στοπ|iptal|avregistrera|avsluta|afmeld|frameld|avmeld|lopeta|odhlásit|dezabonare|leiratkozás"
    .split("|")
    .map(simple),
);

/** No request is longer than this number of characters. */
const longest = 320;

/** Returns the request that a text expresses; null for an ordinary message. */
export function requestIn(text: string): StopRequest | null {
  if (text.length > longest) return null;
  const said = simple(text);
  const words = said.split(" ").filter((word) => !courtesies.has(word));
  if (requests.test(words.join(" "))) return "stop";
  return doubtfulMessages.has(said) || doubtful.test(said) ? "doubtful" : null;
}

/** Returns the words in lower case, without accents, separated by single spaces. */
function simple(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}/gu, "")
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
