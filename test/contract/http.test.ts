import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { HttpConnections, retryAfterOf } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";

/** Called with the first bytes of a request without a body, and the connection that they came on. */
type Answer = (request: string, socket: Socket) => void;

/** A server that keeps every connection open, regardless of the client's headers. */
async function peer(answer: Answer) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes) => answer(bytes.toString(), socket));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, "listening");
  return { sockets, url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`) };
}
const kept = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}";

function connected(url: URL, connections: number) {
  const http = new HttpConnections({ connections, once: true });
  onTestFinished(() => http.close());
  const { signal } = new AbortController();
  return (crossing?: () => Promise<void>) => http.exchange({ method: "GET", url, headers: {}, signal, crossing });
}

it("uses a connection for each request with `once`, and no more at once than allowed", async () => {
  const two = Promise.withResolvers<void>();
  const requests: string[] = [];
  let waiting = 0;
  let most = 0;
  const { sockets, url } = await peer((request, socket) => {
    requests.push(request);
    most = Math.max(most, ++waiting);
    if (requests.length === 2) two.resolve();
    void two.promise.then(() => {
      waiting--;
      socket.write(kept);
    });
  });
  const exchange = connected(url, 2);
  const answers = await Promise.all(Array.from({ length: 5 }, () => exchange()));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(sockets).toHaveLength(5);
  expect(most).toBe(2);
  for (const request of requests) expect(request).toMatch(/^connection: close\r$/im);
});

it("reads JSON behind a byte order mark", async () => {
  const { url } = await peer((_, socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n\ufeff{"a":1}\n');
  });
  expect(await connected(url, 1)()).toMatchObject({ json: { a: 1 } });
});

it("is not disturbed by a peer that closes after its answer, with `once`", async () => {
  const closed: Promise<unknown>[] = [];
  const { sockets, url } = await peer((_, socket) => {
    closed.push(once(socket, "close"));
    socket.end(kept);
  });
  const exchange = connected(url, 1);
  // A connection that was used before is closed when the crossing is over.
  const crossing = async () => void (await Promise.all(closed));
  const answers = await Promise.all(Array.from({ length: 5 }, () => exchange(crossing)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(sockets).toHaveLength(5);
});

it("connects to the given addresses instead of resolving the name", async () => {
  const { sockets, url } = await peer((_, socket) => void socket.write(kept));
  const http = new HttpConnections({ connections: 1, once: true });
  const { signal } = new AbortController();
  const answer = await http.exchange({
    method: "GET",
    url: new URL(`http://hooks.example:${url.port}/`),
    headers: {},
    signal,
    addresses: [{ address: "127.0.0.1", family: 4 }],
  });
  expect(answer).toMatchObject({ status: 200, body: "{}" });
  expect(sockets).toHaveLength(1);
});

it("sends a form with files, byte for byte", async () => {
  const taken = Promise.withResolvers<FormData>();
  const server = createHttpServer((incoming, response) => {
    const headers = { "content-type": incoming.headers["content-type"] ?? "" };
    taken.resolve(buffer(incoming).then((body) => new Response(new Uint8Array(body), { headers }).formData()));
    incoming.once("end", () => response.end("{}"));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  const form = new FormData();
  form.set("file", new Blob([bytes]), "every byte");
  const encoded = new Response(form);
  const http = new HttpConnections({ connections: 1, once: true });
  const answer = await http.exchange({
    method: "POST",
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`),
    headers: { "content-type": encoded.headers.get("content-type") ?? "" },
    body: new Uint8Array(await encoded.arrayBuffer()),
    signal: new AbortController().signal,
  });
  expect(answer.status).toBe(200);
  const file = (await taken.promise).get("file") as File;
  expect([file.name, new Uint8Array(await file.arrayBuffer())]).toEqual(["every byte", bytes]);
});

it.each([
  ["is too long", "HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\n123456789"],
  ["breaks off", "HTTP/1.1 202 Accepted\r\nContent-Length: 9\r\n\r\n123"],
])("returns the status without a body that %s, with `bodyAtMost`", async (_what, response) => {
  const { url } = await peer((_, socket) => void socket.end(response));
  const http = new HttpConnections({ connections: 1, once: true });
  const request = { method: "GET", url, headers: {}, signal: new AbortController().signal } as const;
  expect(await http.exchange({ ...request, bodyAtMost: 8 })).toMatchObject({ status: 202, body: "", json: null });
});

const now = Date.parse("2026-07-08T10:00:00Z");
it.each([
  ["12", 12_000],
  [" 0.5 ", 500],
  ["7200", 3_600_000],
  ["Wed, 08 Jul 2026 10:10:00 GMT", 600_000],
  ["Wed, 08 Jul 2026 09:00:00 GMT", 0],
  ["soon", null],
  ["", null],
  [undefined, null],
])("reads Retry-After: %s", (value, ms) => {
  expect(retryAfterOf({ headers: { "retry-after": value } }, { now })).toBe(ms);
});
