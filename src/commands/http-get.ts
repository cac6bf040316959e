// HTTP requests of commands, to the daemon and to the servers that the configuration names.

import { request as plainRequest } from "node:http";
import { request as encryptedRequest } from "node:https";
import { standardTiming } from "../ops/timing.ts";

interface Got {
  readonly status: number;
  /** The header Date. */
  readonly date: string | undefined;
  /** At most about 4 MiB. */
  readonly body: string;
}

const mostBytes = 4 * 2 ** 20;

/** One GET request without redirects, for at most `commands.probe`. Certificates are not judged. */
export function get(url: URL, signal: AbortSignal): Promise<Got> {
  const request = url.protocol === "https:" ? encryptedRequest : plainRequest;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(standardTiming.commands.probe)]);
  return new Promise((resolve, reject) => {
    const asking = request(url, { signal: limit, agent: false, rejectUnauthorized: false }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        if (body.length < mostBytes) body += chunk;
      });
      response.once("error", reject);
      response.once("end", () =>
        resolve({ status: response.statusCode ?? 0, date: response.headers.date, body }),
      );
    });
    asking.once("error", reject);
    asking.end();
  });
}

/** `host:port`, with brackets around an IPv6 address. */
export const hostPort = (host: string, port: number): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** The URL under which a listener of this machine is reached. One on all addresses answers on loopback. */
export function localUrl({ host, port }: { readonly host: string; readonly port: number }): string {
  const local = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${hostPort(local, port)}`;
}
