// TwiML as the text that Twilio gets: every attribute we rely on, spelled as it is documented.

import { expect, test } from "vitest";
import { callToken, readToken } from "../../../../adapters/voice/proof.ts";
import { element, escapeXml } from "../../../../adapters/voice/twiml.ts";
import { readTwiml } from "../../../../src/sandbox/call-flow.ts";
import { postSigned } from "../../../../src/sandbox/twilio-webhooks.ts";
import {
  authToken,
  dialedFixture,
  openVoiceFixture,
  type VoiceFixtureOptions,
} from "../../../support/voice/adapter.ts";

async function started(options: VoiceFixtureOptions = {}, query = ""): Promise<string> {
  const fixture = await openVoiceFixture(options);
  const url = `https://bridge.example/channels/line/call${query}`;
  const form = { CallSid: "CA1", From: "+15005550001", To: "+15005550006", Direction: "inbound" };
  const { body, type } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
  expect(type).toBe("text/xml; charset=utf-8");
  return body.replace(/(name="token" value=")[^"]+/, "$1TOKEN");
}

test("the start of a call", async () => {
  expect(await started({ config: { greeting: 'Hello <there> & "welcome", it\'s us.' } })).toBe(
    '<?xml version="1.0" encoding="UTF-8"?><Response>' +
      '<Connect action="https://bridge.example/channels/line/ended?n=0" method="POST">' +
      '<ConversationRelay url="wss://bridge.example/channels/line/relay"' +
      ' welcomeGreeting="Hello &lt;there&gt; &amp; &quot;welcome&quot;, it&apos;s us." welcomeGreetingInterruptible="any"' +
      ' language="en-US" ttsProvider="ElevenLabs" transcriptionProvider="Deepgram" speechTimeout="auto"' +
      ' interruptible="any" interruptSensitivity="high" reportInputDuringAgentSpeech="any" preemptible="false"' +
      ' partialPrompts="false" ignoreBackchannel="false" dtmfDetection="true" profanityFilter="false"' +
      ' events="speaker-events" applicationReconnect="false">' +
      '<Parameter name="token" value="TOKEN"/></ConversationRelay></Connect></Response>',
  );
});

test("languages, voices and hints", async () => {
  const text = await started({
    config: {
      language: "de-DE",
      languages: [{ code: "fr-FR", voice: "Remi", tts_provider: "Amazon" }],
      tts_provider: "Google",
      voice: "de-DE-Neural2-B",
      speech_model: "telephony",
      transcription_provider: "Google",
      speech_timeout: "800ms",
      hints: ["Bridgehead", "R&D"],
      interruptible: "dtmf",
      greeting: { de: "Guten Tag.", "fr-FR": "Bonjour." },
    },
  });
  for (const part of [
    'welcomeGreeting="Guten Tag."',
    'language="de-DE" ttsProvider="Google" voice="de-DE-Neural2-B" transcriptionProvider="Google" speechModel="telephony" speechTimeout="800"',
    'hints="Bridgehead, R&amp;D"',
    'reportInputDuringAgentSpeech="dtmf"',
    '<Language code="fr-FR" ttsProvider="Amazon" voice="Remi" transcriptionProvider="Google" speechModel="telephony"/>',
  ])
    expect(text).toContain(part);
});

test("the agent's introduction greets where the configuration does not, and our default where neither does", async () => {
  const config = { greeting: undefined };
  expect(await started({ config, introduction: "This is Ada." })).toContain('welcomeGreeting="This is Ada."');
  expect(await started({ config })).toContain('welcomeGreeting="Hello, how can I help you?"');
});

test("what XML cannot hold is dropped, and what is written can be read", () => {
  const hostile = "a\u0000b\uFFFE<&>\"'\uD800c";
  expect(escapeXml(hostile)).toBe("ab&lt;&amp;&gt;&quot;&apos;c");
  const text = `<Response>${element("Say", { language: hostile, voice: null, loop: 2 }, [escapeXml(hostile)])}</Response>`;
  expect(readTwiml(text)).toMatchObject([
    { name: "Say", attributes: { language: "ab<&>\"'c", loop: "2" }, text: "ab<&>\"'c" },
  ]);
});

test("a token holds for its call, for a minute, under any of the keys", () => {
  const token = callToken("old", "CA1", 61_000);
  const id = readToken(["new", "old"], token, "CA1", 61_000);
  expect(id).toMatch(/^[\w-]{20}$/);
  expect(readToken(["new"], token, "CA1", 1000)).toBeNull();
  expect(readToken(["old"], token, "CA2", 1000)).toBeNull();
  expect(readToken(["old"], token, "CA1", 61_001)).toBeNull();
  expect(callToken("old", "CA1", 61_000)).not.toBe(token);
});

test("no change of a token is taken for one", () => {
  const token = callToken("key", "CA1", 61_000);
  let taken = 0;
  for (let n = 0; n < 5000; n++) {
    const at = n % token.length;
    const letter = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."[(n * 7) % 65] ?? "";
    const changed =
      n % 3 === 0 ? token.slice(0, at) + token.slice(at + 1) : token.slice(0, at) + letter + token.slice(at + 1);
    if (changed !== token && readToken(["key"], changed, "CA1", 1000) !== null) taken++;
  }
  expect(taken).toBe(0);
});

test("interruptions and back-channels as they are configured", async () => {
  const text = await started({ config: { interrupt_sensitivity: "low", ignore_backchannel: true } });
  expect(text).toContain('interruptSensitivity="low"');
  expect(text).toContain('ignoreBackchannel="true"');
});

test("the caller's language is detected, and spoken by a voice that speaks all of them", async () => {
  const text = await started({ config: { transcription_language: "multi" } });
  expect(text).toContain('ttsLanguage="multi" transcriptionLanguage="multi" ttsProvider="ElevenLabs"');
  expect(text).not.toContain(" language=");
});

test("the caller's language is detected, and answered in one of the languages", async () => {
  const languages = [{ code: "es-US" }, { code: "de-DE" }];
  const config = { transcription_language: "multi", languages, tts_provider: "Google" };
  expect(await started({ config })).toContain('ttsLanguage="en-US" transcriptionLanguage="multi"');
  const { fixture, call } = await dialedFixture({ config });
  call.say("Hola", { lang: "es" });
  await fixture.clock.passes(1000);
  await fixture.answer(call, "Buenas tardes.");
  await call.hears("Buenas tardes.");
  const frames = call.frames.map(({ frame }) => frame);
  expect(frames.filter(({ type }) => type === "language")).toEqual([{ type: "language", ttsLanguage: "es-US" }]);
  expect(frames.filter(({ type }) => type === "text").at(-1)).toMatchObject({ lang: "es-US" });
});

test("a language of its own for hearing", async () => {
  const text = await started({ config: { transcription_language: "en-GB" } });
  expect(text).toContain('ttsLanguage="en-US" transcriptionLanguage="en-GB"');
});
