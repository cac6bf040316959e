// The other side of both contestants, in a process of its own so that its work is not counted: a platform that answers
// instantly, and an SMTP server that only notes which mail was answered. Deliberately nothing but node:http and node:net.

import { createServer as createHttp } from "node:http";
import { type AddressInfo, createServer as createTcp, type Socket } from "node:net";
import { createPlatform } from "./platform.ts";

/** To the parent: the ports once, then every few milliseconds what has happened since. */
export type PeersMessage =
  | { readonly kind: "listening"; readonly http: number; readonly smtp: number }
  | {
      readonly kind: "news";
      /** `[In-Reply-To, hrtime milliseconds]` of the mails that arrived, in order. */
      readonly replies: readonly (readonly [string, number])[];
      /** Questions put so far. */
      readonly asked: number;
    };

const flushMs = 5;
let replies: (readonly [string, number])[] = [];
let told = 0;
setInterval(() => {
  const asked = platform.asked();
  if (replies.length === 0 && told === asked) return;
  told = asked;
  process.send?.({ kind: "news", replies, asked } satisfies PeersMessage);
  replies = [];
}, flushMs);

const platform = createPlatform(
  "Thank you for your mail. Your order left our warehouse **yesterday** and should be with you by Friday.\n\nIs there anything else?",
);
const http = createHttp((request, response) => platform.serve(request, response));

const end = "\r\n.\r\n";
function serve(socket: Socket): void {
  let input = "";
  let inData = false;
  socket.setNoDelay(true);
  socket.on("error", () => {});
  socket.write("220 sink ESMTP\r\n");
  socket.on("data", (chunk: Buffer) => {
    input += chunk.toString("latin1");
    for (;;) {
      const stop = input.indexOf(inData ? end : "\r\n");
      if (stop < 0) return;
      const part = input.slice(0, stop);
      input = input.slice(stop + (inData ? end.length : 2));
      if (inData) {
        inData = false;
        replies.push([
          /^in-reply-to:\s*(<[^>]*>)/im.exec(part)?.[1] ?? "",
          Number(process.hrtime.bigint()) / 1e6,
        ]);
        socket.write("250 2.0.0 OK\r\n");
      } else inData = command(socket, part.slice(0, 4).toUpperCase());
    }
  });
}

/** True when the message follows. */
function command(socket: Socket, verb: string): boolean {
  if (verb === "EHLO")
    socket.write("250-sink\r\n250-SIZE 50000000\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n");
  else if (verb === "DATA") socket.write("354 go on\r\n");
  else if (verb === "QUIT") socket.end("221 2.0.0 bye\r\n");
  else socket.write("250 2.0.0 OK\r\n");
  return verb === "DATA";
}

const smtp = createTcp(serve);
http.keepAliveTimeout = 600_000;
http.listen(0, "127.0.0.1", () => {
  smtp.listen(0, "127.0.0.1", () => {
    const ports = { http: (http.address() as AddressInfo).port, smtp: (smtp.address() as AddressInfo).port };
    process.send?.({ kind: "listening", ...ports } satisfies PeersMessage);
  });
});
process.on("message", ({ answerAfter }: { answerAfter: number }) => platform.answerAfter(answerAfter));
process.on("disconnect", () => process.exit(0));
