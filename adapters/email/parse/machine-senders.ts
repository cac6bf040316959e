// Addresses behind which nobody reads.

import { asciiAddress } from "./headers.ts";

/** The part before the @, without dots, dashes and underscores, that says "do not answer" somewhere. */
const noReply =
  /no(?:t)?reply|noreplies|noreplay|donotreply|dontreply|donotrespond|donotanswer|noanswer|noresponse|neverreply|unmonitored|nichtantworten|keineantwort|nichtbeantworten|nepasrepondre|pasdereponse|sansreponse|noresponder|norespondas|nocontestar|noreponder|nonrispondere|norispondere|nietbeantwoorden|nietantwoorden|geenantwoord|naoresponda|naoresponder|nieodpowiadaj|nieodpowiadac|svarainte|svarejinte|svarikke|ikkesvar|besvarikke|alavastaa|eivastausta|neodpovidat|neodpovidejte|neodpovedat|neotvechat|neotvechajte|yanitlamayin|cevaplamayin|neraspunde|nuraspunde|nevalaszoljon|nincsvalasz|neodgovaraj|neodgovarjaj/;

/** Programs that never are a person, by the whole part before the @. */
const programs = new Set(
  [
    "mailerdaemon",
    "daemon",
    "postmaster",
    "maildaemon",
    "maildeliverysubsystem",
    "mailsystem",
    "listserv",
    "majordomo",
    "mailman",
  ].concat(
    [
      "bounce",
      "bounces",
      "autoreply",
      "autoresponder",
      "autoresponse",
      "autoanswer",
      "automailer",
      "nobody",
      "wwwdata",
      "cron",
      "system",
    ],
    [
      "notification",
      "notifications",
      "notify",
      "alerts",
      "newsletter",
      "newsletters",
      "mailrobot",
      "robot",
      "bot",
      "nagios",
    ],
  ),
);

const daemons = new Set(["mailerdaemon", "maildaemon", "maildeliverysubsystem", "mailsystem", "postmaster"]);

const local = (address: string) => address.slice(0, Math.max(0, address.lastIndexOf("@")));
const bare = (text: string) =>
  text
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();

const name = (text: string) => text.replace(/[-_]/g, "").toLowerCase();

/** `mailer-daemon@...` and `postmaster@...`, with or without anything after a plus sign, and Exchange's own sender. */
export function isDaemon(address: string): boolean {
  if (/^microsoftexchange[0-9a-f]{20,40}@/i.test(address)) return true;
  return daemons.has(bare((local(address).split("+", 1)[0] ?? "").slice(0, 100)));
}

/** "no-reply" in any of its spellings and languages, also as a part: `orders-noreply`, `noreply.12345`. */
export function isNoReply(address: string): boolean {
  return noReply.test(bare(local(address).slice(0, 100)));
}

/** A mailbox that belongs to a program by its name: `bounces+123`, `listserv`, `notifications`. */
export function isProgram(address: string): boolean {
  return programs.has(name(local(address).split("+", 1)[0] ?? ""));
}

/** Is the address, or its domain as `@example.com`, on the list? */
export function isListed(address: string, list: readonly string[]): boolean {
  const domain = address.slice(address.lastIndexOf("@")).toLowerCase();
  return list.some((entry) => {
    const plain = asciiAddress(entry.toLowerCase());
    return plain === address.toLowerCase() || plain === domain;
  });
}
