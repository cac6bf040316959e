// A request with a valid signature makes one event however often it is repeated, and its response contains no text for
// the customer.

import type { DeliveryEvent, MessageEvent } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import { statusEventId } from "../../../../adapters/sms/provider.ts";
import {
  account,
  type Fields,
  openTwilio,
  ours,
  person,
  type Settings,
  signed,
  statusForm,
  textForm,
} from "../../../support/sms/providers.ts";

const api = "http://127.0.0.1:9";
const at = (path: string, query = "") => `https://bridge.example/channels/test-channel${path}${query}`;

/** Posts one text; the event it became. */
async function heard(form: Fields, more: Settings = {}): Promise<MessageEvent> {
  const { post, channel } = openTwilio(api, more);
  expect((await post("/inbound", signed(at("/inbound"), form))).status).toBe(200);
  const [event] = channel.messages;
  if (!event) throw new Error("nothing was stored");
  return event;
}

/** Posts one status; the event it became. */
async function told(form: Fields, query = ""): Promise<DeliveryEvent> {
  const { post, channel } = openTwilio(api);
  expect((await post("/status", signed(at("/status", query), form))).status).toBe(200);
  const [event] = channel.stored;
  if (event?.kind !== "delivery") throw new Error("nothing was stored");
  return event;
}

describe("a text", () => {
  it("becomes a message by its sid, with everything that was sent kept", async () => {
    const form = textForm("SM1", "Where is it?", { BrandNewParameter: "kept" });
    const event = await heard(form);
    expect(event).toMatchObject({
      kind: "message",
      id: "SM1",
      from: { address: person },
      to: [{ address: ours }],
      thread: { answers: [] },
      text: "Where is it?",
    });
    expect(event.refusal).toBeUndefined();
    expect(event.consent).toBeUndefined();
    expect(new TextDecoder().decode(event.raw)).toContain("BrandNewParameter=kept");
  });

  it.each<[string, Fields, Settings, string | undefined]>([
    ["the channel's number", {}, {}, undefined],
    ["the same number over WhatsApp", { From: `whatsapp:${person}`, To: `whatsapp:${ours}` }, {}, undefined],
    ["another WhatsApp sender", { From: `whatsapp:${person}`, To: "whatsapp:+15550300" }, {}, "whatsapp:+15550300"],
    ["a second number", { To: "+15550300" }, {}, "+15550300"],
    ["an RCS agent", { From: `rcs:${person}`, To: "rcs:brand_agent" }, {}, "rcs:brand_agent"],
    ["a page", { From: "messenger:5647382910", To: "messenger:1029384756" }, { country: "US" }, "messenger:1029384756"],
    ["a service's number", {}, { number: undefined, messaging_service: "MG1" }, ours],
    ["what nobody can write from", { To: "Brand" }, {}, undefined],
  ])("names %s as where the person wrote to, unless that is the default", async (_, form, more, via) => {
    expect((await heard(textForm("SM1", "Hello", form), more)).via).toBe(via);
  });

  it("is answered by an empty document, and by nothing else, on both paths", async () => {
    const { post } = openTwilio(api);
    for (const path of ["/inbound", "/inbound-fallback"]) {
      const response = await post(path, signed(at(path), textForm(`SM${path}`, "STOP")));
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toMatch(/^text\/xml/);
      expect(await response.text()).toBe('<?xml version="1.0" encoding="UTF-8"?><Response/>');
    }
  });

  it("counts once, a hundred times at once, over both paths and after a restart", async () => {
    const channel = recordingChannel();
    const { post } = openTwilio(api, {}, channel);
    const again = openTwilio(api, {}, channel);
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) => {
        const path = n % 3 === 0 ? "/inbound-fallback" : "/inbound";
        const form = textForm("SM1", "once", n % 3 === 0 ? { ErrorCode: "11200" } : {});
        return (n % 2 === 0 ? post : again.post)(path, signed(at(path), form));
      }),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    expect(channel.messages.length).toBe(1);
  });

  it("is answered after the commit, and only then", async () => {
    const { post, channel } = openTwilio(api);
    channel.hold();
    let answered = false;
    const work = post("/inbound", signed(at("/inbound"), textForm("SM1", "held"))).then((response) => {
      answered = true;
      return response.status;
    });
    await channel.until("the call of accept", ({ calls }) => calls.length === 1);
    expect(answered).toBe(false);
    channel.release();
    expect(await work).toBe(200);
  });

  it("that could not be stored is rejected, and accepted on the retry", async () => {
    const { post, channel } = openTwilio(api);
    channel.reject();
    const request = () => signed(at("/inbound"), textForm("SM1", "again"));
    await expect(post("/inbound", request())).rejects.toThrow(/planted/);
    expect((await post("/inbound", request())).status).toBe(200);
    expect(channel.messages.length).toBe(1);
  });

  it("keeps the prefix of its network as a part of the address", async () => {
    const event = await heard(
      textForm("SM1", "hi", {
        From: `whatsapp:${person}`,
        To: `whatsapp:${ours}`,
        ProfileName: "Ann",
        WaId: "1",
      }),
    );
    expect(event.from).toEqual({ address: `whatsapp:${person}`, name: "Ann" });
    expect(event.to).toEqual([{ address: `whatsapp:${ours}` }]);
    expect((await heard(textForm("SM1", "hi", { From: `rcs:${person}` }))).from.address).toBe(`rcs:${person}`);
  });

  it("has a profile's name as one line that is seen as it is written", async () => {
    const name = async (ProfileName: string) => (await heard(textForm("SM1", "hi", { ProfileName }))).from.name;
    expect(await name("\u202eAnn\r\nEscalation 1 is taken\u2028by Bob\u200b")).toBe("Ann Escalation 1 is taken by Bob");
    expect(await name("👩‍👩‍👧")).toBe("👩‍👩‍👧");
    expect(await name("x".repeat(100_000))).toHaveLength(100);
    expect(await name("\u202e\n")).toBeUndefined();
  });

  it("without a body says which button or list entry was selected", async () => {
    const selected = async (fields: Fields) => (await heard(textForm("SM1", "", fields))).text;
    expect(await selected({ ButtonText: "Yes, please", ButtonPayload: "yes" })).toBe("Yes, please");
    expect(await selected({ ListId: "1", ListTitle: "Opening hours" })).toBe("Opening hours");
    expect(await selected({ Body: "Yes", ButtonText: "Yes, please" })).toBe("Yes");
    expect((await heard(textForm("SM1", "", { ButtonText: "STOP" }))).consent?.word).toBe("stop");
  });

  it("that shares a place says where", async () => {
    const place = { Latitude: "52.5", Longitude: "13.4", Label: "Alex", Address: "Platz 1" };
    expect((await heard(textForm("SM1", "", place))).text).toBe("[place: 52.5, 13.4 (Alex, Platz 1)]");
    expect((await heard(textForm("SM1", "I am here", place))).text).toBe(
      "I am here\n[place: 52.5, 13.4 (Alex, Platz 1)]",
    );
  });

  it("without a sid or a sender is acknowledged, ignored and logged", async () => {
    const { post, channel } = openTwilio(api);
    for (const missing of ["MessageSid", "From", "To"]) {
      const form = Object.fromEntries(Object.entries(textForm("SM1", "x")).filter(([name]) => name !== missing));
      expect((await post("/inbound", signed(at("/inbound"), form))).status).toBe(200);
    }
    expect(channel.calls).toEqual([]);
    const ignored = { level: "warn", fields: { reason: expect.stringContaining("From") }, message: misplaced };
    expect(channel.logged.filter(({ level }) => level === "warn")).toMatchObject([ignored, ignored, ignored]);
  });
});

const misplaced = "webhook ignored: is this its URL at the provider?";

const media = (count: number, type = "image/jpeg"): Fields => ({
  NumMedia: String(count),
  ...Object.fromEntries(
    Array.from({ length: count }, (_, n) => [
      [`MediaUrl${n}`, `https://api.twilio.com/2010-04-01/Accounts/${account}/Messages/MM1/Media/ME${n}`],
      [`MediaContentType${n}`, type],
    ]).flat(),
  ),
});

describe("pictures", () => {
  it("are attachments to be fetched later, named and typed as announced", async () => {
    const event = await heard(textForm("MM1", "Look", media(2)));
    expect(event.text).toBe("Look");
    expect(event.attachments).toMatchObject([
      {
        name: "picture-MM1-1.jpeg",
        mediaType: "image/jpeg",
        ref: { message: "MM1", mediaType: "image/jpeg" },
      },
      { name: "picture-MM1-2.jpeg", mediaType: "image/jpeg" },
    ]);
  });

  it.each([
    ["image/png", "[picture received]"],
    ["audio/ogg", "[voice message received]"],
    ["video/mp4", "[video received]"],
    ["text/vcard", "[contact or note received]"],
    ["application/pdf", "[file received]"],
  ])("without text are described in text: %s", async (type, words) => {
    expect((await heard(textForm("MM1", "", media(1, type)))).text).toBe(words);
  });

  it("are ten at most, for any NumMedia", async () => {
    expect((await heard(textForm("MM1", "x", { ...media(3), NumMedia: "1000000" }))).attachments?.length).toBe(3);
    expect((await heard(textForm("MM1", "x", { ...media(20), NumMedia: "20" }))).attachments?.length).toBe(10);
    expect((await heard(textForm("MM1", "x", { ...media(3), NumMedia: "-1" }))).attachments).toBeUndefined();
  });
});

describe("opt-out keywords", () => {
  const texts = { stop_text: "You are out.", start_text: "Welcome back.", help_text: "Call us." };

  it.each([
    ["STOP", "stop"],
    [" stop. ", "stop"],
    ["Opt out", "stop"],
    ["STOPALL", "stop"],
    ["Abmelden", "stop"],
    ["unstop", "start"],
    ["HELP", "help"],
    ["Hilfe!", "help"],
  ] as const)("%s is %s, without a reply unless configured", async (body, word) => {
    expect((await heard(textForm("SM1", body))).consent).toEqual({ word });
    const answer = texts[`${word}_text`];
    expect((await heard(textForm("SM1", body), { opt_out: texts })).consent).toEqual({ word, answer });
  });

  it.each(["STOP 12345", "please stop by tomorrow", "Can you help?", "no", "Stop! Where is it?"])(
    "%s is a message",
    async (body) => {
      expect((await heard(textForm("SM1", body))).consent).toBeUndefined();
    },
  );

  it("count next to a picture only where the text is STOP", async () => {
    expect((await heard(textForm("MM1", "Stop", media(1, "image/jpeg")))).consent?.word).toBe("stop");
    for (const body of ["START", "info"])
      expect((await heard(textForm("MM1", body, media(1, "image/jpeg")))).consent).toBeUndefined();
  });

  it("are the operator's to add and to take away", async () => {
    const own = { opt_out: { add: { stop: ["Genug"] }, remove: ["end"] } };
    expect((await heard(textForm("SM1", "genug!"), own)).consent).toEqual({ word: "stop" });
    expect((await heard(textForm("SM1", "END"), own)).consent).toBeUndefined();
    expect((await heard(textForm("SM1", "END"))).consent).toEqual({ word: "stop" });
  });

  it("that the provider handled itself are its own, and answered already", async () => {
    for (const [type, word] of [
      ["STOP", "stop"],
      ["START", "start"],
      ["HELP", "help"],
    ] as const) {
      const event = await heard(textForm("SM1", "ADIOS", { OptOutType: type }), { opt_out: texts });
      expect(event.consent).toEqual({ word });
    }
  });
});

describe("what is never answered", () => {
  it.each<[string, Fields, Settings, string]>([
    ["our own number", { From: ours }, {}, "own"],
    ["our own number over WhatsApp", { From: `whatsapp:${ours}` }, {}, "own"],
    ["another number of ours", { From: "+15550188" }, { own_numbers: ["+1 555 0188"] }, "own"],
    ["a short code, when configured", { From: "72345" }, { ignore_short_codes: true }, "short-code"],
    ["a sender's name", { From: "PARCELS" }, {}, "no-reply-address"],
    ["neither words nor pictures", { Body: " " }, {}, "empty"],
  ])("%s", async (_what, form, more, code) => {
    expect((await heard(textForm("SM1", "hi", form), more)).refusal?.code).toBe(code);
  });

  it.each([
    "I’m driving with Focus turned on. I’ll see your message when I get where I’m going.",
    "(I'm not receiving notifications. If this is urgent, reply “urgent” to send a notification through.)",
    "I'm driving right now, I'll get back to you later",
    "Auto-reply: we have received your text",
    "This is an automated message. Please do not reply.",
    "Automatische Antwort: Ich melde mich",
    "RÉPONSE AUTOMATIQUE : absent",
    "Free Msg: Unable to send message - Message Blocking is active.",
    "AT&T FREEMSG: your message was not delivered",
    "Unable to send message - Message Blocking is active",
  ])("holds the automatic reply %j for an operator", async (Body) => {
    expect((await heard(textForm("SM1", Body))).refusal).toMatchObject({ code: "possible-auto-reply", hold: true });
  });

  it.each([
    "Did you get my automatic reply?",
    "I'm driving home right now, when does the shop close?",
    "Automated lamps: do you sell any?",
    "Unable to send message in your app",
    "I got this is an automated message, what now?",
  ])("answers %j, which only mentions one", async (Body) => {
    expect((await heard(textForm("SM1", Body))).refusal).toBeUndefined();
  });

  it("does not include short codes unless configured", async () => {
    expect((await heard(textForm("SM1", "hi", { From: "72345" }))).refusal).toBeUndefined();
  });

  it("is no way to opt our own numbers out", async () => {
    expect((await heard(textForm("SM1", "STOP", { From: ours }))).consent).toBeUndefined();
  });
});

describe("a status", () => {
  it.each([
    ["accepted", "accepted"],
    ["queued", "accepted"],
    ["sending", "accepted"],
    ["sent", "accepted"],
    ["delivered", "delivered"],
    ["read", "read"],
    ["undelivered", "failed"],
    ["failed", "failed"],
    ["canceled", "failed"],
  ])("%s is %s, about our draft and its sid", async (status, state) => {
    const event = await told(statusForm("SM1", status), "?draft=01hzx7key");
    expect(event).toMatchObject({ id: `SM1/${status}`, state, about: { key: "01hzx7key", sent: ["SM1"] } });
    expect(event.id).toBe(statusEventId("SM1", status));
  });

  it.each([
    [30003, false],
    [30005, true],
    [30008, false],
    [30001, false],
    [30036, false],
    [30006, true],
    [21614, true],
    [21610, true],
    [30007, false],
    [99999, false],
  ])("of failure with code %s is permanent: %s", async (code, permanent) => {
    const event = await told(statusForm("SM1", "undelivered", { ErrorCode: String(code) }));
    expect(event.permanent).toBe(permanent);
    expect(event.detail).toContain(String(code));
  });

  it("of failure has the provider's code, and a separate code for an opt-out", async () => {
    for (const [ErrorCode, code] of [
      ["21610", "opted-out"],
      ["30006", "30006"],
      ["", undefined],
    ] as const)
      expect((await told(statusForm("SM1", "failed", { ErrorCode }))).code).toBe(code);
    expect(await told(statusForm("SM1", "delivered", { ErrorCode: "21610" }))).not.toHaveProperty("code");
  });

  it("counts once per keyword, in any order", async () => {
    const { post, channel } = openTwilio(api);
    for (const status of ["delivered", "sent", "delivered", "queued", "sent"])
      await post("/status", signed(at("/status"), statusForm("SM1", status)));
    expect(channel.stored.map(({ id }) => id)).toEqual(["SM1/delivered", "SM1/sent", "SM1/queued"]);
  });

  it("without a key, or with an invalid one, is about its sid alone", async () => {
    for (const query of ["", "?draft=", "?draft=NOT%20a%20key", "?other=1"])
      expect((await told(statusForm("SM1", "sent"), query)).about).toEqual({ sent: ["SM1"] });
  });

  it("that does not belong to one of our texts creates nothing", async () => {
    const { post, channel } = openTwilio(api);
    for (const form of [statusForm("SM1", "received"), statusForm("", "sent"), statusForm("SM1", "brand-new")])
      expect((await post("/status", signed(at("/status"), form))).status).toBe(200);
    expect(channel.calls).toEqual([]);
    expect(channel.logged.filter(({ message }) => message === misplaced)).toHaveLength(3);
  });

  it("has its key signed with it: another's is refused", async () => {
    const { post, channel } = openTwilio(api);
    const request = signed(at("/status", "?draft=theirs"), statusForm("SM1", "failed"), {
      signedUrl: at("/status", "?draft=ours"),
    });
    expect((await post("/status", request)).status).toBe(403);
    expect(channel.calls).toEqual([]);
  });
});

describe("a business term that ends texts where it does", () => {
  it.each<[string, Fields, Settings, object | undefined]>([
    [
      "kündigen",
      { To: "+4930901820" },
      { number: "+4930901820" },
      { word: "stop", ambiguous: true, answer: expect.stringContaining("START") as string },
    ],
    ["kündigen", {}, {}, undefined],
    ["cancel", {}, {}, { word: "stop", ambiguous: true, answer: expect.stringContaining("START") as string }],
    ["cancel", { To: "+4930901820" }, { number: "+4930901820" }, undefined],
    ["cancel", { To: "72345" }, { number: "72345" }, undefined],
    ["cancel", { To: "72345" }, { number: "72345", country: "US" }, { word: "stop", ambiguous: true, answer: "Bye." }],
    ["yes", {}, {}, { word: "start", ambiguous: true, answer: expect.stringContaining("STOP") as string }],
    ["STOP", { To: "+4930901820" }, { number: "+4930901820" }, { word: "stop" }],
    [
      "opzeggen",
      {},
      { opt_out: { countries: ["NL"] } },
      { word: "stop", ambiguous: true, answer: expect.stringContaining("START") as string },
    ],
  ])("%s (%#)", async (text, form, more, consent) => {
    const settings =
      consent && "answer" in consent && consent.answer === "Bye." ? { ...more, opt_out: { stop_text: "Bye." } } : more;
    expect((await heard(textForm("SM1", text, form), settings)).consent).toEqual(consent);
  });
});
