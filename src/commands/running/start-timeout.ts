// Requests more time from systemd while the daemon opens its databases. Copying and migrating a store of some gigabytes
// takes longer than TimeoutStartSec= of the unit, and systemd would kill the daemon again and again. SQLite blocks the
// main thread in the meantime, so a worker thread sends the requests.

import { isMainThread, Worker, workerData } from "node:worker_threads";
import { systemClock as clock } from "../../ops/clock.ts";
import { createNotifier } from "../../ops/systemd.ts";
import type { Timing } from "../../ops/timing.ts";
import { type Io, silentLog } from "../io.ts";

interface ExtensionTask {
  readonly task: "start-timeout";
  readonly env: Readonly<Record<"NOTIFY_SOCKET" | "PATH", string | undefined>>;
  readonly timing: Pick<Timing["startup"], "extension" | "extensionEvery">;
  readonly health: Pick<Timing["health"], "notify">;
}

/** Runs `work`, and requests more time to start until it has ended. Without systemd it only runs `work`. */
export async function whileStarting<T>(
  { NOTIFY_SOCKET, PATH }: Io["env"],
  { startup: { extension, extensionEvery }, health: { notify } }: Pick<Timing, "startup" | "health">,
  work: () => Promise<T>,
): Promise<T> {
  if (NOTIFY_SOCKET === undefined || NOTIFY_SOCKET === "") return work();
  const timing = { extension, extensionEvery };
  const task: ExtensionTask = { task: "start-timeout", env: { NOTIFY_SOCKET, PATH }, timing, health: { notify } };
  const worker = new Worker(new URL(import.meta.url), { name: "start-timeout", workerData: task });
  // Without the thread the start may be too slow for systemd, which is no reason to fail it.
  worker.on("error", () => undefined);
  worker.unref();
  try {
    return await work();
  } finally {
    await worker.terminate();
  }
}

/** Runs until the thread is terminated. The first request is sent after a pause, because most starts have ended by then.
 *  The main thread reports that systemd cannot be notified. */
async function extend({ env, timing, health }: ExtensionTask): Promise<void> {
  const notifier = createNotifier(env, silentLog, health);
  for (;;) {
    await clock.sleep(timing.extensionEvery);
    await notifier.extend(timing.extension);
  }
}

const own = workerData as Partial<ExtensionTask> | null;
if (!isMainThread && own?.task === "start-timeout") await extend(own as ExtensionTask);
