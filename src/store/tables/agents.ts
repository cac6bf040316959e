// Agent settings as last read from the platform. They allow the daemon to start while the platform is down.

import type { Query } from "../driver.ts";

export async function readSettings(q: Query, agent: string): Promise<{ settings: string; read_at: number } | null> {
  const row = await q.one<{ settings: string; read_at: number }>(
    "SELECT settings, read_at FROM agents WHERE id = $1",
    agent,
  );
  return row ?? null;
}

export async function writeSettings(q: Query, agent: string, settings: string): Promise<void> {
  await q.run(
    `INSERT INTO agents (id, settings, read_at) VALUES ($1, $2, now_ms())
     ON CONFLICT (id) DO UPDATE SET settings = excluded.settings, read_at = excluded.read_at`,
    agent,
    settings,
  );
}
