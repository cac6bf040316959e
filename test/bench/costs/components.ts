// Names the component that a source file belongs to.

/** What a component is part of: the durable store, the rest of our code, packages that both subjects may use, or Node. */
export type Kind = "store" | "own" | "package" | "node";

const sqlite = "SQLite (better-sqlite3)";
/** Our own code that drives SQLite. */
export const ownStore = "src/store";

/** The component of a script URL; null when it has none, as native functions and evaluated code have. */
export function componentOf(url: string): string | null {
  if (url === "" || url.startsWith("wasm:") || url.startsWith("evalmachine")) return null;
  // Frames of the hook are calls into SQLite; those of the profiler belong to their callers.
  if (url.endsWith("/statement-hook.ts")) return sqlite;
  if (url.endsWith("/profiler.ts")) return null;
  if (url.startsWith("node:")) return nodeComponentOf(url.slice("node:".length).replace(/^internal\//, ""));
  const parts = url.split("/");
  const modules = parts.lastIndexOf("node_modules");
  if (modules >= 0) {
    const [scope = "", name = ""] = parts.slice(modules + 1);
    const packed = scope.startsWith("@") ? `${scope}/${name}` : scope;
    return packed === "better-sqlite3" ? sqlite : packed;
  }
  const dist = parts.lastIndexOf("dist");
  if (dist < 0) return "script";
  const [area = "", folder = ""] = parts.slice(dist + 1);
  return `${area}/${folder.replace(/\.js$/, "")}`;
}

/** File operations, and the promises around them, belong to their callers. */
function nodeComponentOf(name: string): string | null {
  if (/^(?:fs|util)\b/.test(name)) return null;
  if (/^_?http/.test(name)) return "node:http";
  if (/^(?:net|_?tls|dns|_?stream)/.test(name)) return "node:net and streams";
  if (/^(?:events|event_target|abort_controller)/.test(name)) return "node:events and abort signals";
  if (/^(?:timers|process\/task_queues|async_|promise_hooks)/.test(name)) return "node:timers and tasks";
  return `node:${name.split("/")[0]}`;
}

export function kindOf(component: string): Kind {
  if (component === sqlite || component === ownStore) return "store";
  if (component.startsWith("src/") || component.startsWith("adapters/")) return "own";
  return component.startsWith("node:") || /^(?:V8|libuv)/.test(component) ? "node" : "package";
}
