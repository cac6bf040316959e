// Detects bounces, standard delivery reports (RFC 3464) and the many older forms, and converts them into delivery
// events for our drafts. Detects reports of DMARC, which are about no draft.

import type { DeliveryEvent, ExternalId, SendKey } from "bridgehead/contract";
import type { Arrival } from "../../events.ts";
import { cleanAddress, domainOf, type Identity, isDaemon, messageIdsOf } from "../headers.ts";
import type { DeliveryReport, Mail } from "../mail.ts";
import { idsOfReturned } from "../special-parts.ts";
import { dmarcFile, otherReasons } from "./phrases.ts";

export interface Bounce {
  readonly kind: "bounce";
  /** True when a retry to the address cannot succeed. */
  readonly permanent: boolean;
  readonly recipients: readonly string[];
  /** True when `recipients` were parsed from text: any address in the text may be among them. */
  readonly guessed: boolean;
  /** Message-IDs of the messages that bounced. */
  readonly about: readonly string[];
  readonly envelopeId: string | null;
  readonly detail: string;
}

/** Returns the bounce of a standard report with at least one failed recipient. */
export function reportedBounce(mail: Mail): Bounce | null {
  const { report } = mail;
  if (report === null || report.type !== "delivery-status") return null;
  const failed = report.recipients.filter(
    ({ action, status }) => action === "failed" || action === "expired" || (action === "" && /^[45]/.test(status)),
  );
  const [first] = failed;
  if (first === undefined) return null;
  return {
    kind: "bounce",
    permanent: failed.every((one) => isGone(one, mail)),
    recipients: [...new Set(failed.map((one) => one.address).filter((address) => address !== ""))],
    guessed: false,
    about: returnedIds(mail),
    envelopeId: report.envelopeId,
    detail: `${first.status} ${first.diagnostic}`.trim().slice(0, 500),
  };
}

/** Exim writes 5.0.0 for every failure, and the reason into the text alone unless another server has given it. */
function isGone({ action, status, diagnostic }: DeliveryReport["recipients"][number], mail: Mail): boolean {
  if (action === "expired") return false;
  return isPermanent(status, diagnostic === "" && unspecific.test(status) ? reportText(mail) : diagnostic);
}

/** True when the address itself is invalid, by the status and by the codes in the diagnostic. Servers write 5.0.0 or 5.1.x
 *  for every failure and the reason into the diagnostic, so one code about something else suffices. A bare 552 is a full
 *  mailbox (RFC 5321, 4.2.3), and without any code the words decide. */
function isPermanent(status: string, diagnostic: string): boolean {
  const codes = [status, ...(diagnostic.match(enhancedCodes) ?? [])].filter((code) => code !== "");
  if (codes.some((code) => passing.test(code))) return false;
  if (codes.some((code) => !unspecific.test(code))) return true;
  return !/^(?:4|552)/.test(replyCode.exec(diagnostic)?.[0] ?? "") && !otherReasons.test(diagnostic);
}

const unspecific = /^(?:5\.[01]\.0)?$/;

/** Codes of RFC 3463 that do not say that the address is invalid. 5.1.7 to 5.1.9 are about the sender's address. A full mailbox
 *  (5.2.2), a loop (5.4.6, 5.4.14) and an expired message (5.4.7, of Exchange 5.4.3xx) pass; Exchange's 5.4.310 is a domain that
 *  does not exist. 5.3, 5.6 and 5.7 are about the message, the system or a policy (a spam filter, a size limit), and the
 *  next message may be accepted. */
const passing = /^(?:4|5\.(?:1\.[7-9]|2\.[23]|4\.(?:[67]|14|3(?!10)\d\d)|[367]\.\d+)$)/;
/** IP addresses like 5.9.12.33 are no codes. */
const enhancedCodes = /(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.]*\.?\d)/g;
const replyCode = /(?<![\d.])[45][0-5]\d(?=[\s:-]|$)/;

const serverName = /mail delivery (?:sub)?system|mailer-daemon/i;
/** What small servers write into From instead of an address: `MAILER-DAEMON <>`, `postmaster`, `<>`. */
const bareServer = new RegExp(`${serverName.source}|^\\s{0,5}<?\\s{0,5}(?:postmaster)?\\s{0,5}>?\\s{0,5}$`, "i");

/** True for the author of delivery reports, by the address or the name in From. */
export const isMailServer = ({ from, headers }: Pick<Mail, "from" | "headers">): boolean =>
  from.some(({ address, name }) => isDaemon(address) || serverName.test(name)) ||
  (from.length === 0 && headers.some(({ name, value }) => name === "from" && bareServer.test(value.slice(0, 500))));

/** True for an aggregate report of DMARC under another subject: its one file is named for the sender's domain and ours (RFC 7489,
 *  7.2.1.1). A customer who sends us a report has it from another domain, or about another one. */
export function isDmarcReport({ attachments, from: [sender], inReplyTo }: Mail, own: readonly string[]): boolean {
  const [file, ...more] = attachments.filter(({ inline }) => !inline);
  const [, receiver, about] = dmarcFile.exec(file?.name.toLowerCase() ?? "") ?? [];
  if (receiver === undefined || about === undefined || more.length + inReplyTo.length > 0) return false;
  const isWithin = (domain: string, other: string) =>
    `.${domain}`.endsWith(`.${other}`) || `.${other}`.endsWith(`.${domain}`);
  return (
    isWithin(domainOf(sender?.address ?? ""), receiver) && own.some((address) => isWithin(domainOf(address), about))
  );
}

/** Detects bounces without a machine-readable part: the text of a failure, and a trace of the message that bounced. The
 *  answered Message-ID counts as a trace only when we created it. `daemon`: the sender is a mail server; otherwise the
 *  message has the null sender or names the recipients that failed. */
export function guessedBounce(mail: Mail, daemon: boolean, isOurs: (messageId: string) => boolean): Bounce | null {
  if (isNoFailure(mail)) return null;
  const names = mail.headers.some(({ name }) => name === "x-failed-recipients");
  return names || soundsFailed(mail) ? bounceInText(mail, statusOf(mail), daemon, isOurs) : null;
}

/** Detects the bounce in a delivery report that names no recipient with an action or a status. Without these fields a report
 *  of a delay or of a delivery looks the same, so the text must say that the delivery has failed. */
export function incompleteBounce(mail: Mail, daemon: boolean, isOurs: (messageId: string) => boolean): Bounce | null {
  const { report } = mail;
  if (report?.type !== "delivery-status") return null;
  if (report.recipients.some((one) => one.action !== "" || one.status !== "")) return null;
  if (isNoFailure(mail)) return null;
  const status = statusOf(mail);
  const isFailure = status.startsWith("5") || beginningOf(mail).some((text) => failures.test(text));
  return isFailure ? bounceInText(mail, status, daemon, isOurs) : null;
}

/** Returns the first status code of the text, or of the diagnostics of recipients without a status, as `statusIn`. */
function statusOf({ fullText, report }: Mail): string {
  const diagnostics = report?.recipients.map((one) => one.diagnostic) ?? [];
  return statusIn([fullText.slice(0, 20_000), ...diagnostics].join("\n"));
}

function bounceInText(
  mail: Mail,
  status: string,
  daemon: boolean,
  isOurs: (messageId: string) => boolean,
): Bounce | null {
  const returned = returnedIds(mail);
  const about = returned.length === 0 && daemon ? answeredIds(mail).filter(isOurs) : returned;
  const recipients = failedRecipients(mail).filter((address) => !about.some((id) => id.includes(address)));
  // A daemon sender alone, or an id alone, may be any automatic message. With the text of a failure
  // (checked above), an id, or a recipient in a daemon's message, is sufficient.
  if (about.length === 0 && (recipients.length === 0 || !daemon)) return null;
  return {
    kind: "bounce",
    permanent: isPermanent("", status || reportText(mail)),
    recipients,
    guessed: true,
    about,
    envelopeId: null,
    detail: `${/^\d[\d.]*\d/.exec(status)?.[0] ?? ""} ${mail.subject}`.trim().slice(0, 500),
  };
}

/** True for a report of a delay or of a delivery. */
function isNoFailure(mail: Mail): boolean {
  const text = reportText(mail);
  return noFailureSubject.test(mail.subject) || (noFailure.test(text) && !final.test(text));
}

/** Matches the subject of a report of a delay or of a delivery. The subject of the returned message does not count:
 *  "Undeliverable: My parcel is delayed". */
const noFailureSubject =
  /^(?:delayed|delivered|expanded|relayed|successful|warning)\b|delivery.{0,20}\bdelayed|\((?:delay|success|still being retried)/i;
/** Matches the text of a report of a delay or of a delivery. */
const noFailure =
  /\bdelay|still being retried|be retried|will (?:re)?try|will (?:keep|continue)|not yet|delivered yet|warning message|\(success\)|(?<!not )(?:been|was) successfully|noch nicht|verzögert|erfolgreich zugestellt|retardé|différé|pas encore|retrasad|todavía no|ritardo|vertraagd|opóźni/i;
/** Matches the text of a report after the last retry. */
const final = /permanently|permanent (?:error|failure)|giving up|given up|not (?:be )?retried|will not (?:re)?try/i;

/** Returns the report itself: without the returned message, whose header may name delays, and without its subject. */
const reportText = ({ fullText }: Mail): string =>
  (
    fullText.slice(0, 3000).split(/^[>\s|]{0,8}(?:received|return-path|message-id|dkim-signature)\s?:/im, 1)[0] ?? ""
  ).replace(/^\W{0,8}subject\s?:.*/gim, "");

/** Returns the first enhanced status code of the text, else the first response code, with the rest of its paragraph; "" without
 *  one. */
function statusIn(text: string): string {
  const enhanced = text.search(enhancedCodes);
  const at = enhanced < 0 ? text.search(replyCode) : enhanced;
  return at < 0 ? "" : (text.slice(at, at + 300).split(/\n\s{0,5}\n/, 1)[0] ?? "");
}

const failures =
  /undeliver|not (?:be )?delivered|did not reach|n['’]t (?:be )?delivered|unable to deliver|address not found|(?:wasn|couldn)['’]t (?:be )?found|delivery (?:failure|failed|has failed|problem|error)|failure notice|returned (?:mail|to sender)|failed delivery|message (?:failed|rejected|blocked|bounced)|could ?n[o']t be delivered|nondeliverable|unzustellbar|nicht zugestellt|konnte nicht|zustellung (?:fehlgeschlagen|nicht)|remise (?:impossible|différée)|non remis|échec de (?:la )?remise|non distribu|no se pudo entregar|no (?:se )?entregad|error de entrega|mancata consegna|non recapit|impossibile recapitare|onbestelbaar|niet (?:worden )?(?:bezorgd|afgeleverd)|não (?:foi )?entreg|falha na entrega|niedostarcz|nie dostarczono|kunde inte levereras|olevererbart|kan ikke leveres|kunne ikke leveres|toimitus epäonnistui|nedoručiteln|не доставлен|недоставлен|ошибка доставки|teslim edilemedi|kézbesíthetetlen|配信不能|配信できません|未配信|配送不能|退信|无法投递|無法傳遞|배달 실패|반송/i;

/** Matches every report of a mail server, also that of a delivery. */
const reports = /delivery (?:status|report|notification)|mail delivery/i;

const soundsFailed = (mail: Mail): boolean =>
  beginningOf(mail).some((text) => failures.test(text) || reports.test(text));

const beginningOf = (mail: Mail): readonly string[] => [mail.subject.slice(0, 500), reportText(mail)];

const returnedIds = (mail: Mail): readonly string[] =>
  mail.report !== null && mail.report.about.length > 0 ? mail.report.about : embeddedIds(mail);

/** Returns the Message-IDs that the report itself answers. Only the last reference is the returned message; the others are
 *  of its thread, with our earlier replies among them. */
const answeredIds = (mail: Mail): readonly string[] => [...new Set([...mail.inReplyTo, ...mail.references.slice(-1)])];

/** Returns the Message-IDs of a returned message that is attached, or pasted into the text as header lines. */
function embeddedIds(mail: Mail): string[] {
  const attached = mail.attachments
    .filter((file) => /^(?:message\/|text\/rfc822)/.test(file.mediaType))
    .flatMap((file) => idsOfReturned(file.bytes));
  const pasted = mail.fullText
    .slice(0, 200_000)
    .split("\n")
    .filter((line) => line.length < 1200 && /^[>\s|]{0,8}message-id\s?:/i.test(line))
    .flatMap((line) => messageIdsOf(line));
  return [...new Set([...attached, ...pasted])].slice(0, 20);
}

/** Returns every address that the text may name as failed, the most certain first. */
function failedRecipients(mail: Mail): string[] {
  const named = mail.headers
    .filter((header) => header.name === "x-failed-recipients")
    .flatMap((header) => header.value.split(","))
    .concat(mail.report?.recipients.map((one) => one.address) ?? []);
  const inText = mail.fullText
    .slice(0, 20_000)
    .split("\n")
    .slice(0, 200)
    .flatMap((line) => addressesIn(line.slice(0, 400)));
  const found = [...named, ...inText].map((text) => cleanAddress(text.trim()));
  const own = new Set(mail.to.map((one) => one.address));
  return [...new Set(found.filter((address) => address !== "" && !own.has(address) && !isDaemon(address)))].slice(
    0,
    50,
  );
}

const addressesIn = (line: string): string[] =>
  line
    .split(/[\s<>()[\]"'“”„*,;（）《》【】「」，。；：、]+/)
    .map((word) => word.replace(/^(?:mailto|rfc822|smtp):/i, "").replace(/[.:!?]+$/, ""))
    .filter((word) => /^[^@:]{1,64}@[^@:]{1,250}$/.test(word));

/** Returns one event for each recipient of a machine-readable report, at least one; the first has the message's own id.
 *  A report parsed from text returns one event with every address in the text; the core determines the recipient. */
export function deliveries(
  self: Identity,
  arrival: Arrival,
  mail: Mail,
  bounce: Bounce,
  raw: Uint8Array | null,
): DeliveryEvent[] {
  const recipients = bounce.recipients.length > 0 && !bounce.guessed ? bounce.recipients : [null];
  return recipients.map((recipient, index) => ({
    kind: "delivery",
    id: index === 0 ? arrival.id : (`${arrival.id}/${index + 1}` as ExternalId),
    fingerprint: `${mail.messageId ?? ""}+${mail.digest}${index === 0 ? "" : `/${index + 1}`}`,
    about: aboutOf(self, mail, bounce, recipient),
    ...fateOf(mail, bounce, recipient),
    ...(bounce.detail ? { detail: bounce.detail } : {}),
    ...(index === 0 && raw !== null ? { raw } : {}),
  }));
}

function aboutOf(self: Identity, mail: Mail, bounce: Bounce, recipient: string | null): DeliveryEvent["about"] {
  // A server may have replaced our Message-ID. The report's own headers then name our earlier replies of the thread, which
  // have not bounced, so they decide only when the report has no Message-ID of the returned message.
  const bounced = bounce.about.length > 0 ? bounce.about : answeredIds(mail);
  const sent = [...new Set([...bounced, ...mail.inReplyTo])];
  const key = keyIn(self, bounce.envelopeId) ?? bounced.map((id) => self.keyOf(id)).find((found) => found !== null);
  return {
    ...(key ? { key } : {}),
    ...(sent.length > 0 ? { sent: sent as ExternalId[] } : {}),
    ...(recipient ? { recipient } : {}),
    ...(bounce.guessed && bounce.recipients.length > 0 ? { mentioned: bounce.recipients } : {}),
  };
}

/** The envelope id is the draft's key as we sent it to the server, or a Message-ID that we created. */
function keyIn(self: Identity, envelopeId: string | null): SendKey | null {
  if (envelopeId === null) return null;
  return self.keyOf(envelopeId) ?? self.keyOf(`${envelopeId}.bridgehead@${self.address.split("@")[1]}`);
}

/** `delayed` and `delivered` reports have the form of a bounce but do not report a failure. */
function fateOf(mail: Mail, bounce: Bounce, recipient: string | null): Pick<DeliveryEvent, "state" | "permanent"> {
  const rows = mail.report?.recipients ?? [];
  const row = rows.find((one) => one.address === recipient) ?? rows[0];
  if (row?.action === "delayed") return { state: "accepted" };
  if (row !== undefined && ["delivered", "relayed", "expanded"].includes(row.action)) return { state: "delivered" };
  const permanent = row === undefined || bounce.guessed ? bounce.permanent : isGone(row, mail);
  return { state: "failed", permanent };
}
