// Notifications quote names, subjects, topics and text of customers: none of it becomes a header, a line of our own
// text, or a field of the payload.

import type { Reply } from "bridgehead/contract";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { config as schema } from "../../../adapters/email/config.ts";
import { identity } from "../../../adapters/email/parse/headers.ts";
import { compose } from "../../../adapters/email/smtp/compose.ts";
import { messageBytes } from "../../../adapters/email/smtp/send.ts";
import { type Details, longText, shortText, subjectOf, webhookText } from "../../../src/escalation/notify/text.ts";
import { replyTo } from "../../support/email/adapter.ts";
import { escalationRow } from "../../support/rows.ts";

const server = { host: "127.0.0.1", tls: "none" } as const;
const settings = schema.parse({ imap: { ...server, user: "us@example.com", password: "x" }, smtp: server });
const self = identity("us@example.com", []);

const matterOf = (evil: string): Details => ({
  row: escalationRow({
    number: 417,
    about: "conversation:c",
    conversation: "c",
    channel: "support-mail",
    agent: "support",
    topic: evil,
    reason: evil,
    from_seq: 0,
  }),
  triggers: [],
  person: { address: "bob@customer.example", name: evil },
  subject: evil,
  said: [{ at: 0, who: "person", text: evil }],
});

const noticeTo = (matter: Details, name: string): Reply =>
  replyTo({
    kind: "notice",
    createdAt: new Date(0),
    to: [{ address: "anna@firm.example", name }],
    subject: subjectOf(matter),
    text: longText(matter, null, false),
  });

const evils = [
  "Bob\r\nBcc: thief@evil.example",
  "Bob\nBcc: thief@evil.example\n\nbody",
  "Bob\rSubject: other",
  "Bob\u0085Bcc: thief@evil.example",
  "Bob\u2028Bcc: thief@evil.example\u2029X: y",
  "=?utf-8?Q?Bob=0D=0ABcc:_thief@evil.example?=",
  'Bob" <thief@evil.example>, "x',
  "\u0000Bob\r\n\r\n--boundary\r\nContent-Type: text/html",
];

async function fieldsOf(evil: string): Promise<string[]> {
  const [draft] = compose(settings, self, noticeTo(matterOf(evil), evil));
  if (draft === undefined) throw new Error("no draft");
  const raw = (await messageBytes(draft)).toString("latin1");
  return raw
    .slice(0, raw.indexOf("\r\n\r\n"))
    .replace(/\r\n[ \t]+/g, " ")
    .split("\r\n")
    .map((line) => line.slice(0, line.indexOf(":")).toLowerCase());
}

describe("what a customer writes into a name, a subject or a message", () => {
  it.each(evils)("begins no header of the notification mail: %j", async (evil) => {
    expect(await fieldsOf(evil)).toEqual(await fieldsOf("Bob"));
  });

  it("begins no header, with any text", () =>
    fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary", maxLength: 120 }), async (evil) => {
        expect((await fieldsOf(evil)).toSorted()).toEqual((await fieldsOf("Bob")).toSorted());
      }),
      { numRuns: 200, seed: 417 },
    ));

  it.each(evils)("is one line of a text, and cannot say how to answer: %j", (evil) => {
    const lines = shortText(matterOf(evil), null, false).split(/\r\n|[\n\r\u0085\u2028\u2029]/);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^Escalation 417: /);
    expect(lines[2]).toMatch(/^Reply "ok 417" /);
  });

  it.each(evils)("is one value of the payload: %j", (evil) => {
    const notice = { id: "n", target: "c", kind: "opened", subject: "", text: null, reply: null } as const;
    const contact = { name: "Anna" } as Parameters<typeof webhookText>[2];
    const told = JSON.parse(webhookText(matterOf(evil), notice, contact, null)) as {
      text: string;
      data: Record<string, unknown>;
    };
    expect(told.text).not.toMatch(/[<>]|(?:^|\s)@|\]\(/);
    // The definition of a link.
    const written = {
      ...notice,
      kind: "customer",
      text: `[Acknowledge][1]\n\n[1]: https://evil.example ${evil}`,
    } as const;
    const passed = JSON.parse(webhookText(matterOf("Bob"), written, contact, null)) as typeof told;
    expect(passed.text).not.toMatch(/\]:/);
    expect(told.data["topic"]).toBe(evil);
    expect(Object.keys(told.data).toSorted()).toEqual(
      Object.keys((JSON.parse(webhookText(matterOf("Bob"), notice, contact, null)) as typeof told).data).toSorted(),
    );
  });
});
