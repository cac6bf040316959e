// The key `escalation`: what it becomes, and everything that is refused.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AdapterDefinition } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { loadAdapter } from "../../src/channels/loader.ts";
import { loadConfig, loadPolicy, maskSecrets, secretValues } from "../../src/config/index.ts";
import { configFile, numbers, support } from "../../src/sandbox/demo.ts";
import { fax, folder, line } from "../support/commands/configuration.ts";

const whsec = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const env = {
  KEY: "k-1",
  PAGER: "pager-key",
  HOOK: "https://chat.example.com/T0/B0/path-key",
  WHSEC: whsec,
  FORMER: "the-former-key-of-24-bytes",
};

const post: AdapterDefinition = {
  ...fax,
  name: "post",
  address: (text) => (text.includes("@") ? text.toLowerCase() : null),
  traits: { ...fax.traits, platform: "email" },
};
const texts: AdapterDefinition = {
  ...fax,
  name: "texts",
  address: (text) => (text.startsWith("+") ? text.replaceAll(" ", "") : null),
};
const adapters = async (name: string) =>
  ({ post, texts })[name] ?? Promise.reject(Object.assign(new Error(`no adapter ${name}`), { fix: "none" }));

const both = `  mail: { adapter: post, agent: support, host: m.example.com }
  phone: { adapter: texts, agent: support, host: t.example.com }
`;
let count = 0;
/** A file with that block, which begins in line 6 (without `channels`), and those channels. */
function written(escalation: string, channels = both): string {
  const path = join(folder, `escalation-${count++}.yaml`);
  const base = 'platform: { url: https://p.example.com }\nagents: { support: { key: "${env:KEY}" } }\n';
  writeFileSync(path, `${base}channels:\n${channels}escalation:\n${escalation}`);
  return path;
}
const load = (escalation: string, channels?: string) => loadConfig(written(escalation, channels), { env, adapters });
async function policy(escalation: string, channels?: string) {
  const loaded = await load(escalation, channels);
  if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
  return loaded.config.escalation ?? expect.fail("no policy");
}
/** Without place and cure. */
async function problems(escalation: string, channels?: string): Promise<string[]> {
  const loaded = await load(escalation, channels);
  return loaded.ok ? [] : loaded.problems.map(({ key, message }) => `${key.replace(/^escalation\./, "")}: ${message}`);
}

const small = `  responders: { anna: { email: anna@example.com } }
  fallback: { notify: [anna] }
`;
const responders = `  responders:
    anna: { name: Anna Berg, email: Anna@Example.com, sms: "+1 555 0123", time_zone: Europe/Berlin, hours: ["mon-fri 08:00-18:00"], away: ["2026-12-24"] }
    ben: { webhook: { url: "\${env:HOOK}", headers: { X-Key: "\${env:PAGER}" }, secret: "\${env:WHSEC}" } }
`;

describe("escalation", () => {
  it("is null when it is left out", async () => {
    const path = join(folder, "without-escalation.yaml");
    writeFileSync(
      path,
      'platform: { url: https://p.example.com }\nagents: { support: { key: "${env:KEY}" } }\nchannels: {}\n',
    );
    const loaded = await loadConfig(path, { env, adapters });
    expect(loaded.ok && loaded.config.escalation).toBeNull();
  });

  it("has defaults for everything but responders and the fallback", async () => {
    const { responders: known, ...rest } = await policy(small);
    expect([...known.values()]).toEqual([
      {
        id: "anna",
        name: "anna",
        email: "anna@example.com",
        sms: null,
        webhook: null,
        timeZone: "UTC",
        hours: [],
        away: [],
      },
    ]);
    expect(rest).toEqual({
      tiers: [],
      routes: [],
      fallback: { notify: ["anna"], by: null, repeat: 900_000 },
      agentRecipients: true,
      group: 120_000,
      link: { expires: 86_400_000, actions: ["ack", "reply", "note", "resume", "close"], addresses: "full" },
      causes: ["topic", "silent", "turn-failed", "held", "channel-down", "cap", "call"],
      downAfter: 600_000,
      poll: 300_000,
      pollOpen: 20_000,
      via: { email: "mail", sms: "phone" },
      platformWebhook: null,
      allowPrivate: [],
    });
  });

  it("has responders with addresses in their channels' form, hours, tiers and routes", async () => {
    const found = await policy(
      `${responders}  tiers: [ { notify: [anna], by: [sms], repeat: 0s, next: 1h } ]
  routes: [ { topics: ["Billing*"], agents: [support], channels: [mail], causes: [held], tiers: [ { notify: [ben] } ] } ]
  fallback: { notify: [anna, ben], by: [email], repeat: 1m }
  platform_webhook: { key: "\${env:WHSEC}", former_keys: ["\${env:FORMER}"], signing_secrets: ["\${env:WHSEC}"] }
`.replace("[anna, ben]", "[anna]"),
    );
    expect(found.responders.get("anna")).toEqual({
      id: "anna",
      name: "Anna Berg",
      email: "anna@example.com",
      sms: "+15550123",
      webhook: null,
      timeZone: "Europe/Berlin",
      hours: [{ kind: "weekly", days: [0, 1, 2, 3, 4], from: 480, to: 1080 }],
      away: [{ kind: "dates", first: 20_811, last: 20_811 }],
    });
    expect(found.responders.get("ben")?.webhook).toEqual({
      url: env.HOOK,
      headers: { "X-Key": "pager-key" },
      secret: whsec,
    });
    expect(found.tiers).toEqual([{ notify: ["anna"], by: ["sms"], repeat: 0, next: 3_600_000 }]);
    expect(found.routes).toEqual([
      {
        topics: ["Billing*"],
        agents: ["support"],
        channels: ["mail"],
        causes: ["held"],
        tiers: [{ notify: ["ben"], by: null, repeat: 600_000, next: 900_000 }],
      },
    ]);
    expect(found.platformWebhook).toEqual({
      header: "X-Bridgehead-Key",
      key: whsec,
      formerKeys: [env.FORMER],
      signingSecrets: [whsec],
      register: true,
    });
  });

  it("goes through the first channel of a kind that is enabled, or the one that is named", async () => {
    const channels = `  first: { adapter: post, agent: support, host: h, enabled: false }
  second: { adapter: post, agent: support, host: h }
  third: { adapter: post, agent: support, host: h }
`;
    expect((await policy(small, channels)).via).toEqual({ email: "second", sms: null });
    expect((await policy(`${small}  via: { email: third }\n`, channels)).via).toEqual({
      email: "third",
      sms: null,
    });
  });

  it("is shown and logged without what opens anything", async () => {
    const loaded = await load(`${responders}  fallback: { notify: [ben] }
  platform_webhook: { key: "\${env:WHSEC}", former_keys: ["\${env:FORMER}"], signing_secrets: ["\${env:WHSEC}"] }
`);
    if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
    const shown = JSON.stringify(maskSecrets(loaded.config));
    expect(shown).toContain('"email":"anna@example.com"');
    expect(shown).toContain('"url":"https://chat.example.com/********","headers":{"X-Key":"********"}');
    for (const secret of ["pager-key", "path-key", whsec, env.FORMER]) expect(shown).not.toContain(secret);
    expect(secretValues(loaded.config)).toEqual(expect.arrayContaining(["pager-key", env.HOOK, whsec, env.FORMER]));
  });
});

describe("an escalation is refused", () => {
  it("with all that is wrong at once, each with its line and cure", async () => {
    const loaded = await load(`  responders:
    anna: { email: anna@example.com, hours: ["monday"] }
    ben: { sms: "+1", time_zone: Europe/Berln }
  tiers: [ { notify: [ana] }, { notify: [ben], by: [email], repeat: 10 } ]
  routes: [ { agents: [suport], channels: [phne], tiers: [ { notify: [anna, carl] } ] } ]
`);
    expect(loaded.ok ? [] : loaded.problems.map(line)).toEqual([
      "6:1 escalation.fallback: is missing (add fallback (Which responders are notified, at any hour, when no tier has a responder on call or no tier acknowledges?))",
      "8:5 escalation.responders.anna.time_zone: is missing: hours says when, but not on whose clock (such as time_zone: Europe/Berlin)",
      '8:46 escalation.responders.anna.hours[0]: is no time: monday (write it like "mon-fri 08:00-18:00", "22:00-06:00" (every day), "2026-12-24" or "2026-12-24..2026-12-26")',
      "9:34 escalation.responders.ben.time_zone: is no time zone: Europe/Berln (did you mean Europe/Berlin?)",
      "10:23 escalation.tiers[0].notify[0]: names a responder that is not defined: ana (did you mean anna?)",
      "10:42 escalation.tiers[1].notify[0]: is notified by email, which ben does not have (add escalation.responders.ben.email, or take email out of by)",
      "10:69 escalation.tiers[1].repeat: has no unit: 10 (give it a unit: 10s, 10m, 10h or 10d)",
      "11:24 escalation.routes[0].agents[0]: names an agent that is not defined: suport (did you mean support?)",
      "11:44 escalation.routes[0].channels[0]: names a channel that is not defined: phne (did you mean phone?)",
      "11:77 escalation.routes[0].tiers[0].notify[1]: names a responder that is not defined: carl (name one of anna, ben)",
    ]);
  });

  const tell = (who: string, more = "") => `  responders: { anna: ${who} }\n  fallback: { notify: [anna]${more} }\n`;
  const mail = "{ email: anna@example.com }";
  const onlyMail = "  mail: { adapter: post, agent: support, host: h }\n";
  it.each<[string, string, string, string?]>([
    ["nobody to fall back on", "  responders: {}\n  fallback: { notify: [] }\n", "fallback.notify: is empty"],
    [
      "somebody unknown",
      "  responders: {}\n  fallback: { notify: [eve] }\n",
      "fallback.notify[0]: names a responder that is not defined: eve",
    ],
    [
      "somebody without any way",
      tell("{ name: Anna }"),
      "fallback.notify[0]: names a responder who cannot be notified: anna",
    ],
    [
      "only ways that no channel carries",
      tell('{ sms: "+1" }'),
      "fallback.notify[0]: names a responder who cannot be notified: anna",
      onlyMail,
    ],
    [
      "a way that no channel carries",
      tell('{ sms: "+1", email: a@b.c }', ", by: [sms]"),
      "fallback.notify[0]: is notified by sms, but no channel carries texts",
      onlyMail,
    ],
    ["no way", tell(mail, ", by: []"), "fallback.by: is empty"],
    ["another way", tell(mail, ", by: [mail]"), "fallback.by[0]: must be one of sms, email, webhook"],
    [
      "a mailbox that is none",
      tell("{ email: anna }"),
      "responders.anna.email: is no address that mail can reach: anna",
    ],
    ["a number that is none", tell('{ sms: "555" }'), "responders.anna.sms: is no address that phone can reach: 555"],
    [
      "a name with a line end",
      tell('{ name: "a\\r\\nBcc: b", email: a@b.c }'),
      "responders.anna.name: must be one line of text",
    ],
    ["an empty name", tell('{ name: " ", email: a@b.c }'), "responders.anna.name: must be one line of text"],
    [
      "away without a zone",
      tell("{ email: a@b.c, away: [22:00-06:00] }"),
      "responders.anna.time_zone: is missing: away says when, but not on whose clock",
    ],
    [
      "a channel that is not there",
      `${small}  via: { email: mial }\n`,
      "via.email: names a channel that is not defined: mial",
    ],
    [
      "a channel of another kind",
      `${small}  via: { email: phone }\n`,
      "via.email: names a channel that carries no mail: phone",
    ],
    [
      "a channel that is off",
      `${small}  via: { email: mail }\n`,
      "via.email: names a channel that does not run: mail",
      onlyMail.replace("host: h", "host: h, enabled: false"),
    ],
    [
      "plain http",
      tell("{ webhook: { url: http://pager.example.com/ } }"),
      "responders.anna.webhook.url: would send what customers write unencrypted",
    ],
    [
      "another protocol",
      tell("{ webhook: { url: ftp://pager.example.com/ } }"),
      "responders.anna.webhook.url: must be an https URL without user or fragment",
    ],
    [
      "a login in a URL",
      tell("{ webhook: { url: https://u:p@pager.example.com/ } }"),
      "responders.anna.webhook.url: must be an https URL without user or fragment",
    ],
    [
      "a key as plain text",
      tell("{ webhook: { url: https://x.example.com/, headers: { X-Key: abc } } }"),
      "responders.anna.webhook.headers.X-Key: is a secret written as plain text",
    ],
    [
      "a header of ours",
      tell('{ webhook: { url: https://x.example.com/, headers: { Webhook-Id: "${env:KEY}" } } }'),
      "responders.anna.webhook.headers.Webhook-Id: is a header that is not yours to set",
    ],
    [
      "a secret of another form",
      tell('{ webhook: { url: https://x.example.com/, secret: "${env:KEY}" } }'),
      "responders.anna.webhook.secret: must be whsec_ and 24 to 64 bytes in Base64",
    ],
    [
      "an unset variable, once",
      tell('{ sms: "${env:NO}", email: a@b.c }'),
      "responders.anna.sms: needs the environment variable NO, which is not set",
    ],
    [
      "an unset channel, once",
      `${small}  via: { email: "\${env:NO}" }\n`,
      "via.email: needs the environment variable NO, which is not set",
    ],
    [
      "a short key of the platform's",
      `${small}  platform_webhook: { key: "\${env:KEY}" }\n`,
      "platform_webhook.key: must be at least 16 characters",
    ],
    [
      "a key of the platform's as plain text",
      `${small}  platform_webhook: { key: abcdefghijklmnop }\n`,
      "platform_webhook.key: is a secret written as plain text",
    ],
    [
      "a former key of the platform's as plain text",
      `${small}  platform_webhook: { key: "\${env:WHSEC}", former_keys: [abcdefghijklmnop] }\n`,
      "platform_webhook.former_keys[0]: is a secret written as plain text",
    ],
    [
      "a zone that nobody knows",
      tell("{ email: a@b.c, time_zone: Middle-earth/Shire }"),
      "responders.anna.time_zone: is no time zone: Middle-earth/Shire",
    ],
    [
      "a range that is none",
      `${small}  allow_private: [10.0.0.0/33]\n`,
      'allow_private[0]: must be a host name, an address or a range such as "10.0.0.0/8"',
    ],
    [
      "an unknown cause",
      `${small}  causes: [topics]\n`,
      "causes[0]: must be one of topic, silent, turn-failed, held, channel-down, cap, call",
    ],
    ["no cause", `${small}  causes: []\n`, "causes: is empty"],
    [
      "a tier that never ends",
      `${small}  tiers: [ { notify: [anna], next: 0s } ]\n`,
      "tiers[0].next: must be longer than 0",
    ],
    ["a key that is misspelled", `${small}  grop: 1m\n`, "grop: is not a known key"],
    ["no responders", "  fallback: { notify: [anna] }\n", "responders: is missing"],
  ])("with %s", async (what, escalation, expected, channels) => {
    const found = await problems(escalation, channels);
    expect(found[0]?.startsWith(expected) ? [expected] : found).toEqual([expected]);
    expect(found).toHaveLength(what === "no responders" ? 2 : 1);
  });

  it("when the adapter that would carry it is missing, for that alone", async () => {
    const found = await problems(tell('{ sms: "+1" }'), "  fax: { adapter: telex, agent: support }\n");
    expect(found).toEqual(["channels.fax.adapter: no adapter telex"]);
  });

  it.each([
    "http://pager.example.com/x",
    "http://10.1.2.3/",
    "http://[fd00::1]:8080/",
    "http://0x7f.1/",
    "https://2130706433/",
    "https://10.1.2.3/",
    "https://[::ffff:10.1.2.3]/",
    "https://localhost/",
  ])("with %s, unless that is allowed", async (url) => {
    const allowed = "  allow_private: [ Pager.example.com, localhost, 10.0.0.0/8, 127.0.0.1, 'fd00::/8' ]\n";
    const escalation = tell(`{ webhook: { url: "${url}" } }`);
    expect(await problems(escalation + allowed)).toEqual([]);
    expect(await problems(escalation)).toEqual([
      expect.stringMatching(/^responders\.anna\.webhook\.url: (would send .* unencrypted|is not on the internet: )/),
    ]);
  });

  it("but not with a host or an address of the internet", async () => {
    for (const url of ["https://pager.example.com:8443/x?y=1", "https://8.8.8.8/", "https://[2606:4700::1111]/"])
      expect(await problems(tell(`{ webhook: { url: "${url}" } }`))).toEqual([]);
  });
});

describe("our own address is not a responder's", () => {
  async function said(person: string, mail = ""): Promise<string[]> {
    const urls = { platformUrl: "https://p.example.com", smsUrl: "http://127.0.0.1:1", folder };
    const file = configFile({ ...urls, imapPort: 1, smtpPort: 1 }).replace(
      "    first_start:",
      `${mail}    first_start:`,
    );
    const path = join(folder, `own-${count++}.yaml`);
    writeFileSync(path, `${file}escalation:\n  responders: { anna: ${person} }\n  fallback: { notify: [ anna ] }\n`);
    const both = { DEMO_KEY: "k", DEMO_PASSWORD: "p" };
    const loaded = await loadConfig(path, { env: both, adapters: loadAdapter });
    return loaded.ok ? [] : loaded.problems.map(({ key, message }) => `${key}: ${message}`);
  }
  const mailed =
    "escalation.responders.anna.email: is an address of channel support-mail: the notification would reach the agent, not a responder";

  it.each([
    [`{ email: ${support.toUpperCase()} }`, "", mailed],
    ["{ email: help@demo.example }", "    aliases: [ help@demo.example ]\n", mailed],
    [
      `{ sms: "${numbers.support.replace("202", " (202) ")}" }`,
      "",
      mailed.replace("email:", "sms:").replace("-mail", "-sms"),
    ],
  ])("%s", async (person, more, problem) => expect(await said(person, more)).toEqual([problem]));

  it("but another one at the same domain is", async () => {
    expect(await said("{ email: anna@demo.example }")).toEqual([]);
    expect(await said(`{ email: ${support} }`, "    address: desk@demo.example\n")).toEqual([]);
  });
});

describe("the part of the file that a policy needs", () => {
  it("is read without the service's secrets", async () => {
    const path = written(
      `${responders}  fallback: { notify: [anna, ben] }\n  platform_webhook: { key: "\${credential:not-here}" }\n`,
      both.replace("host: m.example.com", 'host: "${env:NOT_HERE}"'),
    );
    const loaded = await loadPolicy(path, { env: {}, adapters });
    expect(loaded).toMatchObject({
      ok: true,
      agents: ["support"],
      channels: [
        { id: "mail", agent: "support", enabled: true },
        { id: "phone", agent: "support", enabled: true },
      ],
      policy: { via: { email: "mail", sms: "phone" }, platformWebhook: null },
    });
    const ben = loaded.ok ? loaded.policy?.responders.get("ben") : null;
    expect(ben?.webhook).toEqual({ url: "https://hidden.invalid", headers: {}, secret: null });
  });

  it("is refused for what is wrong in it, in its place", async () => {
    const loaded = await loadPolicy(
      written("  responders: {}\n  fallback: { notify: [eve] }\n  routes: [ { agents: [x], tiers: [] } ]\n"),
      { env, adapters },
    );
    expect(loaded.ok ? [] : loaded.problems.map(({ line: at, key }) => [at, key])).toEqual([
      [8, "escalation.fallback.notify[0]"],
      [9, "escalation.routes[0].agents[0]"],
    ]);
    const list = await loadPolicy(written("  - a\n"), { env, adapters });
    expect(list.ok ? [] : list.problems.map(({ message }) => message)).toEqual(["must be a block of keys, not a list"]);
  });

  it("may have none", async () => {
    const path = join(folder, "no-policy.yaml");
    writeFileSync(path, `agents: {}\nchannels:\n${both}`);
    expect(await loadPolicy(path, { env: {}, adapters })).toMatchObject({
      ok: true,
      agents: [],
      policy: null,
    });
  });
});

describe("escalation with sender_auth: off", () => {
  const escalation =
    "  responders: { anna: { email: anna@example.com, webhook: { url: https://pager.example.com/a } } }\n  fallback: { notify: [anna] }\n";
  const server = "host: m.example.com, tls: implicit";
  const mail = (more: string) =>
    `  mail: { adapter: email, agent: support, ${more}imap: { ${server}, user: a@example.com, password: "\${env:KEY}" }, smtp: { ${server} } }\n`;
  const warnings = async (more: string) => {
    const loaded = await loadConfig(written(escalation, mail(more)), { env, adapters: loadAdapter });
    expect(loaded.ok ? [] : loaded.problems.map(line)).toEqual([]);
    return loaded.warnings.map(({ key, message, fix }) => [key, message, fix]);
  };
  const message = "carries escalations with sender_auth: off: the answers of responders are not authenticated";
  const fix = "set sender_auth.mode to tag (or require)";

  it("is warned of where it is the default, and where it is written", async () => {
    expect(await warnings("")).toEqual([["channels.mail", message, fix]]);
    expect(await warnings("sender_auth: { mode: off }, ")).toEqual([["channels.mail.sender_auth.mode", message, fix]]);
  });
  it("is nothing to warn of with tag or require, or without escalation", async () => {
    expect(await warnings("sender_auth: { mode: tag }, ")).toEqual([]);
    expect(await warnings("sender_auth: { mode: require }, ")).toEqual([]);
    const path = written(escalation, mail(""));
    writeFileSync(path, readFileSync(path, "utf8").replace(/^escalation:[^]*/m, ""));
    const loaded = await loadConfig(path, { env, adapters: loadAdapter });
    expect(loaded.ok && loaded.warnings).toEqual([]);
  });
});
