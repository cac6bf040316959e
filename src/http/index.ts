// http: the one listener of the daemon.

export { type Listener, startListener } from "./listener.ts";
export { askHealth } from "./self-check.ts";
