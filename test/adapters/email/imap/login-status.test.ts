// What the response to a login says about the channel (RFC 5530, RFC 4954).

import { describe, expect, it } from "vitest";
import { statusOf, statusOfSide } from "../../../../adapters/email/status.ts";

/** The error of imapflow for a tagged NO with this response code. */
const refusedBy = (serverResponseCode: string, response = "Failed.") =>
  Object.assign(new Error("Command failed"), { authenticationFailed: true, serverResponseCode, response });

describe("an IMAP login that is refused with a response code", () => {
  it.each([
    ["AUTHENTICATIONFAILED", "unauthorized", "login", "the server rejects the credentials"],
    ["AUTHORIZATIONFAILED", "unauthorized", "login", "the server rejects the credentials"],
    ["EXPIRED", "unauthorized", "login", "the password has expired"],
    ["NOPERM", "unauthorized", "login", "the account has no permission to log in"],
    ["CONTACTADMIN", "unauthorized", "login", "the account is blocked until its administrator has been contacted"],
    ["PRIVACYREQUIRED", "degraded", "tls", "the server accepts the login only over an encrypted connection"],
    ["UNAVAILABLE", "degraded", "server", "the server cannot process the login now"],
    ["SERVERBUG", "degraded", "server", "the server cannot process the login now"],
    ["INUSE", "degraded", "server", "the server cannot process the login now"],
    ["LIMIT", "degraded", "throttled", "the login was throttled"],
    ["OVERQUOTA", "degraded", "throttled", "the login was throttled"],
  ] as const)("%s means %s (%s), however often it is repeated", (code, state, kind, reason) => {
    for (const count of [1, 10]) expect(statusOf(refusedBy(code), count)).toEqual({ state, code: kind, reason });
  });

  it("prefers the code to the text", () => {
    const error = refusedBy("UNAVAILABLE", "Temporary authentication failure, too many sessions.");
    expect(statusOf(error, 1)).toMatchObject({ code: "server" });
  });

  it("suspects the credentials after three refusals with an unknown code", () => {
    expect(statusOf(refusedBy("__proto__"), 1)).toMatchObject({ state: "degraded", code: "login" });
    expect(statusOf(refusedBy("WEBALERT"), 3)).toMatchObject({ state: "unauthorized", code: "login" });
  });
});

it("names the side in the reason, unless the store or the parser is the cause", () => {
  const error = refusedBy("EXPIRED");
  expect(statusOfSide("smtp", error, 1)).toEqual({
    state: "unauthorized",
    code: "login",
    reason: "smtp: the password has expired",
  });
  expect(statusOfSide("imap", error, 1)).toMatchObject({ reason: "imap: the password has expired" });
  const full = Object.assign(new Error("disk full"), { storeFailed: true });
  expect(statusOfSide("imap", full, 1)).toMatchObject({ code: "store", reason: "storing mail failed: disk full" });
  const parser = Object.assign(new Error("the mail parser does not start: EAGAIN"), { parserFailed: true });
  expect(statusOfSide("imap", parser, 1)).toMatchObject({ code: "parser", reason: parser.message });
});

it("quotes the server's response to a rejected command, on one line", () => {
  const error = Object.assign(new Error("Command failed"), {
    responseStatus: "NO",
    responseText: "Internal error\u001b[31m\noccurred.",
  });
  const reason = "the server rejected a command: Internal error [31m occurred.";
  expect(statusOf(error, 1)).toEqual({ state: "degraded", code: "server", reason });
});

it("reads the reason of a failed handshake from the error of OpenSSL, in the errors of nodemailer as well", () => {
  const line =
    "404DA80FAD7F0000:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:../tls.c:77:";
  const reason = "the TLS connection failed: ESOCKET wrong version number";
  const error = Object.assign(new Error(line), { code: "ESOCKET" });
  expect(statusOf(error, 1)).toEqual({ state: "degraded", code: "tls", reason });
});

it("does not blame the credentials for a 4xx response to AUTH", () => {
  const error = Object.assign(new Error("Invalid login"), {
    code: "EAUTH",
    responseCode: 454,
    response: "454 4.3.0 no",
  });
  expect(statusOf(error, 10)).toMatchObject({ state: "degraded", code: "server" });
});

it.each([500, 502, 504])(
  "names a server that knows no such AUTH, as with %i, from the first response",
  (responseCode) => {
    const error = Object.assign(new Error("Invalid login"), { code: "EAUTH", responseCode, response: "no" });
    const reason = "the server offers no such login";
    expect(statusOf(error, 1)).toEqual({ state: "unauthorized", code: "login", reason });
  },
);
