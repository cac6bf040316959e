// Who or what wrote this mail? Pure. The order matters: the first answer counts, and what is likeliest to loop comes first.

import { automaticByHeader, automaticBySubject, has, valueOf } from "./auto-reply.ts";
import { type Bounce, guessedBounce, reportedBounce } from "./bounce.ts";
import { isDaemon, isListed, isNoReply, isProgram } from "./machine-senders.ts";
import type { Mail } from "./mail.ts";

/** What the channel knows of itself. */
export interface OwnIdentity {
  /** Our addresses, lower case. Anything after a plus sign in a mail's address is ignored. */
  readonly addresses: readonly string[];
  /** Did we make this Message-ID? */
  isOurs(messageId: string): boolean;
  /** Machines that are answered like people: addresses, or `@domain`. */
  readonly robots: readonly string[];
  /** Answer mails that name us neither in To nor in Cc. */
  readonly bccAllowed: boolean;
}

export type Finding =
  | { readonly kind: "person" }
  /**
   * Never answered. `code` is one of own, delivery-report, read-receipt, abuse-report, auto-reply, auto-generated, bulk, list,
   * null-sender, mailer-daemon, no-reply, machine, forged-from, not-addressed.
   */
  | { readonly kind: "refused"; readonly code: string; readonly reason: string }
  | Bounce;

type Refused = Extract<Finding, { kind: "refused" }>;

/** A person, something to leave unanswered, or news of a mail of ours. */
export function classify(mail: Mail, own: OwnIdentity): Finding {
  const robot = mail.from.length === 1 && isListed(mail.from[0]?.address ?? "", own.robots);
  return (
    ownMail(mail, own) ??
    reportedBounce(mail) ??
    report(mail) ??
    guessedBounce(mail) ??
    forged(mail) ??
    (robot ? null : machine(mail, own)) ??
    unaddressed(mail, own) ?? { kind: "person" }
  );
}

const refused = (code: string, reason: string): Refused => ({ kind: "refused", code, reason });

function ownMail(mail: Mail, own: OwnIdentity): Refused | null {
  if (mail.messageId !== null && own.isOurs(mail.messageId))
    return refused("own", "the Message-ID is one of ours");
  const isOwn = ownAddress(own);
  if (mail.from.some((from) => isOwn(from.address))) return refused("own", "the sender's address is our own");
  return null;
}

function report(mail: Mail): Refused | null {
  if (mail.report === null) return null;
  switch (mail.report.type) {
    case "disposition-notification":
      return refused("read-receipt", "a read receipt");
    case "feedback-report":
      return refused("abuse-report", "an abuse report");
    case "delivery-status":
      return refused("delivery-report", "a delivery report without a failed recipient");
    default:
      return refused("auto-generated", `a report of type ${mail.report.type}`);
  }
}

function forged(mail: Mail): Refused | null {
  if (mail.fromFields === 1 && mail.from.length === 1) return null;
  return refused("forged-from", `${mail.fromFields} From fields with ${mail.from.length} addresses`);
}

function machine(mail: Mail, own: OwnIdentity): Refused | null {
  const automatic = automaticByHeader(mail);
  if (automatic !== null && automatic.code !== "bulk") return refused(automatic.code, automatic.reason);
  const absence = automaticBySubject(mail, (id) => own.isOurs(id));
  if (absence !== null) return refused(absence.code, absence.reason);
  return (
    list(mail) ??
    (automatic === null ? null : refused(automatic.code, automatic.reason)) ??
    machineSender(mail)
  );
}

function list(mail: Mail): Refused | null {
  const name = [
    "list-id",
    "list-unsubscribe",
    "list-post",
    "list-help",
    "list-subscribe",
    "list-owner",
    "list-archive",
    "mailing-list",
    "x-mailing-list",
    "x-mailinglist",
    "x-list-unsubscribe",
    "x-campaign",
    "x-campaign-id",
    "x-campaignid",
    "x-mc-user",
    "x-csa-complaints",
  ].find((header) => has(mail, header));
  if (name !== undefined) return refused("list", `the header ${name}`);
  // Amazon puts this header on everything that it relays, a person's mail too.
  const feedback = valueOf(mail, "feedback-id");
  return feedback !== "" && !feedback.endsWith("amazonses")
    ? refused("list", "the header feedback-id")
    : null;
}

function machineSender(mail: Mail): Refused | null {
  const from = mail.from[0]?.address ?? "";
  if (isDaemon(from)) return refused("mailer-daemon", "a mail server's own address");
  if (mail.returnPath === "") return refused("null-sender", "the mail has the null sender");
  // An answer goes to Reply-To when there is one.
  const others = [mail.sender?.address, ...mail.replyTo.map((one) => one.address)].filter(
    (address) => address !== undefined,
  );
  if (isNoReply(from) || mail.replyTo.some((one) => isNoReply(one.address)))
    return refused("no-reply", "nobody reads the sender's address");
  if (isProgram(from) || others.some(isDaemon))
    return refused("machine", "the sender's address is a program's");
  return null;
}

function unaddressed(mail: Mail, own: OwnIdentity): Refused | null {
  if (own.bccAllowed) return null;
  const isOwn = ownAddress(own);
  if ([...mail.to, ...mail.cc].some((one) => isOwn(one.address))) return null;
  return refused("not-addressed", "we are neither in To nor in Cc");
}

function ownAddress(own: OwnIdentity): (address: string) => boolean {
  const addresses = new Set(own.addresses.map((address) => address.toLowerCase()));
  return (address) => {
    const lower = address.toLowerCase();
    return addresses.has(lower) || addresses.has(lower.replace(/\+[^@]*(?=@)/, ""));
  };
}
