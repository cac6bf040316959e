// Access tokens from a refresh token (RFC 6749, section 6), renewed before they expire.

import type { Clock } from "bridgehead/contract";
import type { OAuth2Config } from "./config.ts";

export interface AccessToken {
  readonly value: string;
  /** Epoch ms; what uses it should have ended by then. */
  readonly expiresAt: number;
}

export interface TokenSource {
  /** A token that is good for some minutes. `fresh` skips the one in hand (the server just rejected it). */
  get(options?: { readonly fresh?: boolean }): Promise<AccessToken>;
}

/** Why there is no token. `certain`: the grant is gone and only a person can renew it. */
export interface TokenFailure extends Error {
  readonly tokenFailure: { readonly certain: boolean };
}

/** Tells a failure of the token endpoint from every other error. */
export function isTokenFailure(error: unknown): error is TokenFailure {
  return error instanceof Error && "tokenFailure" in error;
}

function failure(what: string, certain: boolean, cause?: unknown): TokenFailure {
  const error = new Error(`asking for an access token failed: ${what}`, { cause });
  return Object.assign(error, { tokenFailure: { certain } });
}

const endpoints = {
  google: { url: "https://oauth2.googleapis.com/token", scope: undefined },
  microsoft: {
    url: "https://login.microsoftonline.com/common/oauth2/v2.0/token",
    scope:
      "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access",
  },
} as const;

/** Errors after which asking again cannot help (RFC 6749, section 5.2). */
const finalErrors = new Set(["invalid_grant", "invalid_client", "unauthorized_client"]);

/** One source per configured grant; calls at the same time share one request. */
export function tokenSource(grant: OAuth2Config, clock: Clock): TokenSource {
  const known =
    grant.token_url === "google" || grant.token_url === "microsoft" ? endpoints[grant.token_url] : null;
  const url = known?.url ?? grant.token_url;
  const scope = grant.scope ?? known?.scope;
  let refreshToken = grant.refresh_token;
  let token: AccessToken | null = null;
  let renewAt = 0;
  let pending: Promise<AccessToken> | null = null;

  async function request(): Promise<AccessToken> {
    const form = new URLSearchParams({
      grant_type: "refresh_token",
      client_id: grant.client_id,
      refresh_token: refreshToken,
      ...(grant.client_secret === undefined ? {} : { client_secret: grant.client_secret }),
      ...(scope === undefined ? {} : { scope }),
    });
    let response: Response;
    try {
      response = await fetch(url, { method: "POST", body: form, signal: AbortSignal.timeout(20_000) });
    } catch (error) {
      throw failure("the endpoint cannot be reached", false, error);
    }
    const body = (await response.json().catch(() => ({}))) as Readonly<Record<string, unknown>>;
    if (!response.ok || typeof body["access_token"] !== "string") {
      const code = typeof body["error"] === "string" ? body["error"].slice(0, 60) : `HTTP ${response.status}`;
      throw failure(code, finalErrors.has(code));
    }
    // Some issuers rotate the refresh token; the old one stays good for the next start.
    if (typeof body["refresh_token"] === "string") refreshToken = body["refresh_token"];
    const seconds = Number(body["expires_in"]);
    const lifetime = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 3_600_000;
    token = { value: body["access_token"], expiresAt: clock.now() + lifetime };
    // Replaced five minutes before its end, or at half its life when it is a short one.
    renewAt = token.expiresAt - Math.min(300_000, lifetime / 2);
    return token;
  }

  return {
    get(options) {
      if (!options?.fresh && token !== null && clock.now() < renewAt) return Promise.resolve(token);
      pending ??= request().finally(() => (pending = null));
      return pending;
    },
  };
}
