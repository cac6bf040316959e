// The file of agents: its records, and its error messages.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { newFolder } from "../support/resources.ts";

const smallest = "organization: { name: Acme }\nagents:\n  a: { key: some-key-1 }\n";

test("the smallest file has defaults, and ids that stay", () => {
  const [agent] = readAgents(smallest, "agents.yaml");
  expect(agent).toMatchObject({
    name: "a",
    publicName: "a",
    status: "active",
    skills: [],
    apiEnabled: true,
    rules: [],
    knowledge: [],
    model: null,
    organization: { name: "Acme", key: null },
  });
  expect(readAgents(smallest, "elsewhere.yaml")).toEqual([agent]);
  expect(readAgents(smallest.replace("Acme", "Other"), "agents.yaml")[0]?.id).not.toBe(agent?.id);
});

test("ids may be given", () => {
  const id = "5f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b";
  expect(readAgents(smallest.replace("key:", `id: ${id}, key:`), "agents.yaml")[0]?.id).toBe(id);
});

test("knowledge may come from adjacent files", () => {
  const folder = newFolder();
  writeFileSync(join(folder, "faq.md"), "# Returns\n\nWithin thirty days.\n");
  const given = "knowledge: [ one fact, { file: faq.md } ]";
  const text = smallest.replace("some-key-1", `some-key-1, ${given}`);
  expect(readAgents(text, join(folder, "agents.yaml"))[0]?.knowledge).toEqual([
    { title: "one fact", text: "one fact" },
    { title: "Returns", text: "Within thirty days." },
  ]);
  const missing = text.replace("faq.md", "none.md");
  expect(() => readAgents(missing, join(folder, "agents.yaml"))).toThrow(
    /agents\.yaml:3: agents\.a\.knowledge\[1\]\.file: reading it: ENOENT/,
  );
});

describe("mistakes", () => {
  test("are reported all at once, each with file, line and key", () => {
    const text = `organization:
  name: Acme
agents:
  a:
    key: short
    colour: blue
    status: asleep
    skills:
      email:
        responseDelaySeconds: 4000
    rules:
      - when: "/(/"
        answer: x
`;
    let message = "";
    try {
      readAgents(text, "agents.yaml");
    } catch (error) {
      message = (error as Error).message;
    }
    const lines = message.split("\n").toSorted();
    expect(lines).toEqual([
      expect.stringMatching(/^agents\.yaml:10: agents\.a\.skills\.email\.responseDelaySeconds: /),
      expect.stringMatching(/^agents\.yaml:12: agents\.a\.rules\[0\]\.when: Invalid regular expression/),
      expect.stringMatching(/^agents\.yaml:5: agents\.a\.key: a key has at least 8 characters/),
      expect.stringMatching(/^agents\.yaml:6: agents\.a\.colour: no such key; known here: id, public_name, key/),
      expect.stringMatching(/^agents\.yaml:7: agents\.a\.status: /),
      expect.stringMatching(/^agents\.yaml:9: agents\.a\.skills\.email\.email: /),
    ]);
  });

  test.each([
    ["", /^agents\.yaml:1: the file: must be a block of keys, not empty/],
    ["organization: {", /^agents\.yaml:1: /],
    ["organization: { name: A }\nagents: {}", /^agents\.yaml:2: agents: at least one agent/],
    // The list that other formats have is refused with the form of the map.
    [
      "organization: { name: A }\nagents:\n  - { name: a, key: some-key-1 }\n",
      /^agents\.yaml:2: agents: write a map .*: `support: \{ key: \.\.\. \}` instead of `- \{ name: support, /,
    ],
    [smallest.replace("key:", "name: b, key:"), /^agents\.yaml:3: agents\.a\.name: no such key/],
    [`${smallest}  a: { key: some-key-2 }`, /^agents\.yaml:4: Map keys must be unique/],
    [`${smallest}  b: { key: some-key-1 }`, /^agents\.yaml:4: agents\.b\.key: another agent has the same/],
    [smallest.replace("some-key-1", "some-key-1, knowledge: [{ title: x }]"), /knowledge\[0\]/],
    [smallest.replace("some-key-1", "some-key-1, model: { url: 'ftp://x', name: m }"), /model\.url/],
  ])("in %j", (text, expected) => {
    expect(() => readAgents(text, "agents.yaml")).toThrow(expected);
  });
});

test.each([
  ["an agent", "agents:\n  __proto__: { key: some-key-1 }", 3],
  ["a skill", "agents: { a: { key: some-key-1, skills: { __proto__: {} } } }", 2],
  ["a header", "agents: { a: { key: some-key-1, webhooks: [{ headers: { __proto__: x } }] } }", 2],
])("the name __proto__ of %s is refused with its line", (_, agents, line) => {
  expect(() => readAgents(`organization: { name: A }\n${agents}\n`, "a.yaml")).toThrow(
    `a.yaml:${line}: __proto__ is not a possible name`,
  );
});
