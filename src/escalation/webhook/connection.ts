// Opens the connection to a receiver, up to the first byte of the request. It is opened separately for two
// reasons: it must use an address that was validated, and a failure before this point proves that nothing
// was sent.

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Destination, hostOf, type ResolvedAddress } from "../../ops/address.ts";

/** Connect timeout per address, in milliseconds. */
export const connectMs = 5000;
const mostAddresses = 4;

/** Rejects with the error of the last address when no address can be reached. */
export async function openConnection(destination: Destination, signal: AbortSignal): Promise<Socket> {
  let last: unknown = new Error("there is no address");
  for (const address of destination.addresses.slice(0, mostAddresses)) {
    signal.throwIfAborted();
    try {
      return await open(destination.url, address, AbortSignal.any([signal, AbortSignal.timeout(connectMs)]));
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

function open(url: URL, { address, family }: ResolvedAddress, signal: AbortSignal): Promise<Socket> {
  const secure = url.protocol === "https:";
  const port = Number(url.port || (secure ? 443 : 80));
  const host = hostOf(url);
  const named = isIP(host) === 0 ? { servername: host } : {};
  const socket = secure
    ? connectTls({ host: address, port, ...named, ALPNProtocols: ["http/1.1"] })
    : connectTcp({ host: address, port, family });
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const stop = () => socket.destroy(new Error("connecting took too long"));
  const done = () => signal.removeEventListener("abort", stop);
  signal.addEventListener("abort", stop, { once: true });
  socket.once(secure ? "secureConnect" : "connect", () => {
    done();
    resolve(socket);
  });
  // The listener stays: a connection that ends before the request starts must not raise an uncaught error.
  socket.on("error", (error) => {
    done();
    reject(error);
  });
  socket.once("close", () => {
    done();
    reject(new Error("the connection was closed before it stood"));
  });
  return promise;
}
