// Webhook registrations at the platform. Each is recorded before the API call, so that none is requested
// twice.

import type { Query } from "../../store/driver.ts";

export interface Registration {
  /** Agent name in the configuration. */
  readonly agent: string;
  /** Name of the trigger (External API 6), such as `each_message`. */
  readonly trigger: string;
  readonly url: string;
  /** Digest of all registration parameters that the URL does not contain; another digest is another
   *  registration. */
  readonly digest: string;
}

export interface RegistrationRow extends Registration {
  /** Null: requested, outcome unknown. Empty: found on the platform, without its id. */
  readonly platform_id: string | null;
  /** Milliseconds since the request. */
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

/** Records that the registration is being requested. Returns false when it is already recorded. */
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

/** Records that the registration exists. `secret`: the key with which the platform signs its deliveries,
 *  if it returns one. */
export async function endRegistration(
  q: Query,
  { agent, trigger, url }: Registration,
  is: { readonly platformId: string; readonly secret: string | null },
): Promise<void> {
  await q.write(
    "UPDATE registrations SET platform_id = $4, secret = $5 WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
    is.platformId,
    is.secret,
  );
}

/** Deletes the record of a registration that certainly does not exist. */
export async function dropRegistration(q: Query, { agent, trigger, url }: Registration): Promise<void> {
  await q.write(
    "DELETE FROM registrations WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
  );
}

/** Returns the known keys with which the platform signs deliveries for that agent. */
export async function signingSecretsOf(q: Query, agent: string): Promise<string[]> {
  const rows = await q.all<{ secret: string }>(
    "SELECT secret FROM registrations WHERE agent = $1 AND secret IS NOT NULL",
    agent,
  );
  return rows.map(({ secret }) => secret);
}
