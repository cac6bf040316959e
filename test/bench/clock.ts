// The clock of all measurements, and the counts of messages that fail a run.

/** Milliseconds on the monotonic clock that all processes of a machine share. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Messages without a reply, and messages with more than one. Either is a defect: the run exits with 1. */
export interface Tally {
  readonly lost: number;
  readonly duplicated: number;
}

export const noTally: Tally = { lost: 0, duplicated: 0 };
export const sum = (tallies: readonly Tally[]): Tally => ({
  lost: tallies.reduce((all, one) => all + one.lost, 0),
  duplicated: tallies.reduce((all, one) => all + one.duplicated, 0),
});
