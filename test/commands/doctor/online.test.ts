// Findings about the platform, providers, ports and our own URL, with real servers on loopback.

import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { readAgents, startPlatform } from "../../../src/platform/index.ts";
import { SmsApi } from "../../../src/sandbox/sms-api.ts";
import { env, fixture, rest } from "../../support/commands/configuration.ts";

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

async function listening(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
const http = async (listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listening(createServer(listener))}`;

async function platform(status: string, skill: string): Promise<string> {
  const skills = skill === "" ? "{}" : `{ email: { status: ${skill}, email: a@example.com } }`;
  const text = `organization: { name: Example, key: key-of-example }
agents: [ { name: ada, public_name: Ada, key: ${env.KEY}, status: ${status}, instructions: x, skills: ${skills} } ]`;
  const served = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: readAgents(text, "agents.yaml"),
    clock: systemClock,
    log: quiet,
  });
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

it("tells a platform that is not reached from one that rejects the key", async () => {
  const escalation = await reachable();
  const dead = await examine("http://127.0.0.1:1", "", { escalation });
  expect([dead.code, dead.ids]).toEqual([exitCodes.failed, ["platform-unreachable"]]);
  const refuses = await http((_request, response) => response.writeHead(403).end("{}"));
  const { ids, findings } = await examine(refuses, "", { escalation });
  expect([ids, findings[0]?.remedy]).toEqual([
    ["agent-key-rejected"],
    "correct agents.support.key, then: sudo systemctl reload bridgehead",
  ]);
});

it("reports agents and skills that are not active, and a mail server that is not reached", async () => {
  const escalation = await reachable();
  const inactive = await examine(await platform("inactive", "active"), mail, { escalation });
  expect(inactive.ids.toSorted()).toEqual(["agent-inactive", "channel-unreachable", "channel-unreachable"]);
  const without = await examine(await platform("active", ""), mail, { escalation });
  expect(without.ids).toContain("agent-skill-missing");
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

it("reports ports of other programs, our public URL and a responder that are not reached", async () => {
  const taken = await listening(createTcpServer((socket) => socket.end("220 something else\r\n")));
  const ours = new URL(await http((_request, response) => response.end('{"status":"ok"}'))).port;
  const { ids, findings } = await examine(await platform("active", "active"), "", {
    escalation:
      '{ allow_private: [ 127.0.0.1 ], responders: { op: { webhook: { url: "http://127.0.0.1:1/secret-path" } } }, fallback: { notify: [ op ] } }',
    http: `{ listen: "127.0.0.1:${ours}", admin_listen: "127.0.0.1:${taken}", public_url: "http://127.0.0.1:1" }`,
  });
  expect(ids.toSorted()).toEqual([
    "daemon-stopped",
    "port-taken",
    "public-url-unreachable",
    "responder-unreachable",
  ]);
  expect(findings.find(({ id }) => id === "port-taken")?.place).toBe("http.admin_listen");
  expect(JSON.stringify(findings)).not.toContain("secret-path");
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
