// Facts about large providers, by the host name of their servers; the canonical names of addresses and mailboxes; and
// whether two addresses belong to the same organization, which is never true for the addresses of public providers.

import { createRequire } from "node:module";
import type { ExclusiveResource } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";
import { asciiAddress } from "./parse/headers.ts";

const require = createRequire(import.meta.url);

export interface EmailProvider {
  /** True when the provider files every message we send in the Sent folder. */
  readonly filesSent: boolean;
  /** True when the provider keeps our Message-ID. Only then does its absence from Sent prove that the
   *  message was not sent. */
  readonly keepsMessageId: boolean;
  /** The longest time in ms that the server lets a connection idle; null when no limit below the default is known. */
  readonly idleLimit: number | null;
  /** The largest number of concurrent SMTP connections that the server accepts from one account. */
  readonly connections: number;
}

const unknownProvider: EmailProvider = {
  filesSent: false,
  keepsMessageId: true,
  idleLimit: null,
  connections: Number.POSITIVE_INFINITY,
};

// Sources: Google and Apple document that SMTP submission files the copy; Microsoft: "SMTP AUTH client submission"
// stores in Sent Items and replaces Message-IDs; idle limits as EmailEngine uses them; Microsoft: "SMTP AUTH: three concurrent connections".
const table: readonly (readonly [RegExp, Partial<EmailProvider>])[] = [
  [/(^|\.)(gmail|googlemail)\.com$/, { filesSent: true, keepsMessageId: true }],
  [
    /(^|\.)(office365|outlook|hotmail|live)\.com$|(^|\.)outlook\.office\.com$/,
    { filesSent: true, keepsMessageId: false, connections: 3 },
  ],
  [/(^|\.)mail\.me\.com$|(^|\.)icloud\.com$/, { filesSent: true, keepsMessageId: true }],
  [/(^|\.)(yahoo|aol)\.(com|co\.[a-z]+|[a-z]+)$/, { filesSent: true, keepsMessageId: true, idleLimit: 3 * 60_000 }],
  [/(^|\.)(rambler\.ru|163\.com|126\.com)$/, { filesSent: false, keepsMessageId: true, idleLimit: 55_000 }],
];

/** Never fails: an unknown host counts as an ordinary server that files no copies. */
export function providerOf(host: string): EmailProvider {
  const name = host.toLowerCase();
  return { ...unknownProvider, ...table.find(([pattern]) => pattern.test(name))?.[1] };
}

export interface Servers {
  readonly imap: string;
  readonly smtp: string;
  /** False where IMAP logins need OAuth 2. */
  readonly passwords: boolean;
}

// Sources: the providers' documentation for other mail clients. Lists only providers whose IMAP and SMTP
// servers have different names and do not substitute for each other.
const separated: readonly (readonly [imap: string, smtp: string, passwords: boolean])[] = [
  ["imap.gmail.com", "smtp.gmail.com", true],
  ["outlook.office365.com", "smtp.office365.com", false],
  ["imap-mail.outlook.com", "smtp-mail.outlook.com", false],
  ["imap.mail.me.com", "smtp.mail.me.com", true],
  ["imap.mail.yahoo.com", "smtp.mail.yahoo.com", true],
  ["imap.aol.com", "smtp.aol.com", true],
  ["imap.fastmail.com", "smtp.fastmail.com", true],
  ["imap.gmx.net", "mail.gmx.net", true],
  ["imap.gmx.com", "mail.gmx.com", true],
  ["imap.web.de", "smtp.web.de", true],
  ["imap.ionos.com", "smtp.ionos.com", true],
  ["imap.ionos.de", "smtp.ionos.de", true],
  ["imap.strato.de", "smtp.strato.de", true],
  ["imap.zoho.com", "smtp.zoho.com", true],
  ["imap.zoho.eu", "smtp.zoho.eu", true],
  ["imap.yandex.com", "smtp.yandex.com", true],
  ["imap.mail.ru", "smtp.mail.ru", true],
];

/** Returns the servers of the provider that owns the host name; null for providers that are not listed. */
export function serversOf(host: string): Servers | null {
  const name = host.toLowerCase();
  const found = separated.find(([imap, smtp]) => name === imap || name === smtp);
  return found ? { imap: found[0], smtp: found[1], passwords: found[2] } : null;
}

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: returns one mailbox in lower case, its domain as A-labels. Returns null
 *  for anything else (a list, an address with a display name). */
export function mailbox(text: string): string | null {
  const address = asciiAddress(text.trim().toLowerCase());
  return address.length <= longest && shape.test(address) ? address : null;
}

/** Host names of the same service. */
const sameServer: Readonly<Record<string, string>> = {
  "imap.googlemail.com": "imap.gmail.com",
  "outlook.office.com": "outlook.office365.com",
};

/** `AdapterDefinition.exclusive`: returns one name for the folder of an account on a server, however it
 *  is written. Ports 143 and 993 count as the same server. Any other port is a separate server. */
export function mailboxOf(imap: Pick<EmailConfig["imap"], "host" | "port" | "user" | "mailbox">): ExclusiveResource {
  const written = imap.host.trim().toLowerCase().replace(/\.$/, "");
  // URL converts an internationalized name to A-labels, and any form of an IPv6 address to one form.
  const url = URL.parse(`http://${written.includes(":") ? `[${written.replace(/^\[|\]$/g, "")}]` : written}`);
  const name = url?.hostname ?? written;
  const host = sameServer[name] ?? name;
  const port = imap.port === 143 || imap.port === 993 ? "" : `:${imap.port}`;
  const user = imap.user.trim().normalize("NFC").toLowerCase();
  const folder = /^inbox$/i.test(imap.mailbox) ? "INBOX" : imap.mailbox.normalize("NFC");
  return {
    id: `imap:${host}${port}/${user}/${folder}`,
    name: `the folder ${folder} of ${user} on ${host}`,
    key: ["imap", "user"],
  };
}

/** True for two addresses in one organizational domain (Public Suffix List, with its private section).
 *  For domains that give addresses to the public, only the same address counts as the same organization. */
export function isSameOrganization(left: string, right: string): boolean {
  if (left === right) return true;
  const [one, other] = [organizationOf(left), organizationOf(right)];
  return one === other && one !== "" && !publicProviders.has(one);
}

function organizationOf(address: string): string {
  const host = address.slice(address.lastIndexOf("@") + 1);
  // Loaded on demand to save memory: few messages name a second address.
  const { parse } = require("tldts") as typeof import("tldts");
  const { domain, domainWithoutSuffix, isIcann, isPrivate } = parse(host, { allowPrivateDomains: true });
  if (publicBrands.has(domainWithoutSuffix ?? "")) return "";
  // A host that is a public suffix has no owner. A host that is not in the list (an intranet's) is its own domain.
  return domain ?? (isIcann === true || isPrivate === true ? "" : host);
}

/** Providers with a domain in many countries (yahoo.com.au, hotmail.se, outlook.com.br), and marketplaces that give an address
 *  to each customer (marketplace.amazon.de, members.ebay.com, guest.booking.com). */
const publicBrands: ReadonlySet<string> = new Set(
  "yahoo hotmail outlook live msn gmx yandex aol ymail googlemail proton protonmail tutanota zoho amazon ebay booking airbnb".split(
    " ",
  ),
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
    "eircom.net anonaddy.me addy.io slmail.me slmails.com aleeas.com 8alias.com dralias.com passmail.net passmail.com",
    "passinbox.com passfwd.com guerrillamail.com guerrillamail.net sharklasers.com",
  ].flatMap((line) => line.split(" ")),
);
