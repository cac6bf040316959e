// Access tokens from a refresh token (RFC 6749, section 6) or for the application itself (section 4.4), renewed before
// they expire. A refresh token that the issuer rotates is kept, encrypted, in the core's store.

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { Clock, Log, SecretStore } from "bridgehead/contract";
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
  readonly tokenFailure: { readonly certain: boolean; readonly code: string };
}

/** Tells a failure of the token endpoint from every other error. */
export function isTokenFailure(error: unknown): error is TokenFailure {
  return error instanceof Error && "tokenFailure" in error;
}

function failure(what: string, certain: boolean, cause?: unknown): TokenFailure {
  const error = new Error(`asking for an access token failed: ${what}`, { cause });
  return Object.assign(error, { tokenFailure: { certain, code: what } });
}

const endpoints = {
  google: { url: () => "https://oauth2.googleapis.com/token", user: undefined, app: undefined },
  microsoft: {
    url: (tenant: string) => `https://login.microsoftonline.com/${tenant}/oauth2/v2.0/token`,
    user: "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access",
    app: "https://outlook.office365.com/.default",
  },
} as const;

/** Errors after which asking again cannot help (RFC 6749, section 5.2). */
const finalErrors = new Set(["invalid_grant", "invalid_client", "unauthorized_client"]);

/** Where the tokens of a grant are asked for, and with which scope; undefined for none. */
export function endpointOf(grant: OAuth2Config): {
  readonly url: string;
  readonly scope: string | undefined;
} {
  const known =
    grant.token_url === "google" || grant.token_url === "microsoft" ? endpoints[grant.token_url] : null;
  const usual = grant.grant === "client_credentials" ? known?.app : known?.user;
  return { url: known?.url(grant.tenant ?? "common") ?? grant.token_url, scope: grant.scope ?? usual };
}

/** One source per configured grant; calls at the same time share one request. `kept` holds a rotated refresh token across
 *  restarts; it is shared by the channels that use the same grant. */
export function tokenSource(grant: OAuth2Config, clock: Clock, kept?: KeptToken): TokenSource {
  const { url, scope } = endpointOf(grant);
  const isApp = grant.grant === "client_credentials";
  /** The newest refresh token that this process knows of. */
  let newest = grant.refresh_token ?? "";
  let token: AccessToken | null = null;
  let renewAt = 0;
  let pending: Promise<AccessToken> | null = null;

  async function request(): Promise<AccessToken> {
    if (isApp) return exchange({ grant_type: "client_credentials" });
    newest = (await kept?.read()) ?? newest;
    const tried = newest;
    try {
      return await refresh(tried);
    } catch (error) {
      if (!isTokenFailure(error) || error.tokenFailure.code !== "invalid_grant") throw error;
      // Another channel or node may have rotated it meanwhile; else the configured one may still be good.
      const other = [await kept?.read(), grant.refresh_token].find((one) => one != null && one !== tried);
      if (other == null) throw error;
      return refresh(other);
    }
  }

  async function refresh(refreshToken: string): Promise<AccessToken> {
    return exchange({ grant_type: "refresh_token", refresh_token: refreshToken }, async (next) => {
      if (next === refreshToken) return;
      newest = next;
      // Before the first use of the new access token: the old refresh token may be void from here on.
      await kept?.write(next);
    });
  }

  async function exchange(
    fields: Readonly<Record<string, string>>,
    rotated?: (refreshToken: string) => Promise<void>,
  ): Promise<AccessToken> {
    const form = new URLSearchParams({
      ...fields,
      client_id: grant.client_id,
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
    if (typeof body["refresh_token"] === "string") await rotated?.(body["refresh_token"]);
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

/** A refresh token in the core's store. Neither member rejects: without the store the configured token is used. */
export interface KeptToken {
  /** Null when none was stored since the configured one was written. */
  read(): Promise<string | null>;
  write(refreshToken: string): Promise<void>;
}

/** Bound to the configured refresh token: its name and its key are made from it. So a changed one in the file is newer and
 *  wins, and a backup of the store alone reveals nothing. Undefined for a grant without a refresh token. */
export function keptToken(grant: OAuth2Config, secrets: SecretStore, log: Log): KeptToken | undefined {
  const { refresh_token: configured } = grant;
  if (configured === undefined) return undefined;
  const derive = (purpose: string): Buffer =>
    Buffer.from(hkdfSync("sha256", configured, `${grant.token_url} ${grant.client_id}`, purpose, 32));
  const name = `oauth/${derive("name").toString("hex").slice(0, 32)}`;
  const key = derive("key");
  const complain = (error: unknown, what: string) =>
    log.warn({ err: error }, `a rotated refresh token could not be ${what}`);
  return {
    async read() {
      try {
        const stored = await secrets.read(name);
        return stored === null ? null : decrypt(stored, key);
      } catch (error) {
        complain(error, "read");
        return null;
      }
    },
    async write(refreshToken) {
      await secrets
        .write(name, encrypt(refreshToken, key))
        .catch((error: unknown) => complain(error, "stored"));
    },
  };
}

/** AES-256-GCM: nonce, tag and text, in base64. */
function encrypt(text: string, key: Buffer): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64");
}

/** Throws for what was changed, or encrypted under another key. */
function decrypt(stored: string, key: Buffer): string {
  const bytes = Buffer.from(stored, "base64");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
  decipher.setAuthTag(bytes.subarray(12, 28));
  return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
}
