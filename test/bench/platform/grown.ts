// Creates a platform database as it is after a year: email conversations with ten messages each on average, many of them
// at the same time. The platform's own store creates the file, and its triggers the lists. SQL generates the rows, because
// sending a million messages would take minutes.

import { prepareAgents } from "../../../src/platform/store/agents.ts";
import { type Db, openDatabase } from "../../../src/platform/store/store.ts";
import { benchAgents, question } from "./agent.ts";

export interface Grown {
  readonly file: string;
  readonly messages: number;
  readonly conversations: number;
  readonly people: number;
  /** Between these times everything happened, epoch milliseconds. */
  readonly from: number;
  readonly until: number;
  /** Some of the people, from all of that time; two conversations each. */
  readonly some: readonly { readonly id: string; readonly fkId: string; readonly fkUserId: string }[];
  /** Some of the conversations that have exactly ten messages. */
  readonly tens: readonly string[];
}

/** Names of which one finds one person in a hundred, the other one alone. */
export const commonName = "Rosalind";
export const rareName = "Quillfeather";

/** Number of sample people and conversations: a store of a thousand messages has as many. */
const samplesAtMost = 20;

const begin = Date.UTC(2025, 0, 1);
const stepMs = 31_000;

/** Users are in families of two, who share an fkUserId. The nth message belongs to one of the newest forty
 *  conversations. */
const rows = `
CREATE TEMP TABLE said AS
  WITH RECURSIVE each (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM each WHERE i + 1 < @messages)
  SELECT i, max(0, i / 10 - i * 7919 % 100003 % 40) AS c, @begin + i * ${stepMs} AS at FROM each;

INSERT INTO person (id, agent_id, first_name, last_name, fk_id, fk_user_id, email, created_at)
  SELECT printf('%08x-0000-7000-8000-00000000aaaa', i / 10), @agent,
    iif(i / 10 % 100 = 17, '${commonName}', 'Jo' || (i / 10 % 89)),
    iif(i / 10 = @people / 3, '${rareName}', 'Doe' || (i / 10 % 97)),
    'person-' || (i / 10), 'family-' || (i / 20), 'person' || (i / 10) || '@people.test', at
  FROM said WHERE i % 10 = 0 AND i / 10 < @people;

INSERT INTO conversation (id, agent_id, person_id, channel, mode, status, ai_conversation_id, title, introduction,
    created_at, updated_at, last_message_at)
  SELECT printf('%08x-0000-7000-8000-00000000bbbb', c), @agent, printf('%08x-0000-7000-8000-00000000aaaa', c % @people),
    'email', 'ai', iif(c < @people, 'archived', 'active'), 'conv_' || c, 'Order ' || c || ' has not come',
    'Thank you for writing.', @begin + c * 10 * ${stepMs} - 1, max(at), max(at)
  FROM (SELECT c, at FROM said UNION ALL SELECT i / 10, at - 1 FROM said WHERE i % 10 = 0) GROUP BY c;

INSERT INTO message (id, conversation_id, sender_role, question_id, text, open, patient, created_at)
  SELECT id, printf('%08x-0000-7000-8000-00000000bbbb', c), iif(place % 2 = 1, 'conversation_user', 'assistant'),
    iif(place % 2 = 1, id, lag(id) OVER (PARTITION BY c ORDER BY i)),
    iif(place % 2 = 1, @question, 'Your order left our warehouse yesterday and should be with you by Friday.'), 0, 0, at
  FROM (SELECT *, printf('%08x-0000-7000-8000-00000000cccc', i) AS id, row_number() OVER (PARTITION BY c ORDER BY i) AS place
    FROM said) ORDER BY i;

CREATE TEMP TABLE used AS
  SELECT m.created_at AS at, c.person_id AS person, 0 AS opened, m.sender_role = 'assistant' AS answered
    FROM message m JOIN conversation c ON c.id = m.conversation_id
  UNION ALL SELECT created_at, person_id, 1, 0 FROM conversation;
`;

const usage = (scope: string, partition: string) => `
INSERT INTO usage (scope, at, conversations, calls, texts, mails, tokens, seconds, text_conversations,
    mail_conversations, questions)
  SELECT ${scope}, at, sum(opened) OVER total, 0, 0, sum(answered) OVER total, 100 * sum(answered) OVER total, 0, 0,
    sum(opened) OVER total, sum(answered) OVER total
  FROM used WINDOW total AS (${partition} ORDER BY at)`;

export function grow(file: string, messages: number): Grown {
  const db = openDatabase(file, "normal");
  db.pragma("synchronous = OFF");
  db.pragma("cache_size = -500000");
  const { id: agent } = defineAgent(db);
  const people = messages / 20;
  const values = { agent, messages, people, begin, question };
  db.transaction(() => {
    for (const statement of [...rows.split(";\n"), usage("@agent", ""), usage("person", "PARTITION BY person")])
      if (statement.trim() !== "") run(db, statement, values);
  })();
  const grown = { file, messages, people, conversations: messages / 10, ...samples(db) };
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
  return { ...grown, from: begin, until: begin + messages * stepMs };
}

function defineAgent(db: Db): { readonly id: string } {
  const agent = benchAgents()[0];
  if (!agent) throw new Error("the bench has no agent");
  const { id, name, keyHash, organization } = agent;
  prepareAgents(db).define([{ id, name, keyHash, organizationId: organization.id }]);
  return agent;
}

/** A statement takes only the values it names. */
function run(db: Db, statement: string, values: { readonly [name: string]: string | number }): void {
  const named = Object.entries(values).filter(([name]) => statement.includes(`@${name}`));
  db.prepare(statement).run(...(named.length > 0 ? [Object.fromEntries(named)] : []));
}

function samples(db: Db): Pick<Grown, "some" | "tens"> {
  const some = db
    .prepare<[], Grown["some"][number]>("SELECT id, fk_id AS fkId, fk_user_id AS fkUserId FROM person ORDER BY n")
    .all();
  const tens = db
    .prepare<[], string>("SELECT conversation_id FROM message GROUP BY conversation_id HAVING count(*) = 10")
    .pluck()
    .all();
  return { some: spread(some), tens: spread(tens) };
}

/** At most `samplesAtMost` of them, evenly. */
function spread<T>(list: readonly T[]): T[] {
  const step = Math.max(1, list.length / samplesAtMost);
  return Array.from({ length: Math.min(samplesAtMost, list.length) }, (_, n) => list[Math.floor(n * step)]).filter(
    (each) => each !== undefined,
  );
}
