// The client of the External API.

export type * from "./calls.ts";
