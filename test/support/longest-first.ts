// The order in which Vitest starts test files. Those that take minutes start first, so that none of them is alone at the end.
// Otherwise Vitest starts large files first, and the crash matrices are files of a few lines.

import { BaseSequencer, type TestSequencer, type TestSpecification, type Vitest } from "vitest/node";

/** Files of the long lane that take more than 100 s: first those that use one processor or wait for others, then those that
 *  run many processes at once. */
export const longest: readonly string[] = [
  "systemd/installed",
  "store/sqlite/power-cut",
  "linear/linear",
  "packed/packed",
  "packed/deb",
  "process/random",
  "process/escalation/escalations",
  "process/matrix",
  "process/postgres-matrix",
  "process/defects",
  "process/texts/texts",
];

/** Files of the short lane that start many processes. */
const longestOfShort: readonly string[] = [
  "process/matrix",
  "process/escalation/escalations",
  "process/texts/texts",
  "process/calls",
  "process/escalation/unknown",
  "platform/files/files",
  "commands/running/start",
];

const files = [...longest.map((name) => `${name}.long`), ...longestOfShort];

export class LongestFirst implements TestSequencer {
  readonly #standard: BaseSequencer;

  constructor(vitest: Vitest) {
    this.#standard = new BaseSequencer(vitest);
  }

  shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    return this.#standard.shard(files);
  }

  async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await this.#standard.sort(files);
    return sorted.sort((a, b) => place(a) - place(b));
  }
}

/** The position of a file in the list; behind it for others. */
function place({ moduleId }: TestSpecification): number {
  const found = files.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`));
  return found === -1 ? files.length : found;
}
