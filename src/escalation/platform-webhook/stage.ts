// Stage platform-webhook: /platform/<agent>/escalation and /platform/<agent>/message. Input: requests of the platform,
// each authenticated, stored and acknowledged; then the stored deliveries. Effect: finds the conversation of each
// delivery, which may be bound a moment later. Output: a due poll of that conversation; an escalation about it, or
// about the agent when the conversation is unknown here. Failure: retried later. Crash: a request without a response is
// repeated; the row of a stored one is still due.

import { createHash } from "node:crypto";
import { sameText } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { plain, readBody } from "../../http/channel-route.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { isolated, type Query } from "../../store/driver.ts";
import { schedulePolls } from "../../store/tables/conversations.ts";
import type { EscalationCore, EscalationParts } from "../actions.ts";
import { openEscalations } from "../trigger/stage.ts";
import { isSigned, isSignedBy, planDeliveries, readPayload } from "./decide.ts";
import {
  conversationsBoundTo,
  duePlatformWebhooks,
  endPlatformWebhooks,
  insertPlatformWebhook,
  type PlatformWebhookKind,
  type PlatformWebhookRow,
  postponePlatformWebhooks,
  signingSecretsOf,
} from "./rows.ts";

type PlatformWebhookHandlerDeps = Pick<
  EscalationParts,
  "policy" | "clock" | "log" | "timing" | "db" | "scheduler" | "isAgent"
>;

const mostBytes = 2 ** 20;

/** Serves everything under /platform/. Status 200 means that the delivery is on disk and needs no retry. */
export function platformWebhookHandler(deps: PlatformWebhookHandlerDeps): (request: Request) => Promise<Response> {
  return async (request) => {
    const proof = deps.policy()?.platformWebhook ?? null;
    const place = placeOf(request.url);
    if (proof === null || place === null) return plain(404, "not found");
    if (request.method !== "POST") return plain(405, "method not allowed", { allow: "POST" });
    const { agent, kind } = place;
    const refused = (reason: string): Response => {
      deps.log.warn({ kind, reason }, "platform webhook rejected");
      return plain(403, "forbidden", { connection: "close" });
    };
    const given = request.headers.get(proof.header) ?? "";
    if (![proof.key, ...proof.formerKeys].some((key) => sameText(key, given))) return refused("its key is not ours");
    if (!deps.isAgent(agent)) return plain(404, "not found");
    const mustBeSigned = proof.signingSecrets.length > 0;
    if (mustBeSigned && !isSigned(request.headers)) return refused("it is not signed");
    const bytes = await readBody(request, mostBytes);
    if (bytes === null) return plain(413, "too large", { connection: "close" });
    if (mustBeSigned) {
      const secrets = [...proof.signingSecrets, ...(await deps.db.read((q) => signingSecretsOf(q, agent)))];
      if (!isSignedBy(secrets, request.headers, bytes, deps.clock.now(), deps.timing.platformWebhook.skew))
        return refused("its signature is not right, or not of now");
    }
    await store(agent, kind, request.headers.get("webhook-id"), bytes, deps);
    return plain(200, "ok");
  };
}

async function store(
  agent: string,
  kind: PlatformWebhookKind,
  given: string | null,
  bytes: Uint8Array,
  { scheduler, log, timing }: PlatformWebhookHandlerDeps,
): Promise<void> {
  const own = given !== null && /^[\x21-\x7e]{1,200}$/.test(given);
  const id = own ? given : `sha256:${createHash("sha256").update(kind).update("\n").update(bytes).digest("hex")}`;
  // No supported database stores a NUL character in a text.
  const body = new TextDecoder().decode(bytes).replaceAll("\0", "");
  const fields = { agent, kind, id };
  const isNew = await scheduler.commit(async (q) => {
    const stored = await insertPlatformWebhook(
      q,
      { agent, id, kind, body },
      own ? null : timing.platformWebhook.sameDelivery,
    );
    failpoints["platform-webhook.commit"].publish({ phase: "before", ...fields });
    return stored;
  });
  failpoints["platform-webhook.commit"].publish({ phase: "after", ...fields });
  log.info({ ...fields, isNew }, "platform webhook stored");
}

function placeOf(url: string): { readonly agent: string; readonly kind: PlatformWebhookKind } | null {
  const [, first, name = "", kind, ...more] = new URL(url).pathname.split("/");
  if (first !== "platform" || more.length > 0 || (kind !== "escalation" && kind !== "message")) return null;
  try {
    return { agent: decodeURIComponent(name), kind };
  } catch {
    return null;
  }
}

const batch = 50;

/** Processes stored deliveries. Without a policy they wait. */
export function platformWebhookStage(deps: EscalationCore): TransactionalStage {
  const { retryLongest: ms } = deps.timing.platformWebhook;
  return {
    takes: "escalations",
    async run(q) {
      const policy = deps.policy();
      if (policy === null) return [];
      await isolated(
        q,
        await duePlatformWebhooks(q, batch),
        (rows) => process(q, rows, policy, deps),
        async (row, error) => {
          const { agent, id } = row;
          deps.log.error({ agent, delivery: id, err: error }, "processing a platform webhook failed");
          await postponePlatformWebhooks(q, [{ row, ms }]);
        },
      );
      return [];
    },
  };
}

async function process(
  q: Query,
  rows: readonly PlatformWebhookRow[],
  policy: Policy,
  deps: EscalationCore,
): Promise<void> {
  const deliveries = rows.map((row) => ({ row, payload: readPayload(row.body) }));
  const bound = await conversationsBoundTo(
    q,
    deliveries.flatMap(({ payload }) => payload.conversation ?? []),
  );
  const isTopic = policy.causes.includes("topic");
  const plan = planDeliveries(deliveries, bound, isTopic, deps.lines(), deps.timing.platformWebhook);
  // In the common lock order: escalations, then polls.
  if (plan.triggers.length > 0) await openEscalations(q, plan.triggers, deps);
  await schedulePolls(q, plan.polls, 0);
  await endPlatformWebhooks(q, plan.ended);
  await postponePlatformWebhooks(q, plan.postponed);
  for (const { row, state } of plan.ended)
    if (state === "lost")
      deps.log.warn({ agent: row.agent, delivery: row.id }, "platform webhook about an unknown conversation");
}
