// What two channels must not share is rejected before anything runs: in check, at the start and at a reload.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadAdapter } from "../../src/channels/loader.ts";
import { loadConfig } from "../../src/config/index.ts";
import { line } from "../support/commands/configuration.ts";
import { bridgehead } from "../support/machine/command.ts";
import { startDaemon } from "../support/process/daemon.ts";
import { newFolder } from "../support/resources.ts";

const head = `platform: { url: "http://127.0.0.1:9" }
agents: { a: { key: "\${env:KEY}" } }
http: { listen: "127.0.0.1:0" }
log: { format: json }
store: sqlite:store.db
channels:
`;
const env = { KEY: "key", PASSWORD: "secret" };

function written(channels: string): string {
  const path = join(newFolder(), "bridgehead.yaml");
  writeFileSync(path, head + channels);
  return path;
}

async function problems(channels: string): Promise<string[]> {
  const loaded = await loadConfig(written(channels), { env, adapters: loadAdapter });
  return loaded.ok ? [] : loaded.problems.map(line);
}

interface Imap {
  readonly host?: string;
  readonly port?: number;
  readonly user?: string;
  readonly mailbox?: string;
  readonly tls?: string;
}
const mail = (id: string, imap: Imap = {}, more = ""): string => {
  const {
    host = "imap.example.com",
    port = 993,
    user = "help@example.com",
    mailbox = "INBOX",
    tls = "implicit",
  } = imap;
  return `  ${id}:
    adapter: email
    agent: a
    imap: { host: "${host}", port: ${port}, user: "${user}", password: "\${env:PASSWORD}", mailbox: "${mailbox}", tls: ${tls} }
    smtp: { host: smtp.example.com }
${more}`;
};
const sms = (id: string, number: string, more = ""): string => `  ${id}:
    adapter: sms
    agent: a
    number: "${number}"
    account_sid: AC1
    auth_tokens: ["\${env:PASSWORD}"]
${more}`;
const voice = (id: string, dialect: string, number: string): string =>
  `  ${id}: { adapter: voice, agent: a, dialect: ${dialect}, auth_tokens: ["\${env:PASSWORD}"], number: "${number}" }\n`;

describe("two channels on one mailbox or number", () => {
  it("are named with file, line, key and remedy", async () => {
    expect(await problems(mail("first") + mail("second"))).toEqual([
      "15:56 channels.second.imap.user: is used by channel first already: the folder INBOX of help@example.com on imap.example.com; both would answer (give channel second its own, or remove or disable one of the two channels)",
    ]);
  });

  it.each<[string, Imap]>([
    ["the host's case and trailing dot", { host: "IMAP.Example.com." }],
    ["the user's case", { user: "Help@Example.COM" }],
    ["the other default port", { port: 143, tls: "starttls" }],
    ["the case of INBOX", { mailbox: "InBox" }],
  ])("are recognized despite a difference in %s", async (_what, imap) => {
    expect(await problems(mail("first") + mail("second", imap))).toHaveLength(1);
  });

  it("are recognized under both names of a provider, and of an internationalized host", async () => {
    const google = (host: string) => mail(host.replaceAll(".", "-"), { host });
    expect(await problems(google("imap.gmail.com") + google("imap.googlemail.com"))).toHaveLength(1);
    const names =
      mail("first", { host: "imap.bücher.example" }) + mail("second", { host: "imap.xn--bcher-kva.example" });
    expect(await problems(names)).toHaveLength(1);
  });

  it.each<[string, Imap]>([
    ["another folder", { mailbox: "Sales" }],
    ["a folder that differs in case", { mailbox: "inbox/Sales" }],
    ["another user", { user: "sales@example.com" }],
    ["another host", { host: "imap2.example.com" }],
    ["another port", { port: 1993 }],
  ])("are not seen in %s", async (_what, imap) => {
    expect(await problems(mail("first") + mail("second", imap))).toEqual([]);
  });

  it("are allowed when one is disabled", async () => {
    expect(await problems(mail("first", {}, "    enabled: false\n") + mail("second"))).toEqual([]);
  });

  it("are recognized by the number, however it is written, per provider", async () => {
    expect(await problems(sms("one", "+15550100123") + sms("two", "+1 (555) 010-0123"))).toEqual([
      expect.stringMatching(/^16:13 channels\.two\.number: is used by channel one already: the number \+15550100123;/),
    ]);
    const signalwire = "    provider: signalwire\n    api_url: https://x.signalwire.com/api/laml\n";
    expect(await problems(sms("one", "+15550100123") + sms("two", "+15550100123", signalwire))).toEqual([]);
    expect(await problems(sms("one", "+15550100123") + sms("two", "whatsapp:+15550100123"))).toEqual([]);
    expect(
      await problems(voice("one", "twilio", "+15550100123") + voice("two", "gather", "+15550100123")),
    ).toHaveLength(1);
    expect(await problems(sms("one", "+15550100123") + voice("two", "twilio", "+15550100123"))).toEqual([]);
  });

  it("are declared by adapters of third parties, too", async () => {
    const adapter = `import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "fax", contract: 1, config: z.strictObject({ line: z.string() }),
  traits: { maxTextLength: 1, markup: "plain", attachments: false, conversations: "person", platform: "sms" },
  exclusive: ({ line }) => [{ id: "fax:" + line, name: "the line " + line, key: ["line"] }],
  create: () => ({}),
};`;
    const path = written(
      "  one: { adapter: ./fax.mjs, agent: a, line: x }\n  two: { adapter: ./fax.mjs, agent: a, line: x }\n",
    );
    writeFileSync(path.replace("bridgehead.yaml", "fax.mjs"), adapter);
    const loaded = await loadConfig(path, { env, adapters: loadAdapter });
    expect(loaded.ok ? [] : loaded.problems.map(({ key }) => key)).toEqual(["channels.two.line"]);
  });

  it("are refused by check, by run and by a reload", async () => {
    const twice = mail("first", { host: "127.0.0.1", port: 9 }) + mail("second", { host: "127.0.0.1", port: 9 });
    const path = written(twice);
    for (const command of ["check", "run"]) {
      const ended = await bridgehead([command, "--config", path], env);
      expect([command, ended.code]).toEqual([command, 78]);
      expect(ended.out + ended.err).toContain("channels.second.imap.user: is used by channel first already");
    }
    writeFileSync(path, head + mail("first", { host: "127.0.0.1", port: 9 }));
    const daemon = startDaemon({ config: path, env });
    expect(await daemon.ready).toBe(true);
    writeFileSync(path, head + twice);
    daemon.send("SIGHUP");
    await expect
      .poll(() => daemon.lines.map(({ problem }) => problem).join("\n"))
      .toContain("channels.second.imap.user: is used by channel first already");
    await daemon.stop();
  });
});
