// Invalid HTTP: malformed requests, requests without an end, and request smuggling.

import { describe, expect, onTestFinished, test } from "vitest";
import {
  formProblem,
  type Grounds,
  keys,
  type RawConnection,
  rawConnection,
  startGrounds,
} from "../../support/platform/tenants.ts";

const key = `Agent-Secret-Key: ${keys.own}\r\n`;
const known = `Host: here\r\n${key}`;
const hidden = `GET /external/agents/by-api-key HTTP/1.1\r\n${known}\r\n`;
const user = JSON.stringify({ firstName: "Jo", lastName: "Doe", fkId: "jo" });

async function connected({ port }: Grounds): Promise<RawConnection> {
  const connection = await rawConnection(port);
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

/** Everything that comes back until the server ends the connection. */
async function said(grounds: Grounds, bytes: string): Promise<string> {
  const connection = await connected(grounds);
  await connection.send(bytes);
  return connection.ended;
}

const right = async ({ ask }: Grounds) => {
  const headers = { "agent-secret-key": keys.own };
  const { status } = await ask({ method: "GET", path: "/external/agents/by-api-key", headers });
  return status;
};

const answersIn = (text: string) => text.split(/(?=HTTP\/1\.1 \d)/).filter((part) => part !== "");
const statusIn = (text: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);

/** The one answer there is, as the interface documents errors. */
function expectOnly(text: string, status: number): void {
  expect(answersIn(text).map(statusIn)).toEqual([status]);
  const [head = "", body = ""] = text.split("\r\n\r\n");
  expect(head.toLowerCase()).toContain("connection: close");
  const type = /content-type: (.*)/i.exec(head)?.[1];
  expect(formProblem({ status, headers: { "content-type": type }, text: body })).toBeNull();
}

const post = (lines: string, body: string) => `POST /external/users HTTP/1.1\r\n${known}${lines}\r\n${body}`;

test.each([
  ["a length beside chunks", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${hidden}`)],
  ["chunks beside a length", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", `0\r\n\r\n${hidden}`)],
  ["two lengths", post("Content-Length: 0\r\nContent-Length: 9\r\n", hidden)],
  ["a length that is none", post("Content-Length: +2\r\n", `{}${hidden}`)],
  ["a length below zero", post("Content-Length: -1\r\n", hidden)],
  ["an unknown coding", post("Transfer-Encoding: xchunked\r\n", `0\r\n\r\n${hidden}`)],
  ["chunked as another than the last coding", post("Transfer-Encoding: chunked, identity\r\n", hidden)],
  ["a space before the colon", post("Transfer-Encoding : chunked\r\n", `0\r\n\r\n${hidden}`)],
  ["a folded line", post("X-A: b\r\n c: d\r\nContent-Length: 2\r\n", `{}${hidden}`)],
  ["a chunk's size that is none", post("Transfer-Encoding: chunked\r\n", `zz\r\n{}\r\n0\r\n\r\n${hidden}`)],
  ["a chunk longer than it says", post("Transfer-Encoding: chunked\r\n", `1\r\n{}\r\n0\r\n\r\n${hidden}`)],
  ["a carriage return alone in a header", post("X-A: a\rContent-Length: 2\r\n", `{}${hidden}`)],
  ["a zero byte in a header", post("X-A: a\0b\r\n", hidden)],
  ["lines without carriage returns", post("Content-Length: 2\r\n", "{}").replaceAll("\r", "")],
  ["a path that is not ASCII", `GET /external/users/ü HTTP/1.1\r\n${known}\r\n`],
  ["a method nobody knows", `FROB /external/agents/by-api-key HTTP/1.1\r\n${known}\r\n`],
  ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
])("%s is refused, and nothing behind it is read", async (_what, bytes) => {
  const grounds = await startGrounds();
  expectOnly(await said(grounds, bytes), 400);
  expect(await right(grounds)).toBe(200);
  await grounds.stop();
  expect(grounds.errors).toEqual([]);
});

test.each([
  ["a header of 20 kB", `GET / HTTP/1.1\r\n${known}X-A: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ["an address of 20 kB", `GET /${"a".repeat(20_000)} HTTP/1.1\r\n${known}\r\n`, 431],
  ["an expectation nobody can meet", post("Expect: magic\r\nContent-Length: 2\r\n", "{}"), 417],
  ["a tunnel", `CONNECT example.test:443 HTTP/1.1\r\n${known}\r\n`, 404],
])("%s is refused as what it is", async (_what, bytes, status) => {
  const grounds = await startGrounds();
  const connection = await connected(grounds);
  await connection.send(bytes);
  const answered = await connection.answer();
  expect([answered.status, formProblem(answered)]).toEqual([status, null]);
  expect(statusIn(await connection.ended)).toBe(status);
  expect(await right(grounds)).toBe(200);
});

test.each([
  ["no Host", `GET /external/agents/by-api-key HTTP/1.1\r\n${key}\r\n`],
  ["a Host with a space", `GET /external/agents/by-api-key HTTP/1.1\r\nHost: a b\r\n${key}\r\n`],
  ["a Host with a path", `GET /external/agents/by-api-key HTTP/1.1\r\nHost: a/b?c\r\n${key}\r\n`],
  ["an empty Host", `GET /external/agents/by-api-key HTTP/1.1\r\nHost: \r\n${key}\r\n`],
  ["a backslash in the path", `GET /external\\agents/by-api-key HTTP/1.1\r\n${known}\r\n`],
  ["an address without a path", `OPTIONS * HTTP/1.1\r\n${known}\r\n`],
  ["an absolute address that is none", `GET http://[/external/ HTTP/1.1\r\n${known}\r\n`],
])("%s is refused in the documented form", async (_what, bytes) => {
  const connection = await connected(await startGrounds());
  await connection.send(bytes);
  const answered = await connection.answer();
  expect([answered.status, formProblem(answered)]).toEqual([400, null]);
});

test("HTTP/1.0 needs no Host", async () => {
  const answer = await said(await startGrounds(), `GET /external/agents/by-api-key HTTP/1.0\r\n${key}\r\n`);
  expect(statusIn(answer)).toBe(200);
});

describe("a method", () => {
  test.each(["OPTIONS", "PATCH", "TRACE", "PROPFIND", "DELETE", "POST"])(
    "%s on what has none is not found",
    async (method) => {
      const { ask } = await startGrounds();
      const headers = { "agent-secret-key": keys.own };
      const answered = await ask({ method, path: "/external/agents/by-api-key", headers });
      expect([answered.status, formProblem(answered)]).toEqual([404, null]);
      expect(answered.headers["access-control-allow-origin"]).toBeUndefined();
    },
  );

  test("HEAD is GET without the body", async () => {
    const { ask } = await startGrounds();
    const headers = { "agent-secret-key": keys.own };
    const head = await ask({ method: "HEAD", path: "/external/agents/by-api-key", headers });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(await ask({ method: "HEAD", path: "/external/agents/by-api-key" })).toMatchObject({ status: 403 });
  });
});

describe("an answer before the end of the request", () => {
  test("to a wrong key ends the connection: the body is no second request", async () => {
    const grounds = await startGrounds();
    const connection = await connected(grounds);
    const head = `POST /external/users HTTP/1.1\r\nHost: here\r\nAgent-Secret-Key: wrong\r\nContent-Length: 9999\r\n\r\n`;
    await connection.send(head);
    expect(await connection.answer()).toMatchObject({ status: 403, headers: { connection: "close" } });
    await connection.send(hidden);
    expectOnly(await connection.ended, 403);
  });

  test.each([
    ["/external/users", 2 * 1024 * 1024],
    ["/external/agent-files/upload", 20 * 1024 * 1024 + 64 * 1024],
  ])("%s says that %i bytes are too many before any has come", async (path, most) => {
    const grounds = await startGrounds();
    const connection = await connected(grounds);
    await connection.send(`POST ${path} HTTP/1.1\r\n${known}Content-Length: ${most + 1}\r\n\r\n`);
    const answered = await connection.answer();
    expect([answered.status, formProblem(answered), answered.headers["connection"]]).toEqual([413, null, "close"]);
    expectOnly(await connection.ended, 413);
  });

  test("says so in the middle of chunks without an end", async () => {
    const grounds = await startGrounds();
    const connection = await connected(grounds);
    await connection.send(post("Transfer-Encoding: chunked\r\n", ""));
    const chunk = `10000\r\n${" ".repeat(0x10000)}\r\n`;
    // 32 chunks are the limit; the server need not have read what it was sent.
    for (let n = 0; n < 33; n += 1) await connection.send(chunk);
    const answered = await connection.answer();
    expect([answered.status, formProblem(answered)]).toEqual([413, null]);
    expectOnly(await connection.ended, 413);
    await grounds.stop();
    expect(grounds.errors).toEqual([]);
  });

  test("is read by a client that sends all of it first", async () => {
    const grounds = await startGrounds();
    const connection = await connected(grounds);
    const body = "x".repeat(6 * 1024 * 1024);
    await connection.send(post(`Content-Length: ${body.length}\r\n`, body));
    expectOnly(await connection.ended, 413);
  });
});

test("chunks with an end are a body like any other", async () => {
  const connection = await connected(await startGrounds());
  const length = Buffer.byteLength(user).toString(16);
  await connection.send(post("Transfer-Encoding: chunked\r\n", `${length}\r\n${user}\r\n0\r\n\r\n`));
  expect(await connection.answer()).toMatchObject({ status: 201 });
});

test("a client with Expect: 100-continue gets 100, then the answer", async () => {
  const grounds = await startGrounds();
  const connection = await connected(grounds);
  const told = new Promise<string>((resolve) =>
    connection.socket.once("data", (bytes: Buffer) => resolve(bytes.toString())),
  );
  await connection.send(post(`Expect: 100-continue\r\nContent-Length: ${user.length}\r\n`, ""));
  expect(await told).toContain("HTTP/1.1 100 Continue");
  await connection.send(user);
  expect(await connection.answer()).toMatchObject({ status: 201 });
});

describe("a client that takes its time", () => {
  const starts = {
    "in the headers": `POST /external/users HTTP/1.1\r\n${known}X-A: `,
    "in the body": post("Content-Length: 1000\r\n", "{"),
    "before the first byte": "",
  };

  const patient = { headersMs: 600_000, requestMs: 600_000 };

  test("does not delay other senders", async () => {
    const grounds = await startGrounds({ limits: patient });
    const slow: RawConnection[] = [];
    for (const start of Object.values(starts))
      for (let n = 0; n < 20; n += 1) {
        const connection = await connected(grounds);
        slow.push(connection);
        await connection.send(start);
      }
    for (let n = 0; n < 5; n += 1) expect(await right(grounds)).toBe(200);
    expect(slow.filter(({ socket }) => socket.readableEnded || socket.destroyed)).toEqual([]);
  });

  test.each(Object.entries(starts))("%s gets a timeout error", async (_where, start) => {
    const grounds = await startGrounds({ limits: { headersMs: 300, requestMs: 300 } });
    const connection = await connected(grounds);
    await connection.send(start);
    expectOnly(await connection.ended, 408);
    await grounds.stop();
    expect(grounds.errors).toEqual([]);
  });

  test.each([starts["in the headers"], starts["in the body"]])(
    "gains nothing by a byte now and then (%#)",
    async (start) => {
      const grounds = await startGrounds({ limits: { headersMs: 300, requestMs: 300 } });
      const connection = await connected(grounds);
      await connection.send(start);
      let over = false;
      void connection.ended.then(() => (over = true));
      const another = async () => {
        await connection.send(" ");
        return over;
      };
      await expect.poll(another, { timeout: 60_000, interval: 20 }).toBe(true);
      expectOnly(await connection.ended, 408);
    },
  );

  test("and disconnects is not an internal error", async () => {
    const grounds = await startGrounds();
    for (const start of [...Object.values(starts), post("Transfer-Encoding: chunked\r\n", "ff\r\n{")]) {
      const connection = await connected(grounds);
      await connection.send(start);
      expect(await right(grounds)).toBe(200);
      connection.socket.resetAndDestroy();
    }
    expect(await right(grounds)).toBe(200);
    await grounds.stop();
    expect(grounds.errors).toEqual([]);
  });

  test("is one of as many as are let in, and no more", async () => {
    const grounds = await startGrounds({ limits: { ...patient, connections: 2 } });
    const first = await connected(grounds);
    const second = await connected(grounds);
    for (const connection of [first, second]) {
      await connection.send(`GET /external/agents/by-api-key HTTP/1.1\r\n${known}\r\n`);
      expect(await connection.answer()).toMatchObject({ status: 200 });
      await connection.send("GET ");
    }
    expect(await (await connected(grounds)).ended).toBe("");
    first.socket.destroy();
    await expect.poll(() => right(grounds).catch(() => 0)).toBe(200);
  });
});
