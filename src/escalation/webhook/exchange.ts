// Sends one HTTP request over an open connection and reads the response as far as needed.

import { request } from "node:http";
import type { Socket } from "node:net";

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
