// Limits the size of request bodies.

import type { MiddlewareHandler } from "hono";
import { tooLarge } from "../../wire/record.ts";
import { fail } from "./exchange.ts";

/** Responds 413 to larger bodies: immediately if Content-Length exceeds the limit, otherwise as soon as
 *  the body does. */
export function bounded(maxBytes: number): MiddlewareHandler {
  return async (c, next) => {
    const announced = c.req.header("content-length");
    if (announced !== undefined) return Number(announced) > maxBytes ? fail(c, tooLarge) : next();
    if (c.req.header("transfer-encoding") === undefined || !c.req.raw.body) return next();
    const body = await collect(c.req.raw.body, maxBytes);
    if (body === null) return fail(c, tooLarge);
    c.req.raw = new Request(c.req.raw, { method: c.req.method, body });
    return next();
  };
}

async function collect(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Buffer<ArrayBuffer> | null> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks);
    size += value.length;
    if (size > maxBytes) break;
    chunks.push(value);
  }
  // Drains the rest of the body; otherwise the client would not read the response.
  void discard(reader).catch(() => undefined);
  return null;
}

async function discard(reader: ReadableStreamDefaultReader): Promise<void> {
  while (!(await reader.read()).done);
}
