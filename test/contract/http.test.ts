import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { HttpConnections } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";

/** Called with the first bytes of a request without a body, and the connection that they came on. */
type Answer = (request: string, socket: Socket) => void;

/** A server that would keep every connection, whatever the client asks for. */
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
