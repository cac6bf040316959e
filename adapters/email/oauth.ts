// Requests access tokens with a refresh token (RFC 6749, section 6) or for the application itself (section 4.4), and
// renews them before they expire. A refresh token that the issuer rotates is stored encrypted in the core's database.

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { Clock, Log, SecretStore } from "bridgehead/contract";
import type { OAuth2Config } from "./config.ts";
import type { EmailTiming } from "./timing.ts";

export interface AccessToken {
  readonly value: string;
  /** Epoch ms; connections that use the token should have ended by then. */
  readonly expiresAt: number;
}

/** The reason for a failed token request. `certain`: the grant is revoked and only an operator can renew it. */
export interface TokenFailure extends Error {
  readonly tokenFailure: { readonly certain: boolean; readonly code: string };
}

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

/** Error codes for which a retry cannot help (RFC 6749, section 5.2). */
const finalErrors = new Set(["invalid_grant", "invalid_client", "unauthorized_client"]);

/** Returns the token endpoint of a grant and the scope to request; the scope is undefined when none is needed. */
export function endpointOf(grant: OAuth2Config): {
  readonly url: string;
  readonly scope: string | undefined;
} {
  const known = grant.token_url === "google" || grant.token_url === "microsoft" ? endpoints[grant.token_url] : null;
  const usual = grant.grant === "client_credentials" ? known?.app : known?.user;
  return { url: known?.url(grant.tenant ?? "common") ?? grant.token_url, scope: grant.scope ?? usual };
}

/** The access tokens of one configured grant, which the channels that use the grant share. Concurrent calls share one
 *  request. `kept` stores a rotated refresh token across restarts. */
export class TokenSource {
  readonly #grant: OAuth2Config;
  readonly #clock: Clock;
  readonly #timing: EmailTiming;
  readonly #kept: KeptToken | undefined;
  /** The newest refresh token known to this process. */
  #newest: string;
  #token: AccessToken | null = null;
  #renewAt = 0;
  #pending: Promise<AccessToken> | null = null;

  constructor(
    grant: OAuth2Config,
    { clock, timing }: { readonly clock: Clock; readonly timing: EmailTiming },
    kept?: KeptToken,
  ) {
    this.#grant = grant;
    this.#clock = clock;
    this.#timing = timing;
    this.#kept = grant.refresh_token === undefined ? undefined : kept;
    this.#newest = grant.refresh_token ?? "";
  }

  /** Returns a token that stays valid for some minutes. `fresh` bypasses the cached token, which the
   *  server just rejected. */
  get(options?: { readonly fresh?: boolean }): Promise<AccessToken> {
    if (!options?.fresh && this.#token !== null && this.#clock.now() < this.#renewAt)
      return Promise.resolve(this.#token);
    this.#pending ??= this.#request().finally(() => (this.#pending = null));
    return this.#pending;
  }

  async #request(): Promise<AccessToken> {
    const { grant, refresh_token: configured } = this.#grant;
    if (grant === "client_credentials") return this.#exchange({ grant_type: "client_credentials" });
    this.#newest = (await this.#kept?.read()) ?? this.#newest;
    const tried = this.#newest;
    try {
      return await this.#refresh(tried);
    } catch (error) {
      if (!isTokenFailure(error) || error.tokenFailure.code !== "invalid_grant") throw error;
      // Another channel or node may have rotated the token in the interval. Otherwise the configured token
      // may still be valid.
      const other = [await this.#kept?.read(), configured].find((one) => one != null && one !== tried);
      if (other == null) throw error;
      return this.#refresh(other);
    }
  }

  #refresh(refreshToken: string): Promise<AccessToken> {
    return this.#exchange({ grant_type: "refresh_token", refresh_token: refreshToken });
  }

  async #exchange(fields: Readonly<Record<string, string>>): Promise<AccessToken> {
    const { client_id, client_secret } = this.#grant;
    const { url, scope } = endpointOf(this.#grant);
    const form = new URLSearchParams({
      ...fields,
      client_id,
      ...(client_secret === undefined ? {} : { client_secret }),
      ...(scope === undefined ? {} : { scope }),
    });
    const { tokenLifetime, tokenRenewal, tokenRequest } = this.#timing;
    let response: Response;
    try {
      response = await fetch(url, { method: "POST", body: form, signal: AbortSignal.timeout(tokenRequest) });
    } catch (error) {
      const isLate = (error as Error).name === "TimeoutError";
      throw failure(isLate ? "the endpoint does not answer" : "the endpoint cannot be reached", false, error);
    }
    const body = (await response.json().catch(() => ({}))) as Readonly<Record<string, unknown>>;
    if (!response.ok || typeof body["access_token"] !== "string") {
      const code = typeof body["error"] === "string" ? body["error"].slice(0, 60) : `HTTP ${response.status}`;
      throw failure(code, finalErrors.has(code));
    }
    const rotated = body["refresh_token"];
    const { refresh_token: used } = fields;
    if (typeof rotated === "string" && used !== undefined && rotated !== used) {
      this.#newest = rotated;
      // Stored before the first use of the new access token, because the old refresh token may be invalid from now on.
      await this.#kept?.write(rotated);
    }
    const seconds = Number(body["expires_in"]);
    const lifetime = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : tokenLifetime;
    this.#token = { value: body["access_token"], expiresAt: this.#clock.now() + lifetime };
    this.#renewAt = this.#token.expiresAt - Math.min(tokenRenewal, lifetime / 2);
    return this.#token;
  }
}

/** A refresh token in the core's database. Neither method rejects: when the database fails, the configured token is used.
 *  The storage name and the encryption key are derived from the configured refresh token. A changed token in the
 *  configuration is newer and takes precedence, and a backup of the database alone reveals nothing. */
export class KeptToken {
  readonly #secrets: SecretStore;
  readonly #log: Log;
  readonly #name: string;
  readonly #key: Buffer;

  constructor(grant: OAuth2Config, secrets: SecretStore, log: Log) {
    const derive = (purpose: string): Buffer =>
      Buffer.from(hkdfSync("sha256", grant.refresh_token ?? "", `${grant.token_url} ${grant.client_id}`, purpose, 32));
    this.#name = `oauth/${derive("name").toString("hex").slice(0, 32)}`;
    this.#key = derive("key");
    this.#secrets = secrets;
    this.#log = log;
  }

  /** Returns null when none was stored since the configured token was written. */
  async read(): Promise<string | null> {
    try {
      const stored = await this.#secrets.read(this.#name);
      return stored === null ? null : decrypt(stored, this.#key);
    } catch (error) {
      this.#complain(error, "read");
      return null;
    }
  }

  async write(refreshToken: string): Promise<void> {
    await this.#secrets
      .write(this.#name, encrypt(refreshToken, this.#key))
      .catch((error: unknown) => this.#complain(error, "store"));
  }

  #complain(error: unknown, action: string): void {
    this.#log.warn({ err: error, action }, "rotated oauth refresh token not kept");
  }
}

/** AES-256-GCM: nonce, tag and text, in base64. */
function encrypt(text: string, key: Buffer): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64");
}

/** Throws for a value that was changed or encrypted under another key. */
function decrypt(stored: string, key: Buffer): string {
  const bytes = Buffer.from(stored, "base64");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
  decipher.setAuthTag(bytes.subarray(12, 28));
  return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
}
