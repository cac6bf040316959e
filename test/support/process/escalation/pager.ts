// A machine that is told by webhook (a pager, a chat). Its log only grows; it can be unwell.

import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface Page {
  /** The same on every try of one notice. */
  readonly id: string;
  readonly type: string;
  /** The escalation's number. */
  readonly escalation: number;
  readonly text: string | null;
}

export interface Pager {
  readonly url: string;
  /** What it took, each once however often it was told. */
  pages(): Page[];
  /** How many lines there were. */
  lines(): number;
  /** From now on: answers 503, says nothing, or cuts every line. */
  become(state: "well" | "busy" | "silent" | "cut"): void;
  close(): Promise<void>;
}

export async function startPager(): Promise<Pager> {
  const taken = new Map<string, Page>();
  const sockets = new Set<Socket>();
  let lines = 0;
  let state: Parameters<Pager["become"]>[0] = "well";
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (state === "silent") return;
      if (state === "busy") return void response.writeHead(503).end();
      const id = String(request.headers["webhook-id"]);
      const { type, data } = JSON.parse(Buffer.concat(chunks).toString()) as {
        type: string;
        data: { escalation: number; text: string | null };
      };
      taken.set(id, { id, type, escalation: data.escalation, text: data.text });
      response.writeHead(204).end();
    });
  });
  server.on("connection", (socket: Socket) => {
    lines += 1;
    if (state === "cut") return void socket.destroy();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${port}/page`,
    pages: () => [...taken.values()],
    lines: () => lines,
    become(next) {
      state = next;
      // Whoever waits for an answer gets none, and lines that were kept are not used again.
      cut();
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}
