// Sign-in with a browser and a redirect to this machine (RFC 8252, section 7.3, with PKCE, RFC 7636). For Google, whose
// device flow does not grant access to mail (developers.google.com/identity/protocols/oauth2/limited-input-device).

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as oauth from "oauth4webapi";
import { explained, oauthClient } from "./device-flow.ts";
import { Stopped } from "./prompter.ts";

export interface BrowserGrant {
  readonly authorizeUrl: string;
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  readonly scope: string;
}

export interface BrowserDialogue {
  /** Called once with the address to open. */
  show(page: string): void;
  /** Asks for the address at which the browser ended. A browser on another machine cannot open it. `wrong` returns why an
   *  address is refused. Ends with an empty text when `until` aborts. Absent without a terminal. */
  paste?(wrong: (text: string) => string | undefined, until: AbortSignal): Promise<string>;
}

/** Runs the flow: the redirect is received on a port of 127.0.0.1, or its address is pasted. Resolves with the refresh
 *  token; rejects with one line for the operator. */
export async function signInByBrowser(
  grant: BrowserGrant,
  dialogue: BrowserDialogue,
  signal: AbortSignal,
): Promise<string> {
  const { authorizeUrl, tokenUrl, clientId, scope } = grant;
  const { client, login, options } = oauthClient(grant, signal);
  const issuer = new URL(authorizeUrl).origin;
  const server: oauth.AuthorizationServer = { issuer, token_endpoint: tokenUrl };
  const state = oauth.generateRandomState();
  const verifier = oauth.generateRandomCodeVerifier();
  const finished = new AbortController();
  const arrived = Promise.withResolvers<URL>();
  const listener = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const ours = url.pathname === "/" && url.searchParams.get("state") === state;
    response.writeHead(ours ? 200 : 404, { "content-type": "text/plain", connection: "close" });
    response.end(ours ? "Bridgehead has received the sign-in. Close this page.\n" : "not found\n");
    if (ours) arrived.resolve(url);
  });
  try {
    await once(listener.listen(0, "127.0.0.1"), "listening", { signal });
    const redirect = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/`;
    const page = new URL(authorizeUrl);
    const query = {
      client_id: clientId,
      redirect_uri: redirect,
      response_type: "code",
      scope,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      access_type: "offline", // Google: grant a refresh token, also when the account has signed in before
      prompt: "consent",
    };
    for (const [name, value] of Object.entries(query)) page.searchParams.set(name, value);
    const stopped = () => arrived.reject(signal.reason);
    signal.addEventListener("abort", stopped, { once: true });
    dialogue.show(page.href);
    const until = AbortSignal.any([finished.signal, signal]);
    const pasted = dialogue.paste?.((text) => refusal(text, state), until);
    pasted?.then((text) => text !== "" && arrived.resolve(new URL(text.trim())), arrived.reject);
    const answer = await arrived.promise.finally(() => signal.removeEventListener("abort", stopped));
    finished.abort();
    const parameters = oauth.validateAuthResponse(server, client, answer, state);
    const request = [server, client, login, parameters, redirect, verifier, options] as const;
    const response = await oauth.authorizationCodeGrantRequest(...request);
    const granted = await oauth.processAuthorizationCodeResponse(server, client, response);
    if (granted.refresh_token === undefined) throw new Error("the issuer granted no refresh token");
    return granted.refresh_token;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Stopped) throw error;
    throw new Error(explained(error), { cause: error });
  } finally {
    finished.abort();
    listener.close();
    listener.closeAllConnections();
  }
}

/** Why a pasted address is not the one that the browser ended at. */
function refusal(text: string, state: string): string | undefined {
  const url = URL.parse(text.trim());
  if (url?.hostname !== "127.0.0.1") return "Paste the complete address, which begins with http://127.0.0.1:";
  return url.searchParams.get("state") === state ? undefined : "This address belongs to another sign-in";
}
