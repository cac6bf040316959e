// bridgehead health: asks the running daemon for /readyz, or with --live for /healthz. For HEALTHCHECK of a container
// and for monitors without an HTTP client.

import { loadAdminListener } from "../../config/index.ts";
import { get, localUrl } from "../http-get.ts";
import { type CommandOptions, exitCodes, type Io } from "../io.ts";
import { load } from "../store/open.ts";

interface HealthQuery extends CommandOptions {
  readonly live?: boolean;
  readonly quiet?: boolean;
}

/** What the command reads of /readyz. */
interface ReadyBody {
  readonly channels?: readonly { readonly id: string; readonly state: string; readonly reason?: string }[];
}

/** Resolves to 0 when the daemon is ready, to 1 when it is not, and to 69 when it does not answer. Reads only the
 *  key `http`, so it needs no secrets. */
export async function health(options: HealthQuery, io: Io): Promise<number> {
  const { listen } = await load(loadAdminListener, options, io);
  const url = new URL(options.live === true ? "/healthz" : "/readyz", localUrl(listen));
  try {
    const { status, body } = await get(url, io.signal);
    const ready = status === 200;
    if (options.quiet !== true)
      io.out(printable(options.json === true ? body : summary(ready, JSON.parse(body))));
    return ready ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    if (options.quiet !== true)
      io.err(
        `the daemon does not answer at ${url.href}: ${(error as Error).message} (does it run? see http.admin_listen)`,
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
