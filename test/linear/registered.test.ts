// Every function that processes untrusted text is registered, so that linear.long.test.ts measures it.

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { cases } from "./registry.ts";

/** Files whose exported functions are looked at. A new folder of an adapter, such as an SMS provider, is among them. */
const files: readonly string[] = [
  "{adapters,src/escalation}/**/*.ts",
  "src/{domain,ops,wire,agent,client,contract}/*.ts",
  "src/platform/{*,{agents,conversations,brain,files}/*}.ts",
];

/** `path#name`, or `path` for all of a file, by reason. */
const exempt: Readonly<Record<string, readonly string[]>> = {
  "reads the configuration, an agent's definition, or what an operator wrote": [
    "src/contract/define.ts#wrongTraits",
    "src/contract/units.ts#units",
    "src/domain/hours.ts",
    "src/domain/policy.ts#contactsOf",
    "src/domain/retry.ts#paceOf",
    "src/ops/address.ts#bound",
    "src/ops/private-file.ts",
    "src/platform/brain/knowledge.ts#ruleProblem",
    "src/platform/records.ts#agentOf",
    "src/platform/agents/definition.ts",
    "src/platform/agents/administration.ts",
    "src/platform/agents/file.ts",
    "src/platform/brain/model.ts#probeModel",
    "src/platform/brain/model.ts#isModelFailure",
    "adapters/email/parse/headers.ts#identity",
    "src/escalation/alarm/decide.ts#alarmOf",
    "src/escalation/health/decide.ts",
    "src/escalation/health/rows.ts",
    ...["aboutConversation", "aboutAgent", "planTriggers"].map((name) => `src/escalation/trigger/decide.ts#${name}`),
    "src/escalation/trigger/rows.ts",
    "adapters/email/imap/connection.ts#privateCa",
    "adapters/email/providers.ts#providerOf",
    "adapters/email/providers.ts#serversOf",
    "adapters/sms/numbers.ts#isCountry",
    "adapters/sms/smpp/encoding.ts#toAddress",
    "adapters/sms/provider.ts#isLocal",
    "adapters/voice/config.ts#startProblem",
    "adapters/voice/config.ts#voiceConfig",
    "adapters/voice/config.ts#dialectOf",
    "adapters/voice/config.ts#secret",
    "adapters/voice/speech/phrases.ts",
  ],
  "reads or writes the store; its text is given on to functions that are tested": [
    "src/escalation/notify/decide.ts",
    "src/escalation/notify/rows.ts",
    "src/escalation/move/decide.ts",
    "src/escalation/move/rows.ts",
    "src/escalation/reply/decide.ts",
    "src/escalation/reply/stage.ts#routeResponderReply",
    "src/escalation/reply/rows.ts",
    "src/escalation/poll/decide.ts",
    "src/escalation/platform-webhook/decide.ts#planDeliveries",
    "src/escalation/poll/rows.ts",
    "src/escalation/platform-webhook/rows.ts",
    "src/escalation/trigger/stage.ts",
    "src/escalation/act/decide.ts",
    "src/escalation/act/stage.ts",
    "src/escalation/case.ts",
    "src/escalation/actions.ts",
    "src/platform/files/message-files.ts#findAttached",
    "src/platform/files/message-files.ts#readAttached",
    "src/platform/conversations/start.ts",
    "src/platform/conversations/statistics.ts",
    "src/platform/records.ts#shownMessages",
  ],
  "concatenates, compares, hashes or looks up a key": [
    "src/domain/turn.ts#firstTo",
    "src/domain/turn.ts#furtherTo",
    "src/domain/turn.ts#readOpening",
    "src/escalation/reply/files.ts#selectFiles",
    "src/escalation/link/page.ts#linkTo",
    "src/escalation/webhook/answer.ts#deferred",
    "src/escalation/webhook/recipients.ts#recipientAt",
    "src/client/result.ts#unreadable",
    "src/contract/define.ts#finalError",
    "src/contract/define.ts#isFinal",
    "src/contract/define.ts#configError",
    "src/contract/ids.ts",
    "src/contract/signatures.ts#isTelnyxSigned",
    "src/domain/duration-text.ts#counted",
    "src/ops/systemd.ts#isJournal",
    "src/ops/type-text.ts#wrongTypeText",
    "src/ops/failpoints.ts",
    "src/ops/hops.ts#joinTraces",
    "src/platform/files/message-files.ts#signedPath",
    "src/platform/files/message-files.ts#isSigned",
    "src/platform/ids.ts",
    "src/platform/conversations/start.ts#personRow",
    "src/wire/conversation.ts#modeOf",
    "src/wire/record.ts",
    "adapters/email/oauth.ts#isTokenFailure",
    "adapters/email/smtp/send.ts#readDraft",
    "adapters/email/smtp/compose.ts#readRendered",
    "adapters/sms/draft.ts#readDraft",
    "adapters/sms/outcomes.ts#classes",
    "adapters/sms/smpp/pdu.ts#text",
    "adapters/sms/smpp/pdu.ts#number",
    "adapters/sms/smpp/pdu.ts#bytes",
    "adapters/sms/smpp/session.ts",
    "adapters/sms/twilio/client.ts#isApiFailure",
    "adapters/sms/twilio/forms.ts#textOfRecord",
    "adapters/voice/engine/record.ts",
    "adapters/voice/twiml.ts#transferData",
    ...["signedParams", "upgradeIsSigned", "callToken"].map((name) => `adapters/voice/proof.ts#${name}`),
    "adapters/voice/speech/speakable.ts#limit",
  ],
  "makes a request, or waits for a worker, with limits of its own": [
    "src/agent/messages.ts#readBack",
    "src/agent/messages.ts#readFrom",
    "src/client/caller.ts#createCaller",
    "src/ops/address.ts#judge",
    "src/ops/clock.ts#endsWithin",
    "src/platform/conversations/escalations.ts#watch",
    "src/platform/files/reading.ts",
    "src/platform/files/text-of.ts",
    "adapters/email/imap/mailbox.ts#markRest",
    "adapters/email/imap/mailbox.ts#rowsOf",
    "adapters/email/imap/mailbox.ts#withKeyword",
    "adapters/email/parse/auth/dkim.ts#judgeSignatures",
    "adapters/email/smtp/long-markdown.ts#prepare",
  ],
  "is called by a function of its folder that is tested": ["adapters/email/parse/mime.ts#walk"],
};

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Parameters that may carry text from outside. */
const textual =
  /\b(?:string|String|Uint8Array|unknown|Mail|MessageEvent|Reply|Matter|FormFields|MimePart|Element|HeaderField|Instructions|SpeechInstructions|Json|Entry|Error)\b/;
const declared =
  /^export (?:async )?(?:function\*? (\w+)(?:<[^(]*>)?|const (\w+)(?:: [^=]+)? = (?:async )?)\(((?:[^()]|\([^()]*\))*)\)/gm;

/** `path#name` of every exported function with such a parameter. */
function textFunctions(path: string, source: string): string[] {
  return [...source.matchAll(declared)]
    .filter(([, , , parameters = ""]) => textual.test(parameters))
    .map(([, named, constant]) => `${path}#${named ?? constant}`);
}

const paths = globSync(files, { cwd: root }).sort();
const found = new Set(paths.flatMap((path) => textFunctions(path, readFileSync(root + path, "utf8"))));
const registered = Object.entries(cases).flatMap(([path, calls]) =>
  Object.keys(calls).map((name) => `${path}#${name}`),
);

describe("functions that process untrusted text", () => {
  it("finds the functions in the sources", () => {
    expect(found.size).toBeGreaterThan(100);
    const source = `export function a(text: string): void {}
export const b = (of: readonly string[], more: () => void): string => "";
export async function c<T>(
  q: Query,
  given: { readonly text: string },
): Promise<void> {}
export function d(count: number): void {}
function e(text: string): void {}`;
    expect(textFunctions("p", source)).toEqual(["p#a", "p#b", "p#c"]);
  });

  it("tests every one of them, or says why not", () => {
    const known = new Set([...registered, ...Object.values(exempt).flat()]);
    const isKnown = (name: string) => known.has(name) || known.has(name.replace(/#.*/, ""));
    expect([...found].filter((name) => !isKnown(name))).toEqual([]);
  });

  it("registers only what its file exports", () => {
    const missing = registered.filter((entry) => {
      const [path = "", name = ""] = entry.split("#");
      const exported = new RegExp(`^export (?:async )?(?:function\\*?|const|class) ${name}\\b`, "m");
      return !exported.test(readFileSync(root + path, "utf8"));
    });
    expect(missing).toEqual([]);
  });

  it("exempts nothing that does not exist, or is tested", () => {
    const all = new Set([...found, ...paths]);
    expect(
      Object.values(exempt)
        .flat()
        .filter((name) => !all.has(name)),
    ).toEqual([]);
    expect(
      Object.values(exempt)
        .flat()
        .filter((name) => registered.includes(name)),
    ).toEqual([]);
  });
});
