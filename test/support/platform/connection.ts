// Requests as they are, past every client that knows better: over a kept connection, or byte by byte.

import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers?: { readonly [name: string]: string | string[] };
  readonly body?: string | Uint8Array | undefined;
}
export interface Answered {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly text: string;
}

/** One connection, used again and again as long as the server keeps it. */
export function keptConnection(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = ({ method, path, headers = {}, body }: Asked) =>
    new Promise<Answered | "idle too long">((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
      const all = { ...headers, ...length };
      const asking = request({ host: "127.0.0.1", port, method, path, headers: all, agent }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      });
      // The server ends connections that nobody uses, also between our choosing one and writing to it.
      asking.on("error", (error) => (asking.reusedSocket ? resolve("idle too long") : reject(error)));
      asking.end(body);
    });
  return {
    async ask(asked: Asked): Promise<Answered> {
      const answered = await once(asked);
      if (answered !== "idle too long") return answered;
      agent.destroy();
      const again = await once(asked);
      if (again === "idle too long") throw new Error("a new connection was not kept for one request");
      return again;
    },
    close: () => agent.destroy(),
  };
}

export interface RawConnection {
  readonly socket: Socket;
  /** Sends bytes; resolves when they are handed over. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** All that has come, once the server has ended its side. */
  ended: Promise<string>;
  /** The first answer, once all of it is there; the connection may stay. */
  answer(): Promise<Answered>;
}

/** A connection without any protocol. Ends with its test. */
export async function rawConnection(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  let received = Buffer.alloc(0);
  const looking = new Set<() => void>();
  const look = () => {
    for (const each of looking) each();
  };
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    look();
  });
  // A reset ends it as well; what came before counts.
  socket.on("error", () => undefined);
  const ended = new Promise<string>((resolve) => {
    const end = () => {
      resolve(received.toString());
      look();
    };
    socket.once("end", end);
    socket.once("close", end);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return {
    socket,
    ended,
    send: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
    answer: () =>
      new Promise((resolve, reject) => {
        const find = () => {
          const found = parse(received);
          if (!found && !socket.readableEnded && !socket.destroyed) return;
          looking.delete(find);
          if (found) resolve(found);
          else reject(new Error(`no whole answer: ${received.toString()}`));
        };
        looking.add(find);
        find();
      }),
  };
}

/** The first answer with a length in these bytes that is more than a 1xx; null until it is there. */
function parse(bytes: Buffer): Answered | null {
  const at = bytes.indexOf("\r\n\r\n");
  if (at < 0) return null;
  const [first = "", ...lines] = bytes.subarray(0, at).toString().split("\r\n");
  const rest = bytes.subarray(at + 4);
  const status = Number(first.split(" ")[1]);
  if (status < 200) return parse(rest);
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(":")).toLowerCase(),
      line.slice(line.indexOf(":") + 1).trim(),
    ]),
  );
  const length = Number(headers["content-length"] ?? 0);
  return rest.length < length ? null : { status, headers, text: rest.subarray(0, length).toString() };
}
