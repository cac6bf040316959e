// The sign-in by device code against an authorization server on loopback.

import { expect, it } from "vitest";
import { signIn } from "../../../src/commands/init/sign-in.ts";
import { bodyServer, serve } from "../../support/machine/network.ts";

type Answer = { readonly status: number; readonly body: object };
const pending: Answer = { status: 400, body: { error: "authorization_pending" } };
const granted: Answer = {
  status: 200,
  body: { access_token: "access-1", token_type: "bearer", expires_in: 3600, refresh_token: "refresh-1" },
};

/** Answers the requests for a token in turn; the last answer is repeated. */
async function startIssuer(answers: readonly Answer[], begun: object = {}) {
  const forms: URLSearchParams[] = [];
  let count = 0;
  const server = bodyServer((body, response, request) => {
    forms.push(new URLSearchParams(body));
    const device = {
      device_code: "device-1",
      user_code: "ABCD-EFGH",
      verification_uri: "https://issuer.test/device",
      expires_in: 600,
      interval: 0.02,
      ...begun,
    };
    const answer =
      request.url === "/device" ? { status: 200, body: device } : answers[Math.min(count++, answers.length - 1)];
    response.writeHead(answer?.status ?? 500, { "content-type": "application/json" });
    response.end(JSON.stringify(answer?.body));
  });
  const url = await serve(server);
  const shown: string[][] = [];
  const grant = { deviceUrl: `${url}/device`, tokenUrl: `${url}/token`, clientId: "client-1", scope: "mail" };
  const sign = (signal = new AbortController().signal, clientSecret?: string) =>
    signIn({ ...grant, clientSecret }, (...of) => shown.push(of), signal);
  return { sign, forms, shown };
}

it("shows the page and the code, polls until the operator has signed in, and returns the refresh token", async () => {
  const { sign, forms, shown } = await startIssuer([pending, pending, granted]);
  expect(await sign(undefined, "secret-1")).toBe("refresh-1");
  expect(shown).toEqual([["https://issuer.test/device", "ABCD-EFGH"]]);
  expect(Object.fromEntries(forms[0] ?? [])).toMatchObject({ scope: "mail", client_id: "client-1" });
  expect(Object.fromEntries(forms[3] ?? [])).toMatchObject({
    grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    device_code: "device-1",
    client_secret: "secret-1",
  });
});

it.each([
  ["access_denied", "the sign-in was declined"],
  ["expired_token", "the code has expired"],
  ["invalid_scope", "consent screen"],
  ["unauthorized_client", "allow public client flows"],
  ["invalid_client", "check the client id"],
  ["odd\u001b[2J", "the issuer answers odd2J"],
])("reports %s with its remedy", async (error, remedy) => {
  const { sign } = await startIssuer([{ status: 400, body: { error } }]);
  await expect(sign()).rejects.toThrow(remedy);
});

it("reports a grant without a refresh token, and a code that was not entered", async () => {
  const { refresh_token: _, ...short } = granted.body as Record<string, unknown>;
  const without = await startIssuer([{ status: 200, body: short }]);
  await expect(without.sign()).rejects.toThrow("no refresh token");
  const expiring = await startIssuer([pending], { expires_in: 0.1 });
  await expect(expiring.sign()).rejects.toThrow("expired before it was entered");
});

it("ends when the operator stops the command", async () => {
  const { sign, shown } = await startIssuer([pending], { interval: 600 });
  const stop = new AbortController();
  const signing = sign(stop.signal);
  await expect.poll(() => shown.length).toBe(1);
  stop.abort(new Error("stopped"));
  await expect(signing).rejects.toThrow("stopped");
});
