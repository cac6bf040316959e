// Load, decide, write: no statement between two decisions of a step. Follows the code of the stages in the order of execution,
// with every branch, through the functions of their folder.
//
//   step       an exported function or a method of a stage, a function that takes the query and is passed on or returned (it
//              begins a transaction), one that runs in a savepoint, and those that the caller declares.
//   decision   a function of a `decide.ts` that branches or compares. Those before the first statement of a step do not count:
//              they decide on what came in, and name what is loaded.
//   statement  a method of the query, and a function of `src/store` or of a `rows.ts` that takes the query and is awaited, with
//              all that it does. For the caller, a step is one.
//
// Two passes of a loop are about two items: a decision about one may follow the statements about the other.

import { posix } from "node:path";
import { parseAst } from "vitest/node";
import type { SourceFile } from "./source.ts";

/** A node of the syntax tree. Children are found by their keys. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

/** What has happened before a point of the code, on one path: the last decision, and the first statement after it. */
interface Past {
  /** A statement was run. */
  readonly loaded: boolean;
  readonly decision: string | null;
  readonly statement: string | null;
}
/** All paths to a point, by text. Empty: the point is not reached. */
type Pasts = ReadonlyMap<string, Past>;

const nothing: Past = { decision: null, statement: null, loaded: false };
const pastsOf = (...all: readonly Past[]): Pasts =>
  new Map(all.map((past) => [`${past.decision} ${past.statement} ${past.loaded}`, past]));
const beginning = pastsOf(nothing);
const unreached = pastsOf();
const either = (...all: readonly Pasts[]): Pasts => new Map(all.flatMap((pasts) => [...pasts]));

interface Fn {
  readonly file: string;
  readonly name: string;
  readonly node: Node;
  readonly scope: Scope;
}
type Scope = ReadonlyMap<string, Fn | Import>;
interface Import {
  readonly from: string;
  /** "*" for a namespace. */
  readonly name: string;
}

/** Where the code of a function is followed. */
interface Place {
  readonly fn: Fn;
  readonly scope: Scope;
  readonly returned: Pasts[];
  /** Where the nearest loop or switch is left. */
  readonly jumps: Pasts[];
}

interface Module {
  readonly path: string;
  readonly scope: Map<string, Fn | Import>;
  readonly exported: Set<string>;
  readonly methods: readonly Fn[];
}

const isDecision = (path: string): boolean => path.endsWith("/decide.ts");
const isRows = (path: string): boolean => path.startsWith("src/store/") || /\/(?:[\w-]+-)?rows\.ts$/.test(path);
const isFollowed = (path: string): boolean => /^src\/(?:pipeline|calls|escalation)\//.test(path);
const isStage = (path: string): boolean => /\/(?:stage|sessions|receipts|actions)\.ts$/.test(path) && isFollowed(path);

/** What runs a function in a savepoint. */
const savepoints = new Set(["savepoint", "isolated", "attempt"]);
const methodsOfQuery = new Set(["all", "one", "run", "write", "defer"]);
const transactions = new Set(["read", "tx", "commit"]);
/** What makes a function a decision: these, comparisons, and the methods that select. */
const branches = new Set(["IfStatement", "ConditionalExpression", "LogicalExpression", "SwitchStatement"]);
const selects = new Set(["filter", "find", "some", "every", "includes", "has"]);

const folderOf = (path: string): string => posix.dirname(path);
const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";
const childrenOf = (node: Node): Node[] =>
  Object.values(node)
    .flat()
    .filter(isNode)
    .sort((a, b) => a.start - b.start);
const isFunction = ({ type }: Node): boolean =>
  type === "FunctionDeclaration" || type === "FunctionExpression" || type === "ArrowFunctionExpression";
/** The name of an identifier, or the text of a literal. */
function nameOf(node: unknown): string {
  const name = isNode(node) ? (node["name"] ?? node["value"]) : "";
  return typeof name === "string" ? name : "";
}

function moduleOf({ path, text }: SourceFile): Module {
  const scope = new Map<string, Fn | Import>();
  const exported = new Set<string>();
  const methods: Fn[] = [];
  for (const statement of parseAst(text, { lang: "ts" }, path).body as unknown as Node[]) {
    if (statement.type === "ImportDeclaration") {
      const to = nameOf(statement["source"]);
      if (statement["importKind"] === "type" || !to.startsWith(".")) continue;
      const from = posix.join(posix.dirname(path), to);
      for (const one of statement["specifiers"] as Node[])
        scope.set(nameOf(one["local"]), { from, name: nameOf(one["imported"]) || "*" });
      continue;
    }
    const isExported = statement.type.startsWith("Export");
    const declared = isExported ? statement["declaration"] : statement;
    if (!isNode(declared)) continue;
    for (const [name, node] of functionsIn(declared)) {
      scope.set(name, { file: path, name, node, scope });
      if (isExported) exported.add(name);
    }
    if (declared.type !== "ClassDeclaration") continue;
    for (const member of (declared["body"] as Node)["body"] as Node[]) {
      const value = member["value"];
      if (isNode(value) && isFunction(value))
        methods.push({ file: path, name: nameOf(member["key"]), node: value, scope });
    }
  }
  return { path, scope, exported, methods };
}

/** The functions that a declaration names. */
function functionsIn(declared: Node): [name: string, node: Node][] {
  if (isFunction(declared)) return [[nameOf(declared["id"]), declared]];
  if (declared.type !== "VariableDeclaration") return [];
  return (declared["declarations"] as Node[]).flatMap(({ id, init }) =>
    isNode(init) && isFunction(init) ? [[nameOf(id), init] as [string, Node]] : [],
  );
}

const takesQuery = ({ params }: Node): boolean => nameOf((params as Node[])[0]) === "q";
const passesQuery = (call: Node): boolean => nameOf((call["arguments"] as Node[])[0]) === "q";
const isAwaited = ({ async, generator, returnType }: Node): boolean =>
  async === true || generator === true || JSON.stringify(returnType ?? null).includes('"Promise"');

/** The functions of these files, and which of them decide. */
function programOf(files: readonly SourceFile[]) {
  const modules = new Map(
    files.filter(({ path }) => path.startsWith("src/")).map((file) => [file.path, moduleOf(file)]),
  );
  const methods = new Map<string, Fn[]>();
  for (const fn of [...modules.values()].flatMap((one) => one.methods))
    methods.set(fn.name, [...(methods.get(fn.name) ?? []), fn]);
  const resolved = (name: string, scope: Scope, member: string | null = null): Fn | null => {
    const one = scope.get(name);
    if (one === undefined || "node" in one) return member === null ? (one ?? null) : null;
    const target = modules.get(one.from)?.scope.get(one.name === "*" ? (member ?? "") : one.name);
    return target !== undefined && "node" in target ? target : null;
  };

  /** Functions that a callee may be. */
  function calledBy(call: Node, scope: Scope): readonly Fn[] {
    const callee = call["callee"] as Node;
    if (callee.type === "Identifier") {
      const fn = resolved(nameOf(callee), scope);
      return fn === null ? [] : [fn];
    }
    if (callee.type !== "MemberExpression") return [];
    const method = nameOf(callee["property"]);
    const object = callee["object"] as Node;
    const fn = object.type === "Identifier" ? resolved(nameOf(object), scope, method) : null;
    if (fn !== null) return [fn];
    return passesQuery(call) ? (methods.get(method) ?? []).filter(({ node }) => takesQuery(node)) : [];
  }

  const choices = new Map<Node, boolean>();
  /** True when the function branches or compares, itself or through another one. */
  function decides(fn: Fn): boolean {
    const before = choices.get(fn.node);
    if (before !== undefined) return before;
    choices.set(fn.node, false);
    const any = (node: Node): boolean => {
      if (branches.has(node.type)) return true;
      if (node.type === "BinaryExpression" && /^[=!<>]|^in$/.test(String(node["operator"]))) return true;
      if (node.type === "CallExpression") {
        const callee = node["callee"] as Node;
        if (callee.type === "MemberExpression" && selects.has(nameOf(callee["property"]))) return true;
        if (calledBy(node, fn.scope).some(decides)) return true;
      }
      if (node.type === "Identifier") {
        const other = resolved(nameOf(node), fn.scope);
        if (other !== null && other.node !== fn.node && decides(other)) return true;
      }
      return childrenOf(node).some(any);
    };
    const result = any(fn.node["body"] as Node);
    choices.set(fn.node, result);
    return result;
  }

  /** The decisions that the files import. */
  const imported = (isAsked: (path: string) => boolean) =>
    [...modules.values()]
      .filter(({ path }) => isFollowed(path) && isAsked(path))
      .flatMap(({ path, scope }) =>
        [...scope].flatMap(([name, one]) => {
          const fn = "from" in one && isDecision(one.from) ? resolved(name, scope) : null;
          return fn !== null && decides(fn) ? [{ path, name, fn }] : [];
        }),
      );

  return { modules, resolved, calledBy, decides, imported };
}

/** Returns `stage: decision -> statement -> decision` for each violation, sorted; also the decisions that are met nowhere.
 *  `declared`: further steps, as `file function`. */
export function interleaved(files: readonly SourceFile[], declared: readonly string[]): string[] {
  const { modules, resolved, calledBy, decides, imported } = programOf(files);
  const found = new Set<string>();
  const steps = new Set(declared);
  const met = new Set<Node>();
  const known = new Map<Node, Map<string, Pasts>>();
  const running = new Set<Node>();

  function follow(root: Fn): void {
    const decided = (pasts: Pasts, decision: string): Pasts => {
      for (const past of pasts.values())
        if (past.statement !== null) found.add(`${root.file}: ${past.decision} -> ${past.statement} -> ${decision}`);
      return pastsOf(
        ...[...pasts.values()].map((past) => (past.loaded ? { decision, statement: null, loaded: true } : past)),
      );
    };
    const stated = (pasts: Pasts, statement: string): Pasts =>
      pastsOf(
        ...[...pasts.values()].map((past) =>
          past.decision === null || past.statement !== null ? { ...past, loaded: true } : { ...past, statement },
        ),
      );

    function called(pasts: Pasts, fn: Fn): Pasts {
      if (isDecision(fn.file)) {
        met.add(fn.node);
        return decides(fn) ? decided(pasts, fn.name) : pasts;
      }
      if (isRows(fn.file)) return takesQuery(fn.node) && isAwaited(fn.node) ? stated(pasts, fn.name) : pasts;
      if (!isFollowed(fn.file)) return pasts;
      if (folderOf(fn.file) === folderOf(root.file) && !steps.has(`${fn.file} ${fn.name}`)) return body(pasts, fn);
      return takesQuery(fn.node) ? stated(pasts, fn.name) : pasts;
    }

    function body(pasts: Pasts, fn: Fn): Pasts {
      if (pasts.size === 0 || running.has(fn.node)) return pasts;
      const key = `${root.file} ${root.name} ${[...pasts.keys()].join()}`;
      const results = known.get(fn.node) ?? new Map<string, Pasts>();
      known.set(fn.node, results);
      const before = results.get(key);
      if (before) return before;
      running.add(fn.node);
      const scope = new Map(fn.scope);
      declare(fn.node["body"] as Node, scope, fn.file);
      const returned: Pasts[] = [];
      const after = walk(fn.node["body"] as Node, pasts, { fn, scope, returned, jumps: [] });
      running.delete(fn.node);
      const result = either(after, ...returned);
      results.set(key, result);
      return result;
    }

    /** Functions inside of a function are known by their names before they are called. */
    function declare(node: Node, scope: Map<string, Fn | Import>, file: string): void {
      for (const [name, inner] of functionsIn(node)) scope.set(name, { file, name, node: inner, scope });
      if (!isFunction(node)) for (const child of childrenOf(node)) declare(child, scope, file);
    }

    /** A function that is passed on is called there, unless it is a step. */
    function passed(node: Node, pasts: Pasts, place: Place, isStep: boolean): Pasts {
      const fn = isFunction(node)
        ? { file: place.fn.file, name: place.fn.name, node, scope: place.scope }
        : node.type === "Identifier"
          ? resolved(nameOf(node), place.scope)
          : null;
      if (fn === null) return pasts;
      if (!isDecision(fn.file) && !isRows(fn.file) && (isStep || takesQuery(fn.node))) {
        begin(fn);
        return pasts;
      }
      return either(pasts, called(pasts, fn));
    }

    function call(node: Node, start: Pasts, place: Place): Pasts {
      let pasts = start;
      const callee = node["callee"] as Node;
      if (callee.type !== "Identifier") pasts = walk(callee, pasts, place);
      const args = node["arguments"] as Node[];
      for (const one of args) if (!isFunction(one)) pasts = walk(one, pasts, place);
      const method = nameOf(callee.type === "MemberExpression" ? callee["property"] : callee);
      for (const one of args) pasts = passed(one, pasts, place, savepoints.has(method));
      if (savepoints.has(method)) return stated(pasts, method);
      const object = callee.type === "MemberExpression" ? nameOf(callee["object"]) : "";
      if (object === "q" && methodsOfQuery.has(method)) return stated(pasts, `q.${method}`);
      if (callee.type !== "Identifier" && transactions.has(method) && args.length > 0) return stated(pasts, method);
      const fns = calledBy(node, place.scope);
      return fns.length === 0 ? pasts : either(...fns.map((fn) => called(pasts, fn)));
    }

    function walk(node: Node, pasts: Pasts, place: Place): Pasts {
      if (pasts.size === 0) return pasts;
      const sub = (key: string, from: Pasts): Pasts => {
        const child = node[key];
        return isNode(child) ? walk(child, from, place) : from;
      };
      /** A loop or a switch, which its body may leave at several places. */
      const left = (of: (inner: Place) => Pasts): Pasts => {
        const jumps: Pasts[] = [];
        return either(of({ ...place, jumps }), ...jumps);
      };
      const each = (nodes: readonly Node[], from: Pasts, inner = place): Pasts =>
        nodes.reduce((before, child) => walk(child, before, inner), from);
      switch (node.type) {
        case "FunctionDeclaration":
          return pasts;
        case "FunctionExpression":
        case "ArrowFunctionExpression":
          // A value, such as the member of an object: called later.
          begin({ file: place.fn.file, name: place.fn.name, node, scope: place.scope });
          return pasts;
        case "VariableDeclarator":
          return isNode(node["init"]) && isFunction(node["init"]) ? pasts : sub("init", pasts);
        case "CallExpression":
          return call(node, pasts, place);
        case "ReturnStatement":
          place.returned.push(sub("argument", pasts));
          return unreached;
        case "BreakStatement":
        case "ContinueStatement":
          place.jumps.push(pasts);
          return unreached;
        case "ThrowStatement":
          sub("argument", pasts);
          return unreached;
        case "IfStatement":
        case "ConditionalExpression": {
          const tested = sub("test", pasts);
          return either(sub("consequent", tested), sub("alternate", tested));
        }
        case "LogicalExpression": {
          const first = sub("left", pasts);
          return either(first, sub("right", first));
        }
        case "AssignmentExpression": {
          const right = sub("right", pasts);
          return String(node["operator"]).length > 2 ? either(pasts, right) : right;
        }
        case "ForOfStatement":
        case "ForStatement":
        case "WhileStatement": {
          const before = sub("right", sub("init", pasts));
          const once = (from: Pasts): Pasts => {
            const tested = sub("test", from);
            const done = left((inner) => walk(node["body"] as Node, tested, inner));
            return either(tested, sub("update", done));
          };
          const first = once(before);
          // In the second pass even the first decision follows a statement.
          const isLoaded = [...first.values()].some(({ loaded }) => loaded);
          return either(before, first, isLoaded ? once(pastsOf({ ...nothing, loaded: true })) : first);
        }
        case "SwitchStatement": {
          const on = sub("discriminant", pasts);
          const cases = node["cases"] as Node[];
          return left((inner) => either(on, ...cases.map(({ consequent }) => each(consequent as Node[], on, inner))));
        }
        case "TryStatement": {
          const done = sub("block", pasts);
          return sub("finalizer", either(done, sub("handler", either(pasts, done))));
        }
        default:
          return each(childrenOf(node), pasts);
      }
    }

    const begin = (fn: Fn) => void (fn.node !== root.node && body(beginning, fn));
    body(beginning, root);
  }

  for (const { path, scope, exported, methods: own } of modules.values()) {
    if (!isStage(path)) continue;
    for (const [name, one] of scope)
      if ("node" in one && (exported.has(name) || steps.has(`${path} ${name}`))) follow(one);
    for (const method of own) follow(method);
  }
  for (const { path, name, fn } of imported(isStage))
    if (!met.has(fn.node)) found.add(`${path}: ${name} is not met on any path`);
  return [...found].sort();
}

/** Returns the decisions that each `rows.ts` of a stage uses, as `file: decision`, sorted. */
export function decisionsInRows(files: readonly SourceFile[]): string[] {
  return programOf(files)
    .imported(isRows)
    .map(({ path, name }) => `${path}: ${name}`)
    .sort();
}
