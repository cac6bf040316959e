// Loaded into a daemon by `--import` before its own code. Records the modules of Node and of packages that the main thread
// imports from outside of packages. Sends their URLs, in their order, to the parent for each message.

import { registerHooks } from "node:module";
import { isMainThread } from "node:worker_threads";

if (isMainThread && process.send) {
  const urls = new Set<string>();
  const isPackage = (url: string | undefined) => url?.includes("/node_modules/") ?? false;
  registerHooks({
    resolve: (specifier, context, nextResolve) => {
      const resolved = nextResolve(specifier, context);
      const { url } = resolved;
      if (!isPackage(context.parentURL) && (url.startsWith("node:") || isPackage(url))) urls.add(url);
      return resolved;
    },
  });
  process.on("message", () => process.send?.([...urls]));
  // The channel to the parent does not keep the daemon alive.
  process.channel?.unref();
}
