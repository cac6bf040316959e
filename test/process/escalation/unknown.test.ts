// The daemon dies after the final dot of a notification and before its outcome is recorded. A reply to that mail is
// then handled as if it had been recorded: it is matched by the Message-ID alone, because nothing is quoted.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  dora,
  type EscalationSetup,
  type EscalationSetupOptions,
  type EscalationTestServers,
  emil,
  handing,
  type Mail,
  openEscalationSetup,
  reads,
  startEscalationServers,
} from "../../support/process/escalation/servers.ts";
import { readStored } from "../../support/process/mail/invariants.ts";
import { until, within } from "../../support/process/mail/scenario.ts";

/** The platform identifies users by their phone numbers, and every sender has one. */
const anna = "+12025570001";
const bert = "+12025570002";
const carl = "+12025570003";
/** A text that was on its way at the death is looked for at once. */
const plant = ["quick-looks"];

describe("a reply to a mail with an unknown outcome", () => {
  let servers: EscalationTestServers;
  beforeAll(async () => {
    servers = await startEscalationServers();
  });
  afterAll(() => servers?.close());

  const rows = ({ store }: EscalationSetup, sql: string) => readStored(store, sql);
  const notice = async (setup: EscalationSetup) =>
    (await rows(setup, "SELECT state, attempts FROM drafts WHERE channel = 'mail' ORDER BY id LIMIT 1"))[0];

  /** Emil's notification was sent, but the daemon did not record the outcome. */
  async function toldUnknown(setup: EscalationSetup, customer: string): Promise<Mail> {
    const first = await setup.start({ plant, killAt: "send.cross@mail:after:1" });
    await until("every channel reads", () => reads(first));
    await setup.api.receive({ from: customer, body: "I want a refund now." });
    expect(await within(first.ended)).toMatchObject({ signal: "SIGKILL" });
    await setup.start({ plant });
    await until("it is looked for", async () => (await notice(setup))?.["state"] === "unknown");
    await until("the customer and Dora know", () => [customer, dora.sms].every((one) => setup.texts(one).length > 0));
    const [mail] = await setup.mails(emil.email);
    if (!mail) throw new Error("nothing arrived");
    return mail;
  }

  async function inPlace(
    test: (setup: EscalationSetup) => Promise<void>,
    more: EscalationSetupOptions = {},
  ): Promise<void> {
    const setup = await openEscalationSetup(servers, { unknownWindow: "12h", ...more });
    try {
      await test(setup);
    } finally {
      await setup.close();
    }
  }

  it.concurrent("the human's text reaches the customer", { timeout: 600_000 }, () =>
    inPlace(async (setup) => {
      const mail = await toldUnknown(setup, anna);
      setup.write({ from: emil.email, text: "Your money is on its way.", answers: mail });
      await until("the customer has them", () => setup.texts(anna).length > 1);
      expect(setup.texts(anna)).toEqual([handing, "Your money is on its way."]);
      expect(await notice(setup)).toMatchObject({ state: "sent" });
      expect(await rows(setup, "SELECT state, acknowledged_by FROM escalations")).toEqual([
        { state: "acknowledged", acknowledged_by: emil.name },
      ]);
      expect(await rows(setup, "SELECT COUNT(*) AS count FROM conversations WHERE channel = 'mail'")).toEqual([
        { count: 1 },
      ]);
    }),
  );

  it.concurrent("a stranger's text is not relayed", { timeout: 600_000 }, () =>
    inPlace(async (setup) => {
      const mail = await toldUnknown(setup, bert);
      setup.write({ from: "mallory@elsewhere.test", text: "Send the money to me.", answers: mail });
      const heard = "SELECT state, code FROM events WHERE channel = 'mail' AND kind = 'message'";
      const ignored = [{ state: "ignored", code: "not-a-recipient" }];
      await until("it was heard", async () => JSON.stringify(await rows(setup, heard)) === JSON.stringify(ignored));
      setup.write({ from: emil.email, text: "It is on its way.", answers: mail });
      await until("Emil still is", () => setup.texts(bert).length > 1);
      expect(setup.texts(bert)).toEqual([handing, "It is on its way."]);
      expect(setup.peer.accepted.flatMap(({ to }) => to)).not.toContain("mallory@elsewhere.test");
    }),
  );

  it.concurrent("in doubt it is sent again soon, independent of other mails", { timeout: 600_000 }, () =>
    inPlace(
      async (setup) => {
        setup.peer.fail("dot", { kind: "reset" }, 1);
        const daemon = await setup.start({ plant: [...plant, "short-doubt"] });
        await until("every channel reads", () => reads(daemon));
        await setup.api.receive({ from: carl, body: "I want a refund now." });
        await until("Emil is told", () => setup.peer.accepted.some(({ to }) => to.includes(emil.email)));
        await until("it is noted", async () => (await notice(setup))?.["state"] === "sent");
        expect(await notice(setup)).toEqual({ state: "sent", attempts: 2 });
        // The next tier is notified as well, in a separate mail.
        const own = setup.peer.arrived.filter(({ to }) => to.includes(emil.email));
        const ids = own.map(({ messageId }) => messageId);
        expect([ids.length, new Set(ids).size], "the same mail").toEqual([2, 1]);
      },
      { onUnknown: "hold" },
    ),
  );
});
