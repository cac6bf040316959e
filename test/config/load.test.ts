import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, it } from "vitest";
import { loadChannel, loadConfig, maskSecrets, parseStore, secretValues } from "../../src/config/index.ts";
import { fax, folder, good, line, load, problems } from "../support/commands/configuration.ts";

const env = { KEY: "k-1" };
async function config(text: string, given: Record<string, string> = env) {
  const loaded = await load(text, given);
  if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
  return loaded.config;
}

describe("a good file", () => {
  it("gets every default, in milliseconds", async () => {
    const read = await config(good);
    expect(read.platform).toEqual({
      url: "https://platform.example.com",
      rate: { requests: 1000, per: 60_000 },
      timeout: 60_000,
      absent_after: 30_000,
    });
    expect(read.agents).toEqual({ support: { key: "k-1", refresh: 60_000 } });
    expect(read.channels[0]?.core).toEqual({
      adapter: "fax",
      agent: "support",
      enabled: true,
      opening: "start",
      max_age: 72 * 3_600_000,
      allow: [],
      deny: [],
      caps: {
        sender: [
          { max: 6, per: 3_600_000 },
          { max: 20, per: 86_400_000 },
        ],
        conversation: [{ max: 10, per: 600_000 }],
        channel: [{ max: 60, per: 900_000 }],
      },
      mode: "live",
      pause_on: { loops: [{ max: 10, per: 3_600_000 }], replies: [] },
      on_unknown: "hold",
      unknown_window: 900_000,
      on_permanent_failure: "continue",
      on_new_message: "send",
      debounce: 0,
      concurrency: 64,
    });
    expect(read.http).toEqual({
      listen: { host: "127.0.0.1", port: 8025 },
      admin_listen: { host: "127.0.0.1", port: 9025 },
    });
    expect(read.store).toEqual({ kind: "sqlite", file: "/var/lib/bridgehead/bridgehead.db" });
    expect(read.log).toEqual({ level: "info", format: "auto" });
    expect(read.retention).toEqual({ raw: 30 * 86_400_000, events: 365 * 86_400_000 });
    expect(read.node).toBe(hostname());
  });

  it("hands the adapter its own keys only, with its defaults", async () => {
    const [channel] = (await config(good)).channels;
    expect(channel).toMatchObject({ id: "office", adapter: fax });
    expect(channel?.settings).toEqual({ host: "fax.example.com", tls: "implicit", tokens: [], pages: 3 });
  });

  it("is frozen all the way down, the adapter excepted", async () => {
    const read = await config(good);
    expect(() => Object.assign(read.channels[0]?.core.caps ?? {}, { sender: [] })).toThrow(TypeError);
    expect(() => Object.assign(read.channels[0]?.settings ?? {}, { host: "x" })).toThrow(TypeError);
    expect(Object.isFrozen(read.channels[0]?.adapter)).toBe(false);
  });

  it("accepts references without quotes inside braces and brackets", async () => {
    const read = await config(
      `platform: { url: https://p.example.com, organization_key: \${env:ORG} }
agents: { support: { key: \${env:KEY}, refresh: 5s } }
channels:
  office: { adapter: fax, agent: support, host: h.example.com, tokens: [ \${env:KEY}, "\${env:ORG}" ] } # \${env:NOT_READ}
`,
      { ...env, ORG: "o-1" },
    );
    expect(read.platform.organization_key).toBe("o-1");
    expect(read.agents["support"]).toEqual({ key: "k-1", refresh: 5000 });
    expect(read.channels[0]?.settings).toMatchObject({ tokens: ["k-1", "o-1"] });
  });

  it("finds paths from its own folder", async () => {
    const read = await config(`${good}store: sqlite:data/b.db\n`);
    expect(read.store).toEqual({ kind: "sqlite", file: join(folder, "data/b.db") });
    const embedded = good.replace(
      "https://platform.example.com",
      "embedded, embedded: { agents: a.yaml, database: p.db }",
    );
    expect((await config(embedded)).platform.embedded).toEqual({
      agents: join(folder, "a.yaml"),
      database: join(folder, "p.db"),
      listen: { host: "127.0.0.1", port: 0 },
    });
  });

  it("may merge a common block into several channels", async () => {
    const read = await config(
      good.replace(
        "  office:\n    adapter: fax\n    agent: support\n",
        "  office: &office\n    adapter: fax\n    agent: support\n",
      ) + "  cellar: { <<: *office, host: cellar.example.com }\n",
    );
    expect(read.channels.map(({ id }) => id)).toEqual(["office", "cellar"]);
    expect(read.channels[1]?.settings).toMatchObject({ host: "cellar.example.com" });
  });

  it("may write the embedded platform's keys as plain text", async () => {
    const text = good
      .replace('"${env:KEY}"', "open")
      .replace("https://platform.example.com", "embedded, embedded: { agents: a, database: d }");
    expect((await config(text)).agents["support"]?.key).toBe("open");
  });
});

describe("references", () => {
  const withPin = (pin: string): string => `${good}    pin: ${pin}\n`;

  it("read a file, from the configuration's folder, without its last line end", async () => {
    writeFileSync(join(folder, "pin"), "12 34\n\n", { mode: 0o600 });
    expect((await config(withPin("${file:pin}"))).channels[0]?.settings).toMatchObject({ pin: "12 34\n" });
  });

  it("read a file without its byte order mark, and refuse one that is not UTF-8", async () => {
    writeFileSync(join(folder, "pin"), "\ufeff1234\r\n", { mode: 0o600 });
    expect((await config(withPin("${file:pin}"))).channels[0]?.settings).toMatchObject({ pin: "1234" });
    writeFileSync(join(folder, "pin"), Buffer.from("\ufeff1234\r\n", "utf16le"), { mode: 0o600 });
    expect(await problems(withPin("${file:pin}"), env)).toEqual([
      `9:10 channels.office.pin: needs the file ${folder}/pin, which is not UTF-8 text (save the file as UTF-8)`,
    ]);
  });

  it("read a credential that systemd gave", async () => {
    const directory = join(folder, "credentials");
    mkdirSync(directory);
    writeFileSync(join(directory, "fax-pin"), "77\n");
    const read = await config(withPin("${credential:fax-pin}"), { ...env, CREDENTIALS_DIRECTORY: directory });
    expect(read.channels[0]?.settings).toMatchObject({ pin: "77" });
  });

  it("distinguish an empty credential from one that is not in the folder, and name the folder", async () => {
    const directory = join(folder, "few-credentials");
    mkdirSync(directory);
    writeFileSync(join(directory, "empty-pin"), "\n");
    const wrong = async (name: string, CREDENTIALS_DIRECTORY?: string) => {
      const loaded = await load(withPin(`\${credential:${name}}`), {
        ...env,
        ...(CREDENTIALS_DIRECTORY && { CREDENTIALS_DIRECTORY }),
      });
      return loaded.ok ? "" : loaded.problems.map(line).join();
    };
    expect(await wrong("empty-pin", directory)).toContain(
      `needs the file ${directory}/empty-pin, which is empty (write the value`,
    );
    expect(await wrong("no-pin", directory)).toContain(
      `needs the credential no-pin, which is not in ${directory} (write it to`,
    );
    expect(await wrong("no-pin")).toContain("by hand: export CREDENTIALS_DIRECTORY=");
    // It may be there: the folder cannot be read.
    expect(await wrong("no-pin", join(directory, "empty-pin"))).toContain(
      `needs the file ${directory}/empty-pin/no-pin, which cannot be read (ENOTDIR)`,
    );
  });

  it("may be a part of a text, and be escaped", async () => {
    const read = await config(`${good}    paper: { size: "a \${env:KEY} b $\${env:KEY}" }\n`);
    expect(read.channels[0]?.settings).toMatchObject({ paper: { size: "a k-1 b ${env:KEY}" } });
  });

  it("are numbers, true or false where the schema expects these, in the file's keys and an adapter's", async () => {
    const given = { ...env, PAGES: "4", RATE: "12.5", ON: "false", NUMBER: "5" };
    const withRate = good.replace(" }\n", ", rate: { requests: ${env:RATE}, per: 60s } }\n");
    const text = `${withRate}    pages: \${env:PAGES}
    pin: \${env:NUMBER}
    enabled: "\${env:ON}"
    caps: { channel: [ { max: \${env:NUMBER}, per: 1h } ] }
`;
    const read = await config(text.replace("${env:RATE}", "${env:NUMBER}"), given);
    expect(read.platform.rate.requests).toBe(5);
    expect(read.channels[0]?.core).toMatchObject({ enabled: false, caps: { channel: [{ max: 5 }] } });
    expect(read.channels[0]?.settings).toMatchObject({ pages: 4, pin: "5" });
    expect(await problems(text, { ...given, RATE: "7", PAGES: "s3cret", ON: "yes" })).toEqual([
      "9:12 channels.office.pages: must be a number, but ${env:PAGES} is another text (set it to a number)",
      "11:14 channels.office.enabled: must be true or false, but ${env:ON} is another text (set it to true or false)",
    ]);
    // A number that the schema rejects, and a reference that is a part of the value.
    expect(await problems(text.replace("pages: $", "pages: 1$"), { ...given, RATE: "0.5" })).toEqual([
      expect.stringMatching(/^1:\d+ platform.rate.requests: /),
      expect.stringMatching(/^9:12 channels.office.pages: must be a number, not a text/),
    ]);
  });

  it("are converted for commands that read a part of the file", async () => {
    const path = join(folder, "part.yaml");
    writeFileSync(path, good.replace("    agent: support\n", "    agent: support\n    enabled: ${env:ON}\n"));
    const options = { env: { ...env, ON: "false" }, adapters: async () => fax };
    expect(await loadChannel(path, "office", options)).toMatchObject({ ok: true, channel: { enabled: false } });
  });

  it.each(["p%w", "p#w", "p/w", "p?w", "p@w", "p:w", "p w", "p%41", "'\"<ü€", "1#w", "1/w", "${env:KEY}"])(
    "is encoded in the password of the store, and both forms are masked: %s",
    async (password) => {
      for (const host of ["db.example.com/b", "[::1]:5433/b?application_name=b", "/b?host=/run/postgresql"]) {
        const { store, ...rest } = await config(`${good}store: postgres://b.\${env:USER}:\${env:PW}@${host}\n`, {
          ...env,
          USER: "u/1",
          PW: password,
        });
        if (store.kind !== "postgres") return expect.fail(store.kind);
        expect(new Client(store.url)).toMatchObject({ user: "b.u/1", password, database: "b" });
        const read = { ...rest, store };
        expect(secretValues(read)).toContain(password);
        expect(secretValues(read).some((secret) => store.url.includes(`:${secret}@`))).toBe(true);
        const printed = JSON.stringify(maskSecrets(read));
        expect(printed).not.toContain(JSON.stringify(password).slice(1, -1));
        expect(printed).not.toContain(encodeURIComponent(password));
      }
    },
  );

  it("warn of a password that was encoded already; other parts of a URL are not encoded", async () => {
    const text = `${good}store: postgres://b:\${env:PW}@\${env:HOST}\n`;
    const loaded = await load(text, { ...env, PW: "p%2Fw", HOST: "localhost:5433/b" });
    if (!loaded.ok) return expect.fail(loaded.problems.map(line).join("\n"));
    expect(loaded.config.store).toEqual({ kind: "postgres", url: "postgres://b:p%252Fw@localhost:5433/b" });
    expect(loaded.warnings.map(line)).toEqual([
      expect.stringMatching(/^9:8 store: seems to be percent-encoded already/),
    ]);
  });

  it("is not encoded where the whole URL is a reference, which is refused when its password is not", async () => {
    const text = `${good}store: \${env:URL}\n`;
    const valid = "postgres://b:p%2F%25w@h/b";
    expect((await config(text, { ...env, URL: valid })).store).toEqual({ kind: "postgres", url: valid });
    expect(secretValues(await config(text, { ...env, URL: valid }))).toEqual(
      expect.arrayContaining(["p/%w", "p%2F%25w"]),
    );
    for (const password of ["p%w", "p#w", "p/w", "p?w", "1#w", "1/w", "1?w", "p w"]) {
      const url = `postgres://b:${password}@h/b`;
      const loaded = await load(text, { ...env, URL: url });
      expect(loaded.ok ? url : loaded.problems.map(line)).toEqual([
        expect.stringMatching(/^9:8 store: is not a valid URL: .* \(write postgres:.*encode % as %25/),
      ]);
      expect(JSON.stringify(loaded)).not.toContain(password);
      expect(parseStore("${env:URL}", folder, { URL: url })).toEqual({
        problem: expect.stringContaining("is not a valid URL"),
      });
    }
    expect(parseStore("postgres://b:${env:PW}@h/b", folder, { PW: "p#w" })).toEqual({
      kind: "postgres",
      url: "postgres://b:p%23w@h/b",
    });
  });

  it.each([
    ["db.example.com/b", true],
    ["10.0.0.7/b?sslmode=disable", true],
    ["db.example.com/b?sslmode=verify-full", false],
    ["db.example.com/b?ssl=true", false],
    ["localhost/b", false],
    ["/b?host=/run/postgresql", false],
    ["%2Frun%2Fpostgresql/b", false],
  ])("warn of a PostgreSQL server on another machine without TLS: %s", async (place, isPlain) => {
    const { warnings } = await load(`${good}store: postgres://b@${place}\n`);
    const found = warnings
      .map(line)
      .filter((one) => /store: sends messages unencrypted .*sslmode=verify-full/.test(one));
    expect(found).toHaveLength(isPlain ? 1 : 0);
  });

  it("warn of a world-readable file", async () => {
    const path = join(folder, "open-pin");
    writeFileSync(path, "1");
    chmodSync(path, 0o644);
    const loaded = await load(withPin("${file:open-pin}"), env);
    expect(loaded.ok).toBe(true);
    expect(loaded.warnings.map(line)).toEqual([
      `9:10 channels.office.pin: comes from ${path}, which everybody on this machine can read (chmod 600 ${path})`,
    ]);
  });
});

describe("printing", () => {
  it("masks every secret and nothing else", async () => {
    const read = await config(
      `${good}    pin: \${env:PIN}\n    tokens: [ \${env:PIN} ]\nstore: postgres://b:\${env:PIN}@db.example.com/b\n`,
      {
        ...env,
        PIN: "s3cret",
      },
    );
    const printed = JSON.stringify(maskSecrets(read));
    expect(printed).not.toContain("s3cret");
    expect(printed).not.toContain("k-1");
    expect(printed).toContain("fax.example.com");
    expect(printed).toContain("db.example.com");
    expect([...secretValues(read)].sort()).toEqual(["k-1", "s3cret"]);
  });
});

describe("a file that cannot be read", () => {
  it("is one problem", async () => {
    const missing = await loadConfig(join(folder, "none.yaml"), { env: {}, adapters: async () => fax });
    expect(missing.ok ? [] : missing.problems.map(line)).toEqual([
      "0:0 : there is no such file (name another one with --config, or write one with the command init)",
    ]);
    const directory = await loadConfig(folder, { env: {}, adapters: async () => fax });
    expect(directory.ok ? [] : directory.problems.map(line)).toEqual([
      "0:0 : is a directory (name the YAML file in it with --config)",
    ]);
  });

  it("is refused with its line when it is not UTF-8", async () => {
    const file = join(folder, "latin1.yaml");
    for (const [encoded, at] of [
      [Buffer.from(`${good}# Grüße\n`, "latin1"), good.split("\n").length],
      [Buffer.from(`\ufeff${good}`, "utf16le"), 1],
    ] as const) {
      writeFileSync(file, encoded);
      const loaded = await loadConfig(file, { env, adapters: async () => fax });
      expect(loaded.ok ? [] : loaded.problems.map(line)).toEqual([
        `${at}:1 : is not UTF-8 text (save the file as UTF-8)`,
      ]);
    }
  });

  it("may begin with a byte order mark and have lines that end with CRLF", async () => {
    expect(await load(`\ufeff${good.replaceAll("\n", "\r\n")}`, env)).toMatchObject({ ok: true });
  });
});
