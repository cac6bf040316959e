// Findings about the platform, providers, ports and our own URL, with real servers on loopback.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { certificateProblems, publicUrlProblems } from "../../../src/commands/doctor/connections.ts";
import { exitCodes } from "../../../src/commands/io.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";
import { env, fixture, rest } from "../../support/commands/configuration.ts";
import { certificate, listen, serve } from "../../support/machine/network.ts";
import { startPlatformOf } from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";

async function listening(server: Server): Promise<number> {
  await listen(server);
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
const http = (listener: RequestListener): Promise<string> => serve(createServer(listener));

async function platform(status: string, skill: string): Promise<string> {
  const skills =
    skill === "" || skill.startsWith("{") ? skill || "{}" : `{ email: { status: ${skill}, email: a@example.com } }`;
  const text = `organization: { name: Example, key: key-of-example }
agents: { ada: { public_name: Ada, key: ${env.KEY}, status: ${status}, instructions: x, skills: ${skills} } }`;
  const served = await startPlatformOf(text);
  onTestFinished(() => served.close());
  return served.url;
}

const mail = `  mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: 1, tls: none, user: support@example.com, password: "\${env:SECRET}" }
    smtp: { host: 127.0.0.1, port: 1, tls: none }
`;

async function examine(platformUrl: string, channels = "", more: Record<string, string> = {}) {
  const one = fixture();
  const keys = Object.entries(more).reduce(
    (text, [key, value]) => text.replace(new RegExp(`^${key}: .*$`, "m"), `${key}: ${value}`),
    rest,
  );
  const block = channels === "" ? "channels: {}\n" : `channels:\n${channels}`;
  writeFileSync(
    one.config,
    `platform: { url: "${platformUrl}" }\nagents: { support: { key: "\${env:KEY}" } }\n${block}${keys}`,
    { mode: 0o600 },
  );
  return one.doctor({ online: true });
}

const reachable = async () => {
  const hook = await http((_request, response) => response.writeHead(404).end());
  return `{ allow_private: [ 127.0.0.1 ], responders: { op: { webhook: { url: "${hook}/secret-path" } } }, fallback: { notify: [ op ] } }`;
};

it("finds nothing when all servers answer", async () => {
  const url = await platform("active", "active");
  expect(await examine(url, "", { escalation: await reachable() })).toMatchObject({
    code: exitCodes.ok,
    ids: [],
  });
});

it("distinguishes an unreachable platform from one that rejects the key", async () => {
  const escalation = await reachable();
  const dead = await examine("http://127.0.0.1:1", "", { escalation });
  expect([dead.code, dead.ids]).toEqual([exitCodes.failed, ["platform-unreachable"]]);
  const refuses = await http((_request, response) => response.writeHead(403).end("{}"));
  const { ids, findings } = await examine(refuses, "", { escalation });
  expect([ids, findings[0]?.remedy]).toEqual([
    ["agent-key-rejected"],
    "correct agents.support.key, then: sudo systemctl restart bridgehead",
  ]);
});

it("reports agents and skills that are not active, and a mail server that is not reached", async () => {
  const escalation = await reachable();
  const inactive = await examine(await platform("inactive", "active"), mail, { escalation });
  expect(inactive.ids.toSorted()).toEqual(["agent-inactive", "channel-unreachable", "channel-unreachable"]);
  const without = await examine(await platform("active", ""), mail, { escalation });
  expect(without.ids).toContain("agent-skill-missing");
});

/** Writes an adapter of a chat with that configuration and `create`; returns its path. */
function chatAdapter(members: string): string {
  const path = join(newFolder(), "chat.mjs");
  mkdirSync(join(dirname(path), "node_modules"));
  symlinkSync(
    fileURLToPath(import.meta.resolve("zod/package.json")).replace("/package.json", ""),
    join(dirname(path), "node_modules/zod"),
  );
  const traits = { attachments: false, conversations: "person", platform: "live_chat" };
  const text = `{ name: "chat", contract: 1, traits: ${JSON.stringify(traits)}, ${members} }`;
  writeFileSync(path, `import * as z from "zod";\nexport default ${text};`);
  return path;
}

it("reports an inactive skill of a channel that the platform does not start, and misses none", async () => {
  const escalation = await reachable();
  const chat = chatAdapter(`config: z.strictObject({}), create: () => ({})`);
  const channel = `  chat: { adapter: "${chat}", agent: support }\n`;
  const paused = await examine(await platform("active", "{ live_chat: { status: inactive } }"), channel, {
    escalation,
  });
  expect(paused.findings.map(({ id, cause }) => [id, cause])).toEqual([
    ["agent-skill-missing", "its live_chat skill is inactive"],
  ]);
  expect((await examine(await platform("active", ""), channel, { escalation })).ids).toEqual([]);
});

it("masks a secret that an adapter quotes", async () => {
  const chat = chatAdapter(`config: z.strictObject({ token: z.string().meta({ secret: true }) }),
  create: (_channel, { token }) => ({ routes: [],
    probe: async () => ({ state: "ready", parts: [
      { part: "api", status: { state: "unauthorized", code: "login", reason: "bot" + token + " is unknown" }, fix: "not " + token },
    ] }) })`);
  const channel = `  chat: { adapter: "${chat}", agent: support, token: "\${env:SECRET}" }\n`;
  const { findings } = await examine(await platform("active", ""), channel, { escalation: await reachable() });
  expect(findings).toMatchObject([
    { id: "channel-login-rejected", cause: "bot******** is unknown", remedy: expect.stringMatching(/^not \*{8} /) },
  ]);
});

it("reports a probe that throws no error as a connection that failed", async () => {
  const chat = chatAdapter("config: z.strictObject({}), create: () => ({ routes: [], probe: () => { throw null; } })");
  const channel = `  chat: { adapter: "${chat}", agent: support }\n`;
  const { findings } = await examine(await platform("active", ""), channel, { escalation: await reachable() });
  expect(findings).toMatchObject([{ id: "channel-unreachable", cause: "null" }]);
});

it("reports a clock that differs from the platform's", async () => {
  const late =
    (ms: number): RequestListener =>
    (_request, response) => {
      response.writeHead(500, { date: new Date(Date.now() - ms).toUTCString() }).end("{}");
    };
  const escalation = await reachable();
  const { findings } = await examine(await http(late(600_000)), "", { escalation });
  expect(findings.find(({ id }) => id === "clock-skew")).toMatchObject({ severity: "error" });
  const little = await examine(await http(late(60_000)), "", { escalation });
  expect(little.findings.find(({ id }) => id === "clock-skew")).toMatchObject({ severity: "warning" });
});

it("blames the clock of this machine for a certificate that is not valid yet", async () => {
  const pair = certificate(60);
  const server = { part: "imap", host: "localhost", tls: "implicit", ca: pair.cert } as const;
  const port = await listening(createTlsServer(pair));
  const io = { signal: new AbortController().signal, timing: standardTiming };
  const found = (ahead: number) =>
    certificateProblems({ ...server, port }, "channel mail", systemClock.now() + ahead, io);
  expect(await found(0)).toEqual([]);
  expect(await found(-864e5)).toMatchObject([
    { id: "certificate-untrusted", remedy: expect.stringContaining("correct the clock: timedatectl") },
  ]);
});

it("names a remedy that exists for a certificate that is not trusted, also at an IPv6 address", async () => {
  const pair = certificate(60);
  const io = { signal: new AbortController().signal, timing: standardTiming };
  const server = createHttpsServer(pair, (_request, response) => response.end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "::1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const found = async (part: string) => {
    const shown = { part, host: "::1", port, tls: "implicit" } as const;
    const [one] = await certificateProblems(shown, part, systemClock.now(), io);
    return one?.id === "certificate-untrusted" && one.place === `${part} ([::1]:${port})` ? one.remedy : one;
  };
  expect(await found("imap")).toContain(
    `set imap.ca to the CA that signed it, or imap.host to a name in it; see: openssl`,
  );
  expect(await found("api_url")).toContain("set ca to the CA");
  expect(await found("platform.url")).toContain("NODE_EXTRA_CA_CERTS");
  expect(await found("http.public_url")).toContain("a certificate of a public CA");
  const { findings } = await examine(`https://[::1]:${port}`, "", { escalation: await reachable() });
  expect(findings.map(({ id, place }) => [id, place])).toContainEqual([
    "certificate-untrusted",
    `platform.url ([::1]:${port})`,
  ]);
});

it("reports ports of other programs, our public URL and a responder that are not reached", async () => {
  const other = () => listening(createTcpServer((socket) => socket.end("220 something else\r\n")));
  const [taken, web] = [await other(), await other()];
  const ours = new URL(await http((_request, response) => response.end('{"status":"ok"}'))).port;
  const { ids, findings } = await examine(await platform("active", "active"), "", {
    escalation:
      '{ allow_private: [ 127.0.0.1 ], responders: { op: { webhook: { url: "http://127.0.0.1:1/secret-path" } } }, fallback: { notify: [ op ] } }',
    http: `{ listen: "127.0.0.1:${ours}", admin_listen: "127.0.0.1:${taken}", public_url: "http://127.0.0.1:1" }\nconsole: { listen: "127.0.0.1:${web}" }`,
  });
  expect([...new Set(ids)].toSorted()).toEqual([
    "daemon-stopped",
    "port-taken",
    "public-url-unreachable",
    "responder-unreachable",
  ]);
  expect(findings.filter(({ id }) => id === "port-taken").map(({ place }) => place)).toEqual([
    "http.admin_listen",
    "console.listen",
  ]);
  expect(JSON.stringify(findings)).not.toContain("secret-path");
});

it("asks for the daemon below the path of its public URL, which the proxy removes", async () => {
  const proxy = await http((request, response) => {
    response.writeHead(request.url === "/bridge/healthz" ? 200 : 404).end('{"status":"ok"}');
  });
  const io = { signal: new AbortController().signal, timing: standardTiming };
  expect(await publicUrlProblems(`${proxy}/bridge`, true, io)).toEqual([]);
  expect(await publicUrlProblems(`${proxy}/other`, true, io)).toMatchObject([
    {
      id: "public-url-unreachable",
      cause: expect.stringContaining("/other/healthz is not answered by the daemon (HTTP 404)"),
    },
  ]);
});

it("does not blame the proxy of a daemon that is not running", async () => {
  const url = await platform("active", "active");
  const proxy = await http((_request, response) => response.writeHead(502).end());
  for (const publicUrl of [proxy, "http://127.0.0.1:1"]) {
    const listeners = `{ listen: "127.0.0.1:1", public_url: "${publicUrl}" }`;
    const { code, findings } = await examine(url, "", { escalation: await reachable(), http: listeners });
    expect(findings.filter(({ id }) => id === "public-url-unreachable")).toMatchObject([
      { severity: "warning", remedy: "start the daemon, and repeat this command" },
    ]);
    expect(code).toBe(exitCodes.ok);
  }
  const unknown = `{ listen: "127.0.0.1:1", public_url: "http://no-such-name.invalid" }`;
  const { findings } = await examine(url, "", { escalation: await reachable(), http: unknown });
  expect(findings).toContainEqual(expect.objectContaining({ id: "public-url-unreachable", severity: "error" }));
});

it("compares the webhook at the SMS provider with ours", async () => {
  const accountSid = `AC${"0".repeat(32)}`;
  const api = await SmsApi.start({ accountSid, authToken: env.SECRET, number: "+12025550100" });
  onTestFinished(() => api.close());
  const sms = (number: string, token = "SECRET") => `  texts:
    adapter: sms
    agent: support
    account_sid: ${accountSid}
    auth_tokens: [ "\${env:${token}}" ]
    number: "${number}"
    api_url: ${api.url}
`;
  const more = {
    escalation: await reachable(),
    http: `{ listen: "127.0.0.1:0", public_url: "${await http((_request, response) => response.end('{"status":"ok"}'))}" }`,
  };
  const url = await platform("active", "active");
  const texts = async (number: string, token?: string) => {
    const { findings } = await examine(url, sms(number, token), more);
    return findings.filter(({ place }) => place === "channel texts");
  };
  expect((await texts("+12025550100")).map(({ id }) => id)).toEqual(["webhook-mismatch"]);
  const [, own = ""] = /"(http:[^"]+)" \}/.exec(more.http) ?? [];
  api.point({ inbound: `${own}/channels/texts/inbound#rc=3&rp=ct,rt,5xx` });
  expect(await texts("+12025550100")).toEqual([]);
  expect((await texts("+12025550199")).map(({ id }) => id)).toEqual(["number-missing"]);
  expect((await texts("+12025550100", "KEY")).map(({ id }) => id)).toEqual(["channel-login-rejected"]);
});

it("compares the webhooks of a messaging service and of a voice number at Twilio with ours", async () => {
  const [sid, number] = [`AC${"0".repeat(32)}`, "+12025550100"];
  const owned = {
    phone_number: number,
    sms_url: "https://other.example/sms?key=1",
    voice_url: "https://other.example/call",
  };
  const service = {
    sid: "MG1",
    friendly_name: "Shop",
    inbound_request_url: "",
    use_inbound_webhook_on_number: true,
  };
  const answers: Record<string, object> = {
    [`/2010-04-01/Accounts/${sid}.json`]: { sid },
    [`/2010-04-01/Accounts/${sid}/IncomingPhoneNumbers.json`]: { incoming_phone_numbers: [owned] },
    "/v1/Services": { services: [{ sid: "MG0" }, service] },
    "/v1/Services/MG0/PhoneNumbers": { phone_numbers: [] },
    "/v1/Services/MG1/PhoneNumbers": { phone_numbers: [{ phone_number: number }] },
  };
  const api = await http((request, response) =>
    response.end(JSON.stringify(answers[(request.url ?? "").split("?", 1)[0] ?? ""] ?? {})),
  );
  const ours = await http((_request, response) => response.end('{"status":"ok"}'));
  const keys = `    agent: support
    account_sid: ${sid}
    auth_tokens: [ "\${env:SECRET}" ]
    number: "${number}"
    api_url: ${api}
`;
  const channels = `  texts:\n    adapter: sms\n${keys}  calls:\n    adapter: voice\n    dialect: twilio\n${keys}`;
  const more = { escalation: await reachable(), http: `{ listen: "127.0.0.1:0", public_url: "${ours}" }` };
  const url = await platform("active", "active");
  const found = async () =>
    (await examine(url, channels, more)).findings
      .filter(({ place }) => place.startsWith("channel "))
      .map(({ id, place, cause }) => `${place}: ${id}: ${cause}`);
  const call = `channel calls: webhook-mismatch: Twilio posts calls of ${number} to another webhook: https://other.example/call`;
  expect(await found()).toEqual([
    `channel texts: webhook-mismatch: twilio posts texts to ${number} to another webhook: https://other.example/sms`,
    call,
  ]);
  Object.assign(service, { use_inbound_webhook_on_number: false });
  expect(await found()).toEqual([
    `channel texts: messaging-service-webhook: ${number} belongs to the messaging service Shop, which posts its texts to another webhook: none`,
    call,
  ]);
  Object.assign(service, { inbound_request_url: `${ours}/channels/texts/inbound` });
  Object.assign(owned, { voice_url: `${ours}/channels/calls/call` });
  expect(await found()).toEqual([]);
  // We serve POST only.
  Object.assign(service, { inbound_method: "GET" });
  Object.assign(owned, { voice_method: "GET" });
  const calls = `channel calls: webhook-mismatch: Twilio posts calls of ${number} to another webhook: GET ${ours}/channels/calls/call`;
  expect(await found()).toEqual([
    `channel texts: messaging-service-webhook: ${number} belongs to the messaging service Shop, which posts its texts to another webhook: GET ${ours}/channels/texts/inbound`,
    calls,
  ]);
  Object.assign(service, { use_inbound_webhook_on_number: true });
  Object.assign(owned, { sms_url: `${ours}/channels/texts/inbound`, sms_method: "GET" });
  expect(await found()).toEqual([
    `channel texts: webhook-mismatch: twilio posts texts to ${number} to another webhook: GET ${ours}/channels/texts/inbound`,
    calls,
  ]);
  Object.assign(owned, { sms_method: "POST", voice_method: "POST", trunk_sid: "TK1" });
  expect(await found()).toEqual([`channel calls: webhook-mismatch: Twilio posts calls of ${number} to a SIP trunk`]);
  answers[`/2010-04-01/Accounts/${sid}/IncomingPhoneNumbers.json`] = { incoming_phone_numbers: [] };
  expect((await found()).map((line) => line.split(": ")[1])).toEqual(["number-missing", "number-missing"]);
});

it("reports a model of the embedded platform that gives no answer", async () => {
  const asked: string[] = [];
  const model = await http((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.writeHead(401).end('{"error":{"message":"invalid key"}}');
  });
  const one = fixture();
  one.write(
    `platform: embedded\nmodel: { url: "${model}/v1", name: small, key: "\${env:SECRET}" }\nagents: { support: {} }\nchannels: {}\n`,
  );
  const { findings } = await one.doctor({ online: true });
  expect(findings.find(({ id }) => id === "model-unreachable")).toMatchObject({
    severity: "error",
    place: "model",
    cause: expect.stringContaining("the model small gives no answer: "),
  });
  expect(asked).toEqual(["POST /v1/chat/completions Bearer secret"]);
  expect((await one.doctor()).ids).not.toContain("model-unreachable");
});
