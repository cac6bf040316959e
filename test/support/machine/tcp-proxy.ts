// A TCP relay that misbehaves on demand: it cuts, it swallows (a half-open line), it refuses.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Connections accepted so far. */
  accepted(): number;
  /** Lines that are open now. */
  open(): number;
  /** Resets every open line; new ones still work. */
  cut(): void;
  /** Bytes of present and new lines vanish in both directions without any sign, until `resume`. */
  swallow(): void;
  /** New connections are reset at once, until `resume`. */
  refuse(): void;
  /** Back to relaying. Lines from which bytes were swallowed stay silent: their bytes are gone. */
  resume(): void;
  /** May change bytes on their way from the server to the client. */
  rewrite(change: ((data: Buffer) => Buffer) | null): void;
  close(): Promise<void>;
}

/** Relays 127.0.0.1:<port> to 127.0.0.1:`target`. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const lines = new Set<{ readonly client: Socket; readonly server: Socket; lost: boolean }>();
  let mode: "relay" | "swallow" | "refuse" = "relay";
  let change: ((data: Buffer) => Buffer) | null = null;
  let accepted = 0;

  const listener = createServer({ allowHalfOpen: false }, (client) => {
    accepted += 1;
    client.on("error", () => {});
    if (mode === "refuse") return void client.resetAndDestroy();
    const server = connect(target, "127.0.0.1");
    server.on("error", () => client.resetAndDestroy());
    const line = { client, server, lost: false };
    lines.add(line);
    const relay = (from: Socket, to: Socket, alter: boolean) => {
      from.on("data", (data) => {
        if (mode === "swallow") line.lost = true;
        if (!line.lost) to.write(alter && change ? change(data) : data);
      });
      from.on("close", () => {
        // The client of a lost line does not hear of its end; it can still be cut.
        if (line.lost && from === server) return;
        lines.delete(line);
        if (!line.lost) to.destroySoon();
      });
    };
    relay(client, server, false);
    relay(server, client, true);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));

  const cut = () => {
    for (const { client, server } of lines) {
      client.resetAndDestroy();
      server.destroy();
    }
    lines.clear();
  };
  return {
    port: (listener.address() as AddressInfo).port,
    accepted: () => accepted,
    open: () => lines.size,
    cut,
    swallow: () => void (mode = "swallow"),
    refuse: () => void (mode = "refuse"),
    resume: () => void (mode = "relay"),
    rewrite: (alter) => void (change = alter),
    close: async () => {
      cut();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
