// The functions of the email adapter that are given untrusted text, and how they are called with it.

import { externalId, type MessageEvent, type Reply, sendKey, threadToken } from "bridgehead/contract";
import { Element } from "domhandler";
import { config as emailConfig } from "../../adapters/email/config.ts";
import { type Traces } from "../../adapters/email/imap/traces.ts";
import { identity } from "../../adapters/email/parse/headers.ts";
import { plainLook } from "../../adapters/email/parse/html/visibility.ts";
import { type Mail } from "../../adapters/email/parse/mail.ts";
import { type MimePart } from "../../adapters/email/parse/mime.ts";
import { compose } from "../../adapters/email/smtp/compose.ts";
import { type Details } from "../../src/escalation/notify/text.ts";

// Records in which every text that a stranger can choose is the hostile one.

export type Given = (...given: readonly unknown[]) => unknown;
type Call = (tested: Given, text: string) => unknown;
/** How the functions of a file are called with a text, by path and name. */
export type Cases = Readonly<Record<string, Readonly<Record<string, Call>>>>;

export const one: Call = (tested, text) => tested(text);
export const bytes: Call = (tested, text) => tested(Buffer.from(text));
const ofMail: Call = (tested, text) => tested(mailWith(text));
export const ofMatter: Call = (tested, text) => tested(matterWith(text), null, false);

/** An HTML element with the text in all attributes that decide whether it can be seen. */
const elementWith = (text: string): Element =>
  new Element(
    "font",
    Object.fromEntries(
      "class id style width height size color bgcolor background type".split(" ").map((name) => [name, text]),
    ),
  );

/** Style rules with the text as the value of each property that can hide. */
const stylesWith = (text: string): ReadonlyMap<string, string> =>
  new Map(
    (
      "visibility color background background-color font opacity zoom transform filter clip clip-path position left text-indent " +
      "overflow height"
    )
      .split(" ")
      .map((name) => [name, text]),
  );

function mailWith(text: string): Mail {
  const box = { address: text, name: text };
  return {
    digest: "",
    messageId: text,
    inReplyTo: [text],
    references: [text],
    from: [box],
    fromFields: 1,
    sender: box,
    replyTo: [box],
    to: [box],
    cc: [box],
    deliveredTo: [text],
    returnPath: text,
    subject: text,
    date: 0,
    headers: [
      { name: "x", value: text },
      { name: "auto-submitted", value: "no" },
      { name: "delivered-to", value: text },
      { name: "feedback-id", value: text },
    ],
    text,
    wordless: false,
    fullText: text,
    isCut: false,
    markers: [text],
    certifiedAuthor: null,
    forwardedFrom: null,
    attachments: [],
    report: {
      type: "delivery-status",
      recipients: [{ address: text, action: text, status: text, diagnostic: text }],
      about: [text],
      envelopeId: text,
    },
    calendar: null,
    sealed: null,
  };
}

function partWith(text: string, mediaType: string): MimePart {
  const part = {
    headers: [{ name: "content-type", value: mediaType }],
    mediaType,
    parameters: { charset: "utf-8" },
    multipart: null,
    disposition: "",
    fileName: null,
    contentId: null,
    content: Buffer.from(text),
    children: [],
    unflow: (flowed: string) => flowed,
  };
  return mediaType === "message/delivery-status"
    ? {
        ...part,
        mediaType: "multipart/report",
        multipart: "report",
        parameters: { "report-type": "delivery-status" },
        children: [part],
      }
    : part;
}

export const replyWith = (text: string): Reply => ({
  kind: "answer",
  key: sendKey("key"),
  createdAt: new Date(0),
  to: [{ address: text, name: text }],
  cc: [{ address: text, name: text }],
  subject: text,
  text,
  signature: null,
  introduction: null,
  senderName: text,
  answers: externalId(text),
  history: [externalId(text)],
  token: threadToken("t"),
  hops: 0,
  session: null,
});

export const matterWith = (text: string): Details => ({
  row: {
    number: 1,
    topic: text,
    reason: text,
    channel: "c",
    agent: "a",
    opened_at: 0,
    conversation: "k",
    state: "open",
  } as Details["row"],
  triggers: [],
  person: { address: text, name: text },
  subject: text,
  said: [{ at: 0, who: "person", text, other: text }],
});

export const eventWith = (text: string): MessageEvent => ({
  kind: "message",
  id: externalId("1"),
  from: { address: text, name: text },
  to: [{ address: text }],
  cc: [{ address: text }],
  thread: { answers: text.split(" ").map(externalId), tokens: [threadToken(text)] },
  sentAt: new Date(0),
  subject: text,
  text,
  notes: { sender: text },
});

const header = (text: string) => [{ name: "x", value: text }];
/** The error of a command that a server rejected with this text. */
const rejectedFetch = (text: string) =>
  Object.assign(new Error(text), {
    responseStatus: "NO",
    responseText: text,
    response: { attributes: [{ section: [{ value: text }] }] },
  });
/** The error of a login that a server rejected with this text. */
const rejectedLogin = (text: string) =>
  Object.assign(new Error(text), { responseText: text, response: text, authenticationFailed: true });
const arrival = {
  id: externalId("1"),
  listed: { uid: 1, size: 1, arrived: null, keywords: [] },
  now: 0,
  copiedAfter: 1,
};
const withFiles = (text: string) => {
  const file = { name: text, mediaType: text, inline: false, bytes: Buffer.from(text) };
  return { ...mailWith(text), attachments: [file, file] };
};
/** A mail with the text in every field, and no sign of a bounce or of another sender. */
const personal = (text: string) => ({
  ...mailWith(text),
  from: [{ address: "c@d.e", name: text }],
  report: null,
  returnPath: "c@d.e",
});
const server = { host: "127.0.0.1", tls: "none" } as const;
const email = emailConfig.parse({ imap: { ...server, user: "a@example.com", password: "x" }, smtp: server });
const self = identity("a@example.com", []);
const own = {
  addresses: ["a@example.com"],
  isOurs: () => false,
  automaticSenders: ["b@c.d"],
  bccAllowed: true,
};
const [draft] = compose(email, self, replyWith("a@b.c"));

export const emailCases: Cases = {
  "adapters/email/attachments.ts": {
    attachmentsOf: (f, text) => f(email, withFiles(text), [{ name: text, mediaType: text, size: 1 }]),
    notesOnFiles: (f, text) => f(email, withFiles(text), [{ name: text, mediaType: text, size: 1 }]),
  },
  "adapters/email/events.ts": {
    understand: (f, text) => {
      const omitted = [{ name: text, mediaType: text, size: 1 }];
      const read = { auth: null, raw: Buffer.from(text), omitted, truncated: true };
      const listed = { ...personal(text), headers: [{ name: "list-post", value: text }] };
      return [withFiles(text), personal(text), listed].map((mail) =>
        f({ config: email, self }, arrival, { ...read, mail }),
      );
    },
    eventsOf: (f, text) => {
      const omitted = [{ name: text, mediaType: text, size: 1 }];
      const request = { config: email, addresses: self.addresses, arrival, auth: null, omitted };
      return f(withFiles(text), null, { ...request, truncated: true, whole: true });
    },
  },
  "adapters/email/parse/machine/bounce.ts": {
    deliveries: (f, text) => {
      const bounce = {
        kind: "bounce",
        permanent: true,
        recipients: [text],
        about: [text],
        envelopeId: text,
        detail: text,
      };
      return f(self, arrival, mailWith(text), bounce, Buffer.from(text));
    },
    isMailServer: (f, text) => [f(mailWith(text)), f({ from: [], headers: [{ name: "from", value: text }] })],
    reportedBounce: ofMail,
    isDmarcReport: (f, text) => f({ ...mailWith(text), inReplyTo: [] }, ["a@b.example"]),
    guessedBounce: (f, text) => f(mailWith(text), true, () => true),
    incompleteBounce: (f, text) => {
      const recipients = [{ address: text, action: "", status: "", diagnostic: text }];
      const report = { type: "delivery-status", recipients, about: [text], envelopeId: text };
      return f({ ...mailWith(text), report }, true, () => true);
    },
  },
  "adapters/email/parse/quotes/lines.ts": {
    attributionIn: one,
    addressesIn: one,
    scan: (f, text) => f(text.split("\n"), { tails: true, isOwn: () => true }),
    isForwardLine: one,
    isRule: one,
  },
  "adapters/email/parse/auth/result.ts": {
    authenticate: (f, text) => {
      const headers = [{ name: "authentication-results", value: `mx.a; ${text}` }];
      const mail = { ...personal(text), headers, from: [{ address: "a@b.c", name: "" }] };
      return f(mail, Buffer.from(text), { mode: "header", authservId: "mx.a" });
    },
  },
  "adapters/email/parse/machine/classify.ts": {
    // Personal mails pass the checks for bounces and reach all others.
    classify: (f, text) => {
      const subjects = [text, `Re: out of office ${text}`, `automatic reply:${text}`];
      return [
        mailWith(text),
        personal(text),
        { ...personal(text), calendar: { method: "", written: [text], appointment: text } },
        { ...personal(text), headers: ["list-id", "precedence", "x-loop"].map((name) => ({ name, value: text })) },
        ...subjects.map((subject) => ({ ...personal(text), subject })),
      ].map((mail) => f(mail, own));
    },
  },
  "adapters/email/parse/calendar.ts": {
    calendarIn: (f, text) => [
      f(partWith(text, "text/calendar"), text),
      f(partWith(`BEGIN:VEVENT\n${text}`, "text/calendar"), ""),
      f({ ...partWith(text, "application/octet-stream"), fileName: text }, ""),
    ],
    withWritten: (f, text) => [f(text, [text]), f(text, ["x"])],
  },
  "adapters/email/parse/charsets.ts": {
    decodeBounded: (f, text) => [f(Buffer.from(text), null), f(Buffer.from(text), "utf-7")],
    decodeHtml: (f, text) =>
      [text, text.repeat(Math.ceil(600_000 / text.length)), `data:a/b;base64,${text}`].map((html) =>
        f(Buffer.from(html), null),
      ),
    wordsInUtf8: (f, text) => [f(text), f(`=?latin1?q?${text}?=`), f("=?latin1?q?a=20?= ".repeat(text.length / 18))],
    decodeText: (f, text) =>
      [null, text, "utf-7", "hz-gb-2312", "gb18030"]
        .map((charset) => f(Buffer.from(text), charset))
        .concat([f(Buffer.from(`\x1b$)C${text}`), null), f(Buffer.from(`\x1b$B${text}`), null)]),
  },
  "adapters/email/parse/forwards.ts": {
    forwardedIn: (f, text) => f(text, text),
    carriedText: (f, text) => f([partWith(text, "message/rfc822")]),
  },
  "adapters/email/parse/raw-headers.ts": {
    repaired: (f, text) => f(partWith(text, "text/plain"), Buffer.from(`X: ${text}\r\n\r\n`)),
  },
  "adapters/email/parse/headers.ts": {
    isDaemon: one,
    lettersOf: one,
    localOf: one,
    withoutMarks: one,
    withoutPgpSignature: (f, text) => [f(text), f(`-----BEGIN PGP SIGNED MESSAGE-----\n${text}`)],
    unflow: (f, text) => [f(text, false), f(text, true)],
    cleanText: one,
    cleanLine: one,
    cleanFileName: (f, text) => f(text, "x"),
    asciiAddress: (f, text) => [f(text), f(`ä@${text}`)],
    textOf: one,
    mailboxesOf: (f, text) => f(header(text), "x"),
    cleanAddress: one,
    asciiDomain: one,
    messageIdsOf: one,
    messageIdOf: one,
    dateOf: one,
    isReplySubject: one,
    isHeaderBlock: (f, text) => f(["-----", `X: A <a@b.c>`, ...text.split("\n"), `Y: ${text}`], 0, () => true),
    isForwardSubject: one,
    boundedText: one,
    isBroken: (f, text) => f({ name: "x", value: text }),
    headerOf: (f, text) => f(header(text), text),
    findMarkers: one,
    isListed: (f, text) => f(text, ["a@b.c", "@b.c"]),
    surrogateId: one,
    keyIn: (f, text) => [f(text, new Set([text])), f(`<abcdef.bridgehead@${text}>`, new Set(["b.c"]))],
    domainOf: one,
    withoutPlus: (f, text) => [f(text), f(`a+${text}@${text}`)],
  },
  "adapters/email/parse/worker.ts": {
    digestOf: (f, text) =>
      ["text/plain", "text/html"].map((type) =>
        f({ messageId: null, date: text, from: [text], subject: text, root: partWith(text, type) }),
      ),
    readMail: (f, text) => {
      const head = "From: a@b.c\r\nSubject: Re: x\r\nIn-Reply-To: <abcdef.bridgehead@example.com>\r\n";
      const long = text.slice(0, 20_000);
      return Promise.all(
        [`${head}\r\nHello\r\n${text}`, `From: ${long}\r\nSubject: ${long}\r\n\r\nx`].map((mail) =>
          f(Buffer.from(mail), ["a@example.com"]),
        ),
      );
    },
  },
  "adapters/email/parse/html/text.ts": {
    htmlToText: (f, text) => f(`<p>Hi</p><div id=Signature>${text}`, { relation: "ours" }),
  },
  "adapters/email/parse/mime.ts": {
    bodyOf: (f, text) => [
      f(partWith(text, "text/plain"), { relation: "new" }),
      f(partWith(text, "text/html"), { relation: "ours" }),
    ],
    isOnlyText: (f, text) => f(partWith(text, text)),
    readTree: (f, text) => {
      const short = text.slice(0, text.length / 4);
      const encodings = ["quoted-printable", "base64", short].map((name) =>
        Buffer.from(`Content-Transfer-Encoding: ${name}\r\n\r\n${short}`),
      );
      return Promise.all([Buffer.from(text), ...encodings].map((raw) => f(raw)));
    },
  },
  "adapters/email/parse/special-parts.ts": {
    reportOf: (f, text) => [true, false].map((server) => f(partWith(text, "message/delivery-status"), server)),
    opened: (f, text) => [
      f(partWith(text, "application/pkcs7-mime")),
      f({ ...partWith(text, "message/rfc822"), headers: [{ name: "x-trasporto", value: text }] }),
    ],
    idsOfReturned: bytes,
    reactionIn: (f, text) => f(partWith(text, "text/vnd.google.email-reaction+json")),
    sealedInFiles: (f, text) => [
      f([{ mediaType: text, name: text }]),
      f([{ mediaType: "application/octet-stream", name: text }]),
    ],
    sealedIn: (f, text) =>
      ["text/plain", "application/pkcs7-mime", "application/octet-stream", text].map((type) =>
        f({ ...partWith(text, type), fileName: text, parameters: { "smime-type": text } }, text),
      ),
  },
  "adapters/email/parse/quotes/signature.ts": {
    isFooterNote: (f, text) => [f(text), f(`This email ${text}`)],
    isCompanyFooter: (f, text) => [f([text, "HRB 1"]), f(text.split("\n"))],
    signatureStart: (f, text) => {
      const lines = text.split("\n").map((line) => ({ text: line, kind: "own" }));
      return [
        f(lines, ["anna"]),
        f(
          lines.map((line) => ({ ...line, signed: true })),
          ["anna"],
        ),
      ];
    },
    hasName: (f, text) => f(text, [text]),
    hasOurMarker: (f, text) => f({ text, kind: "own" }),
    isClosing: one,
  },
  "adapters/email/parse/quotes/trim.ts": {
    trimReply: (f, text) => [f(text, { relation: "ours" }), f(text, { relation: "reply" })],
    isWordless: one,
    withoutBanner: (f, text) => [f(text.split("\n")), f(["EXTERNAL:", `This mail is outside ${text}`, "x"])],
    isWarning: (f, text) => [f(text), f(`EXTERNAL: This mail is outside ${text}`)],
  },
  "adapters/email/smtp/compose.ts": {
    compose: (f, text) => [f(email, self, replyWith(text)), f(email, self, { ...replyWith(text), plain: true })],
    referencesOf: (f, text) => f(text.split(" ").map(externalId), null),
    isLong: one,
    renderMarkdown: (f, text) => [f(text), f(`<p>${text}</p>`)],
    renderPlain: one,
  },
  "adapters/email/smtp/send.ts": {
    messageBytes: (f, text) => f({ ...draft, text, html: text, subject: text.slice(0, 900) }),
  },
  "adapters/email/providers.ts": {
    isSameOrganization: (f, text) => [f(text, "a@b.c"), f(`a@${text}`, text)],
    mailbox: one,
  },
  "adapters/email/status.ts": {
    brief: (f, text) => f(new Error(text)),
    oneLine: one,
    statusOf: (f, text) => f(rejectedLogin(text), 1),
    statusOfSide: (f, text) => f("imap", rejectedLogin(text), 1),
    outcomeOf: (f, text) => {
      for (const command of ["RCPT TO", "DATA"])
        f(Object.assign(new Error(text), { responseCode: 550, response: text, command }), true);
    },
  },
  "adapters/email/imap/mailbox.ts": {
    keywordOf: (f, text) => f(text, text),
    unmarked: (f, text) => f([{ uid: 1, size: 1, arrived: null, keywords: [text] }], text, text),
  },
  "adapters/email/imap/header-fields.ts": {
    envelopes: (f, text) => {
      const mailbox = { path: "INBOX", uidValidity: 1n, exists: 1 };
      const headers = Buffer.from(`From: ${text}\r\nSubject: ${text}\r\nIn-Reply-To: ${text}\r\n${text}`);
      const client = { mailbox, usable: true, fetchAll: () => Promise.resolve([{ uid: 1, headers }]) };
      return f(client, [1]);
    },
    unread: (f, text) => {
      const envelope = { messageId: text, inReplyTo: text, from: { address: text, name: text }, subject: text };
      const arrival = { id: text, listed: { size: 1, arrived: null }, now: 0 };
      return f(arrival, { ...envelope, automatic: false }, { code: "x", reason: text }, Buffer.from(text));
    },
    headerFields: (f, text) => {
      const mailbox = { path: "INBOX", uidValidity: 1n, exists: 1 };
      const rows = [{ uid: 1, headers: Buffer.from(`Subject: ${text}\r\n${text}`) }];
      const client = { mailbox, usable: true, fetchAll: () => Promise.resolve(rows) };
      return f(client, [1], ["subject"]);
    },
  },
  "adapters/email/imap/sources.ts": {
    nullIfRejected: (f, text) => f(rejectedFetch(text)),
  },
  "adapters/email/imap/traces.ts": {
    Traces: (f, text) => {
      const traces: Traces = Reflect.construct(f, [{ keyword: "$Bridgehead" }]);
      traces.noteKeywords(text.split(" "));
      traces.noteKeywords([`$Bridgehead-${text}`]);
    },
  },
  "adapters/email/imap/oversized.ts": {
    readPartly: (f, text) => {
      const leaf = (part: string, type: string) => ({
        part,
        type,
        size: text.length,
        parameters: { name: type === "text/plain" ? "" : text },
      });
      const bodyStructure = {
        type: "multipart/mixed",
        parameters: { "report-type": text },
        childNodes: [leaf("1", "text/plain"), leaf("2", "image/png"), leaf("3", text)],
      };
      const bytes = Buffer.from(text);
      const bodyParts = new Map(["header", "1.mime", "1", "2.mime", "2"].map((key) => [key, bytes]));
      const mailbox = { path: "INBOX", uidValidity: 1n, exists: 1 };
      const rows = [{ uid: 1, bodyStructure, bodyParts }];
      return f({ mailbox, fetchAll: () => Promise.resolve(rows) }, 1, 250_000);
    },
  },
  "adapters/email/parse/html/css.ts": {
    colourOf: (f, text) => [f(text, null), f(`rgb(${text}`, null)],
    readStyleSheet: (f, text) =>
      [text, `p.a b{color:${text}}`, `${text}{color:red}`, `@media ${text}{p{color:red}}`].map((css) => {
        const sheet = f(css) as { rulesOf(element: unknown, path: unknown): unknown };
        return sheet.rulesOf(elementWith(text), new Map());
      }),
    enter: (f, text) => f(new Map(), elementWith(text), 1),
    declarations: one,
    isRelevant: one,
  },
  "adapters/email/parse/html/write.ts": {
    layOut: (f, text) => f({ children: [elementWith(text)] }),
    limitDepth: (f, text) => f({ children: [elementWith(text)] }),
    plainly: (f, text) => f({ children: [elementWith(text)] }),
    pushChildren: (f, text) => f(elementWith(text), []),
  },
  "adapters/email/parse/html/visibility.ts": {
    hidesByStyle: (f, text) => f(stylesWith(text)),
    isStyled: (f, text) => f(elementWith(text), stylesWith(text)),
    isZero: one,
    lookOf: (f, text) => f(elementWith(text), stylesWith(text), plainLook),
  },
};
