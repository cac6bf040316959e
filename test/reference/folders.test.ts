// The README of every folder below src and adapters lists the folder's files with the first sentence of each.
// `UPDATE_DOCS=1 npx vitest run test/reference` rewrites the lists.

import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folders = ["src", "adapters"].flatMap((top) =>
  readdirSync(`${root}${top}`, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `${top}/${entry.name}`),
);
const [open, close] = ["<!-- files -->", "<!-- /files -->"];

/** The first sentence of the first comment, which is what the file is for. */
function purposeOf(text: string): string {
  const comment = /^(?:\/\/.*\n)+|^\/\*\*[^]*?\*\//m.exec(text)?.[0] ?? "";
  const words = comment
    .replace(/^\s*(?:\/\/|\/\*\*|\*\/|\*)/gm, "")
    .replace(/\s*\*\/$/, "")
    .replace(/\s+/g, " ")
    .trim();
  return (/^.+?[.:](?= [-A-Z`]|$)/.exec(words)?.[0] ?? words).replace(/[.:]$/, "");
}

function listOf(folder: string): string {
  const rows = globSync("**/*.{ts,css,js}", { cwd: `${root}${folder}` })
    .sort((a, b) => a.split("/").length - b.split("/").length || (a < b ? -1 : 1))
    .map((path) => `| \`${path}\` | ${purposeOf(readFileSync(`${root}${folder}/${path}`, "utf8"))} |`);
  return ["| file | content |", "| --- | --- |", ...rows].join("\n");
}

describe("folders", () => {
  it.each(folders)("%s/README.md lists its files", (folder) => {
    const path = `${root}${folder}/README.md`;
    expect(existsSync(path), `${folder} has no README.md`).toBe(true);
    const text = readFileSync(path, "utf8");
    const [before = "", rest] = text.split(open);
    expect(rest, `${folder}/README.md has no line ${open}`).toBeDefined();
    const wanted = `${before}${open}\n${listOf(folder)}\n${close}${rest?.split(close)[1] ?? "\n"}`;
    if (process.env["UPDATE_DOCS"] === "1") writeFileSync(path, wanted);
    expect(readFileSync(path, "utf8")).toBe(wanted);
  });

  it("uses the first sentence of a comment", () => {
    expect(purposeOf("// Reads a. Then\n// writes.\nimport x;\n")).toBe("Reads a");
    expect(purposeOf('import x;\n\n/**\n * Reads\n * a.b: `c` d.\n */\nexport const y = "";\n')).toBe("Reads a.b");
    expect(purposeOf("export {};\n")).toBe("");
  });
});
