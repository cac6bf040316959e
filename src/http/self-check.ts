// Checks that the listener answers, over a real connection like a monitor.

import { request } from "node:http";

/** Resolves when `url`'s /healthz answers 200. Rejects when it does not, or when the signal aborts. */
export function askHealth(url: string, signal: AbortSignal): Promise<void> {
  const target = new URL("/healthz", url);
  // A listener on all addresses must answer on loopback too.
  if (target.hostname === "0.0.0.0") target.hostname = "127.0.0.1";
  if (target.hostname === "[::]") target.hostname = "[::1]";
  return new Promise((resolve, reject) => {
    const asking = request(target, { signal, agent: false }, (response) => {
      response.resume();
      response.once("error", reject);
      response.once("end", () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`asking the own listener: it answers ${response.statusCode}`));
      });
    });
    asking.once("error", (cause) => reject(new Error("asking the own listener", { cause })));
    asking.end();
  });
}
