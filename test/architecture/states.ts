// The rule for states: a state is written through the functions that check it against src/domain/states.ts.

import { initialStates } from "../../src/domain/states.ts";
import type { Rule } from "./source.ts";
import { codeWithTexts } from "./texts.ts";

const tables = Object.keys(initialStates).join("|");
/** `?`: a table that is inserted. */
const table = `(?:ONLY\\s+)?(?:\\w+\\.)?(?:${tables}|\\?)`;
/** An INSERT into a table without states, up to its DO. */
const otherInsert = `\\bINTO\\s+(?:\\w+\\.)?(?!(?:${tables})\\b)\\w+\\b(?!\\.)(?:(?!\\bINTO\\b)[^\`])*\\bDO\\s+`;
/** The assignments of an UPDATE of a table with states, also under an alias, or as a part of INSERT. */
const updates = new RegExp(
  `(?<!${otherInsert})\\bUPDATE\\s+(?:OR\\s+\\w+\\s+)?(?:${table}\\s+(?:(?:AS\\s+)?(?!SET\\b)\\w+\\s+)?)?SET\\b([^\`]*)`,
  "gi",
);
/** Table, columns, and what follows them: VALUES, whose row may be the next text, or SELECT. */
const inserts = new RegExp(
  `\\bINSERT\\s+(?:OR\\s+\\w+\\s+)?INTO\\s+(?:\\w+\\.)?(${tables})\\s*\\(([^)]*)\\)\\s*(?:VALUES[\\s\`,]*\\(|SELECT\\b)([^\`]*)`,
  "gi",
);
/** Writes a row over another one, whatever the state of that is. */
const replaces = new RegExp(`\\bREPLACE\\s+INTO\\s+(?:\\w+\\.)?(${tables})\\b`, "gi");

/** The further assignments of a move, and what follows their text. */
const furtherAssignments = /\bset: ?`([^`]*)`/g;
/** A move with assignments that are not a text of their own: from a variable, joined, or set later. */
const otherAssignments =
  /[{,]\s*(set)\s*(?=[,}])|\b(set: ?[^`\s][^,}\n]*)|\b(set: ?`[^`]*`\s*[^\s,}][^,}\n]*)|(\.set = [^;\n]*)|\bmoves(?:ToAny)?\([^(){}]*,\s*(\w+)\s*\)/g;

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
  const found = /\bCASE\b/i.test(expression)
    ? expression.matchAll(/\b(?:THEN|ELSE)\s+'(\w+)'/gi)
    : expression.matchAll(/'(\w+)'/g);
  return [...found].map(([, state = ""]) => state);
}

/** The code of an assignment that `transitions.ts` checks. */
const checked = (code: string): string | null => (/^\s*stateWhere\([^()]*\)\s*$/.test(code) ? "checked = 1" : null);

/** True when the assignments may write a state. Text from elsewhere could assign anything: where an assignment should
 *  begin, or after one that is complete. */
function mayWriteState(set: string): boolean {
  const own = withoutParentheses(set).split(/\b(?:WHERE|RETURNING|FROM)\b/i)[0] ?? "";
  const isOpen = own.split(",").some((assignment) => /^\s*\?(?!\s*=)|[\w']\s*\?\s*$/.test(assignment));
  return isOpen || /(?:^|[\s,])state\s*=/i.test(own) || /\([^()]*\bstate\b[^()]*\)\s*=/i.test(set);
}

/** A state is written through `moves` and `stateWhere`, which name the states that it may leave; a row is inserted in an
 *  initial state. A parameter for it has the type `InitialStateOf`. Not seen: a keyword, a table or `state` that is put
 *  together from parts; a column that is a variable; an insert into a table that is a variable, or without a list of columns; the rows of VALUES after
 *  the first; the condition of `stateWhere`; a move with the members of an object of another module (`...ended`); a
 *  trigger of the database; and src/platform and src/sandbox, which have tables of their own. */
export const stateWrites: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("src/") && !/^src\/(platform|sandbox)\//.test(path))
    .filter(({ path }) => path !== "src/store/transitions.ts")
    .flatMap(({ path, text }) => {
      const code = codeWithTexts(text, checked);
      const [sql] = code;
      const isMoving = code.some((one) => /\bmoves(?:ToAny)?\(/.test(one));
      const changed = [...sql.matchAll(updates), ...code.flatMap((one) => [...one.matchAll(furtherAssignments)])]
        .filter(([, set = ""]) => mayWriteState(set))
        .map(([, set = ""]) => (set.split(/\b(?:WHERE|RETURNING)\b/i)[0] ?? "").trim().slice(0, 40))
        .map((set) => `${path}: writes a state unchecked: SET ${set}`);
      const unread = code
        .flatMap((one) => (isMoving ? [...one.matchAll(otherAssignments)] : []))
        .map(([, ...found]) => `${path}: ${found.find(Boolean)}: the assignments of a move are one text in its place`);
      const replaced = [...sql.matchAll(replaces)].map(
        ([, table]) => `${path}: replaces rows of ${table}, whatever their state is`,
      );
      const inserted = [...sql.matchAll(inserts)].flatMap(([, table = "", columns = "", list = ""]) => {
        const position = columns.split(",").findIndex((column) => column.trim().toLowerCase() === "state");
        const initial: readonly string[] = initialStates[table.toLowerCase() as keyof typeof initialStates];
        return literalsOf(position < 0 ? "" : itemAt(list, position))
          .filter((state) => !initial.includes(state))
          .map((state) => `${path}: inserts ${table} in the state ${state}: initial are ${initial.join(", ")}`);
      });
      return [...changed, ...unread, ...replaced, ...inserted];
    });
