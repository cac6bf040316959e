// Malformed frames: a dialect answers with events or closes the socket.

import { recordingChannel } from "bridgehead/contract/testing";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Dialect, DialectReading, Translator } from "../../../../adapters/voice/dialects/dialect.ts";
import { jambonz } from "../../../../adapters/voice/dialects/jambonz.ts";
import { retell } from "../../../../adapters/voice/dialects/retell.ts";
import { telnyx } from "../../../../adapters/voice/dialects/telnyx.ts";
import { VoiceChannel } from "../../../../adapters/voice/engine/record.ts";
import voice from "../../../../adapters/voice/index.ts";
import { callToken } from "../../../../adapters/voice/proof.ts";

const info = { call_sid: "c-1", direction: "inbound", from: "+15005550001", to: "+15005550006" };
const speech = {
  is_final: true,
  language_code: "en-US",
  alternatives: [{ confidence: 0.9, transcript: "hello" }],
};
const pass = () => `${Buffer.from("v3:1").toString("base64url")}~${callToken("k", "v3:1", Date.now() + 60_000)}`;
const said = [
  { role: "agent", content: "Hello." },
  { role: "user", content: "My name is Mike" },
];

const dialects: readonly {
  readonly name: string;
  readonly dialect: Dialect;
  readonly block: object;
  readonly address: () => string;
  readonly start: object;
  readonly frames: readonly object[];
}[] = [
  {
    name: "jambonz",
    dialect: jambonz,
    block: { dialect: "jambonz", jambonz: { user: "u", password: "p" } },
    address: () => "/relay",
    start: { type: "session:new", msgid: "m1", call_sid: "c-1", data: info },
    frames: [
      { type: "session:reconnect", msgid: "m2", call_sid: "c-1", data: info },
      { type: "verb:hook", msgid: "m3", call_sid: "c-1", hook: "/turn", data: { ...info, speech } },
      { type: "verb:hook", msgid: "m4", call_sid: "c-1", hook: "/partial", data: { speech } },
      {
        type: "verb:hook",
        msgid: "m5",
        call_sid: "c-1",
        hook: "/turn",
        data: { digits: "12", reason: "dtmfDetected" },
      },
      {
        type: "verb:status",
        msgid: "m6",
        call_sid: "c-1",
        data: { event: "start-playback", id: "say-1", name: "say" },
      },
      {
        type: "verb:status",
        msgid: "m7",
        call_sid: "c-1",
        data: { event: "kill-playback", id: "say-1", name: "say" },
      },
      { type: "call:status", msgid: "m8", call_sid: "c-1", data: { call_status: "completed" } },
      { type: "jambonz:error", msgid: "m9", data: {} },
    ],
  },
  {
    name: "retell",
    dialect: retell,
    block: { dialect: "retell", retell: { secret: "s" } },
    address: () => "/llm/c-1?secret=s",
    start: {
      interaction_type: "call_details",
      call: { call_id: "c-1", direction: "inbound", from_number: "+15005550001", to_number: "+15005550006" },
    },
    frames: [
      { interaction_type: "ping_pong", timestamp: 1 },
      {
        interaction_type: "update_only",
        transcript: said,
        transcript_with_tool_calls: [{ role: "dtmf", digit: "1" }],
      },
      { interaction_type: "response_required", response_id: 1, transcript: said },
      { interaction_type: "reminder_required", response_id: 2, transcript: said },
    ],
  },
  {
    name: "telnyx",
    dialect: telnyx,
    block: {
      dialect: "telnyx",
      telnyx: { public_key: Buffer.alloc(32, 7).toString("base64"), token_key: "k" },
    },
    address: () => `/relay/${pass()}`,
    start: { type: "setup", callSid: "v2:1", from: "+15005550001", to: "+15005550006", direction: "inbound" },
    frames: [
      { type: "prompt", voicePrompt: "hello", lang: "en", last: true },
      { type: "prompt", voicePrompt: "hel", lang: "en", last: false },
      { type: "dtmf", digit: "1" },
      { type: "interrupt", utteranceUntilInterrupt: "Hel", durationUntilInterruptMs: 10 },
      { type: "info", name: "clientSpeaking", value: "on" },
      { type: "error", description: "Invalid message" },
    ],
  },
];

const junk = fc.oneof(fc.jsonValue(), fc.string(), fc.constantFrom(null, [], {}, -1, 1e300, "", "\u0000", "__proto__"));

/** A frame with some of its values replaced, at any depth. */
const spoilt = (frame: object) =>
  fc.array(fc.tuple(fc.nat(), junk), { maxLength: 3 }).map((changes) => {
    const copy = structuredClone(frame) as Record<string, unknown>;
    for (const [where, value] of changes) {
      const places = placesIn(copy);
      const place = places[where % places.length];
      if (place) place.holder[place.key] = value;
    }
    return JSON.stringify(copy);
  });

function placesIn(value: unknown): { holder: Record<string, unknown>; key: string }[] {
  if (typeof value !== "object" || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((key) => [{ holder, key }, ...placesIn(holder[key])]);
}

const commands = fc.oneof(
  fc.record({
    kind: fc.constant("say" as const),
    text: fc.constantFrom("", "Hello. ", "Yes."),
    last: fc.boolean(),
    language: fc.constantFrom(null, "de-DE"),
  }),
  fc.constant({ kind: "stop" as const }),
  fc.constant({ kind: "language" as const, language: "de-DE" }),
);

function well(reading: DialectReading): void {
  for (const answer of reading.answers ?? []) expect(JSON.parse(answer)).toBeTypeOf("object");
  for (const event of reading.events) {
    if (event.kind === "turn" || event.kind === "partial") expect(event.text).toBeTypeOf("string");
    if (event.kind === "interrupted") expect(["string", "object"]).toContain(typeof event.heard);
    if (event.kind === "playback" || event.kind === "speaking") expect(event.speaking).toBeTypeOf("boolean");
    if (event.kind === "digits") expect(event.digits).toBeTypeOf("string");
    if (event.kind === "end") expect(event.reason).toMatch(/^[a-z-]+$/);
    if (event.kind !== "start") continue;
    expect(event.call).toBeTypeOf("string");
    for (const text of [event.person, event.ours, event.ticket])
      expect(text === null || typeof text === "string").toBe(true);
    if (event.ticket !== null) expect(event.ticket).toMatch(/^[\w-]{1,64}$/);
  }
}

describe.each(dialects)("$name", ({ dialect, block, address, start, frames }) => {
  const connect = (): Translator => {
    const channel = recordingChannel();
    const config = voice.config.parse(block);
    const own = (config as Readonly<Record<string, unknown>>)[dialect.name];
    const { socket } = dialect.create(new VoiceChannel(channel, config), own);
    if (socket === undefined) throw new Error("no socket");
    return socket.connect(new Request(`https://x.example/channels/v${address()}`));
  };

  it("makes sense of spoilt frames, or refuses them", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom(start, ...frames).chain(spoilt), commands), { maxLength: 25 }),
        (steps) => {
          const translator = connect();
          translator.read(JSON.stringify(start));
          for (const step of steps) {
            if (typeof step !== "string") {
              for (const frame of translator.write(step)) expect(JSON.parse(frame)).toBeTypeOf("object");
              continue;
            }
            let reading: DialectReading = { events: [] };
            try {
              reading = translator.read(step);
            } catch (error) {
              // A rejected frame has a specific error; a TypeError would be a bug in the parser.
              expect(error).not.toBeInstanceOf(TypeError);
            }
            well(reading);
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  it("refuses what is no frame", () => {
    for (const text of ["", "}{", "nul", "[1", "\u0000"]) expect(() => connect().read(text), text).toThrow();
  });
});
