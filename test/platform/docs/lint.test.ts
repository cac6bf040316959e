// The description judged by a linter that knows nothing of how it was made: every rule it has, but for those that are
// named here with the reason why not.

import { createConfig, lintFromString } from "@redocly/openapi-core";
import { expect, test } from "vitest";
import { fetchFresh, startTestPlatform } from "../../support/platform/platform.ts";

const off: { readonly [rule: string]: string } = {
  "info-contact": "whoever runs the platform is to be asked, not whoever wrote it",
  "no-http-verbs-in-paths": "the interface names its paths: /delete, /delete-from-vector-store",
  "path-segment-plural": "the interface names its paths: /external, /start, /mode",
  "operation-4xx-problem-details-rfc7807": "the interface has an error form of its own",
  "operation-description": "a summary that says it all is not said twice",
  "path-http-verbs-order": "operations come in the order in which they are understood",
  "tags-alphabetical": "tags come in the order in which they are understood",
  "request-mime-type": "it allows JSON alone; documents come as forms",
  "response-mime-type": "it allows JSON alone; a document's content is its bytes",
  "required-string-property-missing-min-length": "what we serve may be an empty string",
  "scalar-property-missing-example": "records have examples as a whole",
};

/** What a rule finds and is right to find, but may stay. */
const excused = [
  {
    rule: "no-ambiguous-paths",
    at: "#/paths/~1external~1agents~1webhooks~1{id}",
    // The first is the interface's and has only a GET, the second only a DELETE.
    says: "`/external/agents/{id}/users` and `/external/agents/webhooks/{id}`",
  },
];

// The defects are planted wherever they belong.
// oxlint-disable-next-line typescript/no-explicit-any
type Description = any;

async function description(): Promise<Description> {
  const { platform } = await startTestPlatform();
  const answered = await fetchFresh(`${platform.url}/api/external/docs/openapi.json`);
  return answered.json();
}

async function lint(document: Description) {
  const rules = Object.fromEntries(Object.keys(off).map((rule) => [rule, "off" as const]));
  const config = await createConfig({ extends: ["all"], rules });
  const found = await lintFromString({
    source: JSON.stringify(document),
    absoluteRef: "/openapi.json",
    config,
  });
  return found
    .map(({ ruleId, message, location }) => ({ rule: ruleId, at: location[0]?.pointer, message }))
    .filter(
      ({ rule, at, message }) =>
        !excused.some((each) => each.rule === rule && each.at === at && message.includes(each.says)),
    );
}

test("the description has no flaw that the linter knows", async () => {
  expect(await lint(await description())).toEqual([]);
});

test("no rule is switched off, and nothing excused, for nothing", async () => {
  const config = await createConfig({ extends: ["all"] });
  const source = JSON.stringify(await description());
  const found = await lintFromString({ source, absoluteRef: "/openapi.json", config });
  const expected = [...Object.keys(off), ...excused.map(({ rule }) => rule)];
  expect([...new Set(found.map(({ ruleId }) => ruleId))].toSorted()).toEqual(expected.toSorted());
});

const start = (document: Description) => document.paths["/external/conversations/start"].post;

const defects: { readonly [rule: string]: (document: Description) => void } = {
  struct: (document) => delete document.info.title,
  "operation-summary": (document) => delete start(document).summary,
  "operation-operationId-unique": (document) => (start(document).operationId = "getAgent"),
  "operation-tag-defined": (document) => (start(document).tags = ["nothing"]),
  "security-defined": (document) => (start(document).security = [{ nobody: [] }]),
  "no-unresolved-refs": (document) => delete document.components.schemas.Message,
  "no-unused-components": (document) => (document.components.schemas.Forgotten = { type: "object" }),
  "path-parameters-defined": (document) => (document.paths["/external/users/{id}"].get.parameters = []),
  "no-invalid-media-type-examples": (document) =>
    (document.paths["/external/users/{id}"].get.responses[200].content["application/json"].example.id = 7),
  "no-invalid-schema-examples": (document) => delete document.components.schemas.WebhookDelivery.examples[0].user,
  "operation-4xx-response": (document) => (start(document).responses = { 201: { description: "Done" } }),
};

test("the linter finds every planted defect", async () => {
  const document = await description();
  for (const plant of Object.values(defects)) plant(document);
  const found = (await lint(document)).map(({ rule }) => rule);
  expect(Object.keys(defects).filter((rule) => !found.includes(rule))).toEqual([]);
});
