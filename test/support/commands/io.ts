// What a command gets in a test that calls it in this process.

import type { Io } from "../../../src/commands/io.ts";

/** No terminal, no environment, no end: what a test does not name itself. */
export function commandIo(own: Pick<Io, "out" | "err"> & Partial<Io>): Io {
  return {
    write: () => undefined,
    env: {},
    signal: new AbortController().signal,
    cwd: "/",
    interactive: false,
    terminal: false,
    onHangup: () => undefined,
    onCrash: () => undefined,
    ...own,
  };
}
