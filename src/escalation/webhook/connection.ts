// The connection to a receiver, up to the moment before the first byte of a request. Opened by hand, because it must go to
// an address that was judged, and because only until here it is certain that nothing was sent.

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Destination, hostOf, type ResolvedAddress } from "../../ops/address.ts";

/** Of one address. */
export const connectMs = 5000;
const mostAddresses = 4;

/** Rejects with the last address's reason when none of them can be reached. */
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
  // Stays: a connection that ends between here and the request must not be an uncaught error.
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
