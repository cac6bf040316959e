// Documents name only files and identifiers that exist, and comments only files near them.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import smsAdapter from "../adapters/sms/index.ts";
import voiceAdapter from "../adapters/voice/index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const documents = globSync(
  ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "{src,adapters,test}/**/README.md"],
  { cwd: root },
);
const textOf = (...patterns: string[]): string =>
  globSync(patterns, { cwd: root })
    .map((path) => readFileSync(join(root, path), "utf8"))
    .join("\n");
const words = new Set(textOf("{src,adapters,test}/**/*.{ts,sql}").match(/\w+/g));
const program = textOf("{src,adapters}/**/*.ts", "bin/*.cjs");

/** Code spans outside of code blocks. */
const spansOf = (text: string): string[] =>
  [...text.replace(/^```[^]*?^```/gm, "").matchAll(/`([^`\n]+)`/g)].map(([, span = ""]) => span);

const isPath = (span: string): boolean => /^[\w@.-]+(\/[\w@.-]+)*\/?$/.test(span) && span.includes("/");
const isIdentifier = (span: string): boolean => /^[A-Za-z_]\w*(\.\w+)*$/.test(span) && /[A-Z_.]/.test(span);

/** The spans that name a missing file, or an identifier that no source contains. */
function missing(text: string, folder: string): string[] {
  const places = [root, join(root, "src"), join(root, "adapters"), join(root, folder)];
  const exists = (path: string) => places.some((place) => existsSync(join(place, path)));
  return spansOf(text).filter((span) => {
    if (/^(bridgehead|\/)/.test(span)) return false; // exports of the package, and routes
    if (isPath(span)) return !exists(span);
    if (/^\S+\.(ts|sql|md|yaml)$/.test(span)) return !exists(span) && !/^(stage|rows|decide)\.ts$/.test(span);
    return isIdentifier(span) && span.split(".").some((word) => !words.has(word));
  });
}

describe("documents", () => {
  it.each(documents)("%s names only files and identifiers that exist", (path) => {
    expect(missing(readFileSync(join(root, path), "utf8"), dirname(path))).toEqual([]);
  });

  it("finds names that do not exist", () => {
    const text =
      "`engine/absent.ts`, `rows.ts`, `absent.ts`, `Query.touched`, `Query.absent`, `events`\n```\n`x/y.ts`\n```";
    expect(missing(text, "src")).toEqual(["engine/absent.ts", "absent.ts"]);
    const name = ["no", "Such", "Name"].join("");
    expect(missing(`\`${name}\``, "src")).toEqual([name]);
  });
});

/** The files without a folder that the comments name, and that are neither in its folder, one above it, nor one directly
 *  below it. */
function farFrom(path: string, text: string): string[] {
  const comments = text.match(/^ *(?:\/\/|\/?\*).*$/gm)?.join("\n") ?? "";
  const [folder, ...above] = dirname(path)
    .split("/")
    .map((_, at, all) => all.slice(0, all.length - at).join("/"));
  const places = [...above, `${folder}/{,*/}`];
  const names = comments.match(/(?<![\w/.@-])[\w-]+(?:\.\w+)*\.ts\b/g) ?? [];
  return names.filter(
    (name) =>
      globSync(
        places.map((place) => join(place, name)),
        { cwd: root },
      ).length === 0,
  );
}

describe("comments", () => {
  it.each(globSync("{src,adapters}/**/*.ts", { cwd: root }))("of %s name only files near it", (path) => {
    expect(farFrom(path, readFileSync(join(root, path), "utf8"))).toEqual([]);
  });

  it("finds names of absent files", () => {
    const text = "// See app.ts, commits.ts and\n/** `absent.ts` */";
    expect(farFrom("src/store/sqlite.ts", text)).toEqual(["absent.ts"]);
    expect(farFrom("adapters/sms/provider.ts", "// `providers.ts`")).toEqual(["providers.ts"]);
  });
});

/** The messages of the troubleshooting page: its headings in code. */
const messagesIn = (text: string): string[] => [...text.matchAll(/^### `(.+)`$/gm)].map(([, one = ""]) => one);
/** Messages, one of whose parts between ellipses the program does not contain. */
const unknownMessages = (text: string): string[] =>
  messagesIn(text).filter((message) =>
    message
      .split("…")
      .map((part) => part.trim())
      .some((part) => !program.includes(part)),
  );

describe("the troubleshooting page", () => {
  it("explains only messages that the program prints", () => {
    const text = readFileSync(join(root, "docs/troubleshooting.md"), "utf8");
    expect(messagesIn(text).length).toBeGreaterThan(30);
    expect(unknownMessages(text)).toEqual([]);
    const absent = ["### `no such", "message anywhere`"].join(" ");
    expect(unknownMessages(absent)).toHaveLength(1);
  });
});

const inputOf = (config: z.ZodType) =>
  z.toJSONSchema(config, { io: "input", unrepresentable: "any" }).properties as {
    readonly [key: string]: { readonly enum?: readonly string[] };
  };

describe("the page of phone providers", () => {
  it("has a row for each SMS provider and each voice dialect", () => {
    const text = readFileSync(join(root, "docs/phone-providers.md"), "utf8");
    const rows = [...text.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, name]) => name);
    const { provider } = inputOf(smsAdapter.config);
    const { dialect } = inputOf(voiceAdapter.config);
    const names = [...(provider?.enum ?? []), ...(dialect?.enum ?? [])];
    expect(names.length).toBeGreaterThan(7);
    expect(rows).toEqual(expect.arrayContaining(names));
  });
});
