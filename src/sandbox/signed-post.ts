// A form post as Twilio makes it: signed over the public address, with its headers, never following a redirect.

import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";

export type Form = Readonly<Record<string, string>>;

export interface SignedPost {
  /** As it is configured at the provider; what is signed. A fragment is neither signed nor sent. */
  readonly url: string;
  /** Really connects to this origin (`http://127.0.0.1:1234`) instead of the one of `url`. */
  readonly via?: string | undefined;
  readonly form: Form;
  /** Signs with this token; null sends no signature at all. */
  readonly token: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds; default 15 seconds, as Twilio waits. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** What became of one try. `status` is null when no answer came; `error` then says why. */
export interface Posted {
  readonly status: number | null;
  readonly type: string;
  readonly body: string;
  readonly ms: number;
  readonly error?: "connect" | "timeout" | "cut";
}

/** Never rejects. */
export async function postSigned(post: SignedPost): Promise<Posted> {
  const signed = withoutFragment(post.url);
  const started = performance.now();
  const ms = () => Math.round(performance.now() - started);
  const limit = AbortSignal.timeout(Math.ceil(post.timeoutMs ?? 15_000));
  try {
    const response = await fetch(reached(signed, post.via), {
      method: "POST",
      headers: {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "user-agent": "TwilioProxy/1.1",
        ...(post.token === null ? {} : { "x-twilio-signature": signature(post.token, signed, post.form) }),
        ...post.headers,
      },
      body: new URLSearchParams(post.form).toString(),
      redirect: "manual",
      signal: post.signal ? AbortSignal.any([post.signal, limit]) : limit,
    });
    const body = await response.text();
    return { status: response.status, type: response.headers.get("content-type") ?? "", body, ms: ms() };
  } catch (error) {
    return { status: null, type: "", body: "", ms: ms(), error: reason(error) };
  }
}

/** X-Twilio-Signature, made by Twilio's own code. */
export const signature = (token: string, url: string, form: Form = {}): string =>
  getExpectedTwilioSignature(token, url, form);

/** The address to connect to: the origin of `via` under the path of `url`; ws for http. */
export function reached(url: string, via: string | undefined): string {
  if (via === undefined) return url;
  const { pathname, search, protocol } = new URL(url);
  const origin = protocol.startsWith("ws") ? via.replace(/^http/, "ws") : via;
  return origin.replace(/\/$/, "") + pathname + search;
}

export const withoutFragment = (url: string): string => url.replace(/#.*$/, "");

function reason(error: unknown): "connect" | "timeout" | "cut" {
  if ((error as Error).name === "TimeoutError") return "timeout";
  const code = ((error as Error).cause as { code?: string } | undefined)?.code ?? "";
  return ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code)
    ? "connect"
    : "cut";
}
