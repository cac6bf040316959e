// Loaded into a subject by `--import` before its own code. Records a CPU profile of the main thread and the CPU time of all
// threads, or the times when the subject waits for a peer or for the disk. The parent starts and ends both by messages.

import { subscribe } from "node:diagnostics_channel";
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
  /** Names of the peers by their port. The port of the subject's own server is the "caller". */
  | { readonly kind: "waits"; readonly peers: Readonly<Record<number, string>> }
  | { readonly kind: "end" };

/** A time span in `clock` milliseconds: a wait for a peer, for the "disk" or for a worker "thread", or an execution of
 *  "SQLite" ("BEGIN" and "COMMIT" by their names). A span without length is data that arrived unasked. `cpu` is the CPU time of the main thread at its end. */
export type Span = readonly [what: string, from: number, to: number, cpu: number];

/** Times in microseconds, since the order that started the recording. */
export interface CostReport {
  /** Of the main thread, by component, without the time in which V8 considers it idle. */
  readonly components: Readonly<Record<string, number>>;
  /** Of the main thread, by function and the innermost of our files that called it. Only with BENCH_FILES. */
  readonly functions: readonly (readonly [name: string, us: number])[];
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
      if (interval === null) return { ...report, components: {}, functions: [] };
      const { profile } = await post<{ profile: Profile }>("Profiler.stop");
      const most = interval * mostIntervals;
      interval = null;
      const components = timesOf(profile, most, componentOfNode);
      const functions = process.env["BENCH_FILES"] ? Object.entries(timesOf(profile, most, functionOfNode)) : [];
      return { ...report, components, functions: functions.sort((a, b) => b[1] - a[1]).slice(0, 50) };
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
  process.on("message", (order: ProfilerOrder) => void handle(order).then((report) => process.send?.(report)));
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
  observeStatements((sql, execute) => {
    if (spans === null) return execute();
    const from = clock();
    try {
      return execute();
    } finally {
      note(/^(?:BEGIN|COMMIT)/.exec(sql)?.[0] ?? "SQLite", from);
    }
  });

  // The parser of a server reads from its sockets without `push`.
  subscribe("http.server.request.start", () => {
    if (spans !== null) note("caller", clock());
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
        else if (peers[this.localPort ?? 0] !== undefined) note("caller", clock());
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
  readonly nodes: readonly ProfileNode[];
  readonly samples?: readonly number[];
  readonly timeDeltas?: readonly number[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
  };
  readonly children?: readonly number[];
}

/** The name under which a function counts; null when it does not count. `caller` is the name of its caller. */
type Naming = (node: ProfileNode, caller: string | null) => string | null;

const idle = "(idle)";
/** Names that V8 gives to time outside of functions. */
const outside: Readonly<Record<string, string>> = {
  "(garbage collector)": "V8: garbage collector, main thread",
  "(program)": "V8 and libuv outside of functions",
};

/** A function without a script belongs to its caller. */
const componentOfNode: Naming = ({ callFrame: { functionName, url } }, caller) =>
  functionName === idle ? null : (outside[functionName] ?? componentOf(url) ?? caller);

const functionOfNode: Naming = ({ callFrame: { functionName, url, lineNumber } }, caller) => {
  if (functionName === idle) return null;
  const component = componentOf(url);
  const place = url === "" ? "" : ` ${url.split("/").slice(-3).join("/")}:${lineNumber + 1}`;
  const isOwn = component !== null && /^(?:src|adapters)\/|^script$/.test(component);
  const from = caller?.split(" from ").at(-1) ?? "";
  return `${functionName || "(anonymous)"}${place} from ${isOwn ? place.trim() : from}`;
};

/** Microseconds by name. At most `most` count for one sample. */
function timesOf(
  { nodes, samples = [], timeDeltas = [] }: Profile,
  most: number,
  naming: Naming,
): Record<string, number> {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const names = new Map<number, string | null>();
  const assign = (id: number, caller: string | null): void => {
    const node = known.get(id);
    if (!node) return;
    const name = naming(node, caller);
    names.set(id, name);
    for (const child of node.children ?? []) assign(child, name);
  };
  const [root] = nodes;
  if (root) assign(root.id, null);
  const times: Record<string, number> = {};
  for (const [index, id] of samples.entries()) {
    const name = names.get(id);
    // The first delta is the time since the profiler was started.
    if (name && index > 0) times[name] = (times[name] ?? 0) + Math.min(timeDeltas[index] ?? 0, most);
  }
  return times;
}
