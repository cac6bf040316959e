// OAuth sign-in for the mailbox: by device code (RFC 8628), with a browser on any machine, or by a browser and a redirect to
// this machine (RFC 8252, section 7.3, with PKCE, RFC 7636). The latter is for Google, whose device flow does not grant
// access to mail (developers.google.com/identity/protocols/oauth2/limited-input-device).

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as oauth from "oauth4webapi";
import { systemClock } from "../../ops/clock.ts";
import { Stopped } from "./prompter.ts";

interface OauthGrant {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  readonly scope: string;
}

/** Endpoints and scopes of the issuers that the email adapter knows. */
export const signInEndpoints = {
  google: () => ({
    authorizeUrl: "https://accounts.google.com/o/oauth2/v2/auth",
    tokenUrl: "https://oauth2.googleapis.com/token",
    scope: "https://mail.google.com/",
  }),
  microsoft: (tenant: string) => ({
    deviceUrl: `https://login.microsoftonline.com/${encodeURIComponent(tenant)}/oauth2/v2.0/devicecode`,
    tokenUrl: `https://login.microsoftonline.com/${encodeURIComponent(tenant)}/oauth2/v2.0/token`,
    scope: "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access",
  }),
};

export type SignInEndpoints = typeof signInEndpoints;

/** Seconds that RFC 8628 adds to the interval after `slow_down`, and the interval without one in the response. */
const slowDown = 5;

/** The client, its authentication and the options of requests to the token endpoint. Plain HTTP is for tests on loopback. */
function oauthClient({ clientId, clientSecret, tokenUrl }: OauthGrant, signal: AbortSignal) {
  const client: oauth.Client = { client_id: clientId };
  const login = clientSecret === undefined ? oauth.None() : oauth.ClientSecretPost(clientSecret);
  const options = { signal, [oauth.allowInsecureRequests]: new URL(tokenUrl).hostname === "127.0.0.1" };
  return { client, login, options };
}

/** Runs the flow. `show` is called once with the page and the code for the operator. Resolves with the refresh token;
 *  rejects with one line for the operator. */
export async function signIn(
  grant: OauthGrant & { readonly deviceUrl: string },
  show: (page: string, code: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const { deviceUrl, tokenUrl, scope } = grant;
  const { client, login, options } = oauthClient(grant, signal);
  const server: oauth.AuthorizationServer = {
    issuer: new URL(tokenUrl).origin,
    device_authorization_endpoint: deviceUrl,
    token_endpoint: tokenUrl,
  };
  try {
    const begun = await oauth.processDeviceAuthorizationResponse(
      server,
      client,
      await oauth.deviceAuthorizationRequest(server, client, login, { scope }, options),
    );
    show(begun.verification_uri_complete ?? begun.verification_uri, begun.user_code);
    const deadline = systemClock.monotonic() + begun.expires_in * 1000;
    let wait = (begun.interval ?? slowDown) * 1000;
    while (systemClock.monotonic() < deadline) {
      await systemClock.sleep(wait, signal);
      signal.throwIfAborted();
      const response = await oauth.deviceCodeGrantRequest(server, client, login, begun.device_code, options);
      try {
        const granted = await oauth.processDeviceCodeResponse(server, client, response);
        if (granted.refresh_token === undefined) throw new Error("the issuer granted no refresh token");
        return granted.refresh_token;
      } catch (error) {
        const code = error instanceof oauth.ResponseBodyError ? error.error : "";
        if (code === "slow_down") wait += slowDown * 1000;
        else if (code !== "authorization_pending") throw error;
      }
    }
    throw new Error("the code has expired before it was entered");
  } catch (error) {
    signal.throwIfAborted();
    throw new Error(explained(error), { cause: error });
  }
}

const remedies: Readonly<Record<string, string>> = {
  invalid_client: "the issuer does not know this client: check the client id, and its secret if it has one",
  unauthorized_client: "this application may not use the device flow: allow public client flows in its registration",
  invalid_scope: "this application may not request access to mail: add the scope to its consent screen",
  redirect_uri_mismatch: "the client's type forbids a redirect to this machine: create one of type Desktop app",
  access_denied: "the sign-in was declined",
  expired_token: "the code has expired before it was entered",
};

/** One line for the operator about a failed sign-in. */
function explained(error: unknown): string {
  if (!(error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError))
    return error instanceof Error ? error.message : String(error);
  return remedies[error.error] ?? `the issuer answers ${error.error.replace(/[^\w-]/g, "").slice(0, 60)}`;
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
  grant: OauthGrant & { readonly authorizeUrl: string },
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
