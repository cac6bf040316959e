declare module "hoodiecrow-imap" {
  /** One item of a FETCH command as parsed by the library; `partial` is the origin and length of `<0.1000>`. */
  export interface FetchItem {
    partial?: number[];
  }
  export type FetchHandler = (connection: unknown, message: unknown, item: FetchItem) => unknown;
  export interface ImapServer {
    /** Handlers by item name; they take precedence over those of the library. */
    readonly fetchHandlers: { [item: string]: FetchHandler };
    listen(port: number, host: string, ready: () => void): void;
    close(done?: () => void): void;
    appendMessage(
      mailbox: string,
      flags: readonly string[],
      internalDate: Date | string,
      raw: string,
    ): { readonly message: { readonly uid: number } };
    readonly server: import("node:net").Server;
  }
  export default function createServer(options: {
    readonly plugins: readonly string[];
    readonly users: { readonly [user: string]: { readonly password: string } };
    readonly storage: { readonly [folder: string]: object };
  }): ImapServer;
}

declare module "hoodiecrow-imap/lib/commands/handlers/fetch.js" {
  const handlers: Readonly<Record<"BODY" | "BODY.PEEK", import("hoodiecrow-imap").FetchHandler>>;
  export default handlers;
}
