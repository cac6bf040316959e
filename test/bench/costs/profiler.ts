// Loaded into a subject by `--import` before its own code. Records a CPU profile of the main thread and the CPU time of all
// threads, or the times when the subject waits for a peer or for the disk. The parent starts and ends both by messages.

import fs from "node:fs";
import { Session } from "node:inspector";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { isMainThread, Worker } from "node:worker_threads";
import { clock } from "../clock.ts";
import { observeStatements } from "../statement-hook.ts";
import { componentOf } from "./components.ts";

export type ProfilerOrder =
  /** Counts CPU time only. */
  | { readonly kind: "usage" }
  | { readonly kind: "profile"; readonly intervalUs: number }
  /** Names of the peers by their port. */
  | { readonly kind: "waits"; readonly peers: Readonly<Record<number, string>> }
  | { readonly kind: "end" };

/** A time span in `clock` milliseconds: a wait for a peer, for the "disk" or for a worker "thread", or an execution of
 *  "SQLite". A span without length is data that arrived unasked. `cpu` is the CPU time of the main thread at its end. */
export type Span = readonly [what: string, from: number, to: number, cpu: number];

/** Times in microseconds, since the order that started the recording. */
export interface CostReport {
  /** Of the main thread, by component, without the time in which V8 considers it idle. */
  readonly components: Readonly<Record<string, number>>;
  /** CPU time of the process, without the thread of the profiler. */
  readonly process: number;
  /** CPU time of each thread that still exists, by its name. */
  readonly threads: Readonly<Record<string, number>>;
  readonly spans: readonly Span[];
}

export const mainThread = "main";
const profilerThread = "v8:ProfEvntProc";
/** More time than this between two samples is a wait for a processor. */
const mostIntervals = 4;

if (isMainThread && process.send) {
  const session = new Session();
  session.connect();
  const post = <Result>(method: string, options?: object): Promise<Result> =>
    new Promise((resolve, reject) =>
      session.post(method, options, (error, result) => (error ? reject(error) : resolve(result as Result))),
    );
  const waits = watcher();
  let before = usage();
  let interval: number | null = null;

  const handle = async (order: ProfilerOrder): Promise<CostReport | null> => {
    if (order.kind === "end") {
      const report = { ...since(before), spans: waits.unwatch() };
      if (interval === null) return { ...report, components: {} };
      const { profile } = await post<{ profile: Profile }>("Profiler.stop");
      const components = byComponent(profile, interval * mostIntervals);
      interval = null;
      return { ...report, components };
    }
    if (order.kind === "waits") waits.watch(order.peers);
    else if (order.kind === "profile") {
      await post("Profiler.enable");
      await post("Profiler.setSamplingInterval", { interval: order.intervalUs });
      await post("Profiler.start");
      interval = order.intervalUs;
    }
    before = usage();
    return null;
  };
  process.on(
    "message",
    (order: ProfilerOrder) => void handle(order).then((report) => process.send?.(report)),
  );
  // The channel to the parent does not keep the subject alive.
  process.channel?.unref();
}

/** Records spans between `watch` and `unwatch`. Without them the hooks cost nothing that could be measured. */
function watcher() {
  let spans: Span[] | null = null;
  const note = (what: string, from: number) => {
    const { user, system } = process.threadCpuUsage();
    spans?.push([what, from, clock(), (user + system) / 1000]);
  };
  observeStatements((_, execute) => {
    if (spans === null) return execute();
    const from = clock();
    try {
      return execute();
    } finally {
      note("SQLite", from);
    }
  });

  const { fdatasync } = fs;
  fs.fdatasync = ((file: number, done: (error: NodeJS.ErrnoException | null) => void) => {
    const from = clock();
    fdatasync(file, (error) => {
      note("disk", from);
      done(error);
    });
  }) as typeof fs.fdatasync;
  syncBuiltinESMExports();

  /** Since when a socket has sent something and received nothing. */
  const waiting = new WeakMap<net.Socket, number>();
  const socket = net.Socket.prototype as unknown as Methods<net.Socket, "write" | "push">;
  const thread = Worker.prototype as unknown as Methods<Worker, "postMessage">;
  const originals = { socket: { write: socket.write, push: socket.push }, thread: thread.postMessage };
  return {
    watch(peers: Readonly<Record<number, string>>): void {
      spans = [];
      note("start", clock());
      socket.write = function (...values) {
        if (!waiting.has(this)) waiting.set(this, clock());
        return originals.socket.write.apply(this, values);
      };
      socket.push = function (...values) {
        const peer = peers[this.remotePort ?? 0];
        if (peer !== undefined) note(peer, waiting.get(this) ?? clock());
        waiting.delete(this);
        return originals.socket.push.apply(this, values);
      };
      thread.postMessage = function (...values) {
        const from = clock();
        // Messages do not wait for checkpoints.
        if (this.threadName !== "checkpoint") this.once("message", () => note("thread", from));
        return originals.thread.apply(this, values);
      };
    },
    unwatch(): readonly Span[] {
      Object.assign(socket, originals.socket);
      thread.postMessage = originals.thread;
      const recorded = spans ?? [];
      spans = null;
      return recorded;
    },
  };
}

/** Methods that can be replaced. */
type Methods<This, Name extends string> = Record<Name, (this: This, ...values: unknown[]) => unknown>;

interface Usage {
  readonly process: number;
  readonly threads: ReadonlyMap<string, { readonly name: string; readonly us: number }>;
}

function usage(): Usage {
  const { user, system } = process.cpuUsage();
  const threads = new Map<string, { name: string; us: number }>();
  for (const id of fs.readdirSync("/proc/self/task")) {
    const read = (file: string) => fs.readFileSync(`/proc/self/task/${id}/${file}`, "utf8").trim();
    const name = id === String(process.pid) ? mainThread : read("comm");
    threads.set(id, { name, us: Number(read("schedstat").split(" ")[0]) / 1000 });
  }
  return { process: user + system, threads };
}

function since(before: Usage): Pick<CostReport, "process" | "threads"> {
  const now = usage();
  const threads: Record<string, number> = {};
  for (const [id, { name, us }] of now.threads)
    threads[name] = (threads[name] ?? 0) + us - (before.threads.get(id)?.us ?? 0);
  const { [profilerThread]: profiler = 0, ...others } = threads;
  return { process: now.process - before.process - profiler, threads: others };
}

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
    readonly children?: readonly number[];
  }[];
  readonly samples?: readonly number[];
  readonly timeDeltas?: readonly number[];
}

/** Names that V8 gives to time outside of functions. */
const outside: Readonly<Record<string, string>> = {
  "(garbage collector)": "V8: garbage collector, main thread",
  "(program)": "V8 and libuv outside of functions",
};

/** Microseconds of each component. A function without a script belongs to its caller. */
function byComponent(
  { nodes, samples = [], timeDeltas = [] }: Profile,
  most: number,
): Record<string, number> {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const owners = new Map<number, string | null>();
  const assign = (id: number, caller: string | null): void => {
    const node = known.get(id);
    if (!node) return;
    const { functionName, url } = node.callFrame;
    const owner = functionName === "(idle)" ? null : (outside[functionName] ?? componentOf(url) ?? caller);
    owners.set(id, owner);
    for (const child of node.children ?? []) assign(child, owner);
  };
  const [root] = nodes;
  if (root) assign(root.id, null);
  const times: Record<string, number> = {};
  for (const [index, id] of samples.entries()) {
    const owner = owners.get(id);
    // The first delta is the time since the profiler was started.
    if (owner && index > 0) times[owner] = (times[owner] ?? 0) + Math.min(timeDeltas[index] ?? 0, most);
  }
  return times;
}
