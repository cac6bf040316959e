// Loaded into the daemon before anything else (`node --import`): plants the named edits into the sources as they are
// loaded. PLANT="<name>,<name>".

import { registerHooks } from "node:module";
import { isMainThread } from "node:worker_threads";
import { planted } from "./planting.ts";
import { editsOf } from "./plants.ts";

const names = (process.env["PLANT"] ?? "").split(",").filter(Boolean);
const edits = names.flatMap(editsOf);
const root = new URL("../../", import.meta.url).href;

if (isMainThread && edits.length > 0) {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const here = edits.filter(({ file }) => url === root + file);
      if (here.length === 0 || loaded.source == null) return loaded;
      const source =
        typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source as Uint8Array);
      return { ...loaded, source: planted(source.toString(), here) };
    },
  });
}
