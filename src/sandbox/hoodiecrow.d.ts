declare module "hoodiecrow-imap" {
  export interface ImapServer {
    listen(port: number, host: string, ready: () => void): void;
    close(done?: () => void): void;
    appendMessage(mailbox: string, flags: readonly string[], internalDate: Date | string, raw: string): void;
    readonly server: import("node:net").Server;
  }
  export default function createServer(options: {
    readonly plugins: readonly string[];
    readonly users: { readonly [user: string]: { readonly password: string } };
    readonly storage: { readonly [folder: string]: object };
  }): ImapServer;
}
