// http: the daemon's HTTP listener.

export { plain, readBody } from "./body.ts";
export { type Listener, startListener } from "./listener.ts";
export { askHealth } from "./self-check.ts";
