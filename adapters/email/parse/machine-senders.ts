// Recognizes addresses of programs, whose mailboxes no person reads.

import { asciiAddress } from "./headers.ts";

/** Matches "do not answer" phrases in the local part, without dots, dashes and underscores. */
const noReply =
  /no(?:t)?reply|noreplies|noreplay|donotreply|dontreply|donotrespond|donotanswer|noanswer|noresponse|neverreply|unmonitored|nichtantworten|keineantwort|nichtbeantworten|nepasrepondre|pasdereponse|sansreponse|noresponder|norespondas|nocontestar|noreponder|nonrispondere|norispondere|nietbeantwoorden|nietantwoorden|geenantwoord|naoresponda|naoresponder|nieodpowiadaj|nieodpowiadac|svarainte|svarejinte|svarikke|ikkesvar|besvarikke|alavastaa|eivastausta|neodpovidat|neodpovidejte|neodpovedat|neotvechat|neotvechajte|yanitlamayin|cevaplamayin|neraspunde|nuraspunde|nevalaszoljon|nincsvalasz|neodgovaraj|neodgovarjaj/;

/** Local parts that always belong to programs; the whole local part is compared. */
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

/** True for `mailer-daemon@...` and `postmaster@...`, with or without text after a plus sign, and for
 *  Exchange's own sender. */
export function isDaemon(address: string): boolean {
  if (/^microsoftexchange[0-9a-f]{20,40}@/i.test(address)) return true;
  return daemons.has(bare((local(address).split("+", 1)[0] ?? "").slice(0, 100)));
}

/** True for "no-reply" in any of its spellings and languages, also as a part: `orders-noreply`,
 *  `noreply.12345`. */
export function isNoReply(address: string): boolean {
  return noReply.test(bare(local(address).slice(0, 100)));
}

/** True for a mailbox that belongs to a program by its name: `bounces+123`, `listserv`, `notifications`. */
export function isProgram(address: string): boolean {
  return programs.has(name(local(address).split("+", 1)[0] ?? ""));
}

/** True when the address, or its domain as `@example.com`, is on the list. */
export function isListed(address: string, list: readonly string[]): boolean {
  const domain = address.slice(address.lastIndexOf("@")).toLowerCase();
  return list.some((entry) => {
    const plain = asciiAddress(entry.toLowerCase());
    return plain === address.toLowerCase() || plain === domain;
  });
}
