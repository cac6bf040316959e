// http: the one listener of the daemon.

export { plain, readBody } from "./body.ts";
export { type Listener, startListener } from "./listener.ts";
export { askHealth } from "./self-check.ts";
