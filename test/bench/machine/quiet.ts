// Waits until other processes leave the machine alone. Published figures come from a quiet machine.

/** Load average of one minute per processor from which the machine is busy. */
const busyFrom = 0.3;
const pollMs = 5000;
const longestMs = 10 * 60_000;

export interface MachineLoad {
  readonly processors: number;
  /** The load average of one minute. */
  load(): number;
  sleep(ms: number): Promise<void>;
  /** Prints a line. */
  print(text: string): void;
}

const limitOf = ({ processors }: MachineLoad): number => busyFrom * processors;
const isBusy = (machine: MachineLoad): boolean => machine.load() >= limitOf(machine);
const state = (machine: MachineLoad): string =>
  `load average ${machine.load().toFixed(1)}, quiet below ${limitOf(machine).toFixed(1)}`;

/** Prints a warning when the machine is busy. */
export function warnWhenBusy(machine: MachineLoad): void {
  if (isBusy(machine))
    machine.print(`Warning: the machine is busy (${state(machine)}): expect larger figures and noise.`);
}

/** Waits at most ten minutes, and prints that it waits. Throws when the machine is still busy. */
export async function waitUntilQuiet(machine: MachineLoad): Promise<void> {
  if (!isBusy(machine)) return;
  machine.print(`The machine is busy (${state(machine)}): waiting for at most ${longestMs / 60_000} minutes.`);
  for (let waited = 0; waited < longestMs; waited += pollMs) {
    await machine.sleep(pollMs);
    if (!isBusy(machine)) return;
  }
  throw new Error(
    `the machine is still busy after ${longestMs / 60_000} minutes (${state(machine)}): published figures must come from a quiet machine, so stop what else runs on it, or leave out --report`,
  );
}
