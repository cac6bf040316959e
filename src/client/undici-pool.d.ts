// The one part of undici that is loaded; the package describes its parts only as a whole.

declare module "undici/lib/dispatcher/pool.js" {
  import { Pool } from "undici";
  export default Pool;
}
