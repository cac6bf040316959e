// The state diagrams in src/domain/README.md are generated from src/domain/states.ts.

import { readFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { initialStates, machines } from "../../src/domain/states.ts";

const readme = new URL("../../src/domain/README.md", import.meta.url);
const [open, close] = ["<!-- states -->", "<!-- /states -->"];

type Machine = Readonly<Record<string, readonly string[]>>;

function diagram(name: keyof typeof machines, machine: Machine): string {
  const first = initialStates[name].map((state) => `  [*] --> ${state}`);
  const arrows = Object.entries(machine).flatMap(([from, followers]) => followers.map((to) => `  ${from} --> ${to}`));
  return [`**${name}**`, "", "```mermaid", "stateDiagram-v2", ...first, ...arrows, "```"].join("\n");
}

function generated(): string {
  return Object.entries<Machine>(machines)
    .map(([table, machine]) => diagram(table as keyof typeof machines, machine))
    .join("\n\n");
}

it("src/domain/README.md shows the states as they are", () => {
  const text = readFileSync(readme, "utf8");
  const [before = "", rest = ""] = text.split(open);
  const after = rest.split(close)[1] ?? "";
  const wanted = `${before}${open}\n${generated()}\n${close}${after}`;
  if (process.env["UPDATE_DOCS"] === "1") writeFileSync(readme, wanted);
  expect(readFileSync(readme, "utf8")).toBe(wanted);
});
