// The only loaded modules of undici. The package has types only for its main module.

declare module "undici/lib/core/symbols.js" {
  const symbols: { readonly kFree: unique symbol };
  export default symbols;
}

declare module "undici/lib/dispatcher/pool.js" {
  import { Pool } from "undici";
  import symbols from "undici/lib/core/symbols.js";

  /** The number of connections that are idle. `Pool.stats` counts everything else as well. */
  export default class extends Pool {
    readonly [symbols.kFree]: number;
  }
}
