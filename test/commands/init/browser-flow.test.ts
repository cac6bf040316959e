// The sign-in with a browser against an authorization server on loopback. The browser is a request that follows the
// issuer's redirect.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { expect, it } from "vitest";
import { type BrowserDialogue, signInByBrowser } from "../../../src/commands/init/sign-in.ts";
import { serve } from "../../support/machine/network.ts";

/** An issuer that grants every code, or answers `/authorize` with an error. It checks PKCE as Google does. */
async function startIssuer(refused?: string) {
  const challenges = new Map<string, string>();
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://issuer.test");
    if (url.pathname === "/authorize") {
      const asked = url.searchParams;
      const back = new URL(asked.get("redirect_uri") ?? "");
      back.searchParams.set("state", asked.get("state") ?? "");
      if (refused === undefined) back.searchParams.set("code", "code-1");
      else back.searchParams.set("error", refused);
      challenges.set("code-1", asked.get("code_challenge") ?? "");
      response.writeHead(302, { location: back.href }).end();
      return;
    }
    let body = "";
    request.on("data", (chunk) => (body += String(chunk)));
    request.on("end", () => {
      const form = new URLSearchParams(body);
      const digest = createHash("sha256")
        .update(form.get("code_verifier") ?? "")
        .digest("base64url");
      const valid = form.get("client_secret") === "secret-1" && challenges.get(form.get("code") ?? "") === digest;
      response.writeHead(valid ? 200 : 400, { "content-type": "application/json" });
      const granted = { access_token: "a", token_type: "bearer", expires_in: 60, refresh_token: "refresh-1" };
      response.end(JSON.stringify(valid ? granted : { error: "invalid_grant" }));
    });
  });
  const url = await serve(server);
  const client = { clientId: "client-1", clientSecret: "secret-1", scope: "https://mail.test/" };
  return { authorizeUrl: `${url}/authorize`, tokenUrl: `${url}/token`, ...client };
}

const running = () => new AbortController().signal;
/** The address to which the issuer sends the browser. */
const redirectOf = async (page: string): Promise<string> =>
  (await fetch(page, { redirect: "manual" })).headers.get("location") ?? "";

it("receives the sign-in of a browser on this machine, and withdraws the question for the address", async () => {
  let withdrawn = false;
  const paste: BrowserDialogue["paste"] = (_wrong, until) =>
    new Promise((resolve) => {
      until.addEventListener("abort", () => {
        withdrawn = true;
        resolve("");
      });
    });
  let closing = "";
  const show = (page: string) => void fetch(page).then(async (page) => (closing = await page.text()));
  expect(await signInByBrowser(await startIssuer(), { show, paste }, running())).toBe("refresh-1");
  expect(withdrawn).toBe(true);
  await expect.poll(() => closing).toContain("Close this page");
});

it("takes the pasted address of a browser on another machine, and refuses addresses of other sign-ins", async () => {
  const page = Promise.withResolvers<string>();
  const paste: BrowserDialogue["paste"] = async (wrong) => {
    const address = await redirectOf(await page.promise);
    expect(wrong("hello")).toContain("begins with http://127.0.0.1:");
    expect(wrong(address.replace(/state=[^&]+/, "state=other"))).toContain("another sign-in");
    expect(wrong(` ${address} `)).toBeUndefined();
    return ` ${address} `;
  };
  expect(await signInByBrowser(await startIssuer(), { show: page.resolve, paste }, running())).toBe("refresh-1");
});

it("answers requests without its state with 404 and keeps waiting", async () => {
  const show = async (page: string) => {
    const address = new URL(await redirectOf(page));
    address.searchParams.set("state", "forged");
    expect((await fetch(address)).status).toBe(404);
    await fetch(page);
  };
  const shown: Promise<void>[] = [];
  const dialogue = { show: (page: string) => void shown.push(show(page)) };
  expect(await signInByBrowser(await startIssuer(), dialogue, running())).toBe("refresh-1");
  await Promise.all(shown);
});

it.each([
  ["access_denied", "the sign-in was declined"],
  ["invalid_scope", "consent screen"],
  ["odd\u001b[2J", "the issuer answers odd2J"],
])("reports %s with its remedy", async (refused, remedy) => {
  const dialogue = { show: (page: string) => void fetch(page) };
  await expect(signInByBrowser(await startIssuer(refused), dialogue, running())).rejects.toThrow(remedy);
});

it("ends when the operator stops the command", async () => {
  const stop = new AbortController();
  const dialogue = { show: () => stop.abort(new Error("stopped")) };
  await expect(signInByBrowser(await startIssuer(), dialogue, stop.signal)).rejects.toThrow("stopped");
});
