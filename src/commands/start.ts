// bridgehead start: starts an outbound conversation by mail, text or call. Stores the opening; the running daemon opens
// the platform's conversation and sends the introduction. Reads only the store and the channel's block of the file.

import { type AdapterDefinition, channelId } from "bridgehead/contract";
import type { AgentSettings } from "../agent/calls.ts";
import { loadChannel } from "../config/index.ts";
import { durationText } from "../domain/duration-text.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { skillNamed, startable } from "../pipeline/channel-runtime.ts";
import { type Begun, begin, begunBefore, type Repeated } from "../pipeline/outbound.ts";
import type { Database, Query } from "../store/driver.ts";
import { readSettings } from "../store/tables/agents.ts";
import { type OpeningOutcome, openingOutcome } from "../store/tables/conversations.ts";
import { ensureChannel } from "../store/tables/events.ts";
import { suppressionOrHash } from "../store/tables/suppressions.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "./io.ts";
import { failUnknownChannel, load, useStore } from "./store/open.ts";

export interface StartOptions extends CommandOptions {
  readonly channel: string;
  readonly to: string;
  readonly name?: string;
  readonly subject?: string;
  readonly introduction?: string;
  readonly context?: string;
  /** Repeats a text that was already enqueued for that person within the last ten minutes. */
  readonly again?: boolean;
  /** Milliseconds. */
  readonly wait?: number;
}

export async function startConversation(options: StartOptions, io: Io): Promise<number> {
  const { channel: id, to, wait } = options;
  const loaded = await load((path, given) => loadChannel(path, id, given), options, io);
  const { channel, ids } = loaded;
  if (!channel) return failUnknownChannel(id, ids, loaded.file);
  const address = addressFor(channel.adapter, to);
  if (address === null)
    return fail(`channel ${id} cannot reach ${to}: give ${wantedForm(channel.adapter)}`, exitCodes.usage);
  if (!channel.enabled) fail(`channel ${id} is not enabled: nothing is sent there`);
  const { platform } = channel.adapter.traits;
  if (platform === null) return fail(`channel ${id} carries notices only: no agent speaks there`, exitCodes.usage);
  const problem = startProblem(channel.adapter, channel.settings);
  if (problem !== null) fail(`channel ${id} ${problem}`);
  return useStore(loaded, io, async (db) => {
    const wanted = { ...options, address, agent: channel.agent };
    const refusal = await whyNot(db, wanted, platform);
    if (refusal !== null) fail(refusal);
    const begun = await write(db, wanted, platform, io.timing.commands.sameText);
    if ("ago" in begun) return fail(repeated(begun, address));
    const outcome = wait === undefined ? null : await watch(db, begun, wait, io);
    return print(begun, outcome, wanted, io);
  });
}

function startProblem(adapter: AdapterDefinition, settings: Readonly<Record<string, unknown>>): string | null {
  try {
    return adapter.startProblem?.(settings) ?? null;
  } catch {
    return null;
  }
}

type Wanted = StartOptions & { readonly address: string; readonly agent: string };
type PlatformTraits = NonNullable<AdapterDefinition["traits"]["platform"]>;

/** Returns the address as the channel knows it; null for another kind of address. */
export function addressFor(adapter: AdapterDefinition, text: string): string | null {
  return adapter.address ? adapter.address(text) : text.trim() || null;
}

/** The form of a channel's addresses, for errors. */
export const wantedForm = ({ traits }: AdapterDefinition): string =>
  traits.platform === "email"
    ? "a mailbox, such as anna@example.com"
    : startable(traits.platform)
      ? "a number with its country, such as +15550111"
      : "an address of its channel";

/** The platform's settings for the introduction. Calls have none. */
const introductions = {
  email: ", or set defaultEmailIntroduction of its EMAIL skill",
  sms: ", or set defaultSmsIntroduction of its SMS skill",
  voice: "",
} as const;

async function whyNot(db: Database, wanted: Wanted, platform: PlatformTraits): Promise<string | null> {
  const { channel, address, agent } = wanted;
  const { suppressed, row } = await db.read(async (q) => ({
    suppressed: await suppressionOrHash(q, channel, address),
    row: await readSettings(q, agent),
  }));
  if (suppressed !== null) return `${address} gets nothing from channel ${channel}: ${suppressed}`;
  if (!row) {
    const own = wanted.introduction !== undefined && (platform !== "email" || wanted.subject !== undefined);
    return own ? null : `the settings of agent ${agent} were never read: does the daemon run?`;
  }
  const settings = JSON.parse(row.settings) as AgentSettings;
  const skill = skillNamed(settings, platform);
  if (settings.status !== "active") return `agent ${agent} is ${settings.status}`;
  // Calls need no VOICE skill (pipeline/channel-runtime.ts).
  if (!skill && startable(platform) && platform !== "voice") return `agent ${agent} has no ${platform} skill`;
  if (skill && skill.status !== "active") return `the ${platform} skill of agent ${agent} is inactive`;
  if (!(wanted.introduction ?? skill?.introduction)?.trim())
    return `agent ${agent} has no introduction: give --introduction${startable(platform) ? introductions[platform] : ""}`;
  if (platform === "email" && !(wanted.subject ?? skill?.defaultSubject)?.trim())
    return `agent ${agent} has no subject to begin with: give --subject, or set defaultSubject of its EMAIL skill`;
  return null;
}

/** Starts the conversation, or returns the one that was already started with the same text. Two runs of one command
 *  start one conversation, also when they run at the same time, and when the first was killed after its commit. */
function write(db: Database, wanted: Wanted, platform: PlatformTraits, sameMs: number): Promise<Begun | Repeated> {
  const { channel, agent, address, name, subject, introduction, context, again } = wanted;
  const opening = {
    introduction: introduction ?? null,
    subject: subject ?? null,
    context: context ?? null,
    speak: true,
  };
  return db.tx(async (q) => {
    await ensureChannel(q, channelId(channel));
    const before = again
      ? null
      : await begunBefore(q, { channel, address, opening }, await ownWords(q, agent, platform), sameMs);
    if (before !== null) return before;
    const begun = await begin(q, clock, { channel, agent, address, name: name ?? null, opening });
    await db.wake(q);
    return begun;
  });
}

/** Returns the agent's own introduction and subject, for a command without one. */
async function ownWords(q: Query, agent: string, platform: string) {
  const row = await readSettings(q, agent);
  const skill = row === null ? null : skillNamed(JSON.parse(row.settings) as AgentSettings, platform);
  return { introduction: skill?.introduction ?? null, subject: skill?.defaultSubject ?? null };
}

function repeated({ conversation, ago, state }: Repeated, address: string): string {
  return `not sent again: the same text was enqueued for ${address} ${durationText(Math.max(0, ago))} ago (conversation ${conversation}: ${words[state]}); --again sends it once more`;
}

async function watch(db: Database, begun: Begun, ms: number, { signal, timing }: Io): Promise<OpeningOutcome> {
  const until = clock.monotonic() + ms;
  for (;;) {
    const outcome = await db.read((q) => openingOutcome(q, begun.turn));
    const isOpen = outcome.state === "waiting" || outcome.state === "unknown";
    if (!isOpen || clock.monotonic() >= until || signal.aborted) return outcome;
    await clock.sleep(timing.commands.startCheck, signal);
  }
}

function print(begun: Begun, outcome: OpeningOutcome | null, wanted: Wanted, io: Io): number {
  const { channel, address } = wanted;
  const { state, reason } = outcome ?? { state: "waiting", reason: null };
  if (wanted.json) io.out(JSON.stringify({ ...begun, channel, to: address, state, reason }));
  else {
    const standing = outcome === null ? "the daemon will open it" : words[outcome.state];
    io.out(`conversation ${begun.conversation} with ${address}: ${standing}${reason ? ` (${reason})` : ""}`);
  }
  return outcome === null || outcome.state === "sent" ? exitCodes.ok : exitCodes.failed;
}

const words: Readonly<Record<OpeningOutcome["state"], string>> = {
  waiting: "not sent yet; it still will be",
  unknown: "perhaps sent; the outcome is not known yet: see conversation show",
  sent: "sent",
  held: "held: see outbox",
  failed: "failed",
  dropped: "not sent",
};
