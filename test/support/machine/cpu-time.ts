// How much work something is, on a machine that does other things too, slowly, or nothing at all for a while.

/** Milliseconds that the processors have worked for this process so far, all its threads together. */
export function workedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
