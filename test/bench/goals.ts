// The goals of all measures. Each has an entry in `costs/limits.ts`, which states whether it can be reached when it is missed.

interface Bound {
  readonly at: "most" | "least";
  readonly value: number;
  /** As printed after "<=" or ">=". With "x" or "+" the goal is about the comparison with the baseline. */
  readonly text: string;
}

const atMost = (value: number, text = String(value)): Bound => ({ at: "most", value, text });
const ratioAtMost = (value: number): Bound => atMost(value, `x ${value}`);
const ratioAtLeast = (value: number, text = `x ${value}`): Bound => ({ at: "least", value, text });

export const goals = {
  emailBurst: ratioAtLeast(1, "x 1.0"),
  burstMemory: atMost(300, "300 MB"),
  singleEmail: atMost(10, "+10 ms"),
  emailCpu: atMost(5, "5 ms"),
  smsBurst: ratioAtLeast(0.5),
  singleSms: ratioAtMost(2),
  calls: ratioAtMost(2),
  busyCalls: ratioAtMost(5),
  idleMemory: atMost(100, "100 MB"),
  sharedMemory: ratioAtMost(1.5),
  start: atMost(1000, "1000 ms"),
  unknownReplies: atMost(0),
  singleStatements: atMost(30),
  singleCommits: atMost(5),
  burstStatements: atMost(30),
  burstCommits: atMost(0.1),
  /** The first version created about 14, and an exception for each wake-up. */
  abortSignals: atMost(5),
  exceptions: atMost(0.1),
  pathFiles: atMost(45),
  pathTransitions: atMost(180),
  pathReturns: atMost(30),
  lists: ratioAtMost(1.2),
  openEscalations: ratioAtMost(1.5),
  largeStore: ratioAtMost(1.15),
  oneNode: ratioAtLeast(0.5),
  twoNodes: ratioAtLeast(1.7),
  heapGrowth: ratioAtMost(1.05),
  eventLoopDelay: atMost(25, "25 ms"),
} as const satisfies Readonly<Record<string, Bound>>;

export type GoalName = keyof typeof goals;

/** A measured value against its goal. */
export interface Goal {
  readonly name: GoalName;
  /** As printed: "<= 5 ms". */
  readonly text: string;
  readonly met: boolean;
  /** Part of the limit that is used: 1 is exactly the goal, more than 1 misses it. */
  readonly used: number;
}

export function goalOf(name: GoalName, value: number): Goal {
  const { at, value: limit, text }: Bound = goals[name];
  if (at === "least") return { name, text: `>= ${text}`, met: value >= limit, used: limit / value };
  const ofNone = value === 0 ? 0 : Number.POSITIVE_INFINITY;
  return { name, text: `<= ${text}`, met: value <= limit, used: limit === 0 ? ofNone : Math.max(0, value) / limit };
}
