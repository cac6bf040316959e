// bridgehead support-bundle: what a maintainer needs to help, in one file, without secrets, addresses and texts of
// messages. Everything that enters the file passes `Redactor`; free texts of servers are reduced to their codes.

import { existsSync, writeFileSync } from "node:fs";
import { arch, cpus, platform, release, totalmem } from "node:os";
import { resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { loadAdapter } from "../../channels/loader.ts";
import { type Config, loadConfig, maskSecrets, secretValues } from "../../config/index.ts";
import { systemClock } from "../../ops/clock.ts";
import { migrations } from "../../store/migrate.ts";
import { get } from "../http.ts";
import { credentialsFor, exitCodes, fail, type Io, packageVersion } from "../io.ts";
import { adminUrl } from "./daemon.ts";
import { bundleRows } from "./rows.ts";
import { type DoctorOptions, diagnose } from "./run.ts";
import { addressesOf, useStored } from "./stored.ts";

interface BundleEntry {
  readonly name: string;
  readonly what: string;
  readonly text: string;
}

export async function supportBundle(options: DoctorOptions, io: Io): Promise<number> {
  const stamp = new Date(systemClock.now()).toISOString().slice(0, 19).replace(/[-:]/g, "");
  const file = resolve(io.cwd, options.file ?? `bridgehead-support-${stamp}.tar.gz`);
  if (existsSync(file)) fail(`${file} exists; name another file`);
  const path = resolve(io.cwd, options.config);
  const loaded = await loadConfig(path, { env: io.env, adapters: loadAdapter, ...credentialsFor(path, io.env) });
  const config = loaded.ok ? loaded.config : null;
  const redactor = new Redactor(config, io.env);
  const entries = (await collect(options, config, io)).map((entry) => ({
    ...entry,
    text: redactor.redact(entry.text),
  }));
  io.out("contents, without secrets, addresses and texts of messages:");
  for (const { name, what, text } of entries) io.out(`  ${name.padEnd(18)} ${what} (${Buffer.byteLength(text)} bytes)`);
  writeFileSync(file, gzipSync(tar(entries, systemClock.now())), { flag: "wx", mode: 0o600, flush: true });
  io.out(`written to ${file} (mode 0600); look at it before you send it: tar -xzOf ${file} | less`);
  return exitCodes.ok;
}

async function collect(options: DoctorOptions, config: Config | null, io: Io): Promise<BundleEntry[]> {
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  const findings = await diagnose(options, io);
  const admin = config === null ? null : adminUrl(config);
  const ask = async (path: string) =>
    admin === null
      ? ""
      : await get(new URL(path, admin), io).then(
          ({ body }) => body,
          () => "",
        );
  const ready = await ask("/readyz");
  const stored =
    config === null
      ? null
      : await useStored(config, io, (db) => db.read((q) => bundleRows(q, codesIn))).catch(() => null);
  return [
    {
      name: "versions.json",
      what: "versions of Bridgehead, Node.js, SQLite and the system",
      text: json(versions()),
    },
    {
      name: "config.json",
      what: "the configuration as it is understood; texts are left out",
      text: json(config === null ? "the configuration is invalid, see doctor.json" : structure(maskSecrets(config))),
    },
    {
      name: "doctor.json",
      what: "findings of the command doctor; causes are reduced to codes",
      text: json(
        findings.map(({ id, severity, place, cause }) => ({
          id,
          severity,
          place: place.split(" ")[0],
          codes: codesIn(cause),
        })),
      ),
    },
    {
      name: "readyz.json",
      what: "states of the running daemon",
      text: json(ready === "" ? null : parsed(ready)),
    },
    { name: "metrics.txt", what: "metrics of the running daemon", text: await ask("/metrics") },
    {
      name: "store.json",
      what: "schema, counts of rows, states, and recent failures as codes",
      text: json(stored),
    },
  ];
}

/** Another program may answer at the port. */
function parsed(text: string): unknown {
  try {
    return structure(JSON.parse(text));
  } catch {
    return "[not JSON]";
  }
}

const versions = () => ({
  bridgehead: packageVersion(),
  node: process.versions.node,
  libraries: process.versions,
  schema: migrations.length,
  system: { platform: platform(), release: release(), arch: arch(), cpus: cpus().length, memory: totalmem() },
});

/** Returns the status codes in a server's response, such as `550`, `5.1.1` and `ECONNREFUSED`. */
function codesIn(text: string): string[] {
  const found = text
    .slice(0, 4000)
    .match(/\b[2-5]\d\d\b|\b[245]\.\d{1,3}\.\d{1,3}\b|\bE[A-Z]{4,20}\b|\bSQLITE_[A-Z]+\b/g);
  return [...new Set(found ?? [])].slice(0, 10);
}

/** A single word: an id, a state, a host name. */
const plainWords = /^[a-z0-9_.*/-]{1,40}$/i;

/** Keeps keys, numbers and single words. Longer texts are replaced by their length: templates, phrases, reasons. */
function structure(value: unknown): unknown {
  if (typeof value === "string") {
    if (plainWords.test(value) || /^\d{4}-\d\d-\d\dT/.test(value)) return value;
    const url = URL.parse(value);
    if (url !== null && /^(?:https?|postgres(?:ql)?):$/.test(url.protocol)) return `${url.protocol}//${url.host}/`;
    const codes = codesIn(value);
    return `[text, ${value.length} characters${codes.length > 0 ? `: ${codes.join(" ")}` : ""}]`;
  }
  if (Array.isArray(value)) return value.map(structure);
  if (value instanceof Map)
    return Object.fromEntries([...value].map(([key, inner]) => [String(key), structure(inner)]));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, structure(inner)]));
}

/** Removes what `structure` may have kept: known secrets and addresses in usual encodings, and everything that looks like
 *  an address or a phone number. */
class Redactor {
  readonly #known: readonly string[];

  constructor(config: Config | null, env: Io["env"]) {
    const secrets = config === null ? [] : secretValues(config);
    const own = config === null ? [] : config.channels.flatMap((channel) => addressesOf(channel));
    const users = config === null ? [] : config.channels.flatMap(({ settings }) => usersIn(settings));
    const people = [...(config?.escalation?.responders.values() ?? [])].flatMap(({ name, email, sms }) => [
      name,
      email,
      sms,
    ]);
    const environment = Object.entries(env).flatMap(([name, value]) =>
      /key|token|secret|password|credential/i.test(name) && value !== undefined ? [value] : [],
    );
    const all = [...secrets, ...own, ...users, ...people, ...environment].filter(
      (one): one is string => one !== null && one.length >= 3,
    );
    this.#known = [...new Set(all.flatMap(encodings))].sort((a, b) => b.length - a.length);
  }

  redact(text: string): string {
    let result = text;
    for (const known of this.#known) result = result.replaceAll(known, "[redacted]");
    return result.replace(/[^\s"<>@]{1,256}@[\w.-]{1,256}/g, "[address]").replace(/\+\d[\d ()-]{5,20}\d/g, "[number]");
  }
}

/** Login names at servers, such as `imap.user`. */
function usersIn(value: unknown): string[] {
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    typeof inner === "string" && /^user(?:name)?$/i.test(key) ? [inner] : usersIn(inner),
  );
}

function encodings(text: string): string[] {
  const bytes = Buffer.from(text);
  const json = JSON.stringify(text).slice(1, -1);
  return [
    text,
    json,
    encodeURIComponent(text),
    bytes.toString("base64"),
    bytes.toString("base64url"),
    bytes.toString("hex"),
  ];
}

/** A tar archive in the ustar format (POSIX.1-1988). Names are shorter than 100 bytes. */
function tar(entries: readonly BundleEntry[], now: number): Buffer {
  const parts = entries.flatMap(({ name, text }) => {
    const bytes = Buffer.from(text);
    const header = Buffer.alloc(512);
    const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, "0")}\0`;
    header.write(`bridgehead-support/${name}`, 0);
    header.write(octal(0o600, 8), 100);
    header.write(octal(0, 8), 108);
    header.write(octal(0, 8), 116);
    header.write(octal(bytes.length, 12), 124);
    header.write(octal(Math.floor(now / 1000), 12), 136);
    header.write("        0", 148);
    header.write("ustar\u000000", 257);
    const sum = header.reduce((all, byte) => all + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}
