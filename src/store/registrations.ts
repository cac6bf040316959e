// The webhooks we have asked the platform for: noted before the call, so that none is asked for twice.

import type { Query } from "./driver.ts";

export interface Registration {
  /** As the configuration names it. */
  readonly agent: string;
  /** External API 6, such as `each_message`. */
  readonly trigger: string;
  readonly url: string;
  /** Of all that it was registered with and the address does not show: another one is another registration. */
  readonly digest: string;
}

export interface RegistrationRow extends Registration {
  /** Null: asked for, outcome unknown. Empty: found there, without its id. */
  readonly platform_id: string | null;
  /** Milliseconds since it was asked for. */
  readonly asked_ago: number;
}

export async function registrationsOf(q: Query, agent: string, trigger: string): Promise<RegistrationRow[]> {
  return q.all<RegistrationRow>(
    `SELECT agent, trigger_name AS "trigger", url, digest, platform_id, now_ms() - asked_at AS asked_ago FROM registrations
     WHERE agent = $1 AND trigger_name = $2 ORDER BY url`,
    agent,
    trigger,
  );
}

/** Notes that it is being asked for. False when somebody has noted that already. */
export async function beginRegistration(q: Query, one: Registration): Promise<boolean> {
  const added = await q.run(
    `INSERT INTO registrations (agent, trigger_name, url, digest, asked_at) VALUES ($1, $2, $3, $4, now_ms())
     ON CONFLICT (agent, trigger_name, url) DO NOTHING`,
    one.agent,
    one.trigger,
    one.url,
    one.digest,
  );
  return added === 1;
}

/** It is there. `secret`: with which the platform signs its deliveries, where it says so. */
export async function endRegistration(
  q: Query,
  { agent, trigger, url }: Registration,
  is: { readonly platformId: string; readonly secret: string | null },
): Promise<void> {
  await q.run(
    "UPDATE registrations SET platform_id = $4, secret = $5 WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
    is.platformId,
    is.secret,
  );
}

/** It is certainly not there. */
export async function dropRegistration(q: Query, { agent, trigger, url }: Registration): Promise<void> {
  await q.run(
    "DELETE FROM registrations WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
  );
}

/** With which the platform signs what it delivers for that agent, as far as it has said so. */
export async function signingSecretsOf(q: Query, agent: string): Promise<string[]> {
  const rows = await q.all<{ secret: string }>(
    "SELECT secret FROM registrations WHERE agent = $1 AND secret IS NOT NULL",
    agent,
  );
  return rows.map(({ secret }) => secret);
}
