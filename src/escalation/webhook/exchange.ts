// Sends one HTTP request over an open connection and reads the response as far as needed.

import { request } from "node:http";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Destination, hostOf, type ResolvedAddress } from "../../ops/address.ts";

export interface Answer {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  /** Body of a successful response. Null when it was too long or incomplete; the status counts in that
   *  case too. */
  readonly text: string | null;
}

const longestAnswer = 64 * 1024;

/** Redirects are not followed. Rejects when there is no response; the result of the delivery is then
 *  unknown. The connection is closed at the end. */
export async function post(
  socket: Socket,
  url: URL,
  headers: { readonly [name: string]: string },
  body: string,
  signal: AbortSignal,
): Promise<Answer> {
  const stop = () => socket.destroy(new Error("no answer came in time"));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await answerTo(socket, url, headers, body);
  } finally {
    signal.removeEventListener("abort", stop);
    socket.destroy();
  }
}

function answerTo(
  socket: Socket,
  url: URL,
  headers: { readonly [name: string]: string },
  body: string,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const call = request({
    createConnection: () => socket,
    method: "POST",
    path: url.pathname + url.search,
    setHost: false,
    headers: { ...headers, host: url.host, "content-length": String(Buffer.byteLength(body)) },
  });
  // Connection errors after the status was received do not change the result.
  let broken: (error: Error) => void = reject;
  call.on("error", (error) => broken(error));
  call.on("close", () => broken(new Error("the connection was closed without an answer")));
  call.on("response", (response) => {
    const { statusCode: status = 0, headers: got } = response;
    const settle = (text: string | null) => resolve({ status, headers: got, text });
    broken = () => settle(null);
    response.on("error", () => settle(null));
    if (status < 200 || status > 299) return settle(null);
    const parts: Buffer[] = [];
    let length = 0;
    response.on("data", (part: Buffer) => {
      length += part.length;
      if (length > longestAnswer) return settle(null);
      parts.push(part);
    });
    response.on("end", () => settle(Buffer.concat(parts).toString("utf8")));
  });
  call.end(body);
  return promise;
}

/** Connect timeout per address, in milliseconds. */
export const connectMs = 5000;
const mostAddresses = 4;

/** Rejects with the error of the last address when no address can be reached. */
export async function openConnection(destination: Destination, signal: AbortSignal): Promise<Socket> {
  let last: unknown = new Error("there is no address");
  for (const address of destination.addresses.slice(0, mostAddresses)) {
    signal.throwIfAborted();
    try {
      return await open(destination.url, address, AbortSignal.any([signal, AbortSignal.timeout(connectMs)]));
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

function open(url: URL, { address, family }: ResolvedAddress, signal: AbortSignal): Promise<Socket> {
  const secure = url.protocol === "https:";
  const port = Number(url.port || (secure ? 443 : 80));
  const host = hostOf(url);
  const named = isIP(host) === 0 ? { servername: host } : {};
  const socket = secure
    ? connectTls({ host: address, port, ...named, ALPNProtocols: ["http/1.1"] })
    : connectTcp({ host: address, port, family });
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const stop = () => socket.destroy(new Error("connecting took too long"));
  const done = () => signal.removeEventListener("abort", stop);
  signal.addEventListener("abort", stop, { once: true });
  socket.once(secure ? "secureConnect" : "connect", () => {
    done();
    resolve(socket);
  });
  // The listener stays: a connection that ends before the request starts must not raise an uncaught error.
  socket.on("error", (error) => {
    done();
    reject(error);
  });
  socket.once("close", () => {
    done();
    reject(new Error("the connection was closed before it stood"));
  });
  return promise;
}
