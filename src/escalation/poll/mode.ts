// Handles a change of the platform's conversation mode (agent or human) since the last poll.

import type { Clock, Log } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { Raised } from "../../pipeline/escalation.ts";
import type { Query } from "../../store/driver.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { liveEscalation } from "../../store/tables/escalations.ts";
import { dropWaitingAnswers } from "../../store/tables/takeover.ts";
import { close } from "../reply/acknowledge.ts";
import { aboutConversation, logUnnotified, raise } from "../trigger/open.ts";
import type { WatchRow } from "./rows.ts";

interface Look {
  readonly line: ChannelRuntime;
  readonly watch: WatchRow;
  readonly conversation: ConversationRow;
}

/** `mark`: id of the newest message. It distinguishes two changes to manual mode in one conversation. */
export async function noteModeChange(
  q: Query,
  look: Look,
  mode: "ai" | "manual",
  mark: string | null,
  deps: { readonly policy: () => Policy | null; readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { line, watch, conversation } = look;
  if (mode === "manual" && watch.mode !== "manual") {
    const spoken = new Set((line.settings()?.escalations ?? []).map(({ response }) => response.trim()));
    await dropWaitingAnswers(q, conversation.id, "a person has the conversation", spoken);
    const policy = deps.policy();
    const raised: Raised = {
      key: `mode:${conversation.id}:${mark ?? ""}`,
      source: "mode",
      cause: "topic",
      channel: line.channel,
      agent: line.agent,
      conversation: conversation.id,
      topic: null,
      reason: "the platform has given the conversation to a human (manual mode)",
    };
    if (policy === null) return logUnnotified(deps.log, raised);
    if (policy.causes.includes("topic")) await raise(q, raised, deps);
  }
  if (mode === "ai" && watch.mode === "manual") {
    const row = await liveEscalation(q, aboutConversation(conversation.id));
    // Mode ai does not close an unacknowledged escalation whose cause is unknown to the platform.
    if (row && (row.state === "taken" || row.cause === "topic" || row.cause === "silent"))
      await close(q, row, "the platform (mode ai)", deps);
  }
}
