// The platform and the SMTP server of the email measurements, in a process of their own, so that their CPU time is not
// counted. Both answer instantly and use node:http and node:net only.

import { createServer as createHttp } from "node:http";
import { type AddressInfo, createServer as createTcp, type Socket } from "node:net";
import { createPlatform } from "../platform-stub.ts";

/** SMTP transactions of a period. */
export interface Transactions {
  /** Recipients that were named in a RCPT command. */
  readonly recipients: readonly string[];
  /** Connections that ended after MAIL and before RCPT: transactions with an unknown recipient. */
  readonly unnamed: number;
}

/** To the parent: the ports once, news every few milliseconds, and the transactions when it asks. */
export type PeersMessage =
  | { readonly kind: "listening"; readonly http: number; readonly smtp: number }
  | {
      readonly kind: "news";
      /** `[In-Reply-To, hrtime milliseconds]` of the replies that arrived, in order. */
      readonly replies: readonly (readonly [string, number])[];
      /** Questions received so far. */
      readonly asked: number;
    }
  | ({ readonly kind: "transactions" } & Transactions);

/** From the parent. */
export type PeersOrder =
  | { readonly kind: "delay"; readonly ms: number }
  | { readonly kind: "answerAfter"; readonly ms: number }
  | { readonly kind: "answerWith"; readonly text: string | null }
  | { readonly kind: "transactions" }
  | { readonly kind: "forget" };

const flushMs = 5;
let replies: (readonly [string, number])[] = [];
let reported = 0;
setInterval(() => {
  const asked = platform.asked();
  if (replies.length === 0 && reported === asked) return;
  reported = asked;
  process.send?.({ kind: "news", replies, asked } satisfies PeersMessage);
  replies = [];
}, flushMs);

const platform = createPlatform(
  "Thank you for your mail. Your order left our warehouse **yesterday** and should be with you by Friday.\n\nIs there anything else?",
);
const http = createHttp((request, response) => platform.serve(request, response));

const end = "\r\n.\r\n";
let delayMs = 0;
let recipients: string[] = [];
let unnamed = 0;

function serve(socket: Socket): void {
  let input = "";
  let inData = false;
  let named = true;
  const write = (text: string) => {
    if (delayMs === 0) socket.write(text);
    else setTimeout(() => socket.writable && socket.write(text), delayMs);
  };
  /** True when the message follows. */
  const command = (line: string): boolean => {
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === "MAIL") named = false;
    if (verb === "RCPT") {
      named = true;
      recipients.push(/<([^>]*)>/.exec(line)?.[1] ?? "");
    }
    if (verb === "EHLO") write("250-sink\r\n250-SIZE 50000000\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n");
    else if (verb === "DATA") write("354 go on\r\n");
    else if (verb === "QUIT") socket.end("221 2.0.0 bye\r\n");
    else write("250 2.0.0 OK\r\n");
    return verb === "DATA";
  };
  socket.setNoDelay(true);
  socket.on("error", () => {});
  socket.on("close", () => (unnamed += named ? 0 : 1));
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
        // An email that answers none is a notification to a responder.
        const answered = /^in-reply-to:\s*(<[^>]*>)/im.exec(part)?.[1];
        if (answered !== undefined) replies.push([answered, Number(process.hrtime.bigint()) / 1e6]);
        write("250 2.0.0 OK\r\n");
      } else inData = command(part);
    }
  });
}

const smtp = createTcp(serve);
http.keepAliveTimeout = 600_000;
http.listen(0, "127.0.0.1", () => {
  smtp.listen(0, "127.0.0.1", () => {
    const ports = { http: (http.address() as AddressInfo).port, smtp: (smtp.address() as AddressInfo).port };
    process.send?.({ kind: "listening", ...ports } satisfies PeersMessage);
  });
});
process.on("message", (order: PeersOrder) => {
  if (order.kind === "delay") delayMs = order.ms;
  else if (order.kind === "answerAfter") platform.answerAfter(order.ms);
  else if (order.kind === "answerWith") platform.answerWith(order.text);
  else if (order.kind === "forget") [recipients, unnamed] = [[], 0];
  else process.send?.({ kind: "transactions", recipients, unnamed } satisfies PeersMessage);
});
process.on("disconnect", () => process.exit(0));
