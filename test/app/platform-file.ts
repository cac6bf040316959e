// What the embedded platform's own file says, read beside it.

import Sqlite from "better-sqlite3";

export interface Question {
  readonly conversation: string;
  readonly text: string;
}

export interface PlatformReader {
  /** Questions in their order. */
  questions(): Question[];
  conversations(): number;
}

/** `file`: where it is now. */
export function platformReader(file: () => string): PlatformReader {
  function all<T>(sql: string): T[] {
    const db = new Sqlite(file(), { readonly: true });
    try {
      return db.prepare<[], T>(sql).all();
    } finally {
      db.close();
    }
  }
  return {
    questions: () =>
      all(
        "SELECT conversation_id AS conversation, text FROM message WHERE sender_role = 'conversation_user' ORDER BY seq",
      ),
    conversations: () => all("SELECT id FROM conversation").length,
  };
}
