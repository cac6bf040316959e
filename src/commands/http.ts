// HTTP requests of commands, to the daemon and to the servers that the configuration names. bridgehead health asks the
// running daemon for /readyz, or with --live for /healthz; it is for HEALTHCHECK of a container and for monitors without an
// HTTP client. bridgehead console prints a link that logs a browser in to the web console, once: it writes the link's hash
// to the store, which the running daemon reads.

import { request as plainRequest } from "node:http";
import { request as encryptedRequest } from "node:https";
import type { ChannelReport } from "../channels/readiness.ts";
import { loadAdminListener, loadConsole } from "../config/index.ts";
import { createLoginLink } from "../console/session.ts";
import { askHealth } from "../http/health.ts";
import type { ChannelOverview } from "../store/operators/overview.ts";
import { type CommandOptions, exitCodes, fail, type Io, probeLimit, type Requesting } from "./io.ts";
import { load, useStore } from "./store/open.ts";
import { cleanLines } from "./text.ts";

interface Got {
  readonly status: number;
  /** The header Date. */
  readonly date: string | undefined;
  /** At most about 4 MiB. */
  readonly body: string;
}

const mostBytes = 4 * 2 ** 20;

/** One GET request without redirects, for at most `commands.probe`. Certificates are not judged. */
export function get(url: URL, io: Requesting): Promise<Got> {
  const request = url.protocol === "https:" ? encryptedRequest : plainRequest;
  const limit = probeLimit(io);
  return new Promise((resolve, reject) => {
    const asking = request(url, { signal: limit, agent: false, rejectUnauthorized: false }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        if (body.length < mostBytes) body += chunk;
      });
      response.once("error", reject);
      response.once("end", () => resolve({ status: response.statusCode ?? 0, date: response.headers.date, body }));
    });
    asking.once("error", reject);
    asking.end();
  });
}

/** `host:port`, with brackets around an IPv6 address. */
export const hostPort = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** The URL under which a listener of this machine is reached. One on all addresses answers on loopback. */
export function localUrl({ host, port }: { readonly host: string; readonly port: number }): string {
  const local = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${hostPort(local, port)}`;
}

export async function printLoginLink(options: CommandOptions, io: Io): Promise<number> {
  const loaded = await load(loadConsole, options, io);
  const { enabled, listen, public_url: publicUrl } = loaded.console;
  if (!enabled) fail(`the console is disabled: remove console.enabled from ${loaded.file} and restart the daemon`);
  if (listen.port === 0)
    fail(`the console's port is only known to the daemon's log: set console.listen in ${loaded.file}`);
  const local = localUrl(listen);
  return useStore(loaded, io, async (db) => {
    const token = await db.tx((q) => createLoginLink(q, io.timing.console));
    const url = `${publicUrl ?? local}/login/${token}`;
    const minutes = io.timing.console.link / 60_000;
    const answers = await isServed(local, io.timing.health.store, io);
    if (options.json) io.out(JSON.stringify({ url, minutes, answers }));
    else io.out(`${url}\nOpen it in a browser. It works once, within ${minutes} minutes.`);
    if (!answers) io.err(`no console answers at ${local}: is the daemon running with this configuration?`);
    return exitCodes.ok;
  });
}

/** True when a listener of Bridgehead answers at the URL within `ms`. */
export const isServed = (url: string, ms: number, { signal }: Requesting): Promise<boolean> =>
  askHealth(url, AbortSignal.any([signal, AbortSignal.timeout(ms)])).then(
    () => true,
    () => false,
  );

interface HealthQuery extends CommandOptions {
  readonly live?: boolean;
  readonly quiet?: boolean;
}

/** What commands read of /readyz. */
export interface DaemonState {
  readonly ready?: boolean;
  readonly reason?: string;
  readonly warnings?: readonly string[];
  readonly channels?: readonly ChannelReport[];
  /** A sentence when the store has a problem. */
  readonly store?: string | readonly ChannelOverview[];
  readonly escalations?: {
    readonly says?: string;
    readonly unreached?: number;
    readonly numbers?: readonly number[];
    readonly dead?: readonly string[];
    readonly paths?: readonly string[];
  };
}

/** Resolves to 0 when the daemon is ready, to 1 when it is not, and to 69 when it does not answer. Reads only the
 *  key `http`, so it needs no secrets. */
export async function health(options: HealthQuery, io: Io): Promise<number> {
  const { listen } = await load(loadAdminListener, options, io);
  const url = new URL(options.live === true ? "/healthz" : "/readyz", localUrl(listen));
  try {
    const { status, body } = await get(url, io);
    const ready = status === 200;
    if (options.quiet !== true)
      io.out(cleanLines(options.json === true ? body : summary(ready, JSON.parse(body))).join("\n"));
    return ready ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    if (options.quiet !== true)
      io.err(
        `the daemon does not answer at ${url.href}: ${(error as Error).message} (does it run? see http.admin_listen)`,
      );
    return exitCodes.unreachable;
  }
}

function summary(ready: boolean, { channels = [], store, reason, escalations, warnings = [] }: DaemonState): string {
  const alarm = escalations?.says?.trim().replace(/;$/, "");
  const causes = [
    ...(reason ? [reason] : []),
    ...(typeof store === "string" ? [`store: ${store}`] : []),
    ...(alarm ? [`escalations: ${alarm}`] : []),
    ...warnings.map((warning) => `warning: ${warning}`),
  ];
  const lines = channels.map(({ id, state, reason, not_asking, paused, warnings: own }) => {
    const notes = [
      ...(reason ? [reason] : []),
      ...(not_asking && !ready ? [`its agent is not asked: ${not_asking}`] : []),
      ...(paused ? [`paused: ${paused.reason}`] : []),
      ...own.map((warning) => `warning: ${warning}`),
    ];
    return `  ${id}: ${state}${notes.length > 0 ? ` (${notes.join("; ")})` : ""}`;
  });
  return [ready ? "ready" : "not ready", ...causes.map((cause) => `  ${cause}`), ...lines].join("\n");
}
