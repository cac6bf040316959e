// Every exported function that is given untrusted text (customers', agents', responders', providers'), and how it is called
// with it. A function that is not here fails registered.test.ts, unless it is exempt there with a reason.

import type { Outbound } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import { config as smsConfig } from "../../adapters/sms/config.ts";
import type { Dialect, Translator } from "../../adapters/voice/dialects/dialect.ts";
import type { Dialogue } from "../../adapters/voice/engine/dialogue.ts";
import { VoiceChannel } from "../../adapters/voice/engine/record.ts";
import voice from "../../adapters/voice/index.ts";
import { phrases } from "../../adapters/voice/speech/phrases.ts";
import type { ListSplitter } from "../../src/client/reading.ts";
import { masking } from "../../src/config/index.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { message } from "../../src/wire/conversation.ts";
import {
  bytes,
  type Cases,
  emailCases,
  eventWith,
  type Given,
  matterWith,
  ofMatter,
  one,
  replyWith,
} from "./registry-email.ts";

const sms = smsConfig.parse({
  provider: "twilio",
  account_sid: `AC${"0".repeat(32)}`,
  auth_tokens: ["0".repeat(32)],
  number: "+12025550100",
});
const split = { target: 320, max: 1600, parts: 6, numbering: "(1/2)" };
const now = new Date(0);
const frame = (type: string, field: string) => (text: string) => JSON.stringify({ type, [field]: text });

const calls = voice.config.parse({ auth_tokens: ["secret"] });

/** The translator of a dialect, with its own configuration block. */
function translatorOf(dialect: unknown, block: object, path: string): Translator {
  const { socket } = (dialect as Dialect).create(new VoiceChannel(recordingChannel(), calls), block);
  if (socket === undefined) throw new Error("no socket");
  return socket.connect(new Request(`https://x.example${path}`));
}

export const cases: Cases = {
  ...emailCases,
  "src/contract/wrong-fields.ts": {
    wrongField: (f, text) => [f(eventWith(text)), f({ ...eventWith(text), thread: { answers: text.split("") } })],
    unstorableField: (f, text) => [f(eventWith(text)), f({ ...eventWith(text), thread: { answers: text.split("") } })],
  },
  "src/contract/http.ts": {
    parsedJson: one,
    retryAfterOf: (f, text) => f({ headers: { "retry-after": text } }, { now: 0 }),
  },
  "src/contract/units.ts": { readDuration: one },
  "src/contract/markdown.ts": {
    asMarkdown: (f, text) => f(`<p>${text}</p>`),
    htmlToMarkdown: one,
  },
  "src/domain/command-text.ts": {
    shellQuoted: one,
    commandText: (f, text) => f(text, text),
  },
  "src/domain/guards.ts": {
    isShortCode: one,
    refuse: (f, text) => f(eventWith(text), { max_age: 1, allow: ["*@b.c"], deny: ["a*b*c@d.e"] }, 0),
    barred: (f, text) => f(text, { allow: ["*@b.c", "*a*a*a*b"], deny: ["a*b*c@d.e"] }),
    matches: (f, text) => f("*a*a*a*a*b*", text),
  },
  "src/domain/instructions.ts": {
    looksLikeCommand: one,
    readInstructions: (f, text) => f(text, ["Anna Example", "Dora Dahl"], true),
    withoutSignOff: (f, text) => f(text, ["Anna Example", "Dora Dahl"]),
  },
  "src/domain/machine-reply.ts": {
    machineReply: (f, text) => [f(text, text), f(`Re: [Escalation 1] ${text}`, ""), f(`${text} [Escalation 1]`, "")],
    composed: (f, text) => [f(text), f(text, "NFKC"), f(text.slice(0, 20_000), "NFKD")],
  },
  "src/domain/turn.ts": {
    normalizeWhitespace: one,
    questionText: (f, text) => f(eventWith(text), true, [{ name: text, media_type: text, size: 1 }]),
    attachmentLines: (f, text) => f([{ name: text, media_type: text, size: 1 }]),
    questionContext: (f, text) => f(eventWith(text)),
    joinedContext: (f, text) => f(text, `${text}x`),
    answerTo: (f, text) => f(eventWith(text)),
    references: (f, text) => f(eventWith(text)),
  },
  "src/escalation/reply/files.ts": {
    namesOf: (f, text) => f(text.split(" ").map((name) => ({ name }))),
  },
  "src/escalation/platform-webhook/decide.ts": {
    isSignedBy: (f, text) =>
      f(["whsec_AAAA"], { get: (name: string) => (name === "webhook-timestamp" ? "0" : text) }, Buffer.from(text), 0),
    readPayload: (f, text) => [
      f(text),
      f(JSON.stringify({ conversationId: text, escalation: { topic: text }, message: text })),
    ],
  },
  "src/escalation/link/page.ts": {
    hashOf: one,
    pageResponse: (f, text) =>
      f(
        200,
        {
          title: text,
          state: "open",
          status: text,
          facts: [["Why", text]],
          details: [["Agent", text]],
          messages: [{ who: text, side: "person", at: "", text }],
          notes: [text],
          notified: [text],
          actions: new Set(["note"]),
          whyNotReplied: text,
          asksName: true,
        },
        { says: text, action: "note", text, name: text, repeated: true },
      ),
  },
  "src/escalation/link/decide.ts": {
    pageOf: (f, text) =>
      f(
        {
          target: { id: "c", way: "email" },
          details: matterWith(text),
          notifications: [],
          whyNotReplied: null,
          isReturned: false,
        },
        { actions: ["reply"], addresses: "masked" },
      ),
    masked: one,
  },
  "src/escalation/notify/text.ts": {
    notificationText: (f, text) => {
      const due = { target: { way: "email", name: text }, row: { number: 1 } };
      const group = (kind: string, said: string | null) => [
        { ...due, notification: { kind, text: said, subject: "" } },
      ];
      const details = [matterWith(text)];
      return [
        f(group("customer", text), details, null, false),
        f([...group("opened", null), ...group("opened", null)], details, null, false),
        f([...group("acknowledged", null), ...group("acknowledged", null)], details, null, false),
      ];
    },
    webhookText: (f, text) => f(matterWith(text), { kind: "message", text }, { name: text }, null),
    subjectOf: (f, text) => f(matterWith(text)),
    numberIn: one,
    shortText: ofMatter,
    longText: ofMatter,
    acknowledgedText: (f, text) => f(matterWith(text).row, text),
    clipped: (f, text) => f(text, 1),
    customerText: (f, text) => f(matterWith(text).row, text, text),
    customerQuote: one,
    quotesNotification: one,
  },
  "adapters/sms/text/plain.ts": {
    clean: one,
    toPlain: one,
  },
  "adapters/sms/text/segments.ts": {
    isGsm: one,
    encodeGsm: one,
    decodeGsm: bytes,
    segmentsOf: one,
  },
  "adapters/sms/text/split.ts": {
    textsOf: (f, text) => f(replyWith(text), split),
    split: (f, text) => f(text, 320),
  },
  "adapters/sms/phrases.ts": {
    requestIn: (f, text) => [f(text), f(text.slice(0, 320)), f(text.slice(0, 100))],
    withoutSignature: (f, text) => [f(text), f(`a\n${text}`), f(`a\n-${text}`)],
  },
  "adapters/sms/consent.ts": {
    consentOf: (f, text) => f(text, { languages: ["en", "de"], add: {}, remove: [] }),
  },
  "adapters/sms/draft.ts": {
    senderFor: (f, text) => [f(text, "+12025550100"), f(`whatsapp:${text}`, "+12025550100")],
    compose: (f, text) => f(sms, { maxLength: 1600, media: true }, replyWith(text)),
  },
  "adapters/sms/numbers.ts": {
    canonicalNumber: (f, text) => [f(text), f(text, "US")],
    countriesOf: (f, text) => [f(text), f(`+1202${text}`)],
  },
  "adapters/sms/provider.ts": {
    statusEventId: (f, text) => f(text, text),
  },
  "adapters/sms/telnyx/webhook.ts": {
    readEvent: (f, whole) => {
      const text = whole.slice(0, whole.length / 2);
      const payload = {
        id: text,
        text,
        from: { phone_number: text },
        to: [{ phone_number: text, status: text }],
        errors: [{ detail: text }],
      };
      return ["message.received", "message.finalized"].map((event_type) =>
        f(Buffer.from(JSON.stringify({ data: { id: text, event_type, payload } })), 0),
      );
    },
  },
  "adapters/sms/smpp/encoding.ts": {
    piecesOf: (f, text) => [f(text.slice(0, 9000), "gsm7", 1), f(text.slice(0, 9000), "latin1", 1)],
    fromAddress: (f, text) => f({ ton: 1, address: text }, "DE"),
  },
  "adapters/sms/smpp/pdu.ts": {
    decode: bytes,
  },
  "adapters/voice/speech/speakable.ts": {
    sentences: (f, text) => f(text.slice(0, 20_000), "en"),
    speakable: (f, text) => f(text, "en"),
    sentencesOf: (f, text) => f(text, "en", phrases("en")),
    beginningOf: (f, text) => f(text, "en", 4, phrases("en")),
  },
  "adapters/voice/speech/phrases.ts": {
    phrases: one,
    primary: one,
  },
  "adapters/voice/speech/words.ts": {
    wordsOf: one,
  },
  "adapters/voice/dialects/twilio.ts": {
    relayTranslator: (f: Given, text: string) => {
      const { read } = f(() => null) as { read: (frame: string) => unknown };
      return [
        frame("prompt", "voicePrompt"),
        frame("dtmf", "digit"),
        frame("interrupt", "utteranceUntilInterrupt"),
      ].map((made) => read(made(text)));
    },
  },
  "adapters/voice/twiml.ts": {
    languageInData: one,
    escapeXml: one,
    say: (f, text) => f(text, "en"),
    element: (f, text) => f("Say", { language: text }, [text]),
    twiml: one,
  },
  "src/ops/log.ts": {
    createLog: (f, text) => {
      for (const format of ["json", "text"]) {
        const log = f({
          level: "info",
          format,
          out: { write: () => true },
          clock: { now: () => 0 },
          journal: true,
        }) as {
          info(fields: object, message: string): void;
          setMask(mask: (line: string) => string): void;
        };
        log.setMask(masking(["secret", "long secret", "a a a"]));
        log.info({ text, err: new Error(text.slice(0, 1000)) }, "tested");
      }
    },
  },
  "src/ops/address.ts": {
    isLocalName: one,
    isPublic: one,
    isAllowed: (f, text) => f(text, ["10.0.0.0/8", "host"]),
  },
  "src/wire/record.ts": {
    plainText: one,
    failureReason: (f, text) => f({ name: text, message: [text], details: [{ path: text }] }),
    failureDetails: (f, text) => f({ details: [{ path: text, message: text }] }),
    read: (f, text) => {
      const sent = { id: text, message: text, senderRole: text, createdAt: text, files: text };
      return f(message.read, sent, () => undefined);
    },
  },
  "src/agent/messages.ts": {
    findWords: (f, text) =>
      f([{ id: "1", senderRole: "manual_assistant", message: text, createdAt: "2026" }], {
        text,
        knownIds: new Set(),
      }),
    findQuestion: (f, text) =>
      f([{ id: "1", senderRole: "conversation_user", message: text, createdAt: "2026" }], {
        text,
        knownIds: new Set(),
      }),
  },
  "adapters/voice/engine/dialogue.ts": {
    Dialogue: (f, text) => {
      const moment = { speaking: true, pending: false };
      const call = new (f as unknown as typeof Dialogue)();
      call.answers({ sentences: text.split("\n"), most: 4, offer: "More?" });
      call.utteranceBegins(1);
      call.ignores(text, moment);
      call.interrupted(text);
      call.ignores(text, moment);
      return [call.handleUtterance(text), call.handleUtterance(text), call.finishReply()];
    },
  },
  "adapters/voice/speech/utterances.ts": {
    isBackchannel: one,
    isAcknowledgement: one,
    isPresenceCheck: one,
    isClosing: one,
    isGoodbye: one,
  },
  "src/client/reading.ts": {
    ListSplitter: (f, text) =>
      [`{"data":[${text}`, JSON.stringify({ data: text.split(" ") })].map((body) => {
        const splitter = Reflect.construct(f, ["data"]) as ListSplitter;
        for (let at = 0; at < body.length; at += 1000) splitter.push(Buffer.from(body.slice(at, at + 1000)));
        return splitter.end();
      }),
  },
  "src/ops/systemd.ts": {
    withErrorPriority: one,
  },
  "adapters/sms/outcomes.ts": {
    withoutNumbers: one,
    unreachable: (f, text) => [
      f(Object.assign(new Error(text), { code: text })),
      f(new Error(text)),
      f(text),
      f({ code: text }),
    ],
  },
  "adapters/sms/events.ts": {
    meaningOf: (f, text) => [f(sms, text, "+12025550100"), f(sms, text, text)],
    eventOfText: (f, text) =>
      f(sms, {
        id: "1",
        from: text,
        to: "+12025550100",
        body: text,
        name: text,
        media: [],
        sentAt: now,
        raw: Buffer.alloc(0),
      }),
    eventOfStatus: (f, text) => f({ id: text, state: "failed", status: text, detail: text, raw: Buffer.alloc(0) }),
  },
  "adapters/sms/twilio/webhook.ts": {
    prove: (f, text) => f(new URL("https://a.b/c"), text, { Body: text }, ["k"]),
  },
  "adapters/sms/twilio/forms.ts": {
    textOfForm: (f, text) =>
      f(
        { From: text, To: text, Body: text, MessageSid: text, ProfileName: text, NumMedia: text },
        Buffer.alloc(0),
        now,
      ),
    statusOfForm: (f, text) =>
      f(
        { MessageSid: text, MessageStatus: text, ErrorCode: text, To: text },
        new URL("https://a.b/c"),
        Buffer.alloc(0),
      ),
  },
  "src/platform/conversations/start.ts": { dialled: one },
  "src/platform/agents/skills.ts": { headerProblem: (f, text) => f("x-name", text) },
  "src/platform/brain/knowledge.ts": {
    answerByRule: (f, text) =>
      f([{ pattern: /(?<![\p{L}\p{N}])(?:refund|opening hours)(?![\p{L}\p{N}])/iu, answer: "x" }], text),
    matches: (f, text) => f({ pattern: /a+b/u, answer: "x" }, text),
    passagesOf: (f, text) => f(undefined, text, null),
    meaningfulWords: one,
    findPassages: (f, text) =>
      f({ search: () => [{ rowid: 1, title: text, text }], contains: () => false }, "a", text, 3),
  },
  "src/platform/brain/response.ts": {
    parsed: one,
    createAssembler: (f, text) => {
      const { events } = f({ read: () => null }) as { events: (chunk: Uint8Array) => void };
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; at += 1000) events(bytes.subarray(at, at + 1000));
    },
  },
  "src/platform/conversations/escalations.ts": {
    speaksOf: (f, text) => f({ topic: "refund", prompt: "The customer wants a refund or is angry" }, text),
  },
  "src/escalation/webhook/recipients.ts": {
    escalationsFor: (f, text) => f(text, [{ topic: text, response: text, recipients: [] }]),
    webhookHeaders: (f, text) => f("id", 0, text, "whsec_AAAA"),
  },
  "src/escalation/trigger/decide.ts": {
    escalatingTopic: (f, text) => f([{ topic: text, response: text }], text),
  },
  "src/escalation/webhook/answer.ts": {
    failureIn: (f, text) =>
      f({ status: 503, headers: { "retry-after": text.slice(0, 1000) } }, 1, 0, standardTiming.webhook),
    replyIn: (f, text) =>
      f(
        {
          status: 200,
          headers: { "content-type": "application/json" },
          json: { reply: text, by: text },
        },
        '{"type":"escalation.opened"}',
      ),
  },
  "adapters/voice/dialects/jambonz.ts": {
    jambonz: (f, text) => {
      const line = translatorOf(f, { user: "u", password: "p" }, "/relay");
      const [call_sid, speech] = ["c", { alternatives: [{ transcript: text }], language_code: text }];
      return [
        { type: "session:new", msgid: "a", call_sid, data: { from: text, to: text } },
        { type: "verb:hook", msgid: "b", call_sid, hook: "/turn", data: { speech, reason: text } },
        { type: "verb:hook", msgid: "c", call_sid, hook: text, data: { text } },
      ].map((one) => line.read(JSON.stringify(one)));
    },
  },
  "adapters/voice/dialects/retell.ts": {
    retell: (f, text) => {
      const line = translatorOf(f, { secret: "s" }, "/channels/v/llm/c?secret=s");
      line.read(JSON.stringify({ interaction_type: "call_details", call: { call_id: "c", from_number: text } }));
      line.write({ kind: "say", text, last: true, language: null });
      const transcript = [
        { role: "agent", content: text },
        { role: "user", content: text },
      ];
      return [
        { interaction_type: "update_only", transcript },
        { interaction_type: "response_required", response_id: 1, transcript },
      ].map((one) => line.read(JSON.stringify(one)));
    },
  },
  "src/contract/signatures.ts": {
    sameText: (f, text) => f("secret", text),
    ed25519Key: one,
    formOf: one,
    formField: (f, text) => f({ a: text }, "a"),
    countFields: (f, text) => f({ a: text.split("") }),
  },
  "adapters/voice/proof.ts": {
    readToken: (f, text) => f(["secret"], text, text, 0),
    firstOf: (f, text) => f({ a: text, b: text.split("") }),
  },
  "adapters/voice/outbound.ts": {
    callable: one,
    outbound: (f, text) => {
      const sending = f({}, () => undefined, null) as Outbound;
      return sending.compose(replyWith(text));
    },
  },
  "adapters/voice/engine/speaking.ts": { spokenLength: one },
  "adapters/voice/engine/record.ts": {
    missedCall: (f, text) => f({ call: text, from: { address: text, name: text }, ours: text, at: 0 }, text),
    voicemail: (f, text) =>
      f({ call: text, from: { address: text, name: text }, ours: text, at: 0 }, { id: text, url: text, seconds: text }),
    personOf: (f, text) => f(text, "call"),
    partiesOf: (f, text) => f({ From: text, To: text, Direction: text }),
  },
  "src/platform/files/message-files.ts": { fileName: one, savedAs: one },
};
