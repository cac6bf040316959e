// Several nodes on one mailbox and one PostgreSQL, killed at work: the remaining messages are handled, in order within
// each conversation, and nothing is asked or sent twice.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import type { Letter } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { type Daemon, startDaemon } from "../../support/process/daemon.ts";
import { needPostgres, type SharedPostgres, sharedPostgres, urlOfSchema } from "../../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());
const crowds = [2, 4];
const later = ["Second?", "Third?"];

describeReal("several nodes on PostgreSQL", missing, () => {
  let dovecot: Dovecot;
  let postgres: SharedPostgres;
  beforeAll(async () => {
    [dovecot, postgres] = await Promise.all([
      startDovecot({ users: crowds.map((count) => `nodes${count}`) }),
      sharedPostgres(),
    ]);
  });
  afterAll(async () => {
    await dovecot?.dispose();
  });

  it.concurrent.for(crowds)(
    "%d nodes, all but one killed while they ask: no conversation is out of order, nothing is lost or done twice",
    { timeout: 1_200_000 },
    async (count, { onTestFinished }) => {
      const schema = await postgres.schema();
      const daemon = await startMailDaemon(onTestFinished, {
        dovecot,
        user: `nodes${count}`,
        store: urlOfSchema(postgres, schema),
        platform: { timeout: "5s" },
        stopped: true,
      });
      const { file } = await daemon.config();
      const nodes: Daemon[] = [];
      for (let n = 0; n < count; n++) {
        const node = startDaemon({ config: file, env: daemon.env });
        onTestFinished(async () => {
          node.send("SIGKILL");
          await node.ended;
        });
        nodes.push(node);
        expect(await node.ready).toBe(true);
      }
      const letters: Letter[] = [];
      for (let n = 0; n < 8; n++) letters.push(await daemon.write({ from: `p${n}@customer.example` }));
      await eventually(() => expect(daemon.smtp.accepted).toHaveLength(8), 60_000);

      // All nodes but the last die while questions are being answered, with others waiting behind these.
      daemon.model.hold();
      for (const first of letters.slice(0, 8)) {
        for (const text of later)
          letters.push(await daemon.write({ from: first.from, answers: first, text: `${first.from} ${text}` }));
      }
      await eventually(() => expect(daemon.model.asked()).toBe(16), 60_000);
      for (const node of nodes.slice(0, -1)) node.send("SIGKILL");
      await Promise.all(nodes.slice(0, -1).map((node) => node.ended));
      daemon.model.release();
      for (let n = 0; n < 4; n++) letters.push(await daemon.write({ from: `late${n}@customer.example` }));
      await eventually(() => expect(daemon.smtp.accepted).toHaveLength(letters.length), 240_000);

      await nodes.at(-1)?.stop();
      await daemon.start();
      await daemon.settled(letters);
      const questions = daemon.questions();
      for (const conversation of new Set(questions.map((one) => one.conversation))) {
        const said = questions.filter((one) => one.conversation === conversation).map((one) => one.text);
        expect(said.slice(1).map((text) => text.split(" ").at(-1))).toEqual(said.length > 1 ? later : []);
      }
      const workers = await daemon.rows("SELECT DISTINCT node FROM attempts");
      expect(workers.length, "more than one node has worked").toBeGreaterThan(1);
    },
  );
});
