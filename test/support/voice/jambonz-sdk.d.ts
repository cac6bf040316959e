// The part of jambonz's own application library that the tests use; it comes without types.

declare module "@jambonz/node-client-ws" {
  import type { EventEmitter } from "node:events";
  import type { Server } from "node:http";

  export interface Session extends EventEmitter {
    /** Throws when the verb is not as jambonz specifies it. */
    addVerb(verb: string, payload: object): Session;
    send(options?: { execImmediate?: boolean }): void;
    msgid: string;
  }
  export function createEndpoint(options: { server: Server }): (options: { path: string }) => EventEmitter;
}
