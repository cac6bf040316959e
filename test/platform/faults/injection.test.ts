// What is given as a name, a header or an id, and would like to be a line of HTTP, a path or a command.

import { describe, expect, test } from "vitest";
import { readAgents } from "../../../src/platform/index.ts";
import {
  bodies,
  credential,
  formProblem,
  furnish,
  type Grounds,
  keys,
  namedBy,
  operationNames,
  operations,
  pathOf,
  rawConnection,
  startGrounds,
  type Things,
} from "../../support/platform/tenants.ts";

const headers = credential("agent", "own");

describe("a webhook's own header", () => {
  const wrong: [name: string, value: string][] = [
    ["x-token", "a\r\nx-injected: 1"],
    ["x-token", "a\nb"],
    ["x-token", "a\rb"],
    ["x-token", "a\u0000b"],
    ["x-token", "ключ"],
    ["x-to ken", "a"],
    ["x-token:", "a"],
    ["x-token\r\nx-injected", "1"],
    ["", "a"],
    ["x-töken", "a"],
    ["Host", "inside.test"],
    ["content-length", "0"],
    ["Transfer-Encoding", "chunked"],
    ["keep-alive", "timeout=1"],
    ["connection", "upgrade"],
    ["webhook-signature", "v1,forged"],
    ["Webhook-Id", "forged"],
  ];

  test.each(wrong)("%j: %j is not registered", async (name, value) => {
    const { ask } = await startGrounds();
    const body = { ...bodies.registerWebhook({} as Things), headers: { [name]: value } };
    const path = operations.registerWebhook.path;
    const answered = await ask({ method: "POST", path, headers, body });
    expect([answered.status, formProblem(answered)]).toEqual([400, null]);
    expect(JSON.parse(answered.text)).toMatchObject({ details: [{ path: `headers.${name}` }] });
    const listed = await ask({ method: "GET", path, headers });
    expect(JSON.parse(listed.text)).toMatchObject({ totalItems: 0 });
  });

  const defined = (skills: object, webhooks: object[]) =>
    JSON.stringify({
      organization: { name: "A" },
      agents: { a: { key: "some-agent-key", skills, webhooks } },
    });

  test.each(wrong)("%j: %j is not defined either", (name, value) => {
    const own = { [name]: value };
    const webhook = { title: "W", url: "https://example.test/", trigger: "manual", headers: own };
    expect(() => readAgents(defined({}, [webhook]), "agents.yaml")).toThrow(/headers.*(not a header|not yours)/s);
    const recipients = [{ channel: "webhook", value: "https://example.test/", headers: own }];
    const escalation = {
      escalations: [
        { topic: "T", escalationPrompt: "P", autoChangeConversationMode: false, response: "R", recipients },
      ],
    };
    expect(() => readAgents(defined({ escalation }, []), "agents.yaml")).toThrow(/headers.*(not a header|not yours)/s);
  });

  test("of a usual kind is defined", () => {
    const webhook = {
      title: "W",
      url: "https://example.test/",
      trigger: "manual",
      headers: { "X-Token": "a b" },
    };
    expect(readAgents(defined({}, [webhook]), "agents.yaml")).toHaveLength(1);
  });
});

const names: [given: string, kept: string][] = [
  ["lamp.txt", "lamp.txt"],
  ["../../etc/passwd", "passwd"],
  ["..\\..\\boot.ini", "boot.ini"],
  ["/", "file"],
  ["a\r\nX-Injected: 1\r\n\r\n<script>.txt", "aX-Injected: 1<script>.txt"],
  ['a"; filename="b.txt', 'a"; filename="b.txt'],
  ["it's (1)*.txt", "it's (1)*.txt"],
  ["a\u0000b\u007f.txt", "ab.txt"],
  ["Lämpchen 💡.txt", "Lämpchen 💡.txt"],
  ["half \ud800.txt", "half \ufffd.txt"],
  [`a${"💡".repeat(200)}.txt`, `a${"💡".repeat(127)}`],
  [`${"💡".repeat(200)}.txt`, `${"💡".repeat(127)}\ufffd`],
  ["__proto__", "__proto__"],
  ["%0d%0a..%2f", "%0d%0a..%2f"],
];

/** As a browser reads it: RFC 8187, in nothing but the characters that it allows. */
function savedName(answered: Awaited<ReturnType<Grounds["ask"]>>): string {
  const disposition = String(answered.headers["content-disposition"]);
  const [, encoded] = /^attachment; filename\*=UTF-8''((?:[\w!#$&+.^`|~-]|%[0-9A-F]{2})+)$/.exec(disposition) ?? [];
  if (encoded === undefined) throw new Error(`no name in ${disposition}`);
  return decodeURIComponent(encoded);
}

test.each(names)("a message's file called %j is kept as %j, and saved so", async (fileName, kept) => {
  const grounds = await startGrounds();
  const things = await furnish(grounds, "own");
  const { ask } = grounds;
  const at = pathOf("createUploadUrl", [things.conversation]);
  const up = await ask({ method: "POST", path: at, headers, body: { fileName, contentType: "a\r\nb: c" } });
  const { signedUrl, storagePath } = JSON.parse(up.text) as { signedUrl: string; storagePath: string };
  expect(storagePath.endsWith(`/${kept}`)).toBe(true);
  const address = new URL(signedUrl);
  await ask({ method: "PUT", path: address.pathname + address.search, body: "Seven" });
  const body = { message: "Here", files: [{ fileName, storagePath }] };
  const said = await ask({
    method: "POST",
    path: pathOf("sendMessage", [things.conversation]),
    headers,
    body,
  });
  expect(said.status).toBe(201);
  const listed = await ask({ method: "GET", path: pathOf("listMessages", [things.conversation]), headers });
  const { messages } = JSON.parse(listed.text) as {
    messages: { files?: { id: string; fileName: string }[] }[];
  };
  const file = messages.at(-2)?.files?.[0];
  expect(file?.fileName).toBe(kept);
  const path = pathOf("getMessageFileUrl", [things.conversation, file?.id ?? ""]);
  const down = new URL(
    (JSON.parse((await ask({ method: "GET", path, headers })).text) as { signedUrl: string }).signedUrl,
  );
  const got = await ask({ method: "GET", path: down.pathname + down.search });
  expect([got.status, got.text, savedName(got)]).toEqual([200, "Seven", kept]);
  expect(got.headers).toMatchObject({
    "content-type": "application/octet-stream",
    "x-content-type-options": "nosniff",
  });
  expect(got.headers["x-injected"]).toBeUndefined();
});

// Those that a form can carry: others are cut by its own lines.
test.each(names.filter(([given]) => !/[\r\n"]/.test(given) && given.isWellFormed()))(
  "a document called %j is kept as %j, and saved so",
  async (fileName, kept) => {
    const { ask } = await startGrounds();
    const body = `--b\r\ncontent-disposition: form-data; name="file"; filename="${fileName}"\r\n\r\nLamps\r\n--b--\r\n`;
    const form = { ...headers, "content-type": "multipart/form-data; boundary=b" };
    const up = await ask({ method: "POST", path: operations.uploadFile.path, headers: form, body });
    const file = JSON.parse(up.text) as { id: string; fileName: string; url: string };
    // What reads forms may read some bytes of a name in its own way; then that is its name.
    expect(file.fileName).not.toMatch(/[/\\]/);
    if (!fileName.includes("%") && !fileName.includes("\u0000")) expect(file.fileName).toBe(kept);
    const got = await ask({ method: "GET", path: new URL(file.url).pathname, headers });
    expect([got.status, got.text, savedName(got)]).toEqual([200, "Lamps", file.fileName]);
  },
);

const ids = [
  "%2e%2e",
  "..%2f..%2fagents%2fby-api-key",
  "%5c..%5c",
  "a%00b",
  "a%0d%0aX-Injected:%201%0d%0a%0d%0a",
  "%ff%fe",
  "%zz",
  "%2525",
  "'%20OR%20''='",
  "%F0%9F%98%80",
  "*",
  "x".repeat(10_240),
];

test.each(operationNames.filter((name) => namedBy(name).length > 0))(
  "%s takes no id for more than an id",
  async (name) => {
    const grounds = await startGrounds();
    const things = await furnish(grounds, "own");
    const { method, key } = operations[name];
    const body = name in bodies ? bodies[name as keyof typeof bodies](things) : undefined;
    const named = namedBy(name);
    for (const id of ids)
      for (const at of named.keys()) {
        const path = pathOf(
          name,
          named.map((thing, index) => (index === at ? id : things[thing])),
        );
        const answered = await grounds.ask({ method, path, headers: credential(key, "own"), body });
        // Two dots are taken away with what stands before them, by what reads addresses: then another key is asked for.
        const statuses = id === "%2e%2e" ? [400, 403, 404] : [404];
        expect([path, statuses.includes(answered.status), formProblem(answered)]).toEqual([path, true, null]);
        expect(answered.headers["x-injected"]).toBeUndefined();
        expect(answered.text).not.toContain(keys.own);
      }
    expect(grounds.errors).toEqual([]);
  },
);

test("the address of the docs ignores the Host header", async () => {
  const { port } = await startGrounds();
  const connection = await rawConnection(port);
  await connection.send("GET /api/external/docs HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-Host: evil.test\r\n\r\n");
  const { status, headers: told } = await connection.answer();
  expect([status, told["location"]]).toEqual([301, "docs/"]);
  connection.socket.destroy();
});
