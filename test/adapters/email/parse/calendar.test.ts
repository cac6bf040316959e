// Invitations, and the responses of calendar programs to them.

import { afterAll, describe, expect, it } from "vitest";
import { config as emailConfig } from "../../../../adapters/email/config.ts";
import { understand } from "../../../../adapters/email/events.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { externalId } from "../../../../src/contract/index.ts";
import { type Fields, multipart, reader } from "../../../support/email/mails.ts";

const { parser, read } = reader();
afterAll(() => parser.close());

const server = { host: "127.0.0.1", tls: "none" } as const;
const config = emailConfig.parse({ imap: { ...server, user: "support@example.com", password: "x" }, smtp: server });
const self = identity("support@example.com", []);
const arrival = {
  id: externalId("INBOX/1/1"),
  listed: { uid: 1, size: 1, arrived: null, keywords: [] },
  now: 0,
  copiedAfter: 86_400_000,
};

const times = "DTSTART;TZID=Europe/Berlin:20261201T100000\nDTEND;TZID=Europe/Berlin:20261201T113000";
const attendee = "ATTENDEE;PARTSTAT=DECLINED;CN=Anna Doe:mailto:anna@example.org";

/** An object of Exchange; `properties` are those of the event. */
const object = (method: string, properties: readonly string[]) =>
  [
    `BEGIN:VCALENDAR\nMETHOD:${method}\nVERSION:2.0`,
    "BEGIN:VTIMEZONE\nTZID:Europe/Berlin\nBEGIN:STANDARD\nDTSTART:16010101T030000\nEND:STANDARD\nEND:VTIMEZONE",
    `BEGIN:VEVENT\n${properties.join("\n")}\nUID:1\nSUMMARY;LANGUAGE=de-DE:Telefonat\\, kurz\nLOCATION:Büro`,
    "END:VEVENT\nEND:VCALENDAR\n",
  ].join("\n");

interface Invited {
  readonly text?: string;
  readonly fields?: Fields;
}

async function eventOf(method: string, properties: readonly string[], { text = "", fields = {} }: Invited = {}) {
  const raw = multipart(
    "alternative",
    [
      { type: "text/plain; charset=utf-8", body: text },
      { type: "text/html; charset=utf-8", body: `<html><body>${text}</body></html>` },
      { type: `text/calendar; charset="utf-8"; method=${method}`, body: object(method, properties) },
    ],
    { Subject: "Telefonat", ...fields },
  );
  const mail = await read(raw);
  const found = understand({ config, self }, arrival, { mail, auth: null, raw: null, omitted: [], truncated: false });
  const [event] = found.kind === "events" ? found.events : [];
  if (event?.kind !== "message") throw new Error("no message");
  return event;
}

const google: Fields = {
  Sender: "Google Calendar <calendar-notification@google.com>",
  "Auto-Submitted": "auto-generated",
};

describe("the response to an invitation", () => {
  it.each([
    ["Outlook without a comment", ["COMMENT;LANGUAGE=de-DE:\\n"], {}, "calendar-reply"],
    ["without a comment", [], {}, "calendar-reply"],
    ["Google without a comment", [], { fields: google }, "auto-generated"],
    [
      "a room",
      ["COMMENT:Your request was declined."],
      {
        text: "Declined",
        fields: { "X-MS-Exchange-Generated-Message-Source": "Mailbox Assistants: Resource Booking" },
      },
      "auto-reply",
    ],
  ] as const)("%s is never answered", async (_, properties, invited, code) => {
    const { refusal } = await eventOf("REPLY", [attendee, times, ...properties], invited);
    expect(refusal).toMatchObject({ code });
    expect(refusal?.hold).toBeUndefined();
  });

  const comment = "Montag geht nicht, bitte rufen Sie an.";
  it.each([
    ["Outlook", [attendee, "COMMENT;LANGUAGE=de-DE:Montag geht nicht\\, bitte rufen\n  Sie an.\\n"], {}],
    ["Outlook, with the comment in the text", [attendee, `COMMENT:${comment}`], { text: comment }],
    ["a parameter in quotes", [attendee, `COMMENT;ALTREP="cid:a:b";LANGUAGE=de:${comment}`], {}],
    [
      "Google",
      [attendee.replace(":mailto", `;X-NUM-GUESTS=0;X-RESPONSE-COMMENT="${comment}":mailto`)],
      { fields: google },
    ],
  ] as const)("with a comment is held, with the comment: %s", async (_, properties, invited) => {
    const event = await eventOf("REPLY", [...properties, times], invited);
    expect(event.refusal).toEqual({
      code: "calendar-reply",
      hold: true,
      reason: "a calendar response (METHOD:REPLY) with a comment or another time",
    });
    expect([event.text, event.wordless]).toEqual([comment, undefined]);
  });

  it("that proposes another time is held, with that time", async () => {
    const proposed = '"Telefonat, kurz", 2026-12-01 10:00 (Europe/Berlin) to 2026-12-01 11:30 (Europe/Berlin), at Büro';
    const event = await eventOf("COUNTER", [attendee, times]);
    expect(event).toMatchObject({ text: proposed, refusal: { code: "calendar-reply", hold: true } });
    const commented = await eventOf("COUNTER", [attendee, times, "COMMENT:Better?"], { text: "Better?" });
    expect(commented.text).toBe(`Better?\n\n${proposed}`);
  });

  it("is ignored when it does not reach us, also with a comment", async () => {
    const { refusal } = await eventOf("REPLY", [attendee, "COMMENT:x"], { fields: { To: "other@example.net" } });
    expect(refusal).toMatchObject({ code: "not-addressed" });
  });
});

describe("a cancellation", () => {
  it("is ignored, and held with what its author wrote", async () => {
    expect((await eventOf("CANCEL", [times])).refusal).toMatchObject({ code: "calendar-reply" });
    const event = await eventOf("CANCEL", [times, "COMMENT:I am ill."]);
    expect(event).toMatchObject({ text: "I am ill.", refusal: { code: "calendar-reply", hold: true } });
  });
  it("repeats the comments of attendees, which count as none", async () => {
    const others = attendee.replace(":mailto", ";X-RESPONSE-COMMENT=Yes:mailto");
    expect((await eventOf("CANCEL", [others, times])).refusal?.hold).toBeUndefined();
  });
});

describe("an invitation", () => {
  it.each([
    [times, '"Telefonat, kurz", 2026-12-01 10:00 (Europe/Berlin) to 2026-12-01 11:30 (Europe/Berlin), at Büro'],
    [
      "DTSTART:20261201T090000Z\nDTEND:20261201T093000Z\nRRULE:FREQ=WEEKLY;COUNT=3",
      '"Telefonat, kurz", 2026-12-01 09:00 (UTC) to 2026-12-01 09:30 (UTC), repeated (FREQ=WEEKLY;COUNT=3), at Büro',
    ],
    ["DTSTART;VALUE=DATE:20261201", '"Telefonat, kurz", 2026-12-01, at Büro'],
    [
      'DTSTART;TZID="(UTC+01:00) Amsterdam, Berlin":20261201T100000',
      '"Telefonat, kurz", 2026-12-01 10:00 ((UTC+01:00) Amsterdam, Berlin), at Büro',
    ],
  ])("is asked with its time: %s", async (properties, appointment) => {
    const event = await eventOf("REQUEST", [properties], { text: "Can we talk?" });
    expect(event.refusal).toBeUndefined();
    expect(event).toMatchObject({ text: "Can we talk?", notes: { appointment } });
  });
  it("without a time has no note", async () => {
    expect((await eventOf("REQUEST", ["DTSTART:soon"], { text: "Can we talk?" })).notes).toBeUndefined();
  });
});
