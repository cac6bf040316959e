// Recognizes requests for no more texts in other words than the keywords. CTIA's principles require that a request in normal
// language ("please opt me out") is followed, and the FCC accepts any reasonable one (47 CFR 64.1200(a)(10)).

/** `stop`: the whole message is such a request · `doubtful`: it may contain one, so a human must read it. */
export type StopRequest = "stop" | "doubtful";

/** Words that change nothing about the request, in the languages of the keywords (consent.ts). */
const courtesies = new RegExp(
  `(?<![^ ])(?:${[
    "please|pls|plz|kindly|just|now|immediately|asap|any|(?<!no )more|anymore|again|ever|thanks|thank you|thx|hi|hello|ok|okay",
    "bitte|danke|svp|stp|s il vous plait|s il te plait|merci|por favor|gracias|per favore|per piacere|grazie",
    "obrigad[oa]|alsjeblieft|alstublieft|aub|bedankt|dank (?:u|je)|prosze|dziekuje",
  ].join("|")})(?![^ ])`,
  "g",
);

const texts = "(?:(?:these|those|your|such) )?(?:(?:text|sms) )?(?:texts?|messages?|sms|msgs?|txts?)";
const allTexts =
  "(?:(?:all|any) (?:of )?)?(?:(?:the|these|those|your|such) )?(?:(?:text|sms) )?(?:texts|messages|sms|msgs|txts)";
const never = "(?:do not|don t|dont|never)";
const write = "(?:text|txt|message|sms)";
const writing = "(?:texting|txting|messaging)";
const list = "(?:(?:this|your|the) )?(?:(?:sms|text|texting|mailing|contact) )?list";

/** The whole message, without its courtesies. */
const requests = new RegExp(
  `^(?:stop|(?:stop|quit) ${writing}(?: (?:me|us|this number))?|(?:stop|quit) sending(?: (?:me|us))? ${texts}|(?:stop|quit|end|cancel) ${allTexts}|no more (?:of )?${allTexts}|${never} ${write} (?:me|us|this number)|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off|off of) ${list})$`,
);

/** Any part of a message. */
const doubtful = new RegExp(
  `\\b(?:(?:stop|quit) ${writing}|(?:stop|quit) (?:contacting|sending|spamming|bothering|harassing) (?:me|us)|${never} (?:ever )?(?:${write}|contact) (?:me|us)|opt me out|unsubscribe me|(?:remove|take) (?:me|my number) (?:from|off)|leave me alone)\\b`,
);

const leave = "(?:unsubscrib(?:e|ed|ing)|opt(?:ed|ing)? ?out)";
/** Any part of a short message. */
const doubtfulInShort = new RegExp(
  `\\b(?:${leave}|(?:stop|quit|end|cancel) ${allTexts}|no more (?:of )?${allTexts}|${never} want (?:any )?(?:more )?${allTexts})\\b`,
);
/** In a question this is about something other than texts: "can I opt out of the insurance?" */
const leaveOther = new RegExp(
  `\\b${leave} (?:from|of) (?!(?:all|any|this|these|those|you|your|it|everything)\\b|${allTexts}\\b|${list}\\b)`,
  "g",
);

/** Whole messages that ask for no more texts in languages without keywords of their own (consent.ts), or that often do. */
const doubtfulMessages = new Set(
  "stop it|stop this|remove me|td|退订|退訂|取消订阅|停止|配信停止|配信解除|수신거부|סטופ|הסר|توقف|إيقاف|стоп|отписаться|отписка|στοπ|iptal|avregistrera|avsluta|afmeld|frameld|avmeld|lopeta|odhlásit|dezabonare|leiratkozás"
    .split("|")
    .map(simple),
);

/** No request is longer than this number of characters. */
const longest = 320;
/** Longer messages may mention an opt-out in passing. Characters. */
const longestShort = 100;

/** Returns the request that a text expresses; null for an ordinary message. `listed` is called with the message, and with
 *  the message without its courtesies. It returns what the channel's keywords say about such a message, or undefined
 *  when they say nothing. */
export function requestIn(
  text: string,
  listed: (words: string) => StopRequest | null | undefined = () => undefined,
): StopRequest | null {
  if (text.length > longest) return null;
  const said = simple(text);
  const request = said.replace(courtesies, "").replace(/ {2,}/g, " ").trim();
  for (const words of [said, request]) {
    const meaning = listed(words);
    if (meaning !== undefined) return meaning;
  }
  if (requests.test(request)) return "stop";
  if (doubtfulMessages.has(said) || doubtfulMessages.has(request) || doubtful.test(said)) return "doubtful";
  if (said.length > longestShort) return null;
  const isQuestion = /[?？]$/.test(text.trimEnd());
  return doubtfulInShort.test(isQuestion ? said.replace(leaveOther, "") : said) ? "doubtful" : null;
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
