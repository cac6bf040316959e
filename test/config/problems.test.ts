import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { folder, good, load, problems } from "../support/commands/configuration.ts";

const env = { KEY: "k-1" };

describe("problems", () => {
  it("come all at once, in the file's order, each with line, key and cure", async () => {
    const text = `platform:
  url: ftp://platform.example.com
  rate: { request: 10, per: 1 minute }
agents:
  support: { key: abc }
  Sales: { key: "\${env:MISSING}" }
channels:
  office:
    adapter: fax
    agent: suport
    on_unknown: resnd
    max_ag: 3d
    hots: fax.example.com
    pages: "4"
    pin: \${file:not-there}
  broken:
    adapter: "@acme/telex"
    agent: support
    enabled: "yes"
storage: x
`;
    expect(await problems(text)).toEqual([
      '2:8 platform.url: must be an http(s) URL without user, query or fragment (Where is the platform? An http(s) URL, or "embedded" for the one inside the daemon (in short, platform: embedded).)',
      "3:11 platform.rate.request: is not a known key (did you mean requests?)",
      '3:29 platform.rate.per: must be a duration such as "30s", "1.5m", "2h" or "3d" (write a number and one of ms, s, m, h, d, without a space)',
      "5:19 agents.support.key: is a secret written as plain text (put it elsewhere and refer to it: ${env:NAME}, ${file:/path} or ${credential:name})",
      "6:3 agents.Sales: must be lower-case letters, digits and hyphens, at most 63, not starting with a hyphen (choose another name)",
      "6:17 agents.Sales.key: needs the environment variable MISSING, which is not set (set MISSING, or use ${file:/path})",
      "8:3 channels.office.host: is missing (add host (Where is the machine?))",
      "10:12 channels.office.agent: names an agent that is not defined: suport (did you mean support?)",
      "11:17 channels.office.on_unknown: must be one of hold, resend, drop (did you mean resend?)",
      "12:5 channels.office.max_ag: is not a known key (did you mean max_age?)",
      "13:5 channels.office.hots: is not a known key (did you mean host?)",
      "14:12 channels.office.pages: must be a number, not a text (remove the quotes)",
      `15:10 channels.office.pin: needs the file ${join(folder, "not-there")}, which does not exist (create it, or correct the path)`,
      "17:14 channels.broken.adapter: there is no adapter @acme/telex (npm install @acme/telex)",
      "19:14 channels.broken.enabled: must be true or false, not a text (write true or false, without quotes)",
      "20:1 storage: is not a known key (did you mean store?)",
    ]);
  });

  const one: readonly [string, string, string][] = [
    ["nothing at all", "", "1:1 platform: is missing"],
    ["a list instead of blocks", "- a\n- b\n", "must be a block of keys, not a list"],
    ["a duplicate key", `${good}agents: {}\n`, "9:1 agents: is written twice in the same block (keep one of the two)"],
    ["an open bracket", `${good}node: [a\n`, "is not valid YAML"],
    ["a tab as indentation", `${good}\tpages: 2\n`, "Tabs are not allowed as indentation (indent with spaces)"],
    [
      "a text instead of a block",
      `${good}log: debug\n`,
      "9:6 log: must be a block of keys, not a text (write its keys in lines below it: level, format)",
    ],
    ...["unix:/run/b.sock", "/run/b.sock", "localhost", "http://127.0.0.1:80"].map(
      (listen): [string, string, string] => [
        `an address to listen on that is ${listen}`,
        `${good}http: { listen: "${listen}" }\n`,
        '9:17 http.listen: must be "host:port", such as "127.0.0.1:8025" or "[::1]:8025" (write an address of this machine and a port;',
      ],
    ),
    [
      "a port alone to listen on",
      `${good}http: { listen: 8025 }\n`,
      '9:17 http.listen: must be "host:port", such as "127.0.0.1:8025" or "[::1]:8025" (Which address serves webhooks',
    ],
    [
      "an alias without anchor",
      `${good}node: *x\n`,
      "9:7 : is not valid YAML: the alias *x has no anchor (define the anchor before its alias)",
    ],
    [
      "a second document",
      `${good}---\nnode: x\n`,
      "9:1 : begins a second YAML document, which would be ignored (remove the line ---",
    ],
    [
      "an empty block",
      good.replace(/channels:[\s\S]*/, "channels:\n"),
      "4:1 channels: is empty (give it a value, or remove the key)",
    ],
    ["a channel without adapter", good.replace("    adapter: fax\n", ""), "5:3 channels.office.adapter: is missing"],
    [
      "a name that cannot be in a URL",
      good.replace("office", "Our Office"),
      "5:3 channels.Our Office: must be lower-case",
    ],
    [
      "tls none over the network",
      `${good}    tls: none\n`,
      "9:10 channels.office.tls: is none, but fax.example.com is not this machine",
    ],
    ["a number out of range", `${good}    pages: 12\n`, "9:12 channels.office.pages: must be at most 9 (lower it)"],
    [
      "a key deep in the adapter's block",
      `${good}    paper: { size: a4, trai: b }\n`,
      "9:24 channels.office.paper.trai: is not a known key (did you mean tray?)",
    ],
    [
      "embedded without a model",
      good.replace("https://platform.example.com", "embedded"),
      "1:1 model: is missing: the embedded platform needs a model that answers",
    ],
    [
      "a port too high",
      `${good}http: { listen: "127.0.0.1:70000" }\n`,
      "9:17 http.listen: the port must be at most 65535",
    ],
    [
      "a store of an unknown kind",
      `${good}store: mysql://x\n`,
      '9:8 store: must be "sqlite:<path>" or "postgres://user@host/database"',
    ],
    [
      "a password in the store's address",
      `${good}store: postgres://b:secret@db/b\n`,
      "9:8 store: has a password written as plain text",
    ],
    [
      "a literal in a list of secrets",
      `${good}    tokens: [ "\${env:KEY}", abc ]\n`,
      "9:29 channels.office.tokens[1]: is a secret written as plain text",
    ],
    [
      "an unknown kind of reference",
      `${good}node: \${envv:X}\n`,
      "9:7 node: has a reference of an unknown kind: ${envv:X} (did you mean ${env:X}?)",
    ],
    [
      "a reference without a kind",
      `${good}node: \${X}\n`,
      "9:7 node: has a reference without a kind: ${X} (write ${env:X})",
    ],
    [
      "a credential outside of systemd",
      `${good}    pin: \${credential:pin}\n`,
      "write it to /etc/bridgehead/secrets/pin and restart the service, or add LoadCredential=pin:",
    ],
    ["a credential with a path in it", `${good}    pin: \${credential:../pin}\n`, "is not a name: ../pin"],
    [
      "an unquoted number where a text belongs",
      good.replace("fax.example.com", "5"),
      '8:11 channels.office.host: must be a text, not a number (put it in quotes: "5")',
    ],
    [
      "an unquoted number to call, without its plus by then",
      good.replace("fax.example.com", "+15550123001"),
      'not a number (put it in quotes, as it was written: "15550123001", or "+15550123001")',
    ],
  ];
  it.each(one)("%s", async (_label, text, expected) => {
    expect((await problems(text, env)).join("\n")).toContain(expected);
  });

  it("accept tls none on this machine", async () => {
    for (const host of ["localhost", "127.0.0.1", "127.8.9.1", '"::1"']) {
      expect(await problems(`${good.replace("fax.example.com", host)}    tls: none\n`, env)).toEqual([]);
    }
  });

  it("report an unresolved reference once, not again for its shape", async () => {
    expect(await problems(good.replace("https://platform.example.com", '"${env:URL}"'), env)).toHaveLength(1);
  });

  it("warn of a platform that is called unencrypted over the network", async () => {
    const loaded = await load(good.replace("https:", "http:"), env);
    expect(loaded.ok && loaded.warnings[0]?.key).toBe("platform.url");
    expect((await load(good.replace("https://platform.example.com", "http://127.0.0.1:1"), env)).warnings).toEqual([]);
  });

  it("never crash the loader, with any file content", async () => {
    const words = fc.constantFrom(
      "platform",
      "agents",
      "channels",
      "url",
      "a",
      "1",
      "null",
      "${env:X}",
      "${",
      "&a",
      "*a",
      "<<",
      "__proto__",
      "constructor",
      "- ",
      ": ",
      "{",
      "}",
      "[",
      "]",
      "\n",
      "  ",
      "#",
      '"',
      "'",
      "|",
      "!!binary",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(words, { maxLength: 30 }), async (parts) => {
        const loaded = await load(parts.join(""), env);
        expect(loaded.ok).toBe(false);
        for (const problem of loaded.ok ? [] : loaded.problems) expect(problem.line).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });
});

it.each([
  ["agents", good.replace("  support:", '  __proto__: { key: "${env:KEY}" }\n  support:'), "3:3"],
  ["channels", `${good}  __proto__: { adapter: fax, agent: support, host: b }\n`, "9:3"],
  ["the file", `${good}__proto__: {}\n`, "9:1"],
  ["an adapter's block", `${good}    __proto__: {}\n`, "9:5"],
])("the name __proto__ is refused in %s", async (_, text, place) => {
  expect(await problems(text, env)).toContain(`${place} __proto__: is not a possible name (choose another name)`);
});

describe("a file of SQLite", () => {
  /** Folders end with a slash. */
  const disk = (entries: readonly string[], writable: readonly string[]) => ({
    exists: (path: string) =>
      entries.includes(path) || entries.includes(path.endsWith("/.") ? path.slice(0, -1) : `${path}/`),
    isWritable: (path: string) => writable.includes(path),
    isMountedReadOnly: (path: string) => path.startsWith("/mounted"),
  });
  const found = (text: string, on: ReturnType<typeof disk>) => problems(`${good}${text}\n`, env, on);
  const fix = (path: string) => `(run this as the daemon's user, and let that user write to ${path})`;

  it("lies in a folder that this process can write, and can be written itself", async () => {
    const store = "store: sqlite:/data/a.db";
    expect(await found(store, disk(["/data/"], ["/data"]))).toEqual([]);
    expect(await found(store, disk(["/data/"], []))).toEqual([
      `9:8 store: lies in a folder that cannot be written: /data ${fix("/data")}`,
    ]);
    expect(await found(store, disk(["/data/", "/data/a.db"], ["/data"]))).toEqual([
      `9:8 store: cannot be written: /data/a.db ${fix("/data/a.db")}`,
    ]);
    expect(await found("store: sqlite:/mounted/a.db", disk(["/mounted/"], []))).toEqual([
      expect.stringMatching(
        /^9:8 store: lies in a folder that cannot be written: \/mounted \(its file system is mounted/,
      ),
    ]);
  });

  it("lies in a folder that this process can create", async () => {
    const at = (path: string) => `store: sqlite:${path}`;
    const closed = (path: string) =>
      `9:8 store: lies in a folder that does not exist and cannot be created: ${path} (correct the path, or create the folder for the daemon's user: install -d -m 700 -o bridgehead ${path})`;
    expect(await found(at("/data/a/b/c.db"), disk(["/data/"], ["/data"]))).toEqual([]);
    expect(await found(at("/data/a/b/c.db"), disk(["/data/"], []))).toEqual([closed("/data/a/b")]);
    for (const path of ["/data/a.db/b.db", "/data/a.db/b/c.db"])
      expect(await found(at(path), disk(["/data/", "/data/a.db"], ["/data", "/data/a.db"]))).toEqual([
        "9:8 store: lies below a file: /data/a.db (correct the path)",
      ]);
  });

  it("of the embedded platform is checked as well", async () => {
    const text = good
      .replace(
        "platform: { url: https://platform.example.com }",
        "platform: { url: embedded, embedded: { agents: a.yaml, database: /other/p.db } }",
      )
      .concat("store: sqlite:/data/a.db\n");
    expect(await problems(text, env, disk(["/data/", "/other/"], ["/data"]))).toEqual([
      `1:66 platform.embedded.database: lies in a folder that cannot be written: /other ${fix("/other")}`,
    ]);
  });
});
