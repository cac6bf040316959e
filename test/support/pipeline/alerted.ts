// A pipeline that records what responders are notified of.

import type { EscalationHooks, EscalationTrigger } from "../../../src/pipeline/escalation.ts";
import { openPipeline, type TestPipeline, type TestPipelineOptions } from "./pipeline.ts";

export interface Alerted extends TestPipeline {
  readonly alerts: readonly EscalationTrigger[];
  readonly undelivered: readonly string[];
}

/** A pipeline that records its escalations, each key once. */
export async function alerted(options: TestPipelineOptions = {}): Promise<Alerted> {
  const alerts: EscalationTrigger[] = [];
  const undelivered: string[] = [];
  const escalation: EscalationHooks = {
    open: async (_, trigger) => {
      if (!alerts.some(({ key }) => key === trigger.key)) alerts.push(trigger);
    },
    routeReply: async () => false,
    pollAfter: () => 60_000,
    answered: async () => false,
    undeliverable: async (_, line, draft, { state, reason }) => {
      undelivered.push(`${line.channel} ${draft.id} ${state}: ${reason}`);
    },
  };
  const pipeline = await openPipeline({
    ...options,
    line: (line) => ({ ...line, escalation: () => escalation }),
  });
  return Object.assign(pipeline, { alerts, undelivered });
}
