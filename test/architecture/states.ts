// The rule for states: a state is written through the functions that check it against src/domain/states.ts.

import { initialStates } from "../../src/domain/states.ts";
import type { Rule } from "./source.ts";

const tables = Object.keys(initialStates).join("|");
/** The assignments of an UPDATE of a table with states, also under an alias; `?`: a table that is inserted. */
const updates = new RegExp(
  `\\bUPDATE\\s+(?:(?:${tables}|\\?)\\s+(?:(?:AS\\s+)?(?!SET\\b)\\w+\\s+)?)?SET\\b([^\`"]*)`,
  "g",
);
/** Table, columns, and what follows them: VALUES, whose row may be the next text, or SELECT. */
const inserts = new RegExp(
  `\\bINSERT\\s+INTO\\s+(${tables})\\s*\\(([^)]*)\\)\\s*(?:VALUES[\\s\`",]*\\(|SELECT\\b)([^\`"]*)`,
  "g",
);

/** The further assignments of a move. */
const furtherAssignments = /\bset: ?["`]([^"`]*)/g;

/** Removes what is in parentheses: subqueries and arguments have conditions and commas of their own. */
function withoutParentheses(sql: string): string {
  const outer = sql.replace(/\([^()]*\)/g, "");
  return outer === sql ? sql : withoutParentheses(outer);
}

/** Returns the expression at this position of a list that ends with the clause, or where a parenthesis closes. */
function itemAt(list: string, position: number): string {
  let [depth, at, item] = [0, 0, ""];
  for (const char of list) {
    if (char === "(") depth++;
    if (char === ")" && --depth < 0) break;
    if (char === "," && depth === 0) at++;
    else if (at === position) item += char;
    if (at > position) break;
  }
  return item;
}

/** The states that an expression can have: literals, of a CASE those after THEN and ELSE. */
function literalsOf(expression: string): string[] {
  const found = /\bCASE\b/.test(expression)
    ? expression.matchAll(/\b(?:THEN|ELSE)\s+'(\w+)'/g)
    : expression.matchAll(/'(\w+)'/g);
  return [...found].map(([, state = ""]) => state);
}

/** A state is written through `moves` and `stateWhere`, which name the states that it may leave; a row is inserted in an
 *  initial state. A parameter for it has the type `InitialStateOf`. */
export const stateWrites: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("src/") && !/^src\/(platform|sandbox)\//.test(path))
    .filter(({ path }) => path !== "src/store/transitions.ts")
    .flatMap(({ path, text }) => {
      const sql = text
        .replace(/\$\{stateWhere\([^`}]*\}/g, "checked = 1")
        .replace(/\$\{[^`}]*\}/g, "?")
        .replace(/^.*-- only: postgres.*$/gm, "");
      const changed = [...sql.matchAll(updates), ...sql.matchAll(furtherAssignments)]
        .filter(([, set = ""]) => {
          const own = withoutParentheses(set).split(/\b(?:WHERE|RETURNING|FROM)\b/)[0] ?? "";
          // Text from elsewhere could assign anything.
          const isOpen = own.split(",").some((assignment) => /^\s*\?\s*$/.test(assignment));
          return isOpen || /(?:^|[\s,])state\s*=/.test(own) || /\([^()]*\bstate\b[^()]*\)\s*=/.test(set);
        })
        .map(([, set = ""]) => (set.split(/\b(?:WHERE|RETURNING)\b/)[0] ?? "").trim().slice(0, 40))
        .map((set) => `${path}: writes a state unchecked: SET ${set}`);
      const inserted = [...sql.matchAll(inserts)].flatMap(([, table = "", columns = "", list = ""]) => {
        const position = columns.split(",").findIndex((column) => column.trim() === "state");
        const initial: readonly string[] = initialStates[table as keyof typeof initialStates];
        return literalsOf(position < 0 ? "" : itemAt(list, position))
          .filter((state) => !initial.includes(state))
          .map((state) => `${path}: inserts ${table} in the state ${state}: initial are ${initial.join(", ")}`);
      });
      return [...changed, ...inserted];
    });
