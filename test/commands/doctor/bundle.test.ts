// support-bundle: no secret, address, name or text of a message is in the archive, in any usual encoding.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { fixture, rest } from "../../support/commands/configuration.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { serve } from "../../support/machine/network.ts";
import { conversation, draft, storeEvent, turn } from "../../support/store/databases.ts";

/** Planted in configuration, environment and store. */
const canaries = {
  password: "canary-pa55/word+x",
  agentKey: "canary-agent-key-77",
  webhookPath: "canaryhookpath",
  customer: "canary.customer@example.org",
  customerName: "Canaria Customer",
  own: "canary-own@example.com",
  responder: "+12025550177",
  responderName: "Canarius",
  text: "canary message text",
  reason: "canary-mailbox",
  template: "canary greeting",
  login: "canarylogin",
};

const config = `platform: { url: "http://127.0.0.1:1" }
agents: { support: { key: "\${env:KEY}" } }
channels:
  mail:
    adapter: email
    agent: support
    address: ${canaries.own}
    imap: { host: 127.0.0.1, port: 1, tls: none, user: ${canaries.own}, password: "\${file:password}" }
    smtp: { host: 127.0.0.1, port: 1, tls: none, user: ${canaries.login}, from_name: ${canaries.template} }
  texts: { adapter: sms, agent: support, account_sid: AC${"0".repeat(32)}, auth_tokens: [ "\${env:KEY}" ], number: "+12025550100", api_url: "http://127.0.0.1:1" }
`;

const encodings = (text: string): string[] => {
  const bytes = Buffer.from(text);
  return [
    text,
    encodeURIComponent(text),
    bytes.toString("base64").replace(/=+$/, ""),
    bytes.toString("base64url"),
    bytes.toString("hex"),
    JSON.stringify(text).slice(1, -1),
  ].map((one) => one.toLowerCase());
};

it("collects what a maintainer needs, and nothing of people", async () => {
  const one = fixture();
  writeFileSync(join(one.folder, "password"), canaries.password, { mode: 0o600 });
  const policy = `escalation: { responders: { op: { name: ${canaries.responderName}, sms: "${canaries.responder}", webhook: { url: "https://ops.example.com/${canaries.webhookPath}" } } }, fallback: { notify: [ op ] } }`;
  writeFileSync(one.config, config + rest.replace(/^escalation: .*$/m, policy), { mode: 0o600 });
  await one.stored(async (q) => {
    await ensureChannel(q, "mail");
    await conversation(q, "c1", "mail", canaries.customer);
    await q.run("UPDATE conversations SET person_name = $1, subject = $2", canaries.customerName, canaries.text);
    await storeEvent(q, "e1", {
      channel: "mail",
      sender: canaries.customer,
      body: `{"text":"${canaries.text}"}`,
    });
    await turn(q, "t1", "c1", { channel: "mail", person: canaries.customer });
    await draft(q, "d1", "c1", 0, "mail");
    const reason = `550 5.1.1 <${canaries.customer}> ${canaries.reason} of ${canaries.customerName} is full: ${canaries.text}`;
    await q.run("UPDATE drafts SET state = 'failed', open = 0, reason = $1, body = $2", reason, canaries.text);
    await q.run("UPDATE turns SET reason = $1, question = $2", reason, canaries.text);
  });
  mkdirSync(join(one.folder, "out"));
  const file = join(one.folder, "out/bundle.tar.gz");
  const ended = await bridgehead(["support-bundle", file, "--online", "--config", one.config], {
    KEY: canaries.agentKey,
  });
  expect(ended).toMatchObject({ code: exitCodes.ok, err: "" });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const names = execFileSync("tar", ["-tzf", file], { encoding: "utf8" }).trim().split("\n");
  // Each name is printed before the file is written.
  const listed = [...ended.out.matchAll(/^ {2}(\S+) /gm)].map(([, name]) => `bridgehead-support/${name}`);
  expect(names).toEqual(listed);
  expect(ended.out.indexOf("store.json")).toBeLessThan(ended.out.indexOf("written to"));

  const content = execFileSync("tar", ["-xzOf", file], { encoding: "utf8" });
  const found = Object.entries(canaries).flatMap(([name, text]) =>
    encodings(text).some((encoded) => content.toLowerCase().includes(encoded)) ? [name] : [],
  );
  expect(found).toEqual([]);
  for (const useful of [
    "550",
    "5.1.1",
    "platform-unreachable",
    "ECONNREFUSED",
    '"adapter": "email"',
    '"schema"',
    '"state": "failed"',
  ])
    expect(content).toContain(useful);
  const again = await bridgehead(["support-bundle", file, "--config", one.config], {
    KEY: canaries.agentKey,
  });
  expect(again).toMatchObject({ code: exitCodes.failed, err: expect.stringContaining("exists") });
  expect(readFileSync(file).subarray(0, 2)).toEqual(Buffer.from([0x1f, 0x8b]));
});

it("is written when another program answers at the port of the daemon", async () => {
  const url = await serve(createServer((_, response) => response.end("<html>")));
  const one = fixture();
  writeFileSync(join(one.folder, "password"), canaries.password, { mode: 0o600 });
  const listeners = `http: { listen: "127.0.0.1:0", admin_listen: "${new URL(url).host}" }`;
  writeFileSync(one.config, config + rest.replace(/^http: .*$/m, listeners), { mode: 0o600 });
  const file = join(one.folder, "bundle.tar.gz");
  const env = { KEY: canaries.agentKey, SECRET: "secret" };
  expect(await bridgehead(["support-bundle", file, "--config", one.config], env)).toMatchObject({
    code: exitCodes.ok,
  });
  expect(execFileSync("tar", ["-xzOf", file], { encoding: "utf8" })).toContain('"[not JSON]"');
});
