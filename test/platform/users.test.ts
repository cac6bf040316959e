// Users are identified by fkId, email address and phone number, and recognized by each of them.

import { describe, expect, test } from "vitest";
import { keys, startByEmail, startTestPlatform, type TestPlatform } from "../support/platform/platform.ts";

const jo = { firstName: "Jo", lastName: "Doe" };

async function talking() {
  const platform = await startTestPlatform();
  const { call } = platform;
  /** The user of the conversation that the request starts. */
  const start = async (body: object, key = keys.support) => {
    const { conversationId } = (await call("POST", "conversations/start", body, key)).body;
    return (await call("GET", `conversations/${conversationId}`, undefined, key)).body.user;
  };
  return { ...platform, start };
}
const mail = (email: string, over: object = {}) => startByEmail(email, over);
const text = (phoneNumber: string, over: object = {}) => ({
  ...jo,
  channel: "sms",
  phoneNumber,
  smsIntroduction: "",
  ...over,
});
const count = async ({ call }: TestPlatform) => (await call("GET", "agents/users")).body.totalItems as number;

describe("a phone number", () => {
  test.each(["+1 (555) 010-0111", "+1-555-010-0111", "+1.555.010.0111"])(
    "written %s is the same number",
    async (written) => {
      const fixture = await talking();
      const first = await fixture.start(text("+15550100111"));
      expect(await fixture.start(text(written))).toMatchObject({ id: first.id, phoneNumber: "+15550100111" });
      expect(await fixture.call("POST", "users", { ...jo, phoneNumber: written })).toMatchObject({ status: 400 });
      const found = await fixture.call(
        "GET",
        `users/search?${new URLSearchParams({ phoneNumber: written }).toString()}`,
      );
      expect(found).toMatchObject({ status: 200, body: { user: { id: first.id } } });
      expect(await count(fixture)).toBe(1);
    },
  );

  test("that is invalid, imported without a check, stays as it was written", async () => {
    const { start, call } = await talking();
    const { id } = await start(text("ext. 12 (lobby)", { skipPhoneNumberValidation: true }));
    const query = new URLSearchParams({ phoneNumber: "ext. 12 (lobby)" }).toString();
    expect((await call("GET", `users/search?${query}`)).body.user).toMatchObject({
      id,
      phoneNumber: "ext. 12 (lobby)",
    });
  });
});

describe("a known person", () => {
  test("by their fkId has the address they have now", async () => {
    const fixture = await talking();
    const { id } = await fixture.start(mail("old@people.test", { fkId: "7", phoneNumber: "+15550100" }));
    expect(await fixture.start(mail("new@people.test", { fkId: "7" }))).toMatchObject({
      id,
      email: "new@people.test",
      phoneNumber: "+15550100",
    });
    expect(await fixture.start(mail("new@people.test"))).toMatchObject({ id, fkId: "7" });
    expect(await count(fixture)).toBe(1);
  });

  test("by one address keeps the other, and gets the one that was missing", async () => {
    const fixture = await talking();
    const { id } = await fixture.start(mail("jo@people.test"));
    expect(await fixture.start(text("+15550101", { email: "JO@people.test" }))).toMatchObject({
      id,
      phoneNumber: "+15550101",
    });
    expect(await fixture.start(text("+15550101", { email: "desk@people.test", fkId: "7" }))).toMatchObject({
      id,
      email: "jo@people.test",
      fkId: "7",
    });
    expect(await count(fixture)).toBe(1);
  });

  test("keeps their name when no new one is given", async () => {
    const { start } = await talking();
    await start(mail("jo@people.test"));
    expect(await start(mail("jo@people.test", { firstName: "", lastName: "" }))).toMatchObject(jo);
    expect(await start(mail("jo@people.test", { firstName: "Johanna", lastName: "" }))).toMatchObject({
      firstName: "Johanna",
      lastName: "",
    });
  });
});

describe("of two people whom one request names", () => {
  test("the fkId's is meant, and the other keeps their address", async () => {
    const fixture = await talking();
    const keyed = await fixture.start(text("+15550101", { fkId: "7" }));
    const other = await fixture.start(mail("al@people.test"));
    const meant = await fixture.start(mail("al@people.test", { fkId: "7" }));
    expect(meant.id).toBe(keyed.id);
    expect(meant).not.toHaveProperty("email");
    expect(await fixture.start(mail("al@people.test"))).toMatchObject({ id: other.id });
    expect(await count(fixture)).toBe(2);
  });

  test("the e-mail address's is meant before the phone number's", async () => {
    const fixture = await talking();
    const byMail = await fixture.start(mail("al@people.test"));
    const byPhone = await fixture.start(text("+15550101"));
    const meant = await fixture.start(text("+15550101", { email: "al@people.test" }));
    expect(meant.id).toBe(byMail.id);
    expect(meant).not.toHaveProperty("phoneNumber");
    expect(await fixture.start(text("+15550101"))).toMatchObject({ id: byPhone.id });
  });
});

test("another agent has none of them", async () => {
  const { start } = await talking();
  const request = mail("jo@people.test", { fkId: "7", phoneNumber: "+15550101" });
  const first = await start(request);
  expect((await start(request, keys.sales)).id).not.toBe(first.id);
});
