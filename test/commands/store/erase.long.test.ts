// erase and export of one person while the daemon runs: nothing of the person remains in the store's files, other
// people's data does, and an opt-out still holds.

import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { copyStore } from "../../../src/store/backup.ts";
import type { Query } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { erasePerson } from "../../../src/store/person/erase.ts";
import { findPerson } from "../../../src/store/person/find.ts";
import { finishFile } from "../../../src/store/person/finish.ts";
import { countInFile, eraseInColumns } from "../../../src/store/person/mentions.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { suppress, suppression, suppressionOrHash } from "../../../src/store/tables/suppressions.ts";
import { eventually } from "../../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import {
  addParticipant,
  conversation,
  draft,
  event,
  insertEvent,
  postgresDatabase,
  sqliteDatabase,
  turn,
} from "../../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());

/** What must not remain: the address, the name, and the texts. */
const canaries = ["anna.canary@customer.example", "anna canarysson", "zebra-question", "zebra-file"];

describeReal("erase and export", missing, () => {
  let dovecot: Dovecot;
  let postgres: SharedPostgres;
  beforeAll(async () => {
    [dovecot, postgres] = await Promise.all([startDovecot({ users: ["erasing"] }), sharedPostgres()]);
  });
  afterAll(async () => {
    await dovecot?.dispose();
  });

  const storeOf = (file: string) => join(dirname(file), "bridgehead.db");
  const remaining = (file: string) =>
    [storeOf(file), `${storeOf(file)}-wal`].flatMap((path) =>
      canaries.filter((text) => countInFile(path, [text]) > 0).map((text) => `${path}: ${text}`),
    );

  const anna = (daemon: MailDaemon, text: string) => `From: "Anna Canarysson" <Anna.Canary@customer.example>
To: ${daemon.address}
Cc: bob@customer.example
Subject: zebra-question
Message-ID: <${text.replace(/\W+/g, "-")}@customer.example>
Date: ${new Date().toUTCString()}
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

zebra-question ${text}
--b
Content-Type: text/plain; name=zebra-file.txt
Content-Disposition: attachment; filename=zebra-file.txt

zebra-file
--b--
`;

  it("erases one person while the daemon runs", async () => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "erasing",
    });
    const { file } = await daemon.config();
    const bob = await daemon.write({ from: "bob@customer.example" });
    await daemon.replyTo(bob);
    await daemon.deliver(anna(daemon, "one"));
    await eventually(async () => expect(await daemon.replies()).toHaveLength(2));
    // Another person's mail quotes the address.
    await daemon.write({
      from: "carl@customer.example",
      text: "Anna.Canary@customer.example told me to write",
    });
    await eventually(async () => expect(await daemon.replies()).toHaveLength(3));
    await daemon.app().db.tx(async (q) => {
      await q.run(
        `INSERT INTO escalations (id, number, about, conversation, channel, agent, state, cause, reason, entered_at, opened_at)
         SELECT 'e1', 1, id, id, channel, agent, 'open', 'topic', 'zebra-question of Anna Canarysson', 1, 1 FROM conversations
         WHERE person = 'anna.canary@customer.example'`,
      );
      await q.run(
        "INSERT INTO triggers (key, escalation, source, detail, recorded_at) VALUES ('k', 'e1', 'mode', 'zebra-question', 1)",
      );
    });
    mkdirSync(join(dirname(file), "backups"));
    copyStore(storeOf(file), join(dirname(file), "backups/monday.db"), null, standardTiming.sqlite.busy);

    const folder = join(dirname(file), "anna");
    const person = ["--person", "Anna.Canary@customer.example", "--config", file];
    expect(await bridgehead(["export", ...person, "--to", folder])).toMatchObject({ code: exitCodes.ok });
    const lines = readFileSync(join(folder, "data.jsonl"), "utf8").trim().split("\n");
    const tables = lines.map((line) => (JSON.parse(line) as { table: string }).table);
    expect(new Set(tables)).toEqual(
      new Set(["conversations", "participants", "messages", "files", "turns", "replies", "drafts", "escalations"]),
    );
    const files = readdirSync(folder).filter((name) => name !== "data.jsonl");
    expect(files.map((name) => readFileSync(join(folder, name), "utf8")).join()).toMatch(
      /zebra-question one[^]*zebra-file/,
    );
    expect(lines.join()).not.toContain("told me to write");

    // A question of the person is being asked when the command begins.
    daemon.model.hold();
    await daemon.deliver(anna(daemon, "two"));
    await eventually(async () =>
      expect(await daemon.rows("SELECT id FROM turns WHERE state = 'asking'")).toHaveLength(1),
    );
    await daemon.app().db.tx((q) => suppress(q, daemon.channel, "anna.canary@customer.example", "opted out"));
    const erasing = bridgehead(["erase", ...person, "--backups", join(dirname(file), "backups")]);
    daemon.model.release();
    const { code, out } = await erasing;
    expect(out).toContain("a search of the store and its log finds nothing");
    expect(out).toContain(`a backup still contains the address: ${join(dirname(file), "backups/monday.db")}`);
    expect(out).toContain("opt-outs stay, as keyed hashes");
    // Both mails are in one conversation of the platform.
    expect(out).toContain("the platform still has 1 conversation: delete them with --platform");
    expect([code, remaining(file)]).toEqual([exitCodes.ok, []]);
    expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "closed" }]);
    const kept = await daemon.rows<{ person: string }>(
      "SELECT person FROM conversations WHERE person <> '' ORDER BY person",
    );
    expect(kept.map((row) => row.person)).toEqual(["bob@customer.example", "carl@customer.example"]);
    const [quoted] = await daemon.rows<{ question: string }>(
      "SELECT question FROM turns WHERE person = 'carl@customer.example'",
    );
    expect(quoted?.question).toContain("[erased] told me to write");

    // The same mail is not accepted again, and a new one is stored without an answer: the person has opted out.
    const replies = (await daemon.replies()).length;
    await dovecot.changeUidValidity("erasing");
    await daemon.deliver(anna(daemon, "three"));
    const codes = "SELECT code FROM events WHERE code IN ('suppressed', 'duplicate') ORDER BY code";
    const expected = ["duplicate", "duplicate", "duplicate", "duplicate", "suppressed"].map((one) => ({
      code: one,
    }));
    await eventually(async () => expect(await daemon.rows(codes)).toEqual(expected));
    expect(await daemon.replies()).toHaveLength(replies);
    const more = await bridgehead(["erase", ...person, "--json"]);
    expect(more.err).toBe("");
    expect(JSON.parse(more.out)).toMatchObject({ searched: { remaining: 0 }, rows: { suppressions: 1 } });
    expect(remaining(file)).toEqual([]);
    expect(existsSync(storeOf(file))).toBe(true);
    const last = await daemon.write({ from: "bob@customer.example" });
    await daemon.replyTo(last);
  });

  it.each(["sqlite", "postgres"] as const)("keeps longer addresses that contain the person's (%s)", async (kind) => {
    const database = kind === "sqlite" ? await sqliteDatabase() : await postgresDatabase(postgres);
    const db = await database.open();
    await migrate(db);
    const [lee, ashlee] = ["lee@x.example", "ashlee@x.example"];
    const bodies = [
      `{"text":"Hi\\n${lee} and <mailto:${lee}>, LEE@x.example."}`,
      `{"text":"${ashlee} ${lee}.au ${lee}s o\\n${ashlee}"}`,
    ];
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "c2", "c", ashlee);
      await turn(q, "t2", "c2", { person: ashlee });
      await addParticipant(q, "c2", `${lee}.au`);
      for (const [index, body] of bodies.entries())
        await insertEvent(
          q,
          event(`e${index}`, {
            sender: ashlee,
            body,
            raw: { id: `b${index}`, bytes: Buffer.from(body) },
          }),
        );
      await suppress(q, "c", ashlee, "opted out");
    });
    const records = await db.read((q) => findPerson(q, [lee]));
    const { rows, kept } = await erasePerson(db, records, () => undefined, standardTiming);
    expect(rows).toMatchObject({ conversations: 0, messages: 0, mentions: 2, suppressions: 0 });
    const found = await db.read(async (q) => ({
      people: await q.all("SELECT turns.person FROM turns JOIN conversations ON conversations.person = turns.person"),
      events: await q.all("SELECT sender, body FROM events ORDER BY id"),
      raw: await q.all("SELECT digest FROM raw_messages"),
      participants: await q.all("SELECT address FROM participants"),
    }));
    expect(found).toEqual({
      people: [{ person: ashlee }],
      events: [
        { sender: ashlee, body: '{"text":"Hi\\n[erased] and <mailto:[erased]>, [erased]."}' },
        { sender: ashlee, body: bodies[1] },
      ],
      raw: [{ digest: "b1" }],
      participants: [{ address: `${lee}.au` }],
    });
    if (database.file === undefined) return;
    expect(finishFile(database.file, [lee], false, kept, standardTiming.sqlite.busy)).toMatchObject({ remaining: 0 });
    expect(countInFile(database.file, [lee])).toBeGreaterThan(0);
    await db.tx((q) => turn(q, "t3", "c2", { person: lee }));
    expect(finishFile(database.file, [lee], false, kept, standardTiming.sqlite.busy).remaining).toBeGreaterThan(0);
  });

  it("searches a store whose database has thousands of other tables (postgres)", async () => {
    const copy = await postgres.copy();
    const db = await openPostgres(copy, { timing: { statement: 5000 } });
    onTestFinished(async () => {
      await db.close();
      await postgres.dropCopy(copy);
    });
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "c1", "c", "lee@x.example");
    });
    const columns = Array.from({ length: 16 }, (_, at) => `c${at}`);
    const fill = async (q: Query) => {
      await q.run("CREATE SCHEMA others");
      await q.run(`DO $$ BEGIN FOR i IN 1..4000 LOOP
        EXECUTE 'CREATE TABLE others.t' || i || ' (${columns.join(" int, ")} int, PRIMARY KEY (${columns.join()}))';
      END LOOP; END $$`);
    };
    await db.tx(fill, { unhurried: true });
    // The server cancels a statement after the 5 s above. A search of the whole catalogue for each column takes longer.
    expect(await eraseInColumns(db, ["lee@x.example"], new Set())).toBe(1);
    expect(await db.read((q) => q.all("SELECT person FROM conversations"))).toEqual([{ person: "[erased]" }]);
  });

  it.each(["sqlite", "postgres"] as const)("leaves no text of the person in any column (%s)", async (kind) => {
    const database = kind === "sqlite" ? await sqliteDatabase() : await postgresDatabase(postgres);
    const db = await database.open();
    await migrate(db);
    const address = "whatsapp:+15550111";
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "c1", "c", address);
      await conversation(q, "c2", "c", "whatsapp:+15550112");
      await turn(q, "t1", "c1", { person: address });
      await turn(q, "t2", "c2", { person: "whatsapp:+15550112" });
      await draft(q, "d1", "c1");
      await insertEvent(
        q,
        event("e1", {
          sender: address,
          body: '{"text":"hi"}',
          raw: { id: "b1", bytes: Buffer.from("hi") },
        }),
      );
      await insertEvent(q, event("e2", { sender: null, kind: "delivery", body: `{"to":"${address}"}` }));
      await suppress(q, "c", address, "opted out");
      await q.run(
        `INSERT INTO escalations (id, number, about, conversation, channel, agent, state, cause, reason, entered_at, opened_at, acknowledged_by)
           VALUES ('x1', 1, 'c1', 'c1', 'c', 'a', 'acknowledged', 'topic', 'the story', 1, 1, 'ben')`,
      );
      await addParticipant(q, "c2", address);
      await addParticipant(q, "c2", "+15550113");
      await q.run("UPDATE events SET conversation = 'c1', cited = '<the.person@pc>' WHERE external_id = 'e1'");
      await q.run(
        `INSERT INTO actions (action, actor, detail, channel, conversation, event, made_at)
           SELECT 'drop', 'ben', 'the person again', 'c', CASE WHEN external_id = 'e1' THEN 'c1' END, id, 1 FROM events`,
      );
    });
    const records = await db.read((q) => findPerson(q, ["+15550111"]));
    expect(records).toMatchObject({ addresses: ["+15550111", address], conversations: ["c1"] });
    await erasePerson(db, records, () => undefined, standardTiming);
    const found = await db.read(async (q) => ({
      turns: await q.all("SELECT id, state, question, person FROM turns ORDER BY id"),
      events: await q.all("SELECT external_id, state, body, sender FROM events ORDER BY id"),
      drafts: await q.all("SELECT state, body, recipient FROM drafts"),
      raw: await q.all("SELECT digest FROM raw_messages"),
      escalations: await q.all("SELECT state, reason, acknowledged_by FROM escalations"),
      participants: await q.all("SELECT conversation, address FROM participants"),
      cited: await q.all("SELECT cited FROM events WHERE cited IS NOT NULL"),
      actions: await q.all("SELECT conversation, detail FROM actions ORDER BY conversation"),
      open: await q.all("SELECT id FROM lanes WHERE conversation = 'c1' AND due_at IS NOT NULL"),
      hashed: await suppressionOrHash(q, "c", address),
      plain: await suppression(q, "c", address),
    }));
    expect(found).toEqual({
      turns: [
        { id: "t1", state: "dropped", question: "", person: "" },
        { id: "t2", state: "waiting", question: "question t2", person: "whatsapp:+15550112" },
      ],
      events: [
        { external_id: "e1", state: "ignored", body: "{}", sender: null },
        { external_id: "e2", state: "stored", body: '{"to":"whatsapp:[erased]"}', sender: null },
      ],
      drafts: [{ state: "dropped", body: "", recipient: "" }],
      raw: [],
      escalations: [{ state: "closed", reason: "", acknowledged_by: null }],
      participants: [{ conversation: "c2", address: "+15550113" }],
      cited: [],
      actions: expect.arrayContaining([
        { conversation: "c1", detail: null },
        { conversation: null, detail: "the person again" },
      ]),
      open: [],
      hashed: "they opted out, and were erased",
      plain: null,
    });
  });
});
