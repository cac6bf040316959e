// The only loaded module of undici. The package has types only for its main module.

declare module "undici/lib/dispatcher/pool.js" {
  import { Pool } from "undici";
  export default Pool;
}
