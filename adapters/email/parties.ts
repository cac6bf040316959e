// Who takes part in a message: the channel's own identity (its addresses, the Message-IDs it creates, the tokens in
// its addresses), the author, and the addresses that may receive the response.
//
// Reply-To and Cc are text that any sender can write. A response continues a conversation of the From address, so it
// goes to another address only when From is authenticated or the other address belongs to the same organization.

import { createRequire } from "node:module";
import type { ExternalId, SendKey, ThreadToken } from "bridgehead/contract";
import type { EventConfig } from "./events.ts";
import { asciiAddress, domainOf, isListed, keyIn, mailboxesOf, withoutPlus } from "./parse/headers.ts";
import type { Mail, Mailbox, SenderAuth } from "./parse/mail.ts";

export interface Identity {
  /** Lower case, its domain as A-labels; the From address of responses. */
  readonly address: string;
  /** `address` and the aliases. */
  readonly addresses: readonly string[];
  /** Returns the Message-ID of a draft, with angle brackets. */
  messageId(key: SendKey): ExternalId;
  /** Returns the send key in a Message-ID that we created (with or without brackets), or null. */
  keyOf(messageId: string): SendKey | null;
  /** `support+<token>@example.com` */
  tokenAddress(token: ThreadToken): string;
  /** Returns the token when this is one of our addresses with a token, else null. */
  tokenOf(address: string): ThreadToken | null;
  /** Also true for our addresses with any text after a plus sign. */
  isOwn(address: string): boolean;
}

/** Pure. `aliases` may be in other domains. */
export function identity(address: string, aliases: readonly string[]): Identity {
  const main = asciiAddress(address.toLowerCase());
  const addresses = [...new Set([main, ...aliases.map((alias) => asciiAddress(alias.toLowerCase()))])];
  const domains = new Set(addresses.map(domainOf));
  const own = new Set(addresses);
  const domain = domainOf(main);
  return {
    address: main,
    addresses,
    messageId: (key) => `<${key}.bridgehead@${domain}>` as ExternalId,
    keyOf: (messageId) => keyIn(messageId, domains) as SendKey | null,
    tokenAddress: (token) => main.replace(/(\+[^@]*)?@/, `+${token}@`),
    tokenOf(candidate) {
      const [bare, plus] = withoutPlus(asciiAddress(candidate.toLowerCase()));
      return plus !== null && own.has(bare) && /^[a-z0-9]{10,64}$/.test(plus) ? (plus as ThreadToken) : null;
    },
    isOwn(candidate) {
      const plain = asciiAddress(candidate.toLowerCase());
      return own.has(plain) || own.has(withoutPlus(plain)[0]);
    },
  };
}

export interface Author {
  /** `form`: From is a contact form, `author` its Reply-To. `list`: From is an accepted list that
   *  replaced the author. */
  readonly via: "direct" | "form" | "list";
  /** The customer; null when an accepted list does not name the author. */
  readonly author: Mailbox | null;
  /** Where the response goes when that is not the author's address. */
  readonly replyTo: Mailbox | null;
  /** The other recipients that may receive the response and take part in the conversation. */
  readonly others: readonly Mailbox[];
  /** True when the From address is authenticated and is the author's own. */
  readonly verified: boolean;
}

/** With more recipients a message is a circular, or an attempt to make us write to all of them: only its
 *  author is answered. */
const othersLimit = 50;

/** Applies `contact_forms` and `accept_lists` of the configuration. `auth` is null when `sender_auth` is off. */
export function authorOf(config: EventConfig, self: Identity, mail: Mail, auth: SenderAuth | null): Author {
  const from = mail.from.length === 1 && mail.fromFields === 1 ? mail.from[0] : undefined;
  const first = mail.from[0] ?? mail.sender ?? { address: "unknown@invalid", name: "" };
  const alone = { replyTo: null, others: [], verified: false };
  if (from === undefined) return { via: "direct", author: first, ...alone };
  const authenticated = auth?.verdict === "pass";
  const isExternal = (one: Mailbox) =>
    !self.isOwn(one.address) && !isListed(one.address, config.accept_lists);
  if (isListed(from.address, config.accept_lists)) {
    const author = originalAuthor(mail, isExternal);
    // Without list headers the From address is itself the author.
    if (author !== null || isFromList(mail)) return { via: "list", author, ...alone };
  }
  const customer = formCustomer(config, self, mail, from, authenticated);
  if (customer !== null) return { via: "form", author: customer, ...alone };
  const isTrusted = (one: Mailbox) => authenticated || isSameOrganization(one.address, from.address);
  const replyTo = replyToOf(mail, from, isExternal, isTrusted);
  const others = [...mail.to, ...mail.cc].filter(
    (one) =>
      isExternal(one) && isTrusted(one) && one.address !== from.address && one.address !== replyTo?.address,
  );
  const all = unique(others);
  return {
    via: "direct",
    author: from,
    replyTo,
    others: all.length > othersLimit ? [] : all,
    verified: authenticated,
  };
}

/** Returns the Reply-To of a contact form, or null when the message does not come from one. Forms write
 *  From in our own domain. Anyone can forge that, so From must be listed in `contact_forms` or
 *  authenticated. The customer's address is typed into the form and is therefore never verified. */
function formCustomer(
  config: EventConfig,
  self: Identity,
  mail: Mail,
  from: Mailbox,
  authenticated: boolean,
): Mailbox | null {
  const [customer, ...more] = unique(mail.replyTo);
  if (customer === undefined || more.length > 0) return null;
  if (self.isOwn(customer.address) || customer.address === from.address) return null;
  if (isListed(from.address, config.contact_forms)) return customer;
  const isOurs = self.addresses.some((own) => isSameOrganization(own, from.address));
  const isForm = authenticated && isOurs && !isSameOrganization(customer.address, from.address);
  return isForm ? customer : null;
}

/** Returns null when the response goes to From: Reply-To is absent, names From, our own address or a
 *  list, or is not trusted. */
function replyToOf(
  mail: Mail,
  from: Mailbox,
  isExternal: (one: Mailbox) => boolean,
  isTrusted: (one: Mailbox) => boolean,
): Mailbox | null {
  const named = unique(mail.replyTo);
  if (named.some((one) => one.address === from.address)) return null;
  const lists = new Set(
    mailboxesOf(mail.headers, "list-post").map(({ address }) => address.replace(/^mailto:/, "")),
  );
  const wanted = named.filter((one) => isExternal(one) && !lists.has(one.address));
  return wanted.every(isTrusted) ? (wanted[0] ?? null) : null;
}

const isFromList = (mail: Mail): boolean =>
  mail.headers.some(({ name }) =>
    /^(?:list-(?:id|post|unsubscribe)|mailing-list|x-original-sender)$/.test(name),
  );

/** Returns the author behind a list. Lists that rewrite From for DMARC name the author in the
 *  X-Original-From, Reply-To or X-Original-Sender header. */
function originalAuthor(mail: Mail, isExternal: (one: Mailbox) => boolean): Mailbox | null {
  const sources = [
    mailboxesOf(mail.headers, "x-original-from"),
    mail.replyTo,
    mailboxesOf(mail.headers, "x-original-sender"),
  ];
  for (const source of sources) {
    const [author, ...more] = unique(source.filter(isExternal));
    if (author !== undefined && more.length === 0) return author;
  }
  return null;
}

/** True for two addresses in one organizational domain (Public Suffix List, with its private section).
 *  For domains that give addresses to the public, only the same address counts as the same organization. */
export function isSameOrganization(left: string, right: string): boolean {
  if (left === right) return true;
  const [one, other] = [organizationOf(left), organizationOf(right)];
  return one === other && one !== "" && !publicProviders.has(one);
}

const require = createRequire(import.meta.url);

function organizationOf(address: string): string {
  const host = address.slice(address.lastIndexOf("@") + 1);
  // Loaded on demand to save memory: few messages name a second address.
  const { parse } = require("tldts") as typeof import("tldts");
  const { domain, domainWithoutSuffix, isIcann, isPrivate } = parse(host, { allowPrivateDomains: true });
  if (publicBrands.has(domainWithoutSuffix ?? "")) return "";
  // A host that is a public suffix has no owner. A host that is not in the list (an intranet's) is its own
  // domain.
  return domain ?? (isIcann === true || isPrivate === true ? "" : host);
}

/** Providers with a domain in many countries: yahoo.com.au, hotmail.se, outlook.com.br. */
const publicBrands: ReadonlySet<string> = new Set(
  "yahoo hotmail outlook live msn gmx yandex aol ymail googlemail proton protonmail tutanota zoho".split(" "),
);

/** Mailbox providers at which anyone can open an address, and shared tenant domains. */
const publicProviders: ReadonlySet<string> = new Set(
  [
    "gmail.com googlemail.com outlook.com hotmail.com live.com msn.com passport.com onmicrosoft.com hotmail.co.uk hotmail.fr",
    "hotmail.de hotmail.it hotmail.es live.co.uk live.fr live.de live.it live.nl outlook.de outlook.fr outlook.es outlook.it",
    "yahoo.com ymail.com rocketmail.com myyahoo.com yahoo.co.uk yahoo.fr yahoo.de yahoo.it yahoo.es yahoo.co.jp yahoo.co.in",
    "yahoo.com.br yahoo.ca yahoo.in aol.com aim.com aol.de icloud.com me.com mac.com privaterelay.appleid.com appleid.com",
    "proton.me protonmail.com protonmail.ch pm.me tutanota.com tutanota.de tuta.com tuta.io tutamail.com keemail.me",
    "gmx.de gmx.net gmx.at gmx.ch gmx.com gmx.fr gmx.us web.de email.de freenet.de t-online.de magenta.de arcor.de mail.de",
    "posteo.de posteo.net mailbox.org mail.com email.com usa.com zoho.com zohomail.com zohomail.eu zoho.eu fastmail.com",
    "fastmail.fm hushmail.com hey.com duck.com mozmail.com simplelogin.com anonaddy.com mailinator.com yopmail.com",
    "mail.ru bk.ru inbox.ru list.ru internet.ru xmail.ru yandex.ru yandex.com ya.ru rambler.ru lenta.ru ukr.net i.ua",
    "qq.com foxmail.com 163.com 126.com yeah.net sina.com sina.cn sohu.com 139.com 189.cn aliyun.com naver.com daum.net",
    "hanmail.net kakao.com nate.com docomo.ne.jp ezweb.ne.jp softbank.ne.jp rediffmail.com orange.fr wanadoo.fr free.fr",
    "laposte.net sfr.fr neuf.fr bbox.fr libero.it virgilio.it alice.it tim.it tin.it tiscali.it wp.pl o2.pl onet.pl op.pl",
    "interia.pl gazeta.pl seznam.cz email.cz centrum.cz atlas.cz azet.sk freemail.hu citromail.hu abv.bg mail.bg ziggo.nl",
    "kpnmail.nl planet.nl hetnet.nl xs4all.nl home.nl telenet.be skynet.be proximus.be bluewin.ch hispeed.ch sunrise.ch",
    "chello.at aon.at a1.net telia.com bredband.net comhem.se online.no sapo.pt terra.com.br uol.com.br bol.com.br ig.com.br",
    "globo.com btinternet.com sky.com virginmedia.com ntlworld.com talktalk.net blueyonder.co.uk comcast.net verizon.net",
    "att.net sbcglobal.net bellsouth.net cox.net charter.net earthlink.net optonline.net rogers.com shaw.ca sympatico.ca",
    "frontier.com frontiernet.net windstream.net centurylink.net centurytel.net embarqmail.com q.com rr.com twc.com",
    "roadrunner.com mindspring.com juno.com netzero.net tds.net suddenlink.net videotron.ca bell.net eastlink.ca cogeco.ca",
    "iinet.net.au tpg.com.au westnet.com.au dodo.com.au plus.com plus.net talk21.com btopenworld.com virgin.net tesco.net",
    "vodafone.de vodafonemail.de kabelmail.de o2online.de osnanet.de netcologne.de ewe.net bluemail.ch netplus.ch utanet.at",
    "club-internet.fr numericable.fr cegetel.net aliceadsl.fr inwind.it iol.it fastwebnet.it telefonica.net terra.es ono.com",
    "netcabo.pt otenet.gr tlen.pl vp.pl poczta.fm volny.cz post.cz zoznam.sk centrum.sk t-online.hu mweb.co.za telkomsa.net",
    "biglobe.ne.jp nifty.com ocn.ne.jp so-net.ne.jp singnet.com.sg netvigator.com hinet.net indiatimes.com sify.com",
    "telus.net bigpond.com bigpond.net.au optusnet.com.au xtra.co.nz walla.co.il walla.com inbox.lv inbox.lt",
  ].flatMap((line) => line.split(" ")),
);

function unique(mailboxes: readonly Mailbox[]): Mailbox[] {
  return [...new Map(mailboxes.map((one) => [one.address, one])).values()];
}
