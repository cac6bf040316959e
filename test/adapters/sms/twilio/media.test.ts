// Pictures that people send: fetched with our login from the provider alone, and never from where a form, or a redirect,
// would like to send us.

import { createServer, type RequestListener } from "node:http";
import { buffer } from "node:stream/consumers";
import { isFinal, type Json } from "bridgehead/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDownload } from "../../../../adapters/sms/media.ts";
import type { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import { closeServer, listen } from "../../../support/machine/network.ts";
import { account, openTwilio, person, type Settings, startApi } from "../../../support/sms/providers.ts";

let api: SmsApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const png = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(200_000, 7)]);

/** A person sends a picture; its reference. */
async function picture(bytes: Uint8Array = png, type = "image/png", location?: string) {
  const media = [{ type, bytes, ...(location === undefined ? {} : { location }) }];
  const { message } = await api.receive({ from: person, body: "Look", media, webhook: false });
  const medium = message.media[0]?.sid ?? "";
  const url = `${api.url}/2010-04-01/Accounts/${account}/Messages/${message.sid}/Media/${medium}`;
  return { url, message: message.sid, mediaType: type };
}

async function fetched(ref: Json, more: Settings = {}): Promise<Buffer> {
  const { adapter } = openTwilio(api.url, more);
  if (!adapter.open) throw new Error("cannot open");
  return buffer(adapter.open(ref, AbortSignal.timeout(60_000)));
}

/** Serves on 127.0.0.1 for the time of `body`. */
async function served(listener: RequestListener, body: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  const url = await listen(server);
  try {
    await body(url);
  } finally {
    await closeServer(server);
  }
}

describe("a picture", () => {
  it("comes whole, with our login at the interface and without it behind the redirect", async () => {
    const before = api.fetched.length;
    expect((await fetched(await picture())).equals(png)).toBe(true);
    expect(api.fetched.slice(before).map(({ authorization }) => authorization)).toEqual([false]);
  });

  it("needs our login", async () => {
    await expect(fetched(await picture(), { auth_tokens: ["wrong"] })).rejects.toThrow(/401/);
  });

  it("larger than allowed is refused, announced or not", async () => {
    await expect(fetched(await picture(), { media: { max_size: "100KB" } })).rejects.toThrow(/larger than 100000/);
    await served(
      (_request, response) => {
        response.writeHead(200);
        for (let n = 0; n < 50; n++) response.write(png);
        response.end();
      },
      async (url) => {
        const ref = await picture(png, "image/png", `${url}/endless`);
        await expect(fetched(ref, { media: { max_size: "300KB" } })).rejects.toThrow(/larger than 300000/);
      },
    );
  });

  it.each([
    ["a page", "image/png", "<!DOCTYPE html><html><script>alert(1)</script>"],
    ["a drawing with scripts", "image/png", '<svg xmlns="http://www.w3.org/2000/svg" onload="x()"/>'],
    ["a program", "image/jpeg", "MZ\u0090\u0000\u0003"],
    ["an archive", "audio/ogg", "PK\u0003\u0004xxxx"],
  ])("that is %s, called %s, is refused", async (_what, type, text) => {
    await expect(fetched(await picture(Buffer.from(text, "latin1"), type))).rejects.toThrow(/announced/);
  });

  it("of a kind we cannot recognize comes as it is, however short", async () => {
    for (const bytes of [Buffer.from("x"), Buffer.from("plain words, but who knows")])
      expect((await fetched(await picture(bytes))).equals(bytes)).toBe(true);
    expect((await fetched(await picture(Buffer.from("BEGIN:VCARD"), "text/vcard"))).toString()).toBe("BEGIN:VCARD");
  });

  it("that does not come in time ends", async () => {
    await served(
      () => {},
      async (url) => {
        const ref = await picture(png, "image/png", url);
        const { adapter } = openTwilio(api.url);
        const bytes = adapter.open?.(ref, AbortSignal.timeout(200)); // expires
        await expect(bytes?.[Symbol.asyncIterator]().next()).rejects.toThrow();
      },
    );
  });
});

describe("a failure", () => {
  const failure = async (ref: Json): Promise<unknown> =>
    fetched(ref).then(
      () => null,
      (error: unknown) => error,
    );
  const answering = async (status: number): Promise<unknown> => {
    let found: unknown;
    await served(
      (_request, response) => response.writeHead(status).end(),
      async (url) => void (found = await failure(await picture(png, "image/png", url))),
    );
    return found;
  };

  it.each([401, 403, 404, 429, 500, 503])("of the kind that may pass (%i) is not final", async (status) => {
    const error = await answering(status);
    expect(error).toMatchObject({ message: `fetching media: the answer was ${status}` });
    expect(isFinal(error)).toBe(false);
  });

  it("is final when the media is gone, is not an image, or is not ours", async () => {
    const page = await picture(Buffer.from("<!DOCTYPE html>"), "image/png");
    const foreign = { url: "https://evil.example/x", message: "MM1", mediaType: "image/png" };
    for (const error of [await answering(410), await failure(page), await failure(foreign), await failure(null)])
      expect(error).toSatisfy(isFinal);
  });
});

describe("an address is refused, and nothing is asked there,", () => {
  const path = (of = account, message = "MM1") => `/2010-04-01/Accounts/${of}/Messages/${message}/Media/ME1`;
  const ref = (url: string) => ({ url, message: "MM1", mediaType: "image/png" });
  it.each<[string, (here: string) => string]>([
    ["at another host", () => `http://evil.example${path()}`],
    ["at another host over TLS", () => `https://evil.example${path()}`],
    ["at another port of the same host", (here) => here.replace(/:\d+$/, ":9") + path()],
    ["with a login in it", (here) => `${here.replace("//", "//user:pass@")}${path()}`],
    ["with the host as a login", (here) => `http://${new URL(here).host}@evil.example${path()}`],
    ["with the host as a beginning", (here) => `http://${new URL(here).hostname}.evil.example${path()}`],
    ["of another account", (here) => here + path(`AC${"b".repeat(32)}`)],
    ["of another message", (here) => here + path(account, "MM2")],
    ["that climbs out", (here) => `${here}${path()}/../../../Messages.json`],
    ["with the path in its query", (here) => `${here}/other?${path()}`],
    ["of the cloud's metadata", () => "http://169.254.169.254/latest/meta-data/"],
    ["of a file", () => `file:///etc/passwd${path()}`],
    ["that is none", () => "not an address"],
  ])("%s", async (_what, make) => {
    const before = [api.fetched.length, api.creates.length];
    await expect(fetched(ref(make(api.url)))).rejects.toThrow(/^fetching media: /);
    expect([api.fetched.length, api.creates.length]).toEqual(before);
  });

  it.each<[string, Json]>([
    ["that is no reference", null],
    ["of another channel's form", { url: "https://api.twilio.com" }],
  ])("%s", async (_what, wrong) => {
    await expect(fetched(wrong)).rejects.toThrow(/not a reference/);
  });
});

describe("a redirect", () => {
  it("is followed three times at most", async () => {
    await served(
      (request, response) =>
        response.writeHead(302, { location: `http://${request.headers.host}${request.url}x` }).end(),
      async (url) => {
        const ref = await picture(png, "image/png", url);
        await expect(fetched(ref)).rejects.toThrow(/too many redirects/);
      },
    );
  });

  it.each([
    "http://10.0.0.1/x",
    "http://169.254.169.254/latest/meta-data/",
    "https://192.168.1.1/x",
    "https://[fd00::1]/x",
    "https://[::ffff:10.0.0.1]/x",
    "https://8.8.8.8/x",
    "ftp://127.0.0.1/x",
    "file:///etc/passwd",
    "http://user:pass@127.0.0.1/x",
    "",
  ])("of a sandbox stays on this machine: %s is not followed", async (location) => {
    await expect(fetched(await picture(png, "image/png", location))).rejects.toThrow(/^fetching media: /);
  });

  // With the provider elsewhere the rule is the other way round: nothing on this machine, nothing private.
  const outside = async (url: string) => {
    const bytes = openDownload({
      url: new URL(url),
      authorization: "Basic x",
      mediaType: "image/png",
      maxSize: 1000,
      local: false,
      signal: AbortSignal.timeout(60_000),
    });
    const { done } = await bytes[Symbol.asyncIterator]().next();
    expect(done, "nothing may come").toBe(true);
  };

  it.each([
    "https://127.0.0.1/x",
    "https://127.1/x",
    "https://2130706433/x",
    "https://0x7f.1/x",
    "https://0/x",
    "https://localhost/x",
    "https://10.1.2.3/x",
    "https://172.16.0.1/x",
    "https://192.168.0.1/x",
    "https://100.64.0.1/x",
    "https://169.254.169.254/x",
    "https://198.18.0.1/x",
    "https://224.0.0.1/x",
    "https://255.255.255.255/x",
    "https://[::1]/x",
    "https://[::]/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://[::ffff:a9fe:a9fe]/x",
    "https://[64:ff9b::a00:1]/x",
    "https://[fe80::1]/x",
    "https://[fc00::1]/x",
    "https://[2002:7f00:1::]/x",
    "https://[::808:808]/x",
    "https://[3fff::1]/x",
    "https://[5f00::1]/x",
    "https://192.0.2.1/x",
    "https://user:pass@example.com/x",
    "http://example.com/x",
  ])("to %s is never followed from the open internet", async (url) => {
    await expect(outside(url)).rejects.toThrow(/^fetching media: the address/);
  });
});
