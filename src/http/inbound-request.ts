// A received request as the `Request` that handlers get. Its usual members are read from what was received;
// a complete `Request` with its streams and signals is made only when a handler uses another member. That
// makes most of the cost of a webhook.

export interface Received {
  /** The public URL of the request. */
  readonly url: string;
  readonly method: string;
  /** Names and values in turn, as `IncomingMessage.rawHeaders`. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array<ArrayBuffer>;
  /** Called at the first use of the request's signal. Returns a signal that aborts when the client
   *  disconnects. */
  readonly signal: () => AbortSignal;
}

/** Returns the request. Its body can be read once, like that of any `Request`. Throws a TypeError at the
 *  first use when a header is malformed. */
export function inboundRequest(received: Received): Request {
  return new InboundRequest(received) as unknown as Request;
}

/** The members that webhooks use. All others are those of the complete request. */
class InboundRequest {
  readonly #received: Received;
  #headers: Headers | undefined;
  #complete: Request | undefined;
  #used = false;

  constructor(received: Received) {
    this.#received = received;
  }

  get url(): string {
    return this.#received.url;
  }

  get method(): string {
    return this.#received.method;
  }

  get headers(): Headers {
    return (this.#headers ??= headersOf(this.#received.rawHeaders));
  }

  get bodyUsed(): boolean {
    return this.#complete?.bodyUsed ?? this.#used;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#take().slice().buffer;
  }

  async text(): Promise<string> {
    return decoder.decode(this.#take());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  /** Returns the body, once. */
  #take(): Uint8Array<ArrayBuffer> {
    if (this.bodyUsed || this.#complete?.body?.locked) throw new TypeError("the body was read already");
    this.#used = true;
    return this.#received.body;
  }

  complete(): Request {
    if (this.#complete) return this.#complete;
    const { url, method, body, signal } = this.#received;
    const hasBody = method !== "GET" && method !== "HEAD";
    this.#complete = new Request(url, {
      method,
      headers: this.headers,
      signal: signal(),
      ...(hasBody ? { body } : {}),
    });
    // It rejects a second reading like any request.
    if (this.#used && hasBody) void this.#complete.arrayBuffer();
    return this.#complete;
  }
}

const decoder = new TextDecoder();

/** Delegates the members of `Request` that are not declared above. */
for (const name of Object.getOwnPropertyNames(Request.prototype)) {
  if (name === "constructor" || Object.hasOwn(InboundRequest.prototype, name)) continue;
  const isMethod = typeof Object.getOwnPropertyDescriptor(Request.prototype, name)?.value === "function";
  Object.defineProperty(InboundRequest.prototype, name, {
    configurable: true,
    get(this: InboundRequest) {
      const complete = this.complete();
      const value = Reflect.get(complete, name) as unknown;
      return isMethod ? (value as () => unknown).bind(complete) : value;
    },
  });
}
// `instanceof Request` holds for it.
Object.setPrototypeOf(InboundRequest.prototype, Request.prototype);

function headersOf(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at] ?? "", raw[at + 1] ?? "");
  return headers;
}
