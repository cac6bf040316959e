// Reads agents from a YAML file, or from the definitions of another program. Reports all errors at once with file, line, key
// and reason.

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { day } from "bridgehead/contract";
import { type Document, isMap, isNode, isScalar, LineCounter, type Node, parseDocument, visit } from "yaml";
import type * as z from "zod";
import { wrongTypeText } from "../../ops/type-text.ts";
import { keyHash, uuidOf } from "../ids.ts";
import { type AgentDefinition, definitionOf, knowledgeOf, organizationOf } from "./definition.ts";
import { type AgentsFile, agentsFile, type modelBlock } from "./schema.ts";

/** Parses an agents file. `file` is its path, used in error messages and as the base for `knowledge:
 *  [{file}]`. Throws `InvalidAgents`. */
export function readAgents(text: string, file: string): AgentDefinition[] {
  const { value, refuse } = readYaml(agentsFile, text, file);
  refuse(repeated(value));
  return definitionsIn(value, refuse, {
    folder: dirname(file),
    seedOf: (key) => key,
    unread: (at, _document, { message }) => ({ path: [...at, "file"], message: `reading it: ${message}` }),
  });
}

interface DefinitionSource {
  /** The base of the paths of documents. */
  readonly folder: string;
  readonly seedOf: (key: string) => string;
  /** The problem with a document that cannot be read. `at`: the path of its entry. */
  readonly unread: (at: FileProblem["path"], document: string, error: NodeJS.ErrnoException) => FileProblem;
}

function definitionsIn(
  file: AgentsFile,
  refuse: ReadYaml<unknown>["refuse"],
  { folder, seedOf, unread }: DefinitionSource,
): AgentDefinition[] {
  const problems: FileProblem[] = [];
  const organization = organizationOf(file.organization);
  const definitions = file.agents.map((block) =>
    definitionOf(block, {
      id: block.id ?? uuidOf("agent", organization.name, block.name),
      organization,
      keyHash: keyHash(block.key),
      seed: seedOf(block.key),
      knowledge: knowledgeOf(block, (document, at) => {
        try {
          return readFileSync(resolve(folder, document), "utf8");
        } catch (error) {
          problems.push(unread(["agents", block.name, "knowledge", at], document, error as NodeJS.ErrnoException));
          return null;
        }
      }),
    }),
  );
  refuse(problems);
  return definitions;
}

/** Rejects duplicate ids and keys, because both identify an agent, and users that are unknown or listed twice. */
function repeated({ organization, agents }: AgentsFile): FileProblem[] {
  const problems: FileProblem[] = [];
  const members = new Set<string>();
  for (const [index, { email }] of organization.users.entries()) {
    const path = ["organization", "users", index, "email"];
    if (members.has(email.toLowerCase())) problems.push({ path, message: "another user has the same" });
    members.add(email.toLowerCase());
  }
  for (const { name, users } of agents) {
    for (const [at, { email }] of users.entries()) {
      const path = ["agents", name, "users", at, "email"];
      if (!members.has(email.toLowerCase())) problems.push({ path, message: "is no user of the organization" });
    }
  }
  for (const field of ["id", "key"] as const) {
    const seen = new Set<string>();
    for (const agent of agents) {
      const value = agent[field];
      if (value === undefined) continue;
      if (seen.has(value))
        problems.push({ path: ["agents", agent.name, field], message: "another agent has the same" });
      seen.add(value);
    }
  }
  return problems;
}

// Validates a YAML text with a schema and reports all errors at once: file, line, key and problem.

/** Agents cannot be read. The message has a line for each problem. */
export class InvalidAgents extends Error {
  readonly problems: readonly AgentProblem[];

  constructor(problems: readonly AgentProblem[], file: string) {
    super(
      problems
        .map(({ line, key, message }) => `${file}${line && `:${line}`}: ${key === "" ? "" : `${key}: `}${message}`)
        .join("\n"),
    );
    this.problems = problems;
  }
}

interface AgentProblem extends FileProblem {
  /** 0: unknown. */
  readonly line: number;
  /** The path as text; empty when the file is no YAML. */
  readonly key: string;
}

export interface ReadYaml<T> {
  readonly value: T;
  /** The parsed value before validation. */
  readonly written: unknown;
  /** Throws when there are problems. */
  readonly refuse: (problems: readonly FileProblem[]) => void;
}

/** Returns the function that throws when there are problems. `lineOf`: the line of a path; 0 when it is unknown. */
function refusing(file: string, lineOf: (path: FileProblem["path"]) => number): ReadYaml<unknown>["refuse"] {
  return (problems) => {
    if (problems.length === 0) return;
    const located = problems.map(({ path, message }) => ({ path, message, line: lineOf(path), key: keyText(path) }));
    throw new InvalidAgents(located, file);
  };
}

/** Throws `InvalidAgents`. */
export function readYaml<S extends z.ZodType>(schema: S, text: string, file: string): ReadYaml<z.output<S>> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const brokenAt = (offset: number, message: string): AgentProblem => ({
    path: [],
    line: lines.linePos(offset).line,
    key: "",
    message,
  });
  const broken = document.errors.map((error) => brokenAt(error.pos[0], error.message));
  // The schema's maps of names would leave it out without an error.
  visit(document, {
    Pair(_, { key }) {
      if (!isScalar(key) || key.value !== "__proto__") return;
      broken.push(brokenAt(key.range?.[0] ?? 0, "__proto__ is not a possible name"));
    },
  });
  if (broken.length > 0) throw new InvalidAgents(broken, file);
  const refuse = refusing(file, (path) => lines.linePos(offsetOf(document, path)).line);
  const written: unknown = document.toJS({ maxAliasCount: 100 });
  const result = schema.safeParse(written, { error: explained });
  if (!result.success) refuse(result.error.issues.flatMap(problemsOf));
  return { value: result.data as z.output<S>, written, refuse };
}

function problemsOf(issue: z.core.$ZodIssue): FileProblem[] {
  if (issue.code !== "unrecognized_keys") return [{ path: issue.path, message: issue.message }];
  return issue.keys.map((key) => ({ path: [...issue.path, key], message: issue.message }));
}

/** Returns the message of an issue that a schema does not explain itself; null for the message of zod. */
function explained(issue: z.core.$ZodRawIssue): string | null {
  if (issue.code === "unrecognized_keys") {
    const { shape } = (issue.inst ?? {}) as { readonly shape?: object };
    return `no such key; known here: ${Object.keys(shape ?? {}).join(", ")}`;
  }
  if (issue.input === undefined) return "is missing: add it";
  if (issue.code !== "invalid_type") return null;
  return wrongTypeText(issue.expected, issue.input);
}

// Finds the line of a problem in a YAML file: the line of the key, or of its nearest existing parent.

export interface FileProblem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  for (let length = path.length; length >= 0; length--) {
    const parent = length === 0 ? undefined : nodeAt(document, path.slice(0, length - 1));
    const key = path[length - 1];
    const pair = isMap(parent)
      ? parent.items.find((item) => (isScalar(item.key) ? item.key.value : item.key) === key)
      : undefined;
    const found = isNode(pair?.key) ? pair.key : nodeAt(document, path.slice(0, length));
    if (found?.range) return found.range[0];
  }
  return 0;
}

function nodeAt(document: Document, path: readonly PropertyKey[]): Node | undefined {
  const found = path.length === 0 ? document.contents : document.getIn(path, true);
  return isNode(found) ? found : undefined;
}

function keyText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const step of path) text += typeof step === "number" ? `[${step}]` : `${text ? "." : ""}${String(step)}`;
  return text || "the file";
}

// Agents that another program defines, instead of a file of agents: the daemon's configuration with `model`.

/** One agent. Its identity on the platform is its name, so a renamed agent loses its conversations. */
export interface InlineAgent {
  readonly name: string;
  /** May change at every start. */
  readonly key: string;
  /** Default: `defaultInstructions`. */
  readonly instructions?: string | undefined;
  /** Absolute paths. */
  readonly knowledge: readonly string[];
  /** Skills as in a file of agents. They take precedence over the ones that follow from the fields below. */
  readonly skills?: { readonly [name: string]: unknown } | undefined;
  /** The addresses of the agent's channels by skill; one address of each kind is shown. */
  readonly addresses: { readonly [skill in "email" | "sms"]?: string };
  /** A call is answered by this agent. */
  readonly voice: boolean;
  /** Responders exist: the agent hands a conversation over when the customer needs a human. */
  readonly escalates: boolean;
  /** Milliseconds after which names and texts of a conversation are deleted; at least a day. */
  readonly retentionMs: number;
}

/** Fields of `model` in a file of agents. */
type InlineModel = Pick<
  z.output<typeof modelBlock>,
  "url" | "key" | "name" | "api" | "temperature" | "timeout" | "total_timeout"
> & { readonly reasoning_effort?: string | undefined };

const defaultInstructions = [
  "You answer the messages that customers send to this address.",
  "Answer in the language of the customer, briefly, politely and in plain text.",
  "Use only what these instructions, the documents and the conversation say. Never invent facts, prices, dates or promises.",
  "If you do not know the answer, say so.",
].join("\n");

const handover = {
  escalations: [
    {
      topic: "a human is needed",
      escalationPrompt:
        "The person asks to speak to a human, complains about a mistake, reports danger or damage, or threatens legal action.",
      autoChangeConversationMode: true,
      response: "Thank you for your message. A colleague will read it and answer you.",
      recipients: [],
    },
  ],
};

/** Builds the definitions. Throws `InvalidAgents` without lines; the keys are those of the configuration `file`. */
export function inlineAgents(agents: readonly InlineAgent[], model: InlineModel, file: string): AgentDefinition[] {
  const blocks = agents.map((agent) => [
    agent.name,
    {
      key: agent.key,
      instructions: agent.instructions ?? defaultInstructions,
      knowledge: agent.knowledge.map((file) => ({ file })),
      skills: { ...impliedSkills(agent), ...agent.skills },
      model: Object.fromEntries(Object.entries(model).filter(([, value]) => value !== undefined)),
    },
  ]);
  const whole = { organization: { name: "Bridgehead" }, agents: Object.fromEntries(blocks) as object };
  const read = agentsFile.safeParse(whole, { error: explained });
  const refuse = refusing(file, () => 0);
  if (!read.success) return refuse(read.error.issues.flatMap(problemsOf)) ?? [];
  return definitionsIn(read.data, refuse, {
    folder: "",
    seedOf: () => "",
    unread: (path, document, { code }) => ({ path, message: `${document} cannot be read (${code})` }),
  });
}

function impliedSkills({ addresses, voice, escalates, retentionMs }: InlineAgent): object {
  const retentionDays = Math.max(1, Math.ceil(retentionMs / day));
  return {
    ...(addresses.email !== undefined && { email: { email: addresses.email } }),
    ...(addresses.sms !== undefined && { sms: { phoneNumber: addresses.sms } }),
    ...(voice && { voice: {} }),
    ...(escalates && { escalation: handover }),
    data_retention: { retentionDays, anonymizeConversations: true, anonymizeConversationUsers: true },
  };
}
