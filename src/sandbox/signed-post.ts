// Posts a form as Twilio does: signed over the public URL, with Twilio's headers, without following
// redirects.

import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";

export type Form = Readonly<Record<string, string>>;

export interface SignedPost {
  /** URL as configured at the provider; the signature covers it. A fragment is neither signed nor sent. */
  readonly url: string;
  /** Connects to this origin (`http://127.0.0.1:1234`) instead of the origin of `url`. */
  readonly via?: string | undefined;
  readonly form: Form;
  /** Auth token for the signature; null sends none. */
  readonly token: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Timeout in milliseconds; default 15 seconds, like Twilio. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Result of one attempt. `status` is null when no response arrived; `error` contains the reason. */
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

/** Computes X-Twilio-Signature with Twilio's own code. */
export const signature = (token: string, url: string, form: Form = {}): string =>
  getExpectedTwilioSignature(token, url, form);

/** Returns the address to connect to: the origin of `via` with the path of `url`; ws for http. */
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
