// Every finding of doctor is documented, and triggered by a test; the documentation names no other.

import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { catalogue, diagnosis } from "../../../src/commands/doctor/catalogue.ts";
import { root } from "../../support/machine/command.ts";

const ids = Object.keys(catalogue);
const page = readFileSync(`${root}docs/doctor.md`, "utf8");
const textOf = (pattern: string) =>
  globSync(pattern, { cwd: root })
    .map((path) => readFileSync(`${root}${path}`, "utf8"))
    .join("\n");

describe("the findings of doctor", () => {
  it("have a section each in docs/doctor.md, which starts with the severity", () => {
    const sections = [...page.matchAll(/^### (.+)\n\n(Error|Warning|Info)\b/gm)].map(([, id, severity]) => [
      id,
      severity?.toLowerCase(),
    ]);
    expect(Object.fromEntries(sections)).toEqual(catalogue);
    expect([...page.matchAll(/^### /gm)]).toHaveLength(ids.length);
    expect(diagnosis("file-mode", "", "", "").docs).toBe(`${root}docs/doctor.md#file-mode`);
  });

  it("are triggered by a test each", () => {
    const tests = textOf("test/commands/doctor/{machine,daemon,online,mailbox}.test.ts");
    expect(ids.filter((id) => !tests.includes(id))).toEqual([]);
  });

  it("of the built-in adapters are in the catalogue", () => {
    const named = [
      ...textOf("adapters/**/*.ts").matchAll(
        /\bid: "([a-z-]+)", severity: "(\w+)"|\bid: "([a-z-]+)",\n\s+severity: "(\w+)"/g,
      ),
    ];
    expect(named.length).toBeGreaterThan(5);
    for (const [, id = "", severity, other = id, otherSeverity = severity] of named)
      expect([other, catalogue[other as keyof typeof catalogue]]).toEqual([other, otherSeverity]);
  });
});
