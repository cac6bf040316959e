// Receives the platform's webhooks, /platform/<agent>/escalation and /platform/<agent>/message. A delivery
// is authenticated, stored and acknowledged. Stage platform-webhook (stage.ts) processes it, in the same
// commit where possible.

import { createHash } from "node:crypto";
import type { Clock, Log } from "bridgehead/contract";
import type { Policy } from "../../domain/policy.ts";
import type { Scheduler } from "../../engine/scheduler.ts";
import { plain, readBody } from "../../http/channel-route.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Database } from "../../store/driver.ts";
import { signingSecretsOf } from "../registration/rows.ts";
import { isSame, isSigned, isSignedBy } from "./decide.ts";
import { insertPlatformWebhook, type PlatformWebhookKind } from "./rows.ts";

export interface PlatformWebhookHandlerDeps {
  /** Null when the current configuration has no policy. */
  readonly policy: () => Policy | null;
  /** True when an agent of that name is configured. */
  readonly isAgent: (name: string) => boolean;
  readonly db: Pick<Database, "read">;
  readonly scheduler: Pick<Scheduler, "commit">;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

const mostBytes = 2 ** 20;

/** Serves everything under /platform/. Status 200 means that the delivery is on disk and needs no retry. */
export function platformWebhookHandler(
  deps: PlatformWebhookHandlerDeps,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const proof = deps.policy()?.platformWebhook ?? null;
    const place = placeOf(request.url);
    if (proof === null || place === null) return plain(404, "not found");
    if (request.method !== "POST") return plain(405, "method not allowed", { allow: "POST" });
    const { agent, kind } = place;
    const refused = (reason: string): Response => {
      deps.log.warn({ kind, reason }, "a webhook of the platform is refused");
      return plain(403, "forbidden", { connection: "close" });
    };
    if (!isSame(request.headers.get(proof.header) ?? "", proof.key)) return refused("its key is not ours");
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
  const id = own
    ? given
    : `sha256:${createHash("sha256").update(kind).update("\n").update(bytes).digest("hex")}`;
  // No supported database stores a NUL character in a text.
  const body = new TextDecoder().decode(bytes).replaceAll("\0", "");
  const fields = { agent, kind, id };
  const isNew = await scheduler.commit(async (q) => {
    const stored = await insertPlatformWebhook(
      q,
      { agent, id, kind, body },
      own ? null : timing.platformWebhook.sameDelivery,
    );
    failpoint("intake.commit", "before", fields);
    return stored;
  });
  failpoint("intake.commit", "after", fields);
  log.info({ ...fields, isNew }, "the platform's webhook was taken");
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
