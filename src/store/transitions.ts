// Changes of state, checked against the state machines of domain/states.ts by the database itself: every UPDATE names the
// states that it may leave. Its text contains no other place to write a state.

import { type initialStates, machines } from "../domain/states.ts";

type Machines = typeof machines;
export type Table = keyof Machines;
export type StateOf<T extends Table> = keyof Machines[T] & string;
/** The states in which a row may be inserted. */
export type InitialStateOf<T extends Table> = (typeof initialStates)[T][number];
/** The states that may be followed by `To`. */
type Before<T extends Table, To extends StateOf<T>> = {
  [From in StateOf<T>]: To extends Nexts<Machines[T][From]> ? From : never;
}[StateOf<T>];
type Nexts<Followers> = Followers extends readonly (infer Next)[] ? Next : never;

/** A row was about to be written into a state that may not follow its own; nothing was written. A defect, or the outcome of
 *  work that an erasure has ended. */
export class TransitionRefused extends Error {
  constructor(table: Table, id: string | number, to: string) {
    super(`writing ${table} ${id}: ${to} may not follow its state`);
  }
}

interface Move<From> {
  /** Further assignments, separated by commas. */
  readonly set?: string;
  /** Selects the rows. Those in a state that `to` may not follow stay unchanged. */
  readonly where: string;
  /** Only rows in these states. Default: all states that `to` may follow. */
  readonly from?: readonly From[];
  /** Also rows that are in this state already. */
  readonly again?: true;
}

/** Returns an UPDATE of the state. Callers may append RETURNING. */
export function moves<T extends Table, To extends StateOf<T>>(
  table: T,
  to: To,
  { set, where, from, again }: Move<Before<T, To>>,
): string {
  const states: readonly string[] = [...(from ?? before(table, to)), ...(again ? [to] : [])];
  return `UPDATE ${table} SET state = '${to}'${set === undefined ? "" : `, ${set}`}
     WHERE ${where} AND ${oneOf(states)}`;
}

/** Returns the UPDATE for every state that follows another. For changes whose state is a value. */
export function movesToAny<T extends Table>(
  table: T,
  move: Pick<Move<never>, "set" | "where" | "again">,
): Readonly<Record<StateOf<T>, string>> {
  const followed = new Set<string>(Object.values<readonly string[]>(machines[table]).flat());
  const states = (Object.keys(machines[table]) as StateOf<T>[]).filter((state) => followed.has(state));
  return Object.fromEntries(states.map((to) => [to, moves(table, to, move)])) as Record<StateOf<T>, string>;
}

/** Returns an assignment that changes the state where it may change and `when` holds, with others that apply in any
 *  case. */
export function stateWhere<T extends Table>(table: T, to: StateOf<T>, when?: string): string {
  const may = oneOf(before(table, to));
  return `state = CASE WHEN ${when === undefined ? may : `${when} AND ${may}`} THEN '${to}' ELSE state END`;
}

/** Returns the states that may be followed by `to`. */
function before(table: Table, to: string): string[] {
  const found = Object.entries<readonly string[]>(machines[table])
    .filter(([, followers]) => followers.includes(to))
    .map(([state]) => state);
  if (found.length === 0) throw new Error(`${to} follows no state of ${table}`);
  return found;
}

const oneOf = (states: readonly string[]): string =>
  states.length === 1 ? `state = '${states[0]}'` : `state IN (${states.map((one) => `'${one}'`).join(", ")})`;
