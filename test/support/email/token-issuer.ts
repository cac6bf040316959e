// An OAuth2 issuer: a token endpoint, and the introspection that a mail server asks (RFC 6749, RFC 7662).

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface TokenIssuer {
  readonly tokenUrl: string;
  readonly introspectionUrl: string;
  /** Refresh requests so far. */
  readonly requests: readonly URLSearchParams[];
  /** Is this access token good now? */
  good(user: string, token: string): boolean;
  /** Seconds that new tokens live. */
  lifetime(seconds: number): void;
  /** All tokens given out so far end now. */
  revokeTokens(): void;
  /** Every refresh answers with another refresh token, and voids the one it was asked with. */
  rotate(on: boolean): void;
  /** The only refresh token that is good now. */
  readonly refreshToken: string;
  /** The token endpoint answers with this error from now on; null ends it. */
  fail(error: { readonly status: number; readonly code: string } | null): void;
  close(): Promise<void>;
}

/** Tokens are for `user`. */
export async function startTokenIssuer(user: string): Promise<TokenIssuer> {
  const requests: URLSearchParams[] = [];
  const tokens = new Map<string, number>();
  let seconds = 3600;
  let rotating = false;
  let current = "refresh";
  let failure: { status: number; code: string } | null = null;
  const good = (name: string, token: string) => name === user && (tokens.get(token) ?? 0) > Date.now();

  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      const form = new URLSearchParams(body);
      const answer = (status: number, content: object) => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(content));
      };
      if (request.url?.startsWith("/introspect")) {
        const token = form.get("token") ?? "";
        return answer(200, { active: good(user, token), username: user });
      }
      requests.push(form);
      if (failure !== null) return answer(failure.status, { error: failure.code });
      const isApp = form.get("grant_type") === "client_credentials";
      if (isApp && form.get("client_secret") !== "app secret")
        return answer(401, { error: "invalid_client" });
      if (!isApp && form.get("refresh_token") !== current) return answer(400, { error: "invalid_grant" });
      if (rotating) current = `refresh-${requests.length}`;
      const token = `token-${requests.length}-${Math.random().toString(36).slice(2)}`;
      tokens.set(token, Date.now() + seconds * 1000);
      answer(200, {
        access_token: token,
        expires_in: seconds,
        token_type: "Bearer",
        ...(rotating && { refresh_token: current }),
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    tokenUrl: `${base}/token`,
    introspectionUrl: `${base}/introspect`,
    requests,
    good,
    lifetime: (value) => {
      seconds = value;
    },
    revokeTokens: () => tokens.clear(),
    rotate: (on) => {
      rotating = on;
      current = "refresh";
    },
    get refreshToken() {
      return current;
    },
    fail: (error) => {
      failure = error;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
