// bridgehead health: asks the running daemon for /readyz, or with --live for /healthz. For HEALTHCHECK of a container
// and for monitors without an HTTP client.

import { request } from "node:http";
import { loadAdminListener } from "../../config/index.ts";
import { standardTiming } from "../../ops/timing.ts";
import { exitCodes, type Io } from "../io.ts";
import { load } from "../store/open.ts";

interface HealthQuery {
  readonly config: string;
  readonly live?: boolean;
  readonly quiet?: boolean;
  readonly json?: boolean;
}

/** What the command reads of /readyz. */
interface ReadyBody {
  readonly channels?: readonly { readonly id: string; readonly state: string; readonly reason?: string }[];
}

/** Resolves to 0 when the daemon is ready, to 1 when it is not, and to 69 when it does not answer. Reads only the
 *  key `http`, so it needs no secrets. */
export async function health(options: HealthQuery, io: Io): Promise<number> {
  const { host, port } = (await load(loadAdminListener, options, io)).listen;
  const url = `http://${reachable(host)}:${port}${options.live === true ? "/healthz" : "/readyz"}`;
  try {
    const { status, body } = await get(url, io.signal);
    const ready = status === 200;
    if (options.quiet !== true)
      io.out(printable(options.json === true ? body : summary(ready, JSON.parse(body))));
    return ready ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    if (options.quiet !== true)
      io.err(
        `the daemon does not answer at ${url}: ${(error as Error).message} (does it run? see http.admin_listen)`,
      );
    return exitCodes.unreachable;
  }
}

function summary(ready: boolean, { channels = [] }: ReadyBody): string {
  const lines = channels.map(({ id, state, reason }) => `  ${id}: ${state}${reason ? ` (${reason})` : ""}`);
  return [ready ? "ready" : "not ready", ...lines].join("\n");
}

/** Without control characters: reasons quote mail servers. */
const printable = (text: string): string => text.replace(/[^\P{Cc}\n]/gu, " ");

/** The host under which a listener of this machine is reached. One on all addresses answers on loopback. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}

function get(url: string, signal: AbortSignal): Promise<{ readonly status: number; readonly body: string }> {
  const limits = AbortSignal.any([signal, AbortSignal.timeout(standardTiming.commands.probe)]);
  return new Promise((done, reject) => {
    const asking = request(url, { agent: false, signal: limits }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.once("error", reject);
      response.once("end", () => done({ status: response.statusCode ?? 0, body }));
    });
    asking.once("error", reject);
    asking.end();
  });
}
