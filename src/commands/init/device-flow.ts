// OAuth 2.0 Device Authorization Grant (RFC 8628): the operator signs in with a browser on any machine, and this
// terminal receives the refresh token of the mailbox.

import * as oauth from "oauth4webapi";
import { systemClock } from "../../ops/clock.ts";
import type { BrowserGrant } from "./browser-flow.ts";

export interface DeviceGrant {
  readonly deviceUrl: string;
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
    scope:
      "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access",
  }),
} as const;

export interface SignInEndpoints {
  google(): Pick<BrowserGrant, "authorizeUrl" | "tokenUrl" | "scope">;
  microsoft(tenant: string): Pick<DeviceGrant, "deviceUrl" | "tokenUrl" | "scope">;
}

/** Seconds that RFC 8628 adds to the interval after `slow_down`, and the interval without one in the response. */
const slowDown = 5;

/** The client, its authentication and the options of requests to the token endpoint. Plain HTTP is for tests on loopback. */
export function oauthClient(
  { clientId, clientSecret, tokenUrl }: Pick<DeviceGrant, "clientId" | "clientSecret" | "tokenUrl">,
  signal: AbortSignal,
) {
  const client: oauth.Client = { client_id: clientId };
  const login = clientSecret === undefined ? oauth.None() : oauth.ClientSecretPost(clientSecret);
  const options = { signal, [oauth.allowInsecureRequests]: new URL(tokenUrl).hostname === "127.0.0.1" };
  return { client, login, options };
}

/** Runs the flow. `show` is called once with the page and the code for the operator. Resolves with the refresh token;
 *  rejects with one line for the operator. */
export async function signIn(
  grant: DeviceGrant,
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
  unauthorized_client:
    "this application may not use the device flow: allow public client flows in its registration",
  invalid_scope: "this application may not request access to mail: add the scope to its consent screen",
  redirect_uri_mismatch:
    "the client's type forbids a redirect to this machine: create one of type Desktop app",
  access_denied: "the sign-in was declined",
  expired_token: "the code has expired before it was entered",
};

/** One line for the operator about a failed sign-in. */
export function explained(error: unknown): string {
  if (!(error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError))
    return error instanceof Error ? error.message : String(error);
  return remedies[error.error] ?? `the issuer answers ${error.error.replace(/[^\w-]/g, "").slice(0, 60)}`;
}
