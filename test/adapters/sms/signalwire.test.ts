// SignalWire: Twilio's language under a path of its own, with a signing key that is no token.

import { once } from "node:events";
import { request as ask, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import {
  openTwilio,
  person,
  type Settings,
  sendText,
  signed,
  startApi,
  statusForm,
  textForm,
  token,
} from "../../support/sms/providers.ts";

const signingKey = "PSK_signing_key";
const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** The sandbox's interface behind SignalWire's path; the paths that were asked for. */
async function space() {
  const api = await startApi();
  const paths: string[] = [];
  const front = createServer((request, response) => {
    const path = request.url ?? "";
    paths.push(path);
    if (!path.startsWith("/api/laml/")) return void response.writeHead(404).end();
    const { method = "GET", headers } = request;
    const inner = ask(`${api.url}${path.slice("/api/laml".length)}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(inner);
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  stops.push(async () => {
    front.closeAllConnections();
    front.close();
    await api.close();
  });
  const { port } = front.address() as AddressInfo;
  return { api, paths, url: `http://127.0.0.1:${port}/api/laml` };
}

const block: Settings = { provider: "signalwire", signing_keys: [signingKey] };

describe("signalwire", () => {
  it("sends under the space's path with the project's token, to a callback without overrides", async () => {
    const { api, paths, url } = await space();
    const { outcome } = await sendText(openTwilio(url, block), person, "hello");
    expect(outcome).toMatchObject({ kind: "sent", id: api.sent[0]?.sid });
    expect(paths).toEqual([expect.stringMatching(/^\/api\/laml\/2010-04-01\/Accounts\/.*\/Messages\.json$/)]);
    expect(api.creates.at(-1)?.form["StatusCallback"]).toMatch(/\/status\?draft=\w+$/);
  });

  it("finds what was missed under the same path", async () => {
    const { api, url, paths } = await space();
    const { adapter, channel } = openTwilio(url, block);
    const stop = new AbortController();
    const life = adapter.inbound?.run(null, stop.signal);
    await channel.until("ready", ({ statuses }) => statuses.at(-1)?.state === "ready");
    await api.receive({ from: person, body: "is anybody there?", webhook: false });
    await channel.until("the text", ({ messages }) => messages.length === 1);
    stop.abort();
    await life;
    expect(paths.every((path) => path.startsWith("/api/laml/2010-04-01/"))).toBe(true);
  });

  it("believes webhooks that the signing key signed, under either header, and no others", async () => {
    const { channel, post } = openTwilio("http://127.0.0.1:9/api/laml", block);
    const renamed = (request: Request, name: string) => {
      const headers = new Headers(request.headers);
      headers.set(name, headers.get("x-twilio-signature") ?? "");
      headers.delete("x-twilio-signature");
      return new Request(request, { headers });
    };
    const text = (sid: string, key = signingKey) => signed(channel.url("/inbound"), textForm(sid, "hello"), { key });
    expect((await post("/inbound", renamed(text("SM1"), "x-signalwire-signature"))).status).toBe(200);
    expect((await post("/inbound", text("SM2"))).status).toBe(200);
    expect((await post("/inbound", renamed(text("SM3"), "x-other-signature"))).status).toBe(403);
    expect((await post("/inbound", text("SM4", token))).status, "the login's token signs nothing").toBe(403);
    const status = signed(channel.url("/status"), statusForm("SM9", "undelivered", { ErrorCode: "21610" }), {
      key: signingKey,
    });
    expect((await post("/status", renamed(status, "x-signalwire-signature"))).status).toBe(200);
    expect(channel.stored.at(-1)).toMatchObject({ state: "failed", code: "opted-out" });
    expect(channel.stored.map(({ id }) => id)).toEqual(["SM1", "SM2", "SM9/undelivered"]);
  });
});
