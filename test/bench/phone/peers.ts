// The platform, Twilio's API and the customers who text and call, in a process of their own. It executes one order of the
// parent at a time.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerJson, createPlatform, firstWords } from "../platform-stub.ts";
import { type CallsOrder, type CallsResult, placeCalls } from "./callers.ts";
import { createTexters, type TextsOrder, type TextsResult } from "./texters.ts";

export type PhoneOrder = TextsOrder | CallsOrder;
export type PhoneMessage =
  | { readonly kind: "listening"; readonly platform: number; readonly twilio: number }
  | { readonly kind: "done"; readonly result: TextsResult | CallsResult };

const platform = createPlatform(`${firstWords} left our warehouse yesterday and should be with you by Friday.`);
const texters = createTexters();

const platformServer = createServer((request, response) => platform.serve(request, response));
const twilioServer = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString("latin1")));
  request.on("end", () => {
    // The daemon also lists messages that it may have missed; there are none.
    if (request.method === "GET") return answerJson(response, 200, { messages: [], next_page_uri: null, page: 0 });
    answerJson(response, 201, texters.take(new URLSearchParams(body)));
  });
});

process.on("message", (order: PhoneOrder) => {
  const before = platform.asked();
  const work = order.kind === "texts" ? texters.send(order, () => platform.asked() - before) : placeCalls(order);
  void work.then((result) => process.send?.({ kind: "done", result } satisfies PhoneMessage));
});
process.on("disconnect", () => process.exit(0));

for (const server of [platformServer, twilioServer]) server.keepAliveTimeout = 600_000;
platformServer.listen(0, "127.0.0.1", () => {
  twilioServer.listen(0, "127.0.0.1", () => {
    const port = (server: typeof platformServer) => (server.address() as AddressInfo).port;
    process.send?.({
      kind: "listening",
      platform: port(platformServer),
      twilio: port(twilioServer),
    } satisfies PhoneMessage);
  });
});
