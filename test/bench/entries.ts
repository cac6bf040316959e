// The arrays in which instrumented code counts the entries into its files: one for the main thread, one for all workers.

/** Limit of the numbers of files. */
export const mostFiles = 1000;
/** Places in an array. The entries per file follow, then the transitions per pair of files. */
export const places = { current: 0, previous: 1, transitions: 2, returns: 3, entries: 4 };
/** Place of the transitions from the first file to each file, then from the second, and so on. */
export const pairsPlace = places.entries + mostFiles;
/** Name of the arrays in the environment data of worker threads. */
export const sharedName = "bridgehead-bench-entries";

/** Imported by each instrumented file. Without a probe there are no arrays. */
export const enterSource = `import { getEnvironmentData, isMainThread } from "node:worker_threads";
const shared = getEnvironmentData("${sharedName}")?.[isMainThread ? 0 : 1];
export function __enter(file) {
  if (!shared) return;
  shared[${places.entries} + file] += 1;
  const current = shared[${places.current}];
  if (file === current) return;
  shared[${places.transitions}] += 1;
  if (current >= 0) shared[${pairsPlace} + current * ${mostFiles} + file] += 1;
  if (file === shared[${places.previous}]) shared[${places.returns}] += 1;
  shared[${places.previous}] = current;
  shared[${places.current}] = file;
}
`;
