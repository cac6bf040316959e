// How the embedded agent answers: rules, knowledge, the honest default, and a model.

import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { answerByRule, compileRules, passagesOf, ruleProblem } from "../../../src/platform/brain/knowledge.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { hello, keys, saying, startModel, startTestPlatform, startWith } from "../../support/platform/platform.ts";

async function asking() {
  const fixture = await startTestPlatform();
  const id = await fixture.open();
  const say = async (message: string) => (await fixture.call("POST", `conversations/${id}/messages`, { message })).body;
  return { ...fixture, say };
}

describe("rules", () => {
  const matches = (when: string, text: string) => answerByRule(compileRules([{ when, answer: "yes" }]), text) === "yes";

  test.each([
    ["refund|money back", "Can I have a REFUND?", true],
    ["refund|money back", "I want my money\n  back.", true],
    ["refund|money back", "refundable?", false],
    ["c++", "Do you like C++?", true],
    ["größe", "Welche GRÖSSE? Die Größe!", true],
    ["/order\\s+#?\\d+/", "my Order #12", true],
    ["/order\\s+#?\\d+/", "my order", false],
  ])("%s in %j: %s", (when, text, expected) => {
    expect(matches(when, text)).toBe(expected);
  });

  test.each([
    ["|", "no words"],
    ["/(/", "Invalid regular expression"],
    ["/(a+)+b/", "for ever"],
    ["/a*/", "matches everything"],
    [`/${"a".repeat(201)}/`, "longer than"],
  ])("%s is refused", (when, why) => {
    expect(ruleProblem(when)).toContain(why);
  });

  test("the first that matches answers, before knowledge", async () => {
    const { say } = await asking();
    expect((await say("A refund for shipping to Norway")).message).toBe("Refunds take five days.");
  });
});

describe("knowledge", () => {
  test("answers with the passage and its title", async () => {
    const { say } = await asking();
    const { message, fullAIResponse } = await say("How long do parcels take to arrive in Norway?");
    expect(message).toContain("Parcels to Norway take four days and cost twelve euros.");
    expect(message).toContain("Source: Shipping");
    expect(fullAIResponse.fileCitations).toEqual([{ fileId: expect.any(String), filename: "Shipping" }]);
  });

  test("understands other forms of a word", async () => {
    const { say } = await asking();
    expect((await say("When does the shop open on a weekday?")).message).toContain("Source: Opening hours");
  });

  test.each([
    "What is the meaning of life?",
    "Which parcels did Napoleon send to Josephine?",
    "",
    "?!",
    '"NEAR(" OR * ^',
  ])("does not pretend to know: %j", async (question) => {
    const { say } = await asking();
    expect((await say(question)).message).toBe("I do not know that.");
  });

  test("of one agent is not another's", async () => {
    const { call, open } = await startTestPlatform();
    const id = await open("jo@example.test", keys.other);
    const message = "How long do parcels take to Norway?";
    const { body } = await call("POST", `conversations/${id}/messages`, { message }, keys.other);
    expect(body.message).toBe("I am sorry, I do not know the answer to that.");
  });

  test("is cut by headings and paragraphs into readable passages", () => {
    const long = "word ".repeat(600);
    const passages = passagesOf("Guide", `Intro.\n\n# Returns\n\nSend it back.\n\n${long}\n\n## Empty\n`, null);
    expect(passages[0]).toEqual({ title: "Guide", text: "Intro." });
    expect(passages[1]).toEqual({ title: "Guide: Returns", text: "Send it back." });
    expect(passages.slice(2).map(({ title }) => title)).toEqual(Array(3).fill("Guide: Returns"));
    for (const { text } of passages) expect(text.length).toBeLessThanOrEqual(1_200);
    expect(
      passages
        .slice(2)
        .map(({ text }) => text)
        .join(" ")
        .split(" "),
    ).toHaveLength(600);
    expect(passagesOf(undefined, "One two three.", null)).toEqual([
      { title: "One two three.", text: "One two three." },
    ]);
  });
});

describe("a model", () => {
  async function withModel(timeout = 5, more = "") {
    const model = await startModel();
    const text = `
organization: { name: Acme }
agents:
  clever:
    key: clever-key-1
    instructions: Be kind.
    rules: [{ when: "password", answer: "Never send a password." }]
    knowledge: [{ title: Shipping, text: "Parcels to Norway take four days." }]
    model: { url: "${model.url}", key: model-key, name: tiny, temperature: 0.5, timeout: ${timeout}${more} }
`;
    const fixture = await startWith({ agents: readAgents(text, "a.yaml") });
    const at = `conversations/${await fixture.open("jo@example.test", "clever-key-1")}`;
    const say = (message: string, context?: string) =>
      fixture.call("POST", `${at}/messages`, { message, context }, "clever-key-1");
    const messages = async () => (await fixture.call("GET", `${at}/messages`, undefined, "clever-key-1")).body.messages;
    return { ...fixture, at, model, say, messages };
  }

  test("is asked with instructions, knowledge, context and history", async () => {
    const { model, say } = await withModel();
    expect((await say("Hi", "It is late.")).body).toMatchObject({ message: "Hello from the model." });
    await say("Parcels to Norway?");
    const [first, second] = model.asked;
    expect(first).toMatchObject({
      path: "/v1/chat/completions",
      authorization: "Bearer model-key",
      model: "tiny",
      temperature: 0.5,
    });
    expect(first?.messages).toEqual([
      { role: "system", content: "Be kind.\n\nIt is late." },
      { role: "assistant", content: "Thank you for writing." },
      { role: "user", content: "Hi" },
    ]);
    expect(second?.messages[0]?.content).toContain('From "Shipping":\nParcels to Norway take four days.');
    expect(second?.messages.slice(1).map(({ content }) => content)).toEqual([
      "Thank you for writing.",
      "Hi",
      "Hello from the model.",
      "Parcels to Norway?",
    ]);
  });

  test("is not asked where a rule answers", async () => {
    const { model, say } = await withModel();
    expect((await say("my password is x")).body.message).toBe("Never send a password.");
    expect(model.asked).toEqual([]);
  });

  const page = (response: ServerResponse) =>
    void response.writeHead(200, { "content-type": "text/html" }).end("<html>");

  test.each([
    ["refuses the key", 503, "HTTP 401 (check model.key)", saying("no", 401)],
    ["has no such model", 503, "HTTP 404 (check model.url and model.name)", saying("no", 404)],
    ["is limited", 503, "HTTP 429 (check the rate limit", saying("no", 429)],
    ["fails", 503, "HTTP 500", saying("no", 500)],
    ["cuts the line", 503, "the connection failed", (response: { destroy(): void }) => response.destroy()],
    ["refuses the question", 500, "HTTP 400 (check", saying("no", 400)],
    ["says nothing", 500, "its answer has no text", saying("")],
    ["says something else", 500, "its answer has no text", saying({ text: "hi" })],
    ["says too much", 500, "characters (instruct the agent to answer briefly)", saying("much ".repeat(300_000))],
    ["is a web site", 500, "it answered with a page of HTML (check model.url", page],
    ["says no JSON", 500, "it cut its answer off", (response: { end(text: string): void }) => response.end("<html>")],
  ])("that %s is a %d that leaves nothing behind", async (_name, status, reason, fault) => {
    const { model, say, messages, errors } = await withModel();
    model.say(fault);
    const name = status === 503 ? "MODEL_UNAVAILABLE_ERROR" : "MODEL_ERROR";
    const message = expect.stringContaining(reason);
    const refused = await say("Hi");
    expect(refused).toMatchObject({ status, body: { status, name, message } });
    // Names what an operator has to correct, unless the failure may pass.
    const fix = /^HTTP 40[14] \((.*)\)$/.exec(reason)?.[1];
    const details = (refused.body as { details?: unknown }).details;
    expect(details).toEqual(
      fix === undefined ? (status === 503 ? undefined : details) : [{ path: "model", message: fix }],
    );
    expect(await messages()).toEqual([]);
    expect(errors).toHaveLength(1);
    model.say(saying("Back again."));
    expect((await say("Hi")).body).toMatchObject({ message: "Back again." });
    expect(await messages()).toHaveLength(2);
  });

  test("without a waiting client is cancelled, and the question removed", async () => {
    const { model, platform, at, messages, errors } = await withModel(600);
    const cut = new Promise<void>((resolve) => model.say((response) => response.on("close", resolve)));
    const caller = new AbortController();
    const asked = fetch(`${platform.url}/external/${at}/messages`, {
      method: "POST",
      headers: { "agent-secret-key": "clever-key-1" },
      body: JSON.stringify({ message: "Hi" }),
      signal: caller.signal,
    });
    await expect.poll(() => model.asked.length).toBe(1);
    expect(await messages()).toMatchObject([{ senderRole: "conversation_user", message: "Hi" }]);
    caller.abort();
    await expect(asked).rejects.toThrow();
    await cut;
    await expect.poll(messages).toEqual([]);
    expect(errors).toEqual([]);
  });

  describe("with a schema", () => {
    const schema = ", output_json_schema: { type: object, required: [mood], properties: { mood: { enum: [good] } } }";

    test("is asked once more when its answer is invalid, with the reason", async () => {
      const { model, say } = await withModel(600, schema);
      const answers = ['{"mood":"bad"}', '{"mood":"good"}'];
      model.say((response) => saying(answers[model.asked.length - 1])(response));
      expect((await say("Hi")).body.message).toBe('{"mood":"good"}');
      expect(model.asked).toHaveLength(2);
      expect(model.asked[0]).toMatchObject({
        response_format: { type: "json_schema", json_schema: { schema: { required: ["mood"] } } },
      });
      expect(model.asked[1]?.messages.slice(-3)).toEqual([
        { role: "user", content: "Hi" },
        { role: "assistant", content: '{"mood":"bad"}' },
        {
          role: "user",
          content: expect.stringContaining("answer/mood must be equal to one of the allowed values"),
        },
      ]);
    });

    test.each(["Good.", "{}", '{"mood":7}', '["good"]', '{"mood":"good"'])(
      "fails honestly when it says %j twice, and leaves nothing behind",
      async (answer) => {
        const { model, say, messages, errors } = await withModel(600, schema);
        model.say(saying(answer));
        expect((await say("Hi")).status).toBe(500);
        expect(model.asked).toHaveLength(2);
        expect(await messages()).toEqual([]);
        expect(errors).toHaveLength(1);
        expect(String((errors[0] as { error: Error }).error)).toContain("does not fit the schema");
      },
    );

    test("may be given as a string, by an older draft, or kept and not used", async () => {
      const text = '{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"const":1}]}';
      const { model, call, say } = await withModel(600, `, output_json_schema: '${text}'`);
      model.say(saying("[1]"));
      expect((await say("Hi")).body.message).toBe("[1]");
      const shown = async () => (await call("GET", "agents/by-api-key", undefined, "clever-key-1")).body.aiConfig;
      expect(await shown()).toMatchObject({ isOutputJsonSchemaEnabled: true, outputJsonSchema: text });
      const kept = await withModel(600, `${schema}, output_json_schema_enabled: false`);
      expect((await kept.say("Hi")).body.message).toBe("Hello from the model.");
      expect(kept.model.asked[0]).not.toHaveProperty("response_format");
    });
  });

  test.each([
    ["name: family-5.6-luna", "family-5.6-luna"],
    ["name: o3-mini", "o3-mini"],
    ["name: llama", "<model_family>-4.1"],
    ["name: llama, listed_as: <model_family>-5-mini", "<model_family>-5-mini"],
  ])("with %s is shown as %s", async (block, shown) => {
    const text = `organization: { name: A }\nagents: { a: { key: some-key-1, model: { url: "http://127.0.0.1:9/v1", ${block} } } }`;
    const fixture = await startWith({ agents: readAgents(text, "a.yaml") });
    const { body } = await fixture.call("GET", "agents/by-api-key", undefined, "some-key-1");
    expect(body.aiConfig.model).toBe(shown);
  });

  test("that hangs is a 503 after its time-out, and leaves nothing behind", async () => {
    const { model, say, messages } = await withModel(0.3);
    model.say(() => {});
    expect((await say("Hi")).status).toBe(503);
    expect(await messages()).toEqual([]);
  });

  test("that streams is answered from, and its tokens are counted", async () => {
    const { model, call, say } = await withModel(600);
    model.say((response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(hello));
    expect((await say("Hi")).body.message).toBe("Hello.");
    const { body } = await call("GET", "agents/statistic", undefined, "clever-key-1");
    expect(body).toMatchObject({ tokensUsed: 21 });
  });
});
