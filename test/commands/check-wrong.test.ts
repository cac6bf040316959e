// Configurations in which every key is valid and the combination would cause harm: `check` names the place and the
// remedy.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkConfig } from "../../src/commands/doctor/check.ts";
import { exitCodes } from "../../src/commands/io.ts";
import { commandIo } from "../support/machine/command.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);

const env = { KEY: "agent-key", SECRET: "the-secret", TOKEN: "token-token" };

let count = 0;
async function check(text: string): Promise<{ code: number; out: string[] }> {
  const name = `${count++}.yaml`;
  writeFileSync(join(folder, name), text);
  const out: string[] = [];
  const io = commandIo({
    out: (line) => void out.push(line.replaceAll(`${folder}/${name}`, "FILE").replaceAll(folder, "DIR")),
    err: (line) => void out.push(line),
    env,
    cwd: folder,
  });
  return { code: await checkConfig({ config: name }, io), out };
}

const mail = `  mail:
    adapter: email
    agent: support
    imap: { host: imap.example.com, user: support@example.com, password: "\${env:SECRET}" }
    smtp: { host: smtp.example.com }
`;
const sid = `AC${"0".repeat(32)}`;
const sms = `  sms:
    adapter: sms
    agent: support
    account_sid: ${sid}
    auth_tokens: [ "\${env:TOKEN}" ]
    number: "+12025550100"
`;
const voice = `  voice:
    adapter: voice
    agent: support
    auth_tokens: [ "\${env:TOKEN}" ]
    number: "+12025550100"
`;
/** Line 4 is the first one of the channels. */
const file = (channels: string, more = ""): string => `platform: { url: "https://platform.example.com" }
agents: { support: { key: "\${env:KEY}" } }
channels:
${channels}${more.includes("store:") ? "" : "store: sqlite:store.db\n"}${more.includes("escalation:") ? "" : "escalation: { responders: { op: { webhook: { url: https://ops.example.com } } }, fallback: { notify: [ op ] } }\n"}${more}`;
const reached = 'http: { public_url: "https://bridge.example.com" }\n';
const told = (responders: string): string =>
  `escalation: { responders: { ${responders} }, fallback: { notify: [ op ] } }\n`;

const errors: readonly [string, string, string][] = [
  [
    "an IMAP port that goes with another kind of TLS",
    file(mail.replace("imap.example.com,", "imap.example.com, port: 143,")),
    "FILE:7:43 channels.mail.imap.port: 143 does not go with tls: implicit (use tls: starttls with port 143, or port: 993 with tls: implicit)",
  ],
  [
    "an SMTP port that goes with another kind of TLS",
    file(mail.replace("smtp.example.com", "smtp.example.com, port: 587")),
    "FILE:8:43 channels.mail.smtp.port: 587 does not go with tls: implicit (use tls: starttls with port 587, or port: 465 with tls: implicit)",
  ],
  [
    "STARTTLS at the default port",
    file(mail.replace("smtp.example.com", "smtp.example.com, tls: starttls")),
    "FILE:8:5 channels.mail.smtp.port: 465 does not go with tls: starttls (use tls: implicit with port 465, or port: 587 with tls: starttls)",
  ],
  [
    "the IMAP server for SMTP",
    file(mail.replaceAll(/(imap|smtp)\.example\.com/g, "imap.gmail.com")),
    "FILE:8:19 channels.mail.smtp.host: imap.gmail.com is the provider's IMAP server (use smtp.gmail.com)",
  ],
  [
    "the SMTP server for IMAP",
    file(mail.replaceAll(/(imap|smtp)\.example\.com/g, "smtp.mail.yahoo.com")),
    "FILE:7:19 channels.mail.imap.host: smtp.mail.yahoo.com is the provider's SMTP server (use imap.mail.yahoo.com)",
  ],
  [
    "a password for Microsoft",
    file(mail.replace("imap.example.com", "outlook.office365.com")),
    "FILE:7:79 channels.mail.imap.password: Microsoft takes no passwords for IMAP any more (replace it by oauth2: { token_url: microsoft, client_id: ..., refresh_token: ... })",
  ],
  [
    "a number without all its digits",
    file(sms.replace("+12025550100", "+1202555"), reached),
    `FILE:9:13 channels.sms.number: is no possible number: +1202555 (write it with its country's code and all digits, in quotes: "+12025550100")`,
  ],
  [
    "a number to call that is none",
    file(`${voice}    transfer: { dial: [ "+12025550" ] }\n`, reached),
    "FILE:9:25 channels.voice.transfer.dial[0]: is no possible number: +12025550 (write it with its country's code and all digits",
  ],
  [
    "an account that is none",
    file(sms.replace(sid, "AC123"), reached),
    "FILE:7:18 channels.sms.account_sid: is no account SID (copy it from Twilio's console: AC and 32 hexadecimal digits)",
  ],
  [
    "an account for calls that is none",
    file(`${voice}    account_sid: AC123\n`, reached),
    "FILE:9:18 channels.voice.account_sid: is no account SID (copy it from Twilio's console: AC and 32 hexadecimal digits)",
  ],
  [
    "texts without an address for the provider",
    file(sms),
    "FILE:4:3 channels.sms: needs http.public_url: without it the provider cannot tell us of texts (set http.public_url to the https address under which the provider reaches this daemon)",
  ],
  [
    "calls whose address is not encrypted",
    file(voice, 'http: { public_url: "http://bridge.example.com" }\n'),
    "FILE:11:21 http.public_url: is not https: calls would travel in the open (set http.public_url to the https address under which the provider reaches this daemon)",
  ],
  [
    "a store that is a directory",
    file(mail, "store: sqlite:.\n"),
    "FILE:10:8 store: is a directory: DIR (name a file in it: sqlite:DIR/bridgehead.db)",
  ],
  [
    "a store below a file",
    file(mail, "store: sqlite:/dev/null/absent/store.db\n"),
    "FILE:10:8 store: lies below a file: /dev/null (correct the path)",
  ],
  [
    "a responder with a number, and no channel for texts",
    file(mail, told('op: { email: op@example.org, sms: "+12025550199" }')),
    "FILE:10:58 escalation.responders.op.sms: is never used: no channel carries texts (add such a channel, or remove sms)",
  ],
  [
    "a path of the interface in the platform's address",
    file(mail).replace("platform.example.com", "platform.example.com/api/external/docs/"),
    "FILE:1:18 platform.url: has a path of the interface: /api/external/docs/ (write https://platform.example.com: the rest is added to it)",
  ],
  [
    "a duration without a unit",
    file(`${mail}    max_age: 72\n`),
    "FILE:9:14 channels.mail.max_age: has no unit: 72 (give it a unit: 72s, 72m, 72h or 72d)",
  ],
  [
    "a duration without a unit, in quotes",
    file(`${mail}    max_age: "72"\n`),
    'FILE:9:14 channels.mail.max_age: must be a duration such as "30s", "1.5m", "2h" or "3d" (give it a unit: 72s, 72m, 72h or 72d)',
  ],
  [
    "a size without a unit",
    file(`${mail}    max_size: 25\n`),
    "FILE:9:15 channels.mail.max_size: has no unit: 25 (give it a unit: 25KB, 25MB or 25GB)",
  ],
  [
    "the two listeners at one port",
    file(mail, 'http: { admin_listen: "127.0.0.1:8025" }\n'),
    "FILE:11:23 http.admin_listen: has the port of http.listen: 8025 (give it a port of its own, such as 127.0.0.1:9025)",
  ],
];

const warnings: readonly [string, string, string][] = [
  [
    "a listener that other machines reach",
    file(mail, 'http: { listen: "0.0.0.0:8025" }\n'),
    "warning: FILE:11:17 http.listen: can be reached from other machines over plain http: 0.0.0.0 (use 127.0.0.1:8025 behind a proxy with TLS, or let a firewall admit nothing but the proxy)",
  ],
  [
    "metrics that other machines reach",
    file(mail, 'http: { admin_listen: "[::]:9025" }\n'),
    "warning: FILE:11:23 http.admin_listen: shows channels, errors and metrics to other machines: [::] (use 127.0.0.1:9025, or let a firewall admit nothing but the monitoring)",
  ],
  [
    "a mailbox that carries its own alert",
    file(mail, told("op: { email: op@example.org }")),
    "warning: FILE:10:15 escalation.responders: all responders are notified through channel mail, also when that channel itself has failed (give one of them another way (sms, webhook), or name another channel in escalation.via)",
  ],
];

describe("check", () => {
  it.each(errors)("refuses %s", async (_what, text, expected) => {
    const { code, out } = await check(text);
    expect(out.join("\n")).toContain(expected);
    expect(out.at(-1)).toBe("1 problem");
    expect(code).toBe(exitCodes.config);
  });

  it.each(warnings)("warns of %s", async (_what, text, expected) => {
    const { code, out } = await check(text);
    expect(out).toContain(expected);
    expect(code).toBe(exitCodes.ok);
  });

  it("accepts what is right", async () => {
    const good = file(
      `${mail}    max_age: 1.5d\n    sender_auth: { mode: tag }\n    sent_folder: none\n${sms}${voice}`,
      reached,
    );
    const { code, out } = await check(good);
    expect([code, out]).toEqual([exitCodes.ok, ["FILE: ok, 3 channels"]]);
    const relayed = mail
      .replace("imap.example.com,", "imap.example.com, port: 143, tls: starttls,")
      .replace("smtp.example.com", "127.0.0.1, port: 25, tls: none, login: false");
    expect(await check(file(relayed))).toMatchObject({ code: exitCodes.ok });
  });

  it("accepts the same durations and sizes in every block", async () => {
    const written = `${mail.replace("password:", "idle: 1.5m, poll: 0.5m, password:")}    max_age: 1.5d
    debounce: 1.5s
    max_size: 1.5MB
${sms}    validity: 1.5h
    debounce: 1.5s
${voice}    collect: 0.25s
    max_call: 0.5d
    fillers: { first: 1.2s }
`;
    expect(await check(file(written, `${reached}retention: { raw: 1.5d }\n`))).toMatchObject({
      code: exitCodes.ok,
    });
    for (const wrong of ["1,5m", "1.m", "-1m", "1 m", "1M", "m", "1.5.5m", "1e3m"])
      for (const key of ["max_age", "first_start: { history"]) {
        const close = key.includes("{") ? " }" : "";
        const { code, out } = await check(file(`${mail}    ${key}: "${wrong}"${close}\n`));
        expect(out.join("\n")).toContain("must be a duration such as");
        expect(code).toBe(exitCodes.config);
      }
  });
});
