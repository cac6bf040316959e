// What `init` writes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { type CompleteAnswers, plan } from "../../../src/commands/init/answers.ts";
import { defaultConfig } from "../../../src/domain/command-text.ts";
import { newFolder } from "../../support/resources.ts";

const server = (host: string, port: number) => ({ host, port, tls: "implicit" as const });
const given = (more: Partial<CompleteAnswers> = {}): CompleteAnswers => ({
  address: "support@example.com",
  user: "support@example.com",
  servers: { imap: server("imap.example.com", 993), smtp: server("smtp.example.com", 465) },
  login: { kind: "password", password: "p" },
  answerer: { kind: "platform", url: "https://platform.example.com", key: "k" },
  responder: null,
  ...more,
});

it("gives the service a private CA with its secrets, because it may not see the file, and names it elsewhere", async () => {
  const folder = newFolder();
  const ca = join(folder, "ca.pem");
  const pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
  writeFileSync(ca, `${pem}\n`);
  const service = await plan(defaultConfig, given({ ca }), "live");
  expect(service.text.match(/^ {6}ca: .*$/gm)).toEqual(Array(2).fill('      ca: "${credential:mail-ca}"'));
  expect(service.secrets.get("mail-ca")).toBe(pem);
  const own = await plan(join(folder, "bridgehead.yaml"), given({ ca }), "live");
  expect(own.text.match(/^ {6}ca: .*$/gm)).toEqual(Array(2).fill(`      ca: ${JSON.stringify(ca)}`));
  expect([...own.secrets.keys()]).not.toContain("mail-ca");
});
