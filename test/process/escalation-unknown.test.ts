// The daemon dies after the final dot of a notification and before its outcome is recorded. A reply to that mail is
// then handled as if it had been recorded: it is matched by the Message-ID alone, because nothing is quoted.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readStore } from "../support/process/escalation/invariants.ts";
import {
  dora,
  type EscalationPlace,
  type EscalationWorld,
  emil,
  handing,
  type Mail,
  openPlace,
  type PlaceOptions,
  reads,
  startEscalationWorld,
} from "../support/process/escalation/servers.ts";
import { until, within } from "../support/process/mail/scenario.ts";

/** The platform knows people by their numbers, and all the world has one. */
const anna = "+12025570001";
const bert = "+12025570002";
const carl = "+12025570003";
/** A text that was on its way at the death is looked for at once. */
const plant = ["quick-looks"];

describe("an answer to a mail of which nobody knows whether it went out", () => {
  let world: EscalationWorld;
  beforeAll(async () => {
    world = await startEscalationWorld();
  });
  afterAll(() => world?.close());

  const rows = (place: EscalationPlace, sql: string) => readStore(place, (db) => db.prepare(sql).all());
  const notice = (place: EscalationPlace) =>
    rows(place, "SELECT state, attempts FROM drafts WHERE channel = 'mail' ORDER BY id LIMIT 1")[0];

  /** Emil was told, and the daemon does not know it. */
  async function toldUnknown(place: EscalationPlace, customer: string): Promise<Mail> {
    const first = await place.start({ plant, killAt: "send.cross@mail:after:1" });
    await until("every channel reads", () => reads(first));
    await place.api.receive({ from: customer, body: "I want a refund now." });
    expect(await within(first.ended, 90_000)).toMatchObject({ signal: "SIGKILL" });
    await place.start({ plant });
    await until("it is looked for", () => (notice(place) as { state: string }).state === "unknown");
    await until("the customer and Dora know", () => [customer, dora.sms].every((one) => place.texts(one).length > 0));
    const [mail] = await place.mails(emil.email);
    if (!mail) throw new Error("nothing arrived");
    return mail;
  }

  async function inPlace(test: (place: EscalationPlace) => Promise<void>, more: PlaceOptions = {}): Promise<void> {
    const place = await openPlace(world, { unknownWindow: "12h", ...more });
    try {
      await test(place);
    } finally {
      await place.close();
    }
  }

  it.concurrent("the human's words reach the customer", { timeout: 300_000 }, () =>
    inPlace(async (place) => {
      const mail = await toldUnknown(place, anna);
      place.write({ from: emil.email, text: "Your money is on its way.", answers: mail });
      await until("the customer has them", () => place.texts(anna).length > 1);
      expect(place.texts(anna)).toEqual([handing, "Your money is on its way."]);
      expect(notice(place)).toMatchObject({ state: "sent" });
      expect(rows(place, "SELECT state, acknowledged_by FROM escalations")).toEqual([
        { state: "acknowledged", acknowledged_by: emil.name },
      ]);
      expect(rows(place, "SELECT COUNT(*) AS count FROM conversations WHERE channel = 'mail'")).toEqual([{ count: 1 }]);
    }),
  );

  it.concurrent("a stranger's words reach nobody", { timeout: 300_000 }, () =>
    inPlace(async (place) => {
      const mail = await toldUnknown(place, bert);
      place.write({ from: "mallory@elsewhere.test", text: "Send the money to me.", answers: mail });
      const heard = "SELECT state, code FROM events WHERE channel = 'mail' AND kind = 'message'";
      const ignored = [{ state: "ignored", code: "not-a-recipient" }];
      await until("it was heard", () => JSON.stringify(rows(place, heard)) === JSON.stringify(ignored));
      place.write({ from: emil.email, text: "It is on its way.", answers: mail });
      await until("Emil still is", () => place.texts(bert).length > 1);
      expect(place.texts(bert)).toEqual([handing, "It is on its way."]);
      expect(place.peer.accepted.flatMap(({ to }) => to)).not.toContain("mallory@elsewhere.test");
    }),
  );

  it.concurrent("in doubt it is sent again, and soon, whatever becomes of other mails", { timeout: 300_000 }, () =>
    inPlace(
      async (place) => {
        place.peer.fail("dot", { kind: "reset" }, 1);
        const daemon = await place.start({ plant: [...plant, "short-doubt"] });
        await until("every channel reads", () => reads(daemon));
        await place.api.receive({ from: carl, body: "I want a refund now." });
        await until("Emil is told", () => place.peer.accepted.some(({ to }) => to.includes(emil.email)));
        await until("it is noted", () => (notice(place) as { state: string }).state === "sent");
        expect(notice(place)).toEqual({ state: "sent", attempts: 2 });
        // The next tier, which is told as well, gets a mail of its own.
        const own = place.peer.arrived.filter(({ to }) => to.includes(emil.email));
        const ids = own.map(({ messageId }) => messageId);
        expect([ids.length, new Set(ids).size], "the same mail").toEqual([2, 1]);
      },
      { onUnknown: "hold" },
    ),
  );
});
