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
  /** Of the person with that foreign key. */
  conversationsOf(fkId: string): number;
}

/** `file`: where it is now. */
export function platformReader(file: () => string): PlatformReader {
  function all<T>(sql: string, ...values: string[]): T[] {
    const db = new Sqlite(file(), { readonly: true });
    try {
      return db.prepare<string[], T>(sql).all(...values);
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
    conversationsOf: (fkId) =>
      all(
        "SELECT conversation.id FROM conversation JOIN person ON person.id = conversation.person_id WHERE fk_id = ?",
        fkId,
      ).length,
  };
}
