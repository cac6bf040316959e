// http: the one listener of the daemon.

export type { Readiness } from "./health.ts";
export { type Listener, type ListenerOptions, startListener } from "./listener.ts";
