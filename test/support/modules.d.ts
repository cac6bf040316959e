// The part of npm's `smpp` that plays a message centre in tests; the package has no types of its own.

declare module "smpp" {
  import type { Server as NetServer, Socket } from "node:net";

  export interface PDU {
    readonly command: string;
    readonly command_status: number;
    readonly sequence_number: number;
    readonly data_coding: number;
    readonly esm_class: number;
    readonly source_addr: string;
    readonly source_addr_ton: number;
    readonly destination_addr: string;
    readonly dest_addr_ton: number;
    readonly registered_delivery: number;
    readonly validity_period: unknown;
    readonly short_message: { readonly message: string | Buffer; readonly udh?: readonly Buffer[] };
    readonly [field: string]: unknown;
    response(fields?: object): PDU;
  }

  export interface Session {
    readonly socket: Socket;
    on(event: string, listener: (value: PDU & Error) => void): this;
    send(pdu: PDU): boolean;
    deliver_sm(fields: object, answered?: (answer: PDU) => void): boolean;
    enquire_link(answered?: (answer: PDU) => void): boolean;
    unbind(answered?: (answer: PDU) => void): boolean;
    close(): void;
    destroy(): void;
  }

  export type Server = NetServer;

  const smpp: {
    createServer(
      options: { readonly key?: string; readonly cert?: string },
      listener: (session: Session) => void,
    ): Server;
  };
  export default smpp;
}
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
