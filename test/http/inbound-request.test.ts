import { describe, expect, it } from "vitest";
import { inboundRequest, type Received } from "../../src/http/channel-route.ts";

const received = (changes: Partial<Received> = {}): Received => ({
  url: "https://bridge.example.com/channels/sms/inbound?x=1",
  method: "POST",
  rawHeaders: ["Content-Type", "application/x-www-form-urlencoded", "X-Twice", "a", "X-Twice", "b"],
  body: new Uint8Array(Buffer.from("From=%2B1&Body=caf%C3%A9")),
  signal: () => new AbortController().signal,
  ...changes,
});

describe("an inbound request", () => {
  it("has what was received", async () => {
    const request = inboundRequest(received());
    // Hono exchanges the global class when it is loaded.
    expect(Object.prototype.toString.call(request)).toBe("[object Request]");
    expect([request.url, request.method]).toEqual([received().url, "POST"]);
    expect(request.headers.get("x-twice")).toBe("a, b");
    expect(await request.text()).toBe("From=%2B1&Body=caf%C3%A9");
  });

  it("gives its body once", async () => {
    const request = inboundRequest(received());
    expect(request.bodyUsed).toBe(false);
    expect(Buffer.from(await request.arrayBuffer()).toString()).toContain("Body=");
    expect(request.bodyUsed).toBe(true);
    await expect(request.text()).rejects.toThrow(TypeError);
    await expect(request.formData()).rejects.toThrow();
  });

  it("has the other members of a request, and then one body with them", async () => {
    const request = inboundRequest(received());
    expect((await request.clone().formData()).get("Body")).toBe("café");
    expect((await request.formData()).get("From")).toBe("+1");
    expect(request.bodyUsed).toBe(true);
    await expect(request.arrayBuffer()).rejects.toThrow(TypeError);
  });

  it("reads JSON", async () => {
    const body = new Uint8Array(Buffer.from('{"a":[1]}'));
    expect(await inboundRequest(received({ body })).json()).toEqual({ a: [1] });
  });

  it("aborts its signal with that of the connection", () => {
    const gone = new AbortController();
    const { signal } = inboundRequest(received({ signal: () => gone.signal }));
    gone.abort();
    expect(signal.aborted).toBe(true);
  });
});
