// Conversation labels and the dates that definitions cannot contain: when each label was created and
// changed.

import type { conversationState } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import type { StateDefinition } from "../definition.ts";
import type { Db } from "./database.ts";

interface StateRow {
  readonly created_at: number;
  readonly updated_at: number;
}

export interface States {
  /** Stores the defined labels at `now`. Labels that did not change keep their dates. */
  define(states: readonly StateDefinition[], now: number): void;
  /** Returns the records of these labels, in the given order. */
  all(states: readonly StateDefinition[]): Served<typeof conversationState>[];
}

export function prepareStates(db: Db): States {
  const define = db.prepare<[{ id: string; now: number; definition: string }]>(
    `INSERT INTO state (id, created_at, updated_at, definition) VALUES (@id, @now, @now, @definition)
     ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, updated_at =
       CASE WHEN state.definition = excluded.definition THEN state.updated_at ELSE excluded.updated_at END`,
  );
  const byId = db.prepare<[string], StateRow>("SELECT created_at, updated_at FROM state WHERE id = ?");
  return {
    define: (states, now) =>
      db.transaction(() => {
        for (const state of states) define.run({ id: state.id, now, definition: JSON.stringify(state) });
      })(),
    all: (states) =>
      states.flatMap((state) => {
        const row = byId.get(state.id);
        if (!row) return [];
        const { created_at, updated_at } = row;
        const dates = { createdAt: new Date(created_at), updatedAt: new Date(updated_at) };
        return [
          { ...state, createdAt: dates.createdAt.toISOString(), updatedAt: dates.updatedAt.toISOString() },
        ];
      }),
  };
}
