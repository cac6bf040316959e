// Agents that another program defines, instead of a file of agents: the daemon's configuration with `model`.

import { readFileSync } from "node:fs";
import { passagesOf } from "../brain/knowledge.ts";
import { keyHash, uuidOf } from "../ids.ts";
import { definitionOf, knowledgeOf, organizationOf } from "./define.ts";
import type { AgentDefinition } from "./definition.ts";
import { agentsFile } from "./schema.ts";

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

/** Fields of `model` in a file of agents. Timeouts in seconds. */
export interface InlineModel {
  readonly url: string;
  readonly key?: string | undefined;
  readonly name: string;
  readonly api: "chat" | "responses";
  readonly temperature: number | null;
  readonly reasoning_effort?: string | undefined;
  readonly timeout: number;
  readonly total_timeout: number;
}

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

/** Builds the definitions. Throws one Error whose message has a line for each problem; `place` names the file in it. */
export function inlineAgents(
  agents: readonly InlineAgent[],
  model: InlineModel,
  place: string,
): AgentDefinition[] {
  const problems: string[] = [];
  const read = agentsFile.safeParse({
    organization: { name: "Bridgehead" },
    agents: agents.map((agent) => ({
      name: agent.name,
      key: agent.key,
      instructions: agent.instructions ?? defaultInstructions,
      knowledge: agent.knowledge.map((file) => ({ file })),
      skills: { ...impliedSkills(agent), ...agent.skills },
      model: Object.fromEntries(Object.entries(model).filter(([, value]) => value !== undefined)),
    })),
  });
  if (!read.success) {
    for (const { path, message } of read.error.issues) {
      const [, index, ...rest] = path;
      const name = agents[Number(index)]?.name ?? "";
      problems.push(`${place}: agents.${[name, ...rest].map(String).join(".")}: ${message}`);
    }
    throw new Error(problems.join("\n"));
  }
  const organization = organizationOf(read.data.organization);
  const made = read.data.agents.map((block) =>
    definitionOf(block, {
      id: uuidOf("agent", organization.name, block.name),
      organization,
      keyHash: keyHash(block.key),
      seed: "",
      knowledge: knowledgeOf(block, passagesOf, (file, at) => {
        try {
          return readFileSync(file, "utf8");
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          problems.push(`${place}: agents.${block.name}.knowledge[${at}]: ${file} cannot be read (${code})`);
          return null;
        }
      }),
    }),
  );
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return made;
}

const dayMs = 86_400_000;

function impliedSkills({ addresses, voice, escalates, retentionMs }: InlineAgent): object {
  const retentionDays = Math.max(1, Math.ceil(retentionMs / dayMs));
  return {
    ...(addresses.email !== undefined && { email: { email: addresses.email } }),
    ...(addresses.sms !== undefined && { sms: { phoneNumber: addresses.sms } }),
    ...(voice && { voice: {} }),
    ...(escalates && { escalation: handover }),
    data_retention: { retentionDays, anonymizeConversations: true, anonymizeConversationUsers: true },
  };
}
