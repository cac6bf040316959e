// Records in which every text that a stranger can choose is the hostile one.

import { externalId, type MessageEvent, type Reply, sendKey, threadToken } from "bridgehead/contract";
import { Element } from "domhandler";
import type { Mail } from "../../adapters/email/parse/mail.ts";
import type { MimePart } from "../../adapters/email/parse/mime.ts";
import type { Details } from "../../src/escalation/notify/text.ts";

export type Given = (...given: readonly unknown[]) => unknown;
type Call = (tested: Given, text: string) => unknown;
/** How the functions of a file are called with a text, by path and name. */
export type Cases = Readonly<Record<string, Readonly<Record<string, Call>>>>;

export const one: Call = (tested, text) => tested(text);
export const bytes: Call = (tested, text) => tested(Buffer.from(text));
export const ofMail: Call = (tested, text) => tested(mailWith(text));
export const ofMatter: Call = (tested, text) => tested(matterWith(text), null, false);

/** An HTML element with the text in all attributes that decide whether it can be seen. */
export const elementWith = (text: string): Element =>
  new Element(
    "font",
    Object.fromEntries(
      "class id style width height size color bgcolor background type".split(" ").map((name) => [name, text]),
    ),
  );

/** Style rules with the text as the value of each property that can hide. */
export const stylesWith = (text: string): ReadonlyMap<string, string> =>
  new Map(
    (
      "visibility color background background-color font opacity zoom transform filter clip clip-path position left text-indent " +
      "overflow height"
    )
      .split(" ")
      .map((name) => [name, text]),
  );

export function mailWith(text: string): Mail {
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
    markers: [text],
    forwardedFrom: null,
    attachments: [],
    report: {
      type: "delivery-status",
      recipients: [{ address: text, action: text, status: text, diagnostic: text }],
      about: [text],
      envelopeId: text,
    },
    calendarMethod: null,
    sealed: null,
  };
}

export function partWith(text: string, mediaType: string): MimePart {
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
